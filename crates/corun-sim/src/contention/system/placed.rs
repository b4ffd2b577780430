//! Tests of placed, shared and hot data, and of contended lines.

use super::*;
use crate::machine_file::Rows;
use corun_model::workload::MemoryUse;
use corun_model::Machine;
use proptest::prelude::*;

fn stream(memory: MemoryUse) -> Character {
    Character { llc_refs_pki: 20.0, compulsory: 1.0, hidden: 0.8, memory, ..Character::default() }
}

fn placed(placed: Placed) -> MemoryUse {
    MemoryUse { placed, ..MemoryUse::default() }
}

/// Runs one thread of a program on each of these CPUs for a second.
fn run(model: &MachineModel, cpus: &[u32], c: &Character) -> System {
    let mut system = System::new(model);
    let character = system.character(c);
    for (task, cpu) in (0..).zip(cpus) {
        system.set(0, *cpu, Some(Running { task, program: 0, character, spinning: false }));
    }
    until(&mut system, 0, 1_000_000_000);
    system
}

fn until(system: &mut System, from_ns: u64, to_ns: u64) {
    let mut next_ns = Some(from_ns);
    while let Some(now) = next_ns.filter(|n| *n < to_ns) {
        system.refresh(now, &mut Vec::new());
        next_ns = system.next_ns();
    }
}

fn of(system: &mut System, task: u32, field: fn(&Counters) -> Option<u64>) -> f64 {
    field(&system.counters(1_000_000_000, task)).unwrap() as f64
}

fn magny() -> MachineModel {
    MachineModel::shipped("cc-magny-cours-48").unwrap()
}

#[test]
fn data_of_the_main_thread_is_remote_to_threads_on_other_nodes() {
    // CPUs 0 and 6 are on the first and the second node.
    for (where_to, parts) in
        [(Placed::Own, [0.0, 0.0]), (Placed::Main, [0.0, 1.0]), (Placed::Interleaved, [0.875, 0.875])]
    {
        let mut system = run(&magny(), &[0, 6], &stream(placed(where_to)));
        let remote = [0, 1].map(|task| {
            of(&mut system, task, |c| c.remote_dram) * 64.0 / of(&mut system, task, |c| c.dram_bytes)
        });
        assert!((0..2).all(|i| (remote[i] - parts[i]).abs() < 1e-3), "{where_to:?}: {remote:?}");
    }
}

#[test]
fn a_link_carries_only_its_capacity_and_interleaving_uses_all_of_them() {
    let model = magny();
    let link = model.link_bandwidth.unwrap() as f64;
    let moved = |where_to| {
        // The program begins on the first node, and the other threads run on the second.
        let mut system = run(&model, &[0, 6, 7, 8, 9, 10, 11], &stream(placed(where_to)));
        (1..7).map(|task| of(&mut system, task, |c| c.dram_bytes)).sum::<f64>()
    };
    let (main, interleaved) = (moved(Placed::Main), moved(Placed::Interleaved));
    assert!(main > 0.8 * link && main < 1.02 * link, "{main} of {link}");
    assert!(interleaved > 1.2 * main, "{interleaved} against {main}");
}

#[test]
fn data_that_threads_share_is_in_a_cache_once() {
    let model = MachineModel::shipped("pact16-xeon-e5620").unwrap();
    let own = Character { llc_refs_pki: 20.0, working_set: 8 << 20, compulsory: 0.0, ..Character::default() };
    let memory = MemoryUse { shared: 8 << 20, shared_refs: 1.0, ..MemoryUse::default() };
    let shared = Character { working_set: 0, memory, ..own.clone() };
    let misses = |c: &Character| {
        let mut system = run(&model, &[0, 1, 2, 3], c);
        let before = system.counters(1_000_000_000, 0);
        until(&mut system, 1_000_000_000, 1_100_000_000);
        let after = system.counters(1_100_000_000, 0);
        (after.llc_misses.unwrap() - before.llc_misses.unwrap()) as f64
            / (after.llc_references.unwrap() - before.llc_references.unwrap()) as f64
    };
    assert!(misses(&shared) < 0.02, "8 MiB fit into 12 MiB: {}", misses(&shared));
    assert!(misses(&own) > 0.4, "four times 8 MiB do not: {}", misses(&own));
}

#[test]
fn threads_that_contend_for_few_lines_are_slower_and_less_so_on_one_socket() {
    let model = MachineModel::shipped("atc16-ivybridge-40").unwrap();
    let done = |lines: u32, cpus: &[u32]| {
        let c = Character { coherence_pki: 4.0, hot_lines: lines, llc_refs_pki: 0.0, ..Character::default() };
        of(&mut run(&model, cpus, &c), 0, |c| c.instructions)
    };
    let (near, far): (Vec<u32>, Vec<u32>) = ((0..10).collect(), (0..5).chain(10..15).collect());
    assert!(done(4, &far) < 0.8 * done(0, &far), "{} of {}", done(4, &far), done(0, &far));
    let gain = |lines| done(lines, &near) / done(lines, &far);
    assert!(gain(4) > 1.1 * gain(0), "{} against {}", gain(4), gain(0));
    assert!((done(1_000_000, &far) / done(0, &far) - 1.0).abs() < 0.01);
}

proptest! {
    #[test]
    fn with_placement_rows_links_and_lines_too_the_result_depends_on_who_runs_and_not_on_the_past(
        changes in proptest::collection::vec((0u32..16, 0u32..4, any::<bool>()), 1..80),
    ) {
        let mut model = MachineModel::of(Machine::synthetic(2, 1, 4, 2));
        model.link_bandwidth = Some(8_000_000_000);
        model.rows = Some(Rows { banks: 32.0, closed: 0.6 });
        let contended = Character { coherence_pki: 5.0, hot_lines: 8, llc_refs_pki: 0.0, ..Character::default() };
        let random = MemoryUse { rows: 0.0, ..placed(Placed::Interleaved) };
        let kinds = [stream(placed(Placed::Main)), stream(random), contended, stream(placed(Placed::Own))];
        let fresh = || {
            let mut system = System::new(&model);
            kinds.iter().for_each(|c| { system.character(c); });
            system
        };
        let mut stepwise = fresh();
        let mut on = [None; 16];
        let mut seen = Vec::new();
        for (step, (cpu, kind, leaves)) in changes.iter().enumerate() {
            let (now_ns, character) = (step as u64 * 1_000, CharacterId(*kind));
            let task = cpu * 4 + kind;
            let now = (!*leaves).then_some(Running { task, program: *kind, character, spinning: false });
            seen.extend(now.map(|r| (r, *cpu)));
            on[*cpu as usize] = now;
            stepwise.set(now_ns, *cpu, now);
            stepwise.refresh(now_ns, &mut Vec::new());
        }
        let mut afresh = fresh();
        for (r, cpu) in seen {
            afresh.set(0, cpu, Some(r));
        }
        (0..16).for_each(|cpu| { afresh.set(0, cpu, on[cpu as usize]); });
        afresh.refresh(0, &mut Vec::new());
        for cpu in (0..16).filter(|c| on[*c].is_some()) {
            let [a, b] = [&stepwise, &afresh].map(|s| f64::from(s.slots[cpu].progress));
            prop_assert!((a / b - 1.0).abs() < 0.06, "CPU {cpu}: {a} step by step, {b} afresh");
        }
    }
}
