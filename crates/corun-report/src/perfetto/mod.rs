//! A trace in Perfetto's protobuf format, for <https://ui.perfetto.dev>: CPU tracks, thread states, counters.
//!
//! Switches and wake-ups are written as the kernel's own ftrace events, per CPU, so the viewer draws CPU tracks and
//! thread states as for any Linux trace. The subject's ledger becomes counter tracks, one value per part of the
//! timeline.
//!
//! Limits: a wake-up by an interrupt comes from pid 0, and every priority is the kernel's normal one. Tasks
//! that ran before the first switch of a CPU are not drawn.

pub mod proto;

use crate::category::Category;
use crate::profile::assemble::ledger as wire;
use crate::profile::Subject;
use corun_model::run_log::Waker;
use corun_model::trace::{Left, TraceEvent, TraceKind, TraceTask};
use corun_model::{CpuId, Ledger, Observation, TaskId, TenantId, Trace};
use prost::Message;
use proto::{FtraceEvent, FtraceEventBundle, TracePacket};
use std::collections::BTreeMap;

/// Events per packet: viewers read packets whole.
const EVENTS_PER_PACKET: usize = 4096;
/// corun is the only writer of its traces.
const SEQUENCE: u32 = 1;
/// The kernel's number for nice 0.
const NORMAL_PRIORITY: i32 = 120;
/// The track that holds the counters.
const GROUP_TRACK: u64 = 1;

/// Writes a trace; `timeline` has the counters (and the tenants' names) and may be empty.
pub fn encode(trace: &Trace, timeline: &[Observation], subject: impl Into<Subject>) -> Vec<u8> {
    let mut out = Vec::new();
    let first = TracePacket {
        process_tree: Some(process_tree(trace, timeline)),
        sequence_flags: Some(proto::SEQ_INCREMENTAL_STATE_CLEARED),
        ..TracePacket::default()
    };
    append(first, &mut out);
    kernel_events(trace, &mut out);
    for packet in counters(timeline, subject.into()) {
        append(packet, &mut out);
    }
    out
}

/// Appends one packet. A trace is its packets one after another, so only one of them is ever held decoded.
pub(crate) fn append(packet: TracePacket, out: &mut Vec<u8>) {
    let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
    out.extend(proto::Trace { packet: vec![packet] }.encode_to_vec());
}

fn process_tree(trace: &Trace, timeline: &[Observation]) -> proto::ProcessTree {
    let tenants: BTreeMap<TenantId, &str> =
        timeline.iter().flat_map(|o| &o.tenants).map(|t| (t.id, t.name.as_str())).collect();
    let mut processes: BTreeMap<u32, String> = BTreeMap::new();
    for (id, task) in &trace.tasks {
        // A process has the name of its main thread; if that was not seen, of its first thread.
        let main = id.0 == task.process;
        if main || !processes.contains_key(&task.process) {
            processes.insert(task.process, process_name(task, &tenants));
        }
    }
    let process = |(pid, name)| proto::Process { pid: Some(number(pid)), cmdline: vec![name] };
    let thread = |(id, task): (&TaskId, &TraceTask)| proto::Thread {
        tid: Some(number(id.0)),
        name: Some(task.name.clone()),
        tgid: Some(number(task.process)),
    };
    proto::ProcessTree {
        processes: processes.into_iter().map(process).collect(),
        threads: trace.tasks.iter().map(thread).collect(),
    }
}

fn process_name(task: &TraceTask, tenants: &BTreeMap<TenantId, &str>) -> String {
    match tenants.get(&task.tenant) {
        Some(&tenant) if tenant != task.name => format!("{} ({tenant})", task.name),
        _ => task.name.clone(),
    }
}

/// The format's pids are signed; Linux has none beyond 2^22.
fn number(id: u32) -> i32 {
    i32::try_from(id).unwrap_or(i32::MAX)
}

fn kernel_events(trace: &Trace, out: &mut Vec<u8>) {
    let mut by_cpu: BTreeMap<CpuId, Vec<&TraceEvent>> = BTreeMap::new();
    for event in &trace.events {
        by_cpu.entry(event.cpu).or_default().push(event);
    }
    for (cpu, events) in by_cpu {
        for part in events.chunks(EVENTS_PER_PACKET) {
            let bundle = FtraceEventBundle {
                cpu: Some(cpu.0),
                event: part.iter().filter_map(|e| kernel_event(e, trace)).collect(),
                lost_events: (trace.lost > 0).then_some(true),
            };
            append(TracePacket { ftrace_events: Some(bundle), ..TracePacket::default() }, out);
        }
    }
}

/// A switch or wake-up in the kernel's format; viewers do not support single waits.
fn kernel_event(event: &TraceEvent, trace: &Trace) -> Option<FtraceEvent> {
    let comm = |id: Option<TaskId>| match id {
        None => "swapper".to_owned(),
        Some(id) => trace.tasks.get(&id).map_or_else(|| format!("task {id}"), |t| t.name.clone()),
    };
    let pid = |id: Option<TaskId>| id.map_or(0, |id| number(id.0));
    let timestamp = Some(event.t_ns);
    Some(match event.kind {
        TraceKind::Switch { prev, left, next } => FtraceEvent {
            timestamp,
            pid: Some(prev.map_or(0, |id| id.0)),
            sched_switch: Some(proto::SchedSwitch {
                prev_comm: Some(comm(prev)),
                prev_pid: Some(pid(prev)),
                prev_prio: Some(NORMAL_PRIORITY),
                prev_state: Some(state(prev.map_or(Left::Runnable, |_| left))),
                next_comm: Some(comm(next)),
                next_pid: Some(pid(next)),
                next_prio: Some(NORMAL_PRIORITY),
            }),
            ..FtraceEvent::default()
        },
        TraceKind::Wakeup { task, waker } => FtraceEvent {
            timestamp,
            pid: Some(match waker {
                Some(Waker::Task(id)) => id.0,
                _ => 0,
            }),
            sched_waking: Some(proto::SchedWaking {
                comm: Some(comm(Some(task))),
                pid: Some(pid(Some(task))),
                prio: Some(NORMAL_PRIORITY),
                success: Some(1),
                target_cpu: Some(number(event.cpu.0)),
            }),
            ..FtraceEvent::default()
        },
        TraceKind::Waited { .. } | TraceKind::Moved { .. } | TraceKind::Throttled { .. } => return None,
    })
}

/// The kernel's task states: R, S, D, T, X.
fn state(left: Left) -> i64 {
    match left {
        Left::Runnable => 0,
        Left::Blocked => 1,
        Left::BlockedUninterruptible => 2,
        Left::Held => 4,
        Left::Ended => 0x10,
    }
}

fn counters(timeline: &[Observation], subject: Subject) -> Vec<TracePacket> {
    let slots: Vec<(&Observation, Ledger)> = timeline.iter().map(|o| (o, ledger(o, subject))).collect();
    let Some(((last, _), name)) = slots.last().zip(timeline.first().map(|o| title(o, subject))) else {
        return Vec::new();
    };
    let mut packets = vec![track(GROUP_TRACK, name, None)];
    for (i, c) in Category::ALL.into_iter().enumerate() {
        let uuid = GROUP_TRACK + 1 + i as u64;
        let values: Vec<(u64, f64)> =
            slots.iter().filter_map(|(o, l)| share(c, l).map(|share| (o.start_ns, share))).collect();
        if values.iter().all(|(_, share)| *share == 0.0) {
            continue;
        }
        packets.push(track(uuid, format!("{} %", c.name()), Some(GROUP_TRACK)));
        packets.extend(values.into_iter().map(|(at_ns, share)| point(uuid, at_ns, share)));
        packets.push(point(uuid, last.end_ns, 0.0));
    }
    packets
}

fn title(seen: &Observation, subject: Subject) -> String {
    match subject {
        Subject::All => "corun: all tenants".to_owned(),
        Subject::Tenant(id) => {
            format!(
                "corun: {}",
                seen.tenant(id).map_or_else(|| format!("tenant {}", id.0), |t| t.name.clone())
            )
        }
    }
}

fn ledger(seen: &Observation, subject: Subject) -> Ledger {
    let of = |id| subject == Subject::All || subject == Subject::Tenant(id);
    seen.by_tenant.iter().filter(|t| of(t.id)).map(|t| t.account.ledger).sum()
}

/// A category's percent of a ledger; `None` if it was not measured.
fn share(c: Category, l: &Ledger) -> Option<f64> {
    let ns = c.of(&wire(l))?;
    Some(if l.total_ns() == 0 { 0.0 } else { ns as f64 * 100.0 / l.total_ns() as f64 })
}

fn track(uuid: u64, name: String, parent: Option<u64>) -> TracePacket {
    let counter = parent.map(|_| proto::CounterDescriptor { unit_name: Some("%".to_owned()) });
    TracePacket {
        track_descriptor: Some(proto::TrackDescriptor {
            uuid: Some(uuid),
            name: Some(name),
            parent_uuid: parent,
            counter,
        }),
        ..TracePacket::default()
    }
}

fn point(track: u64, at_ns: u64, percent: f64) -> TracePacket {
    TracePacket {
        timestamp: Some(at_ns),
        track_event: Some(proto::TrackEvent {
            r#type: Some(proto::TYPE_COUNTER),
            track_uuid: Some(track),
            double_counter_value: Some(percent),
            ..proto::TrackEvent::default()
        }),
        ..TracePacket::default()
    }
}
