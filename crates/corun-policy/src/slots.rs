//! Slots: separation in time. In each slot some members run and the others are parked. `gang`, `paired_gang` and
//! `controlled_contention` share this file, and differ in which members they choose together.
//!
//! Turns follow Controlled Contention §III.B. Each member counts the slots that it got. The choice starts with the lowest counter, so
//! no member starves. Counters are halved from time to time (aging), so that old members are not put behind newcomers. When a running
//! member ends or falls idle before its slot is over, the waiting ones are searched for one that fits with the rest (backfill). A
//! newcomer starts with the lowest existing counter, so it waits for one turn only. A slot counts for a member even if that fell idle
//! in it. The member keeps its counter when it comes back, unless the others have caught up by then.

use crate::parking::Parking;
use corun_model::reason::{Release, Rule, SlotPart};
use corun_model::{Decision, Observation, Reason, TenantId};
use std::collections::{BTreeMap, BTreeSet};

/// A slot adds this to a counter. It is large, so that halving keeps the order.
const ONE_SLOT: u64 = 1 << 32;
/// A member that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The tenant.
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
    age_slots: u64,
    counters: BTreeMap<TenantId, u64>,
    /// Counters of former members that are ahead of all present ones.
    left: BTreeMap<TenantId, u64>,
    running: Vec<TenantId>,
    ends_ns: u64,
    begun: u64,
    parking: Parking,
}

impl Slots {
    /// Slots of this length. Counters are halved every `age_slots` slots.
    pub fn new(slot_ns: u64, age_slots: u64) -> Slots {
        Slots {
            slot_ns,
            age_slots,
            counters: BTreeMap::new(),
            left: BTreeMap::new(),
            running: Vec::new(),
            ends_ns: 0,
            begun: 0,
            parking: Parking::default(),
        }
    }

    /// The same slots, with nobody parked and no turn taken.
    pub fn afresh(&self) -> Slots {
        Slots::new(self.slot_ns, self.age_slots)
    }

    /// Tenants that were parked during the last window.
    pub fn parked(&self) -> &BTreeSet<TenantId> {
        self.parking.parked()
    }

    /// One epoch. `choose` gets the members in the order of their turn, and returns those that run together; they must include the
    /// first. `rule` is the reason for the choice.
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
        // If all have left and some come back, only these counters exist.
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
        let stop: BTreeSet<_> =
            members.iter().map(|m| m.id).filter(|id| !self.running.contains(id)).collect();
        let of = |part| Reason::Slot { number: Some(self.begun), part, rule: rule.clone() };
        self.parking.change(stop, &of(SlotPart::Waits), &of(runs))
    }

    /// Halves the counters, so that old members are not put behind newcomers.
    fn age(&mut self) {
        if self.begun.is_multiple_of(self.age_slots) {
            self.counters.values_mut().chain(self.left.values_mut()).for_each(|c| *c /= 2);
        }
    }

    /// Counts the present slot for a member.
    fn count(&mut self, id: TenantId) {
        *self.counters.get_mut(&id).expect("who runs is a member") += ONE_SLOT;
    }

    /// Whether the present slot is over: at the epoch nearest to its end.
    fn is_over(&self, seen: &Observation) -> bool {
        seen.end_ns + seen.window_ns() / 2 >= self.ends_ns
    }

    /// Members in the order of their turn, those in `first` before all others.
    fn queue(&self, members: &[Member], first: &[TenantId]) -> Vec<Member> {
        let mut queue = members.to_vec();
        queue.sort_by_key(|m| (!first.contains(&m.id), self.counters[&m.id], m.id));
        queue
    }
}

/// The members that run together: in the order of their turn, each that still fits under the DC. The first always runs.
pub(crate) fn fitting(queue: &[Member], dc: u64) -> Vec<TenantId> {
    let mut sum = 0;
    let fits = |m: &&Member| {
        let first = sum == 0;
        let fits = first || sum + m.weight <= dc;
        if fits {
            sum += m.weight;
        }
        fits
    };
    queue.iter().filter(fits).map(|m| m.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT_NS: u64 = 50;

    #[test]
    fn a_member_that_falls_idle_in_its_slot_comes_back_in_its_turn() {
        let mut slots = Slots::new(SLOT_NS, 1_000);
        let [flaps, works] = [0, 1].map(|id| Member { id: TenantId(id), weight: 2, demand_milli: 2_000 });
        let mut given = [0, 0];
        // It is idle whenever its slot is about to end, and back for the next slot.
        for half in 0..80 {
            let (start_ns, end_ns) = (half * SLOT_NS / 2, (half + 1) * SLOT_NS / 2);
            let seen = Observation { start_ns, end_ns, ..Observation::default() };
            let is_idle = half > 0 && half % 2 == 0 && slots.running == [flaps.id];
            let members = if is_idle { vec![works] } else { vec![flaps, works] };
            let begun = slots.begun;
            slots.turn(&seen, &members, &Rule::Single, |queue| vec![queue[0].id]);
            given[slots.running[0].0 as usize] += slots.begun - begun;
        }
        assert!(given[0] > 10 && given[0] <= given[1] + 1, "{given:?}");
    }

    #[test]
    fn a_tenant_that_was_alone_does_not_wait_for_a_newcomer_to_catch_up() {
        let mut slots = Slots::new(SLOT_NS, 1_000);
        let [old, new] = [0, 1].map(|id| Member { id: TenantId(id), weight: 2, demand_milli: 2_000 });
        let mut turn = |members: &[Member]| {
            let start_ns = slots.begun * SLOT_NS;
            let seen = Observation { start_ns, end_ns: start_ns + SLOT_NS, ..Observation::default() };
            slots.turn(&seen, members, &Rule::Single, |queue| vec![queue[0].id]);
            slots.running.first().map(|id| id.0)
        };
        assert!((0..30).all(|_| turn(&[old]) == Some(0)));
        assert_eq!(turn(&[]), None);
        turn(&[new]);
        let both: Vec<_> = (0..6).map(|_| turn(&[old, new]).unwrap()).collect();
        assert!(both.windows(3).all(|w| w.contains(&0) && w.contains(&1)), "{both:?}");
    }
}
