//! Notices for a user before a policy begins: the run may do nothing, or something unexpected. None of them is certainly a mistake,
//! since other tenants may come under the given names. So the run goes on.

use crate::action::Knob;
use crate::tenant::Tenant;
use crate::unavailable::Unavailable;
use crate::why::{KnobMeans, NoRealTime, NoSchedExt};

/// A notice before a policy begins. `corun_report::control::notices` makes the sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Some tenants belong to other users, and are left alone.
    OthersLeftAlone {
        /// How many.
        tenants: usize,
    },
    /// The tenant with this key is empty. New processes in it will be controlled.
    NobodyInIt {
        /// The key as given.
        tenant: String,
    },
    /// No tenant has the name that is to be protected.
    ProtectsNobody {
        /// The name as given.
        name: String,
    },
    /// Something that cannot be seen.
    Unseen(Unavailable),
    /// No tenant may be controlled now.
    NobodyToControl,
    /// Only one tenant may be controlled, and the policy parks nobody with fewer than two.
    OnlyOne {
        /// Its name.
        tenant: String,
        /// The policy.
        policy: &'static str,
        /// Whether the user named the tenants, and so could name another.
        by_name: bool,
    },
    /// Two names mean one tenant.
    SameTenant {
        /// The names as given.
        names: [String; 2],
        /// The tenant.
        tenant: Tenant,
    },
    /// The run is too short for the guard to decide whether the policy helps.
    TooShortForGuard {
        /// The policy.
        policy: &'static str,
        /// How long the run is, in nanoseconds.
        length_ns: u64,
        /// Pairs of periods that a decision needs.
        pairs: usize,
        /// The length of a period, in nanoseconds.
        period_ns: u64,
        /// The length that the run needs, in nanoseconds.
        needed_ns: u64,
    },
    /// sched_ext is not available, so stock knobs are used.
    NoSchedExt {
        /// The reason.
        why: NoSchedExt,
    },
    /// The controller has to wait for a CPU like any other process.
    NotRealTime {
        /// The reason.
        why: NoRealTime,
    },
    /// Stock knobs can only approximate a value.
    InexactKnob {
        /// The knob.
        knob: Knob,
        /// The approximation.
        how: KnobMeans,
    },
    /// Containers that their runtime considers paused while they are parked.
    TakenForPaused {
        /// Their names.
        containers: Vec<String>,
    },
}

impl Notice {
    /// Whether it is shown even in brief output: the policy will touch other tenants than were named, or in another way.
    pub fn is_warning(&self) -> bool {
        matches!(
            self,
            Notice::NobodyInIt { .. }
                | Notice::ProtectsNobody { .. }
                | Notice::NoSchedExt { .. }
                | Notice::NotRealTime { .. }
                | Notice::TakenForPaused { .. }
        )
    }

    /// Whether it explains that the policy has nothing to do at present.
    pub fn is_idleness(&self) -> bool {
        matches!(self, Notice::NobodyToControl | Notice::OnlyOne { .. } | Notice::SameTenant { .. })
    }
}
