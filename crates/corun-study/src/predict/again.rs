//! Predicts the co-runs of a study again from their kept windows: the same runs, with the present predictor.
//!
//! Lengths and slowdowns are those of the record. Predictions are made again from its windows
//! ([`KeptWindows`](super::windows::KeptWindows), or all windows with `corun study predict --recordings`): the last prediction before a
//! share of a co-run had passed, and the last of all. So anybody with the repository can compare two predictors on the same co-runs.
//!
//! Limits: the times of the dedicated windows stay as they were. Another schedule needs another study.

use super::outcome::{CoRun, PredictOutcome};
use crate::hash::fnv1a;
use corun_model::TenantId;
use corun_predict::counted::Counted;
use corun_predict::useful_work::{Spent, Window};
use corun_predict::{AloneTime, CannotTell, Estimate, Label, Method, Options, Predictor, Recorded};
use std::io::BufRead;

/// The share of a co-run that the first prediction may see.
const PREDICT_BY: f64 = 0.33;
/// This share of a co-run, or of a stretch, counts as all of it.
const END: f64 = 0.9;

/// How to predict again.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Options of the predictor, except the cost of a wake-up, which the record has for each co-run.
    pub options: Options,
    /// Whether hardware counters are used.
    pub counts: bool,
}

impl Default for How {
    fn default() -> How {
        How { options: Options::default(), counts: true }
    }
}

/// The predictor, and one without dedicated windows, after the same time.
struct Both {
    main: Predictor,
    ledger: Predictor,
}

/// The predictions for a co-run at one moment.
struct Said {
    predicted: [Option<f64>; 4],
    intervals: [Option<[f64; 2]>; 2],
    method: Option<String>,
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

    fn push_evidence(&mut self, evidence: AloneTime) {
        self.main.push_evidence(evidence);
        self.ledger.push_evidence(evidence);
    }

    /// The estimate of each of the study's predictors, from `ask`.
    fn said(&self, ask: fn(&Predictor) -> Result<Estimate, CannotTell>) -> Said {
        let (main, ledger) = (ask(&self.main).ok(), ask(&self.ledger).ok());
        let useful = main.as_ref().filter(|e| e.method == Method::Dedicated);
        let of = |get: fn(&Estimate) -> Option<f64>| main.as_ref().and_then(get);
        Said {
            predicted: [
                useful.map(|e| e.slowdown),
                ledger.as_ref().map(|e| e.slowdown),
                of(|e| e.baselines.cpu_share),
                of(|e| e.baselines.runq_latency),
            ],
            intervals: [useful.map(|e| e.interval), ledger.map(|e| e.interval)],
            method: main.map(|e| e.method.name().to_owned()),
        }
    }
}

/// Predicts every co-run of a record again that kept its windows, and leaves out the others.
///
/// # Errors
/// One sentence: no co-run kept its windows, or some windows cannot be read.
pub fn all_again(outcome: &PredictOutcome, how: How) -> Result<PredictOutcome, String> {
    let of_all = outcome.wake_up_ns;
    let again = |run: &CoRun| {
        let kept = run.windows.as_ref()?;
        let wake_up_ns = run.wake_up_ns.or(of_all).unwrap_or(how.options.wake_up_ns);
        let how = How { options: Options { wake_up_ns, ..how.options }, ..how };
        let refused = |what| format!("{} beside {}: {what}", run.program, run.interferer);
        Some(
            kept.windows()
                .map(|windows| predicted_again(run, windows, kept.replayed(), how))
                .map_err(refused),
        )
    };
    let runs: Vec<CoRun> = outcome.runs.iter().filter_map(again).collect::<Result<_, String>>()?;
    match runs.is_empty() {
        true => Err("no co-run of this record kept its windows; make the study again".into()),
        false => Ok(PredictOutcome { runs, ..outcome.clone() }),
    }
}

/// Predicts a co-run again. `lines` are its windows as `--recordings` wrote them.
///
/// # Errors
/// One sentence with the number of the line that is not such a window.
pub fn again(run: &CoRun, lines: impl BufRead, how: How) -> Result<CoRun, String> {
    let mut windows = Vec::new();
    for (n, line) in lines.lines().enumerate() {
        let refused = |e: &dyn std::fmt::Display| format!("{}: no window of a recording: {e}", n + 1);
        let line = line.map_err(|e| refused(&e))?;
        windows.push(serde_json::from_str(&line).map_err(|e| refused(&e))?);
    }
    Ok(predicted_again(run, windows, &[], how))
}

/// Predicts a co-run again from these windows and this evidence.
pub fn predicted_again(run: &CoRun, windows: Vec<Recorded>, replayed: &[AloneTime], how: How) -> CoRun {
    let mut run = run.clone();
    let mut both = Both::new(how.options);
    let (mut replayed, mut in_time, mut passed) = (replayed.iter().peekable(), true, 0.0);
    let begin_ns = windows.first().map_or(0, |first| first.window.start_ns);
    for mut line in windows {
        passed = line.window.end_ns.saturating_sub(begin_ns) as f64 / run.wall_ns as f64;
        if in_time && passed > PREDICT_BY {
            in_time = false;
            in_first_third(&mut run, both.said(Predictor::estimate));
        }
        if !how.counts {
            forget_counts(&mut line.window);
        }
        both.push(&line);
        // The result of a replay of a stretch is known when the stretch is nearly over. A part beyond that counts in proportion.
        let is_known = |e: &&AloneTime| {
            let passed_ns = line.window.end_ns.saturating_sub(e.start_ns) as f64;
            passed_ns >= END * e.end_ns.saturating_sub(e.start_ns) as f64
        };
        while let Some(evidence) = replayed.next_if(is_known) {
            both.push_evidence(*evidence);
        }
    }
    if in_time {
        in_first_third(&mut run, both.said(Predictor::estimate));
    }
    let nothing = Said { predicted: [None; 4], intervals: [None; 2], method: None };
    let at_end = if passed >= END { both.said(Predictor::so_far) } else { nothing };
    (run.at_end, run.at_end_intervals) = (at_end.predicted, at_end.intervals);
    run
}

fn in_first_third(run: &mut CoRun, said: Said) {
    run.predicted = said.predicted;
    let [dedicated, ledger] = said.intervals;
    run.interval = dedicated.or(ledger);
    run.ledger_interval = dedicated.and(ledger);
    run.method = said.method;
}

/// Forgets the hardware counts of a window.
pub fn forget_counts(window: &mut Window) {
    let none = Counted::default();
    let forget =
        |s: &mut Spent| *s = Spent { memory: none, cycles: none, instructions: none, misses: none, ..*s };
    window.tasks.values_mut().for_each(forget);
    forget(&mut window.unlisted);
}

/// The two halves of the programs: one for setting numbers of the predictor, the other only for judging it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Numbers may be set with these.
    Calibration,
    /// No number was set with these.
    HeldOut,
}

/// The half of a program depends on its name and this number, not on its results.
pub const SEED: u64 = 34;

impl Half {
    /// The half of a program.
    pub fn of(program: &str) -> Half {
        match fnv1a(format!("{SEED}/{program}").as_bytes()).count_ones() % 2 {
            0 => Half::Calibration,
            _ => Half::HeldOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept;
    use crate::predict::outcome::{Coverage, Quality};
    use crate::predict::text::windows_kept;
    use std::path::{Path, PathBuf};

    /// Errors and shares may differ by a tenth of a point, because another machine rounds differently.
    const SAME: f64 = 0.001;

    fn record(name: &str) -> PredictOutcome {
        serde_json::from_str(&kept::record(&folders().join(name)).unwrap()).unwrap()
    }

    fn folders() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/runs")
    }

    /// The records of predictions.
    fn names() -> Vec<String> {
        let names = std::fs::read_dir(folders()).unwrap().flatten();
        let mut names: Vec<String> = names.map(|e| e.file_name().into_string().unwrap()).collect();
        names.retain(|name| name.starts_with("predict"));
        names.sort();
        names
    }

    /// The records whose co-runs kept their windows.
    fn records() -> Vec<(String, PredictOutcome)> {
        let with_windows = |name: String| {
            let outcome = record(&name);
            outcome.runs.iter().any(|r| r.windows.is_some()).then_some((name, outcome))
        };
        names().into_iter().filter_map(with_windows).collect()
    }

    type Wanted = fn(&CoRun) -> bool;
    const HALVES: [(&str, Wanted); 3] = [
        ("calibration", |r| Half::of(&r.program) == Half::Calibration),
        ("held out", |r| Half::of(&r.program) == Half::HeldOut),
        ("all", |_| true),
    ];

    #[test]
    fn records_are_predicted_again_from_their_windows_and_any_change_shows() {
        let mut changed = Vec::new();
        let mut predicted = 0;
        for (name, was) in records() {
            let now = all_again(&was, How::default()).unwrap();
            predicted += now.runs.len();
            for (half, wanted) in HALVES {
                for (column, predictor) in ["dedicated windows", "without them"].into_iter().enumerate() {
                    let of = |o: &PredictOutcome| {
                        let quality = o.quality(|r| r.predicted[column], wanted).unwrap_or_default();
                        (quality, o.coverage_of(|r| r.intervals()[column], wanted))
                    };
                    let ((old, held_before), (new, held)) = (of(&was), of(&now));
                    let said = |q: Quality, c: Coverage| {
                        format!(
                            "{:5.1} % (median {:4.1} %), {} hold it",
                            100.0 * q.mape,
                            100.0 * q.median,
                            c.said()
                        )
                    };
                    let row = format!(
                        "{name:24} {half:12} {predictor:18} {:3} co-runs: {}; as kept {}",
                        new.n,
                        said(new, held),
                        said(old, held_before)
                    );
                    println!("{row}");
                    let is_same = (new.mape - old.mape).abs() <= SAME
                        && new.n == old.n
                        && held.held.abs_diff(held_before.held) <= 1;
                    if !is_same {
                        changed.push(row);
                    }
                }
            }
        }
        assert!(
            changed.is_empty(),
            "predictions of kept co-runs are others now:\n{}\nIf that is meant, keep them: `corun predict --again studies/runs/NAME \
             --out DIR`, then scripts/keep-record DIR NAME",
            changed.join("\n")
        );
        assert!(predicted >= 180, "only {predicted} co-runs keep their windows");
    }

    #[test]
    fn the_halves_are_about_as_large_and_the_record_has_enough_programs_of_each() {
        let programs: std::collections::BTreeSet<String> =
            records().into_iter().flat_map(|(_, o)| o.runs).map(|r| r.program).collect();
        let held_out = programs.iter().filter(|p| Half::of(p) == Half::HeldOut).count();
        assert!(programs.len() >= 25, "{programs:?}");
        assert!(
            (0.3..0.7).contains(&(held_out as f64 / programs.len() as f64)),
            "{held_out} of {}",
            programs.len()
        );
    }

    #[test]
    fn a_record_says_whether_it_keeps_windows_and_predicting_it_again_agrees() {
        let outcome = PredictOutcome { runs: vec![CoRun::default()], ..PredictOutcome::default() };
        assert!(all_again(&outcome, How::default()).unwrap_err().contains("kept its windows"));
        for name in names() {
            let folder = folders().join(&name);
            let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
            let says = windows_kept(&record(&name));
            assert!(readme.contains(&says), "the README of {name} does not say: {says}");
        }
    }
}
