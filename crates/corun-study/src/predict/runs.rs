//! The study of predictions (`studies/predict.toml`): how good is a prediction made in the first third of a run?
//!
//! Method. Every program runs beside every interferer under [`corun_session::Predict`] with dedicated windows, as under `corun
//! predict --dedicated --counters`, between runs of the same program alone, watched in the same way so that watching does not make a difference. The prediction that counts
//! is the last one made before a share of the co-run had passed (`predict-by`); the slowdown it is held against is the
//! length of the whole co-run by that of the runs alone around it ([`super::alone`]), both without the time in which
//! the interferer was parked: the program ran alone then, which a longer prediction would not have done to it. All
//! predictors see the same co-run: useful work from dedicated windows (measured by hardware counters where they are and
//! where counting does not slow the program), the ledger alone, CPU share, run-queue latency.
//!
//! No slowdown is known better than runs alone repeat. Every co-run that came to its end counts; those whose slowdown is
//! known to `known-to` are summed up once more by themselves, and intervals are held against the slowdown as it was
//! measured, and against all that it may have been. Beside an interferer that starts again and again (`restarting`) the
//! rest of a run is not like its first third; these co-runs are summed up apart as well.
//!
//! The last prediction of the run is held against the same slowdown. That one has seen all there is: its error is the
//! method's own, and what the first third's has more is how unlike the rest of a run is to its beginning.
//!
//! Limits: `foreign` is judged before a run only; what others take while it runs is part of the error.

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

/// How long one look at the machine takes before a run.
const LOOK: Duration = Duration::from_millis(150);

/// A run of a program.
struct Ran {
    /// All that was predicted, in the order of time.
    estimates: Vec<EstimateAt>,
    wall_ns: u64,
    cut_off: bool,
    /// All that was seen of a co-run, in the order of time.
    windows: Vec<Recorded>,
}

/// What was predicted at one moment of a run.
#[derive(Clone, Debug)]
struct EstimateAt {
    elapsed_ns: u64,
    estimate: Option<Estimate>,
    /// Without what dedicated windows have shown.
    ledger_alone: Option<Estimate>,
    parked_ns: Option<u64>,
}

impl EstimateAt {
    /// The present one; `ended`: that of the whole run.
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

    /// What each of [`PREDICTORS`](super::outcome::PREDICTORS) says.
    fn predicted(&self) -> [Option<f64>; 4] {
        let Some(Estimate { slowdown, method, baselines, .. }) = &self.estimate else { return [None; 4] };
        let [useful, ledger] = match method {
            Method::Dedicated => [Some(*slowdown), self.ledger_alone.as_ref().map(|e| e.slowdown)],
            Method::Replay | Method::Ledger => [None, Some(*slowdown)],
        };
        [useful, ledger, baselines.cpu_share, baselines.runq_latency]
    }

    /// The intervals of the first two.
    fn intervals(&self) -> [Option<[f64; 2]>; 2] {
        let Some(Estimate { interval, method, .. }) = &self.estimate else { return [None; 2] };
        match method {
            Method::Dedicated => [Some(*interval), self.ledger_alone.as_ref().map(|e| e.interval)],
            Method::Replay | Method::Ledger => [None, Some(*interval)],
        }
    }
}

/// Where the windows of a co-run are kept (of a program's runs alone, those of the last).
pub fn recording(folder: &Path, program: &str, beside: Option<(&str, u32)>) -> PathBuf {
    folder.join(match beside {
        Some((interferer, repetition)) => format!("{program}+{interferer}+{repetition}.jsonl"),
        None => format!("{program}.jsonl"),
    })
}

/// Everything that the runs of a study share.
pub struct PredictRuns<'a> {
    study: &'a Pairs,
    known: &'a Catalogue,
    setup: &'a ProgramSetup,
    stop: &'a Stop,
    /// Where the windows of every run are kept, if they are.
    recordings: Option<PathBuf>,
    /// What waking a CPU up takes here, in nanoseconds; `None`: nobody knows.
    wake_up_ns: Option<u64>,
}

impl<'a> PredictRuns<'a> {
    /// Runs until `stop` is asked.
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

    /// Makes all runs; `done` is called after each.
    ///
    /// # Errors
    /// [`StudyError::Interrupted`]; what is there by then stays.
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
        // What cannot be run cannot be run in any repetition.
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

    /// A run of a program, or why there is none after several tries.
    fn tried(
        &mut self,
        program: &Program,
        beside: Option<(&Interferer, u32)>,
    ) -> Result<Result<Ran, String>, StudyError> {
        let mut tries = 0..=self.study.retries;
        loop {
            tries.next();
            self.wait_for_quiet();
            // Next to interferers no CPU may sleep, and what it takes changes within minutes.
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
                // Another phase of the interferer in each repetition, but not left to chance.
                let more_ns =
                    self.study.spread * u64::from(repetition - 1) / u64::from(self.study.repetitions);
                std::thread::sleep(Duration::from_nanos(self.study.lead + more_ns));
                Some(running)
            }
            None => None,
        };
        // Nobody but the interferer is parked; alone there is nobody to park.
        let parking = interferer.as_ref().map(|interferer| Parking {
            windows: Dedicated::default(),
            only: vec![format!("pgid:{}", interferer.pid())],
            protect: Vec::new(),
        });
        // Where counting would cost too much it ends by itself.
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
        // Each run has a request of its own to end: by its time, or with the whole study.
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
            (_, None) => Err("it ended before anything was seen of it".to_owned()),
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
