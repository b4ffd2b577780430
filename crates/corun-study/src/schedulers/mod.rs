//! The study of schedulers (`corun.schedulers-study/1`, `studies/schedulers.toml`): figures of papers on schedulers, made again on
//! modelled machines, next to the stated numbers.
//!
//! Method. A figure has a machine, a scheduler, policies, and groups of programs that run together. Every program also runs solo. With
//! a `duration`, programs repeat, and their speed is work per time. Without one, all start together and end once, and their speed is 1
//! over the time to the end. A **slowdown** is the mean solo speed over the mean speed in the co-run, both over the same seeds.
//!
//! | file | holds |
//! | --- | --- |
//! | [`mod@file`], `check` | the study as written, and as checked |
//! | [`scenarios`] | which programs run together, and their scenarios |
//! | [`outcome`] | the runs, and the results of the figures |
//! | [`shard`] | a part of the runs, and all parts put together |
//! | [`text`] | tables, charts, record |

mod check;
pub mod file;
pub mod outcome;
pub mod presets;
pub mod scenarios;
pub mod shard;
pub mod text;

use crate::study::{named, only_of, Files, Listener, Place, Study, StudyError, StudyFile, Wanted};
use corun_report::json;
use corun_sim::experiment::Failure;
use file::SchedulersStudy;
use outcome::{FigureOutcome, SchedulersOutcome};
use shard::Part;
use std::path::PathBuf;

struct Schedulers {
    study: SchedulersStudy,
    folder: PathBuf,
    /// The part that is run. `None` for all.
    part: Option<Part>,
    outcome: SchedulersOutcome,
}

/// Opens a study of this kind.
///
/// # Errors
/// The file has an error, or lacks what the user asked for.
pub fn open(file: &StudyFile<'_>, wanted: &Wanted) -> Result<Box<dyn Study>, StudyError> {
    let study = chosen(file, wanted)?;
    let part = wanted.shard.map(|shard| Part::new(shard, file, wanted));
    let folder = file.folder.to_owned();
    Ok(Box::new(Schedulers { study, folder, part, outcome: SchedulersOutcome::default() }))
}

/// Reads the study of a file, and keeps what the user asked for.
fn chosen(file: &StudyFile<'_>, wanted: &Wanted) -> Result<SchedulersStudy, StudyError> {
    let mut study = SchedulersStudy::parse(file.name, file.text, file.folder)?;
    select(&mut study, wanted)?;
    Ok(study)
}

/// Merges the parts of a study, given by name and text. Also returns the command that makes the study in one piece.
///
/// # Errors
/// They are not parts, or not of one study, or some are missing.
pub fn merge(parts: &[(String, String)]) -> Result<(Box<dyn Study>, String), StudyError> {
    let (first, made) = shard::together(parts)?;
    let file = StudyFile { name: &first.file, text: &first.text, folder: &first.folder };
    let study = chosen(&file, &first.wanted())?;
    if made.len() != outcome::scenarios(&study) {
        return Err(StudyError::Usage("the parts lack runs of their study; make them again".into()));
    }
    let outcome = outcome_of(&study, &first.corun, outcome::figures(&study, made));
    Ok((Box::new(Schedulers { study, folder: first.folder, part: None, outcome }), first.command))
}

fn outcome_of(study: &SchedulersStudy, corun: &str, figures: Vec<FigureOutcome>) -> SchedulersOutcome {
    SchedulersOutcome {
        schema: outcome::SCHEMA.into(),
        corun: corun.into(),
        study: study.name.clone(),
        about: study.about.clone(),
        figures,
    }
}

impl Study for Schedulers {
    fn runs(&self) -> u64 {
        let all = 0..outcome::scenarios(&self.study);
        all.filter(|number| self.part.as_ref().is_none_or(|part| part.shard.has(*number))).count() as u64
    }

    fn run(&mut self, place: &Place, listener: &mut Listener<'_>) -> Result<(), StudyError> {
        let shard = self.part.as_ref().map(|part| part.shard);
        let is_wanted = |number| shard.is_none_or(|shard| shard.has(number));
        let made = outcome::make(&self.study, &self.folder, is_wanted, &|| (listener.done)(None));
        let made = made.map_err(|failure| match failure {
            Failure::Scenario(bad) => StudyError::Usage(bad.to_string()),
            bug @ Failure::Bug { .. } => StudyError::Bug(bug.to_string()),
        })?;
        match &mut self.part {
            Some(part) => part.fill(place, &made),
            None => {
                let figures = outcome::figures(&self.study, made.into_iter().map(|(_, made)| made).collect());
                self.outcome = outcome_of(&self.study, place.version, figures);
            }
        }
        Ok(())
    }

    fn json(&self) -> String {
        match &self.part {
            Some(part) => json::indented(part),
            None => json::indented(&self.outcome),
        }
    }

    fn text(&self) -> String {
        match &self.part {
            Some(part) => part.sentence(),
            None => text::text(&self.outcome),
        }
    }

    fn files(&self, command: &str) -> Files {
        match &self.part {
            Some(part) => named(vec![(part.file_name(), json::compact(part))]),
            None => named(text::files(&self.outcome, command)),
        }
    }
}

/// Keeps what the user asked for. `quick` keeps the first of what was named.
fn select(study: &mut SchedulersStudy, wanted: &Wanted) -> Result<(), StudyError> {
    only(study, wanted)?;
    if wanted.quick {
        study.make_quick();
    }
    if let Some(n) = wanted.repetitions {
        study.figures.iter_mut().for_each(|f| *f.repetitions.get_mut() = n.into());
    }
    Ok(())
}

/// Keeps the named figures, groups and programs.
fn only(study: &mut SchedulersStudy, wanted: &Wanted) -> Result<(), StudyError> {
    only_of(&mut study.figures, |f| f.name.as_ref(), &wanted.figures, "figure")?;
    if wanted.programs.is_empty() {
        return Ok(());
    }
    let known = |name: &String| {
        let groups = study.figures.iter().flat_map(|f| &f.groups).filter(|g| g.size.is_none());
        groups.flat_map(|g| &g.of).any(|p| p.as_ref() == name)
    };
    if let Some(unknown) = wanted.programs.iter().find(|p| !known(p)) {
        return Err(StudyError::Usage(format!(
            "no figure has pairs of `{unknown}` and another; name the first of a pair"
        )));
    }
    for figure in &mut study.figures {
        for group in &mut figure.groups {
            group.of.retain(|p| group.size.is_some() || wanted.programs.contains(p.as_ref()));
        }
        figure.groups.retain(|g| !g.of.is_empty());
    }
    study.figures.retain(|f| !f.groups.is_empty());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use file::SCHEDULERS;
    use std::path::Path;

    #[test]
    fn quick_keeps_the_first_of_the_named() {
        let (figures, programs) = (vec!["pact16-fig9".into()], vec!["facesim".into()]);
        let wanted = Wanted { quick: true, figures, programs, ..Wanted::default() };
        let mut study = SchedulersStudy::parse("schedulers", SCHEDULERS, Path::new("")).unwrap();
        select(&mut study, &wanted).unwrap();
        let [figure] = &study.figures[..] else { panic!("{:?}", study.figures) };
        assert_eq!(figure.groups.len(), 1);
        let of: Vec<&String> = figure.groups[0].of.iter().map(AsRef::as_ref).collect();
        assert_eq!(of, ["facesim"]);
    }
}
