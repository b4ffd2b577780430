//! The result of calibrated interference: collected while it runs, reported at the end. Pure.
//!
//! The controller uses short windows; people and papers use seconds. So windows are summed to seconds, and the spread and the time in
//! the band are those of seconds. The mean is that of the whole time, not of seconds. The goal counts as settled with the first second
//! in the band, and the time before is the settling time. If no second is in the band, the report is about everything after
//! [`GRACE_NS`].

use crate::goal::{Goal, Measure};
use crate::sensor::{Gauge, Sample};
use corun_model::duration::human_ns;
use serde::Serialize;
use std::fmt::{Display, Formatter};

/// The unit of the spread: a second.
const SECOND_NS: u64 = 1_000_000_000;

/// A goal that is met on average counts as held all the time if at least this share of the seconds is in the band.
pub const STEADY: f64 = 0.8;

/// A baseline with more steal than this does not show how the victim does alone.
const TAKEN_BEFORE: f64 = 0.1;

/// After this time a goal that was never reached counts as missed.
pub const GRACE_NS: u64 = 5 * SECOND_NS;

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// Whether the numbers below are shares of steal or slowdowns.
    pub measure: Measure,
    /// The requested value.
    pub target: f64,
    /// The band that counts as held.
    pub band: (f64, f64),
    /// The mean over all the time after settling; null if it was never known.
    pub mean: Option<f64>,
    /// 5 % of the seconds were below this.
    pub p5: Option<f64>,
    /// 5 % of the seconds were above this.
    pub p95: Option<f64>,
    /// Share of the seconds that were in the band.
    pub in_band: Option<f64>,
    /// Share of the time after settling in which the value was known. In the rest spinning was unknown, or the victim wanted no CPU.
    /// All numbers here are of that share.
    pub told: Option<f64>,
    /// Share of the time after settling in which the victim wanted no CPU. After a second of that the interference asks for nothing.
    pub asleep: Option<f64>,
    /// Time until the first second in the band had begun, in nanoseconds; null if there was none.
    pub settled_ns: Option<u64>,
    /// Whether the mean is in the band.
    pub held: bool,
    /// Share of every CPU that the interference asked for, the mean after settling.
    pub demand: f64,
    /// The victim before the interference began; null if only steal counts.
    pub baseline: Option<Baseline>,
    /// The source of the observations: `ebpf`, `schedstat`.
    pub source: &'static str,
    /// Why the goal could not be held; null if it could.
    pub limit: Option<String>,
}

/// The victim before the interference began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Baseline {
    /// How long it was watched, in nanoseconds.
    pub window_ns: u64,
    /// How many CPUs it kept busy, with useful work if spinning was known.
    pub rate: f64,
    /// Share of steal by others; null if it did not want a CPU.
    pub steal: Option<f64>,
    /// Whether spinning was known.
    pub spin_known: bool,
}

/// A second that has passed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Second {
    begin_ns: u64,
    lost: f64,
}

/// Collects the result.
#[derive(Clone, Debug)]
pub struct Account {
    source: &'static str,
    goal: Goal,
    gauge: Gauge,
    passed_ns: u64,
    open: Sample,
    seconds: Vec<Second>,
    /// For every second, the sums of windows and of demand × time from its beginning on.
    windows: Vec<(u64, Sample, f64)>,
}

impl Account {
    /// An empty account of observations by `source`.
    pub fn new(source: &'static str, goal: Goal, gauge: Gauge) -> Account {
        let (seconds, windows) = (Vec::new(), Vec::new());
        Account { source, goal, gauge, passed_ns: 0, open: Sample::default(), seconds, windows }
    }

    /// Adds a window with its demand. Returns the value of a second if the window completes one.
    pub fn add(&mut self, sample: &Sample, demand: f64) -> Option<f64> {
        let begin_ns = self.passed_ns - self.open.window_ns;
        if self.open.window_ns == 0 {
            self.windows.push((begin_ns, Sample::default(), 0.0));
        }
        let last = self.windows.last_mut().expect("one was pushed when the second began");
        last.1 = last.1.plus(sample);
        last.2 += demand * sample.window_ns as f64;
        self.passed_ns += sample.window_ns;
        self.open = self.open.plus(sample);
        // A window may end a little early: a second that lacks less than half a window is complete.
        if self.open.window_ns + sample.window_ns / 2 < SECOND_NS {
            return None;
        }
        let lost = self.gauge.lost(&std::mem::take(&mut self.open))?;
        self.seconds.push(Second { begin_ns, lost });
        Some(self.goal.measure().of_lost(lost))
    }

    /// Why the value was never known.
    fn untold(&self) -> &'static str {
        let all = self.windows.iter().fold(Sample::default(), |sum, w| sum.plus(&w.1));
        match self.gauge {
            _ if all.sleeps() => "the victim wanted no CPU all the while, so there was nothing to take from it",
            _ => {
                "the victim's spinning could not be separated from computing all the time; hold a steal, or give a baseline of 0"
            }
        }
    }

    /// The time since the beginning.
    pub fn passed_ns(&self) -> u64 {
        self.passed_ns
    }

    /// Whether the last second was in the band; `None` before there was one.
    pub fn is_held(&self) -> Option<bool> {
        self.seconds.last().map(|s| self.goal.is_held_by(s.lost))
    }

    /// The result. `limit` is the reason why no more could be done.
    pub fn outcome(&self, baseline: Option<Baseline>, limit: Option<String>) -> Held {
        let settled_ns = self.seconds.iter().find(|s| self.goal.is_held_by(s.lost)).map(|s| s.begin_ns);
        // A run that ends within the grace is reported from its last second on.
        let last_ns = self.seconds.last().map_or(self.passed_ns.saturating_sub(SECOND_NS), |s| s.begin_ns);
        let from_ns = settled_ns.unwrap_or(GRACE_NS.min(last_ns));
        let tells = |sample: &Sample| self.gauge.lost(sample).is_some();
        let after = || self.windows.iter().filter(|(begin_ns, ..)| *begin_ns >= from_ns);
        let sum_ns = |of: &dyn Fn(&Sample) -> bool| -> u64 {
            after().filter(|w| of(&w.1)).map(|(_, sample, _)| sample.window_ns).sum()
        };
        let (passed_ns, asleep_ns) = (sum_ns(&|_| true), sum_ns(&Sample::sleeps));
        let (whole, pressed) = after()
            .filter(|(_, sample, _)| tells(sample))
            .fold((Sample::default(), 0.0), |(sum, d), (_, s, demand)| (sum.plus(s), d + demand));
        let measure = self.goal.measure();
        let mut values: Vec<f64> =
            self.seconds.iter().filter(|s| s.begin_ns >= from_ns).map(|s| s.lost).collect();
        values.sort_by(f64::total_cmp);
        let inside = values.iter().filter(|lost| self.goal.is_held_by(**lost)).count();
        let mean = self.gauge.lost(&whole);
        let limit = if values.is_empty() && self.passed_ns > 0 { Some(self.untold().into()) } else { limit };
        let held = mean.is_some_and(|lost| self.goal.is_held_by(lost));
        Held {
            measure,
            target: self.goal.value(),
            band: self.goal.band(),
            mean: mean.map(|lost| measure.of_lost(lost)),
            p5: quantile(&values, 0.05).map(|lost| measure.of_lost(lost)),
            p95: quantile(&values, 0.95).map(|lost| measure.of_lost(lost)),
            in_band: (!values.is_empty()).then(|| inside as f64 / values.len() as f64),
            told: (passed_ns > 0).then(|| whole.window_ns as f64 / passed_ns as f64),
            asleep: (passed_ns > 0).then(|| asleep_ns as f64 / passed_ns as f64),
            settled_ns,
            held,
            demand: pressed / (whole.window_ns as f64).max(1.0),
            baseline,
            source: self.source,
            limit: limit.filter(|_| !held),
        }
    }
}

/// The value below which a `share` of the sorted `values` lies, interpolated.
fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let place = share * values.len().checked_sub(1)? as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    Some(values[below] + (values[above] - values[below]) * place.fract())
}

impl Display for Held {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        let text = |value: Option<f64>| value.map_or("unknown".into(), |v| self.measure.text(v));
        let name = match self.measure {
            Measure::Steal => "steal",
            Measure::Slowdown => "slowdown",
        };
        let verdict = match (self.held, self.in_band) {
            (false, _) => "NOT held",
            (true, Some(share)) if share < STEADY => "held on average",
            (true, _) => "held",
        };
        writeln!(
            f,
            "  {name} {} of {} asked for: {verdict}; 90 % of seconds {} to {}",
            text(self.mean),
            text(Some(self.target)),
            text(self.p5),
            text(self.p95)
        )?;
        let (low, high) = (text(Some(self.band.0)), text(Some(self.band.1)));
        let settled = self.settled_ns.map_or("never".into(), |ns| format!("after {}", human_ns(ns)));
        let in_band = self.in_band.map_or("unknown".into(), |share| format!("{:.0} %", share * 100.0));
        writeln!(
            f,
            "  in {low} to {high} for the first time {settled}, then {in_band} of the time; asked for {:.0} % of each CPU; seen through {}",
            self.demand * 100.0,
            self.source
        )?;
        let asleep = self.asleep.unwrap_or(0.0);
        if asleep >= 0.005 {
            let for_long = "after a second of that nothing was asked for";
            writeln!(f, "  the victim wanted no CPU for {:.0} % of that time; {for_long}", asleep * 100.0)?;
        }
        if let Some(told) = self.told.filter(|told| *told + asleep < 0.995) {
            writeln!(f, "  judged in {:.0} % of that time; the rest is unknown", told * 100.0)?;
        }
        if let Some(b) = self.baseline {
            let steal =
                b.steal.map_or(String::new(), |s| format!(", of which others took {:.1} %", s * 100.0));
            let spin = if b.spin_known { ", spinning left out" } else { "; spinning counts as progress" };
            let window = human_ns(b.window_ns);
            writeln!(f, "  baseline {:.2} CPUs over {window}{steal}{spin}", b.rate)?;
            if b.steal.is_some_and(|share| share > TAKEN_BEFORE) {
                writeln!(f, "  so the slowdown is relative to an already slowed victim, not to a solo run")?;
            }
        }
        match &self.limit {
            Some(limit) => writeln!(f, "  {limit}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn window(steal: f64) -> Sample {
        let wait_ns = (steal * 200.0 * MS as f64) as u64;
        Sample { window_ns: 200 * MS, run_ns: 200 * MS - wait_ns, spin_ns: None, wait_ns, alive: true }
    }

    fn account(steals: &[f64]) -> Account {
        let mut account = Account::new("test", Goal::Steal(0.25), Gauge::Steal);
        for steal in steals {
            account.add(&window(*steal), 0.3);
        }
        account
    }

    #[test]
    fn the_time_before_the_first_good_second_is_settling() {
        let steals = [[0.1; 5], [0.24; 5], [0.26; 5], [0.40; 5]].concat();
        let held = account(&steals).outcome(None, None);
        assert_eq!((held.settled_ns, held.held, held.limit.clone()), (Some(1_000 * MS), false, None));
        assert!((held.mean.unwrap() - 0.3).abs() < 1e-9 && (held.in_band.unwrap() - 2.0 / 3.0).abs() < 1e-9);
        assert!((held.p5.unwrap() - 0.242).abs() < 1e-9 && (held.p95.unwrap() - 0.386).abs() < 1e-9);
        assert!((held.demand - 0.3).abs() < 1e-9);
    }

    #[test]
    fn a_short_run_with_known_values_is_not_reported_as_unknown() {
        // The third second has begun and is not over.
        let held = account(&[0.9; 12]).outcome(None, Some("fair share".into()));
        assert_eq!(held.limit.as_deref(), Some("fair share"));
        assert!(held.p5.is_some_and(|p5| (p5 - 0.9).abs() < 1e-9), "{held:?}");
    }

    #[test]
    fn a_goal_that_was_held_has_no_limit() {
        let held = account(&[0.25; 10]).outcome(None, Some("fair share".into()));
        assert!(held.held && held.limit.is_none() && held.settled_ns == Some(0));
    }

    #[test]
    fn a_goal_that_was_never_reached_is_reported_from_the_end_of_the_grace() {
        let steals = [[0.0; 25], [0.15; 25]].concat();
        let held = account(&steals).outcome(None, Some("fair share".into()));
        assert!((held.mean.unwrap() - 0.15).abs() < 1e-9, "{held:?}");
        assert_eq!(
            (held.settled_ns, held.in_band, held.limit.as_deref()),
            (None, Some(0.0), Some("fair share"))
        );
        assert!(held.to_string().contains("steal 15.0 % of 25.0 % asked for: NOT held"), "{held}");
    }

    #[test]
    fn a_victim_that_sleeps_cannot_be_stolen_from() {
        let mut account = account(&[]);
        let asleep = Sample { window_ns: 200 * MS, alive: true, ..Sample::default() };
        assert!((0..10).all(|_| account.add(&asleep, 1.0).is_none()));
        let held = account.outcome(None, None);
        assert_eq!(held.told, Some(0.0));
        assert_eq!(held.asleep, Some(1.0));
        assert!(held.to_string().contains("wanted no CPU for 100 % of that time"), "{held}");
        assert!(held.mean.is_none() && held.limit.unwrap().contains("wanted no CPU"));
        // A sleeping victim has no slowdown either.
        let gauge = Gauge::Rate { solo: 1.0, useful: false };
        let mut account = Account::new("test", Goal::Slowdown(2.0), gauge);
        assert!((0..10).all(|_| account.add(&asleep, 1.0).is_none()));
        let held = account.outcome(None, None);
        assert!(held.mean.is_none() && held.limit.unwrap().contains("wanted no CPU"));
    }

    #[test]
    fn a_goal_that_is_met_on_average_does_not_count_as_held_all_the_time() {
        let said = |steals: &[f64]| account(steals).outcome(None, None).to_string();
        assert!(said(&[0.25; 20]).contains("asked for: held;"));
        let swings = [[0.25; 5], [0.1; 5], [0.4; 5], [0.25; 5]].concat();
        assert!(said(&swings).contains("asked for: held on average;"), "{}", said(&swings));
    }

    #[test]
    fn a_victim_that_was_slowed_before_is_reported() {
        let baseline =
            |steal| Some(Baseline { window_ns: MS, rate: 1.0, steal: Some(steal), spin_known: true });
        let said = |steal| account(&[0.25; 10]).outcome(baseline(steal), None).to_string();
        assert!(said(0.2).contains("an already slowed victim"));
        assert!(!said(0.05).contains("already slowed"));
    }

    #[test]
    fn the_share_of_known_time_is_reported() {
        let gauge = Gauge::Rate { solo: 1.0, useful: true };
        let mut account = Account::new("test", Goal::Slowdown(2.0), gauge);
        for n in 0..20 {
            let spin_ns = (!(5..10).contains(&n)).then_some(0);
            account.add(&Sample { run_ns: 100 * MS, spin_ns, ..window(0.0) }, 0.5);
        }
        let held = account.outcome(None, None);
        assert_eq!((held.mean, held.in_band, held.told), (Some(2.0), Some(1.0), Some(0.75)));
        assert!(held.to_string().contains("judged in 75 % of that time"), "{held}");
    }

    #[test]
    fn seconds_are_reported_as_they_complete() {
        let mut account = Account::new("test", Goal::Slowdown(2.0), Gauge::Rate { solo: 2.0, useful: false });
        let told: Vec<Option<f64>> = (0..10).map(|_| account.add(&window(0.0), 0.5)).collect();
        assert_eq!(told.iter().flatten().copied().collect::<Vec<_>>(), [2.0, 2.0]);
        assert_eq!((told[4].is_some(), account.is_held()), (true, Some(true)));
    }

    #[test]
    fn without_a_single_second_nothing_is_claimed() {
        let held = account(&[]).outcome(None, None);
        assert_eq!((held.mean, held.p5, held.in_band, held.held), (None, None, None, false));
    }
}
