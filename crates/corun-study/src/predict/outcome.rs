//! The result of a study of predictions: its co-runs, and the errors of the predictions.

use super::alone::alone;
use super::windows::KeptWindows;
use crate::circumstances::{first_difference, RecordHead};
use crate::statistics::median;
use serde::{Deserialize, Serialize};

/// The schema of its result.
pub const SCHEMA: &str = "corun.predict-study-result/2";

/// The predictors, by their names in tables.
pub const PREDICTORS: [&str; 4] = ["useful work", "ledger alone", "CPU share", "run queue"];

/// One co-run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoRun {
    /// The program.
    pub program: String,
    /// The interferer.
    pub interferer: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// The cost of a wake-up just before it, in nanoseconds. `None` if unknown.
    #[serde(default)]
    pub wake_up_ns: Option<u64>,
    /// Length of the co-run, in nanoseconds.
    pub wall_ns: u64,
    /// Median length of the solo runs around it, in nanoseconds.
    pub solo_ns: u64,
    /// Standard error of `slowdown`, as a share. `None` if there was only one solo run.
    pub error: Option<f64>,
    /// How long the interferer was parked within `wall_ns`, in nanoseconds.
    pub parked_ns: u64,
    /// `wall_ns / solo_ns`, both without `parked_ns`.
    pub slowdown: f64,
    /// When the prediction was made, in nanoseconds from the program's start.
    pub predicted_at_ns: Option<u64>,
    /// The method: `dedicated` or `ledger`.
    pub method: Option<String>,
    /// The prediction of each of [`PREDICTORS`]. `None` if there was none by then.
    pub predicted: [Option<f64>; 4],
    /// The last prediction of each.
    pub at_end: [Option<f64>; 4],
    /// The interval of the first predictor that has one.
    pub interval: Option<[f64; 2]>,
    /// The interval of the ledger alone, if dedicated windows had one first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger_interval: Option<[f64; 2]>,
    /// The intervals of the first two of [`PREDICTORS`] at the end of the run.
    #[serde(default)]
    pub at_end_intervals: [Option<[f64; 2]>; 2],
    /// Whether it was cut off, so that its slowdown is a lower bound.
    pub cut_off: bool,
    /// Its windows, so that it can be predicted again. `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<KeptWindows>,
}

/// A solo run, and its prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Solo {
    /// The program.
    pub program: String,
    /// Its length in nanoseconds.
    pub wall_ns: u64,
    /// The last prediction: 1 is right.
    pub predicted: Option<f64>,
}

/// The result of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictOutcome {
    /// Place and time of the runs, with [`SCHEMA`].
    #[serde(flatten)]
    pub head: RecordHead,
    /// How fair shares are grouped.
    pub shares: String,
    /// The cost of a wake-up before the first run, in nanoseconds, in records whose runs do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_up_ns: Option<u64>,
    /// A slowdown counts as known if its standard error is at most this, as a share.
    pub known_to: f64,
    /// Interferers that start again and again.
    pub restarting: Vec<String>,
    /// All co-runs that were made.
    pub runs: Vec<CoRun>,
    /// All solo runs.
    pub solos: Vec<Solo>,
    /// Programs that could not be run, with the reason.
    pub skipped: Vec<(String, String)>,
}

impl CoRun {
    /// The co-run after `solos[before]`; solo runs may have failed.
    pub(super) fn among(self, solos: &[Option<u64>], before: usize) -> Option<CoRun> {
        let found = alone(solos, before)?;
        let alone_ns = |ns: u64| ns.saturating_sub(self.parked_ns).max(1) as f64;
        Some(CoRun {
            solo_ns: found.wall_ns,
            error: found.error,
            slowdown: alone_ns(self.wall_ns) / alone_ns(found.wall_ns),
            ..self
        })
    }

    /// The intervals of the first two of [`PREDICTORS`]: of dedicated windows, and of the ledger alone.
    pub fn intervals(&self) -> [Option<[f64; 2]>; 2] {
        match self.method.as_deref() {
            Some("dedicated") => [self.interval, self.ledger_interval],
            _ => [None, self.interval],
        }
    }

    /// The range of its possible slowdowns: two standard errors to either side.
    fn may_be(&self) -> [f64; 2] {
        let error = 2.0 * self.error.unwrap_or(0.0);
        [self.slowdown * (1.0 - error), self.slowdown * (1.0 + error)]
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
    /// Mean signed error. Above 0 the predicted slowdown is too large.
    pub bias: f64,
}

impl PredictOutcome {
    /// Why the runs of this result cannot be added to `earlier`. `self` has no runs yet.
    pub fn differs_from(&self, earlier: &PredictOutcome) -> Option<String> {
        let facts = |o: &PredictOutcome| {
            o.head.facts().into_iter().chain([
                ("fair shares", o.shares.clone()),
                ("known-to", o.known_to.to_string()),
                ("restarting", o.restarting.join(", ")),
            ])
        };
        let (what, was, is) = first_difference(facts(earlier), facts(self))?;
        Some(format!("{what} was `{was}` and is `{is}`"))
    }

    /// Whether a co-run counts: it ran to its end.
    pub fn counts(&self, run: &CoRun) -> bool {
        !run.cut_off
    }

    /// Whether its slowdown is known to a standard error of `known_to`.
    pub fn is_known(&self, run: &CoRun) -> bool {
        run.error.is_some_and(|error| error <= self.known_to)
    }

    /// Whether its interferer is the same all the time.
    pub fn is_steady(&self, run: &CoRun) -> bool {
        !self.restarting.contains(&run.interferer)
    }

    /// The errors of the predictions that `said` picks, over the co-runs that count and that `wanted` picks.
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

    /// The mean absolute error from chance alone, over the co-runs that count and that `wanted` picks. The mean distance of a normal
    /// value from its mean is `√(2/π)` standard errors.
    pub fn by_chance(&self, wanted: impl Fn(&CoRun) -> bool) -> Option<f64> {
        let counting = self.runs.iter().filter(|r| self.counts(r) && wanted(r));
        let errors: Vec<f64> = counting.filter_map(|r| r.error).collect();
        let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        (!errors.is_empty()).then_some(mean * std::f64::consts::FRAC_2_PI.sqrt())
    }

    /// How often the intervals contain the slowdown, over the co-runs that count and that `wanted` picks.
    pub fn coverage(&self, wanted: impl Fn(&CoRun) -> bool) -> Coverage {
        self.coverage_of(|r| r.interval, wanted)
    }

    /// The same for the intervals that `said` picks.
    pub fn coverage_of(
        &self,
        said: impl Fn(&CoRun) -> Option<[f64; 2]>,
        wanted: impl Fn(&CoRun) -> bool,
    ) -> Coverage {
        let mut coverage = Coverage::default();
        for run in self.runs.iter().filter(|r| self.counts(r) && wanted(r)) {
            let Some([low, high]) = said(run) else { continue };
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
    /// How many contain the measured slowdown.
    pub held: usize,
    /// How many contain some possible slowdown.
    pub may_hold: usize,
}

impl Coverage {
    /// In words: `17 of 18`, or `-` without intervals.
    pub fn said(&self) -> String {
        match self.all {
            0 => "-".into(),
            all => format!("{} of {all}", self.held),
        }
    }
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
            ..CoRun::default()
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
    fn co_runs_with_an_interferer_that_starts_again_are_separate() {
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
    fn runs_of_another_machine_or_kernel_are_refused_for_addition() {
        let of = |kernel: &str| PredictOutcome {
            head: RecordHead { kernel: kernel.into(), ..RecordHead::default() },
            ..PredictOutcome::default()
        };
        assert_eq!(of("6.18").differs_from(&of("6.18")), None);
        assert_eq!(of("6.18").differs_from(&of("6.1")).unwrap(), "kernel was `6.1` and is `6.18`");
    }
}
