//! Notices: what a user should know before a policy begins, since a run may do nothing, or something else than the user
//! expects. None of them is a mistake for certain: other tenants may come under the names that were given, so the run goes on.

use crate::action::Knob;
use crate::tenant::Tenant;
use crate::unavailable::Unavailable;
use crate::why::{KnobMeans, NoRealTime, NoSchedExt};

/// What a user should know before a policy begins. `corun_report::control::notices` makes the sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// So many tenants belong to other users, and are left alone.
    OthersLeftAlone {
        /// How many.
        tenants: usize,
    },
    /// Nobody is in the tenant that was named by this key; whoever comes will be controlled.
    NobodyInIt {
        /// As it was named.
        tenant: String,
    },
    /// Nobody has the name that is to be protected.
    ProtectsNobody {
        /// As it was given.
        name: String,
    },
    /// Something cannot be seen.
    Unseen(Unavailable),
    /// Nobody may be controlled now.
    NobodyToControl,
    /// Only one tenant may be controlled, and the policy parks nobody unless there are two.
    OnlyOne {
        /// Its name.
        tenant: String,
        /// The policy.
        policy: &'static str,
        /// Whether the user names the tenants, and so could name another.
        by_name: bool,
    },
    /// Two names mean one tenant.
    SameTenant {
        /// As they were given.
        names: [String; 2],
        /// The tenant.
        tenant: Tenant,
    },
    /// The run is too short for the guard to find out whether the policy helps.
    TooShortForGuard {
        /// The policy.
        policy: &'static str,
        /// How long the run is, in nanoseconds.
        length_ns: u64,
        /// Pairs of periods that a finding takes.
        pairs: usize,
        /// The length of a period, in nanoseconds.
        period_ns: u64,
        /// How long the run would have to be, in nanoseconds.
        needed_ns: u64,
    },
    /// sched_ext cannot be had; stock knobs are used.
    NoSchedExt {
        /// Why not.
        why: NoSchedExt,
    },
    /// The controller has to wait for a CPU like any other process.
    NotRealTime {
        /// Why it is not real-time.
        why: NoRealTime,
    },
    /// What stock knobs make of a value, where that is not the value.
    InexactKnob {
        /// The knob.
        knob: Knob,
        /// What is done instead.
        how: KnobMeans,
    },
    /// Containers whose runtime takes them for paused while they are parked.
    TakenForPaused {
        /// Their names.
        containers: Vec<String>,
    },
}

impl Notice {
    /// Whether it is said even where little is to be said: the policy will touch other tenants than were named, or in
    /// another way.
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

    /// Whether it is why the policy has nothing to do as things are.
    pub fn is_idleness(&self) -> bool {
        matches!(self, Notice::NobodyToControl | Notice::OnlyOne { .. } | Notice::SameTenant { .. })
    }
}
