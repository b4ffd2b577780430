//! What tenants that share CPUs have of what they want, and of their fair shares.

use super::use_so_far::UseSoFar;
use crate::census::TenantUse;
use crate::fair;
use crate::trial::{Shared, Waits};
use corun_model::{Observation, TenantId};
use std::collections::BTreeMap;

/// A time in which tenants share CPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    /// What each did.
    of: BTreeMap<TenantId, UseSoFar>,
    /// CPU time that anybody, or the host below, took.
    taken_ns: u64,
    lasted_ns: u64,
}

/// What is found of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// CPUs that were theirs to share, in thousandths.
    pub(super) capacity_milli: u64,
    pub(super) of: Vec<(TenantId, Shared)>,
}

impl Watch {
    /// Takes in a window of `window_ns`, in which anybody took so much CPU time.
    pub(super) fn add<'a>(
        &mut self,
        window_ns: u64,
        taken_ns: u64,
        uses: impl Iterator<Item = &'a TenantUse>,
    ) {
        self.taken_ns += taken_ns;
        self.lasted_ns += window_ns;
        for u in uses {
            self.of.entry(u.id).or_default().add(u);
        }
    }

    pub(super) fn of(&self, id: TenantId) -> Option<&UseSoFar> {
        self.of.get(&id)
    }

    pub(super) fn lasted_ns(&self) -> u64 {
        self.lasted_ns
    }

    /// CPU time that those had who are looked at.
    pub(super) fn on_cpu_ns(&self) -> u64 {
        self.of.values().map(|did| did.on_cpu_ns).sum()
    }

    /// The part of a CPU that one had, in thousandths.
    pub(super) fn on_cpu_milli(&self, id: TenantId) -> u64 {
        self.of(id).map_or(0, |did| did.on_cpu_ns) * 1_000 / self.lasted_ns.max(1)
    }

    /// What these had and what was fair.
    pub(super) fn found(
        &self,
        cpus: u64,
        seen: &Observation,
        candidates: &[&TenantUse],
        use_spin: bool,
    ) -> Found {
        let is_candidate = |id: &TenantId| candidates.iter().any(|c| c.id == *id);
        // What others use is not there to be shared out.
        let of_candidates = self.of.iter().filter(|(id, _)| is_candidate(id));
        let candidates_ns: u64 = of_candidates.map(|(_, did)| did.on_cpu_ns).sum();
        let others_ns = self.taken_ns.saturating_sub(candidates_ns);
        let capacity_milli = (cpus * 1_000).saturating_sub(others_ns * 1_000 / self.lasted_ns.max(1));
        let wants: Vec<(u64, u64)> = candidates.iter().map(|u| (u.want_milli(), seen.weight(u.id))).collect();
        let shares = fair::weighted_shares(capacity_milli, &wants);
        let all: u64 = wants.iter().map(|(want, weight)| want * weight).sum();
        let of = candidates.iter().zip(&wants).zip(&shares).filter_map(|((u, &(want, weight)), &share)| {
            let did = self.of(u.id)?;
            let useful_ns = if use_spin { did.useful_ns } else { did.on_cpu_ns };
            // Slots slow everybody down alike, so by them a tenant's part is that of what it wants.
            let part_milli = want.min(want * weight * capacity_milli / all.max(1));
            let shared = Shared {
                weight,
                want_milli: want,
                fair_milli: share.min(part_milli),
                useful_milli: useful_ns * 1_000 / self.lasted_ns.max(1),
                waits: if u.weight >= 2 { did.waits(use_spin) } else { Waits::No },
                may_spin: did.may_spin(u.weight, use_spin),
            };
            Some((u.id, shared))
        });
        Found { capacity_milli, of: of.collect() }
    }
}

impl Found {
    /// Who has least of its fair share, in hundredths of that, of those whose tasks may wait for each other.
    pub(super) fn starves(&self) -> Option<(u64, TenantId)> {
        let waiting = self.of.iter().filter(|(_, shared)| shared.waits != Waits::No);
        waiting.map(|(id, shared)| (shared.useful_milli * 100 / shared.fair_milli.max(1), *id)).min()
    }
}
