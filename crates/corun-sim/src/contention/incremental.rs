//! Tests of all models together: incremental updates equal a computation from scratch, the work per change is
//! bounded, and nothing is faster than in a solo run.

use super::*;
use crate::machine_file::MachineModel;
use corun_model::workload::Character;
use corun_model::{Counters, Machine};
use proptest::prelude::*;

/// Characters: none at all, the default, a stream, false sharing, and all of it.
fn characters() -> Vec<Character> {
    let light = Character { llc_refs_pki: 0.0, compulsory: 0.0, ..Character::default() };
    let stream = Character { llc_refs_pki: 40.0, compulsory: 1.0, hidden: 0.8, ..light.clone() };
    let sharing = Character { coherence_pki: 5.0, ipc: 1.0, ..light.clone() };
    vec![light, Character::default(), stream.clone(), sharing, Character { coherence_pki: 2.0, ..stream }]
}

/// A working set that fits into no private cache.
fn resident() -> Character {
    Character { llc_refs_pki: 20.0, working_set: 8 << 20, compulsory: 0.02, ..Character::default() }
}

/// A system, with the engine's knowledge of it.
struct Watched {
    system: System,
    progress: Vec<u32>,
    changed: Vec<CpuRate>,
}

impl Watched {
    fn new(model: &MachineModel) -> Watched {
        let mut system = System::new(model);
        for c in &characters() {
            system.character(c);
        }
        Watched { system, progress: vec![ONE; model.machine.cpu_count()], changed: Vec::new() }
    }

    fn set(&mut self, now_ns: u64, cpu: u32, running: Option<Running>) {
        if self.system.set(now_ns, cpu, running) {
            self.progress[cpu as usize] = ONE;
        }
    }

    fn refresh(&mut self, now_ns: u64) {
        self.system.refresh(now_ns, &mut self.changed);
        for r in self.changed.drain(..) {
            self.progress[r.cpu as usize] = r.progress;
        }
    }

    /// Refreshes whenever the system asks for it, up to a time.
    fn run(&mut self, from_ns: u64, to_ns: u64) {
        self.refresh(from_ns);
        while let Some(now) = self.system.next_ns().filter(|n| *n <= to_ns) {
            assert!(now > from_ns, "time must pass");
            self.refresh(now);
        }
    }

    fn counters(&mut self, now_ns: u64, task: u32) -> Counters {
        self.system.counters(now_ns, task)
    }
}

fn running(task: u32, program: u32, character: CharacterId) -> Option<Running> {
    Some(Running { task, program, character, spinning: false })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn updating_step_by_step_gives_what_starting_afresh_gives(
        changes in proptest::collection::vec((0u32..16, 0u32..8, any::<bool>(), any::<bool>()), 1..120),
    ) {
        let model = MachineModel::of(Machine::synthetic(2, 1, 4, 2));
        let mut stepwise = Watched::new(&model);
        let mut on = [None; 16];
        let mut seen = Vec::new();
        for (step, (cpu, kind, leaves, spinning)) in changes.iter().enumerate() {
            // A task keeps its CPU, and so its home.
            let task = cpu * 5 + kind % 5;
            let now = (!*leaves).then_some(Running {
                task, program: kind % 2, character: CharacterId(kind % 5), spinning: *spinning,
            });
            seen.extend(now.filter(|r| !r.spinning).map(|r| (r, *cpu)));
            on[*cpu as usize] = now;
            stepwise.set(step as u64 * 1_000, *cpu, now);
            stepwise.refresh(step as u64 * 1_000);
            prop_assert!(stepwise.progress.iter().all(|p| (1..=ONE).contains(p)));
        }
        let mut afresh = Watched::new(&model);
        // Programs have as many threads as have ever computed.
        for (r, cpu) in &seen {
            afresh.set(0, *cpu, Some(*r));
        }
        (0..16).for_each(|cpu| afresh.set(0, cpu, on[cpu as usize]));
        afresh.refresh(0);
        for cpu in (0..16).filter(|c| on[*c].is_some()) {
            let (a, b) = (f64::from(stepwise.progress[cpu]), f64::from(afresh.progress[cpu]));
            prop_assert!((a / b - 1.0).abs() < 0.03, "CPU {cpu}: {a} step by step, {b} afresh");
        }
    }

    #[test]
    fn memory_moves_no_more_than_it_can_and_counters_add_up(
        kinds in proptest::collection::vec(0u32..5, 16), resident_tasks in 0usize..16,
    ) {
        let model = MachineModel::of(Machine::synthetic(2, 1, 4, 2));
        let mut w = Watched::new(&model);
        let warm = w.system.character(&resident());
        for (cpu, kind) in (0u32..).zip(&kinds) {
            let character = if (cpu as usize) < resident_tasks { warm } else { CharacterId(*kind) };
            w.set(0, cpu, running(cpu, kind % 3, character));
        }
        let end = 50_000_000;
        w.run(0, end);
        let all: Vec<Counters> = (0..16).map(|t| w.counters(end, t)).collect();
        for c in &all {
            prop_assert_eq!(c.cycles, Some((end as f64 * model.ghz) as u64));
            prop_assert!(c.offcore_stall_cycles <= c.cycles && c.branch_misses <= c.branches);
            prop_assert!(c.llc_misses <= c.llc_references && c.remote_dram <= c.llc_misses);
            prop_assert!(c.ipc().unwrap() <= 2.0);
        }
        // Every task first computed on its own node, so CPUs 0-3 and 8-11 use node 0.
        let used: f64 = all.iter().take(4).chain(&all[8..12]).map(|c| c.dram_bytes.unwrap() as f64).sum();
        let can = model.node_bandwidth as f64 * end as f64 / 1e9;
        prop_assert!(used <= can * 1.02, "{used} of {can}");
    }
}

#[test]
fn any_character_reaches_progress_one_in_a_solo_run() {
    for name in ["atc16-ivybridge-40", "arms16-i7-950", "cc-magny-cours-48"] {
        let model = MachineModel::shipped(name).unwrap();
        for c in characters().iter().chain([&resident()]) {
            let mut w = Watched::new(&model);
            let character = w.system.character(c);
            w.set(0, 0, running(0, 0, character));
            w.run(0, 1_000_000_000);
            let progress = f64::from(w.progress[0]) / f64::from(ONE);
            assert!(progress > 0.98, "{name}, {c:?}: {progress}");
        }
    }
}

#[test]
fn a_change_without_memory_character_evaluates_one_core_on_any_machine() {
    for (cores, threads) in [(8, 1), (8, 2), (128, 2), (512, 2)] {
        let model = MachineModel::of(Machine::synthetic(2, 1, cores / 2, threads));
        let mut w = Watched::new(&model);
        let cpus = cores * threads;
        (0..cpus).for_each(|cpu| w.set(0, cpu, running(cpu, 0, CharacterId(0))));
        w.refresh(0);
        let before = w.system.evaluations();
        for i in 0..1_000u32 {
            let cpu = i * 7 % cpus;
            w.set(u64::from(i), cpu, running(cpus + i % 50, 1, CharacterId(i % 2)));
            w.refresh(u64::from(i));
        }
        let per_change = (w.system.evaluations() - before) / 1_000;
        assert!(per_change <= u64::from(threads), "{cpus} CPUs: {per_change} evaluations a change");
        assert_eq!(w.system.next_ns(), None);
    }
}

#[test]
fn a_change_in_a_large_sharing_group_has_a_bounded_cost() {
    let model = MachineModel::of(Machine::synthetic(4, 1, 256, 1));
    let mut w = Watched::new(&model);
    (0..1024).for_each(|cpu| w.set(0, cpu, running(cpu, 0, CharacterId(3))));
    w.refresh(0);
    let before = w.system.evaluations();
    for i in 0..1_000u32 {
        let spinning = i % 2 == 0;
        w.set(
            u64::from(i),
            i / 2,
            Some(Running { task: i / 2, program: 0, character: CharacterId(3), spinning }),
        );
        w.refresh(u64::from(i));
    }
    let per_change = (w.system.evaluations() - before) / 1_000;
    assert!(per_change <= 66, "{per_change} evaluations a change");
}

#[test]
fn threads_out_of_step_compute_faster_and_refer_less_to_the_cache() {
    let model = MachineModel::shipped("pact16-xeon-e5620").unwrap();
    let mut w = Watched::new(&model);
    let sharing = CharacterId(3);
    (0..4).for_each(|cpu| w.set(0, cpu, running(cpu, 0, sharing)));
    w.refresh(0);
    let together = w.progress[0];
    let before = w.counters(1_000_000, 0);
    for cpu in 1..4 {
        w.set(1_000_000, cpu, Some(Running { task: cpu, program: 0, character: sharing, spinning: true }));
    }
    w.refresh(1_000_000);
    let alone = w.progress[0];
    assert!(alone > together && f64::from(alone) > 0.999 * f64::from(ONE), "{alone} after {together}");
    let after = w.counters(2_000_000, 0);
    assert!(before.llc_references.unwrap() > 0);
    assert_eq!(after.llc_references, before.llc_references, "nobody computes beside it any more");
}

#[test]
fn a_spinning_thread_branches_often_and_mispredicts_rarely() {
    let model = MachineModel::of(Machine::synthetic(1, 1, 2, 1));
    let mut w = Watched::new(&model);
    w.set(0, 0, Some(Running { task: 0, program: 0, character: CharacterId(0), spinning: true }));
    w.set(0, 1, running(1, 0, CharacterId(0)));
    w.refresh(0);
    let (spin, compute) = (w.counters(1_000_000, 0), w.counters(1_000_000, 1));
    let per = |a: Option<u64>, b: Option<u64>| a.unwrap() as f64 / b.unwrap() as f64;
    assert!(per(spin.branches, spin.instructions) > 2.0 * per(compute.branches, compute.instructions));
    assert!(per(spin.branch_misses, spin.branches) < 0.1 * per(compute.branch_misses, compute.branches));
}

#[test]
fn memory_of_another_node_is_slower_and_counted_as_remote() {
    let model = MachineModel::shipped("atc16-ivybridge-40").unwrap();
    let mut w = Watched::new(&model);
    w.set(0, 0, running(0, 0, CharacterId(2)));
    w.run(0, 1_000_000);
    let (at_home, local) = (w.progress[0], w.counters(1_000_000, 0));
    w.set(1_000_000, 0, None);
    w.set(1_000_000, 10, running(0, 0, CharacterId(2)));
    w.run(1_000_000, 2_000_000);
    assert!(w.progress[10] < at_home, "{} {at_home}", w.progress[10]);
    assert_eq!(local.remote_dram, Some(0));
    assert!(w.counters(2_000_000, 0).remote_dram.unwrap() > 0);
}

#[test]
fn two_working_sets_that_do_not_fit_together_slow_each_other_down() {
    let model = MachineModel::shipped("pact16-xeon-e5620").unwrap();
    let mut w = Watched::new(&model);
    let warm = w.system.character(&resident());
    w.set(0, 0, running(0, 0, warm));
    w.run(0, 500_000_000);
    let alone = w.progress[0];
    w.set(500_000_000, 1, running(1, 1, warm));
    w.run(500_000_000, 1_000_000_000);
    assert!(f64::from(w.progress[0]) < 0.95 * f64::from(alone), "{} after {alone}", w.progress[0]);
    assert!(
        (f64::from(w.progress[0]) / f64::from(w.progress[1]) - 1.0).abs() < 0.05,
        "equal tasks, equal shares"
    );
}

/// The final progress of a task that comes to a cold cache, while a neighbor alternates between two short
/// tasks every `every_ns`.
fn warming_beside_changes_every(every_ns: u64) -> f64 {
    let model = MachineModel::of(Machine::synthetic(1, 1, 2, 1));
    let mut w = Watched::new(&model);
    let (warm, tiny) = (w.system.character(&resident()), Character { working_set: 1 << 10, ..resident() });
    let tiny = w.system.character(&tiny);
    w.set(0, 0, running(0, 0, warm));
    let end_ns = 100_000_000;
    for (i, now_ns) in (0..end_ns).step_by(every_ns as usize).enumerate() {
        w.set(now_ns, 1, running(1 + i as u32 % 2, 1, tiny));
        w.run(now_ns, now_ns + every_ns - 1);
    }
    f64::from(w.progress[0]) / f64::from(ONE)
}

#[test]
fn a_share_reaches_the_same_rest_from_above_and_from_below() {
    let model = MachineModel::shipped("pact16-xeon-e5620").unwrap();
    // The first has the cache alone for this time; then three others come.
    let rest_after = |alone_ns: u64| {
        let mut w = Watched::new(&model);
        let large = w.system.character(&Character { working_set: 24 << 20, ..resident() });
        w.set(0, 0, running(0, 0, large));
        w.run(0, alone_ns);
        (1..4).for_each(|cpu| w.set(alone_ns, cpu, running(cpu, cpu, large)));
        w.run(alone_ns, alone_ns + 500_000_000);
        f64::from(w.progress[0])
    };
    let (below, above) = (rest_after(0), rest_after(500_000_000));
    assert!((above / below - 1.0).abs() < 0.01, "{below} and {above}");
}

#[test]
fn a_long_task_is_evaluated_even_if_its_neighbors_change_often() {
    let (seldom, often) = (warming_beside_changes_every(10_000_000), warming_beside_changes_every(10_000));
    assert!(seldom > 0.9 && (often / seldom - 1.0).abs() < 0.05, "{seldom} and {often}");
}
