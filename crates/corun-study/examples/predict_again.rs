//! The study of predictions judged anew from its recordings, with the predictor as it is now: `cargo run --release -p
//! corun-study --example predict_again RESULT RECORDINGS [OUT] [--by-time] [--wake-up-us=N]`.
//!
//! RESULT is the `result.json` or `result.json.gz` of a study that was made with `--recordings RECORDINGS`. Lengths and slowdowns are those of
//! the record; predictions are made again from the windows that were kept: the last one before a third of a co-run had
//! passed, and the last of all. So two ways to predict can be compared on the same co-runs; `--by-time` is one of them:
//! without what hardware counters told; `--wake-up-us` is what waking a sleeping CPU took there, for records that do not say. The record with these predictions goes to the folder OUT.
//!
//! Limits: when dedicated windows were taken is as it was; another schedule needs another study.

use corun_model::TenantId;
use corun_predict::counted::Counted;
use corun_predict::useful_work::{Spent, Window};
use corun_predict::{CannotTell, Estimate, Label, Method, Options, Predictor, Recorded};
use corun_study::kept;
use corun_study::predict::outcome::{CoRun, PredictOutcome};
use corun_study::predict::runs::recording;
use corun_study::predict::text::{files, text};
use std::io::BufRead;
use std::path::Path;

/// The share of a co-run that a prediction may have seen.
const PREDICT_BY: f64 = 0.33;

/// Forgets what was counted.
fn by_time(window: &mut Window) {
    let none = Counted::default();
    let forget =
        |s: &mut Spent| *s = Spent { memory: none, cycles: none, instructions: none, misses: none, ..*s };
    window.tasks.values_mut().for_each(forget);
    forget(&mut window.unlisted);
}

/// The predictor and one that knows no dedicated windows, after the same time.
struct Both {
    main: Predictor,
    ledger: Predictor,
}

impl Both {
    fn new(options: Options) -> Both {
        let new = || Predictor::new(TenantId(0), options);
        Both { main: new(), ledger: new() }
    }

    fn push(&mut self, line: &Recorded) {
        self.main.push_window(line.window.clone(), line.label);
        if line.label == Label::Shared {
            self.ledger.push_window(line.window.clone(), line.label);
        }
    }

    /// What each of the study's predictors says by `ask`.
    fn predicted(
        &self,
        ask: fn(&Predictor) -> Result<Estimate, CannotTell>,
    ) -> ([Option<f64>; 4], Option<Estimate>) {
        let (main, ledger) = (ask(&self.main).ok(), ask(&self.ledger).ok());
        let useful = main.as_ref().filter(|e| e.method == Method::Dedicated).map(|e| e.slowdown);
        let of = |get: fn(&Estimate) -> Option<f64>| main.as_ref().and_then(get);
        let all = [
            useful,
            ledger.map(|e| e.slowdown),
            of(|e| e.baselines.cpu_share),
            of(|e| e.baselines.runq_latency),
        ];
        (all, main)
    }
}

fn main() {
    let (flags, paths): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with("--"));
    let [result, recordings, out @ ..] = &paths[..] else { panic!("give RESULT RECORDINGS [OUT]") };
    let counts = !flags.iter().any(|f| f == "--by-time");
    let wake_up_us = flags.iter().find_map(|f| f.strip_prefix("--wake-up-us=")?.parse::<u64>().ok());
    let result_text =
        kept::read(Path::new(result), u64::MAX).unwrap_or_else(|e| panic!("cannot read {result}: {e}"));
    let mut outcome: PredictOutcome =
        serde_json::from_str(&result_text).expect("the result of a study of predictions");
    let of_all = outcome.wake_up_ns;
    for run in &mut outcome.runs {
        let path = recording(Path::new(recordings), &run.program, Some((&run.interferer, run.repetition)));
        let wake_up_ns = wake_up_us.map(|us| 1_000 * us).or(run.wake_up_ns).or(of_all);
        let options = Options { wake_up_ns: wake_up_ns.unwrap_or(0), ..Options::default() };
        again(run, &path, counts, options);
        let percent = |x: Option<f64>| {
            x.map_or("    -".into(), |x| format!("{:+5.1}", 100.0 * (x / run.slowdown - 1.0)))
        };
        let [third, end] = [run.predicted, run.at_end].map(|p| p.map(percent).join(" "));
        println!("{:14} {:15} {:5.2}× | {third} | {end}", run.program, run.interferer, run.slowdown);
    }
    println!("\n{}", text(&outcome, true));
    for folder in out {
        for (name, text) in files(&outcome, "corun study predict --recordings DIR") {
            std::fs::write(Path::new(folder).join(name), text).expect("a folder that can be written");
        }
    }
}

/// Predicts a co-run again; `counts`: with what hardware counters told.
fn again(run: &mut CoRun, path: &Path, counts: bool, options: Options) {
    let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
    let mut both = Both::new(options);
    let mut begin_ns = None;
    let mut in_time = true;
    for (n, line) in std::io::BufReader::new(file).lines().enumerate() {
        let refuse = |e: &dyn std::fmt::Display| -> ! {
            eprintln!("{}:{}: no window of `corun predict --record`: {e}", path.display(), n + 1);
            std::process::exit(2)
        };
        let line = line.unwrap_or_else(|e| refuse(&e));
        let mut line: Recorded = serde_json::from_str(&line).unwrap_or_else(|e| refuse(&e));
        let begin_ns = *begin_ns.get_or_insert(line.window.start_ns);
        let passed = line.window.end_ns.saturating_sub(begin_ns) as f64 / run.wall_ns as f64;
        if in_time && passed > PREDICT_BY {
            in_time = false;
            let (all, main) = both.predicted(Predictor::estimate);
            run.predicted = all;
            run.interval = main.map(|e| e.interval);
        }
        if !counts {
            by_time(&mut line.window);
        }
        both.push(&line);
    }
    run.at_end = both.predicted(Predictor::so_far).0;
}
