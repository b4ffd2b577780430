//! Replays of runs on the modelled machine, where the time alone is known: another run of the same program, without the others.

use crate::rig;
use corun_model::run_log::{CpuMask, Event, For, Left, RunLog, Waker, What};
use corun_model::trace::{self, Trace, TraceKind};
use corun_model::{TaskId, TenantId};
use corun_sim::replay::script::{By, Ends};
use corun_sim::replay::{Alone, Conditions, Switches, Transcriber, Transcript};
use corun_sim::scenario::Participants;

const SUBJECT: TenantId = TenantId(0);
const MS: u64 = 1_000_000;

/// What the probe would have written down of one tenant.
fn log_of(trace: &Trace, cpus: usize, end_ns: u64) -> RunLog {
    let is_ours = |id: &TaskId| trace.tasks.get(id).is_some_and(|t| t.tenant == SUBJECT);
    let mut events: Vec<Event> = Vec::new();
    for (&task, told) in trace.tasks.iter().filter(|(id, _)| is_ours(id)) {
        events.push(Event {
            t_ns: 0,
            task,
            what: What::Born { parent: TaskId(u32::MAX), process: told.process },
        });
    }
    for e in trace.events.iter().filter(|e| e.t_ns <= end_ns) {
        let mut add = |task: TaskId, what| events.push(Event { t_ns: e.t_ns, task, what });
        match e.kind {
            TraceKind::Switch { prev, left, next } => {
                let left = match left {
                    trace::Left::Runnable => Left::Preempted,
                    trace::Left::Ended => Left::Ended,
                    trace::Left::Blocked => Left::Waits(For::Other),
                    trace::Left::BlockedUninterruptible => Left::Waits(For::Device),
                    trace::Left::Held => Left::Waits(For::Other),
                };
                prev.filter(is_ours).into_iter().for_each(|task| add(task, What::Leaves(left)));
                let what = What::Runs { cpu: e.cpu, may: CpuMask::ALL };
                next.filter(is_ours).into_iter().for_each(|task| add(task, what));
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
    let mut slept: Vec<Event> = Vec::new();
    for (i, e) in events.iter().enumerate().filter(|(_, e)| matches!(e.what, What::Leaves(Left::Waits(_)))) {
        let next = events[i..].iter().find(|o| o.task == e.task && matches!(o.what, What::Woken(_)));
        if let Some(Event { t_ns: deadline_ns, what: What::Woken(Waker::Interrupt), .. }) = next.copied() {
            // A timer woke it, which it had set for a length: the probe sees it do so.
            slept.push(Event { what: What::SleepsUntil { deadline_ns, as_length: true }, ..*e });
        }
    }
    slept.append(&mut events);
    slept.sort_by_key(|e| e.t_ns);
    let events = slept;
    RunLog { cpus: CpuMask::first(cpus), end_ns, lost: trace.lost, events, ..RunLog::default() }
}

struct Replayed {
    truth_ns: u64,
    transcript: Transcript,
    alone: Alone,
}

fn replayed(program: &str, loops: u32) -> Replayed {
    let scenario = rig::scenario(&format!(
        "[[tenant]]\nname = \"subject\"\nprogram = {{ kind = \"parallel\", {program} }}\n\
         [[tenant]]\nname = \"loops\"\nprogram = {{ kind = \"interference\", threads = {loops} }}\n"
    ));
    let ends = |participants| {
        let mut engine = scenario.engine(1, participants, 1 << 22).unwrap();
        assert!(engine.run_to_end(1_000_000 * MS).unwrap());
        let run = engine.progress()[0].completions.first.unwrap();
        (engine.trace().unwrap().clone(), run.end_ns - run.start_ns, run.end_ns)
    };
    let (trace, _, end_ns) = ends(Participants::All);
    let (_, truth_ns, _) = ends(Participants::Solo(0));
    let mut transcriber = Transcriber::default();
    transcriber.push(&log_of(&trace, 2, end_ns));
    let transcript = transcriber.cut(true);
    let conditions = Conditions {
        wake_up_ns: 0,
        either: Ends::Either,
        changed_by: By::Others,
        switches: Switches::Midway,
        spun: 0.0,
        shares_work: false,
    };
    let alone = transcript.alone(&conditions).unwrap();
    Replayed { truth_ns, transcript, alone }
}

#[test]
fn of_programs_that_block_the_time_alone_comes_out_on_the_modelled_machine() {
    let mut errors = Vec::new();
    for (name, sync) in [
        ("independent", "sync = \"none\""),
        ("barrier", "sync = \"barrier\""),
        ("barrier, uneven", "sync = \"barrier\", imbalance = 0.3"),
        ("barrier, sleeping", "sync = \"barrier\", sleep = \"3ms\""),
        ("lock", "sync = \"lock\", critical = 0.2"),
        ("lock, always taken", "sync = \"lock\", critical = 0.6"),
        ("lock, devices", "sync = \"lock\", critical = 0.1, io = \"3ms\""),
        ("pipeline", "sync = \"pipeline\", stages = 2"),
        ("queue", "sync = \"queue\""),
        ("work stealing", "sync = \"steal\""),
    ] {
        for (threads, loops) in [(2, 1), (2, 2), (4, 2)] {
            let stages = sync.replace("stages = 2", &format!("stages = {threads}"));
            let program =
                format!("threads = {threads}, {stages}, wait = \"block\", grain = \"3ms\", iterations = 400");
            let Replayed { truth_ns, transcript, alone } = replayed(&program, loops);
            let error = (alone.likely_ns as f64 / truth_ns as f64).ln();
            println!(
                "{name}, {threads} threads, {loops} loops: took {} ms, alone {} ms, replayed {} ({}-{}), {:+.1} %",
                transcript.lasted_ns / MS,
                truth_ns / MS,
                alone.likely_ns / MS,
                alone.least_ns / MS,
                alone.most_ns / MS,
                100.0 * error
            );
            // No longer than it took, and no shorter than its work or its longest task.
            let scripts = &transcript.program.scripts;
            let work_ns: u64 = scripts.iter().map(|s| s.compute_ns()).sum();
            let longest_ns = scripts.iter().map(|s| s.compute_ns()).max().unwrap_or(0);
            assert!(alone.most_ns <= transcript.lasted_ns + MS, "{name}: longer than it took");
            assert!(alone.likely_ns + 1 >= (work_ns / 2).max(longest_ns), "{name}: shorter than its work");
            errors.push(error.abs());
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let worst = errors.iter().copied().fold(0.0, f64::max);
    println!("mean {:.1} %, worst {:.1} %", 100.0 * mean, 100.0 * worst);
    // 2.4 % and 15 %; a lock that devices are held under by four threads is the worst.
    assert!(mean < 0.03 && worst < 0.16, "{mean} {worst}");
}
