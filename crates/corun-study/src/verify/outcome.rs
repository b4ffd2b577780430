//! What came of a study of verdicts: its runs, false alarms and misses.

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
    /// Who ran beside it; `None`: nobody.
    pub beside: Option<String>,
    /// How long it took, in nanoseconds.
    pub wall_ns: u64,
    /// What the verdict says would not have been needed, 0..1.
    pub disturbance: f64,
    /// To what a run of this length can be judged, 0..1.
    pub resolution: f64,
    /// Whether it was called disturbed.
    pub alarm: bool,
    /// Whether the verdict was that nobody can tell.
    #[serde(default)]
    pub unclear: bool,
    /// How long co-runners had CPUs while it ran, summed over CPUs.
    pub corunners_ns: u64,
    /// How long corun itself kept the run's tasks waiting.
    pub watcher_ns: Option<u64>,
    /// Who is blamed most.
    pub culprit: Option<String>,
}

impl Judged {
    /// Whether it ran alone on an idle machine: others had no more CPU time than this share of its length.
    pub fn is_idle(&self, share: f64) -> bool {
        self.beside.is_none() && self.corunners_ns as f64 <= share * self.wall_ns as f64
    }
}

/// What came of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyOutcome {
    /// Where and when, with [`SCHEMA`].
    #[serde(flatten)]
    pub head: RecordHead,
    /// How fair shares are grouped.
    pub shares: String,
    /// What was allowed.
    pub max_disturbance: f64,
    /// What must be found.
    pub noticeable: f64,
    /// All runs, in their order.
    pub runs: Vec<Judged>,
    /// What could not be run, with the reason.
    pub skipped: Vec<(String, String)>,
}

impl VerifyOutcome {
    /// Why `earlier` runs do not belong with those that would be added to them; `self` has none yet.
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

/// How many of how many, with the upper end of Wilson's 95 % interval of the share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// How many.
    pub count: usize,
    /// Of how many.
    pub of: usize,
}

impl Rate {
    /// The share is at most this, with 95 % confidence (both sides together); 1 of none.
    pub fn at_most(self) -> f64 {
        if self.of == 0 {
            return 1.0;
        }
        wilson(self.count as f64, self.of as f64).1
    }
}

/// A program's runs alone: their median and 95th percentile, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    /// The median.
    pub median_ns: u64,
    /// The 95th percentile: slow, but alone.
    pub slow_ns: u64,
}

impl VerifyOutcome {
    /// A program's runs alone; `None` without any.
    pub fn alone(&self, program: &str) -> Option<Alone> {
        let of_program = |r: &&Judged| r.is_idle(self.max_disturbance) && r.program == program;
        let mut walls_ns: Vec<u64> = self.runs.iter().filter(of_program).map(|r| r.wall_ns).collect();
        walls_ns.sort_unstable();
        let at = |percent: usize| {
            walls_ns.get((walls_ns.len() * percent / 100).min(walls_ns.len().checked_sub(1)?))
        };
        Some(Alone { median_ns: *at(50)?, slow_ns: *at(95)? })
    }

    /// Share of a run's time that it would not have needed if it had been as fast as a slow run alone: 0 or less where it
    /// was. `None`: the program never ran alone.
    pub fn truth(&self, run: &Judged) -> Option<f64> {
        Some(1.0 - self.alone(&run.program)?.slow_ns as f64 / run.wall_ns as f64)
    }

    /// Whether a run was disturbed so much that it must be found.
    pub fn is_noticeable(&self, run: &Judged) -> bool {
        self.truth(run).is_some_and(|truth| truth >= self.noticeable)
    }

    /// False alarms among the runs alone that are `wanted`.
    pub fn false_alarms(&self, wanted: impl Fn(&Judged) -> bool) -> Rate {
        self.rate(|r| r.is_idle(self.max_disturbance) && wanted(r), |r| r.alarm)
    }

    /// Alarms in runs alone that were not slow by the clock, whatever others did meanwhile: the ledger has no say in which
    /// runs these are.
    pub fn alarms_against_the_clock(&self) -> Rate {
        self.rate(|r| r.beside.is_none() && !self.is_noticeable(r), |r| r.alarm)
    }

    /// Misses among the noticeably disturbed co-runs that are `wanted`.
    pub fn misses(&self, wanted: impl Fn(&Judged) -> bool) -> Rate {
        self.rate(|r| r.beside.is_some() && self.is_noticeable(r) && wanted(r), |r| !r.alarm && !r.unclear)
    }

    /// Verdicts that say nothing: of all runs alone, and of the noticeably disturbed co-runs.
    pub fn unclear(&self) -> [Rate; 2] {
        let disturbed = |r: &Judged| r.beside.is_some() && self.is_noticeable(r);
        [self.rate(|r| r.beside.is_none(), |r| r.unclear), self.rate(disturbed, |r| r.unclear)]
    }

    /// How many of the runs that are `among` are `wrong`.
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
    fn a_disturbed_run_counts_only_when_it_is_slower_than_the_slow_ones_alone() {
        let alone = (0..20).map(|i| run(None, 100 + i, false));
        let beside = [run(Some("c"), 118, false), run(Some("c"), 126, false), run(Some("c"), 150, true)];
        let o = outcome(alone.chain(beside).collect());
        assert_eq!(o.alone("p"), Some(Alone { median_ns: 110, slow_ns: 119 }));
        assert_eq!(o.misses(|_| true), Rate { count: 1, of: 2 });
        assert_eq!(o.false_alarms(|_| true), Rate { count: 0, of: 20 });
    }

    #[test]
    fn who_says_that_he_cannot_tell_misses_nothing_and_alarms_nobody_but_is_counted() {
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
    fn by_the_clock_a_slow_run_alone_says_nothing_of_alarms_even_if_the_machine_was_not_idle() {
        let mut busy = run(None, 101, true);
        busy.corunners_ns = busy.wall_ns;
        let o = outcome(vec![run(None, 100, false), run(None, 102, false), busy]);
        assert_eq!(o.alarms_against_the_clock(), Rate { count: 1, of: 3 });
        let slow = outcome(vec![run(None, 100, false), run(Some("c"), 200, true)]);
        assert_eq!(slow.alarms_against_the_clock(), Rate { count: 0, of: 1 });
    }

    #[test]
    fn nothing_of_many_is_not_a_certain_nothing() {
        let at_most = Rate { count: 0, of: 200 }.at_most();
        assert!((at_most - 0.0188).abs() < 1e-3, "{at_most}");
        assert_eq!(Rate { count: 0, of: 0 }.at_most(), 1.0);
    }
}
