//! The account: service that each tenant has received by its weight, and its lag. Weighted fair queueing, where the server is
//! the whole machine and a slot is a packet.
//!
//! A tenant of weight `w` wants `m` CPUs, at most all of them. When slots slow everybody down alike, each has the same time for
//! its wants. **Virtual time** is that time: with a capacity of `C` CPUs (what others than these tenants use is not in it)
//!
//! ```text
//! dV = C dt / Σ w m          a tenant's fair service is w m dV
//! lag = V - Σ charged / (w m)
//! ```
//!
//! Tenants that are confined to other CPUs ([`crate::seats::groups`]) have a virtual time of their own, with the capacity of those CPUs.
//!
//! A tenant with a positive lag is behind, one with a negative lag has received more than its share. The account runs on while everybody shares
//! and while tenants take turns, so what somebody had beyond its share before there were slots is given back in slots.
//!
//! **What is charged** is CPU time. A loss is no service: time that a tenant spins for threads that were kept from running, by
//! neighbours while everybody shared or by somebody else in its own slot; and a CPU that was idle in its slot.
//!
//! **Bounded.** A lag grows to [`LAG_SLOTS`] slots and no further: what is lost beyond that is nobody's debt. So a tenant that
//! loses much in its slots is given more of them until the others are behind by that bound, and the same number from then on.
//! That bound is the promise to the others.

use super::numbers::LAG_SLOTS;
use corun_model::TenantId;
use std::collections::BTreeMap;

/// What a tenant did in a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub id: TenantId,
    /// In hundredths.
    pub weight: u64,
    /// Its CPU-bound tasks.
    pub tasks: u64,
    /// CPUs that it wants, in thousandths.
    pub want_milli: u64,
    /// Which group it is in, and how many CPUs that has.
    pub group: (usize, u64),
    /// CPU time that counts as service.
    pub charged_ns: u64,
    /// It was parked.
    pub waited: bool,
}

/// A tenant's account.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    pub weight: u64,
    pub tasks: u64,
    /// At most the CPUs of its group.
    pub want_milli: u64,
    /// Virtual time; above 0 it is behind.
    pub lag_ns: i64,
    /// For how long it has been parked.
    pub waited_ns: u64,
    /// It wanted CPUs in the last window.
    pub is_here: bool,
}

impl Account {
    /// Its fair service is in proportion to this.
    pub fn claim(&self) -> u64 {
        self.weight * self.want_milli
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    of: BTreeMap<TenantId, Account>,
}

impl Accounts {
    /// Takes in a window: CPU time that these tenants could have, and what each did.
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

    /// Closes the accounts of those who have gone.
    pub fn retain(&mut self, is_here: impl Fn(&TenantId) -> bool) {
        self.of.retain(|id, _| is_here(id));
    }

    /// Nobody owes anything any more.
    pub fn clear(&mut self) {
        self.of.clear();
    }

    /// Those who want CPUs now.
    pub fn here(&self) -> impl Iterator<Item = (&TenantId, &Account)> {
        self.of.iter().filter(|(_, account)| account.is_here)
    }
}
