//! The activity of tenants in a period, and the kind of programs that it shows.

use super::numbers::{BURST_MS, NOTICEABLE_PERCENT};
use crate::census::{knows_spin, TenantUse, CPU_BOUND_PERCENT};
use corun_model::TenantId;
use std::collections::BTreeMap;

/// Whether a tenant's tasks wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// They neither block nor spin.
    No,
    /// They do not block. Whether they spin is unknown.
    Perhaps,
    /// They block or spin.
    Yes,
}

/// Sums over the windows in which a tenant was not parked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Did {
    pub useful_ns: u64,
    pub on_cpu_ns: u64,
    steal_ns: u64,
    block_ns: u64,
    /// `None` if the host could not tell in some window.
    beyond_threads_ns: Option<u64>,
    wakeups: Option<u64>,
    judged_ns: u64,
    /// CPU time that was available meanwhile.
    pub capacity_ns: u64,
}

impl Did {
    fn of(u: &TenantUse, capacity_ns: u64) -> Did {
        Did {
            useful_ns: u.useful_ns,
            on_cpu_ns: u.on_cpu_ns,
            steal_ns: u.steal_ns,
            block_ns: u.block_ns,
            beyond_threads_ns: u.beyond_threads_ns,
            wakeups: u.wakeups,
            judged_ns: u.judged_ns,
            capacity_ns,
        }
    }

    fn plus(&self, more: &Did) -> Did {
        let both = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        Did {
            useful_ns: self.useful_ns + more.useful_ns,
            on_cpu_ns: self.on_cpu_ns + more.on_cpu_ns,
            steal_ns: self.steal_ns + more.steal_ns,
            block_ns: self.block_ns + more.block_ns,
            beyond_threads_ns: both(self.beyond_threads_ns, more.beyond_threads_ns),
            wakeups: both(self.wakeups, more.wakeups),
            judged_ns: self.judged_ns + more.judged_ns,
            capacity_ns: self.capacity_ns + more.capacity_ns,
        }
    }

    /// Useful time, in thousandths of the capacity.
    pub fn useful_milli(&self) -> u64 {
        (self.useful_ns * 1_000).checked_div(self.capacity_ns).unwrap_or(0)
    }

    /// Whether it is a server: it waits for the outside for a fifth of its time or more, and runs in short bursts.
    pub fn is_server(&self) -> bool {
        let bursts = self.wakeups.is_some_and(|n| n > 0 && self.on_cpu_ns / n < BURST_MS * 1_000_000);
        let lives_ns = self.on_cpu_ns + self.block_ns;
        bursts && self.beyond_threads_ns.is_some_and(|ns| ns * 100 >= lives_ns * CPU_BOUND_PERCENT)
    }

    /// Whether its tasks wait for each other: they block or spin for a noticeable part of the time in which they could run. If they do
    /// not, slots do not help them, and their CPU time is the kernel's decision.
    pub fn waits(&self) -> Waits {
        let waits_ns = self.block_ns + self.on_cpu_ns.saturating_sub(self.useful_ns);
        if waits_ns * 100 >= (self.on_cpu_ns + self.block_ns) * NOTICEABLE_PERCENT {
            Waits::Yes
        } else if knows_spin(self.judged_ns, self.on_cpu_ns) {
            Waits::No
        } else {
            Waits::Perhaps
        }
    }

    /// Whether it is blocked for a fifth of its time or more: then it may wait in its own slots.
    pub fn waits_for_other_things(&self) -> bool {
        self.block_ns * 100 >= (self.on_cpu_ns + self.block_ns + self.steal_ns) * CPU_BOUND_PERCENT
    }

    /// Whether it may spin unseen: it hardly ever blocks, and loses much time to steal.
    pub fn may_spin(&self) -> bool {
        let runnable_ns = self.on_cpu_ns + self.steal_ns;
        self.waits() == Waits::Perhaps && self.steal_ns * 100 >= runnable_ns * CPU_BOUND_PERCENT
    }
}

/// A period.
#[derive(Clone, Debug, Default)]
pub(super) struct Period {
    of: BTreeMap<TenantId, Did>,
    pub lasted_ns: u64,
    pub capacity_ns: u64,
}

impl Period {
    /// Takes in a window: the available CPU time, and the activity of these tenants.
    pub fn add<'a>(&mut self, ns: u64, capacity_ns: u64, uses: impl Iterator<Item = &'a TenantUse>) {
        self.lasted_ns += ns;
        self.capacity_ns += capacity_ns;
        uses.for_each(|u| self.take(u.id, &Did::of(u, capacity_ns)));
    }

    /// Adds another period.
    pub fn extend(&mut self, other: &Period) {
        self.lasted_ns += other.lasted_ns;
        self.capacity_ns += other.capacity_ns;
        other.of.iter().for_each(|(id, did)| self.take(*id, did));
    }

    fn take(&mut self, id: TenantId, did: &Did) {
        self.of.entry(id).and_modify(|sum| *sum = sum.plus(did)).or_insert(*did);
    }

    pub fn of(&self, id: TenantId) -> Option<&Did> {
        self.of.get(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: TenantId = TenantId(1);

    /// A window of two loops that never wait. Spinning was judged for `judged_ns` of it.
    fn loops(judged_ns: u64) -> TenantUse {
        TenantUse {
            id: ID,
            tasks: 2,
            weight: 2,
            demand_milli: 2_000,
            useful_ns: 1_000,
            on_cpu_ns: 1_000,
            steal_ns: 1_000,
            block_ns: 0,
            beyond_threads_ns: Some(0),
            wakeups: Some(0),
            judged_ns,
        }
    }

    fn seen(windows: &[TenantUse]) -> Did {
        let mut period = Period::default();
        windows.iter().for_each(|w| period.add(1_000, 2_000, std::iter::once(w)));
        *period.of(ID).unwrap()
    }

    #[test]
    fn loops_not_judged_for_a_window_wait_for_nothing() {
        let did = seen(&[loops(0), loops(1_000)]);
        assert_eq!((did.waits(), did.may_spin()), (Waits::No, false));
    }

    #[test]
    fn loops_that_are_hardly_ever_judged_may_spin() {
        let did = seen(&[loops(0), loops(0), loops(1_000)]);
        assert_eq!((did.waits(), did.may_spin()), (Waits::Perhaps, true));
    }

    #[test]
    fn a_tenant_that_spins_or_blocks_for_a_noticeable_part_of_its_time_waits() {
        let spins = TenantUse { useful_ns: 850, ..loops(1_000) };
        let blocks = TenantUse { block_ns: 150, ..loops(0) };
        assert_eq!((seen(&[spins]).waits(), seen(&[blocks]).waits()), (Waits::Yes, Waits::Yes));
    }

    #[test]
    fn a_tenant_with_short_bursts_that_waits_for_the_outside_is_a_server() {
        let serves = |wakeups| TenantUse {
            on_cpu_ns: 40_000_000,
            block_ns: 60_000_000,
            beyond_threads_ns: Some(60_000_000),
            wakeups: Some(wakeups),
            ..loops(0)
        };
        assert!(seen(&[serves(80)]).is_server());
        assert!(!seen(&[serves(2)]).is_server());
        assert!(!seen(&[TenantUse { beyond_threads_ns: Some(0), ..serves(80) }]).is_server());
    }
}
