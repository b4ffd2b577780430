//! The study of predictions (`corun.pairs/1`, `studies/predict.toml`): the error of predictions made in the first third of a run.
//!
//! | file | holds |
//! | --- | --- |
//! | [`mod@file`] | the study as written |
//! | [`runs`] | the method, and the runs |
//! | [`mod@again`] | its co-runs predicted again from the windows that it kept |
//! | [`alone`] | the solo length of a program, and its error |
//! | [`outcome`] | the result |
//! | [`windows`] | the windows of a co-run, as a record keeps them |
//! | [`text`] | tables and record |
//! | [`facts`] | the facts that documents may quote |

pub mod again;
pub mod alone;
pub mod facts;
pub mod file;
pub mod outcome;
pub mod runs;
pub mod text;
pub mod windows;

use crate::programs::Catalogue;
use crate::study::{added_to, named, only, Files, Listener, Place, Study, StudyError, StudyFile, Wanted};
use corun_report::json;
use file::Pairs;
use outcome::{PredictOutcome, SCHEMA};
use runs::PredictRuns;
use std::path::PathBuf;

struct Predict {
    study: Pairs,
    known: Catalogue,
    recordings: Option<PathBuf>,
    earlier: Option<PredictOutcome>,
    outcome: PredictOutcome,
}

/// Opens a study of this kind.
///
/// # Errors
/// The file has an error, or lacks what the user asked for.
pub fn open(file: &StudyFile<'_>, wanted: &Wanted) -> Result<Box<dyn Study>, StudyError> {
    let known = Catalogue::own();
    let mut study = Pairs::parse(file.name, file.text, &known)?;
    only(&mut study.programs, &wanted.programs, "program")?;
    only(&mut study.interferers, &wanted.interferers, "interferer")?;
    study.repetitions = wanted.repetitions.unwrap_or(study.repetitions);
    let earlier = wanted.to_add_to()?;
    let (recordings, outcome) = (wanted.recordings.clone(), PredictOutcome::default());
    Ok(Box::new(Predict { study, known, recordings, earlier, outcome }))
}

impl Study for Predict {
    fn runs(&self) -> u64 {
        PredictRuns::runs(&self.study)
    }

    fn run(&mut self, place: &Place, listener: &mut Listener<'_>) -> Result<(), StudyError> {
        let setup = place.setup()?.with_length(self.study.length);
        let at = place.circumstances()?;
        let new = PredictOutcome {
            head: place.record_head(SCHEMA, &at),
            known_to: self.study.known_to,
            restarting: self.study.restarting.clone(),
            shares: at.shares.into(),
            ..PredictOutcome::default()
        };
        self.outcome = added_to(new, self.earlier.take(), PredictOutcome::differs_from)?;
        let stop = place.stop()?;
        let runs = PredictRuns::new(&self.study, &self.known, &setup, &stop);
        runs.recording(self.recordings.as_deref())
            .run(&mut self.outcome, &mut |what| (listener.done)(Some(what)))
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
