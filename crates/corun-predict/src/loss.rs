//! How much of its wall time a run lost to co-runners: the one definition for every verb, for the whole and its parts.
//!
//! Method. The run is cut into slots. The ledger of each slot tells what that slot lost ([`crate::alone`]), within the bounds that hold for
//! it ([`crate::bounds`]). The losses of slots add up. So a script that computes for a moment and then waits for long loses only in that
//! moment. The bounds of the whole run hold as well, and may be tighter than those of its slots (a quota, a short thread that had time to
//! spare). Then the loss of every slot is reduced in proportion.
//!
//! If evidence ([`crate::counterfactual`]: a replay of the run) covers nearly all of the run, both answers are weighed
//! ([`crate::combine`]), within the bounds that are certain. The losses of the slots are then scaled to the result. Each answer is as
//! unsure as the distance that it leaves open on the side of the other. The sums leave open what sleeps absorbed and which waits are the
//! program's own, and they do not see the order of events. For a program that spins, evidence counts only if it knows how much it spun. No
//! more may have come out of a sleep than the evidence says.
//!
//! Sums do not tell whether theft shortened a sleep (in a program that paces itself) or delayed what came after it (in a program that
//! sleeps for a fixed time). So a loss is three numbers: at least, most likely, at most. A program that is behind may catch up later: theft
//! from a task before it sleeps again may come out of that sleep, too. So may theft from the time in which the program's own CPU budget
//! would have stopped it.
//!
//! Nobody knows how long tasks waited that were too short for anybody to look at ([`crate::unseen`]): as much as the bounds allow. And
//! others may have waited for those tasks, which is no theft.
//!
//! Limits: those of the ledger ([`crate::alone`]) and of the bounds.

use crate::alone::{self, Hints};
use crate::bounds::Bounds;
use crate::calibrated::{REPLAY, REST_OF_RUN, WAITS_OF_ITS_OWN};
use crate::combine::Weight;
use crate::counterfactual::Counterfactual;
use crate::definitions::{NEARLY_ALL, NEGLIGIBLE};
use crate::interval::{interval, towards, Spread, MANY};
use crate::useful_work::{Spent, Window};
use corun_model::TaskId;
use std::collections::BTreeMap;

/// Definition: the shortest time that is judged on its own, in nanoseconds.
pub const SLOT_NS: u64 = 50_000_000;

/// What a stretch of a run lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// Its wall time, in nanoseconds.
    pub wall_ns: f64,
    /// The time that would not have been needed alone, in nanoseconds. The middle one is most likely; the ends are those of what the sums
    /// and the evidence leave open. Less than 0 where it would take longer alone.
    pub lost_ns: [f64; 3],
    /// The ends of `lost_ns`, each off by one standard error of a replay that has a say: a verdict is ruled by these.
    pub ruled_ns: [f64; 2],
    /// How far off the likely slowdown may be besides what is open: a standard deviation of its logarithm.
    pub error: f64,
    /// The loss according to the sums if all waiting for siblings is the program's own, in nanoseconds.
    pub own_ns: f64,
    /// The part of the likely loss in which tasks waited for CPUs themselves; the rest they waited for others.
    pub steal_ns: f64,
    /// The part of the likely loss in which its own CPU budget may have stopped it anyway.
    pub stopped_anyway_ns: f64,
    /// What evidence says; `None`: it does not cover nearly all of the run.
    pub evident: Option<Evident>,
}

/// What evidence says of a loss, and how much it counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evident {
    /// What was lost according to it, in nanoseconds: at least, most likely, at most.
    pub lost_ns: [f64; 3],
    /// The loss according to the sums alone.
    pub by_sums_ns: f64,
    /// Its weight against the sums.
    pub weight: Weight,
}

impl Loss {
    /// What a slot lost.
    pub fn of(slot: &Window, hints: Hints) -> Loss {
        by_ledger(slot, hints)
    }

    /// Time by time alone: 1 is undisturbed.
    pub fn slowdown(&self) -> f64 {
        self.slowdowns()[1]
    }

    /// The same: at least, most likely, at most.
    pub fn slowdowns(&self) -> [f64; 3] {
        self.lost_ns.map(|lost_ns| self.slowdown_at(lost_ns))
    }

    /// The slowdown of a run of this length that lost so much.
    pub(crate) fn slowdown_at(&self, lost_ns: f64) -> f64 {
        self.wall_ns.max(1.0) / (self.wall_ns - lost_ns).max(1.0)
    }

    /// The interval of this confidence for what was lost, in nanoseconds: that of its slowdown, as `corun predict` has it. All of the run
    /// was seen, so there is no chance in it.
    pub fn interval_ns(&self, confidence: f64) -> [f64; 2] {
        let certain = Spread { error: 0.0, degrees: MANY };
        interval(self.slowdowns(), certain, self.error, confidence)
            .map(|slowdown| self.wall_ns * (1.0 - 1.0 / slowdown))
    }

    /// Time by time alone according to the sums, whatever evidence says.
    pub(crate) fn slowdown_by_sums(&self) -> f64 {
        self.slowdown_at(self.evident.map_or(self.lost_ns[1], |e| e.by_sums_ns))
    }

    /// How far off the sums may be because they do not tell whether waiting is induced, as a logarithm. In some programs none is.
    pub(crate) fn waits_unsure(&self) -> f64 {
        let unknown = (WAITS_OF_ITS_OWN * (1.0 - WAITS_OF_ITS_OWN)).sqrt();
        unknown * (self.slowdown_by_sums() / self.slowdown_at(self.own_ns)).ln().max(0.0)
    }

    /// Whether evidence made it another loss than that of the sums, by more than this share of its wall time.
    pub(crate) fn differs_from_sums(&self, share: f64) -> bool {
        self.evident.is_some_and(|e| (self.lost_ns[1] - e.by_sums_ns).abs() > share * self.wall_ns)
    }

    /// The shares of its wall time that were lost, 0..=1: at least, most likely, at most.
    pub fn shares(&self) -> [f64; 3] {
        self.lost_ns.map(|ns| if self.wall_ns > 0.0 { (ns / self.wall_ns).clamp(0.0, 1.0) } else { 0.0 })
    }

    fn add(&mut self, o: &Loss) {
        self.wall_ns += o.wall_ns;
        self.steal_ns += o.steal_ns;
        self.own_ns += o.own_ns;
        (0..3).for_each(|i| self.lost_ns[i] += o.lost_ns[i]);
    }
}

/// The loss of a slot according to its own ledger. If nothing computed, there is no slowdown: a program that was kept from all CPUs
/// lost as much as the bounds allow. That is nothing if nothing was stolen.
fn by_ledger(slot: &Window, hints: Hints) -> Loss {
    let wall_ns = slot.wall_ns;
    let bounds = Bounds::of(slot);
    let lost = |slowdown: f64| wall_ns * (1.0 - 1.0 / slowdown);
    let (told_ns, steal) = match alone::own_likely_most(slot, hints, &bounds) {
        Some(told) => {
            let likely = told[1];
            let steal = if likely.slowdown > 1.0 { likely.steal / (likely.slowdown - 1.0) } else { 0.0 };
            (told.map(|alone| lost(alone.slowdown)), steal)
        }
        None => ([bounds.most_lost_ns; 3], 1.0),
    };
    let [own_ns, likely_ns, most_ns] = told_ns;
    let most_ns = most_ns.max(likely_ns);
    let spared_ns: f64 = slot.all().filter(|s| has_spare(s)).map(|s| s.stolen_ns).sum();
    // A difference that is only rounding is no loss.
    let is_all_spared = spared_ns >= likely_ns - 1.0;
    let least_ns = match likely_ns > 0.0 {
        true if is_all_spared => 0.0,
        true => likely_ns - spared_ns,
        false => likely_ns,
    };
    Loss {
        wall_ns,
        lost_ns: [least_ns, likely_ns, most_ns],
        ruled_ns: [least_ns, most_ns],
        error: 0.0,
        own_ns: own_ns.min(likely_ns),
        steal_ns: steal.clamp(0.0, 1.0) * likely_ns.max(0.0),
        stopped_anyway_ns: 0.0,
        evident: None,
    }
}

/// Whether a task was in timers and polls for so much of its life that theft can have come out of it.
pub(crate) fn has_spare(s: &Spent) -> bool {
    s.slack_ns > NEGLIGIBLE * s.life_ns
}

/// How much of a window's loss may be time in which the program's own budget would have stopped it anyway. Alone, too, it takes as long
/// as its quota needs for the CPU time that it used, and up to a period more. Nobody knows what other budgets allow: if one stopped the
/// program, that may be all.
fn stopped_anyway_ns(window: &Window, lost_ns: f64) -> f64 {
    let (all, reach, lost_ns) = (window.total(), &window.reach, lost_ns.max(0.0));
    if reach.quota_ns > 0.0 {
        return (reach.quota_ns + reach.period_ns - (window.wall_ns - lost_ns)).clamp(0.0, lost_ns);
    }
    if all.throttled_ns > NEGLIGIBLE * all.life_ns {
        lost_ns
    } else {
        0.0
    }
}

/// A slot without the tasks that had time to spare.
pub(crate) fn without_sleepers(slot: &Window) -> Window {
    let mut slot = slot.clone();
    slot.tasks.retain(|_, s| !has_spare(s));
    if has_spare(&slot.unlisted) {
        slot.unlisted = Spent::default();
    }
    slot
}

/// What a run lost, slot by slot.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    whole: Window,
    sum: Loss,
    /// Theft from tasks that live and have not slept since, in nanoseconds.
    unslept: BTreeMap<TaskId, f64>,
    /// Theft from tasks in slots before the slot in which they slept.
    caught_up_ns: f64,
}

impl Losses {
    /// Adds windows that follow, all of one behaviour.
    pub(crate) fn extend(&mut self, windows: &[Window], hints: Hints) {
        let mut slot = Window::default();
        for (i, window) in windows.iter().enumerate() {
            slot.add(window);
            if slot.wall_ns >= SLOT_NS as f64 || i + 1 == windows.len() {
                let slot = std::mem::take(&mut slot);
                self.push(&slot, &Loss::of(&slot, hints));
            }
        }
    }

    /// Adds the slot that follows, which lost this.
    pub fn push(&mut self, slot: &Window, lost: &Loss) {
        self.whole.add(slot);
        self.sum.add(lost);
        self.unslept.retain(|task, _| slot.tasks.contains_key(task));
        for (task, s) in &slot.tasks {
            if has_spare(s) {
                self.caught_up_ns += self.unslept.remove(task).unwrap_or(0.0);
            } else if s.stolen_ns > 0.0 {
                *self.unslept.entry(*task).or_default() += s.stolen_ns;
            }
        }
    }

    /// All slots together.
    pub fn whole(&self) -> &Window {
        &self.whole
    }

    /// The loss of all slots together, and its ratio to the sum of their own losses. That is 1, or less if the whole run is bounded more
    /// tightly than its slots, or another number if evidence decides.
    pub fn total(&self, known: &Counterfactual) -> (Loss, f64) {
        let (sums, kept) = self.by_sums();
        let Some(open_ns) = self.evident_ns(known) else { return (sums, kept) };
        let wall_ns = self.whole.wall_ns;
        let alone = |lost_ns: f64| (wall_ns - lost_ns).max(1.0).ln();
        let [least, likely, most] = sums.lost_ns;
        // Each may be off on the side of the other by its own error, and by as much as it leaves open there.
        let open =
            |lost_ns: [f64; 3], another_ns: f64| towards(lost_ns.map(|ns| -alone(ns)), -alone(another_ns));
        let unsure = REPLAY.hypot(open(open_ns, likely));
        let sums_unsure = REST_OF_RUN.hypot(sums.waits_unsure()).hypot(open(sums.lost_ns, open_ns[1]));
        let certain_ns = Bounds::of(&self.whole).certain_ns;
        let apart = alone(open_ns[1]) - alone(likely);
        let weight =
            Weight::of(apart, unsure, 0.0, sums_unsure).at_most(at_stake(&self.whole, sums.slowdown()));
        let both = |evident, sums| wall_ns - weight.mean(alone(evident), alone(sums)).exp();
        let lost = both(open_ns[1], likely).min(certain_ns);
        // No more may have come out of a sleep than the evidence says. And nobody knows what is true between the ends of the evidence:
        // the sums narrow nothing there.
        let ends = |[low, high]: [f64; 2]| {
            let least = both(low, least.max(low.min(likely)));
            [least.min(low).min(lost), both(high, most).max(high).max(lost)]
        };
        let off = |lost_ns: f64, by: f64| (wall_ns - (alone(lost_ns) + by).exp()).min(certain_ns);
        let ruled_ns = ends([off(open_ns[0], REPLAY), off(open_ns[2], -REPLAY)]);
        let [least_ns, most_ns] = ends([open_ns[0], open_ns[2]]);
        let lost_ns = [least_ns, lost, most_ns];
        let error = weight.mean(REPLAY, weight.bias_of_less);
        let kept = if self.sum.lost_ns[1] > 0.0 { lost.max(0.0) / self.sum.lost_ns[1] } else { 1.0 };
        let steal_ns = (self.sum.steal_ns * kept).min(lost.max(0.0));
        let evident = Some(Evident { lost_ns: open_ns, by_sums_ns: likely, weight });
        let stopped_anyway_ns = sums.stopped_anyway_ns.min(lost - least_ns);
        (Loss { lost_ns, ruled_ns, error, steal_ns, stopped_anyway_ns, evident, ..sums }, kept)
    }

    /// The loss according to the evidence (at least, likely, at most), if that covers nearly all of the run.
    fn evident_ns(&self, known: &Counterfactual) -> Option<[f64; 3]> {
        let whole = &self.whole;
        let length_ns = whole.end_ns.saturating_sub(whole.start_ns) as f64;
        let covered = known.of(whole.start_ns, whole.end_ns);
        let all = whole.total();
        let is_blind = all.spins() && !covered.tells_spinning;
        if length_ns <= 0.0 || covered.wall_ns < NEARLY_ALL * length_ns || is_blind {
            return None;
        }
        let certain_ns = Bounds::of(whole).certain_ns;
        // There may be holes in which the run was not watched.
        let watched = (whole.wall_ns / length_ns).min(1.0);
        Some(covered.lost_ns.map(|ns| (ns * watched).min(certain_ns)))
    }

    fn by_sums(&self) -> (Loss, f64) {
        let Bounds { most_lost_ns, certain_ns } = Bounds::of(&self.whole);
        let [least, likely, most] = self.sum.lost_ns;
        let bounded_ns = likely.min(most_lost_ns);
        let stopped_anyway_ns = stopped_anyway_ns(&self.whole, bounded_ns);
        let least = match least > 0.0 {
            true => ((least - self.caught_up_ns).min(bounded_ns) - stopped_anyway_ns).max(0.0),
            false => least,
        };
        let kept = if likely > 0.0 { bounded_ns.max(0.0) / likely } else { 1.0 };
        let (least, most) = match self.whole.is_half_seen() {
            true => (least.min((bounded_ns - self.whole.waited_for_unseen_ns()).max(0.0)), certain_ns),
            false => (least, most),
        };
        let (least, most) = (least.min(bounded_ns), most.min(certain_ns).max(bounded_ns));
        let (lost_ns, ruled_ns) = ([least, bounded_ns, most], [least, most]);
        let (steal_ns, own_ns) = (self.sum.steal_ns * kept, self.sum.own_ns.min(bounded_ns));
        let sums = Loss { lost_ns, ruled_ns, own_ns, steal_ns, stopped_anyway_ns, ..self.sum };
        let error = method_error(&self.whole, sums.slowdown()).hypot(sums.waits_unsure());
        (Loss { error, ..sums }, kept)
    }
}

/// By how much sums can be wrong at all, as a logarithm of the slowdown: by all that they say was lost, or by all that may have been lost
/// besides.
fn at_stake(window: &Window, slowdown: f64) -> f64 {
    let most = (window.wall_ns / (window.wall_ns - Bounds::of(window).certain_ns).max(1.0)).max(1.0).ln();
    slowdown.ln().abs().max(most - slowdown.ln())
}

/// How far off a method is that tells this slowdown of a window: no more than it can be wrong, and than co-runners were there, since what
/// they do to caches and clocks no ledger shows. Where nobody was there and nothing was taken, a program is as fast as alone.
pub(crate) fn method_error(window: &Window, slowdown: f64) -> f64 {
    let there = window.corunners_ns / (window.wall_ns * window.cpus.max(1) as f64).max(1.0);
    REST_OF_RUN.min(at_stake(window, slowdown) + there)
}

/// The loss of these consecutive windows together.
pub fn of(windows: &[Window], hints: Hints, known: &Counterfactual) -> Loss {
    let mut losses = Losses::default();
    losses.extend(windows, hints);
    losses.total(known).0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: f64 = SLOT_NS as f64;

    /// Slots of tasks, each by what share of it was stolen and what it slept, next to a loop on one CPU; the least and the likely
    /// loss as shares of the time.
    fn lost(slots: &[&[(u32, f64, f64)]]) -> [f64; 2] {
        let mut losses = Losses::default();
        for (i, tasks) in slots.iter().enumerate() {
            let spent = |&(id, stolen, slept): &(u32, f64, f64)| {
                let spent = Spent {
                    life_ns: SLOT,
                    compute_ns: (1.0 - stolen - slept) * SLOT,
                    stolen_ns: stolen * SLOT,
                    own_ns: slept * SLOT,
                    slack_ns: slept * SLOT,
                    ..Spent::default()
                };
                (TaskId(id), spent)
            };
            let slot = Window {
                start_ns: i as u64 * SLOT_NS,
                end_ns: (i as u64 + 1) * SLOT_NS,
                wall_ns: SLOT,
                tasks: tasks.iter().map(spent).collect(),
                corunners_ns: SLOT,
                cpus: 1,
                ..Window::default()
            };
            losses.push(&slot, &Loss::of(&slot, Hints::default()));
        }
        let shares = losses.total(&Counterfactual::default()).0.shares();
        [shares[0], shares[1]]
    }

    #[test]
    fn what_was_stolen_before_a_task_sleeps_may_come_out_of_that_sleep_and_what_was_after_or_from_others_not()
    {
        let robbed: &[(u32, f64, f64)] = &[(1, 0.5, 0.0)];
        let sleeps: &[(u32, f64, f64)] = &[(1, 0.0, 0.5)];
        let another_sleeps: &[(u32, f64, f64)] = &[(2, 0.0, 0.9)];
        for (slots, least) in [
            (&[robbed, robbed, sleeps][..], 0.0),
            (&[robbed, sleeps, robbed], 1.0 / 6.0),
            (&[sleeps, robbed, robbed], 1.0 / 3.0),
            (&[robbed, robbed, another_sleeps], 1.0 / 3.0),
        ] {
            let [at_least, likely] = lost(slots);
            assert!((likely - 1.0 / 3.0).abs() < 0.01, "{slots:?}: {likely}");
            assert!((at_least - least).abs() < 0.01, "{slots:?}: {at_least}");
        }
    }
}
