//! A trace: who ran where, switch by switch. It is optional and larger than an observation, and the data of timelines.

use crate::machine::CpuId;
use crate::run_log::Waker;
use crate::tenant::{TaskId, TenantId};
use std::collections::BTreeMap;

/// Every switch and wake-up in a window, ordered by time: strictly on each CPU, and over CPUs by `t_ns`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The events.
    pub events: Vec<TraceEvent>,
    /// Every task that the events name.
    pub tasks: BTreeMap<TaskId, TraceTask>,
    /// Events that were lost for lack of room.
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

/// An event on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Its time on the host's clock, in nanoseconds.
    pub t_ns: u64,
    /// The CPU.
    pub cpu: CpuId,
    /// The event.
    pub kind: TraceKind,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// The CPU went from one task to another; `None` is idle.
    Switch {
        /// The task that left.
        prev: Option<TaskId>,
        /// The way it left.
        left: Left,
        /// The task that came.
        next: Option<TaskId>,
    },
    /// A task became runnable; `cpu` is the CPU of its run queue.
    Wakeup {
        /// The task.
        task: TaskId,
        /// The waker. `None` if unknown.
        waker: Option<Waker>,
    },
    /// A task's wait for a CPU ends here. Only present if single waits were requested.
    Waited {
        /// The task.
        task: TaskId,
        /// The length of the wait, in nanoseconds.
        ns: u64,
    },
    /// A waiting task moves to this CPU's run queue. Only present if single waits were requested.
    Moved {
        /// The task.
        task: TaskId,
        /// The CPU that it waited for until now.
        from: CpuId,
    },
    /// A part of a wait begins here that is due to the task's own CPU budgets. Only present if single waits were requested.
    Throttled {
        /// The task.
        task: TaskId,
        /// The length of that part, in nanoseconds.
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
