//! What an epoch costs: every policy's decision for 100 tenants with 1,000 tasks on 64 CPUs.
//!
//! `cargo bench -p corun-policy` prints the median and the slowest of 200 epochs; the target is 200 µs.

#[path = "../tests/toy/mod.rs"]
mod toy;

use corun_policy::{by_name, Options, ALL};
use std::time::Instant;
use toy::{who, Toy};

const EPOCHS: usize = 200;

fn main() {
    let tenants = || (0..100).map(|i| who(&format!("tenant{i}"), 10, 50 + i * 9)).collect();
    println!("{:<24}{:>14}{:>14}{:>12}", "policy", "median us", "slowest us", "decisions");
    for entry in ALL {
        let mut policy = by_name(entry.name, &Options::new()).expect("defaults are in range");
        let mut toy = Toy::new(64, tenants());
        let epoch_ns = policy.epoch_ns();
        let mut took: Vec<f64> = Vec::new();
        let mut decisions = 0;
        for _ in 0..EPOCHS {
            let seen = toy.window(epoch_ns);
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
