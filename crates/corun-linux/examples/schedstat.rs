//! Watches a command, or everything, without root and without eBPF, and prints each window.
//!
//! `cargo run -p corun-linux --example schedstat -- make`

use corun_linux::launch::Held;
use corun_linux::schedstat_host::{Options, SchedstatHost};
use corun_linux::target::Subject;
use corun_linux::{clock, launch};
use corun_model::duration::human_ns;
use corun_model::Host;
use std::process::Command;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let program = args.next().ok_or("say what to run: schedstat COMMAND [ARGS]")?;
    let mut command = Command::new(&program);
    command.args(args);
    let held = Held::start(command)?;
    let subject = Subject::command(held.pid(), &program);
    let started_ns = clock::process_cpu_ns();
    let mut host = SchedstatHost::new(Options::new(subject))?;
    let made_ns = clock::process_cpu_ns() - started_ns;
    let running = held.release()?;
    let (mut windows, mut observing_ns, mut advancing_ns, mut tasks) = (0u64, 0, 0, 0);
    let (mut unseen_ns, begun_ns) = (0, clock::now_ns());
    loop {
        let ended = running.has_ended();
        let before_ns = clock::thread_cpu_ns();
        host.advance(if ended { 0 } else { 200_000_000 })?;
        let between_ns = clock::thread_cpu_ns();
        let seen = host.observe()?;
        observing_ns += clock::thread_cpu_ns() - between_ns;
        advancing_ns += between_ns - before_ns;
        seen.check().map_err(|wrong| wrong.join("; "))?;
        unseen_ns += seen.loss.unknown_ns;
        windows += 1;
        tasks = tasks.max(seen.tasks.len());
        if let Some(mine) = seen.by_tenant.iter().find(|t| Some(t.id) == host.subject()) {
            let p = mine.account.ledger.parts();
            println!(
                "{:>9}  {:>3} tasks  compute {:>8}  steal {:>8}  block {:>8}  throttled {:>8}  {:?}/{:?} switches",
                human_ns(seen.end_ns - begun_ns),
                mine.tasks,
                human_ns(p.compute_ns),
                human_ns(p.steal_ns),
                human_ns(p.block_ns),
                human_ns(p.throttled_ns),
                mine.account.events.blocked.unwrap_or(0),
                mine.account.events.preemptions.unwrap_or(0),
            );
        }
        if ended {
            break;
        }
    }
    let wall_ns = clock::now_ns() - begun_ns;
    println!(
        "{windows} windows over {}, {tasks} tasks at most; never seen: {} of CPU time",
        human_ns(wall_ns),
        human_ns(unseen_ns)
    );
    println!(
        "cost: start {}, {} per window, polls {} ({:.2} % of a CPU)",
        human_ns(made_ns),
        human_ns(observing_ns / windows),
        human_ns(advancing_ns),
        100.0 * advancing_ns as f64 / wall_ns as f64
    );
    std::process::exit(launch::exit_code(running.wait()?).into());
}
