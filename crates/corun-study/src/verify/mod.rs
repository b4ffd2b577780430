//! The study of verdicts (`corun.verify-study/1`, `studies/verify.toml`): are the verdicts on short runs right?
//!
//! | file | holds |
//! | --- | --- |
//! | [`mod@file`] | the study as written |
//! | [`runs`] | the method, and the runs |
//! | [`outcome`] | the result: false alarms and misses |
//! | [`text`] | tables and record |
//! | [`facts`] | the facts that documents may quote |

pub mod facts;
pub mod file;
pub mod outcome;
pub mod runs;
pub mod text;

use crate::study::{added_to, named, only_of, Files, Listener, Place, Study, StudyError, StudyFile, Wanted};
use corun_report::json;
use file::VerifyStudy;
use outcome::{VerifyOutcome, SCHEMA};
use runs::VerifyRuns;

struct Verify {
    study: VerifyStudy,
    earlier: Option<VerifyOutcome>,
    outcome: VerifyOutcome,
}

/// Opens a study of this kind.
///
/// # Errors
/// The file has an error, or lacks what the user asked for.
pub fn open(file: &StudyFile<'_>, wanted: &Wanted) -> Result<Box<dyn Study>, StudyError> {
    let mut study = VerifyStudy::parse(file.name, file.text)?;
    only_of(&mut study.programs, |p| &p.name, &wanted.programs, "program")?;
    only_of(&mut study.corunners, |c| &c.name, &wanted.interferers, "co-runner")?;
    study.repetitions = wanted.repetitions.unwrap_or(study.repetitions);
    let earlier = wanted.to_add_to()?;
    Ok(Box::new(Verify { study, earlier, outcome: VerifyOutcome::default() }))
}

impl Study for Verify {
    fn runs(&self) -> u64 {
        VerifyRuns::runs(&self.study)
    }

    fn run(&mut self, place: &Place, listener: &mut Listener<'_>) -> Result<(), StudyError> {
        let setup = place.setup()?;
        let at = place.circumstances()?;
        let new = VerifyOutcome {
            head: place.record_head(SCHEMA, &at),
            shares: at.shares.into(),
            max_disturbance: self.study.max_disturbance,
            noticeable: self.study.noticeable,
            ..VerifyOutcome::default()
        };
        self.outcome = added_to(new, self.earlier.take(), VerifyOutcome::differs_from)?;
        let stop = place.stop()?;
        let runs = VerifyRuns::new(&self.study, &setup, &stop);
        runs.run(&mut self.outcome, &mut |what| (listener.done)(Some(what)))
    }

    fn json(&self) -> String {
        json::indented(&self.outcome)
    }

    fn text(&self) -> String {
        text::text(&self.outcome, false)
    }

    fn files(&self, command: &str) -> Files {
        named(text::files(&self.outcome, command))
    }
}
