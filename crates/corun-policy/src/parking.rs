//! Who is parked: turns "these shall be stopped now" into the park and unpark actions that are still missing.

use corun_model::reason::Release;
use corun_model::{Action, Decision, Reason, TenantId};
use std::collections::BTreeSet;

/// The tenants that a policy has parked.
#[derive(Clone, Debug, Default)]
pub struct Parking {
    parked: BTreeSet<TenantId>,
}

impl Parking {
    /// Those that are parked.
    pub fn parked(&self) -> &BTreeSet<TenantId> {
        &self.parked
    }

    /// Parks exactly `stop`; `stops` and `runs` say why. Whoever is let go is so before others are parked: it then wakes up
    /// where it last ran, on CPUs that are all busy. On one that had just become idle the kernel puts two of its threads,
    /// the other CPU being the controller's for that moment, and may leave them there for half a slot.
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

    /// Lets everybody go.
    pub fn release(&mut self, why: Release) -> Vec<Decision> {
        let why = Reason::Release(why);
        self.change(BTreeSet::new(), &why, &why)
    }
}
