//! Slots: separation in time. In each slot some members run and the others are parked. Shared by `gang`,
//! `paired_gang`, `controlled_contention` and `auto`, which differ in whom they choose together.
//!
//! Whose turn it is follows Controlled Contention §III.B: each member has a counter of the slots that it was given;
//! the choice starts with the lowest counter, so nobody starves; counters are halved from time to time (ageing), so that
//! those who have been here for long are not put behind newcomers. When a running member ends or falls idle before its
//! slot is over, those who wait are looked through for one that fits beside the rest (backfill). A newcomer starts with
//! the lowest counter that there is: it waits its turn, and no other's.
//!
//! A member may have a **share** other than the rest: what a slot adds to its counter is divided by it, so who has twice
//! the share of another gets twice as many slots (stride scheduling). Without one all are alike, as in the papers.

use crate::parking::Parking;
use corun_model::{Decision, Observation, TenantId};
use std::collections::{BTreeMap, BTreeSet};

/// What a slot adds to a counter: finer than 1, so that halving keeps who is behind whom.
const ONE_SLOT: u64 = 1 << 32;

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
    age_slots: u64,
    counters: BTreeMap<TenantId, u64>,
    /// In thousandths; who is not here has 1,000.
    shares: BTreeMap<TenantId, u64>,
    favoured: Option<TenantId>,
    running: Vec<TenantId>,
    ends_ns: u64,
    begun: u64,
    parking: Parking,
}

impl Slots {
    /// Slots of this length; counters are halved every `age_slots` of them.
    pub fn new(slot_ns: u64, age_slots: u64) -> Slots {
        Slots {
            slot_ns,
            age_slots,
            counters: BTreeMap::new(),
            shares: BTreeMap::new(),
            favoured: None,
            running: Vec::new(),
            ends_ns: 0,
            begun: 0,
            parking: Parking::default(),
        }
    }

    /// The same slots with nobody parked and no turn taken.
    pub fn afresh(&self) -> Slots {
        Slots::new(self.slot_ns, self.age_slots)
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

    /// Slots begun so far.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// One epoch: `choose` is given the members in the order of their turn and says who runs together; it must choose
    /// the first. `rule` says by what, for the reasons.
    pub fn turn(
        &mut self,
        seen: &Observation,
        members: &[Member],
        rule: &str,
        choose: impl Fn(&[Member]) -> Vec<TenantId>,
    ) -> Vec<Decision> {
        let is_member = |id: TenantId| members.iter().any(|m| m.id == id);
        let lowest =
            self.counters.iter().filter(|(id, _)| is_member(**id)).map(|(_, c)| *c).min().unwrap_or(0);
        self.counters =
            members.iter().map(|m| (m.id, *self.counters.get(&m.id).unwrap_or(&lowest))).collect();
        self.running.retain(|&id| is_member(id));
        if members.is_empty() {
            return self.parking.release(seen, "no tenant is left to share with");
        }
        let over = self.is_over(seen);
        let mut runs = format!("slot {}, {rule}", self.begun);
        if over || self.running.is_empty() {
            for id in &self.running {
                let share_milli = self.shares.get(id).map_or(1_000, |s| (*s).max(1));
                *self.counters.get_mut(id).expect("who runs is a member") += ONE_SLOT / share_milli * 1_000;
            }
            self.begun += 1;
            if self.begun.is_multiple_of(self.age_slots) {
                self.counters.values_mut().for_each(|c| *c /= 2);
            }
            self.running = choose(&self.queue(members, &[]));
            self.ends_ns = seen.end_ns + self.slot_ns;
            runs = format!("slot {}, {rule}", self.begun);
        } else {
            let more = choose(&self.queue(members, &self.running));
            if self.running.iter().all(|id| more.contains(id)) && more.len() > self.running.len() {
                self.running = more;
                runs = format!("slot {} has room again, {rule}", self.begun);
            }
        }
        let stop = members.iter().map(|m| m.id).filter(|id| !self.running.contains(id)).collect();
        let stops = format!("waits out slot {}, {rule}", self.begun);
        self.parking.change(seen, stop, &stops, &runs)
    }

    /// Whether the present slot is over: it ends at the epoch nearest to its end.
    pub fn is_over(&self, seen: &Observation) -> bool {
        seen.end_ns + seen.window_ns() / 2 >= self.ends_ns
    }

    /// Lets everybody go and forgets the turns.
    pub fn stop(&mut self, seen: &Observation, why: &str) -> Vec<Decision> {
        self.running.clear();
        self.counters.clear();
        self.ends_ns = 0;
        self.parking.release(seen, why)
    }

    /// Members in the order of their turn, `first` before all others.
    fn queue(&self, members: &[Member], first: &[TenantId]) -> Vec<Member> {
        let mut queue = members.to_vec();
        let is_other = |id: TenantId| self.favoured != Some(id);
        queue.sort_by_key(|m| (!first.contains(&m.id), self.counters[&m.id], is_other(m.id), m.id));
        queue
    }
}
