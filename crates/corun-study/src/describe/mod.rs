//! The study of programs (`corun.programs-study/1`, `studies/describe.toml`): solo runs described as workload files, and how well these
//! predict co-runs.
//!
//! | file | holds |
//! | --- | --- |
//! | [`mod@file`] | the study as written |
//! | [`runs`] | the method, and the runs |
//! | [`seen`] | the activity of tasks, from a run log |
//! | [`mod@stretches`] | a run cut where the number of computing threads changes |
//! | [`traits`] | measurements of a stretch |
//! | [`mod@candidates`], [`choice`] | the possible workloads, and the choice |
//! | [`modelled`] | a described program on the modelled machine |
//! | [`outcome`], [`text`] | the result; tables and record |
//! | [`mod@facts`] | the facts that documents may quote |

pub mod candidates;
pub mod choice;
pub mod facts;
pub mod file;
pub mod modelled;
pub mod outcome;
pub mod runs;
pub mod seen;
pub mod stretches;
pub mod text;
pub mod traits;

#[cfg(test)]
mod known;

use crate::study::{only_of, Files, Listener, Place, Study, StudyError, StudyFile, Wanted};
use crate::this_machine::this_machine;
use corun_linux::sched::autogroups_are_on;
use corun_linux::Root;
use corun_model::Linux;
use corun_report::json;
use file::DescribeStudy;
use modelled::Bench;
use outcome::{DescribeOutcome, SCHEMA};
use runs::DescribeRuns;

struct Describe {
    study: DescribeStudy,
    outcome: DescribeOutcome,
}

/// Opens a study of this kind.
///
/// # Errors
/// The file has an error, or lacks what the user asked for.
pub fn open(file: &StudyFile<'_>, wanted: &Wanted) -> Result<Box<dyn Study>, StudyError> {
    let mut study = DescribeStudy::parse(file.name, file.text)?;
    if !wanted.command.is_empty() {
        study = study.with_command(wanted.command.clone());
    }
    let mut programs = study.programs();
    only_of(&mut programs, |p| &p.name, &wanted.programs, "program")?;
    study.keep(programs);
    study.repetitions = wanted.repetitions.unwrap_or(study.repetitions);
    if wanted.quick {
        study.interferers.clear();
    }
    Ok(Box::new(Describe { study, outcome: DescribeOutcome::default() }))
}

impl Study for Describe {
    fn runs(&self) -> u64 {
        DescribeRuns::runs(&self.study)
    }

    fn run(&mut self, place: &Place, listener: &mut Listener<'_>) -> Result<(), StudyError> {
        let root = Root::new("/");
        let (setup, at, stop, scratch) =
            (place.setup()?, place.circumstances()?, place.stop()?, place.scratch()?);
        let machine = this_machine(&root)
            .map_err(|e| StudyError::Failed(format!("reading the machine's shape: {e}")))?;
        // A kernel before EEVDF, or with its own name, is modelled as the usual one.
        let is_modelled = Linux::of(&at.kernel).is_some_and(|linux| linux >= Linux::FIRST_EEVDF);
        let kernel = if is_modelled { at.kernel.clone() } else { String::new() };
        let bench = Bench { machine, grouped: autogroups_are_on(&root), kernel };
        self.outcome = DescribeOutcome {
            head: place.record_head(SCHEMA, &at),
            shares: at.shares.into(),
            programs: Vec::new(),
        };
        let runs = DescribeRuns {
            study: &self.study,
            setup: &setup,
            corun: &place.corun,
            scratch: scratch.path(),
            bench: &bench,
            stop: &stop,
        };
        let done = |what: &str| (listener.done)(Some(what));
        let mut keep = |outcome: &DescribeOutcome| (listener.keep)(text::files(outcome, &place.command));
        runs.run(&mut self.outcome, &done, &mut keep)
    }

    fn json(&self) -> String {
        json::indented(&self.outcome)
    }

    fn text(&self) -> String {
        text::text(&self.outcome, false)
    }

    fn files(&self, command: &str) -> Files {
        text::files(&self.outcome, command)
    }

    fn fault(&self) -> Result<(), StudyError> {
        match &self.outcome.programs[..] {
            // The user asked for one program, and it has no result.
            [only] if only.is.is_none() => {
                let why = only.skipped.as_deref().unwrap_or("it was not run");
                Err(StudyError::Failed(format!("{}: {why}", only.name)))
            }
            _ => Ok(()),
        }
    }
}
