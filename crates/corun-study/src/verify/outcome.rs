//! The result of a study of verdicts: its runs, false alarms and misses.

use crate::circumstances::{first_difference, RecordHead};
use corun_model::proportion::wilson;
use serde::{Deserialize, Serialize};

/// The schema of a result.
pub const SCHEMA: &str = "corun.verify-study-result/1";

/// One run under `corun verify`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The program.
    pub program: String,
    /// The co-runner. `None` for a solo run.
    pub beside: Option<String>,
    /// The length of the run, in nanoseconds.
    pub wall_ns: u64,
    /// The share of the time that the run would not have needed alone, from the verdict, 0 to 1.
    pub disturbance: f64,
    /// The smallest disturbance that a run of this length can show, 0 to 1.
    pub resolution: f64,
    /// Whether the verdict was `disturbed`.
    pub alarm: bool,
    /// Whether the verdict was that it cannot tell.
    #[serde(default)]
    pub unclear: bool,
    /// CPU time of co-runners while it ran, summed over CPUs, in nanoseconds.
    pub corunners_ns: u64,
    /// How long corun itself kept the run's tasks waiting, in nanoseconds.
    pub watcher_ns: Option<u64>,
    /// The main culprit.
    pub culprit: Option<String>,
}

impl Judged {
    /// Whether it ran alone on an idle machine: the CPU time of others was at most this share of its length.
    pub fn is_idle(&self, share: f64) -> bool {
        self.beside.is_none() && self.corunners_ns as f64 <= share * self.wall_ns as f64
    }
}

/// The result of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyOutcome {
    /// Place and time of the runs, with [`SCHEMA`].
    #[serde(flatten)]
    pub head: RecordHead,
    /// How fair shares are grouped.
    pub shares: String,
    /// The disturbance that was allowed.
    pub max_disturbance: f64,
    /// The disturbance that must be found.
    pub noticeable: f64,
    /// All runs, in their order.
    pub runs: Vec<Judged>,
    /// Programs that could not be run, with the reason.
    pub skipped: Vec<(String, String)>,
}

impl VerifyOutcome {
    /// Why the runs of this result cannot be added to `earlier`. `self` has no runs yet.
    pub fn differs_from(&self, earlier: &VerifyOutcome) -> Option<String> {
        let facts = |o: &VerifyOutcome| {
            o.head.facts().into_iter().chain([
                ("fair shares", o.shares.clone()),
                ("max-disturbance", o.max_disturbance.to_string()),
                ("noticeable", o.noticeable.to_string()),
            ])
        };
        let (what, was, is) = first_difference(facts(earlier), facts(self))?;
        Some(format!("{what} was `{was}` and is `{is}`"))
    }
}

/// A count out of a number, with the upper end of Wilson's 95 % interval of the share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The count.
    pub count: usize,
    /// The number.
    pub of: usize,
}

impl Rate {
    /// The upper bound of the share, with 95 % confidence (two-sided); 1 if the number is 0.
    pub fn at_most(self) -> f64 {
        if self.of == 0 {
            return 1.0;
        }
        wilson(self.count as f64, self.of as f64).1
    }
}

/// A program's solo runs: their median and 95th percentile, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    /// The median.
    pub median_ns: u64,
    /// The 95th percentile: a slow run, but solo.
    pub slow_ns: u64,
}

impl VerifyOutcome {
    /// A program's solo runs. `None` without any.
    pub fn alone(&self, program: &str) -> Option<Alone> {
        let of_program = |r: &&Judged| r.is_idle(self.max_disturbance) && r.program == program;
        let mut walls_ns: Vec<u64> = self.runs.iter().filter(of_program).map(|r| r.wall_ns).collect();
        walls_ns.sort_unstable();
        let at = |percent: usize| {
            walls_ns.get((walls_ns.len() * percent / 100).min(walls_ns.len().checked_sub(1)?))
        };
        Some(Alone { median_ns: *at(50)?, slow_ns: *at(95)? })
    }

    /// The share of a run's time that it would not have needed at the speed of a slow solo run. 0 or less if it was at least as fast.
    /// `None` if the program has no solo run.
    pub fn truth(&self, run: &Judged) -> Option<f64> {
        Some(1.0 - self.alone(&run.program)?.slow_ns as f64 / run.wall_ns as f64)
    }

    /// Whether a run was disturbed so much that the verdict must find it.
    pub fn is_noticeable(&self, run: &Judged) -> bool {
        self.truth(run).is_some_and(|truth| truth >= self.noticeable)
    }

    /// False alarms among the solo runs that are `wanted`.
    pub fn false_alarms(&self, wanted: impl Fn(&Judged) -> bool) -> Rate {
        self.rate(|r| r.is_idle(self.max_disturbance) && wanted(r), |r| r.alarm)
    }

    /// Alarms in solo runs that were not slow according to the wall clock, whatever others did meanwhile. The ledger does not decide
    /// which runs these are.
    pub fn alarms_against_the_clock(&self) -> Rate {
        self.rate(|r| r.beside.is_none() && !self.is_noticeable(r), |r| r.alarm)
    }

    /// Misses among the noticeably disturbed co-runs that are `wanted`.
    pub fn misses(&self, wanted: impl Fn(&Judged) -> bool) -> Rate {
        self.rate(|r| r.beside.is_some() && self.is_noticeable(r) && wanted(r), |r| !r.alarm && !r.unclear)
    }

    /// Verdicts that it cannot tell: among all solo runs, and among the noticeably disturbed co-runs.
    pub fn unclear(&self) -> [Rate; 2] {
        let disturbed = |r: &Judged| r.beside.is_some() && self.is_noticeable(r);
        [self.rate(|r| r.beside.is_none(), |r| r.unclear), self.rate(disturbed, |r| r.unclear)]
    }

    /// The rate of `wrong` runs among those that are `among`.
    fn rate(&self, among: impl Fn(&Judged) -> bool, wrong: impl Fn(&Judged) -> bool) -> Rate {
        let runs: Vec<&Judged> = self.runs.iter().filter(|r| among(r)).collect();
        Rate { count: runs.iter().filter(|r| wrong(r)).count(), of: runs.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(beside: Option<&str>, wall_ns: u64, alarm: bool) -> Judged {
        Judged {
            program: "p".into(),
            beside: beside.map(str::to_owned),
            wall_ns,
            disturbance: 0.0,
            resolution: 0.02,
            alarm,
            unclear: false,
            corunners_ns: 0,
            watcher_ns: None,
            culprit: None,
        }
    }

    fn outcome(runs: Vec<Judged>) -> VerifyOutcome {
        VerifyOutcome { noticeable: 0.05, runs, ..VerifyOutcome::default() }
    }

    #[test]
    fn a_disturbed_run_counts_only_if_it_is_slower_than_the_slow_solo_runs() {
        let alone = (0..20).map(|i| run(None, 100 + i, false));
        let beside = [run(Some("c"), 118, false), run(Some("c"), 126, false), run(Some("c"), 150, true)];
        let o = outcome(alone.chain(beside).collect());
        assert_eq!(o.alone("p"), Some(Alone { median_ns: 110, slow_ns: 119 }));
        assert_eq!(o.misses(|_| true), Rate { count: 1, of: 2 });
        assert_eq!(o.false_alarms(|_| true), Rate { count: 0, of: 20 });
    }

    #[test]
    fn a_verdict_that_cannot_tell_is_no_miss_and_no_alarm_but_is_counted() {
        let unclear = |beside, ns| Judged { unclear: true, ..run(beside, ns, false) };
        let o = outcome(vec![run(None, 100, false), unclear(None, 101), unclear(Some("c"), 150)]);
        assert_eq!((o.misses(|_| true).count, o.false_alarms(|_| true).count), (0, 0));
        assert_eq!(o.unclear(), [Rate { count: 1, of: 2 }, Rate { count: 1, of: 1 }]);
    }

    #[test]
    fn an_alarm_alone_is_false_even_if_the_run_was_slow() {
        let o = outcome(vec![run(None, 100, false), run(None, 200, true)]);
        assert_eq!(o.false_alarms(|_| true), Rate { count: 1, of: 2 });
    }

    #[test]
    fn a_slow_solo_run_does_not_count_for_alarms_against_the_clock_even_on_a_busy_machine() {
        let mut busy = run(None, 101, true);
        busy.corunners_ns = busy.wall_ns;
        let o = outcome(vec![run(None, 100, false), run(None, 102, false), busy]);
        assert_eq!(o.alarms_against_the_clock(), Rate { count: 1, of: 3 });
        let slow = outcome(vec![run(None, 100, false), run(Some("c"), 200, true)]);
        assert_eq!(slow.alarms_against_the_clock(), Rate { count: 0, of: 1 });
    }

    #[test]
    fn zero_of_many_is_not_certainly_zero() {
        let at_most = Rate { count: 0, of: 200 }.at_most();
        assert!((at_most - 0.0188).abs() < 1e-3, "{at_most}");
        assert_eq!(Rate { count: 0, of: 0 }.at_most(), 1.0);
    }
}
