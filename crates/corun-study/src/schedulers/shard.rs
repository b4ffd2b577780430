//! A part of a study's runs (`corun.schedulers-shard/1`), made on one of several machines, and the merging of all parts.
//!
//! Runs of modelled machines are independent of each other. So the parts give the result of the whole, to the last bit; figures are
//! kept as bits. A part contains everything that its study is made of, so merging needs nothing else.

use super::outcome::Made;
use crate::study::{Place, Shard, StudyError, StudyFile, Wanted};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The schema of a part.
pub const SCHEMA: &str = "corun.schedulers-shard/1";

/// A part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of corun.
    pub corun: String,
    /// The command that makes the study in one piece.
    pub command: String,
    /// Which part it is.
    pub shard: Shard,
    /// The name of the study's file.
    pub file: String,
    /// Its text.
    pub text: String,
    /// The folder of other files.
    pub folder: PathBuf,
    /// Figures that the user asked for.
    pub figures: Vec<String>,
    /// Programs that the user asked for.
    pub programs: Vec<String>,
    /// The number of repetitions, if not that of the study.
    pub repetitions: Option<u32>,
    /// Whether `--quick` was given.
    pub quick: bool,
    /// The runs of each scenario that is in it.
    pub made: Vec<Scene>,
}

/// The runs of a scenario, one per seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// The number of the scenario in the study.
    pub number: usize,
    /// The speed of each tenant, as the bits of an `f64`.
    pub speed_bits: Vec<Vec<u64>>,
    /// The energy of each run, as bits. `None` if unknown.
    pub energy_bits: Vec<Option<u64>>,
}

impl Scene {
    fn of(number: usize, made: &[Made]) -> Scene {
        Scene {
            number,
            speed_bits: made.iter().map(|m| m.speeds.iter().map(|s| s.to_bits()).collect()).collect(),
            energy_bits: made.iter().map(|m| m.energy_j.map(f64::to_bits)).collect(),
        }
    }

    fn made(&self) -> Vec<Made> {
        let runs = self.speed_bits.iter().zip(&self.energy_bits);
        runs.map(|(speeds, energy)| Made {
            speeds: speeds.iter().map(|bits| f64::from_bits(*bits)).collect(),
            energy_j: energy.map(f64::from_bits),
        })
        .collect()
    }
}

impl Part {
    pub(super) fn new(shard: Shard, file: &StudyFile<'_>, wanted: &Wanted) -> Part {
        Part {
            schema: SCHEMA.into(),
            corun: String::new(),
            command: String::new(),
            shard,
            file: file.name.into(),
            text: file.text.into(),
            folder: file.folder.to_owned(),
            figures: wanted.figures.clone(),
            programs: wanted.programs.clone(),
            repetitions: wanted.repetitions,
            quick: wanted.quick,
            made: Vec::new(),
        }
    }

    pub(super) fn fill(&mut self, place: &Place, made: &[(usize, Vec<Made>)]) {
        self.corun = place.version.into();
        self.command.clone_from(&place.command);
        self.made = made.iter().map(|(number, made)| Scene::of(*number, made)).collect();
    }

    pub(super) fn wanted(&self) -> Wanted {
        Wanted {
            figures: self.figures.clone(),
            programs: self.programs.clone(),
            repetitions: self.repetitions,
            quick: self.quick,
            ..Wanted::default()
        }
    }

    /// The name of its file. All parts of a study go into one folder.
    pub(super) fn file_name(&self) -> String {
        format!("shard-{}-of-{}.json", self.shard.number, self.shard.of)
    }

    pub(super) fn sentence(&self) -> String {
        let Shard { number, of } = self.shard;
        let ran = self.made.len();
        format!(
            "Part {number} of {of}: {ran} scenarios were run. `corun study merge` puts all parts together.\n"
        )
    }

    /// The facts that all parts of a study share.
    fn facts(&self) -> [(&'static str, String); 5] {
        [
            ("version of corun", self.corun.clone()),
            ("number of parts", self.shard.of.to_string()),
            ("study", self.text.clone()),
            ("command", self.command.clone()),
            ("folder", self.folder.display().to_string()),
        ]
    }
}

/// Merges all parts. Returns one of them, and the runs of all scenarios in order.
pub(super) fn together(parts: &[(String, String)]) -> Result<(Part, Vec<Vec<Made>>), StudyError> {
    let usage = |what: String| StudyError::Usage(what);
    let mut read: Vec<(&String, Part)> = Vec::new();
    for (name, text) in parts {
        let part: Part = serde_json::from_str(text).map_err(|e| {
            usage(format!("{name} is not a part of a study: {e}; name a file that `--shard` wrote"))
        })?;
        if part.schema != SCHEMA {
            return Err(usage(format!("{name} has the schema {}, not {SCHEMA}", part.schema)));
        }
        if let Some((first, of_first)) = read.first() {
            let pairs = of_first.facts().into_iter().zip(part.facts());
            if let Some(((what, _), _)) = pairs.into_iter().find(|((_, was), (_, is))| was != is) {
                return Err(usage(format!(
                    "{first} and {name} differ in their {what}; merge parts of one study"
                )));
            }
        }
        if let Some((other, _)) = read.iter().find(|(_, p)| p.shard == part.shard) {
            return Err(usage(format!("{other} and {name} are the same part; name each once")));
        }
        read.push((name, part));
    }
    let Some(of) = read.first().map(|(_, part)| part.shard.of) else {
        return Err(usage("no part is named; name the files that `--shard` wrote".into()));
    };
    let is_there = |number: &u32| read.iter().any(|(_, part)| part.shard.number == *number);
    if let Some(missing) = (1..=of).find(|number| !is_there(number)) {
        return Err(usage(format!("part {missing} of {of} is missing; make it with --shard {missing}/{of}")));
    }
    let mut scenes: Vec<&Scene> = read.iter().flat_map(|(_, part)| &part.made).collect();
    scenes.sort_by_key(|scene| scene.number);
    if scenes.iter().enumerate().any(|(at, scene)| scene.number != at) {
        return Err(usage("the parts lack runs of their study; make them again".into()));
    }
    let made = scenes.into_iter().map(Scene::made).collect();
    let (_, first) = read.swap_remove(0);
    Ok((first, made))
}
