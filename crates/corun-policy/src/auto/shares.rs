//! How much of their fair shares tenants on shared CPUs have, and which of them slots may help.
//!
//! A share is **fair** as in the account: the part that a tenant would have if all were slowed down equally. It is `w m / Σ w m` of the
//! capacity of the CPUs that it and its competitors may use, and at most what it wants.

use super::numbers::LACKS_PERCENT;
use super::period::{Period, Waits};
use crate::census::TenantUse;
use crate::seats::Group;
use corun_model::{Observation, TenantId};

/// A tenant while everybody shares; rates in thousandths of the capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    pub id: TenantId,
    pub fair_milli: u64,
    useful_milli: u64,
    waits: Waits,
    pub may_spin: bool,
}

impl Shared {
    /// Its rate in hundredths of its fair share.
    pub fn percent(&self) -> u64 {
        self.useful_milli * 100 / self.fair_milli.max(1)
    }

    /// Whether it lacks its share, and its tasks may wait for each other. The reason may be that they wait for one that does not run.
    pub fn lacks(&self) -> bool {
        self.waits != Waits::No && self.percent() < LACKS_PERCENT
    }
}

/// The rates of these tenants in a period, and their fair shares.
pub(super) fn shared(
    (cpus, groups): (u64, &[Group]),
    seen: &Observation,
    candidates: &[&TenantUse],
    period: &Period,
) -> Vec<Shared> {
    let capacity_milli = period.capacity_ns * 1_000 / period.lasted_ns.max(1);
    let claim = |u: &TenantUse, group: &Group| u.want_milli().min(group.cpus * 1_000) * seen.weight(u.id);
    let of = candidates.iter().filter_map(|u| {
        let did = period.of(u.id)?;
        let group = groups.iter().find(|group| group.members.contains(&u.id))?;
        let want = u.want_milli().min(group.cpus * 1_000);
        let all: u64 =
            candidates.iter().filter(|u| group.members.contains(&u.id)).map(|u| claim(u, group)).sum();
        let [own, all_cpus] = [(claim(u, group), group.cpus), (all.max(1), cpus)]
            .map(|(claim, cpus)| u128::from(claim) * u128::from(cpus));
        let fair_milli = u128::from(want).min(own * u128::from(capacity_milli) / all_cpus.max(1)) as u64;
        // A single task has no sibling to wait for.
        let has_siblings = u.weight >= 2;
        Some(Shared {
            id: u.id,
            fair_milli: fair_milli * 1_000 / capacity_milli.max(1),
            useful_milli: did.useful_milli(),
            waits: if has_siblings { did.waits() } else { Waits::No },
            may_spin: has_siblings && did.may_spin(),
        })
    });
    of.collect()
}

/// The neediest tenant: the one with the least of its fair share, among those whose tasks may wait for each other.
pub(super) fn neediest(all: &[Shared]) -> Option<&Shared> {
    all.iter().filter(|s| s.waits != Waits::No).min_by_key(|s| (s.percent(), s.id))
}
