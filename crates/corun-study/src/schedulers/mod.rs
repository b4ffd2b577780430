//! The study of schedulers (`corun.schedulers-study/1`, `studies/schedulers.toml`): what papers show of their schedulers,
//! made again on modelled machines, beside the numbers that the papers state.
//!
//! Method. A figure is a machine, a scheduler, policies, and groups of programs that run together. Every program also runs
//! alone. With a `duration`, programs repeat and how fast each is counts as work by time; without one, all start together
//! and end once, and the time to the end of the first run counts. A **slowdown** is the mean speed alone over the mean
//! speed beside the others, both over the same seeds.
//!
//! | file | holds |
//! | --- | --- |
//! | [`mod@file`], `check` | the study as written, and as checked |
//! | [`scenarios`] | which programs run together, and the scenarios that say so |
//! | [`outcome`] | the runs, and what the figures show of them |
//! | [`text`] | tables, charts, record |

mod check;
pub mod file;
pub mod outcome;
pub mod presets;
pub mod scenarios;
pub mod text;

use crate::study::{named, only_of, Files, Listener, Place, Study, StudyError, StudyFile, Wanted};
use corun_report::json;
use corun_sim::experiment::Failure;
use file::SchedulersStudy;
use outcome::SchedulersOutcome;
use std::path::PathBuf;

struct Schedulers {
    study: SchedulersStudy,
    folder: PathBuf,
    outcome: SchedulersOutcome,
}

/// Opens a study of this kind.
///
/// # Errors
/// The file is wrong, or has not what is wanted.
pub fn open(file: &StudyFile<'_>, wanted: &Wanted) -> Result<Box<dyn Study>, StudyError> {
    let mut study = SchedulersStudy::parse(file.name, file.text, file.folder)?;
    select(&mut study, wanted)?;
    let folder = file.folder.to_owned();
    Ok(Box::new(Schedulers { study, folder, outcome: SchedulersOutcome::default() }))
}

impl Study for Schedulers {
    fn runs(&self) -> u64 {
        outcome::scenarios(&self.study) as u64
    }

    fn run(&mut self, place: &Place, listener: &mut Listener<'_>) -> Result<(), StudyError> {
        let made = outcome::run(&self.study, &self.folder, &|| (listener.done)(None));
        let figures = made.map_err(|failure| match failure {
            Failure::Scenario(bad) => StudyError::Usage(bad.to_string()),
            bug @ Failure::Bug { .. } => StudyError::Bug(bug.to_string()),
        })?;
        self.outcome = SchedulersOutcome {
            schema: outcome::SCHEMA.into(),
            corun: place.version.into(),
            study: self.study.name.clone(),
            about: self.study.about.clone(),
            figures,
        };
        Ok(())
    }

    fn json(&self) -> String {
        json::indented(&self.outcome)
    }

    fn text(&self) -> String {
        text::text(&self.outcome)
    }

    fn files(&self, command: &str) -> Files {
        named(text::files(&self.outcome, command))
    }
}

/// Leaves what is wanted: what is quick is the first of what was named.
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

/// Leaves what was named: figures, and of them groups and programs.
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
    fn what_is_quick_is_the_first_of_what_was_named() {
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
