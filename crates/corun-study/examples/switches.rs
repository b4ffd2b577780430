//! Every switch of one cell, live and modelled, as text: to see why the model is off. Needs root.
//!
//! `cargo run --release --example switches -- CORUN 'barrier-spin-1ms + persistent x2' [live|model] [PHASE]`

use corun_linux::probe::LiveOptions;
use corun_linux::target::Subject;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::Root;
use corun_model::run_log::Waker;
use corun_model::trace::{Left, TraceKind};
use corun_model::{Host, TaskId, Trace};
use corun_study::session::Session;
use corun_study::this_machine::this_machine;
use corun_study::validate::cell::{Cell, Setting};
use corun_study::validate::file::{ValidateStudy, VALIDATE};
use corun_study::validate::modelled;
use std::process::Command;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let study = ValidateStudy::parse("validate", VALIDATE).unwrap();
    let cell = study.cells().into_iter().find(|c| c.name == args[2]).expect("a cell's whole name");
    let only = args.get(3).map_or("", String::as_str);
    if only != "model" {
        println!("# live");
        print(&live_trace(&args[1], &cell));
    }
    if only != "live" {
        println!("# model");
        let model = this_machine(&Root::new("/")).unwrap();
        let phase = args.get(4).map_or(0, |p| p.parse().unwrap());
        print(
            &modelled::trace(
                &study,
                &cell,
                &model,
                &Setting { grouped: true, newidle_ratio: 90, ..Setting::default() },
                phase,
                1 << 20,
            )
            .unwrap(),
        );
    }
}

fn live_trace(corun: &str, cell: &Cell) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    let pace = corun_study::pace::pace().to_string();
    let start = |role: &str, text: &str| {
        let file = folder.path().join(role);
        std::fs::write(&file, text).unwrap();
        let mut c = Command::new(corun);
        c.arg("load").arg(file).args(["--quiet", "--loops-per-ms", &pace]);
        Session::start(c).unwrap()
    };
    let options = LiveOptions { trace_bytes: 16 << 20, ..LiveOptions::new(Subject::All) };
    let (mut watcher, _) = Watcher::start(&Root::new("/"), options, Some(Source::Ebpf)).unwrap();
    loop {
        watcher.observe().unwrap();
        watcher.advance(300_000_000).unwrap();
        let seen = watcher.observe().unwrap();
        if seen.cpus.iter().map(|c| c.busy_ns).sum::<u64>() < 20_000_000 {
            break;
        }
    }
    let interferer = start("interferer", &cell.interferer.workload(1));
    std::thread::sleep(std::time::Duration::from_nanos(study_lead()));
    let mut trace = Trace::default();
    watcher.observe().unwrap();
    watcher.take_trace();
    let mut subject = start("subject", &cell.subject.workload());
    let mut more = |watcher: &mut Watcher| {
        let t = watcher.take_trace();
        trace.events.extend(t.events);
        trace.tasks.extend(t.tasks);
    };
    subject.ends_within(None).unwrap();
    watcher.observe().unwrap();
    more(&mut watcher);
    drop(interferer);
    trace
}

fn study_lead() -> u64 {
    ValidateStudy::parse("validate", VALIDATE).unwrap().lead
}

fn print(trace: &Trace) {
    let mut events: Vec<_> = trace.events.iter().collect();
    events.sort_by_key(|e| e.t_ns);
    let begin = events.first().map_or(0, |e| e.t_ns);
    let name = |id: Option<TaskId>| match id {
        None => "idle".to_owned(),
        Some(id) => trace.tasks.get(&id).map_or(format!("{id}"), |t| format!("{}:{id}", t.name)),
    };
    for e in events {
        let us = (e.t_ns - begin) / 1000;
        match e.kind {
            TraceKind::Switch { prev, left, next } => {
                let left = match left {
                    Left::Runnable => "preempted",
                    Left::Ended => "ended",
                    _ => "blocked",
                };
                println!("{us:>9} cpu{} {} ({left}) -> {}", e.cpu.0, name(prev), name(next));
            }
            TraceKind::Wakeup { task, waker } => {
                let waker = match waker {
                    Some(Waker::Task(id)) => name(Some(id)),
                    other => format!("{other:?}"),
                };
                println!("{us:>9} cpu{} {waker} wakes {}", e.cpu.0, name(Some(task)));
            }
            TraceKind::Waited { .. } | TraceKind::Moved { .. } | TraceKind::Throttled { .. } => {}
        }
    }
}
