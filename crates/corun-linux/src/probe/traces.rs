//! The probe's switches and wake-ups as a [`Trace`].

use corun_bpf::layout::TraceEvent;
use corun_model::run_log::Waker;
use corun_model::trace::{self, Left, Trace, TraceKind, TraceTask};
use corun_model::{CpuId, TaskId};
use std::collections::BTreeMap;

/// Collects events until the trace is taken.
#[derive(Default)]
pub(super) struct Traces {
    events: Vec<trace::TraceEvent>,
    tasks: BTreeMap<TaskId, TraceTask>,
}

impl Traces {
    pub(super) fn add(&mut self, events: &[TraceEvent]) {
        let some = |tid: u32| (tid != 0).then_some(TaskId(tid));
        self.events.extend(events.iter().map(|e| trace::TraceEvent {
            t_ns: e.t_ns,
            cpu: CpuId(e.cpu),
            kind: match e.kind {
                0 => TraceKind::Switch {
                    prev: some(e.prev),
                    left: match e.left {
                        0 => Left::Runnable,
                        1 => Left::Blocked,
                        2 => Left::BlockedUninterruptible,
                        4 => Left::Held,
                        _ => Left::Ended,
                    },
                    next: some(e.next),
                },
                2 => TraceKind::Waited { task: TaskId(e.next), ns: e.length_ns() },
                3 => TraceKind::Moved { task: TaskId(e.next), from: CpuId(e.prev) },
                4 => TraceKind::Throttled { task: TaskId(e.next), ns: e.length_ns() },
                _ => TraceKind::Wakeup {
                    task: TaskId(e.next),
                    waker: match e.left {
                        1 => Some(Waker::Interrupt),
                        2 => Some(Waker::SoftInterrupt),
                        3 => Some(Waker::Idle),
                        4 => Some(Waker::Timer),
                        _ => some(e.prev).map(Waker::Task),
                    },
                },
            },
        }));
    }

    /// The name of a task; the newest name wins.
    pub(super) fn name(&mut self, id: TaskId, task: TraceTask) {
        self.tasks.insert(id, task);
    }

    /// Everything so far, in the order of time.
    pub(super) fn take(&mut self, lost: u64) -> Trace {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|e| (e.t_ns, e.cpu));
        Trace { events, tasks: self.tasks.clone(), lost }
    }
}
