//! The study of predictions (`studies/predict.toml`): how good is a prediction made in the first third of a run?
//!
//! Method. Every program runs beside every interferer under `corun predict --dedicated --json-lines`, between runs of the
//! same program alone, watched in the same way so that watching does not make a difference. The prediction that counts
//! is the last one made before a share of the co-run had passed (`predict-by`); the slowdown it is held against is the
//! length of the whole co-run by that of the runs alone around it ([`crate::alone`]), both without the time in which
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

use crate::alone::alone;
use crate::pairs::Pairs;
use crate::programs::{Catalogue, Interferer, Program, Recipe, Stage};
use crate::record::first_difference;
use crate::statistics::median;
use corun_linux::wake_up;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The schema of its result.
pub const SCHEMA: &str = "corun.predict-study-result/2";

/// The predictors, by their names in tables.
pub const PREDICTORS: [&str; 4] = ["useful work", "ledger alone", "CPU share", "run queue"];

/// One co-run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoRun {
    /// The program.
    pub program: String,
    /// The interferer.
    pub interferer: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// What a wake-up took just before it, in nanoseconds; `None`: nobody knows.
    #[serde(default)]
    pub wake_up_ns: Option<u64>,
    /// Length of the co-run, in nanoseconds.
    pub wall_ns: u64,
    /// Median length of the runs alone around it.
    pub solo_ns: u64,
    /// Standard error of `slowdown`, as a share; `None`: there was only one run alone.
    pub error: Option<f64>,
    /// Of `wall_ns`, how long the interferer was parked.
    pub parked_ns: u64,
    /// `wall_ns / solo_ns`, both without `parked_ns`.
    pub slowdown: f64,
    /// When the prediction was made, from the program's start.
    pub predicted_at_ns: Option<u64>,
    /// How it was made: `dedicated` or `ledger`.
    pub method: Option<String>,
    /// What each of [`PREDICTORS`] said; `None`: nothing by then.
    pub predicted: [Option<f64>; 4],
    /// What each said at the end of the run.
    pub at_end: [Option<f64>; 4],
    /// The interval of the first that spoke.
    pub interval: Option<[f64; 2]>,
    /// Whether it was cut off, so that its slowdown is too small.
    pub cut_off: bool,
}

/// A run alone, and what was predicted for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Solo {
    /// The program.
    pub program: String,
    /// Its length in nanoseconds.
    pub wall_ns: u64,
    /// The last prediction: 1 is right.
    pub predicted: Option<f64>,
}

/// What came of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictOutcome {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of corun.
    pub corun: String,
    /// When it began, for people.
    pub date: Option<String>,
    /// The machine, in one line.
    pub machine: String,
    /// The kernel's release.
    pub kernel: String,
    /// How fair shares are grouped.
    pub shares: String,
    /// What a wake-up took before the first run, in nanoseconds, in records whose runs do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_up_ns: Option<u64>,
    /// To what standard error a slowdown is known that is called known, as a share.
    pub known_to: f64,
    /// Interferers that start again and again.
    pub restarting: Vec<String>,
    /// All co-runs that were made.
    pub runs: Vec<CoRun>,
    /// All runs alone.
    pub solos: Vec<Solo>,
    /// What could not be run, with the reason.
    pub skipped: Vec<(String, String)>,
}

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
    /// What each of [`PREDICTORS`] says.
    fn predicted(&self) -> [Option<f64>; 4] {
        let by_dedicated = self.method.as_deref() == Some("dedicated");
        let ledger = if by_dedicated { self.without_dedicated } else { self.slowdown };
        let useful = self.slowdown.filter(|_| by_dedicated);
        [useful, ledger, self.baselines.cpu_share, self.baselines.runq_latency]
    }
}

impl CoRun {
    /// The co-run after `solos[before]`, where some runs alone may have failed.
    fn among(self, solos: &[Option<u64>], before: usize) -> Option<CoRun> {
        let found = alone(solos, before)?;
        let alone_ns = |ns: u64| ns.saturating_sub(self.parked_ns).max(1) as f64;
        Some(CoRun {
            solo_ns: found.wall_ns,
            error: found.error,
            slowdown: alone_ns(self.wall_ns) / alone_ns(found.wall_ns),
            ..self
        })
    }

    /// All that its slowdown may have been: two standard errors to either side.
    fn may_be(&self) -> [f64; 2] {
        let error = 2.0 * self.error.unwrap_or(0.0);
        [self.slowdown * (1.0 - error), self.slowdown * (1.0 + error)]
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
pub struct Lab<'a> {
    study: &'a Pairs,
    known: &'a Catalogue,
    stage: &'a Stage,
    corun: PathBuf,
    folder: PathBuf,
    /// Where the windows of every run are kept, if they are.
    recordings: Option<PathBuf>,
    /// What waking a CPU up takes here, in nanoseconds; `None`: nobody knows.
    wake_up_ns: Option<u64>,
    /// How busy others are, 0..1: asked before every run.
    foreign: &'a mut dyn FnMut() -> f64,
}

impl<'a> Lab<'a> {
    /// Runs in `folder`, with the program file of corun itself; `foreign` tells how busy the machine is.
    pub fn new(
        study: &'a Pairs,
        known: &'a Catalogue,
        stage: &'a Stage,
        corun: &Path,
        folder: &Path,
        foreign: &'a mut dyn FnMut() -> f64,
    ) -> Lab<'a> {
        let (corun, folder) = (corun.to_owned(), folder.to_owned());
        Lab { study, known, stage, corun, folder, recordings: None, wake_up_ns: None, foreign }
    }

    /// Keeps the windows of every run in this folder, as [`recording`]s.
    #[must_use]
    pub fn recording(self, recordings: Option<&Path>) -> Lab<'a> {
        Lab { recordings: recordings.map(Path::to_owned), ..self }
    }

    /// How many runs [`Lab::run`] makes when nothing is skipped: for a progress bar.
    pub fn runs(study: &Pairs) -> u64 {
        let n = study.interferers.len();
        u64::from(study.repetitions) * study.programs.len() as u64 * (2 * n + 1) as u64
    }

    /// Makes all runs; `done` is called after each.
    pub fn run(&mut self, outcome: &mut PredictOutcome, done: &mut dyn FnMut(&str)) {
        let mut interferers: Vec<&Interferer> = Vec::new();
        for interferer in self.study.interferers(self.known) {
            match self.stage.prepare(&interferer.recipe) {
                Ok(()) => interferers.push(interferer),
                Err(why) => outcome.skipped.push((interferer.name.clone(), why)),
            }
        }
        for repetition in 1..=self.study.repetitions {
            for program in self.study.programs(self.known) {
                if let Err(why) = self.stage.prepare(&program.recipe) {
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

    fn wait_for_quiet(&mut self) {
        let begin = Instant::now();
        while (self.foreign)() > self.study.foreign
            && (begin.elapsed().as_nanos() as u64) < self.study.patience
        {
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Runs a program once; its estimates, and whether it was cut off.
    fn once(&self, program: &Program, beside: Option<(&Interferer, u32)>) -> Option<(Vec<Line>, bool)> {
        let interferer = match beside {
            Some((interferer, repetition)) => {
                let running = self.stage.start(&interferer.recipe).ok()?;
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
        let mut running = self.stage.start(&watched).ok()?;
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

/// How good one predictor was over some co-runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Co-runs that it predicted.
    pub n: usize,
    /// Mean absolute percentage error, 0..
    pub mape: f64,
    /// Its median.
    pub median: f64,
    /// Mean signed error: above 0, the prediction is too slow.
    pub bias: f64,
}

impl PredictOutcome {
    /// Why `earlier` runs do not belong with those that would be added to them; `self` has none yet.
    pub fn differs_from(&self, earlier: &PredictOutcome) -> Option<String> {
        let facts = |o: &PredictOutcome| {
            [
                ("schema", o.schema.clone()),
                ("machine", o.machine.clone()),
                ("kernel", o.kernel.clone()),
                ("fair shares", o.shares.clone()),
                ("known-to", o.known_to.to_string()),
                ("restarting", o.restarting.join(", ")),
            ]
        };
        let (what, was, is) = first_difference(facts(earlier), facts(self))?;
        Some(format!("{what} was `{was}` and is `{is}`"))
    }

    /// Whether a co-run counts: it came to its end.
    pub fn counts(&self, run: &CoRun) -> bool {
        !run.cut_off
    }

    /// Whether its slowdown is known to a standard error of `known_to`.
    pub fn is_known(&self, run: &CoRun) -> bool {
        run.error.is_some_and(|error| error <= self.known_to)
    }

    /// Whether its interferer does the same all the time.
    pub fn is_steady(&self, run: &CoRun) -> bool {
        !self.restarting.contains(&run.interferer)
    }

    /// How good what `said` picks was on the co-runs that count and that `wanted` picks.
    pub fn quality(
        &self,
        said: impl Fn(&CoRun) -> Option<f64>,
        wanted: impl Fn(&CoRun) -> bool,
    ) -> Option<Quality> {
        let counting = self.runs.iter().filter(|r| self.counts(r) && wanted(r));
        let errors: Vec<f64> = counting.filter_map(|r| Some(said(r)? / r.slowdown - 1.0)).collect();
        let absolute: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
        let n = errors.len();
        (n > 0).then(|| Quality {
            n,
            mape: absolute.iter().sum::<f64>() / n as f64,
            median: median(&absolute).unwrap_or(0.0),
            bias: errors.iter().sum::<f64>() / n as f64,
        })
    }

    /// What chance alone makes of the mean absolute error, over the co-runs that count and that `wanted` picks: the mean
    /// distance of a normal value from its mean is `√(2/π)` standard errors.
    pub fn by_chance(&self, wanted: impl Fn(&CoRun) -> bool) -> Option<f64> {
        let counting = self.runs.iter().filter(|r| self.counts(r) && wanted(r));
        let errors: Vec<f64> = counting.filter_map(|r| r.error).collect();
        let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        (!errors.is_empty()).then_some(mean * std::f64::consts::FRAC_2_PI.sqrt())
    }

    /// How intervals kept what they promise, over the co-runs that count and that `wanted` picks.
    pub fn coverage(&self, wanted: impl Fn(&CoRun) -> bool) -> Coverage {
        let mut coverage = Coverage::default();
        for run in self.runs.iter().filter(|r| self.counts(r) && wanted(r)) {
            let Some([low, high]) = run.interval else { continue };
            let [least, most] = run.may_be();
            coverage.all += 1;
            coverage.held += usize::from((low..=high).contains(&run.slowdown));
            coverage.may_hold += usize::from(low <= most && least <= high);
        }
        coverage
    }
}

/// How many intervals held the slowdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Co-runs with an interval.
    pub all: usize,
    /// Of these, where it holds the slowdown as measured.
    pub held: usize,
    /// Where it holds something that the slowdown may have been.
    pub may_hold: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(slowdown: f64, predicted: [Option<f64>; 4], interval: Option<[f64; 2]>) -> CoRun {
        CoRun {
            program: "p".into(),
            interferer: "i".into(),
            repetition: 1,
            wake_up_ns: None,
            wall_ns: 1,
            solo_ns: 1,
            error: Some(0.01),
            parked_ns: 0,
            slowdown,
            predicted_at_ns: None,
            method: None,
            predicted,
            at_end: predicted,
            interval,
            cut_off: false,
        }
    }

    #[test]
    fn errors_and_coverage_leave_out_what_was_not_predicted_or_cut_off() {
        let mut outcome = PredictOutcome { known_to: 0.05, ..PredictOutcome::default() };
        outcome.runs.push(run(2.0, [Some(2.2), None, Some(1.0), None], Some([1.9, 2.3])));
        outcome.runs.push(run(4.0, [Some(3.6), None, None, None], Some([3.0, 3.9])));
        outcome.runs.push(CoRun { cut_off: true, ..run(9.0, [Some(1.0); 4], Some([1.0, 1.1])) });
        outcome
            .runs
            .push(CoRun { error: Some(0.2), ..run(2.0, [Some(3.0), None, None, None], Some([2.1, 3.2])) });
        let said = |which: usize| move |r: &CoRun| r.predicted[which];
        let q = outcome.quality(said(0), |r| outcome.is_known(r)).unwrap();
        assert!(q.n == 2 && (q.mape - 0.1).abs() < 1e-9 && q.bias.abs() < 1e-9);
        assert_eq!(outcome.quality(said(0), |_| true).unwrap().n, 3);
        assert_eq!(outcome.quality(said(1), |_| true), None);
        assert_eq!(outcome.quality(said(2), |_| true).unwrap().n, 1);
        assert_eq!(outcome.coverage(|_| true), Coverage { all: 3, held: 1, may_hold: 2 });
        let chance = outcome.by_chance(|r| outcome.is_known(r)).unwrap();
        assert!((chance - 0.00798).abs() < 1e-4, "{chance}");
    }

    #[test]
    fn co_runs_beside_an_interferer_that_starts_again_are_told_apart() {
        let outcome = PredictOutcome { restarting: vec!["i".into()], ..PredictOutcome::default() };
        let other = CoRun { interferer: "j".into(), ..run(2.0, [None; 4], None) };
        assert!(outcome.is_steady(&other) && !outcome.is_steady(&run(2.0, [None; 4], None)));
    }

    #[test]
    fn the_time_in_which_the_interferer_was_parked_is_no_part_of_the_slowdown() {
        let made = CoRun { wall_ns: 19_000, parked_ns: 1_000, ..run(0.0, [None; 4], None) };
        let found = made.clone().among(&[Some(9_900), Some(10_100)], 0).unwrap();
        assert!((found.slowdown - 2.0).abs() < 1e-9 && found.solo_ns == 10_000);
        assert_eq!(made.clone().among(&[Some(10_000), None], 0).unwrap().error, None);
        assert_eq!(made.among(&[None, None], 0), None);
    }

    #[test]
    fn runs_of_another_machine_or_kernel_are_not_added_to() {
        let of = |kernel: &str| PredictOutcome { kernel: kernel.into(), ..PredictOutcome::default() };
        assert_eq!(of("6.18").differs_from(&of("6.18")), None);
        assert_eq!(of("6.18").differs_from(&of("6.1")).unwrap(), "kernel was `6.1` and is `6.18`");
    }
}
