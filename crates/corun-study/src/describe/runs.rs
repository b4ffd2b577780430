//! The runs of the study of programs (`corun.programs-study/1`).
//!
//! Method. One solo run of a program is recorded (`corun record`), again if other programs took something from it. That run is
//! described ([`super::choice`]). Then the program runs live solo and with each interferer in turn. The description does the same on
//! the modelled machine. So no description has seen a co-run.
//!
//! Limits. The run log shows who waits, for how long, and who ends the wait. So threads that spin while they wait seem to compute, and
//! taking a free lock is not seen. Memory is not measured.

use super::choice::describe;
use super::file::DescribeStudy;
use super::modelled::{Bench, LEAD};
use super::outcome::{Beside, DescribeOutcome, ProgramOutcome, ALONE};
use super::seen::Seen;
use crate::programs::{Interferer as Given, Kind, Program, ProgramSetup, Recipe, Waits};
use crate::session::Session;
use crate::study::StudyError;
use crate::validate::cell::Interferer;
use corun_model::run_log::file::read;
use corun_session::Stop;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A program that takes longer is cut off.
const LIMIT: Duration = Duration::from_secs(300);
/// How often it is checked whether the study is to end.
const LOOK: Duration = Duration::from_millis(200);
/// Modelled runs of a co-run.
const SEEDS: u64 = 5;

/// The most attempts to record a solo run.
const TRIES: u32 = 3;

/// A recorded run.
struct Recorded {
    seen: Seen,
    events: u64,
    /// The share of the machine's CPU time that other programs had meanwhile.
    others: f64,
}

/// The state that all runs of a study share.
pub struct DescribeRuns<'a> {
    /// The study.
    pub study: &'a DescribeStudy,
    /// Inputs of its programs.
    pub setup: &'a ProgramSetup,
    /// The path of the corun executable.
    pub corun: &'a Path,
    /// The folder for recordings.
    pub scratch: &'a Path,
    /// The modelled machine.
    pub bench: &'a Bench,
    /// Ends the runs early.
    pub stop: &'a Stop,
}

impl DescribeRuns<'_> {
    /// The number of runs if nothing is skipped.
    pub fn runs(study: &DescribeStudy) -> u64 {
        let repetitions = u64::from(study.repetitions) * (1 + study.interferers.len() as u64);
        study.programs().len() as u64 * (1 + if study.interferers.is_empty() { 0 } else { repetitions })
    }

    /// Makes all runs. Calls `done` after each run, and `keep` after each program.
    ///
    /// # Errors
    /// [`StudyError`].
    pub fn run(
        &self,
        outcome: &mut DescribeOutcome,
        done: &dyn Fn(&str),
        keep: &mut dyn FnMut(&DescribeOutcome),
    ) -> Result<(), StudyError> {
        for given in self.study.programs() {
            let name = given.name.clone();
            let mut found = ProgramOutcome {
                name: given.name.clone(),
                about: given.about.clone(),
                recipe: given.recipe.clone(),
                ..ProgramOutcome::default()
            };
            let made = self.program(&given, &mut found, &|| done(&name));
            self.go_on()?;
            found.skipped = made.err();
            outcome.programs.push(found);
            keep(outcome);
        }
        Ok(())
    }

    fn go_on(&self) -> Result<(), StudyError> {
        match self.stop.is_asked() {
            true => Err(StudyError::Interrupted { signal: self.stop.signal() }),
            false => Ok(()),
        }
    }

    fn program(&self, given: &Given, found: &mut ProgramOutcome, done: &dyn Fn()) -> Result<(), String> {
        self.setup.prepare(&given.recipe)?;
        let Recorded { seen, events, others } = self.calmest(&given.recipe)?;
        done();
        let is = describe(&seen, self.bench)?;
        found.others = others;
        (found.events, found.workload) = (events, is.workload(&given.name, &given.about, &given.recipe.argv));
        found.is = Some(is);
        found.beside = self
            .study
            .interferers
            .iter()
            .map(|i| Beside { interferer: i.name(), ..Beside::default() })
            .collect();
        for (beside, interferer) in found.beside.iter_mut().zip(&self.study.interferers) {
            let (alone_ns, slowdown) = self.bench.slowdown(&found.workload, interferer, SEEDS)?;
            (found.modelled_alone_ns, beside.modelled) = (Some(alone_ns), Some(slowdown));
        }
        if found.beside.is_empty() {
            return Ok(());
        }
        for _ in 0..self.study.repetitions {
            found.alone_ns.push(self.once(given, None)?);
            done();
            for (beside, interferer) in found.beside.iter_mut().zip(&self.study.interferers) {
                beside.live_ns.push(self.once(given, Some(interferer))?);
                done();
            }
        }
        Ok(())
    }

    /// Records until a run was really solo. Returns that run, or the one that lost least to other programs.
    fn calmest(&self, recipe: &Recipe) -> Result<Recorded, String> {
        let mut best = self.recorded(recipe)?;
        for _ in 1..TRIES {
            if best.others <= ALONE {
                break;
            }
            let again = self.recorded(recipe)?;
            if again.others < best.others {
                best = again;
            }
        }
        Ok(best)
    }

    /// Records a solo run, event by event.
    fn recorded(&self, recipe: &Recipe) -> Result<Recorded, String> {
        let (file, said) = (self.scratch.join("run.rec"), self.scratch.join("said"));
        let failed = |what: &str, e: &dyn std::fmt::Display| format!("{what}: {e}");
        let program = self.setup.command(recipe);
        let stderr = std::fs::File::create(&said).map_err(|e| failed("making a temporary file", &e))?;
        let mut record = Command::new(self.corun);
        record
            .args(["record", "--quiet", "-o"])
            .arg(&file)
            .arg("--")
            .arg(program.get_program())
            .args(program.get_args());
        record.envs(&recipe.env).stderr(stderr);
        let _ = std::fs::remove_file(&file);
        let mut session = Session::start(record).map_err(|e| failed("recording it", &e))?;
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = session.ends_within(Some(LOOK)).map_err(|e| failed("recording it", &e))? {
                break status;
            }
            if self.stop.is_asked() || begin.elapsed() > LIMIT {
                return Err(format!("it had not ended after {} s; give it less to do", LIMIT.as_secs()));
            }
        };
        let Ok(bytes) = std::fs::read(&file) else {
            let said = std::fs::read_to_string(&said).unwrap_or_default();
            return Err(format!(
                "it could not be recorded: {}",
                said.trim().lines().last().unwrap_or("corun record printed nothing")
            ));
        };
        if !status.success() {
            return Err(format!("it failed ({status})"));
        }
        let log = read(&bytes).map_err(|e| failed("reading its recording", &e))?;
        let lost: u64 = log.windows.iter().map(|w| w.log.lost).sum();
        if lost > 0 {
            return Err(format!("its recording has a hole: {lost} events found no room"));
        }
        let (seen, events) = Seen::of(log.windows.iter().map(|w| &w.log));
        let ran_ns: u64 = log.windows.iter().flat_map(|w| &w.co_runners).map(|other| other.ran_ns).sum();
        let cpus = log.windows.last().map_or(0, |w| w.log.cpus.len());
        let others = ran_ns as f64 / (log.length_ns() * cpus as u64).max(1) as f64;
        Ok(Recorded { seen, events, others })
    }

    /// The length of one run, in nanoseconds.
    fn once(&self, given: &Given, beside: Option<&Interferer>) -> Result<u64, String> {
        if self.stop.is_asked() {
            return Err("interrupted".into());
        }
        let program = Program {
            name: given.name.clone(),
            about: given.about.clone(),
            kind: Kind::Real,
            waits: Waits::Alone,
            solo: 0,
            recipe: given.recipe.clone(),
        };
        let beside = beside.map(|i| {
            let mut argv =
                ["{corun}", "load", &*i.pattern, "--quiet", "--threads"].map(String::from).to_vec();
            argv.push(i.threads.to_string());
            argv.extend(i.demand.map(|demand| format!("--demand={demand}")));
            Given { name: i.name(), about: String::new(), recipe: Recipe { argv, ..Recipe::default() } }
        });
        let beside = beside.as_ref().map(|i| (i, LEAD));
        let run = self.setup.run(&program, beside, LIMIT).map_err(|e| e.to_string())?;
        match run.is_good() {
            true => Ok(run.wall_ns),
            false => Err("it failed, or did not end, in a later run".into()),
        }
    }
}
