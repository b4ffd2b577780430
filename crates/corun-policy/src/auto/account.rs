//! The account: the service that each tenant has received by its weight, and its lag. This is weighted fair queueing, with the whole
//! machine as the server and a slot as a packet.
//!
//! A tenant of weight `w` wants `m` CPUs, at most all of them. If slots slow all tenants down equally, each has the same time for its
//! wants. **Virtual time** is that time. `C` is the capacity in CPUs, without the CPU time of anything but these tenants:
//!
//! ```text
//! dV = C dt / Σ w m          a tenant's fair service is w m dV
//! lag = V - Σ charged / (w m)
//! ```
//!
//! Tenants that are confined to other CPUs ([`crate::seats::groups`]) have their own virtual time, with the capacity of those CPUs.
//!
//! A tenant with a positive lag is behind. One with a negative lag has received more than its share. The account goes on both while
//! tenants share and while they take turns. So a tenant that had more than its share before gives it back in slots.
//!
//! **Charged** is CPU time without losses. A loss is the time that a tenant spins for threads that could not run, because of neighbors
//! while all share, or of another tenant in its own slot. An idle CPU in its slot is a loss too.
//!
//! **Bounded.** A lag grows to [`LAG_SLOTS`] slots at most; nobody makes up for losses beyond that. So a tenant that loses much in its
//! slots gets more of them until the others are behind by that bound. From then on it gets the same number. That bound is the promise
//! to the others.

use super::numbers::LAG_SLOTS;
use corun_model::TenantId;
use std::collections::BTreeMap;

/// The activity of a tenant in a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub id: TenantId,
    /// In hundredths.
    pub weight: u64,
    /// Its CPU-bound tasks.
    pub tasks: u64,
    /// CPUs that it wants, in thousandths.
    pub want_milli: u64,
    /// The number of its group, and how many CPUs the group has.
    pub group: (usize, u64),
    /// CPU time that counts as service.
    pub charged_ns: u64,
    /// Whether it was parked.
    pub waited: bool,
}

/// A tenant's account.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    pub weight: u64,
    pub tasks: u64,
    /// The CPUs that it wants, in thousandths, at most those of its group.
    pub want_milli: u64,
    /// Lag in virtual time; above 0 it is behind.
    pub lag_ns: i64,
    /// How long it has been parked, in nanoseconds.
    pub waited_ns: u64,
    /// Whether it wanted CPUs in the last window.
    pub is_here: bool,
}

impl Account {
    /// Its claim. Fair service is in proportion to claims.
    pub fn claim(&self) -> u64 {
        self.weight * self.want_milli
    }
}

/// The accounts of all tenants.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    of: BTreeMap<TenantId, Account>,
}

impl Accounts {
    /// Takes in a window: the CPU time that was available to these tenants, and the activity of each.
    pub fn book(&mut self, (cpus, slot_ns): (u64, u64), window_ns: u64, capacity_ns: u64, entries: &[Entry]) {
        self.of.values_mut().for_each(|account| account.is_here = false);
        for e in entries {
            let account = self.of.entry(e.id).or_default();
            account.is_here = true;
            account.weight = e.weight.max(1);
            account.tasks = e.tasks;
            account.want_milli = e.want_milli.clamp(1, e.group.1 * 1_000);
            account.waited_ns = if e.waited { account.waited_ns + window_ns } else { 0 };
        }
        let mut claims: BTreeMap<usize, u64> = BTreeMap::new();
        for e in entries {
            *claims.entry(e.group.0).or_default() += self.of[&e.id].claim();
        }
        let virtual_ns = |ns: u64, claim: u64| (u128::from(ns) * 100_000 / u128::from(claim.max(1))) as i64;
        for e in entries {
            let (group, group_cpus) = e.group;
            let own_ns = u128::from(capacity_ns) * u128::from(group_cpus) / u128::from(cpus.max(1));
            let passed_ns = virtual_ns(own_ns as u64, claims[&group]);
            let account = self.of.get_mut(&e.id).expect("it was entered");
            let lag_ns = account.lag_ns + passed_ns - virtual_ns(e.charged_ns, account.claim());
            account.lag_ns = lag_ns.min((LAG_SLOTS * slot_ns) as i64);
        }
    }

    /// Closes the accounts of tenants that have gone.
    pub fn retain(&mut self, is_here: impl Fn(&TenantId) -> bool) {
        self.of.retain(|id, _| is_here(id));
    }

    /// Sets all lags to 0.
    pub fn clear(&mut self) {
        self.of.clear();
    }

    /// Tenants that want CPUs now.
    pub fn here(&self) -> impl Iterator<Item = (&TenantId, &Account)> {
        self.of.iter().filter(|(_, account)| account.is_here)
    }
}
