//! The runs of the study of verdicts (`corun.verify-study/1`): how often `corun verify` calls a run on an idle machine disturbed, or a
//! disturbed run clean.
//!
//! Method. Short programs run under [`corun_session::Verify`], as under `corun verify`, alternately solo and with a co-runner, so that
//! drift affects both. Only the wall clock decides the truth, and the verdict does not use it. Let `slow_ns` be the 95th percentile of
//! the program's solo runs. A co-run of `wall_ns` was **noticeably** disturbed if `1 - slow_ns / wall_ns` reaches the study's
//! `noticeable`. A co-run below that is neither a hit nor a miss. A **miss** is a noticeable one called clean. A **false alarm** is a
//! solo run called disturbed, whatever its length was; the result also says how many of them were slow. A verdict that it cannot tell
//! is neither. The result counts these too.
//!
//! A solo run was on an **idle** machine if the CPU time of others, over all CPUs, was at most the allowed share of its length. Then
//! they cannot have disturbed it by more, and a verdict never says that they did. So there is no false alarm by construction. On other
//! solo runs, which are counted apart, an alarm may be right. Their number of alarms is the one to look at.
//!
//! Limits: the CPU time of others comes from the same ledger as the verdict. A co-runner that only slows memory down would be a miss,
//! as it should be.

use super::file::VerifyStudy;
use super::outcome::{Judged, VerifyOutcome};
use crate::programs::{Interferer, ProgramSetup};
use crate::session::{end, lead_session};
use crate::study::StudyError;
use corun_predict::verdict::Ruling;
use corun_session::{Stop, Verify, VerifyOptions};
use std::time::Duration;

/// The state that all runs of a study share.
pub struct VerifyRuns<'a> {
    study: &'a VerifyStudy,
    setup: &'a ProgramSetup,
    stop: &'a Stop,
}

impl<'a> VerifyRuns<'a> {
    /// Prepares runs. `stop` ends them early.
    pub fn new(study: &'a VerifyStudy, setup: &'a ProgramSetup, stop: &'a Stop) -> VerifyRuns<'a> {
        VerifyRuns { study, setup, stop }
    }

    /// How many runs [`VerifyRuns::run`] makes when nothing is skipped: for a progress bar.
    pub fn runs(study: &VerifyStudy) -> u64 {
        2 * u64::from(study.repetitions) * (study.programs.len() * study.corunners.len()) as u64
    }

    /// Makes all runs, in addition to existing ones. Calls `done` after each.
    ///
    /// # Errors
    /// [`StudyError::Interrupted`].
    pub fn run(&self, outcome: &mut VerifyOutcome, done: &mut dyn FnMut(&str)) -> Result<(), StudyError> {
        let mut ready = |all: &'a [Interferer]| -> Vec<&'a Interferer> {
            let mut ready = Vec::new();
            for one in all {
                match self.setup.prepare(&one.recipe) {
                    Ok(()) => ready.push(one),
                    Err(why) => outcome.skipped.push((one.name.clone(), why)),
                }
            }
            ready
        };
        let (programs, corunners) = (ready(&self.study.programs), ready(&self.study.corunners));
        outcome.skipped.sort();
        outcome.skipped.dedup();
        for repetition in 0..self.study.repetitions {
            for program in &programs {
                for (n, corunner) in corunners.iter().enumerate() {
                    for beside in [None, Some(*corunner)] {
                        // Every phase of a co-runner occurs equally often, even with few repetitions.
                        let step = u64::from(repetition) * corunners.len() as u64 + n as u64;
                        let run = self.once(program, beside, step);
                        if self.stop.is_asked() {
                            return Err(StudyError::Interrupted { signal: self.stop.signal() });
                        }
                        match run {
                            Ok(run) => outcome.runs.push(run),
                            Err(why) => outcome.skipped.push((program.name.clone(), why)),
                        }
                        done(&program.name);
                    }
                }
            }
        }
        Ok(())
    }

    fn once(&self, program: &Interferer, beside: Option<&Interferer>, step: u64) -> Result<Judged, String> {
        let _running = match beside {
            Some(corunner) => {
                let running = self.setup.start(&corunner.recipe).map_err(|e| e.to_string())?;
                // Multiples of the golden ratio spread evenly, for any number of steps.
                let more = (step as f64 * 0.618_033_988_75).fract();
                std::thread::sleep(Duration::from_nanos(
                    self.study.lead + (self.study.spread as f64 * more) as u64,
                ));
                Some(running)
            }
            None => None,
        };
        let mut command = self.setup.command(&program.recipe);
        lead_session(&mut command);
        let options =
            VerifyOptions { max_disturbance: self.study.max_disturbance, ..VerifyOptions::default() };
        let mut run = Verify::start(command, &options, self.stop).map_err(|e| e.to_string())?;
        let seen = run.by_ref().try_for_each(|window| window.map(drop));
        let run = run.finish();
        let status = run.command.map(end).transpose().map_err(|e| e.to_string())?;
        seen.map_err(|e| e.to_string())?;
        if let Some(failed) = status.filter(|status| !status.success()) {
            return Err(format!("it failed ({failed})"));
        }
        let found = run.verdict;
        Ok(Judged {
            program: program.name.clone(),
            beside: beside.map(|c| c.name.clone()),
            wall_ns: found.wall_ns,
            disturbance: found.disturbance,
            resolution: found.resolution,
            alarm: found.verdict == Ruling::Disturbed,
            unclear: found.verdict == Ruling::Unclear,
            corunners_ns: found.corunners_ns,
            watcher_ns: found.watcher_ns,
            culprit: found.culprits.into_iter().next().and_then(|c| c.tenant),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::VERIFY;
    use super::*;
    use std::path::Path;

    #[test]
    fn the_shipped_study_is_read_and_makes_enough_runs() {
        let study = VerifyStudy::parse("studies/verify.toml", VERIFY).unwrap();
        assert!(VerifyRuns::runs(&study) >= 400, "200 alone and 200 beside somebody");
        assert!(study.corunners.len() >= 4 && study.noticeable == 0.05);
    }

    #[test]
    fn a_missing_program_is_skipped_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (setup, stop) =
            (ProgramSetup::new(folder.path(), Path::new("/no/corun"), 1).unwrap(), Stop::new());
        let mut study = VerifyStudy::parse("v.toml", VERIFY).unwrap();
        study.programs.truncate(1);
        study.programs[0].recipe.prepare = None;
        study.programs[0].recipe.argv = vec!["no-such-program".into()];
        let mut outcome = VerifyOutcome::default();
        VerifyRuns::new(&study, &setup, &stop).run(&mut outcome, &mut |_| ()).unwrap();
        assert!(outcome.runs.is_empty());
        assert!(
            outcome.skipped.iter().any(|(_, why)| why.contains("is not installed")),
            "{:?}",
            outcome.skipped
        );
    }
}
