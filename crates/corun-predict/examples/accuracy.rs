//! How well the predictor does on the modelled machine: `cargo run --release -p corun-predict --example accuracy [CPUS] [THREADS]`.
//!
//! Every synthetic program beside every interferer, with dedicated windows, from the ledger alone, and from the ledger and a replay: mean error per kind
//! of program and per interferer, and how many intervals hold the outcome. Windows, schedule and budget are those of
//! `corun predict`. The tables in docs/accuracy.md are these. THREADS are
//! those of each program; as many as there are CPUs unless said.

#[path = "../tests/rig/mod.rs"]
mod rig;

use rayon::prelude::*;
use rig::{interferers, outcome, programs, synthetic, Outcome, Sampling};
use std::collections::BTreeMap;

/// Cases that are printed one by one.
const WORST: usize = 8;

fn main() {
    let argument = |n: usize, default: u32| {
        std::env::args().nth(n).map_or(default, |a| a.parse().expect("a number of CPUs, then of threads"))
    };
    let cpus: u32 = argument(1, 2);
    let threads = argument(2, cpus);
    let cases: Vec<(String, String, String)> = programs(threads)
        .into_iter()
        .flat_map(|(name, program)| {
            interferers(cpus).into_iter().map(move |i| (name.clone(), program.clone(), i))
        })
        .collect();
    for (said, dedicated, replay) in [
        ("with dedicated windows", true, false),
        ("from the ledger alone", false, false),
        ("from the ledger and a replay", false, true),
    ] {
        let how = Sampling { dedicated, replay, wake_up_ns: 0 };
        let found: Vec<Outcome> =
            cases.par_iter().map(|(_, p, i)| outcome(&synthetic(cpus, p, i), 1, how)).collect();
        let mut rows: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
        for ((name, _, interferer), outcome) in cases.iter().zip(&found) {
            let kind = name.split(" / ").next().expect("a name has a kind");
            for row in ["all", kind, interferer] {
                rows.entry(row).or_default().push(outcome);
            }
        }
        println!("{threads} threads on {cpus} CPUs, {said}");
        println!("{:<44} {:>5} {:>7} {:>7} {:>8}", "", "cases", "MAPE", "worst", "covered");
        for (row, of) in rows {
            let n = of.len() as f64;
            let mape = of.iter().map(|o| o.error()).sum::<f64>() / n;
            let worst = of.iter().map(|o| o.error()).fold(0.0, f64::max);
            let covered = of.iter().filter(|o| o.is_covered()).count() as f64 / n;
            println!(
                "{row:<44} {n:>5} {:>6.1} % {:>5.0} % {:>6.0} %",
                mape * 100.0,
                worst * 100.0,
                covered * 100.0
            );
        }
        let mut worst: Vec<_> = cases.iter().zip(&found).collect();
        worst.sort_by(|a, b| b.1.error().total_cmp(&a.1.error()));
        println!("worst:");
        for ((name, _, interferer), o) in worst.into_iter().take(WORST) {
            let e = &o.estimate;
            let [low, high] = e.interval;
            println!(
                "  {name} beside {interferer}: {:.2}, not {:.2} ({low:.2}-{high:.2})",
                o.truth, e.slowdown
            );
        }
        println!();
    }
}
