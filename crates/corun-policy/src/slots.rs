//! Slots: separation in time. In each slot some members run and the others are parked. Shared by `gang`,
//! `paired_gang`, `controlled_contention` and `auto`, which differ in whom they choose together.
//!
//! Whose turn it is follows Controlled Contention §III.B: each member has a counter of the slots that it was given;
//! the choice starts with the lowest counter, so nobody starves; counters are halved from time to time (ageing), so that
//! those who have been here for long are not put behind newcomers. Halving forgets half of what anybody is owed, too: where
//! tenants owe each other (`auto`), counters are not aged. When a running member ends or falls idle before its
//! slot is over, those who wait are looked through for one that fits beside the rest (backfill). A newcomer starts with
//! the lowest counter that there is: it waits its turn, and no other's. Who falls idle in a slot was given it all the same,
//! and has its counter when it comes back, unless the others have caught up by then.
//!
//! A member may have a **share** other than the rest: what a slot adds to its counter is divided by it, so who has twice
//! the share of another gets twice as many slots (stride scheduling). Without one all are alike, as in the papers.

use crate::parking::Parking;
use corun_model::reason::{Release, Rule, SlotPart};
use corun_model::{Decision, Observation, Reason, TenantId};
use std::collections::{BTreeMap, BTreeSet};

/// What a slot adds to a counter: finer than 1, so that halving keeps who is behind whom.
const ONE_SLOT: u64 = 1 << 32;
/// Who had more than others before gives back no more than so many slots of its own: what was had long ago is let be.
const MOST_REPAID_SLOTS: u64 = 20;

/// Who lost less than others gives this part of each of its slots.
const MADE_UP_PART: u64 = 4;

/// A member that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which tenant.
    pub id: TenantId,
    /// Its CPU-bound tasks.
    pub weight: u64,
    /// CPUs that it wants, in thousandths.
    pub demand_milli: u64,
}

/// The slots so far.
#[derive(Clone, Debug)]
pub struct Slots {
    slot_ns: u64,
    /// `None`: counters are not halved.
    age_slots: Option<u64>,
    counters: BTreeMap<TenantId, u64>,
    /// Counters of those who were members and are ahead of all who are.
    left: BTreeMap<TenantId, u64>,
    /// In thousandths; who is not here has 1,000.
    shares: BTreeMap<TenantId, u64>,
    /// What each has still to give back, in parts of [`ONE_SLOT`].
    debts: BTreeMap<TenantId, u64>,
    /// What each has still to give to those who lost more than it, likewise.
    made_up: BTreeMap<TenantId, u64>,
    /// Who may give now.
    givers: BTreeSet<TenantId>,
    favoured: Option<TenantId>,
    /// Who has no slots and waits all the same.
    benched: BTreeSet<TenantId>,
    running: Vec<TenantId>,
    ends_ns: u64,
    begun: u64,
    parking: Parking,
}

impl Slots {
    /// Slots of this length; counters are halved every `age_slots` of them.
    pub fn new(slot_ns: u64, age_slots: u64) -> Slots {
        Slots { age_slots: Some(age_slots), ..Slots::unaged(slot_ns) }
    }

    /// Slots of this length, in which nothing that a tenant was given or is owed is forgotten.
    pub fn unaged(slot_ns: u64) -> Slots {
        Slots {
            slot_ns,
            age_slots: None,
            counters: BTreeMap::new(),
            left: BTreeMap::new(),
            shares: BTreeMap::new(),
            debts: BTreeMap::new(),
            made_up: BTreeMap::new(),
            givers: BTreeSet::new(),
            favoured: None,
            benched: BTreeSet::new(),
            running: Vec::new(),
            ends_ns: 0,
            begun: 0,
            parking: Parking::default(),
        }
    }

    /// The same slots with nobody parked and no turn taken.
    pub fn afresh(&self) -> Slots {
        Slots { age_slots: self.age_slots, ..Slots::unaged(self.slot_ns) }
    }

    /// Those who were parked during the last window.
    pub fn parked(&self) -> &BTreeSet<TenantId> {
        self.parking.parked()
    }

    /// Those whose turn it is.
    pub fn running(&self) -> &[TenantId] {
        &self.running
    }

    /// Gives members shares of the slots, in thousandths of the others' (at least 1).
    pub fn share_out(&mut self, shares: BTreeMap<TenantId, u64>) {
        self.shares = shares;
    }

    /// Prefers a member to others whose turn it is as well.
    pub fn favour(&mut self, id: Option<TenantId>) {
        self.favoured = id;
    }

    /// Gives slots to those who had less than others before: CPU time that each had beyond its fair share of so many
    /// CPUs, in nanoseconds. Until that is given back, each slot of who had more counts twice: nobody waits for all of it
    /// at once.
    pub fn repay(&mut self, ahead_ns: &BTreeMap<TenantId, i64>, cpus: u64) {
        let ahead_ns = |id: &TenantId| ahead_ns.get(id).copied().unwrap_or(0);
        let least_ns = self.counters.keys().map(ahead_ns).min().unwrap_or(0);
        let more_ns = |id: &TenantId| ahead_ns(id).abs_diff(least_ns);
        // Who has twice as much more than another gives back twice as much, also where it is not all.
        let most_ns = self.counters.keys().map(more_ns).max().unwrap_or(0);
        let all_ns = most_ns.max(MOST_REPAID_SLOTS * self.slot_ns * cpus);
        let debt = |id: &TenantId| {
            let slots = u128::from(MOST_REPAID_SLOTS * ONE_SLOT) * u128::from(more_ns(id));
            (slots / u128::from(all_ns.max(1))) as u64
        };
        self.debts = self.counters.keys().map(|id| (*id, debt(id))).collect();
    }

    /// Makes up for what each lost in other ways than by slots, in nanoseconds of so many CPUs: until who lost most has it
    /// from the others, each slot of those who lost less counts for more, while they [may give](Slots::let_give). It is not
    /// forgotten when slots stop.
    pub fn make_up(&mut self, lost_ns: &BTreeMap<TenantId, u64>, cpus: u64) {
        // What one gains all others lose together.
        let (all, others) = (lost_ns.len() as u128, lost_ns.len().max(2) as u128 - 1);
        let one_ns = u128::from(self.slot_ns * cpus);
        let slots = |ns: u64| (u128::from(ns) * u128::from(ONE_SLOT) * all / (one_ns * others)) as u64;
        let most_ns = lost_ns.values().copied().max().unwrap_or(0);
        self.made_up.retain(|id, _| lost_ns.contains_key(id));
        for (id, ns) in lost_ns {
            *self.made_up.entry(*id).or_default() += slots(most_ns - ns);
        }
        // Who owes least owes nothing.
        let least = self.made_up.values().copied().min().unwrap_or(0);
        self.made_up.values_mut().for_each(|owed| *owed -= least);
    }

    /// Only these give something for what others lost, for now.
    pub fn let_give(&mut self, ids: BTreeSet<TenantId>) {
        self.givers = ids;
    }

    /// Forgets what was lost.
    pub fn forgive(&mut self) {
        self.made_up.clear();
    }

    /// Has these wait out the present slot, who are no members.
    pub fn bench(&mut self, ids: BTreeSet<TenantId>) {
        self.benched = ids;
    }

    /// Slots begun so far.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// One epoch: `choose` is given the members in the order of their turn and says who runs together; it must choose
    /// the first. `rule` says who that is, for the reasons.
    pub fn turn(
        &mut self,
        seen: &Observation,
        members: &[Member],
        rule: &Rule,
        choose: impl Fn(&[Member]) -> Vec<TenantId>,
    ) -> Vec<Decision> {
        let is_member = |id: TenantId| members.iter().any(|m| m.id == id);
        for id in self.counters.keys().copied().filter(|id| !is_member(*id)).collect::<Vec<_>>() {
            if self.running.contains(&id) {
                self.count(id);
            }
            self.left.extend(self.counters.remove_entry(&id));
        }
        // When all have left and some come back, these are all there is to go by.
        let counters = || self.counters.values().min().or_else(|| self.left.values().min());
        let lowest = counters().copied().unwrap_or(0);
        for m in members {
            let before = self.left.remove(&m.id).unwrap_or(lowest);
            self.counters.entry(m.id).or_insert(before.max(lowest));
        }
        self.left.retain(|_, counter| *counter > lowest);
        self.running.retain(|&id| is_member(id));
        if members.is_empty() {
            return self.parking.release(Release::Single);
        }
        let over = self.is_over(seen);
        let mut runs = SlotPart::Runs;
        if over || self.running.is_empty() {
            self.running.clone().into_iter().for_each(|id| self.count(id));
            self.begun += 1;
            self.age();
            self.running = choose(&self.queue(members, &[]));
            self.ends_ns = seen.end_ns + self.slot_ns;
        } else {
            let more = choose(&self.queue(members, &self.running));
            if self.running.iter().all(|id| more.contains(id)) && more.len() > self.running.len() {
                self.running = more;
                runs = SlotPart::FindsRoom;
            }
        }
        let waiting = members.iter().map(|m| m.id).chain(self.benched.iter().copied());
        let stop = waiting.filter(|id| !self.running.contains(id)).collect();
        let of = |part| Reason::Slot { number: Some(self.begun), part, rule: rule.clone() };
        self.parking.change(stop, &of(SlotPart::Waits), &of(runs))
    }

    /// Keeps counters small: who has been here for long is not to be put behind newcomers, nor to count without end.
    fn age(&mut self) {
        let least = self.counters.values().min().copied().unwrap_or(0);
        let all = self.counters.values_mut().chain(self.left.values_mut());
        match self.age_slots {
            Some(slots) if self.begun.is_multiple_of(slots) => all.for_each(|c| *c /= 2),
            Some(_) => {}
            // Only how far they are apart tells whose turn it is.
            None => all.for_each(|c| *c = c.saturating_sub(least)),
        }
    }

    /// Counts the present slot as given to a member, and what it gives back.
    fn count(&mut self, id: TenantId) {
        let of = |debts: &mut BTreeMap<TenantId, u64>, most: u64| {
            debts.get_mut(&id).map_or(0, |debt| {
                let back = most.min(*debt);
                *debt -= back;
                back
            })
        };
        let back = match of(&mut self.debts, ONE_SLOT) {
            0 if self.givers.contains(&id) => of(&mut self.made_up, ONE_SLOT / MADE_UP_PART),
            back => back,
        };
        let counts = u128::from(one_slot(&self.shares, id)) * u128::from(ONE_SLOT + back);
        *self.counters.get_mut(&id).expect("who runs is a member") += (counts / u128::from(ONE_SLOT)) as u64;
    }

    /// Whether the present slot is over: it ends at the epoch nearest to its end.
    pub fn is_over(&self, seen: &Observation) -> bool {
        seen.end_ns + seen.window_ns() / 2 >= self.ends_ns
    }

    /// Lets everybody go and forgets the turns.
    pub fn stop(&mut self, why: Release) -> Vec<Decision> {
        self.running.clear();
        self.counters.clear();
        self.left.clear();
        self.debts.clear();
        self.ends_ns = 0;
        self.parking.release(why)
    }

    /// Members in the order of their turn, `first` before all others.
    fn queue(&self, members: &[Member], first: &[TenantId]) -> Vec<Member> {
        let mut queue = members.to_vec();
        let is_other = |id: TenantId| self.favoured != Some(id);
        queue.sort_by_key(|m| (!first.contains(&m.id), self.counters[&m.id], is_other(m.id), m.id));
        queue
    }
}

/// What a slot of its own adds to the counter of one with these shares.
fn one_slot(shares: &BTreeMap<TenantId, u64>, id: TenantId) -> u64 {
    ONE_SLOT / shares.get(&id).map_or(1_000, |s| (*s).max(1)) * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT_NS: u64 = 50;

    /// Who runs in so many more slots, of two tenants that do not fit together.
    fn turns(slots: &mut Slots, count: u64) -> Vec<u32> {
        let members = [0, 1].map(|id| Member { id: TenantId(id), weight: 2, demand_milli: 2_000 });
        let turn = |_| {
            let start_ns = slots.begun() * SLOT_NS;
            let seen = Observation { start_ns, end_ns: start_ns + SLOT_NS, ..Observation::default() };
            slots.turn(&seen, &members, &Rule::Single, |queue| vec![queue[0].id]);
            slots.running()[0].0
        };
        (0..count).map(turn).collect()
    }

    #[test]
    fn who_had_less_than_others_before_is_given_slots_for_it_one_by_one() {
        let mut slots = Slots::new(SLOT_NS, 16);
        assert_eq!(turns(&mut slots, 4), [0, 1, 0, 1]);
        // A slot of both CPUs each, one too many and one too few: two slots more than the other make up for it.
        slots.repay(&BTreeMap::from([(TenantId(0), 100), (TenantId(1), -100)]), 2);
        assert_eq!(turns(&mut slots, 8), [0, 1, 1, 0, 1, 1, 0, 1]);
    }

    #[test]
    fn who_falls_idle_in_its_slot_comes_back_when_it_is_its_turn() {
        let mut slots = Slots::new(SLOT_NS, 1_000);
        let [flaps, works] = [0, 1].map(|id| Member { id: TenantId(id), weight: 2, demand_milli: 2_000 });
        let mut given = [0, 0];
        // It is idle whenever its slot is about to end, and back for the next.
        for half in 0..80 {
            let (start_ns, end_ns) = (half * SLOT_NS / 2, (half + 1) * SLOT_NS / 2);
            let seen = Observation { start_ns, end_ns, ..Observation::default() };
            let is_idle = half > 0 && half % 2 == 0 && slots.running() == [flaps.id];
            let members = if is_idle { vec![works] } else { vec![flaps, works] };
            let begun = slots.begun();
            slots.turn(&seen, &members, &Rule::Single, |queue| vec![queue[0].id]);
            given[slots.running()[0].0 as usize] += slots.begun() - begun;
        }
        assert!(given[0] > 10 && given[0] <= given[1] + 1, "{given:?}");
    }

    #[test]
    fn who_was_here_alone_does_not_wait_for_a_newcomer_to_catch_up() {
        let mut slots = Slots::new(SLOT_NS, 1_000);
        let [old, new] = [0, 1].map(|id| Member { id: TenantId(id), weight: 2, demand_milli: 2_000 });
        let mut turn = |members: &[Member]| {
            let start_ns = slots.begun() * SLOT_NS;
            let seen = Observation { start_ns, end_ns: start_ns + SLOT_NS, ..Observation::default() };
            slots.turn(&seen, members, &Rule::Single, |queue| vec![queue[0].id]);
            slots.running().first().map(|id| id.0)
        };
        assert!((0..30).all(|_| turn(&[old]) == Some(0)));
        assert_eq!(turn(&[]), None);
        turn(&[new]);
        let both: Vec<_> = (0..6).map(|_| turn(&[old, new]).unwrap()).collect();
        assert!(both.windows(3).all(|w| w.contains(&0) && w.contains(&1)), "{both:?}");
    }

    #[test]
    fn nobody_waits_for_longer_than_two_slots_for_what_it_had_nor_for_ever() {
        let mut slots = Slots::new(SLOT_NS, 1_000);
        turns(&mut slots, 2);
        slots.repay(&BTreeMap::from([(TenantId(0), 1_000_000)]), 2);
        let after = turns(&mut slots, 100);
        let of = |id: u32| after.iter().filter(|t| **t == id).count() as u64;
        assert!(after.windows(3).all(|w| w.contains(&0)), "{after:?}");
        assert_eq!(of(1) - of(0), MOST_REPAID_SLOTS);
    }

    #[test]
    fn what_was_lost_is_made_up_for_slowly_and_whole_by_who_may_give() {
        let mut slots = Slots::unaged(SLOT_NS);
        turns(&mut slots, 2);
        slots.make_up(&BTreeMap::from([(TenantId(0), 0), (TenantId(1), 300)]), 2);
        assert_eq!(turns(&mut slots, 40).iter().sum::<u32>(), 20, "nobody may give");
        slots.let_give(BTreeSet::from([TenantId(0)]));
        slots.forgive();
        // Three slots of both CPUs: then one has three more than half, the other three fewer.
        slots.make_up(&BTreeMap::from([(TenantId(0), 0), (TenantId(1), 300)]), 2);
        let after = turns(&mut slots, 400);
        let of = |id: u32, part: &[u32]| part.iter().filter(|t| **t == id).count() as i64;
        assert_eq!(of(1, &after) - of(0, &after), 6, "{after:?}");
        for some in after.windows(9) {
            assert!(of(0, some) >= 4, "nobody gives more than a quarter at once: {some:?}");
        }
    }

    #[test]
    fn what_was_lost_is_not_forgotten_when_slots_stop_but_when_it_is_said() {
        let more = |forgive: bool| {
            let mut slots = Slots::unaged(SLOT_NS);
            turns(&mut slots, 2);
            slots.let_give(BTreeSet::from([TenantId(0)]));
            slots.make_up(&BTreeMap::from([(TenantId(0), 0), (TenantId(1), 300)]), 2);
            // Whoever also lost owes as much less.
            slots.make_up(&BTreeMap::from([(TenantId(0), 100), (TenantId(1), 0)]), 2);
            slots.stop(Release::Begun);
            if forgive {
                slots.forgive();
            }
            turns(&mut slots, 400).iter().map(|id| 2 * i64::from(*id) - 1).sum::<i64>()
        };
        assert_eq!((more(false), more(true)), (4, 0));
    }

    #[test]
    fn what_slots_are_stopped_for_is_forgotten() {
        let mut slots = Slots::new(SLOT_NS, 1_000);
        turns(&mut slots, 2);
        slots.repay(&BTreeMap::from([(TenantId(0), 1_000_000)]), 2);
        slots.stop(Release::Begun);
        assert_eq!(turns(&mut slots, 6), [0, 1, 0, 1, 0, 1]);
    }
}
