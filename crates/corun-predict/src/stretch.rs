//! What a stretch of a run tells: shared windows of one behaviour, with the dedicated ones among them or by their ledger alone.
//!
//! Stretches of different behaviour follow each other in a run. The times that they would take alone add up, and so
//!
//! ```text
//! slowdown of the run = Σ wall_i / Σ (wall_i / slowdown_i)
//! ```
//!
//! the mean of their slowdowns, each weighted by how long it would take alone. The parts of the slowdown are such means,
//! too, so they still sum to it.
//!
//! Limits: the errors of stretches are taken to be independent as far as chance goes, and as one as far as the method's own
//! error goes.

use crate::alone::{self, Alone, Hints};
use crate::dedicated::{self, Speed};
use crate::errors;
use crate::estimate::{Assignment, CannotTell, Method, Way};
use crate::evidence::Counterfactual;
use crate::interval::{batches, jackknife, Spread, FEWEST};
use crate::loss;
use crate::steps::goes_in_steps;
use crate::stretch_estimate::{no_dedicated, parts_of, Rule, StretchEstimate};
use crate::switch_cost::switch_cost_ns;
use crate::useful_work::{Spent, Window};
use crate::wake_ups;
use crate::weighed::weighed;
use crate::yardstick::{spin_stalls, Yardstick};
use corun_model::{Unavailable, What};
use std::collections::BTreeSet;

/// Windows of one behaviour, each kind in the order of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch<'a> {
    pub shared: &'a [Window],
    pub dedicated: &'a [Window],
    /// All dedicated windows of the run, which tell how far a few scatter.
    pub all_dedicated: &'a [Window],
    /// What is known of the run alone by better means than sums.
    pub known: &'a Counterfactual,
    pub assignment: Assignment,
    /// By which method.
    pub way: Way,
    /// As [`Hints::wake_up_ns`].
    pub wake_up_ns: f64,
}

impl Stretch<'_> {
    /// What it tells, by dedicated windows if there are any in it (and by its ledger, as far as they are unsure), else by its
    /// ledger.
    pub fn estimate(&self) -> Result<StretchEstimate, CannotTell> {
        if self.shared.is_empty() {
            // Two changes of phase may lie in one slot of a long run.
            return Err(CannotTell::NoSharedWindow);
        }
        let shared = Window::sum(self.shared);
        let alone = Window::sum(self.dedicated);
        if self.all_dedicated.len() >= FEWEST && alone.total().compute_ns > 0.0 {
            let dedicated = self.by_dedicated(&alone, &shared)?;
            Ok(match self.by_ledger(&shared) {
                Ok(ledger) if self.way == Way::Best => weighed(dedicated, ledger),
                _ => dedicated,
            })
        } else if self.way == Way::Pact16 {
            Err(CannotTell::TooFewDedicated)
        } else {
            self.by_ledger(&shared)
        }
    }

    /// `alone` and `shared` are the sums of its windows.
    fn by_dedicated(&self, alone: &Window, shared: &Window) -> Result<StretchEstimate, CannotTell> {
        let mut missing = BTreeSet::new();
        let switch_ns = switch_cost_ns(alone).or_else(|_| switch_cost_ns(shared));
        if let Err(why) = switch_ns {
            missing.insert(Unavailable {
                what: What::SwitchCost,
                why: format!("{why}; it stays inside useful work"),
            });
        }
        let switch_ns = switch_ns.unwrap_or(0.0);
        let (share, unsure) = spin_stalls(self.shared).unzip();
        let (by, critical) = match self.way {
            Way::Best => (
                Yardstick::of(&alone.total(), &shared.total(), switch_ns, share),
                dedicated::critical_tasks(alone, shared),
            ),
            Way::Pact16 => (Yardstick::pact16(&alone.total(), &shared.total(), switch_ns), None),
        };
        let is_best = self.way == Way::Best;
        let by_steps =
            is_best && by.is_blind() && critical.is_none() && goes_in_steps(self.dedicated, self.shared);
        let by = if by_steps { Yardstick::Blockings } else { by };
        let blind = if is_best { Yardstick::blind(switch_ns) } else { by };
        let speed = Speed::of(self.dedicated, self.shared, by, unsure.unwrap_or(0.0), blind, critical);
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
        if parts.memory.is_none() {
            missing.insert(no_memory(
                &shared.total(),
                "it spins, and either stalls on memory for nearly all the rest, so that too little is left to be \
                 compared, or always spins alike, so that nobody can tell which stalls are those of spinning",
            ));
        }
        missing.extend(wake_ups::unknown(alone, self.wake_up_ns));
        Ok(StretchEstimate {
            wall_ns: shared.wall_ns,
            slowdown,
            least: slowdown,
            spread,
            method_error: errors::DEDICATED.min(self.at_stake(shared, slowdown)),
            parts,
            method: Method::Dedicated,
            slowest,
            missing,
            rules: vec![(self.begin_ns(), Rule::Dedicated { speed, fast })],
        })
    }

    /// How far chance may have moved a slowdown, through the windows of either kind: those of the other stay together, as
    /// their sum. Of a few dedicated windows that is told by all there are.
    fn spread_of(
        &self,
        alone: &Window,
        shared: &Window,
        slowdown: impl Fn(&Window, &Window) -> Option<f64>,
    ) -> Option<Spread> {
        let of_alone = |windows: &[Window]| jackknife(&batches(windows.iter()), |w| slowdown(w, shared));
        let of_beside = |windows: &[Window]| jackknife(&batches(windows.iter()), |w| slowdown(alone, w));
        let alone = of_alone(self.dedicated).or_else(|| {
            let all = of_alone(self.all_dedicated)?;
            let more = self.all_dedicated.len() as f64 / self.dedicated.len() as f64;
            Some(Spread { error: all.error * more.sqrt(), ..all })
        })?;
        let beside = of_beside(self.shared)?;
        Some(Spread { error: alone.error.hypot(beside.error), degrees: alone.degrees.min(beside.degrees) })
    }

    /// `shared` is the sum of its windows.
    fn by_ledger(&self, shared: &Window) -> Result<StretchEstimate, CannotTell> {
        let hints = Hints::of(self.shared, self.wake_up_ns);
        let found = alone::likely(shared, hints).ok_or(CannotTell::OnlyWaited)?;
        let is_static = self.assignment == Assignment::Static && self.apart(shared);
        let value = |a: Alone| if is_static { a.slowest } else { a.slowdown };
        let loss = loss::of(self.shared, hints, self.known);
        let slowdown = match is_static {
            true => found.slowest,
            false => loss.slowdown_by_sums(),
        };
        let of = |w: &Window| alone::likely(w, hints).map(value);
        // How much of the waiting is the program's own is not known: a share of the distance between the bounds.
        let unbound = alone::from_ledger(shared, hints.all_its_own()).map_or(slowdown, value).min(slowdown);
        let bounds = errors::LEDGER_BETWEEN_BOUNDS * (slowdown / unbound).ln();
        let dedicated = self.all_dedicated.len();
        let by_sums = StretchEstimate {
            wall_ns: shared.wall_ns,
            slowdown,
            least: loss.slowdowns()[0].min(slowdown),
            spread: jackknife(&batches(self.shared.iter()), of),
            method_error: errors::LEDGER.min(self.at_stake(shared, slowdown)).hypot(bounds),
            parts: parts_of(&loss, slowdown),
            method: Method::Ledger,
            slowest: self.apart(shared).then_some(found.slowest),
            missing: [
                no_memory(&shared.total(), "how long it stalls alone is not known without dedicated windows"),
                no_dedicated(dedicated, Method::Ledger),
            ]
            .into_iter()
            .chain(wake_ups::unknown(shared, self.wake_up_ns))
            .collect(),
            rules: vec![(self.begin_ns(), Rule::Ledger(hints, 1.0))],
        };
        Ok(if is_static { by_sums } else { by_sums.by_evidence(&loss, dedicated) })
    }

    /// By how much a method can be wrong at all, as a logarithm: what was found, or may at most have been taken; and the
    /// share of the machine that co-runners had, since what they do to caches and clocks no ledger shows. Where nobody
    /// was there and nothing was taken, a program is as fast as alone.
    fn at_stake(&self, shared: &Window, slowdown: f64) -> f64 {
        let most = alone::from_ledger(shared, Hints::default());
        let most = most.map_or(slowdown, |a| match self.assignment {
            Assignment::Static => a.slowest,
            Assignment::Dynamic => a.slowdown,
        });
        let there = shared.corunners_ns / (shared.wall_ns * shared.cpus.max(1) as f64);
        most.ln().max(slowdown.ln().abs()) + there
    }

    fn begin_ns(&self) -> u64 {
        self.shared.first().map_or(0, |w| w.start_ns)
    }

    /// Whether tasks hardly wait for each other, so that each goes its own way.
    fn apart(&self, window: &Window) -> bool {
        let all = window.total();
        all.life_ns > 0.0 && all.waiting_ns() < 0.02 * all.life_ns && window.tasks.len() > 1
    }
}

/// Why there is no memory part. `counted`: why not although events were counted.
fn no_memory(shared: &Spent, counted: &str) -> Unavailable {
    let part = 100.0 * shared.memory.in_ns / shared.on_cpu_ns().max(1.0);
    let why = if shared.memory.in_ns == 0.0 {
        "without hardware counters memory stalls are part of compute, so their change is not seen".to_owned()
    } else if !shared.knows_memory() {
        format!("events were counted in only {part:.0} % of its time on a CPU, since its tasks begin and end too fast")
    } else {
        counted.to_owned()
    };
    Unavailable { what: What::Memory, why }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        assert!((together.slowdown - 2.5).abs() < 1e-9 && (slowest.slowdown - 1.0 / 0.35).abs() < 1e-9);
        assert!(together.spread.unwrap().error < 1e-9);
        // The standard error of the slowest task's share, by that share.
        let error = 0.1 * (3.0f64 / 4.0).sqrt() / 15f64.sqrt() / 0.35;
        assert!((slowest.spread.unwrap().error / error - 1.0).abs() < 0.1, "{:?}", slowest.spread);
    }

    #[test]
    fn the_papers_formula_takes_dedicated_windows_and_looks_at_nothing_else() {
        // Its ledger says 2: alone it computes for as much as its ledger does not expect.
        let shared: Vec<Window> = (0..16).map(|i| window(i, [0.5; 2])).collect();
        let alone: Vec<Window> = (16..20).map(|i| window(i, [0.75; 2])).collect();
        let of = |dedicated: usize| {
            let stretch = Stretch { way: Way::Pact16, ..of_windows(&shared, &alone[..dedicated]) };
            stretch.estimate().map(|e| e.slowdown)
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
        assert!(why(0).unwrap().starts_with("none was taken"));
        assert!(why(1).unwrap().starts_with("1 of the three that are needed was taken"));
        assert!(why(2).unwrap().starts_with("2 of the three that are needed were taken"));
        assert_eq!(why(3), None);
    }

    #[test]
    fn a_program_beside_nobody_from_which_nothing_is_taken_is_as_fast_as_alone_for_certain() {
        let estimate_of = |taken: f64, there: f64, is_dedicated: bool| {
            let beside = |i| Window { corunners_ns: 2.0 * there * WALL_NS, ..window(i, [1.0 - taken; 2]) };
            let shared: Vec<Window> = (0..16).map(beside).collect();
            let alone: Vec<Window> = (16..20).map(|i| window(i, [1.0; 2])).collect();
            let dedicated = if is_dedicated { &alone[..] } else { &[] };
            of_windows(&shared, dedicated).estimate().unwrap().method_error
        };
        for (is_dedicated, most) in [(true, errors::DEDICATED), (false, errors::LEDGER)] {
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
            |stretches: &[StretchEstimate]| StretchEstimate::sum(stretches).unwrap().spread.unwrap().error;
        let known = estimate_of(&whole);
        let short = StretchEstimate { wall_ns: known.wall_ns, ..estimate_of(&whole[..2]) };
        assert_eq!(short.spread, None);
        let both_known = error(&[known.clone(), known.clone()]);
        let one_unknown = error(&[known.clone(), short]);
        assert!((one_unknown / both_known - 1.0).abs() < 0.02, "{one_unknown} {both_known}");
        let unknown = estimate_of(&whole[..2]);
        assert_eq!(StretchEstimate::sum(&[unknown.clone(), unknown]).unwrap().spread, None);
    }
}
