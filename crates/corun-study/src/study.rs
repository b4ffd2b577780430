//! The interface of every study: a file that is read, runs, and their results.
//!
//! A new study is a folder with a type that implements [`Study`], and a row of [`KINDS`](crate::kinds::KINDS).

use crate::circumstances::{Circumstances, RecordHead};
use crate::pace::pace;
use crate::programs::ProgramSetup;
use crate::study_file::BadStudy;
use corun_linux::Root;
use corun_report::places::unmade;
use corun_session::Stop;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A study's file.
#[derive(Clone, Copy, Debug)]
pub struct StudyFile<'a> {
    /// Its name in errors.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
    /// The folder that other files are relative to.
    pub folder: &'a Path,
}

/// An earlier result of a study.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// Its path.
    pub place: PathBuf,
    /// Its text.
    pub text: String,
}

/// What a user asks for. An empty list means all.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// A command that replaces the study's programs.
    pub command: Vec<String>,
    /// Programs.
    pub programs: Vec<String>,
    /// Interferers.
    pub interferers: Vec<String>,
    /// Policies.
    pub policies: Vec<String>,
    /// Groups of cells.
    pub groups: Vec<String>,
    /// Figures.
    pub figures: Vec<String>,
    /// The number of repetitions, if not that of the study.
    pub repetitions: Option<u32>,
    /// Whether to run only the least that shows something.
    pub quick: bool,
    /// The result that the runs are added to (`--more`).
    pub more: Option<Earlier>,
    /// The result of an earlier part of the study (`--after`).
    pub after: Option<Earlier>,
    /// The folder for the windows of every run.
    pub recordings: Option<PathBuf>,
    /// The part of the runs to make.
    pub shard: Option<Shard>,
}

/// A part of a study's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// The number of the part, from 1.
    pub number: u32,
    /// How many parts there are.
    pub of: u32,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let part = text.split_once('/').and_then(|(n, of)| Some((n.parse().ok()?, of.parse().ok()?)));
        match part {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err("it is not a shard; give one such as 2/8, the second of eight".into()),
        }
    }
}

impl Shard {
    /// Whether run `run`, counted from 0, belongs to this part.
    pub fn has(self, run: usize) -> bool {
        run % self.of as usize == self.number as usize - 1
    }
}

/// The environment of a study's runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// The path of the corun executable.
    pub corun: PathBuf,
    /// Its version.
    pub version: &'static str,
    /// The date, for people.
    pub date: String,
    /// The folder of the programs' inputs.
    pub inputs: PathBuf,
    /// The command that makes the same record again.
    pub command: String,
}

/// Why a study does not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The user asked for something that does not exist: one sentence with the remedy.
    #[error("{0}")]
    Usage(String),
    /// Nothing in the study matches all the given words.
    #[error("no run of the study matches; give words from names such as `{such_as}`")]
    NothingLeft {
        /// The name of something that it contains.
        such_as: &'static str,
    },
    /// The machine failed to do something.
    #[error("{0}")]
    Failed(String),
    /// A bug in corun: a checker of the modelled machine fired.
    #[error("{0}")]
    Bug(String),
    /// The user ended it.
    #[error("interrupted")]
    Interrupted {
        /// The signal, if a signal did.
        signal: Option<i32>,
    },
}

impl From<BadStudy> for StudyError {
    fn from(bad: BadStudy) -> StudyError {
        StudyError::Usage(bad.to_string())
    }
}

/// The files of a record, by name.
pub type Files = Vec<(PathBuf, String)>;

/// Gets the progress of a study.
pub struct Listener<'a> {
    /// Called after every run, with a description of it.
    pub done: &'a (dyn Fn(Option<&str>) + Sync),
    /// Called with the record so far, so that the runs of an interrupted study are not lost.
    pub keep: &'a mut dyn FnMut(Files),
}

/// A study of one kind, reduced to what the user asked for.
pub trait Study {
    /// The number of runs if nothing is skipped.
    fn runs(&self) -> u64;

    /// Makes all runs.
    ///
    /// # Errors
    /// [`StudyError`].
    fn run(&mut self, place: &Place, listener: &mut Listener<'_>) -> Result<(), StudyError>;

    /// The result as JSON.
    fn json(&self) -> String;

    /// The result as words and tables.
    fn text(&self) -> String;

    /// The result as the files of a record. `command` is the command that makes the record again.
    fn files(&self, command: &str) -> Files;

    /// Checks, after the result was shown, that it can be right.
    ///
    /// # Errors
    /// [`StudyError::Failed`].
    fn fault(&self) -> Result<(), StudyError> {
        Ok(())
    }
}

impl Place {
    /// The programs' inputs, with the pace of this machine.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn setup(&self) -> Result<ProgramSetup, StudyError> {
        let failed = |e| {
            let (inputs, why) = (self.inputs.display(), unmade(&self.inputs, &e));
            StudyError::Usage(format!("--inputs: cannot make the folder {inputs}: {why}"))
        };
        ProgramSetup::new(&self.inputs, &self.corun, pace()).map_err(failed)
    }

    /// The machine on which the runs are made.
    ///
    /// # Errors
    /// The machine's shape cannot be read.
    pub fn circumstances(&self) -> Result<Circumstances, StudyError> {
        Circumstances::read(&Root::new("/")).map_err(StudyError::Failed)
    }

    /// The signals that end the runs of this process early, such as Ctrl-C.
    ///
    /// # Errors
    /// The kernel's error; none is expected.
    pub fn stop(&self) -> Result<Stop, StudyError> {
        Stop::on_signals().map_err(|e| StudyError::Failed(format!("handling signals: {e}")))
    }

    /// The first fields of a record of runs that are made now.
    pub fn record_head(&self, schema: &str, at: &Circumstances) -> RecordHead {
        RecordHead {
            schema: schema.to_owned(),
            corun: self.version.to_owned(),
            date: Some(self.date.clone()),
            machine: at.machine.clone(),
            kernel: at.kernel.clone(),
        }
    }

    /// A temporary folder for the files of a run. It is removed when dropped.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn scratch(&self) -> Result<TempDir, StudyError> {
        tempfile::tempdir().map_err(|e| StudyError::Failed(format!("making a temporary folder: {e}")))
    }
}

impl Wanted {
    /// The result that the runs are added to, if any.
    ///
    /// # Errors
    /// The text is not such a result.
    pub fn to_add_to<T: DeserializeOwned>(&self) -> Result<Option<T>, StudyError> {
        let Some(Earlier { place, text }) = &self.more else { return Ok(None) };
        let no_result = |e| {
            let place = place.display();
            let remedy = "name another folder with --out";
            StudyError::Usage(format!(
                "--more adds to the runs in {place}, which is not such a result: {e}; {remedy}"
            ))
        };
        serde_json::from_str(text).map(Some).map_err(no_result)
    }

    /// The result of an earlier part, if any, with its path. `what` is the kind of study.
    ///
    /// # Errors
    /// The text is not such a result.
    pub fn to_go_on_from<T: DeserializeOwned>(&self, what: &str) -> Result<Option<(PathBuf, T)>, StudyError> {
        let Some(Earlier { place, text }) = &self.after else { return Ok(None) };
        let found = serde_json::from_str(text);
        let no_result = |e| StudyError::Usage(format!("{} is not a result of {what}: {e}", place.display()));
        Ok(Some((place.clone(), found.map_err(no_result)?)))
    }
}

/// The result that new runs are added to: `new`, or an earlier result that fits.
///
/// # Errors
/// The earlier runs were made differently; `differs_from` says how.
pub fn added_to<T>(
    new: T,
    earlier: Option<T>,
    differs_from: fn(&T, &T) -> Option<String>,
) -> Result<T, StudyError> {
    let Some(earlier) = earlier else { return Ok(new) };
    match differs_from(&new, &earlier) {
        None => Ok(earlier),
        Some(how) => Err(StudyError::Usage(format!(
            "the runs in --out were made differently ({how}); leave --more out, and name another folder"
        ))),
    }
}

/// Keeps the names that are `wanted`; all of them if `wanted` is empty.
///
/// # Errors
/// A wanted name does not exist.
pub fn only(names: &mut Vec<String>, wanted: &[String], what: &str) -> Result<(), StudyError> {
    only_of(names, |name| name, wanted, what)
}

/// Keeps the entries whose name is `wanted`; all of them if `wanted` is empty.
///
/// # Errors
/// A wanted name does not exist.
pub fn only_of<T>(
    all: &mut Vec<T>,
    name: impl Fn(&T) -> &String,
    wanted: &[String],
    what: &str,
) -> Result<(), StudyError> {
    if let Some(unknown) = wanted.iter().find(|w| !all.iter().any(|one| name(one) == *w)) {
        let all: Vec<&str> = all.iter().map(|one| name(one).as_str()).collect();
        let what = format!("the study has no {what} `{unknown}`; it has {}", all.join(", "));
        return Err(StudyError::Usage(what));
    }
    if !wanted.is_empty() {
        all.retain(|one| wanted.contains(name(one)));
    }
    Ok(())
}

/// The files of a record with their names as paths.
pub(crate) fn named<Name: Into<PathBuf>>(files: Vec<(Name, String)>) -> Files {
    files.into_iter().map(|(name, text)| (name.into(), text)).collect()
}
