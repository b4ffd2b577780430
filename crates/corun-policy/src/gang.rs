//! `gang`: all threads of a tenant run together, in a slot without interference. Gang scheduling (Feitelson and Rudolph, 1992).
//!
//! Tenants whose threads fit the CPUs together share a slot, as jobs share a row of Ousterhout's matrix. The tenant whose turn it is
//! comes first. The others follow in the order of their turn, each if CPUs that it may use are left for its CPU-bound tasks
//! ([`crate::seats`]). With `together=false` a slot has one tenant, like the gang scheduling in Controlled Contention §II.
//!
//! Members are the tenants in scope that want a noticeable part of a CPU. A tenant that hardly runs is left alone and needs no slot.
//! Limits, which the paper shows: a slot leaves the CPUs idle that its tenant does not use, and a tenant that waits for devices wastes
//! most of its slot.

use crate::census::{Census, CPU_BOUND_PERCENT};
use crate::options::{Kind, OptionSpec, Values};
use crate::seats::{Confined, Seats};
use crate::slots::{Member, Slots};
use corun_model::reason::Rule;
use corun_model::{Decision, Knob, Machine, Observation, Policy, TenantId};

/// Length of a slot: short enough that no tenant waits noticeably, and long enough that switching costs
/// little. The maximum is that of SLURM, 30 s. (Under the sched_ext scheduler a park ends after 20 s in any
/// case.)
pub(crate) const SLOT: OptionSpec = OptionSpec {
    name: "slot",
    default: "50ms",
    kind: Kind::Time { least_ns: 1_000_000, most_ns: 30_000_000_000 },
    words: &[],
    about: "how long the chosen ones run before the next ones are chosen",
};

/// A tenant needs a slot from this CPU time on.
pub(crate) const LEAST: OptionSpec = OptionSpec {
    name: "least",
    default: "1",
    kind: Kind::Whole { least: 1, most: 100, unit: "percent of a CPU" },
    words: &[],
    about: "tenants that want less CPU time than this are left alone",
};

pub(crate) const OPTIONS: &[OptionSpec] = &[
    SLOT,
    LEAST,
    OptionSpec {
        name: "together",
        default: "true",
        kind: Kind::Flag,
        words: &[],
        about: "tenants whose threads fit the CPUs together share a slot; false: one tenant in a slot",
    },
];

/// Gangs halve their counters after this many slots. With one member per slot the number does not matter.
pub(crate) const AGE_SLOTS: u64 = 16;

/// A slot has two epochs, so that a slot whose tenant ended is not lost as a whole.
pub(crate) fn epoch_of(slot_ns: u64) -> u64 {
    slot_ns / 2
}

/// Gangs.
#[derive(Debug)]
pub struct Gang {
    census: Census,
    slots: Slots,
    least_milli: u64,
    together: bool,
    epoch_ns: u64,
}

impl Gang {
    pub(crate) fn new(values: &Values) -> Gang {
        let slot_ns = values.number("slot").expect("a slot has no words");
        Gang {
            census: Census::new(values.scope.clone(), CPU_BOUND_PERCENT),
            slots: Slots::new(slot_ns, AGE_SLOTS),
            least_milli: values.number("least").expect("no words") * 10,
            together: values.number("together") == Some(1),
            epoch_ns: epoch_of(slot_ns),
        }
    }
}

/// The first, and then in the order of their turn each that also fits. One without a CPU-bound task also takes a CPU.
fn gangs(queue: &[Member], cpus: u64, confined: &Confined) -> Vec<TenantId> {
    let mut seats = Seats::new(cpus, confined);
    let (first, others) = queue.split_first().expect("a slot has members");
    seats.seat(first.id, first.weight.max(1));
    let fit = others.iter().filter(|m| seats.seat_all(m.id, m.weight.max(1)));
    std::iter::once(first).chain(fit).map(|m| m.id).collect()
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

    fn decide(&mut self, machine: &Machine, seen: &Observation) -> Vec<Decision> {
        let members = members(&mut self.census, &self.slots, seen, self.least_milli);
        let (cpus, confined) = (machine.cpu_count() as u64, self.census.confined());
        self.slots.turn(seen, &members, &Rule::Single, |queue| match self.together {
            true => gangs(queue, cpus, confined),
            false => vec![queue[0].id],
        })
    }
}
