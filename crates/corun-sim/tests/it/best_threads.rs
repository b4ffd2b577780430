//! The best number of threads for a program alone (Controlled Contention, tables I and II). It results from
//! runs of the model: the same work, divided among more or fewer threads. The inputs are only facts about
//! programs alone: where the main thread places data, how much data there is, and the traffic of one thread.

use crate::rig::Repository;
use corun_model::workload::{Parallel, Program, Sync, Workload};
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Files, Participants, Scenario};
use std::collections::BTreeMap;

/// The repository, with one changed workload file, and a machine.
struct Dealt(String, MachineModel);

impl Files for Dealt {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        match path {
            "dealt.toml" => Ok((path.to_string(), self.0.clone())),
            _ => Repository.read(path),
        }
    }

    fn host(&self) -> Result<MachineModel, String> {
        Ok(self.1.clone())
    }
}

/// The text of a preset with part of its work on a machine, divided among this many threads. `change` changes
/// the text.
fn dealt(name: &str, machine: &str, threads: u32, change: &dyn Fn(String) -> String) -> String {
    let (_, text) = Repository.read(&format!("workloads/papers/{name}.toml")).unwrap();
    let sized = Workload::parse(name, &text).unwrap().for_machine(machine).program;
    let own = text.split("[[on]]").next().unwrap();
    let on = |keys: String| {
        format!("{}\n[[on]]\nmachine = \"{machine}\"\nthreads = {threads}\n{keys}\n", change(own.to_string()))
    };
    match sized {
        Program::Parallel(p) => {
            let Parallel { threads: paper, grain, iterations, sync, .. } = p;
            let per_thread = |n: u64| n * u64::from(paper) / u64::from(threads);
            match sync {
                Sync::Barrier => {
                    let rounds = (iterations / 40).max(20);
                    on(format!("iterations = {rounds}\ngrain = \"{}ns\"", per_thread(grain)))
                }
                Sync::None => on(format!("iterations = {}", per_thread(iterations / 10))),
                _ => on(format!("iterations = {}", iterations / 40)),
            }
        }
        _ => panic!("{name} is no parallel program"),
    }
}

/// The duration of its solo run under CFS, in seconds.
fn seconds(name: &str, machine: &MachineModel, threads: u32, change: &dyn Fn(String) -> String) -> f64 {
    let body = "schema = \"corun.scenario/1\"\nmachine = \"host\"\nduration = \"20000s\"\n[scheduler]\nname = \"cfs\"\n[[tenant]]\nworkload = \"dealt.toml\"\n";
    let files = Dealt(dealt(name, &machine.machine.name, threads, change), machine.clone());
    let scenario = Scenario::parse("alone.toml", body, &files).unwrap_or_else(|e| panic!("{e}"));
    let mut engine = scenario.engine(1, Participants::All, 0).unwrap();
    engine.run_until(20_000_000_000_000).unwrap();
    let first = engine.progress()[0].completions.first.expect("it ends");
    (first.end_ns - first.start_ns) as f64 / 1e9
}

/// Seconds for each number of threads, relative to the least; also printed.
fn by_threads(
    name: &str,
    machine: &str,
    counts: &[u32],
    change: &dyn Fn(String) -> String,
) -> BTreeMap<u32, f64> {
    by_threads_on(name, &MachineModel::shipped(machine).unwrap(), counts, change)
}

fn by_threads_on(
    name: &str,
    machine: &MachineModel,
    counts: &[u32],
    change: &dyn Fn(String) -> String,
) -> BTreeMap<u32, f64> {
    let times: Vec<f64> = counts.iter().map(|n| seconds(name, machine, *n, change)).collect();
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let by_least: BTreeMap<u32, f64> = counts.iter().copied().zip(times.iter().map(|s| s / least)).collect();
    println!("{name} on {}, by the best: {by_least:.2?}", machine.machine.name);
    by_least
}

fn as_given(text: String) -> String {
    text
}

const MAGNY: &str = "cc-magny-cours-48";
const SANDY: &str = "cc-sandybridge";

#[test]
fn the_papers_best_thread_counts_result_if_memory_or_the_program_itself_decides() {
    // fluidanimate runs only with a power of two.
    for (name, machine, paper, counts) in [
        ("cc-streamcluster", MAGNY, 8, &[4, 8, 16, 32, 48][..]),
        ("cc-streamcluster", SANDY, 24, &[8, 16, 24, 32]),
        ("cc-fluidanimate", MAGNY, 32, &[8, 16, 32]),
        ("cc-fluidanimate", SANDY, 32, &[8, 16, 32]),
        ("swaptions", MAGNY, 48, &[24, 32, 48]),
        ("swaptions", SANDY, 32, &[16, 24, 32]),
        ("blackscholes", MAGNY, 48, &[24, 32, 48]),
        ("bodytrack", MAGNY, 48, &[24, 32, 48]),
    ] {
        let times = by_threads(name, machine, counts, &as_given);
        assert!(times[&paper] < 1.01, "{name} on {machine}: {paper} threads should be best: {times:?}");
    }
}

#[test]
fn beyond_the_papers_best_count_canneal_gains_almost_nothing_on_48_cpus() {
    let times = by_threads("cc-canneal", MAGNY, &[16, 32, 48], &as_given);
    assert!(times[&32] < 1.08 && times[&16] > 1.15 * times[&32], "{times:?}");
}

#[test]
fn if_each_thread_had_its_own_data_streamcluster_would_be_fastest_with_all_cpus() {
    let own = |text: String| {
        let kept = text.lines().filter(|line| !line.starts_with("memory ="));
        kept.collect::<Vec<_>>().join("\n")
    };
    let times = by_threads("cc-streamcluster", MAGNY, &[8, 48], &own);
    assert!(times[&8] > 2.0, "{times:?}");
}

#[test]
fn without_rows_too_many_threads_of_streamcluster_cost_nothing() {
    let mut machine = MachineModel::shipped(MAGNY).unwrap();
    machine.rows = None;
    let times = by_threads_on("cc-streamcluster", &machine, &[8, 16, 48], &as_given);
    assert!(times[&48] < 1.01 && times[&16] < 1.03 && times[&8] > 1.03, "{times:?}");
}
