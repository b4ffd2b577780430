//! The Perfetto trace: the written bytes decode to the events.

use crate::example::{timeline, POSTGRES, SUBJECT};
use corun_model::run_log::Waker;
use corun_model::trace::{Left, TraceEvent, TraceKind, TraceTask};
use corun_model::{CpuId, TaskId, Trace};
use corun_report::perfetto::{encode, proto};
use corun_report::Subject;
use prost::Message;

const MS: u64 = 1_000_000;

/// Three tasks taking turns on two CPUs, four milliseconds each, with a wake-up before every turn.
pub fn trace() -> Trace {
    let task = |name: &str, process, tenant| TraceTask { name: name.to_owned(), process, tenant };
    let tasks = [
        (TaskId(4100), task("streamcluster", 4100, SUBJECT)),
        (TaskId(4101), task("worker <1>", 4100, SUBJECT)),
        (TaskId(900), task("postgres", 900, POSTGRES)),
    ];
    let turns = [None, Some(TaskId(4100)), Some(TaskId(900)), Some(TaskId(4101))];
    let lefts = [Left::Runnable, Left::Blocked, Left::BlockedUninterruptible, Left::Ended];
    let mut events = Vec::new();
    for turn in 0..400u64 {
        for cpu in 0..2u32 {
            let at = (turn + u64::from(cpu) * 2) as usize;
            let t_ns = 5_000 * MS + turn * 4 * MS + u64::from(cpu);
            let next = turns[(at + 1) % 4];
            if let Some(task) = next {
                let waker = turns[at % 4].map(Waker::Task);
                events.push(TraceEvent { t_ns, cpu: CpuId(cpu), kind: TraceKind::Wakeup { task, waker } });
            }
            let kind = TraceKind::Switch { prev: turns[at % 4], left: lefts[at / 4 % 3], next };
            events.push(TraceEvent { t_ns: t_ns + 50_000, cpu: CpuId(cpu), kind });
        }
    }
    Trace { events, tasks: tasks.into_iter().collect(), lost: 0 }
}

fn decoded() -> proto::Trace {
    proto::Trace::decode(encode(&trace(), &timeline(), SUBJECT).as_slice()).unwrap()
}

#[test]
fn every_switch_and_wakeup_is_on_its_cpu_in_the_order_of_time() {
    let written = decoded();
    let (mut switches, mut wakings) = (0, 0);
    for bundle in written.packet.iter().filter_map(|p| p.ftrace_events.as_ref()) {
        assert!(bundle.event.is_sorted_by_key(|e| e.timestamp));
        switches += bundle.event.iter().filter(|e| e.sched_switch.is_some()).count();
        wakings += bundle.event.iter().filter(|e| e.sched_waking.is_some()).count();
    }
    let count = |wakeup: bool| {
        trace().events.iter().filter(|e| matches!(e.kind, TraceKind::Wakeup { .. }) == wakeup).count()
    };
    assert_eq!((switches, wakings), (count(false), count(true)));
}

#[test]
fn idle_is_pid_zero_and_states_are_the_kernels() {
    let written = decoded();
    let events = written.packet.iter().filter_map(|p| p.ftrace_events.as_ref()).flat_map(|b| &b.event);
    let switches: Vec<&proto::SchedSwitch> = events.filter_map(|e| e.sched_switch.as_ref()).collect();
    let from_idle = switches.iter().find(|s| s.prev_pid == Some(0)).unwrap();
    assert_eq!(from_idle.prev_comm.as_deref(), Some("swapper"));
    assert_eq!(from_idle.prev_state, Some(0));
    for state in [0, 1, 2] {
        assert!(switches.iter().any(|s| s.prev_pid != Some(0) && s.prev_state == Some(state)));
    }
}

#[test]
fn a_wake_up_comes_from_the_waker_and_from_pid_zero_for_an_interrupt() {
    let written = decoded();
    let events = written.packet.iter().filter_map(|p| p.ftrace_events.as_ref()).flat_map(|b| &b.event);
    let wakers: std::collections::BTreeSet<u32> =
        events.filter(|e| e.sched_waking.is_some()).filter_map(|e| e.pid).collect();
    assert_eq!(wakers.into_iter().collect::<Vec<_>>(), [0, 900, 4100]);
}

#[test]
fn processes_are_named_with_their_tenant_and_hold_their_threads() {
    let written = decoded();
    let tree = written.packet.iter().find_map(|p| p.process_tree.as_ref()).unwrap();
    let names: Vec<&str> = tree.processes.iter().map(|p| p.cmdline[0].as_str()).collect();
    assert_eq!(names, ["postgres (postgresql.service)", "streamcluster"]);
    let worker = tree.threads.iter().find(|t| t.tid == Some(4101)).unwrap();
    assert_eq!((worker.name.as_deref(), worker.tgid), (Some("worker <1>"), Some(4100)));
}

#[test]
fn the_shares_of_every_moment_sum_to_a_hundred_percent() {
    let written = decoded();
    let mut sums = std::collections::BTreeMap::<u64, f64>::new();
    for p in &written.packet {
        if let Some(event) = &p.track_event {
            *sums.entry(p.timestamp.unwrap()).or_default() += event.double_counter_value.unwrap();
        }
    }
    let (_, end) = sums.pop_last().unwrap();
    assert_eq!(end, 0.0, "the last point closes the tracks");
    assert_eq!(sums.len(), timeline().len());
    assert!(sums.values().all(|sum| (sum - 100.0).abs() < 1e-9), "{sums:?}");
}

#[test]
fn a_trace_without_timeline_has_no_counters_and_an_empty_one_is_still_a_trace() {
    let written = proto::Trace::decode(encode(&trace(), &[], Subject::All).as_slice()).unwrap();
    assert!(written.packet.iter().all(|p| p.track_event.is_none()));
    let empty = proto::Trace::decode(encode(&Trace::default(), &[], SUBJECT).as_slice()).unwrap();
    assert_eq!(empty.packet.len(), 1);
}
