//! Why a host did not carry out an action, as a fact; `corun-report` makes the sentences.
//!
//! Code uses the variant. Errors of system calls and other programs are text, since they are only shown to people.

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
    /// A process in it is protected.
    Protected(Protected),
    /// The tenant is not among those that may be controlled.
    NotInScope {
        /// Its name.
        tenant: String,
    },
    /// The kernel does not let this user change it.
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
    /// The slice is out of range.
    Slice {
        /// The shortest requested slice, in nanoseconds.
        min_ns: u64,
        /// The longest requested slice, in nanoseconds.
        max_ns: u64,
        /// The shortest and longest possible slice. `None` if any but 0 is possible.
        bounds_ns: Option<(u64, u64)>,
    },
    /// The weight is out of range.
    Weight(u32),
    /// No CPU would be left to run on.
    NoCpu,
    /// The CPU does not exist.
    CpuNotThere {
        /// The CPU.
        cpu: CpuId,
        /// The existing CPUs, sorted.
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
    /// The tenant has no group of its own that could have a weight.
    NoGroup,
    /// This host only observes, and changes no knob.
    ObservesOnly,
    /// The controller itself cannot act, or no longer, for this reason.
    Controller(String),
}

/// The protected tenant or process, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protected {
    /// The name of a tenant or a process. `None` if the process cannot be read.
    pub name: Option<String>,
    /// The number of a process. `None` for a tenant as a whole.
    pub pid: Option<u32>,
    /// The reason.
    pub why: ProtectedBy,
}

/// Why a tenant or process is protected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtectedBy {
    /// Its kind is never controlled.
    Kind(TenantKind),
    /// It is the first process.
    FirstProcess,
    /// It is a kernel thread.
    KernelThread,
    /// It is corun, or corun was started from it.
    Corun,
    /// It runs sessions, devices, logs or a cluster.
    Keeper,
    /// The unit runs sessions.
    SessionUnit,
    /// The user named it.
    User {
        /// The word that the user gave.
        word: String,
    },
    /// It cannot be read, so it may be any process.
    Unreadable(String),
}

impl Refusal {
    /// The name used in JSON.
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

    /// Whether this host or backend can do this to nobody: the knob is missing, while the value may be valid.
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

    /// Why it is protected, if that is the reason.
    pub fn protected_by(&self) -> Option<&ProtectedBy> {
        match self {
            Refusal::Protected(Protected { why, .. }) => Some(why),
            _ => None,
        }
    }
}
