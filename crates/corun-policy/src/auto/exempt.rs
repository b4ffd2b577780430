//! Tenants that are left alone while others take turns: servers, and who waits for other things than CPUs.
//!
//! In a slot they compete with one tenant where they competed with all of them, and would have several times what they have
//! while everybody shares, at the cost of those who take turns for it: a thread that waits for one whose CPU they have
//! waits as long. So they may have their fair share, and who is ahead of that waits out a slot. Who stays within it is never
//! parked.

use super::Auto;
use crate::census::TenantUse;
use crate::trial::Shared;
use corun_model::{Observation, TenantId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, Default)]
struct ExemptTenant {
    /// Thousandths of a CPU.
    fair_milli: u64,
    /// How far behind that it is.
    credit_ns: i64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Exempt {
    of: BTreeMap<TenantId, ExemptTenant>,
}

impl Exempt {
    /// From now on these are left alone, each with its fair share in thousandths of a CPU.
    pub(super) fn are(&mut self, all: impl Iterator<Item = (TenantId, u64)>) {
        let before = std::mem::take(&mut self.of);
        let credit_ns = |id: TenantId| before.get(&id).map_or(0, |tenant| tenant.credit_ns);
        self.of =
            all.map(|(id, fair_milli)| (id, ExemptTenant { fair_milli, credit_ns: credit_ns(id) })).collect();
    }

    /// Takes in a window of slots; nobody saves up more than `most_ns`.
    pub(super) fn ran(&mut self, u: &TenantUse, window_ns: u64, most_ns: u64) {
        if let Some(tenant) = self.of.get_mut(&u.id) {
            let more_ns = (tenant.fair_milli * window_ns / 1_000) as i64 - u.on_cpu_ns as i64;
            tenant.credit_ns = (tenant.credit_ns + more_ns).min(most_ns as i64);
        }
    }

    /// Those who are ahead of their fair share.
    pub(super) fn ahead(&self) -> BTreeSet<TenantId> {
        self.of.iter().filter(|(_, tenant)| tenant.credit_ns < 0).map(|(id, _)| *id).collect()
    }
}

impl Auto {
    /// Who is left alone by these slots, and what is its fair share.
    pub(super) fn watch_exempt(&mut self, cpus: u64, seen: &Observation, uses: &[TenantUse]) {
        let all: Vec<&TenantUse> = uses.iter().filter(|u| u.weight > 0).collect();
        let found = self.watched.found(cpus, seen, &all, self.use_spin);
        let rides = |(id, _): &&(TenantId, Shared)| !self.members.contains(id);
        self.exempt.are(found.of.iter().filter(rides).map(|(id, shared)| (*id, shared.fair_milli)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(on_cpu_ns: u64) -> TenantUse {
        TenantUse {
            id: TenantId(1),
            tasks: 2,
            weight: 2,
            demand_milli: 2_000,
            useful_ns: on_cpu_ns,
            on_cpu_ns,
            steal_ns: 0,
            block_ns: 0,
            beyond_threads_ns: Some(0),
            wakeups: Some(0),
            judged_ns: 0,
        }
    }

    /// In how many of a hundred slots one waits that may have so much of a CPU, and in each that it runs in has so much.
    fn waits(fair_milli: u64, in_slot_milli: u64) -> usize {
        let mut exempt = Exempt::default();
        let mut slot = |_: &usize| {
            exempt.are([(TenantId(1), fair_milli)].into_iter());
            let waits = !exempt.ahead().is_empty();
            exempt.ran(&window(if waits { 0 } else { in_slot_milli / 10 }), 100, 100);
            waits
        };
        (0..100).filter(&mut slot).count()
    }

    #[test]
    fn who_has_no_more_than_its_fair_share_never_waits() {
        assert_eq!((waits(400, 400), waits(400, 30)), (0, 0));
    }

    #[test]
    fn who_would_have_twice_its_fair_share_waits_for_half_of_the_time() {
        assert!((48..=50).contains(&waits(400, 800)), "{}", waits(400, 800));
    }

    #[test]
    fn who_did_nothing_for_long_may_not_have_all_of_that_at_once() {
        let mut exempt = Exempt::default();
        exempt.are([(TenantId(1), 500)].into_iter());
        (0..1_000).for_each(|_| exempt.ran(&window(0), 100, 100));
        let free = (0..10).take_while(|_| {
            exempt.ran(&window(100), 100, 100);
            exempt.ahead().is_empty()
        });
        assert_eq!(free.count(), 2);
    }
}
