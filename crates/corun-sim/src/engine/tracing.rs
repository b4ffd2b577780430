//! The trace of a run: what happened when, if a trace is kept.

use super::Engine;
use crate::sched::{CpuIx, TaskIx};
use corun_model::trace::{Trace, TraceEvent, TraceKind, TraceTask};
use corun_model::{TaskId, TenantId};

impl Engine {
    /// The trace until now, if one is kept.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    pub(super) fn record(&mut self, cpu: CpuIx, kind: TraceKind) {
        let Some(trace) = &mut self.trace else { return };
        if trace.events.len() >= self.trace_limit {
            trace.lost += 1;
            return;
        }
        trace.events.push(TraceEvent { t_ns: self.now_ns, cpu: self.cpus[cpu].id, kind });
    }

    pub(super) fn name_in_trace(&mut self, task: TaskIx) {
        let t = &self.tasks[task];
        let entry = TraceTask {
            name: t.name.to_string(),
            process: t.tenant as u32 + 1,
            tenant: TenantId(t.tenant as u32),
        };
        if let Some(trace) = &mut self.trace {
            trace.tasks.insert(task_id(task), entry);
        }
    }
}

/// A task's number in observations.
pub(super) fn task_id(task: TaskIx) -> TaskId {
    TaskId(task as u32 + 1)
}
