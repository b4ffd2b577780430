//! How many scheduling events the engine handles per second on one core, and how that cost grows with CPUs and
//! tasks: `cargo bench -p corun-sim`.
//!
//! Two counts: events of the engine's queue, and those of them that a kernel's scheduler would have had to
//! handle (wake-ups, context switches, ticks of single CPUs). A switch and a tick may share an event of the
//! queue, so neither count includes the other. The programs are groups of five threads that block at barriers
//! and locks every few hundred microseconds, and loops that sleep and wake. Nearly every event ends in a
//! scheduling decision. There are two tables: programs without memory character, and programs with one, whose
//! rates the contention models keep up to date. Time is the bench's own CPU time, so a busy machine does not
//! matter.
//!
//! `-- eevdf/80/100` runs one row of both tables; `-- eevdf/80/100/memory` and `.../plain` run it in one
//! table. With `--exactly`, it simulates 400 ms (`--exactly=MS`: this many) instead of running for a second.
//! Then `perf stat -e instructions:u` shows the work for that many events, free of noise. The work of
//! `--exactly=0` is the setup and the first 20 ms.

use corun_model::Machine;
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Files, Participants, Scenario};
use std::time::Instant;

/// CPU time of this thread, or wall time if the kernel does not provide it.
struct Clock(Instant);

impl Clock {
    fn ns(&self) -> u64 {
        let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        let own = spent.as_ref().and_then(|s| s.split(' ').next()?.parse().ok());
        own.unwrap_or_else(|| self.0.elapsed().as_nanos() as u64)
    }
}

struct Bench(Machine);

impl Files for Bench {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        Err(format!("the bench reads no files, not even {path}"))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Ok(MachineModel::of(self.0.clone()))
    }
}

/// (sockets, LLCs per socket, cores, threads) and tasks.
const SIZES: [((u32, u32, u32, u32), usize); 8] = [
    ((1, 1, 2, 1), 10),
    ((2, 1, 5, 2), 30),
    ((4, 1, 10, 2), 100),
    ((4, 1, 10, 2), 1_000),
    ((4, 1, 10, 2), 10_000),
    ((4, 4, 8, 2), 1_000),
    ((8, 8, 8, 2), 1_000),
    ((8, 8, 8, 2), 10_000),
];

fn scenario(machine: &Machine, tasks: usize, scheduler: &str, memory: bool) -> Scenario {
    let character = if memory {
        "character = { llc-refs-pki = 10.0, working-set = \"1MiB\", coherence-pki = 0.5 }\n"
    } else {
        ""
    };
    let (groups, loops) = (tasks * 4 / 5 / 5, tasks / 5);
    let text = format!(
        r#"schema = "corun.scenario/1"
machine = "host"
duration = "1h"
[scheduler]
name = "{scheduler}"
[[tenant]]
name = "barrier"
count = {}
program = {{ kind = "parallel", threads = 5, grain = "300us", imbalance = 0.5 }}
{character}
[[tenant]]
name = "lock"
count = {}
program = {{ kind = "parallel", threads = 5, sync = "lock", grain = "200us", critical = 0.2, imbalance = 0.5 }}
{character}
[[tenant]]
name = "loop"
program = {{ kind = "interference", pattern = "intermittent", busy-min = "100us", busy-max = "1ms", threads = {loops} }}
"#,
        groups.div_ceil(2),
        (groups / 2).max(1),
    );
    Scenario::parse("bench", &text, &Bench(machine.clone())).expect("the bench's scenario is sound")
}

fn main() {
    // `cargo test` runs benches with --test. Then one small size shows that the bench works.
    let quick = std::env::args().any(|a| a == "--test");
    let exactly_ms: Option<u64> = std::env::args().find_map(|a| match a.strip_prefix("--exactly")? {
        "" => Some(400),
        ms => Some(ms.strip_prefix('=')?.parse().expect("--exactly=MS has a number of milliseconds")),
    });
    let only = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let clock = Clock(Instant::now());
    for memory in [false, true] {
        let what = if memory { "with memory character" } else { "without memory character" };
        println!("\nprograms {what}\n");
        println!(
            "{:<12}{:>6}{:>8}{:>16}{:>16}{:>12}{:>12}{:>12}",
            "scheduler", "CPUs", "tasks", "queue M/s", "scheduling M/s", "ns each", "x smallest", "of them"
        );
        for scheduler in ["eevdf", "cfs", "xen-credit"] {
            let mut smallest = None;
            for ((s, l, c, t), tasks) in SIZES.into_iter().take(if quick { 1 } else { SIZES.len() }) {
                let machine = Machine::synthetic(s, l, c, t);
                let row = format!("{scheduler}/{}/{tasks}", machine.cpu_count());
                let exact_row = format!("{row}/{}", if memory { "memory" } else { "plain" });
                if only.as_ref().is_some_and(|only| *only != row && *only != exact_row) {
                    continue;
                }
                let scenario = scenario(&machine, tasks, scheduler, memory);
                let mut engine =
                    scenario.engine(1, Participants::All, 0).expect("the bench's scenario is sound");
                let handled = |e: &corun_sim::engine::Engine| {
                    let t = e.totals();
                    (t.events, t.wakeups + t.switches + t.ticks)
                };
                engine.run_until(20_000_000).expect("no checker fires");
                let (before, began_ns) = (handled(&engine), clock.ns());
                let wanted_ns = if quick { 10_000_000 } else { 1_000_000_000 };
                let until = |e: &corun_sim::engine::Engine| match exactly_ms {
                    Some(ms) => e.now_ns() < 20_000_000 + ms * 1_000_000,
                    None => clock.ns() - began_ns < wanted_ns,
                };
                while until(&engine) {
                    let until_ns = engine.now_ns() + 2_000_000;
                    engine.run_until(until_ns).expect("no checker fires");
                }
                let spent_ns = (clock.ns() - began_ns) as f64;
                let after = handled(&engine);
                let per_s = |n: u64| n as f64 * 1e9 / spent_ns;
                let ns = spent_ns / (after.1 - before.1) as f64;
                let smallest = *smallest.get_or_insert(ns);
                println!(
                    "{scheduler:<12}{:>6}{tasks:>8}{:>16.2}{:>16.2}{ns:>12.0}{:>12.2}{:>12}",
                    machine.cpu_count(),
                    per_s(after.0 - before.0) / 1e6,
                    per_s(after.1 - before.1) / 1e6,
                    ns / smallest,
                    after.1 - before.1
                );
            }
        }
    }
}
