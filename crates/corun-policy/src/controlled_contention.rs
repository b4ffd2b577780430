//! `controlled_contention` (CC): as much contention as pays off. Controlled Contention §III.
//!
//! A tenant's weight is the number of its tasks that want 20 % of a CPU or more. In each slot, tenants run together as long as their
//! weights sum to at most the **degree of contention** (DC). The search starts with the tenant that had the fewest slots, and adds each
//! that still fits. A low DC is gang scheduling, a high one is the kernel's default. Tenants without CPU-bound tasks have no weight and
//! are never parked. A tenant that is heavier than the DC runs alone. Counters, aging, backfill and newcomers are in `slots.rs`, and
//! `--dc auto` in `dc_search.rs`.
//!
//! Weights come from the demand of a task: what it would use alone (`census.rs`). The paper takes its present CPU usage. In a crowd, a
//! task that wants a whole CPU may get less than 20 % of one. The option `usage` follows the paper.
//!
//! A tenant that fills a free place in a slot may bring the sum up to the DC, as at the start of a slot. For the start, §III.B says
//! "not greater than the value of DC", and its example runs 43 + 5 under a DC of 48. For a free place it says "below the value of DC".
//! One rule is used for both: a tenant that would have been added at the start may be added later.

use crate::census::Census;
use crate::dc_search::DcSearch;
use crate::gang::{epoch_of, SLOT};
use crate::options::{Kind, OptionSpec, Values};
use crate::slots::{fitting, Member, Slots};
use corun_model::reason::Rule;
use corun_model::{Decision, Knob, Machine, Observation, Policy};

pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "dc",
        default: "cpus",
        kind: Kind::Whole { least: 1, most: 100_000, unit: "CPU-bound tasks" },
        words: &["cpus", "auto"],
        about: "the degree of contention; cpus: one per CPU; auto: found online",
    },
    SLOT,
    OptionSpec {
        name: "cpu-bound",
        default: "20",
        kind: Kind::Whole { least: 1, most: 100, unit: "percent of a CPU" },
        words: &[],
        about: "from this demand on a task counts as CPU-bound",
    },
    OptionSpec {
        name: "ageing",
        default: "16",
        kind: Kind::Whole { least: 1, most: 100_000, unit: "slots" },
        words: &[],
        about: "the counters are halved after this many slots",
    },
    OptionSpec {
        name: "usage",
        default: "false",
        kind: Kind::Flag,
        words: &[],
        about: "a task counts as CPU-bound by the CPU time that it gets, not by its demand",
    },
];

/// The way to find the DC.
#[derive(Debug)]
enum Dc {
    Fixed(u64),
    Cpus,
    Auto(DcSearch),
}

/// Controlled Contention.
#[derive(Debug)]
pub struct ControlledContention {
    census: Census,
    slots: Slots,
    dc: Dc,
    epoch_ns: u64,
}

impl ControlledContention {
    pub(crate) fn new(values: &Values) -> ControlledContention {
        let number = |name| values.number(name).expect("no words");
        let slot_ns = number("slot");
        let census = Census::new(values.scope.clone(), number("cpu-bound"));
        ControlledContention {
            census: if number("usage") == 1 { census.by_use() } else { census },
            slots: Slots::new(slot_ns, number("ageing")),
            dc: match (values.number("dc"), values.word("dc")) {
                (Some(dc), _) => Dc::Fixed(dc),
                (None, Some("auto")) => Dc::Auto(DcSearch::new(slot_ns)),
                (None, _) => Dc::Cpus,
            },
            epoch_ns: epoch_of(slot_ns),
        }
    }
}

impl Policy for ControlledContention {
    fn name(&self) -> &'static str {
        "controlled_contention"
    }

    fn knobs(&self) -> &'static [Knob] {
        &[Knob::Park]
    }

    fn epoch_ns(&self) -> u64 {
        self.epoch_ns
    }

    fn decide(&mut self, machine: &Machine, seen: &Observation) -> Vec<Decision> {
        let uses = self.census.take(seen, self.slots.parked());
        let heavy = uses.iter().filter(|u| u.weight > 0);
        let members: Vec<Member> =
            heavy.map(|u| Member { id: u.id, weight: u.weight, demand_milli: u.demand_milli }).collect();
        let cpus = machine.cpu_count() as u64;
        let (dc, search) = match &mut self.dc {
            Dc::Fixed(dc) => (*dc, None),
            Dc::Cpus => (cpus, None),
            Dc::Auto(search) => search.step(cpus, seen, &uses),
        };
        let largest = members.iter().map(|m| m.weight).max().unwrap_or(0);
        let rule = Rule::Weights { dc, search, is_alone: largest > dc };
        self.slots.turn(seen, &members, &rule, |queue| fitting(queue, dc))
    }

    fn is_searching(&self) -> bool {
        matches!(&self.dc, Dc::Auto(search) if search.is_searching())
    }

    fn renewed(&self) -> Option<Box<dyn Policy>> {
        let Dc::Auto(search) = &self.dc else { return None };
        Some(Box::new(ControlledContention {
            census: self.census.clone(),
            slots: self.slots.afresh(),
            dc: Dc::Auto(search.resumed()),
            epoch_ns: self.epoch_ns,
        }))
    }
}
