//! The five knobs, actions on them, and the outcomes of actions.

use crate::machine::CpuId;
use crate::refusal::Refusal;
use crate::tenant::{TaskId, TenantId};

/// Defines the knobs, their list and their names in one table, so that none can be missing in one of them.
macro_rules! knobs {
    ($($(#[$about:meta])* $knob:ident = $name:literal,)*) => {
        /// A thing that a policy may set. All actions of the papers' schedulers are among these.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Knob {
            $($(#[$about])* $knob,)*
        }

        impl Knob {
            /// All of them, in the order in which they are listed.
            pub const ALL: &[Knob] = &[$(Knob::$knob),*];

            /// The name used in JSON and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Knob::$knob => $name,)*
                }
            }
        }
    };
}

knobs! {
    /// Whether a tenant may run at all.
    Park = "park",
    /// Length of a task's time slice.
    Slice = "slice",
    /// How long a waking task waits before it may preempt (PACT'16 §5.1).
    PreemptDelay = "preempt_delay",
    /// The CPUs a task may run on.
    Cpus = "cpus",
    /// A tenant's share of contended CPU time.
    Weight = "weight",
}

/// One change of one knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Gives a task slices drawn uniformly from `[min_ns, max_ns]`; equal bounds are a fixed slice.
    Slice {
        /// The task.
        task: TaskId,
        /// Shortest slice in nanoseconds.
        min_ns: u64,
        /// Longest slice in nanoseconds.
        max_ns: u64,
    },
    /// Delays a task's preemption at wake-up.
    PreemptDelay {
        /// The task.
        task: TaskId,
        /// The delay in nanoseconds; 0 is the host's default.
        delay_ns: u64,
    },
    /// Stops a tenant.
    Park {
        /// The tenant.
        tenant: TenantId,
    },
    /// Lets a parked tenant run again.
    Unpark {
        /// The tenant.
        tenant: TenantId,
    },
    /// Confines a task to some CPUs.
    Cpus {
        /// The task.
        task: TaskId,
        /// The CPUs, at least one.
        cpus: Vec<CpuId>,
    },
    /// Sets a tenant's share, as `cpu.weight` does: 1..=10000, 100 is the default.
    Weight {
        /// The tenant.
        tenant: TenantId,
        /// Its weight.
        weight: u32,
    },
}

impl Action {
    /// The knob that this changes.
    pub fn knob(&self) -> Knob {
        match self {
            Action::Slice { .. } => Knob::Slice,
            Action::PreemptDelay { .. } => Knob::PreemptDelay,
            Action::Park { .. } | Action::Unpark { .. } => Knob::Park,
            Action::Cpus { .. } => Knob::Cpus,
            Action::Weight { .. } => Knob::Weight,
        }
    }
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, and remembered so that it can be undone.
    Done,
    /// This host or backend cannot do it.
    Unsupported {
        /// The reason.
        why: Refusal,
    },
    /// It can, but will not: the target is protected or gone, or the value makes no sense.
    Refused {
        /// The reason.
        why: Refusal,
    },
}

impl From<Refusal> for Outcome {
    fn from(why: Refusal) -> Outcome {
        match why.is_unsupported() {
            true => Outcome::Unsupported { why },
            false => Outcome::Refused { why },
        }
    }
}

impl From<Result<(), Refusal>> for Outcome {
    fn from(done: Result<(), Refusal>) -> Outcome {
        done.map_or_else(Outcome::from, |()| Outcome::Done)
    }
}
