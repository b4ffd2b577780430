//! Tests: solo runs of programs with a known structure are described, and the description has that structure.

use super::choice::{describe, Described};
use super::modelled::Bench;
use crate::validate::cell::Interferer;
use corun_model::workload::{Parallel, Program, Sync, Workload};
use corun_model::Machine;
use corun_sim::machine_file::MachineModel;

fn bench(cpus: u32) -> Bench {
    Bench {
        machine: MachineModel::of(Machine::synthetic(1, 1, cpus, 1)),
        grouped: true,
        kernel: String::new(),
    }
}

fn file(phases: &[&str]) -> String {
    let phases: Vec<String> =
        phases.iter().map(|keys| format!("[[program.model]]\n{}\n", keys.replace(", ", "\n"))).collect();
    format!(
        "schema = \"corun.workload/1\"\nname = \"known\"\n[program]\nkind = \"command\"\nargv = [\"it\"]\n{}",
        phases.concat()
    )
}

/// Describes a program of these phases from its solo run on this many CPUs. Returns its workload file read back, and the description.
fn described(cpus: u32, phases: &[&str]) -> (Vec<Parallel>, Described) {
    let bench = bench(cpus);
    let is = describe(&bench.seen(&file(phases)).unwrap(), &bench).unwrap();
    let text = is.workload("it \"quoted\"", "what it is", &["it".into(), "a\\b".into()]);
    let Program::Command(command) =
        Workload::parse("it.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}")).program
    else {
        panic!("{text}")
    };
    println!("{phases:?}\n{text}");
    (command.model, is)
}

fn one(cpus: u32, phase: &str) -> Parallel {
    let (model, _) = described(cpus, &[phase]);
    assert_eq!(model.len(), 1, "{model:?}");
    model.into_iter().next().unwrap()
}

fn near(what: &str, found: f64, given: f64, tolerance: f64) {
    assert!((found / given - 1.0).abs() <= tolerance, "{what} is {found}, and was given as {given}");
}

#[test]
fn a_barrier_is_found_with_its_grain_rounds_and_imbalance() {
    for (cpus, imbalance) in [(2, 0.3), (4, 0.3), (4, 0.6)] {
        let p = one(cpus, &format!("threads = {cpus}, sync = \"barrier\", grain = \"1ms\", imbalance = {imbalance}, iterations = 400"));
        assert_eq!((p.sync, p.threads), (Sync::Barrier, cpus));
        near("the grain", p.grain as f64, 1e6, 0.1);
        near("rounds", p.iterations as f64, 400.0, 0.1);
        near("the imbalance", p.imbalance, imbalance, 0.2);
        assert!(p.shares.iter().all(|share| (share - 1.0).abs() < 0.05), "{:?}", p.shares);
    }
}

#[test]
fn lasting_differences_between_threads_are_found_as_shares() {
    let p = one(
        4,
        "threads = 4, sync = \"barrier\", grain = \"2ms\", shares = [1.6,0.8,0.8,0.8], iterations = 200",
    );
    assert_eq!(p.sync, Sync::Barrier);
    near("the mean grain", p.grain as f64, 2e6, 0.1);
    let mut shares = p.shares.clone();
    shares.sort_by(f64::total_cmp);
    shares.iter().zip([0.8, 0.8, 0.8, 1.6]).for_each(|(found, given)| near("a share", *found, given, 0.05));
    assert!(p.imbalance < 0.1, "{p:?}");
}

#[test]
fn a_contended_lock_is_found_with_its_hold_time() {
    let p = one(2, "threads = 2, sync = \"lock\", critical = 0.7, grain = \"1ms\", iterations = 500");
    assert_eq!(p.sync, Sync::Lock);
    near("the grain", p.grain as f64, 1e6, 0.1);
    near("the part that is inside", p.critical, 0.7, 0.1);
    near("rounds", p.iterations as f64, 500.0, 0.1);
}

#[test]
fn a_pipeline_with_one_slow_stage_looks_like_a_barrier_and_the_file_names_both() {
    let phase =
        "threads = 2, sync = \"pipeline\", stages = 2, shares = [0.5,1.5], grain = \"2ms\", iterations = 300";
    let (model, is) = described(2, &[phase]);
    let choice = &is.parts[0].is;
    let named = |sync: &str| choice.sync == sync || choice.or.iter().any(|or| or == sync);
    assert!(named("pipeline") && named("barrier"), "{choice:?}");
    near("the mean grain", model[0].grain as f64, 2e6, 0.1);
    near("the longer stage", model[0].shares.iter().copied().fold(0.0, f64::max), 1.5, 0.05);
}

#[test]
fn threads_that_never_wait_are_found_without_any_dependence() {
    let p = one(2, "threads = 2, sync = \"none\", grain = \"3ms\", iterations = 100");
    assert_eq!((p.sync, p.threads), (Sync::None, 2));
    near("the work of each", (p.grain * p.iterations) as f64, 300e6, 0.02);
}

#[test]
fn one_thread_that_sleeps_after_each_grain_is_found_with_both() {
    let p = one(2, "threads = 1, sync = \"none\", grain = \"2ms\", sleep = \"3ms\", iterations = 100");
    assert_eq!((p.threads, p.sync), (1, Sync::None));
    near("the grain", p.grain as f64, 2e6, 0.05);
    near("the sleep", p.sleep as f64, 3e6, 0.05);
    near("rounds", p.iterations as f64, 100.0, 0.05);
}

#[test]
fn a_serial_part_and_one_with_threads_are_found_as_two_parts() {
    let serial = "threads = 1, sync = \"none\", grain = \"1ms\", iterations = 300";
    let parallel = "threads = 2, sync = \"barrier\", grain = \"2ms\", imbalance = 0.3, iterations = 300";
    let (model, is) = described(2, &[serial, parallel]);
    assert_eq!(
        model.iter().map(|p| (p.threads, p.sync)).collect::<Vec<_>>(),
        [(1, Sync::None), (2, Sync::Barrier)]
    );
    near("the serial part", is.serial, 0.3 / (0.3 + 0.6 * 1.1), 0.1);
    near("its work", (model[0].grain * model[0].iterations) as f64, 300e6, 0.05);
    assert!(is.left_out < 0.02, "{}", is.left_out);
}

#[test]
fn a_description_is_slowed_down_by_loops_like_the_program_itself() {
    let bench = bench(2);
    let beside = Interferer { pattern: "persistent".into(), demand: None, threads: 1 };
    for phase in [
        "threads = 2, sync = \"none\", grain = \"2ms\", iterations = 200",
        "threads = 2, sync = \"barrier\", grain = \"2ms\", imbalance = 0.3, iterations = 200",
        "threads = 2, sync = \"lock\", critical = 0.7, grain = \"1ms\", iterations = 400",
    ] {
        let (_, is) = described(2, &[phase]);
        let of = |text: &str| bench.slowdown(text, &beside, 3).unwrap().1;
        let (own, again) = (of(&file(&[phase])), of(&is.workload("it", "", &["it".into()])));
        println!("{phase}: {own:.2}, described {again:.2}");
        assert!(own > 1.1, "{own}: the loop takes something");
        near("the slowdown", again, own, 0.05);
    }
}
