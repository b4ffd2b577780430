//! Why a host did not carry an action out, as a fact; `corun-report` makes the sentences.
//!
//! Code goes by the variant. What a system call or another program said is text, since it is shown to people and nothing
//! else.

use crate::machine::CpuId;
use crate::tenant::{TaskId, TenantId, TenantKind};

/// Why an action was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// No tenant has this number.
    NoTenant(TenantId),
    /// No task has this number, or it has ended.
    NoTask(TaskId),
    /// The tenant has no process any more.
    NobodyLeft,
    /// Somebody in it is protected.
    Protected(Protected),
    /// The tenant is not among those that may be controlled.
    NotInScope {
        /// Its name.
        tenant: String,
    },
    /// The kernel lets this user change nothing of it.
    NotPermitted {
        /// A task, a process or a file.
        whom: String,
        /// The kernel's error.
        error: String,
    },
    /// It ended just now.
    HasGone {
        /// A task, a process or a file.
        whom: String,
    },
    /// The kernel refused it for another reason.
    Kernel {
        /// A task, a process or a file.
        whom: String,
        /// The kernel's error.
        error: String,
    },
    /// No slice is like this.
    Slice {
        /// The shortest that was asked for, in nanoseconds.
        min_ns: u64,
        /// The longest, likewise.
        max_ns: u64,
        /// The shortest and longest that there are; `None`: any but none.
        bounds_ns: Option<(u64, u64)>,
    },
    /// No weight is like this.
    Weight(u32),
    /// No CPU would be left to run on.
    NoCpu,
    /// A CPU that is not there.
    CpuNotThere {
        /// Which.
        cpu: CpuId,
        /// Those that are, sorted.
        online: Vec<CpuId>,
    },
    /// The task is real-time, and the fair scheduler's knobs do not apply.
    RealTime(TaskId),
    /// The task is of the idle class, and preempts nobody.
    IdleClass(TaskId),
    /// The foreground job of a terminal: a stop signal would give the terminal back to its shell.
    ForegroundJob {
        /// The process's name.
        name: String,
        /// Its number.
        pid: u32,
    },
    /// This kernel has no slice per task.
    NoSlices,
    /// The tenant has no cgroup of its own, and shares its session with another.
    SharesSession {
        /// The other process's name.
        with: String,
        /// Its number.
        pid: u32,
    },
    /// The tenant shares no group of its own that could have a weight.
    NoGroup,
    /// This host only observes, and turns no knob.
    ObservesOnly,
    /// The controller itself can do nothing, or nothing any more, for this reason.
    Controller(String),
}

/// Who is protected, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protected {
    /// The name of a tenant or a process; `None`: a process that cannot be looked at.
    pub name: Option<String>,
    /// The number of a process; `None`: a tenant as a whole.
    pub pid: Option<u32>,
    /// Why.
    pub why: ProtectedBy,
}

/// Why somebody is protected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtectedBy {
    /// It is of a kind that nobody controls.
    Kind(TenantKind),
    /// It is the first process.
    FirstProcess,
    /// It is a kernel thread.
    KernelThread,
    /// It is corun, or corun was started from it.
    Corun,
    /// It keeps sessions, devices, logs or a cluster going.
    Keeper,
    /// The unit keeps sessions going.
    SessionUnit,
    /// The user named it.
    User {
        /// With this word.
        word: String,
    },
    /// It cannot be looked at, and may be anybody.
    Unreadable(String),
}

impl Refusal {
    /// What it is called in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Refusal::NoTenant(_) => "no_tenant",
            Refusal::NoTask(_) => "no_task",
            Refusal::NobodyLeft => "nobody_left",
            Refusal::Protected(_) => "protected",
            Refusal::NotInScope { .. } => "not_in_scope",
            Refusal::NotPermitted { .. } => "not_permitted",
            Refusal::HasGone { .. } => "has_gone",
            Refusal::Kernel { .. } => "kernel",
            Refusal::Slice { .. } => "slice",
            Refusal::Weight(_) => "weight",
            Refusal::NoCpu => "no_cpu",
            Refusal::CpuNotThere { .. } => "cpu_not_there",
            Refusal::RealTime(_) => "real_time",
            Refusal::IdleClass(_) => "idle_class",
            Refusal::ForegroundJob { .. } => "foreground_job",
            Refusal::NoSlices => "no_slices",
            Refusal::SharesSession { .. } => "shares_session",
            Refusal::NoGroup => "no_group",
            Refusal::ObservesOnly => "observes_only",
            Refusal::Controller(_) => "controller",
        }
    }

    /// Whether this host or backend could do it to nobody like this: the knob is missing, nothing speaks against the value.
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self,
            Refusal::NoSlices | Refusal::SharesSession { .. } | Refusal::NoGroup | Refusal::ObservesOnly
        )
    }

    /// Whether root could do it.
    pub fn wants_root(&self) -> bool {
        matches!(self, Refusal::NotPermitted { .. })
    }

    /// Why somebody is protected, if that is it.
    pub fn protected_by(&self) -> Option<&ProtectedBy> {
        match self {
            Refusal::Protected(Protected { why, .. }) => Some(why),
            _ => None,
        }
    }
}
