//! Counts a command's hardware events window by window and prints them, by task or as a whole.
//!
//! `cargo run -p corun-linux --example counters -- [--tree] [--pace] make`

use corun_linux::counters::{Grain, LivePerf, Options, Theme};
use corun_linux::launch::Held;
use corun_linux::probe::LiveOptions;
use corun_linux::target::Subject;
use corun_linux::watcher::Watcher;
use corun_linux::{launch, Root};
use corun_model::duration::human_ns;
use corun_model::{Counter, CounterSource, Counters, Host, TaskId};
use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name: &str| {
        let found = args.first().is_some_and(|a| a == name);
        if found {
            args.remove(0);
        }
        found
    };
    let (tree, pace) = (flag("--tree"), flag("--pace"));
    let (program, rest) =
        args.split_first().ok_or("say what to run: counters [--tree] [--pace] COMMAND [ARGS]")?;
    let mut command = Command::new(program);
    command.args(rest);
    let held = Held::start(command)?;
    let subject = Subject::command(held.pid(), program);
    let (mut host, _) = Watcher::start(&Root::new("/"), LiveOptions::new(subject), None)?;
    let of = host.subject();
    let grain = of.filter(|_| tree).map_or(Grain::Task, Grain::Tree);
    let themes = if pace { vec![Theme::Pace] } else { Theme::ALL.to_vec() };
    let mut perf = LivePerf::start(Options { grain, themes, ..Options::new(of) })
        .map_err(|r| format!("{r}; {}", r.optional_remedy()))?;
    perf.follow(&[TaskId(held.pid())]);
    for (counter, count) in &perf.plan().counters {
        let note = count.note.as_ref().map_or(String::new(), |n| format!(" ({n})"));
        println!("{:21} {}{note}", counter.name(), count.names.join(" + "));
    }
    let running = held.release()?;
    let mut said = Vec::new();
    loop {
        let ended = running.has_ended();
        host.advance(if ended { 0 } else { 500_000_000 })?;
        let mut seen = host.observe()?;
        perf.read(&mut seen);
        seen.check().map_err(|wrong| wrong.join("; "))?;
        for tenant in seen.by_tenant.iter().filter(|t| Some(t.id) == of) {
            let on_cpu = human_ns(tenant.account.ledger.on_cpu_ns());
            println!("{:>4} tasks {on_cpu:>9}  {}", tenant.tasks, line(tenant.account.counters.as_ref()));
        }
        for task in seen.tasks.iter().filter(|t| Some(t.tenant) == of && !tree) {
            let on_cpu = human_ns(task.account.ledger.on_cpu_ns());
            println!("{:>10} {on_cpu:>9}  {}", task.id, line(task.account.counters.as_ref()));
        }
        if let Some(p) = perf.precision().filter(|p| p.counted_share < 0.999) {
            println!(
                "           counted {:.0} %, ± {:.1} %",
                p.counted_share * 100.0,
                p.relative_error * 100.0
            );
        }
        for u in seen.unavailable {
            if !said.contains(&u) {
                println!("not seen: {}: {}", u.what, u.why);
                said.push(u);
            }
        }
        if ended {
            break;
        }
    }
    std::process::exit(launch::exit_code(running.wait()?).into());
}

fn line(counters: Option<&Counters>) -> String {
    let Some(counters) = counters else { return "-".into() };
    let known = Counter::ALL.into_iter().filter_map(|c| Some(format!("{} {}", c.name(), counters.get(c)?)));
    let ipc = counters.ipc().map(|ipc| format!("IPC {ipc:.2}"));
    ipc.into_iter().chain(known).collect::<Vec<_>>().join("  ")
}
