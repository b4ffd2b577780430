//! The run log of a tenant of the modelled machine, from its trace: what the probe would have recorded on a
//! live machine.
//!
//! Limit: the trace does not say what a task waits for. A wait that no wake-up ends is a sleep for a time.

use corun_model::run_log::{CpuMask, Event, For, Left, RunLog, Waker, What};
use corun_model::trace::{self, Trace, TraceKind};
use corun_model::{TaskId, TenantId};

/// What a tenant's tasks did until `end_ns` on a machine with this many CPUs. `may`: the CPUs that each of
/// them may use, in order. Tasks beyond the list may use all.
pub fn run_log(trace: &Trace, tenant: TenantId, cpus: usize, end_ns: u64, may: &[CpuMask]) -> RunLog {
    let own: Vec<TaskId> =
        trace.tasks.iter().filter(|(_, t)| t.tenant == tenant).map(|(id, _)| *id).collect();
    let is_ours = |id: &TaskId| own.binary_search(id).is_ok();
    let may =
        |id: TaskId| own.binary_search(&id).ok().and_then(|ix| may.get(ix)).copied().unwrap_or(CpuMask::ALL);
    let mut events: Vec<Event> = Vec::new();
    for &task in &own {
        let process = trace.tasks[&task].process;
        events.push(Event { t_ns: 0, task, what: What::Born { parent: TaskId(u32::MAX), process } });
    }
    for e in trace.events.iter().filter(|e| e.t_ns <= end_ns) {
        let mut add = |task: TaskId, what| events.push(Event { t_ns: e.t_ns, task, what });
        match e.kind {
            TraceKind::Switch { prev, left, next } => {
                let left = match left {
                    trace::Left::Runnable => Left::Preempted,
                    trace::Left::Ended => Left::Ended,
                    trace::Left::BlockedUninterruptible => Left::Waits(For::Device),
                    trace::Left::Blocked | trace::Left::Held => Left::Waits(For::Other),
                };
                prev.filter(is_ours).into_iter().for_each(|task| add(task, What::Leaves(left)));
                next.filter(is_ours)
                    .into_iter()
                    .for_each(|task| add(task, What::Runs { cpu: e.cpu, may: may(task) }));
            }
            TraceKind::Wakeup { task, waker } if is_ours(&task) => {
                add(task, What::Woken(waker.unwrap_or(Waker::Interrupt)));
            }
            TraceKind::Wakeup { .. }
            | TraceKind::Waited { .. }
            | TraceKind::Moved { .. }
            | TraceKind::Throttled { .. } => {}
        }
    }
    let mut all = sleeps(&events);
    all.append(&mut events);
    all.sort_by_key(|e| e.t_ns);
    RunLog { cpus: CpuMask::first(cpus), start_ns: 0, end_ns, lost: trace.lost, events: all }
}

/// If a timer ended a wait, the task had set it for a length before. The probe sees that.
fn sleeps(events: &[Event]) -> Vec<Event> {
    let mut next_wake: std::collections::BTreeMap<TaskId, Event> = Default::default();
    let mut found = Vec::new();
    for e in events.iter().rev() {
        match e.what {
            What::Woken(_) => {
                next_wake.insert(e.task, *e);
            }
            What::Leaves(Left::Waits(_)) => {
                let woken = next_wake.get(&e.task);
                if let Some(Event { t_ns: deadline_ns, what: What::Woken(Waker::Interrupt), .. }) = woken {
                    let what = What::SleepsUntil { deadline_ns: *deadline_ns, as_length: true };
                    found.push(Event { what, ..*e });
                }
            }
            _ => {}
        }
    }
    found.reverse();
    found
}
