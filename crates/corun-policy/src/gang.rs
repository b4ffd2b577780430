//! `gang`: one tenant at a time. Gang scheduling (Feitelson and Rudolph, 1992), as Controlled Contention §II compares
//! itself with: all threads of an application run together in a slot of their own, without interference.
//!
//! Members are the tenants in scope that want a noticeable part of a CPU; whoever hardly runs is left alone and needs no
//! slot. Limits, which the paper shows: a slot leaves CPUs idle that its tenant does not use, and one that waits for
//! devices wastes most of its own.

use crate::census::{Census, CPU_BOUND_PERCENT};
use crate::options::{Kind, OptionSpec, Values};
use crate::slots::{Member, Slots};
use corun_model::reason::Rule;
use corun_model::{Decision, Knob, Machine, Observation, Policy};

/// Length of a slot: short enough that nobody waits noticeably, long enough that switching costs little.
pub(crate) const SLOT: OptionSpec = OptionSpec {
    name: "slot",
    default: "50ms",
    kind: Kind::Time { least_ns: 1_000_000, most_ns: 10_000_000_000 },
    words: &[],
    about: "how long those who were chosen run before the next are",
};

/// From how much CPU time a tenant needs a slot.
pub(crate) const LEAST: OptionSpec = OptionSpec {
    name: "least",
    default: "1",
    kind: Kind::Whole { least: 1, most: 100, unit: "percent of a CPU" },
    words: &[],
    about: "tenants that want less CPU time than this are left alone",
};

pub(crate) const OPTIONS: &[OptionSpec] = &[SLOT, LEAST];

/// How often gangs halve their counters, in slots. Which number does not matter where each slot has one member.
pub(crate) const AGE_SLOTS: u64 = 16;

/// Slots are cut into two epochs, so that one whose tenant ended is not wasted whole.
pub(crate) fn epoch_of(slot_ns: u64) -> u64 {
    slot_ns / 2
}

/// One tenant at a time.
#[derive(Debug)]
pub struct Gang {
    census: Census,
    slots: Slots,
    least_milli: u64,
    epoch_ns: u64,
}

impl Gang {
    pub(crate) fn new(values: &Values) -> Gang {
        let slot_ns = values.number("slot").expect("a slot has no words");
        Gang {
            census: Census::new(values.scope.clone(), CPU_BOUND_PERCENT),
            slots: Slots::new(slot_ns, AGE_SLOTS),
            least_milli: values.number("least").expect("no words") * 10,
            epoch_ns: epoch_of(slot_ns),
        }
    }
}

/// Tenants that want at least this much, as members.
pub(crate) fn members(
    census: &mut Census,
    slots: &Slots,
    seen: &Observation,
    least_milli: u64,
) -> Vec<Member> {
    let uses = census.take(seen, slots.parked());
    let member =
        |u: &crate::census::TenantUse| Member { id: u.id, weight: u.weight, demand_milli: u.demand_milli };
    uses.iter().filter(|u| u.demand_milli >= least_milli).map(member).collect()
}

impl Policy for Gang {
    fn name(&self) -> &'static str {
        "gang"
    }

    fn knobs(&self) -> &'static [Knob] {
        &[Knob::Park]
    }

    fn epoch_ns(&self) -> u64 {
        self.epoch_ns
    }

    fn decide(&mut self, _: &Machine, seen: &Observation) -> Vec<Decision> {
        let members = members(&mut self.census, &self.slots, seen, self.least_milli);
        self.slots.turn(seen, &members, &Rule::Single, |queue| vec![queue[0].id])
    }
}
