//! The study of predictions (`studies/predict.toml`): how good is a prediction made in the first third of a run?
//!
//! Method. Every program runs beside every interferer under `corun predict --dedicated --json-lines`, between runs of the
//! same program alone, watched in the same way so that watching does not make a difference. The prediction that counts
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
use crate::programs::{Catalogue, Interferer, Program, ProgramSetup, Recipe};
use corun_linux::cpustat::CpuStat;
use corun_linux::{wake_up, Root};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long one look at the machine takes before a run.
const LOOK: Duration = Duration::from_millis(150);

/// The fields of `corun.predict/1` that the study reads.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    elapsed_ns: u64,
    slowdown: Option<f64>,
    interval: Option<[f64; 2]>,
    method: Option<String>,
    without_dedicated: Option<f64>,
    parked_ns: Option<u64>,
    baselines: Baselines,
}

#[derive(Clone, Debug, Deserialize)]
struct Baselines {
    cpu_share: Option<f64>,
    runq_latency: Option<f64>,
}

impl Line {
    /// What each of [`PREDICTORS`](super::outcome::PREDICTORS) says.
    fn predicted(&self) -> [Option<f64>; 4] {
        let by_dedicated = self.method.as_deref() == Some("dedicated");
        let ledger = if by_dedicated { self.without_dedicated } else { self.slowdown };
        let useful = self.slowdown.filter(|_| by_dedicated);
        [useful, ledger, self.baselines.cpu_share, self.baselines.runq_latency]
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
    corun: PathBuf,
    folder: PathBuf,
    /// Where the windows of every run are kept, if they are.
    recordings: Option<PathBuf>,
    /// What waking a CPU up takes here, in nanoseconds; `None`: nobody knows.
    wake_up_ns: Option<u64>,
}

impl<'a> PredictRuns<'a> {
    /// Runs in `folder`, with the program file of corun itself.
    pub fn new(
        study: &'a Pairs,
        known: &'a Catalogue,
        setup: &'a ProgramSetup,
        corun: &Path,
        folder: &Path,
    ) -> PredictRuns<'a> {
        let (corun, folder) = (corun.to_owned(), folder.to_owned());
        PredictRuns { study, known, setup, corun, folder, recordings: None, wake_up_ns: None }
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
    pub fn run(&mut self, outcome: &mut PredictOutcome, done: &mut dyn FnMut(&str)) {
        let mut interferers: Vec<&Interferer> = Vec::new();
        for interferer in self.study.interferers(self.known) {
            match self.setup.prepare(&interferer.recipe) {
                Ok(()) => interferers.push(interferer),
                Err(why) => outcome.skipped.push((interferer.name.clone(), why)),
            }
        }
        for repetition in 1..=self.study.repetitions {
            for program in self.study.programs(self.known) {
                if let Err(why) = self.setup.prepare(&program.recipe) {
                    if repetition == 1 {
                        outcome.skipped.push((program.name.clone(), why));
                    }
                    continue;
                }
                self.program(program, &interferers, repetition, outcome, done);
            }
        }
    }

    fn program(
        &mut self,
        program: &Program,
        interferers: &[&Interferer],
        repetition: u32,
        outcome: &mut PredictOutcome,
        done: &mut dyn FnMut(&str),
    ) {
        let mut solos = vec![self.solo(program, outcome, done)];
        let mut made = Vec::new();
        for interferer in interferers {
            made.push(self.co_run(program, interferer, repetition));
            done(&format!("{} + {}", program.name, interferer.name));
            solos.push(self.solo(program, outcome, done));
        }
        let made = made.into_iter().enumerate();
        outcome.runs.extend(made.filter_map(|(before, run)| run?.among(&solos, before)));
    }

    fn solo(
        &mut self,
        program: &Program,
        outcome: &mut PredictOutcome,
        done: &mut dyn FnMut(&str),
    ) -> Option<u64> {
        let (lines, _) = self.tried(program, None)?;
        done(&program.name);
        let last = lines.last()?;
        let predicted = lines.iter().rev().find_map(|l| l.slowdown);
        outcome.solos.push(Solo { program: program.name.clone(), wall_ns: last.elapsed_ns, predicted });
        Some(last.elapsed_ns)
    }

    fn co_run(&mut self, program: &Program, interferer: &Interferer, repetition: u32) -> Option<CoRun> {
        let (lines, cut_off) = self.tried(program, Some((interferer, repetition)))?;
        let wall_ns = lines.last()?.elapsed_ns;
        let by_ns = (wall_ns as f64 * self.study.predict_by) as u64;
        let in_time = lines.iter().rev().find(|l| l.elapsed_ns <= by_ns && l.slowdown.is_some());
        Some(CoRun {
            program: program.name.clone(),
            interferer: interferer.name.clone(),
            repetition,
            wake_up_ns: self.wake_up_ns,
            wall_ns,
            solo_ns: 0,
            error: None,
            parked_ns: lines.last().and_then(|l| l.parked_ns).unwrap_or(0),
            slowdown: 0.0,
            predicted_at_ns: in_time.map(|l| l.elapsed_ns),
            method: in_time.and_then(|l| l.method.clone()),
            predicted: in_time.map_or([None; 4], Line::predicted),
            at_end: lines.iter().rev().find(|l| l.slowdown.is_some()).map_or([None; 4], Line::predicted),
            interval: in_time.and_then(|l| l.interval),
            cut_off,
        })
    }

    fn tried(&mut self, program: &Program, beside: Option<(&Interferer, u32)>) -> Option<(Vec<Line>, bool)> {
        (0..=self.study.retries).find_map(|_| {
            self.wait_for_quiet();
            // Beside interferers no CPU may sleep, and what it takes changes within minutes.
            self.wake_up_ns = wake_up::measured_ns().ok().flatten().or(self.wake_up_ns);
            self.once(program, beside).filter(|(lines, _)| !lines.is_empty())
        })
    }

    fn wait_for_quiet(&self) {
        let begin = Instant::now();
        while busy().unwrap_or(0.0) > self.study.foreign
            && (begin.elapsed().as_nanos() as u64) < self.study.patience
        {
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Runs a program once; its estimates, and whether it was cut off.
    fn once(&self, program: &Program, beside: Option<(&Interferer, u32)>) -> Option<(Vec<Line>, bool)> {
        let interferer = match beside {
            Some((interferer, repetition)) => {
                let running = self.setup.start(&interferer.recipe).ok()?;
                // Another phase of the interferer in each repetition, but not left to chance.
                let more_ns =
                    self.study.spread * u64::from(repetition - 1) / u64::from(self.study.repetitions);
                std::thread::sleep(Duration::from_nanos(self.study.lead + more_ns));
                Some(running)
            }
            None => None,
        };
        let lines = self.folder.join("estimates.jsonl");
        let mut argv: Vec<String> =
            ["sh", "-c", "exec \"$0\" \"$@\" > \"$ESTIMATES\""].map(String::from).to_vec();
        argv.push(self.corun.display().to_string());
        // Nobody but the interferer is parked; alone there is nobody to park. Where counting would cost too much it ends
        // by itself.
        argv.extend(["predict", "--counters", "--json-lines", "--quiet"].map(String::from));
        if let Some(interferer) = &interferer {
            argv.extend(["--dedicated".into(), "--park".into(), format!("pgid:{}", interferer.pid())]);
        }
        argv.extend(self.wake_up_ns.into_iter().flat_map(|ns| ["--wake-up".into(), format!("{ns}ns")]));
        if let Some(folder) = &self.recordings {
            let beside = beside.map(|(interferer, repetition)| (interferer.name.as_str(), repetition));
            argv.extend(["--record".into(), recording(folder, &program.name, beside).display().to_string()]);
        }
        argv.push("--".into());
        argv.extend(["sh", "-c", "exec \"$@\" > /dev/null", "sh"].map(String::from));
        argv.extend(program.recipe.argv.iter().cloned());
        let mut env = program.recipe.env.clone();
        env.insert("ESTIMATES".into(), lines.display().to_string());
        let watched = Recipe { argv, env, ..Recipe::default() };
        let mut running = self.setup.start(&watched).ok()?;
        let limit =
            Duration::from_nanos((program.solo as f64 * self.study.length * self.study.most_slowdown) as u64);
        let ended = running.ends_within(limit).ok()?;
        drop(running);
        drop(interferer);
        let text = std::fs::read_to_string(&lines).ok()?;
        let _ = std::fs::remove_file(&lines);
        let parsed = text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
        match ended {
            Some(status) if !status.success() => None,
            ended => Some((parsed, ended.is_none())),
        }
    }
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
