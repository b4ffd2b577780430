//! The cost of a change in the contention models: `cargo run --release -p corun-sim --example
//! contention_cost`.
//!
//! An 80-CPU machine runs 100 tasks; at every event one CPU, in turn, gets the task that has waited longest. Each row is one kind of
//! task. `evaluations` is the work in a unit that does not depend on this machine; `wake-ups` are the refreshes that
//! the caches asked for by themselves.

use std::collections::VecDeque;
use std::time::Instant;

use corun_model::workload::Character;
use corun_model::Machine;
use corun_sim::contention::{Running, System};
use corun_sim::machine_file::MachineModel;

const EVENTS: u64 = 400_000;

fn main() {
    let plain = Character { llc_refs_pki: 0.0, compulsory: 0.0, ..Character::default() };
    let stream = Character { llc_refs_pki: 20.0, compulsory: 1.0, hidden: 0.8, ..plain.clone() };
    let resident = Character { llc_refs_pki: 10.0, working_set: 1 << 20, ..Character::default() };
    let sharing = Character { coherence_pki: 4.0, ..plain.clone() };
    println!("{:34} {:>9} {:>12} {:>9}", "tasks", "ns/event", "evaluations", "wake-ups");
    for (name, c, threads) in [
        ("register arithmetic", &plain, 1),
        ("default character", &Character::default(), 1),
        ("streams", &stream, 1),
        ("working sets of 1 MiB", &resident, 1),
        ("20 sharing programs of 5 threads", &sharing, 5),
        ("5 sharing programs of 20 threads", &sharing, 20),
    ] {
        row(name, &MachineModel::shipped("atc16-haswell-80").expect("shipped"), c, 100, threads);
    }
    let large = MachineModel::of(Machine::synthetic(8, 4, 16, 2));
    row("register arithmetic, 1,024 CPUs", &large, &plain, 10_000, 1);
    row("default character, 1,024 CPUs", &large, &Character::default(), 10_000, 1);
}

fn row(name: &str, model: &MachineModel, c: &Character, tasks: u32, threads: u32) {
    let mut system = System::new(model);
    let character = system.character(c);
    let cpus = model.machine.cpu_count() as u32;
    let run = |task: u32| Some(Running { task, program: task / threads, character, spinning: false });
    let mut changed = Vec::new();
    for cpu in 0..cpus {
        system.set(0, cpu, run(cpu));
    }
    let mut running: Vec<u32> = (0..cpus).collect();
    let mut waiting: VecDeque<u32> = (cpus..tasks).collect();
    system.refresh(0, &mut changed);
    let (evaluations, start, mut wakes) = (system.evaluations(), Instant::now(), 0u64);
    for event in 0..EVENTS {
        // 80 CPUs that switch every 4 ms are an event every 50 µs.
        let now = event * 50_000;
        while let Some(wake) = system.next_ns().filter(|n| *n <= now) {
            system.refresh(wake, &mut changed);
            wakes += 1;
        }
        let cpu = (event % u64::from(cpus)) as u32;
        let next = waiting.pop_front().expect("more tasks than CPUs");
        waiting.push_back(std::mem::replace(&mut running[cpu as usize], next));
        system.set(now, cpu, run(next));
        changed.clear();
        system.refresh(now, &mut changed);
    }
    let per = |x: u64| x as f64 / EVENTS as f64;
    let ns = start.elapsed().as_nanos() as u64;
    println!("{name:34} {:9.0} {:12.2} {:9.2}", per(ns), per(system.evaluations() - evaluations), per(wakes));
}
