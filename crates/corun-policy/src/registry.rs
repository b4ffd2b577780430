//! All policies: name, options, knobs and source; and how to make one from its name.

use crate::options::{BadPolicy, OptionSpec, Options, Values};
use crate::{
    auto, controlled_contention, dedicated, delayed_preemption, differential, gang, observe, paired_gang, sam,
};
use corun_model::{Counter, Knob, Policy};

/// A policy in the list for users.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name, as in the papers.
    pub name: &'static str,
    /// Its effect, in one clause.
    pub about: &'static str,
    /// The paper or document that describes it.
    pub source: &'static str,
    /// The knobs that it changes.
    pub knobs: &'static [Knob],
    /// The hardware events that it needs.
    pub counters: &'static [Counter],
    /// Its options.
    pub options: &'static [OptionSpec],
    make: fn(&Values) -> Result<Box<dyn Policy>, BadPolicy>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All policies, in the order in which they are listed.
pub const ALL: &[Entry] = &[
    Entry {
        name: "observe",
        about: "does nothing",
        source: "the default",
        knobs: &[],
        counters: &[],
        options: &[],
        make: |_| Ok(Box::new(observe::Observe)),
    },
    Entry {
        name: "auto",
        about: "separates tenants in time if that visibly helps, and leaves the others alone",
        source: "corun",
        knobs: &[Knob::Park],
        counters: &[],
        options: auto::OPTIONS,
        make: |v| Ok(Box::new(auto::Auto::new(v))),
    },
    Entry {
        name: "gang",
        about: "all threads of a tenant together, in slots; tenants that fit share one",
        source: "Feitelson and Rudolph 1992; Controlled Contention II",
        knobs: &[Knob::Park],
        counters: &[],
        options: gang::OPTIONS,
        make: |v| Ok(Box::new(gang::Gang::new(v))),
    },
    Entry {
        name: "paired_gang",
        about: "two tenants at a time if their demands fit",
        source: "Wiseman and Feitelson 2003; Controlled Contention VII",
        knobs: &[Knob::Park],
        counters: &[],
        options: paired_gang::OPTIONS,
        make: |v| Ok(Box::new(paired_gang::PairedGang::new(v))),
    },
    Entry {
        name: "controlled_contention",
        about: "as many tenants at a time as their CPU-bound tasks allow",
        source: "Controlled Contention III",
        knobs: &[Knob::Park],
        counters: &[],
        options: controlled_contention::OPTIONS,
        make: |v| Ok(Box::new(controlled_contention::ControlledContention::new(v))),
    },
    Entry {
        name: "delayed_preemption",
        about: "a waking task waits before it may take a CPU",
        source: "PACT'16 5.1, equations 1 and 2",
        knobs: &[Knob::PreemptDelay],
        counters: &[],
        options: delayed_preemption::OPTIONS,
        make: |v| Ok(Box::new(delayed_preemption::DelayedPreemption::new(v))),
    },
    Entry {
        name: "differential",
        about: "random slices, different on every CPU",
        source: "PACT'16 5.2",
        knobs: &[Knob::Slice],
        counters: &[],
        options: differential::OPTIONS,
        make: |v| Ok(Box::new(differential::Differential::new(v)?)),
    },
    Entry {
        name: "dedicated",
        about: "from time to time, one tenant has the machine to itself",
        source: "PACT'16 4",
        knobs: &[Knob::Park],
        counters: &[],
        options: dedicated::OPTIONS,
        make: |v| Ok(Box::new(dedicated::Dedicated::new(v)?)),
    },
    Entry {
        name: "sam",
        about: "tasks that share data move to one socket, each task separately",
        source: "ATC'16 2, after Srikanthan, Dwarkadas and Shen 2015",
        knobs: &[Knob::Cpus],
        counters: sam::COUNTERS,
        options: sam::PLAIN,
        make: |v| Ok(Box::new(sam::Sam::new("sam", v))),
    },
    Entry {
        name: "sam_mph",
        about: "programs whose tasks share data get a socket, those that stall most for it first; those that compute much get cores",
        source: "ATC'16 3 and 4",
        knobs: &[Knob::Cpus],
        counters: sam::COUNTERS,
        options: sam::MPH,
        make: |v| Ok(Box::new(sam::Sam::new("sam_mph", v))),
    },
];

/// The policy with this name; `-` counts as `_`.
pub fn entry(name: &str) -> Option<&'static Entry> {
    let name = name.replace('-', "_");
    ALL.iter().find(|e| e.name == name)
}

/// Makes a policy.
///
/// # Errors
/// One sentence that names the unknown policy, option or value, and the known ones.
pub fn by_name(name: &str, options: &Options) -> Result<Box<dyn Policy>, BadPolicy> {
    let known = || ALL.iter().map(|e| e.name).collect();
    let entry = entry(name).ok_or_else(|| BadPolicy::Unknown { name: name.to_owned(), known: known() })?;
    (entry.make)(&options.values(entry.name, entry.options)?)
}
