//! The co-runs of a study predicted again from the windows that were kept of them: the same runs, the predictor as it is now.
//!
//! Lengths and slowdowns are those of the record. Predictions are made anew from the windows (`corun study predict --recordings`):
//! the last one before a share of a co-run had passed, and the last of all. So two ways to predict can be compared on the same
//! co-runs.
//!
//! Limits: when dedicated windows were taken is as it was; another schedule needs another study. What a replay told was not
//! kept, so it is no part of this; co-runs with dedicated windows have none.

use super::outcome::CoRun;
use corun_model::TenantId;
use corun_predict::counted::Counted;
use corun_predict::useful_work::{Spent, Window};
use corun_predict::{CannotTell, Estimate, Label, Method, Options, Predictor, Recorded};
use std::io::BufRead;

/// The share of a co-run that a prediction may have seen.
const PREDICT_BY: f64 = 0.33;

/// How to predict again.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Those of the predictor.
    pub options: Options,
    /// With what hardware counters told.
    pub counts: bool,
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

    /// What each of the study's predictors says by `ask`, and the estimate.
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

/// A co-run with the predictions that its windows make now; `lines` are the windows as they were kept.
///
/// # Errors
/// One sentence with the number of the line that is no such window.
pub fn again(run: &CoRun, lines: impl BufRead, how: How) -> Result<CoRun, String> {
    let mut run = run.clone();
    let mut both = Both::new(how.options);
    let mut begin_ns = None;
    let mut in_time = true;
    for (n, line) in lines.lines().enumerate() {
        let refused = |e: &dyn std::fmt::Display| format!("{}: no window of a recording: {e}", n + 1);
        let line = line.map_err(|e| refused(&e))?;
        let mut line: Recorded = serde_json::from_str(&line).map_err(|e| refused(&e))?;
        let begin_ns = *begin_ns.get_or_insert(line.window.start_ns);
        let passed = line.window.end_ns.saturating_sub(begin_ns) as f64 / run.wall_ns as f64;
        if in_time && passed > PREDICT_BY {
            in_time = false;
            let (all, main) = both.predicted(Predictor::estimate);
            run.predicted = all;
            run.interval = main.map(|e| e.interval);
        }
        if !how.counts {
            forget_counts(&mut line.window);
        }
        both.push(&line);
    }
    run.at_end = both.predicted(Predictor::so_far).0;
    Ok(run)
}

/// Forgets what was counted.
fn forget_counts(window: &mut Window) {
    let none = Counted::default();
    let forget =
        |s: &mut Spent| *s = Spent { memory: none, cycles: none, instructions: none, misses: none, ..*s };
    window.tasks.values_mut().for_each(forget);
    forget(&mut window.unlisted);
}
