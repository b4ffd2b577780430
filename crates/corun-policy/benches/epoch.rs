//! The cost of an epoch: every policy's decision for 100 tenants with 1,000 tasks on 64 CPUs.
//!
//! `cargo bench -p corun-policy` prints the median and the slowest of 200 epochs; `-- gang` does so for one policy. The target is 200
//! µs.

#[path = "../tests/it/toy/mod.rs"]
mod toy;

use corun_model::observation::TaskObservation;
use corun_model::Counters;
use corun_policy::{by_name, Options, ALL};
use std::time::Instant;
use toy::{who, Toy};

const EPOCHS: usize = 200;

/// Counters of a task that shares data. How much depends on the task.
fn sharing(task: &TaskObservation) -> Counters {
    let cycles = task.account.ledger.on_cpu_ns() * 22 / 10;
    let lines = cycles / 10_000 * u64::from(task.id.0 % 7);
    Counters {
        cycles: Some(cycles),
        instructions: Some(cycles / 2),
        l2_stall_cycles: Some(lines * 400),
        coherence_inter: Some(lines * 2),
        coherence_intra: Some(lines),
        ..Counters::default()
    }
}

fn main() {
    let tenants = || (0..100).map(|i| who(&format!("tenant{i}"), 10, 50 + i * 9)).collect();
    println!("{:<24}{:>14}{:>14}{:>12}", "policy", "median us", "slowest us", "decisions");
    let only = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    for entry in ALL.iter().filter(|e| only.as_ref().is_none_or(|only| only == e.name)) {
        let mut policy = by_name(entry.name, &Options::new()).expect("defaults are in range");
        let mut toy = Toy::new(64, tenants());
        let epoch_ns = policy.epoch_ns();
        let mut took: Vec<f64> = Vec::new();
        let mut decisions = 0;
        for _ in 0..EPOCHS {
            let mut seen = toy.window(epoch_ns);
            if !entry.counters.is_empty() {
                seen.tasks.iter_mut().for_each(|t| t.set_counters(Some(sharing(t))));
            }
            let start = Instant::now();
            let decided = policy.decide(&toy.machine, &seen);
            took.push(start.elapsed().as_secs_f64() * 1e6);
            decisions += decided.len();
            toy.carry_out(&decided);
        }
        took.sort_by(f64::total_cmp);
        println!("{:<24}{:>14.1}{:>14.1}{:>12}", entry.name, took[EPOCHS / 2], took[EPOCHS - 1], decisions);
    }
}
