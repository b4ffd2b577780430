//! `paired_gang`: two tenants at a time if their demands fit together. Paired gang scheduling (Wiseman and Feitelson, 2003), as in
//! Controlled Contention §VII: two jobs share a gang as long as there are enough CPUs.
//!
//! The tenant whose turn it is runs. The next in turn runs with it if its demand fits into the CPUs that are
//! left. Demand is averaged over running and blocking. A job that waits for devices half of its time leaves
//! half of its CPUs free.

use crate::census::{Census, CPU_BOUND_PERCENT};
use crate::gang::{epoch_of, members, AGE_SLOTS, LEAST, SLOT};
use crate::options::{OptionSpec, Values};
use crate::slots::{Member, Slots};
use corun_model::reason::Rule;
use corun_model::{Decision, Knob, Machine, Observation, Policy, TenantId};

pub(crate) const OPTIONS: &[OptionSpec] = &[SLOT, LEAST];

/// Two tenants at a time if they fit.
#[derive(Debug)]
pub struct PairedGang {
    census: Census,
    slots: Slots,
    least_milli: u64,
    epoch_ns: u64,
}

impl PairedGang {
    pub(crate) fn new(values: &Values) -> PairedGang {
        let slot_ns = values.number("slot").expect("a slot has no words");
        PairedGang {
            census: Census::new(values.scope.clone(), CPU_BOUND_PERCENT),
            slots: Slots::new(slot_ns, AGE_SLOTS),
            least_milli: values.number("least").expect("no words") * 10,
            epoch_ns: epoch_of(slot_ns),
        }
    }
}

/// The first, and the next whose demand fits with it.
fn pair(queue: &[Member], cpus: u64) -> Vec<TenantId> {
    let first = &queue[0];
    let left_milli = (cpus * 1_000).saturating_sub(first.demand_milli);
    let second = queue[1..].iter().find(|m| m.demand_milli <= left_milli);
    std::iter::once(first).chain(second).map(|m| m.id).collect()
}

impl Policy for PairedGang {
    fn name(&self) -> &'static str {
        "paired_gang"
    }

    fn knobs(&self) -> &'static [Knob] {
        &[Knob::Park]
    }

    fn epoch_ns(&self) -> u64 {
        self.epoch_ns
    }

    fn decide(&mut self, machine: &Machine, seen: &Observation) -> Vec<Decision> {
        let members = members(&mut self.census, &self.slots, seen, self.least_milli);
        let cpus = machine.cpu_count() as u64;
        self.slots.turn(seen, &members, &Rule::Paired, |queue| pair(queue, cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partner_is_the_next_in_turn_that_fits() {
        let member = |id, demand_milli| Member { id: TenantId(id), weight: 1, demand_milli };
        let queue = [member(1, 3_000), member(2, 2_000), member(3, 1_000)];
        assert_eq!(pair(&queue, 4), [TenantId(1), TenantId(3)]);
        assert_eq!(pair(&queue, 3), [TenantId(1)]);
        assert_eq!(pair(&queue, 48), [TenantId(1), TenantId(2)]);
    }
}
