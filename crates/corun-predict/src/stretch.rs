//! The estimate for a stretch of a run: shared windows of one behavior, with the dedicated ones among them or with their ledger alone.
//!
//! Stretches of different behavior follow each other in a run. The times that they would take alone add up, and so
//!
//! ```text
//! slowdown of the run = Σ wall_i / Σ (wall_i / slowdown_i)
//! ```
//!
//! This is the mean of their slowdowns, each weighted by how long it would take alone. The parts of the slowdown are such means, too, so
//! they still sum to it.
//!
//! Limits: the errors of stretches are assumed to be independent as far as chance goes, and the same as far as the method's own error goes.

use crate::alone::{self, Alone, Hints};
use crate::combine::Evidence;
use crate::counterfactual::Counterfactual;
use crate::dedicated::{self, Speed};
use crate::definitions::NEGLIGIBLE;
use crate::estimate::{Assignment, CannotTell, Method, Waited, Way};
use crate::interval::{self, Spread, FEWEST};
use crate::loss;
use crate::placement::Placement;
use crate::steps::goes_in_steps;
use crate::stretch_estimate::{no_dedicated, parts_of, Rule, StretchEstimate};
use crate::switch_cost::switch_cost_ns;
use crate::useful_work::{Spent, Window};
use crate::wake_ups;
use crate::yardstick::{spin_stalls, Yardstick};
use corun_model::why::NoSwitchCost;
use corun_model::{Unavailable, What, Why};
use std::collections::BTreeSet;

/// Windows of one behavior, each kind in the order of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch<'a> {
    pub shared: &'a [Window],
    pub dedicated: &'a [Window],
    /// All dedicated windows of the run, which show how far a few scatter.
    pub all_dedicated: &'a [Window],
    /// What is known about the run alone by better means than sums.
    pub known: &'a Counterfactual,
    pub assignment: Assignment,
    /// By which method.
    pub way: Way,
    /// As [`Hints::wake_up_ns`].
    pub wake_up_ns: f64,
}

/// A way to the slowdown of a stretch. [`crate::combine`] weighs the answers.
trait Estimator {
    /// Its answer.
    ///
    /// # Errors
    /// Why it has none: it does not apply here.
    fn estimate(&self, of: &Stretch<'_>) -> Result<StretchEstimate, CannotTell>;
}

/// Useful work alone divided by useful work shared (PACT'16 §4), with every meter that applies.
struct DedicatedWindows;

/// The same with the paper's own formula: total time less steal, synchronization and memory.
struct PapersFormula;

/// The loss according to the sums of the shared windows, with a replay if there is one.
struct LedgerAndReplay;

impl Stretch<'_> {
    /// The ways to its slowdown, the one that sees most first.
    fn estimators(&self) -> &'static [&'static dyn Estimator] {
        match self.way {
            Way::Best => &[&DedicatedWindows, &LedgerAndReplay],
            Way::Pact16 => &[&PapersFormula],
        }
    }

    /// The answer of all of them together.
    pub fn estimate(&self) -> Result<StretchEstimate, CannotTell> {
        if self.shared.is_empty() {
            // Two changes of phase may lie in one slot of a long run.
            return Err(CannotTell::NoSharedWindow);
        }
        let of_all: Vec<_> = self.estimators().iter().map(|estimator| estimator.estimate(self)).collect();
        let why = of_all.iter().rev().find_map(|told| told.as_ref().err().copied());
        let told = of_all.into_iter().flatten();
        told.reduce(StretchEstimate::with).ok_or(why.unwrap_or(CannotTell::NoSharedWindow))
    }

    /// The sums of its windows, dedicated and shared, if there are enough of the former.
    fn alone_and_shared(&self) -> Result<(Window, Window), CannotTell> {
        let alone = Window::sum(self.dedicated);
        match self.all_dedicated.len() >= FEWEST && alone.total().compute_ns > 0.0 {
            true => Ok((alone, Window::sum(self.shared))),
            false => Err(CannotTell::TooFewDedicated),
        }
    }
}

impl Estimator for DedicatedWindows {
    fn estimate(&self, of: &Stretch<'_>) -> Result<StretchEstimate, CannotTell> {
        let (alone, shared) = of.alone_and_shared()?;
        let switch_ns = switch_cost_of(&alone, &shared);
        let blind = Yardstick::blind(switch_ns.unwrap_or(0.0));
        let (share, unsure) = spin_stalls(of.shared).unzip();
        let by = Yardstick::of(&alone.total(), &shared.total(), switch_ns.unwrap_or(0.0), share);
        let critical = dedicated::critical_tasks(&alone, &shared);
        let by_steps = by.is_blind() && critical.is_none() && goes_in_steps(of.dedicated, of.shared);
        let by = if by_steps { Yardstick::Blockings } else { by };
        let speed = Speed::of(of.dedicated, of.shared, by, unsure.unwrap_or(0.0), blind, critical);
        of.by_rate(&alone, &shared, speed, switch_ns)
    }
}

impl Estimator for PapersFormula {
    fn estimate(&self, of: &Stretch<'_>) -> Result<StretchEstimate, CannotTell> {
        let (alone, shared) = of.alone_and_shared()?;
        let switch_ns = switch_cost_of(&alone, &shared);
        let by = Yardstick::pact16(&alone.total(), &shared.total(), switch_ns.unwrap_or(0.0));
        of.by_rate(&alone, &shared, Speed::by_one(by), switch_ns)
    }
}

/// The cost of a switch in these windows, or why nobody can tell.
fn switch_cost_of(alone: &Window, shared: &Window) -> Result<f64, NoSwitchCost> {
    switch_cost_ns(alone).or_else(|_| switch_cost_ns(shared))
}

impl Stretch<'_> {
    /// From its speed alone and shared; `alone` and `shared` are the sums of its windows.
    fn by_rate(
        &self,
        alone: &Window,
        shared: &Window,
        speed: Speed,
        switch_ns: Result<f64, NoSwitchCost>,
    ) -> Result<StretchEstimate, CannotTell> {
        let (fast, slow) = (speed.rate(alone), speed.rate(shared));
        if fast <= 0.0 || slow <= 0.0 {
            return Err(CannotTell::NoUsefulWork);
        }
        let slowest = self.apart(alone).then(|| speed.slowest(alone, shared)).flatten();
        let of_slowest = slowest.filter(|_| self.assignment == Assignment::Static);
        let slowdown = of_slowest.unwrap_or(fast / slow);
        let spread = match of_slowest {
            Some(_) => self.spread_of(alone, shared, |alone, beside| speed.slowest(alone, beside)),
            None => self.spread_of(alone, shared, |alone, beside| {
                Some(speed.rate(alone) / speed.rate(beside)).filter(|s| s.is_finite())
            }),
        };
        let parts = speed.parts(alone, shared, slowdown);
        let mut missing = BTreeSet::new();
        missing.extend(
            switch_ns.err().map(|why| Unavailable { what: What::SwitchCost, why: Why::NoSwitchCost(why) }),
        );
        if parts.memory.is_none() {
            missing.insert(no_memory(&shared.total(), Why::SpinningHidesStalls));
        }
        missing.extend(wake_ups::unknown(alone, self.wake_up_ns));
        missing.extend(unsteady(spread));
        let placement = Placement::of(self.dedicated, self.shared, |w| speed.rate(w));
        missing.extend(placement.unknown());
        let bias = loss::method_error(shared, slowdown).hypot(placement.error());
        Ok(StretchEstimate {
            wall_ns: shared.wall_ns,
            evidence: Evidence::new(slowdown, spread.map(|(spread, _)| spread), bias, parts),
            least: slowdown,
            most: slowdown,
            method: Method::Dedicated,
            slowest,
            missing,
            rules: vec![(self.begin_ns(), Rule::Dedicated { speed, fast })],
        })
    }

    /// How far chance may have moved a slowdown, through the windows of either kind while those of the other kind stay together, as their
    /// sum. For a few dedicated windows, all of them tell that. And whether shared windows are alike for long.
    fn spread_of(
        &self,
        alone_sum: &Window,
        shared: &Window,
        slowdown: impl Fn(&Window, &Window) -> Option<f64>,
    ) -> Option<(Spread, bool)> {
        let of_alone = |windows: &[Window]| interval::spread(windows, |w| slowdown(w, shared));
        let alone = of_alone(self.dedicated).map(|(spread, _)| spread).or_else(|| {
            let (all, _) = of_alone(self.all_dedicated)?;
            let more = self.all_dedicated.len() as f64 / self.dedicated.len() as f64;
            Some(Spread { error: all.error * more.sqrt(), ..all })
        })?;
        let (beside, lasts) = interval::spread(self.shared, |w| slowdown(alone_sum, w))?;
        let (error, degrees) = (alone.error.hypot(beside.error), alone.degrees.min(beside.degrees));
        Some((Spread { error, degrees }, lasts))
    }

    fn begin_ns(&self) -> u64 {
        self.shared.first().map_or(0, |w| w.start_ns)
    }

    /// Whether tasks hardly wait for each other, so that each goes its own way.
    fn apart(&self, window: &Window) -> bool {
        let all = window.total();
        all.life_ns > 0.0 && all.waiting_ns() < NEGLIGIBLE * all.life_ns && window.tasks.len() > 1
    }
}

impl Estimator for LedgerAndReplay {
    fn estimate(&self, of: &Stretch<'_>) -> Result<StretchEstimate, CannotTell> {
        let shared = &Window::sum(of.shared);
        let hints = Hints::of(of.shared, of.wake_up_ns);
        let only_waited = || CannotTell::OnlyWaited(Waited::of(&shared.total()));
        let found = alone::likely(shared, hints).ok_or_else(only_waited)?;
        let is_static = of.assignment == Assignment::Static && of.apart(shared);
        let value = |a: Alone| if is_static { a.slowest } else { a.slowdown };
        let loss = loss::of(of.shared, hints, of.known);
        let slowdown = match is_static {
            true => found.slowest,
            false => loss.slowdown_by_sums(),
        };
        let of_window = |w: &Window| alone::likely(w, hints).map(value);
        let bias = loss::method_error(shared, slowdown).hypot(loss.waits_unsure());
        let spread = interval::spread(of.shared, of_window);
        let dedicated = of.all_dedicated.len();
        let by_sums = StretchEstimate {
            wall_ns: shared.wall_ns,
            evidence: Evidence::new(
                slowdown,
                spread.map(|(spread, _)| spread),
                bias,
                parts_of(&loss, slowdown),
            ),
            least: loss.slowdowns()[0].min(slowdown),
            most: loss.slowdowns()[2].max(slowdown),
            method: Method::Ledger,
            slowest: of.apart(shared).then_some(found.slowest),
            missing: [
                no_memory(&shared.total(), Why::StallsAloneUnknown),
                no_dedicated(dedicated, Method::Ledger),
            ]
            .into_iter()
            .chain(wake_ups::unknown(shared, of.wake_up_ns))
            .chain(unsteady(spread))
            .collect(),
            rules: vec![(of.begin_ns(), Rule::Ledger(hints, 1.0))],
        };
        Ok(if is_static { by_sums } else { by_sums.by_evidence(&loss, dedicated) })
    }
}

/// A note that it is fast or slow for long, if that makes the answer less certain.
fn unsteady(spread: Option<(Spread, bool)>) -> Option<Unavailable> {
    spread
        .filter(|(spread, lasts)| *lasts && spread.error > NEGLIGIBLE)
        .map(|_| Unavailable { what: What::SteadySpeed, why: Why::FastOrSlowForLong })
}

/// Why there is no memory part. `counted`: the reason if events were counted.
fn no_memory(shared: &Spent, counted: Why) -> Unavailable {
    let part = 100.0 * shared.memory.in_ns / shared.on_cpu_ns().max(1.0);
    let why = if shared.memory.in_ns == 0.0 {
        Why::StallsNotCounted
    } else if !shared.knows_memory() {
        Why::StallsCountedInPart { percent: part.round() as u64 }
    } else {
        counted
    };
    Unavailable { what: What::Memory, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrated::REST_OF_RUN;
    use corun_model::TaskId;

    const WALL_NS: f64 = 100.0;

    /// A window of two tasks that compute for these shares of it.
    fn window(i: u64, shares: [f64; 2]) -> Window {
        let spent = |share: f64| Spent {
            life_ns: WALL_NS,
            compute_ns: share * WALL_NS,
            stolen_ns: (1.0 - share) * WALL_NS,
            ..Spent::default()
        };
        let tasks = [(TaskId(1), spent(shares[0])), (TaskId(2), spent(shares[1]))].into();
        let start_ns = i * WALL_NS as u64;
        Window { start_ns, end_ns: start_ns + 100, wall_ns: WALL_NS, tasks, cpus: 2, ..Window::default() }
    }

    /// Windows of which nothing else is known.
    fn of_windows<'a>(shared: &'a [Window], dedicated: &'a [Window]) -> Stretch<'a> {
        Stretch {
            shared,
            dedicated,
            all_dedicated: dedicated,
            known: Box::leak(Box::default()),
            assignment: Assignment::Dynamic,
            way: Way::Best,
            wake_up_ns: 0.0,
        }
    }

    #[test]
    fn the_spread_is_that_of_what_is_told_the_slowest_task_or_all_together() {
        // What one task gets the other lacks: together they are as fast at any time.
        let shares = [[0.3, 0.5], [0.5, 0.3], [0.3, 0.5], [0.3, 0.5]];
        let shared: Vec<Window> = (0..16).map(|i| window(i, shares[i as usize % 4])).collect();
        let dedicated: Vec<Window> = (16..20).map(|i| window(i, [1.0, 1.0])).collect();
        let estimate =
            |assignment| Stretch { assignment, ..of_windows(&shared, &dedicated) }.estimate().unwrap();
        let (together, slowest) = (estimate(Assignment::Dynamic), estimate(Assignment::Static));
        assert!((together.slowdown() - 2.5).abs() < 1e-9 && (slowest.slowdown() - 1.0 / 0.35).abs() < 1e-9);
        assert!(together.evidence.standard_error < 1e-9);
        // The standard error of the slowest task's share, by that share.
        let error = 0.1 * (3.0f64 / 4.0).sqrt() / 15f64.sqrt() / 0.35;
        assert!((slowest.evidence.standard_error / error - 1.0).abs() < 0.1, "{:?}", slowest.evidence);
    }

    #[test]
    fn the_papers_formula_takes_dedicated_windows_and_looks_at_nothing_else() {
        // Its ledger says 2: alone it computes for as much as its ledger does not expect.
        let shared: Vec<Window> = (0..16).map(|i| window(i, [0.5; 2])).collect();
        let alone: Vec<Window> = (16..20).map(|i| window(i, [0.75; 2])).collect();
        let of = |dedicated: usize| {
            let stretch = Stretch { way: Way::Pact16, ..of_windows(&shared, &alone[..dedicated]) };
            stretch.estimate().map(|e| e.slowdown())
        };
        assert_eq!(of(2), Err(CannotTell::TooFewDedicated));
        assert!((of(4).unwrap() - 1.5).abs() < 1e-9, "{:?}", of(4));
    }

    #[test]
    fn it_is_said_how_many_dedicated_windows_there_were_where_they_are_too_few() {
        let shared: Vec<Window> = (0..16).map(|i| window(i, [0.5; 2])).collect();
        let alone: Vec<Window> = (16..20).map(|i| window(i, [1.0; 2])).collect();
        let why = |n: usize| {
            let missing = of_windows(&shared, &alone[..n]).estimate().unwrap().missing;
            missing.into_iter().find(|u| u.what == What::DedicatedWindows).map(|u| u.why)
        };
        for taken in 0..3 {
            assert_eq!(why(taken), Some(Why::TooFewDedicated { taken, by_replay: false }));
        }
        assert_eq!(why(3), None);
    }

    #[test]
    fn a_program_beside_nobody_from_which_nothing_is_taken_is_as_fast_as_alone_for_certain() {
        let estimate_of = |taken: f64, there: f64, is_dedicated: bool| {
            let beside = |i| Window { corunners_ns: 2.0 * there * WALL_NS, ..window(i, [1.0 - taken; 2]) };
            let shared: Vec<Window> = (0..16).map(beside).collect();
            let alone: Vec<Window> = (16..20).map(|i| window(i, [1.0; 2])).collect();
            let dedicated = if is_dedicated { &alone[..] } else { &[] };
            of_windows(&shared, dedicated).estimate().unwrap().evidence.bias
        };
        for is_dedicated in [true, false] {
            let most = REST_OF_RUN;
            assert!(estimate_of(0.0, 0.0, is_dedicated) < 1e-9);
            let hardly = estimate_of(0.003, 0.002, is_dedicated);
            assert!(0.004 < hardly && hardly < 0.01, "{hardly}");
            assert_eq!(estimate_of(0.2, 0.1, is_dedicated), most, "what is taken may be told wrongly");
            assert_eq!(
                estimate_of(0.0, 0.5, is_dedicated),
                most,
                "caches are shared with whoever takes no CPU"
            );
        }
    }

    #[test]
    fn a_stretch_too_short_to_tell_how_far_it_scatters_is_not_taken_to_be_certain() {
        let whole: Vec<Window> = (0..16).map(|i| window(i, [[0.4; 2], [0.6; 2]][i as usize % 2])).collect();
        let estimate_of = |shared: &[Window]| of_windows(shared, &[]).estimate().unwrap();
        let error =
            |stretches: &[StretchEstimate]| StretchEstimate::sum(stretches).unwrap().evidence.standard_error;
        let known = estimate_of(&whole);
        let short = StretchEstimate { wall_ns: known.wall_ns, ..estimate_of(&whole[..2]) };
        assert_eq!(short.evidence.spread(), None);
        let both_known = error(&[known.clone(), known.clone()]);
        let one_unknown = error(&[known.clone(), short]);
        assert!((one_unknown / both_known - 1.0).abs() < 0.02, "{one_unknown} {both_known}");
        let unknown = estimate_of(&whole[..2]);
        assert_eq!(StretchEstimate::sum(&[unknown.clone(), unknown]).unwrap().evidence.spread(), None);
    }
}
