//! The runs of the study of predictions (`studies/predict.toml`).
//!
//! Method. Every program runs with every interferer under [`corun_session::Predict`] with dedicated windows,
//! as under `corun predict --dedicated --counters`. These co-runs alternate with solo runs of the same
//! program, which are watched in the same way, so that watching makes no difference. The prediction that
//! counts is the last one made before a share of the co-run had passed (`predict-by`). It is compared with
//! the slowdown: the length of the whole co-run over that of the solo runs around it ([`super::alone`]). Both
//! are without the time in which the interferer was parked: the program ran alone then, and a longer
//! prediction would not have caused that. All predictors see the same co-run: useful work from dedicated
//! windows (measured by hardware counters if they exist and counting does not slow the program), the ledger
//! alone, CPU share, run-queue latency.
//!
//! No slowdown is known better than solo runs repeat. Every co-run that ran to its end counts. Those whose slowdown is known to
//! `known-to` also have a summary of their own. Intervals are compared with the measured slowdown, and with the range of possible ones.
//! With an interferer that starts again and again (`restarting`) the rest of a run is not like its first third, so these co-runs also
//! have their own summary.
//!
//! The last prediction of the run is compared with the same slowdown. It has seen the whole run, so its error is that of the method.
//! The additional error after the first third comes from the rest of the run being different.
//!
//! Limits: `foreign` is checked only before a run. CPU time that others take while it runs is part of the error.

use super::file::Pairs;
use super::outcome::{CoRun, PredictOutcome, Solo};
use super::windows::KeptWindows;
use crate::programs::{Catalogue, Interferer, Program, ProgramSetup};
use crate::session::{end, lead_session};
use crate::study::StudyError;
use corun_linux::cpustat::CpuStat;
use corun_linux::dedicated::Dedicated;
use corun_linux::{wake_up, Root};
use corun_predict::{Estimate, Method, Predictor, Recorded};
use corun_report::json;
use corun_session::predict::{Predicted, WakeUp};
use corun_session::subject_watch::Parking;
use corun_session::{Error, Predict, PredictOptions, Stop};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The length of a check of the machine before a run.
const LOOK: Duration = Duration::from_millis(150);

/// A run of a program.
struct Ran {
    /// All predictions, in order of time.
    estimates: Vec<EstimateAt>,
    wall_ns: u64,
    cut_off: bool,
    /// All windows of a co-run, in order of time.
    windows: Vec<Recorded>,
}

/// The predictions at one moment of a run.
#[derive(Clone, Debug)]
struct EstimateAt {
    elapsed_ns: u64,
    estimate: Option<Estimate>,
    /// The estimate without dedicated windows.
    ledger_alone: Option<Estimate>,
    parked_ns: Option<u64>,
}

impl EstimateAt {
    /// The present estimates; with `ended` those of the whole run.
    fn of(predict: &Predict, end_ns: u64, ended: bool) -> EstimateAt {
        let of = |p: &Predictor| if ended { p.so_far() } else { p.estimate() }.ok();
        EstimateAt {
            elapsed_ns: end_ns.saturating_sub(predict.begin_ns()),
            estimate: of(predict.predictor()),
            ledger_alone: predict.ledger_alone().and_then(of),
            parked_ns: predict.found().map(|found| found.parked_ns),
        }
    }

    fn slowdown(&self) -> Option<f64> {
        self.estimate.as_ref().map(|e| e.slowdown)
    }

    /// The estimate of each of [`PREDICTORS`](super::outcome::PREDICTORS).
    fn predicted(&self) -> [Option<f64>; 4] {
        let Some(Estimate { slowdown, method, baselines, .. }) = &self.estimate else { return [None; 4] };
        let [useful, ledger] = match method {
            Method::Dedicated => [Some(*slowdown), self.ledger_alone.as_ref().map(|e| e.slowdown)],
            Method::Replay | Method::Ledger => [None, Some(*slowdown)],
        };
        [useful, ledger, baselines.cpu_share, baselines.runq_latency]
    }

    /// The intervals of the first two predictors.
    fn intervals(&self) -> [Option<[f64; 2]>; 2] {
        let Some(Estimate { interval, method, .. }) = &self.estimate else { return [None; 2] };
        match method {
            Method::Dedicated => [Some(*interval), self.ledger_alone.as_ref().map(|e| e.interval)],
            Method::Replay | Method::Ledger => [None, Some(*interval)],
        }
    }
}

/// The file for the windows of a co-run. For the solo runs of a program it holds those of the last one.
pub fn recording(folder: &Path, program: &str, beside: Option<(&str, u32)>) -> PathBuf {
    folder.join(match beside {
        Some((interferer, repetition)) => format!("{program}+{interferer}+{repetition}.jsonl"),
        None => format!("{program}.jsonl"),
    })
}

/// The state that all runs of a study share.
pub struct PredictRuns<'a> {
    study: &'a Pairs,
    known: &'a Catalogue,
    setup: &'a ProgramSetup,
    stop: &'a Stop,
    /// The folder for the windows of every run, if they are kept.
    recordings: Option<PathBuf>,
    /// The cost of waking a CPU here, in nanoseconds. `None` if unknown.
    wake_up_ns: Option<u64>,
}

impl<'a> PredictRuns<'a> {
    /// Prepares runs. `stop` ends them early.
    pub fn new(
        study: &'a Pairs,
        known: &'a Catalogue,
        setup: &'a ProgramSetup,
        stop: &'a Stop,
    ) -> PredictRuns<'a> {
        PredictRuns { study, known, setup, stop, recordings: None, wake_up_ns: None }
    }

    /// Keeps the windows of every run in this folder, as [`recording`]s.
    #[must_use]
    pub fn recording(self, recordings: Option<&Path>) -> PredictRuns<'a> {
        PredictRuns { recordings: recordings.map(Path::to_owned), ..self }
    }

    /// How many runs [`PredictRuns::run`] makes when nothing is skipped: for a progress bar.
    pub fn runs(study: &Pairs) -> u64 {
        let n = study.interferers.len();
        u64::from(study.repetitions) * study.programs.len() as u64 * (2 * n + 1) as u64
    }

    /// Makes all runs. Calls `done` after each.
    ///
    /// # Errors
    /// [`StudyError::Interrupted`]; finished runs stay.
    pub fn run(
        &mut self,
        outcome: &mut PredictOutcome,
        done: &mut dyn FnMut(&str),
    ) -> Result<(), StudyError> {
        let mut interferers: Vec<&Interferer> = Vec::new();
        for interferer in self.study.interferers(self.known) {
            match self.setup.prepare(&interferer.recipe) {
                Ok(()) => interferers.push(interferer),
                Err(why) => outcome.skipped.push((interferer.name.clone(), why)),
            }
        }
        for repetition in 1..=self.study.repetitions {
            for program in self.study.programs(self.known) {
                match self.setup.prepare(&program.recipe) {
                    Ok(()) => self.program(program, &interferers, repetition, outcome, done)?,
                    Err(why) => outcome.skipped.push((program.name.clone(), why)),
                }
            }
        }
        // A program that cannot run cannot run in any repetition.
        outcome.skipped.sort();
        outcome.skipped.dedup();
        Ok(())
    }

    fn program(
        &mut self,
        program: &Program,
        interferers: &[&Interferer],
        repetition: u32,
        outcome: &mut PredictOutcome,
        done: &mut dyn FnMut(&str),
    ) -> Result<(), StudyError> {
        let mut solos = vec![self.solo(program, outcome, done)?];
        let mut made = Vec::new();
        for interferer in interferers {
            let found = self.tried(program, Some((interferer, repetition)))?;
            let run = found.map(|ran| self.co_run(&ran, program, interferer, repetition));
            made.push(run.map_err(|why| outcome.skipped.push((program.name.clone(), why))).ok());
            done(&format!("{} + {}", program.name, interferer.name));
            solos.push(self.solo(program, outcome, done)?);
        }
        let made = made.into_iter().enumerate();
        outcome.runs.extend(made.filter_map(|(before, run)| run?.among(&solos, before)));
        Ok(())
    }

    fn solo(
        &mut self,
        program: &Program,
        outcome: &mut PredictOutcome,
        done: &mut dyn FnMut(&str),
    ) -> Result<Option<u64>, StudyError> {
        let ran = self.tried(program, None)?;
        done(&program.name);
        Ok(match ran {
            Err(why) => {
                outcome.skipped.push((program.name.clone(), why));
                None
            }
            Ok(Ran { estimates, wall_ns, .. }) => {
                let predicted = estimates.iter().rev().find_map(EstimateAt::slowdown);
                outcome.solos.push(Solo { program: program.name.clone(), wall_ns, predicted });
                Some(wall_ns)
            }
        })
    }

    fn co_run(&self, ran: &Ran, program: &Program, interferer: &Interferer, repetition: u32) -> CoRun {
        let Ran { estimates, wall_ns, cut_off, windows } = ran;
        let by_ns = (*wall_ns as f64 * self.study.predict_by) as u64;
        let made = || estimates.iter().rev().filter(|e| e.estimate.is_some());
        let in_time = made().find(|e| e.elapsed_ns <= by_ns);
        let of = |e: &EstimateAt| {
            Some((e.estimate.as_ref()?.method.name().to_owned(), e.estimate.as_ref()?.interval))
        };
        let (method, interval) = in_time.and_then(of).unzip();
        CoRun {
            program: program.name.clone(),
            interferer: interferer.name.clone(),
            repetition,
            wake_up_ns: self.wake_up_ns,
            wall_ns: *wall_ns,
            solo_ns: 0,
            error: None,
            parked_ns: estimates.last().and_then(|e| e.parked_ns).unwrap_or(0),
            slowdown: 0.0,
            predicted_at_ns: in_time.map(|e| e.elapsed_ns),
            method,
            predicted: in_time.map_or([None; 4], EstimateAt::predicted),
            at_end: made().next().map_or([None; 4], EstimateAt::predicted),
            interval,
            ledger_interval: in_time.and_then(|e| e.ledger_alone.as_ref()).map(|e| e.interval),
            at_end_intervals: made().next().map_or([None; 2], EstimateAt::intervals),
            cut_off: *cut_off,
            windows: Some(KeptWindows::of(windows, &[])),
        }
    }

    /// Makes a run of a program. Returns the reason if several attempts failed.
    fn tried(
        &mut self,
        program: &Program,
        beside: Option<(&Interferer, u32)>,
    ) -> Result<Result<Ran, String>, StudyError> {
        let mut tries = 0..=self.study.retries;
        loop {
            tries.next();
            self.wait_for_quiet();
            // In a co-run no CPU may sleep, and the cost of a wake-up changes within minutes.
            self.wake_up_ns = wake_up::measured_ns().ok().flatten().or(self.wake_up_ns);
            let ran = self.once(program, beside);
            if self.stop.is_asked() {
                return Err(StudyError::Interrupted { signal: self.stop.signal() });
            }
            if ran.is_ok() || tries.is_empty() {
                return Ok(ran);
            }
        }
    }

    fn wait_for_quiet(&self) {
        let begin = Instant::now();
        while busy().unwrap_or(0.0) > self.study.foreign
            && (begin.elapsed().as_nanos() as u64) < self.study.patience
            && !self.stop.is_asked()
        {
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Runs a program once.
    fn once(&self, program: &Program, beside: Option<(&Interferer, u32)>) -> Result<Ran, String> {
        let interferer = match beside {
            Some((interferer, repetition)) => {
                let running = self.setup.start(&interferer.recipe).map_err(|e| e.to_string())?;
                // Each repetition has another phase of the interferer, which is not left to chance.
                let more_ns =
                    self.study.spread * u64::from(repetition - 1) / u64::from(self.study.repetitions);
                std::thread::sleep(Duration::from_nanos(self.study.lead + more_ns));
                Some(running)
            }
            None => None,
        };
        // Only the interferer is parked; in a solo run nothing is.
        let parking = interferer.as_ref().map(|interferer| Parking {
            windows: Dedicated::default(),
            only: vec![format!("pgid:{}", interferer.pid())],
            protect: Vec::new(),
        });
        // Counting ends by itself if it costs too much.
        let options = PredictOptions {
            counters: true,
            dedicated: parking,
            wake_up: self.wake_up_ns.map_or(WakeUp::Unknown, WakeUp::Given),
            ..PredictOptions::default()
        };
        let beside = beside.map(|(interferer, repetition)| (interferer.name.as_str(), repetition));
        let record = self.recordings.as_deref().map(|folder| recording(folder, &program.name, beside));
        let mut record = record.map(File::create).transpose().map_err(unrecorded)?.map(BufWriter::new);
        let mut command = self.setup.command(&program.recipe);
        lead_session(&mut command);
        let limit_ns = (program.solo as f64 * self.study.length * self.study.most_slowdown) as u64;
        // Each run may end by its own limit, or with the whole study.
        let (cut, mut cut_off, mut estimates) = (self.stop.apart(), false, Vec::new());
        let mut windows = Vec::new();
        let said = |e: Error| e.to_string();
        let mut predict = Predict::start_command(command, options, &cut).map_err(said)?;
        let mut seen = Ok(());
        while seen.is_ok() {
            let Some(window) = predict.next() else { break };
            seen = window.map_err(said).and_then(|window| {
                if window.is_estimate_due {
                    estimates.push(EstimateAt::of(&predict, window.end_ns, window.ended.is_some()));
                }
                if window.end_ns.saturating_sub(predict.begin_ns()) >= limit_ns && !cut_off {
                    cut_off = true;
                    cut.stop();
                }
                let kept = record.as_mut().map_or(Ok(()), |record| keep(record, &window.recorded));
                if beside.is_some() {
                    windows.extend(window.recorded);
                }
                kept.map_err(unrecorded)
            });
        }
        let finished = predict.finish();
        record.map_or(Ok(()), |mut record| record.flush()).map_err(unrecorded)?;
        let Predicted { command, .. } = finished.map_err(said)?;
        let status = command.map(end).transpose().map_err(|e| e.to_string())?;
        drop(interferer);
        let wall_ns = estimates.last().map(|e| e.elapsed_ns);
        seen?;
        match (status, wall_ns) {
            (Some(failed), _) if !cut_off && !failed.success() => Err(format!("it failed ({failed})")),
            (_, None) => Err("it ended before corun saw any of it".to_owned()),
            (_, Some(wall_ns)) => Ok(Ran { estimates, wall_ns, cut_off, windows }),
        }
    }
}

/// Writes windows as lines of JSON.
fn keep(record: &mut impl Write, windows: &[Recorded]) -> io::Result<()> {
    windows.iter().try_for_each(|window| writeln!(record, "{}", json::compact(window)))
}

/// Why windows cannot be kept.
fn unrecorded(e: io::Error) -> String {
    format!("its windows cannot be kept: {e}")
}

/// Share of the machine's CPU time that is in use now.
fn busy() -> Option<f64> {
    let root = Root::new("/");
    let before = CpuStat::read(&root).ok()?.total().busy_ns();
    std::thread::sleep(LOOK);
    let after = CpuStat::read(&root).ok()?.total().busy_ns();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    Some(after.saturating_sub(before) as f64 / (LOOK.as_nanos() as f64 * cpus))
}
