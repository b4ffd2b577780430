//! What periods with and without slots, in turn, say of each tenant; the evidence that `auto` judges by.
//!
//! A **round** is a period in which everybody shares, then some slots. Within slots a tenant's rate is what it does per
//! time in which it runs, times the part of the slots that it would be dealt (`parts.rs`): one slot that came late, or one
//! more of somebody's among a few, says nothing. Over several rounds the median holds, so that one round in which a build
//! or a phase of the program passed through does not decide. As long as slots are kept the last round goes on, so what is
//! dealt then follows from all of its slots and not from the two that each had while they were tried.
//!
//! What others used and what the host below took meanwhile was not there to be had: what is left, the capacity, scales
//! what is expected within slots.
//!
//! What a tenant is **entitled** to is its fair share, or what it had without slots where that is less: slots must not
//! cost it more than that. The **welfare** is the geometric mean over tenants of what they do with by what they do without
//! slots, weighed by their weights: nobody gains in it by merely taking from somebody who has as much. The **fairness**
//! is the same of what each has up to its fair share: two loops that had more than theirs at a solver's cost lose
//! nothing that was theirs. Slots are **for** those whose tasks may wait for each other and who lack their fair share
//! without, or may spin unseen: what anybody else gains by them is the kernel's to give. All others lose nothing by
//! sharing: when it is the turn of one of them, all of them run, and they are dealt slots as one.

use corun_model::TenantId;
use parts::Claim;
use std::collections::BTreeMap;
use tenant_trial::{median, TenantTrial};

mod parts;
mod tenant_trial;

pub(crate) use tenant_trial::{Shared, Waits, LACKS_PERCENT};

/// A round that does not tell goes on for up to so many times its length.
const LONGEST_ROUND: u64 = 4;
/// Most that a share may grow to, in thousandths.
const MOST_SHARE_MILLI: u64 = 4_000;

/// A tenant's rates, in thousandths of a CPU of useful time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rates {
    /// Its fair share.
    pub fair: u64,
    /// Without slots.
    pub without: u64,
    /// In the slots in which it runs.
    pub running: u64,
    /// With slots, of which it is dealt a part.
    pub within: u64,
    /// The capacity within slots, in thousandths of that without.
    pub capacity_milli: u64,
}

impl Rates {
    /// What slots must leave it.
    pub fn entitled(&self) -> u64 {
        self.without.min(self.fair) * self.capacity_milli / 1_000
    }

    /// What slots leave it of what it is entitled to, in thousandths.
    pub fn kept_milli(&self) -> u64 {
        self.within * 1_000 / self.entitled().max(1)
    }
}

/// The evidence so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    sides: BTreeMap<TenantId, TenantTrial>,
    /// Slots in the last round, those it has at first, and those after which it tells something.
    slots: u64,
    length_slots: u64,
    due_slots: u64,
    rounds: usize,
    /// Of the present round, per time.
    without_capacity_milli: u64,
    capacity_ns: u64,
    within_ns: u64,
}

impl Trial {
    /// Complete rounds.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Forgets everybody else: who has left between two rounds is dealt nothing.
    pub fn keep(&mut self, members: &[TenantId]) {
        self.sides.retain(|id, _| members.contains(id));
    }

    /// Begins a round of so many rotations: the CPUs that were to be had while everybody shared, in thousandths.
    pub fn begin(&mut self, capacity_milli: u64, rotations: u64) {
        self.compose();
        self.without_capacity_milli = capacity_milli;
        self.start_over(rotations);
    }

    /// Begins the round's slots again.
    pub fn start_over(&mut self, rotations: u64) {
        let slots = rotations * self.turns() as u64;
        (self.capacity_ns, self.within_ns) = (0, 0);
        (self.slots, self.length_slots, self.due_slots) = (0, slots, slots);
        self.sides.values_mut().for_each(TenantTrial::begin);
    }

    /// Finds who is to have slots of its own. What anybody did in slots that it shared with others than now says nothing.
    fn compose(&mut self) {
        let owns = |side: &TenantTrial| side.lacks() || side.may_spin;
        if self.sides.values().any(|side| side.own != owns(side)) {
            for side in self.sides.values_mut() {
                let own = owns(side);
                if !(own && side.own) {
                    side.forget();
                }
                side.own = own;
            }
        }
    }

    /// Gives one slots of its own that shared those of others.
    pub fn give_own(&mut self, id: TenantId) {
        self.sides.values_mut().filter(|side| !side.own).for_each(TenantTrial::forget);
        if let Some(side) = self.sides.get_mut(&id) {
            side.own = true;
        }
    }

    /// Takes in one that came later: it shares the slots of those who have none of their own.
    pub fn join(&mut self, id: TenantId, weight: u64, want_milli: u64) {
        self.sides.insert(id, TenantTrial { weight, want_milli, ..TenantTrial::default() });
        self.sides.values_mut().filter(|side| !side.own).for_each(TenantTrial::forget);
    }

    /// Whether there is somebody whom slots are for.
    pub fn is_for_somebody(&self) -> bool {
        self.sides.values().any(|side| side.own)
    }

    /// Whether the round has had its slots.
    pub fn is_due(&self) -> bool {
        self.slots >= self.due_slots
    }

    /// Lets the round go on for its length again; whether it may.
    pub fn go_on(&mut self) -> bool {
        let may = self.due_slots < LONGEST_ROUND * self.length_slots;
        self.due_slots += if may { self.length_slots } else { 0 };
        may
    }

    /// Notes the CPU time that was to be had in a window of slots.
    pub fn had(&mut self, capacity_ns: u64, window_ns: u64) {
        self.capacity_ns += capacity_ns;
        self.within_ns += window_ns;
    }

    /// Takes to a round's slots what a tenant did while everybody shared.
    pub fn without(&mut self, id: TenantId, shared: Shared) {
        let Shared { weight, want_milli, fair_milli, waits, useful_milli, may_spin } = shared;
        let side = self.sides.entry(id).or_default();
        side.begin();
        (side.weight, side.want_milli, side.fair_milli, side.may_spin) =
            (weight, want_milli, fair_milli, may_spin);
        // Just after slots threads that wait for each other are in step, and hardly wait.
        side.waits = side.waits.max(waits);
        side.without.push(useful_milli);
    }

    /// Notes that a slot has begun in which these run.
    pub fn slot(&mut self, running: &[TenantId]) {
        self.slots += 1;
        for id in running {
            if let Some(side) = self.sides.get_mut(id) {
                side.slots += 1;
            }
        }
    }

    /// Notes what a tenant did in a window in which it ran.
    pub fn ran(&mut self, id: TenantId, useful_ns: u64, on_cpu_ns: u64, window_ns: u64) {
        if let Some(side) = self.sides.get_mut(&id) {
            side.ran(useful_ns, on_cpu_ns, window_ns);
        }
    }

    /// Ends the round.
    pub fn close(&mut self) {
        self.rounds += 1;
        self.sides.values_mut().for_each(TenantTrial::close);
    }

    /// Ends the round, and makes one of all.
    pub fn sum_up(&mut self) {
        self.close();
        self.rounds = 1;
        for side in self.sides.values_mut() {
            for all in [&mut side.without, &mut side.running] {
                *all = if all.is_empty() { Vec::new() } else { vec![median(all)] };
            }
        }
    }

    /// What is known of every tenant, by the medians of the rounds.
    pub fn rates(&self) -> BTreeMap<TenantId, Rates> {
        let known = |((id, side), part_milli): ((&TenantId, &TenantTrial), u64)| {
            let rates = self.rates_of(side)?;
            Some((*id, Rates { within: rates.running * part_milli / 1_000, ..rates }))
        };
        self.sides.iter().zip(self.parts()).filter_map(known).collect()
    }

    /// Shares that deal everybody its part, in thousandths of that of those who have no more than the others.
    pub fn shares(&self) -> BTreeMap<TenantId, u64> {
        let of_weight =
            self.sides.values().zip(self.parts()).map(|(side, part)| part * 1_000 / side.weight.max(1));
        let of_weight: Vec<u64> = of_weight.collect();
        let least = of_weight.iter().copied().min().unwrap_or(1).max(1);
        let shares = of_weight.iter().map(|share| (share * 1_000 / least).min(MOST_SHARE_MILLI));
        self.sides.keys().copied().zip(shares).collect()
    }

    /// A tenant's rates before slots are dealt; `None`: it had none yet.
    fn rates_of(&self, side: &TenantTrial) -> Option<Rates> {
        let (fair, without, running) = (side.fair_milli, median(&side.without), side.running()?);
        Some(Rates { fair, without, running, within: 0, capacity_milli: self.capacity_milli() })
    }

    /// How much of its CPU time in the slots of the present round was useful, in thousandths; 1,000 where it had none.
    pub fn useful_milli(&self, id: TenantId) -> u64 {
        let side = self.sides.get(&id);
        side.and_then(|side| (side.useful_ns * 1_000).checked_div(side.on_cpu_ns)).unwrap_or(1_000)
    }

    /// Its fair share when everybody last shared, in thousandths of a CPU; 0 where it came later.
    pub fn fair_milli(&self, id: TenantId) -> u64 {
        self.sides.get(&id).map_or(0, |side| side.fair_milli)
    }

    /// Whether slots are for it; all others may run together.
    pub fn needs_slots(&self, id: TenantId) -> bool {
        self.sides.get(&id).is_some_and(|side| side.own)
    }

    /// Turns in a rotation where no two of those whom slots are for fit together.
    pub fn turns(&self) -> usize {
        self.sets().len()
    }

    /// Those who are dealt slots as one.
    fn sets(&self) -> BTreeMap<Option<TenantId>, Vec<&TenantTrial>> {
        let mut sets = BTreeMap::<_, Vec<&TenantTrial>>::new();
        for (id, side) in &self.sides {
            sets.entry(side.own.then_some(*id)).or_default().push(side);
        }
        sets
    }

    /// The part of the slots that each is dealt, in thousandths: what it needs to do what it is entitled to, at least.
    fn parts(&self) -> Vec<u64> {
        let sets = self.sets();
        let need_milli = |side: &&TenantTrial| {
            self.rates_of(side).map_or(0, |rates| rates.entitled() * 1_000 / rates.running.max(1))
        };
        let claim = |set: &Vec<&TenantTrial>| Claim {
            weight: self.weight_of(set),
            need_milli: set.iter().map(need_milli).max().unwrap_or(0),
        };
        let claims: Vec<Claim> = sets.values().map(claim).collect();
        // Slots of several at once count as often.
        let slots_milli =
            |set: &Vec<&TenantTrial>| set.iter().map(|side| side.slots * 1_000).max().unwrap_or(0);
        let given_milli: u64 = sets.values().map(slots_milli).sum();
        let parts = parts::deal(&claims, given_milli.checked_div(self.slots).unwrap_or(1_000));
        let of_set: BTreeMap<_, _> = sets.keys().zip(parts).collect();
        self.sides.iter().map(|(id, side)| of_set[&side.own.then_some(*id)]).collect()
    }

    /// Together they weigh as much as they would fill machines, at least as much as one of them.
    fn weight_of(&self, set: &[&TenantTrial]) -> u64 {
        let machine_milli = self.without_capacity_milli.max(1);
        let part = |side: &&TenantTrial| side.weight * side.want_milli.min(machine_milli) / machine_milli;
        let heaviest = set.iter().map(|side| side.weight).max();
        set.iter().map(part).sum::<u64>().max(heaviest.unwrap_or(0))
    }

    /// CPUs that there were within slots, in thousandths of those without.
    fn capacity_milli(&self) -> u64 {
        let within_milli = (self.capacity_ns * 1_000).checked_div(self.within_ns);
        within_milli.map_or(1_000, |w| w * 1_000 / self.without_capacity_milli.max(1)).min(1_000)
    }

    /// The welfare less 1, in thousandths; 0 while nothing was done.
    pub fn welfare_milli(&self) -> i64 {
        self.mean_gain_milli(|r| (r.without, r.within))
    }

    /// The same of what each has up to its fair share: what anybody has beyond it is not missed.
    pub fn fairness_milli(&self) -> i64 {
        self.mean_gain_milli(|r| (r.entitled(), r.within.min(r.fair * r.capacity_milli / 1_000)))
    }

    /// What slots add for those whom they are for, at most, in thousandths; `None`: they are for nobody.
    pub fn helped_milli(&self) -> Option<i64> {
        let rates = self.rates();
        let gain = |r: &Rates| (r.within * 1_000 / r.without.max(1)) as i64 - 1_000;
        let lacking = self.sides.iter().filter(|(_, side)| side.lacks());
        lacking.filter_map(|(id, _)| rates.get(id)).map(gain).max()
    }

    /// Whether all together do with slots what they do without, and everybody whose tasks are known to wait does, but for so
    /// many thousandths.
    pub fn costs_nobody(&self, tolerance_milli: u64) -> bool {
        let rates = self.rates();
        let is_left = |within: u64, without: u64| {
            within * 1_000_000 >= without * self.capacity_milli() * (1_000 - tolerance_milli)
        };
        let waiting = self.sides.iter().filter(|(_, side)| side.waits == Waits::Yes);
        let mut of_waiting = waiting.filter_map(|(id, _)| rates.get(id));
        is_left(rates.values().map(|r| r.within).sum(), rates.values().map(|r| r.without).sum())
            && of_waiting.all(|r| is_left(r.within, r.without))
    }

    /// The geometric mean, by weight, of the second by the first, less 1.
    fn mean_gain_milli(&self, of: impl Fn(&Rates) -> (u64, u64)) -> i64 {
        let (mut logs, mut weights) = (0.0, 0.0);
        for (id, rates) in self.rates() {
            let weight = self.sides[&id].weight as f64;
            let (before, after) = of(&rates);
            // A thousandth of a CPU is as good as nothing, and its multiples say nothing.
            logs += weight * (after.max(1) as f64 / before.max(1) as f64).ln();
            weights += weight;
        }
        if weights > 0.0 {
            (((logs / weights).exp() - 1.0) * 1_000.0) as i64
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOLVER: TenantId = TenantId(1);
    const LOOP: TenantId = TenantId(2);

    fn shared(fair_milli: u64, useful_milli: u64) -> Shared {
        Shared {
            weight: 100,
            fair_milli,
            useful_milli,
            waits: Waits::Yes,
            may_spin: false,
            want_milli: 2_000,
        }
    }

    /// A round in which slots of the loop last `loop_ns` and those of the solver 50 ms.
    fn round(trial: &mut Trial, solver_without: u64, loop_ns: u64) {
        trial.without(SOLVER, shared(1_000, solver_without));
        trial.without(LOOP, shared(1_000, 900));
        trial.begin(2_000, 2);
        for _ in 0..2 {
            trial.slot(&[SOLVER]);
            trial.ran(SOLVER, 2 * 50_000_000, 2 * 50_000_000, 50_000_000);
            trial.slot(&[LOOP]);
            trial.ran(LOOP, 2 * loop_ns, 2 * loop_ns, loop_ns);
        }
        trial.close();
    }

    #[test]
    fn slots_that_came_late_do_not_look_like_a_loss() {
        let mut trial = Trial::default();
        round(&mut trial, 300, 20_000_000);
        let rates = trial.rates();
        let rates_of =
            |without| Rates { fair: 1_000, without, running: 2_000, within: 1_000, capacity_milli: 1_000 };
        assert_eq!((rates[&LOOP], rates[&SOLVER]), (rates_of(900), rates_of(300)));
        assert_eq!(rates[&SOLVER].entitled(), 300);
    }

    #[test]
    fn who_was_disturbed_while_slots_were_tried_is_not_dealt_more_of_them_for_as_long_as_they_are_kept() {
        let mut trial = Trial::default();
        trial.without(SOLVER, shared(1_000, 300));
        trial.without(LOOP, shared(1_000, 1_300));
        trial.begin(2_000, 2);
        let slots = |trial: &mut Trial, loop_ns: u64, count: u32| {
            for _ in 0..count {
                for (id, had_ns) in [(SOLVER, 100), (LOOP, loop_ns)] {
                    trial.slot(&[id]);
                    trial.ran(id, had_ns, had_ns, 50);
                }
            }
        };
        slots(&mut trial, 80, 2);
        assert!(trial.shares()[&LOOP] > 1_400, "{:?}", trial.shares());
        slots(&mut trial, 100, 100);
        assert!(trial.shares().values().all(|share| *share <= 1_010), "{:?}", trial.shares());
    }

    #[test]
    fn who_has_left_between_two_rounds_is_dealt_nothing() {
        let mut trial = Trial::default();
        let third = TenantId(3);
        trial.without(third, shared(1_000, 500));
        trial.slot(&[third]);
        trial.keep(&[SOLVER, LOOP]);
        round(&mut trial, 300, 50_000_000);
        assert_eq!((trial.turns(), trial.rates()[&SOLVER].within), (2, 1_000));
    }

    #[test]
    fn one_round_that_was_disturbed_does_not_decide() {
        let mut trial = Trial::default();
        for without in [300, 1_900, 320] {
            round(&mut trial, without, 50_000_000);
        }
        assert_eq!((trial.rounds(), trial.rates()[&SOLVER].without), (3, 320));
    }

    #[test]
    fn what_was_found_counts_as_one_round_in_the_next_question() {
        let mut trial = Trial::default();
        round(&mut trial, 300, 50_000_000);
        trial.without(SOLVER, shared(1_000, 500));
        trial.without(LOOP, shared(1_000, 900));
        trial.sum_up();
        assert_eq!((trial.rounds(), trial.rates()[&SOLVER].without), (1, 400));
        round(&mut trial, 1_000, 50_000_000);
        assert_eq!((trial.rounds(), trial.rates()[&SOLVER].without), (2, 700));
    }

    #[test]
    fn giving_back_what_was_more_than_its_fair_share_is_a_gain_in_fairness_alone() {
        let mut trial = Trial::default();
        trial.without(SOLVER, shared(600, 500));
        trial.without(LOOP, shared(600, 1_500));
        trial.begin(2_000, 2);
        trial.slot(&[SOLVER, LOOP]);
        trial.ran(SOLVER, 60, 60, 100);
        trial.ran(LOOP, 70, 70, 100);
        assert!(trial.welfare_milli() < -200 && trial.fairness_milli() > 90, "{:?}", trial.rates());
        assert_eq!(trial.helped_milli(), Some(200));
    }

    #[test]
    fn slots_are_for_those_who_wait_for_each_other_and_lack_their_share() {
        let trial = |waits: Waits, pipeline_had: u64| {
            let mut trial = Trial::default();
            trial.without(SOLVER, shared(1_000, pipeline_had));
            trial.without(LOOP, Shared { waits, ..shared(1_000, 600) });
            trial.begin(2_000, 1);
            trial.slot(&[SOLVER]);
            trial.ran(SOLVER, 200, 200, 100);
            trial.slot(&[LOOP]);
            trial.ran(LOOP, 200, 200, 100);
            trial
        };
        let enough = trial(Waits::No, 1_400);
        assert_eq!(enough.helped_milli(), None, "a pipeline that has enough is not slowed down for loops");
        assert!(!enough.costs_nobody(50) && !trial(Waits::Perhaps, 1_400).costs_nobody(50));
        assert_eq!(trial(Waits::Perhaps, 1_400).helped_milli(), Some(666));
        let lacks = trial(Waits::No, 800);
        assert!(lacks.helped_milli() == Some(250) && lacks.costs_nobody(50));
    }

    #[test]
    fn who_loses_nothing_by_sharing_is_dealt_slots_with_all_others_who_do_not() {
        let (builds, pipeline) = (TenantId(3), TenantId(4));
        let mut trial = Trial::default();
        trial.without(SOLVER, shared(500, 100));
        for (id, waits, had) in
            [(LOOP, Waits::No, 300), (builds, Waits::Yes, 600), (pipeline, Waits::Yes, 460)]
        {
            trial.without(id, Shared { waits, ..shared(500, had) });
        }
        trial.begin(2_000, 2);
        let is_for = |id| trial.needs_slots(id);
        assert_eq!([SOLVER, LOOP, builds, pipeline].map(is_for), [true, false, false, false]);
        assert_eq!(trial.turns(), 2);
        for together in [&[SOLVER][..], &[LOOP, builds, pipeline]] {
            trial.slot(together);
            together
                .iter()
                .for_each(|id| trial.ran(*id, 600 / together.len() as u64, 600 / together.len() as u64, 300));
        }
        let rates = trial.rates();
        // A quarter of the slots is the solver's part; the others need three quarters for what they had, and have them.
        assert_eq!(rates[&SOLVER].within, 500);
        assert!(rates.values().all(|r| r.kept_milli() >= 950), "{rates:?}");
        let shares = trial.shares();
        assert_eq!((shares[&SOLVER], shares[&LOOP], shares[&builds]), (1_000, 3_000, 3_000));
    }

    /// A solver that lacks its share, and two that do not; each ran in a slot.
    fn one_of_three() -> Trial {
        let mut trial = Trial::default();
        for (id, had) in [(SOLVER, 100), (LOOP, 700), (TenantId(3), 700)] {
            trial.without(id, shared(667, had));
        }
        trial.begin(2_000, 2);
        trial.slot(&[SOLVER]);
        trial.ran(SOLVER, 200, 200, 100);
        trial.slot(&[LOOP, TenantId(3)]);
        [LOOP, TenantId(3)].iter().for_each(|id| trial.ran(*id, 100, 100, 100));
        trial
    }

    #[test]
    fn what_was_done_in_slots_that_were_shared_with_others_than_now_says_nothing() {
        let mut trial = one_of_three();
        assert_eq!((trial.turns(), trial.rates().len(), trial.rates()[&SOLVER].within), (2, 3, 666));
        trial.give_own(LOOP);
        assert_eq!((trial.turns(), trial.needs_slots(LOOP)), (3, true));
        assert_eq!(trial.rates().keys().copied().collect::<Vec<_>>(), [SOLVER]);
        // Of the others nothing is known, so everybody is dealt the same.
        assert!(trial.shares().values().all(|share| *share < 1_010), "{:?}", trial.shares());
    }

    #[test]
    fn who_comes_later_is_dealt_slots_with_those_who_share_them_and_they_are_more_for_it() {
        let mut trial = one_of_three();
        let before = trial.shares()[&LOOP];
        let newcomer = TenantId(4);
        trial.join(newcomer, 100, 2_000);
        let shares = trial.shares();
        assert_eq!((trial.turns(), shares[&newcomer]), (2, shares[&LOOP]));
        assert!(before < 2_100 && shares[&LOOP] > 2_900, "{before} before, then {shares:?}");
    }

    #[test]
    fn what_others_took_meanwhile_is_not_laid_to_the_slots() {
        let mut trial = Trial::default();
        trial.without(LOOP, shared(500, 900));
        trial.begin(2_000, 4);
        for running in [LOOP, SOLVER] {
            trial.slot(&[running]);
            trial.had(160, 100);
        }
        trial.ran(LOOP, 80, 80, 100);
        let rates = trial.rates()[&LOOP];
        assert_eq!((rates.within, rates.entitled(), rates.kept_milli()), (400, 400, 1_000));
    }

    #[test]
    fn welfare_is_the_geometric_mean_so_taking_from_one_for_the_other_is_no_gain() {
        let mut trial = Trial::default();
        assert_eq!(trial.welfare_milli(), 0);
        for id in [SOLVER, LOOP] {
            trial.without(id, shared(1_000, 1_000));
        }
        trial.slot(&[SOLVER, LOOP]);
        // Twice by a half.
        trial.ran(SOLVER, 200, 200, 100);
        trial.ran(LOOP, 50, 50, 100);
        assert_eq!(trial.welfare_milli(), 0);
    }
}
