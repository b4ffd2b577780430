//! Parks tenants: turns the set of tenants to stop into the park and unpark actions that are missing.

use corun_model::reason::Release;
use corun_model::{Action, Decision, Reason, TenantId};
use std::collections::BTreeSet;

/// The tenants that a policy has parked.
#[derive(Clone, Debug, Default)]
pub struct Parking {
    parked: BTreeSet<TenantId>,
}

impl Parking {
    /// The parked tenants.
    pub fn parked(&self) -> &BTreeSet<TenantId> {
        &self.parked
    }

    /// Parks exactly `stop`; `stops` and `runs` are the reasons. Tenants are released before others are parked, so that they wake up
    /// where they last ran, while all CPUs are busy. If one CPU had just become idle, the kernel would put two of its threads there,
    /// since the controller uses the other CPU at that moment. It may leave them there for half a slot.
    pub fn change(&mut self, stop: BTreeSet<TenantId>, stops: &Reason, runs: &Reason) -> Vec<Decision> {
        let park = stop
            .difference(&self.parked)
            .map(|&tenant| Decision { action: Action::Park { tenant }, because: stops.clone() });
        let unpark = self
            .parked
            .difference(&stop)
            .map(|&tenant| Decision { action: Action::Unpark { tenant }, because: runs.clone() });
        let decisions = unpark.chain(park).collect();
        self.parked = stop;
        decisions
    }

    /// Unparks all tenants.
    pub fn release(&mut self, why: Release) -> Vec<Decision> {
        let why = Reason::Release(why);
        self.change(BTreeSet::new(), &why, &why)
    }
}
