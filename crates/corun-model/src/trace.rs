//! A trace: who ran where, switch by switch. Optional and larger than an observation; timelines are drawn from it.

use crate::machine::CpuId;
use crate::run_log::Waker;
use crate::tenant::{TaskId, TenantId};
use std::collections::BTreeMap;

/// Every switch and wake-up in a window, in the order of time (per CPU strictly, over CPUs by `t_ns`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// What happened.
    pub events: Vec<TraceEvent>,
    /// Every task that the events name.
    pub tasks: BTreeMap<TaskId, TraceTask>,
    /// Events that found no room.
    pub lost: u64,
}

/// A task named in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceTask {
    /// Its name (the kernel's comm).
    pub name: String,
    /// The process it belongs to.
    pub process: u32,
    /// Its tenant.
    pub tenant: TenantId,
}

/// Something that happened on a CPU at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// When, on the host's clock.
    pub t_ns: u64,
    /// Where.
    pub cpu: CpuId,
    /// What.
    pub kind: TraceKind,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// The CPU went from one task to another; `None` is idle.
    Switch {
        /// Who left.
        prev: Option<TaskId>,
        /// How it left.
        left: Left,
        /// Who came.
        next: Option<TaskId>,
    },
    /// A task became runnable; `cpu` is where it was queued.
    Wakeup {
        /// Who.
        task: TaskId,
        /// By whom; `None`: nobody knows.
        waker: Option<Waker>,
    },
    /// A task's wait for a CPU ends here; told only where single waits were asked for.
    Waited {
        /// Whose.
        task: TaskId,
        /// How long it was, in nanoseconds.
        ns: u64,
    },
    /// A task that waits goes to this CPU's run queue; told likewise.
    Moved {
        /// Who.
        task: TaskId,
        /// The CPU for which it waited until now.
        from: CpuId,
    },
    /// Of a wait, a part that begins here was the fault of the task's own CPU budgets; told likewise.
    Throttled {
        /// Whose.
        task: TaskId,
        /// How long that part was, in nanoseconds.
        ns: u64,
    },
}

/// How a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Still runnable: preempted, or it called `sched_yield`.
    Runnable,
    /// It blocked and may be interrupted.
    Blocked,
    /// It blocked in uninterruptible sleep.
    BlockedUninterruptible,
    /// It was stopped or frozen.
    Held,
    /// It ended.
    Ended,
}
