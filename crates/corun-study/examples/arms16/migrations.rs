//! Figures 1 and 2: how often eight VMs on eight CPUs are moved.
//!
//! In the paper's description all VMs always compute, so none would ever be moved. The paper recorded a real
//! machine, on which more ran than it names. So this looks for the cause of moves: threads of a VM's QEMU
//! that wake up, and pauses of the vCPU itself. The paper does not say how often either happened. Presets
//! contain the threads of an idle Linux, and of a QEMU that redraws. Each case runs under the paper's kernel,
//! which is the default of the machine, and under the last kernel with CFS.

use crate::{account, mean, percent, run_under, seen, vm};
use corun_model::trace::{Trace, TraceKind};
use corun_model::{CpuId, Machine, TaskId, TenantId};
use corun_report::table::Table;
use corun_sim::experiment::{Options, Outcome};
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::Files;
use corun_study::schedulers::presets::Presets;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Table 2 of the paper.
const VMS: [&str; 8] = ["soplex", "soplex", "sphinx3", "sphinx3", "gamess", "gamess", "namd", "namd"];
/// Moves in its minute, between CPUs and between cores.
const PAPER: (f64, f64) = (1066.0, 219.0);

/// A short activity that repeats: its length and its period.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Often {
    us: u64,
    every_ms: u64,
}

/// The activity of the main thread of every QEMU.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Qemu {
    /// It sleeps.
    Never,
    /// It wakes up and computes, wherever the scheduler puts it.
    Wakes(Often),
    /// It redraws a display, as in the preset. The host's own threads are those of an idle Linux.
    Redraws,
}

/// Other activity in every VM.
#[derive(Clone, Copy, Debug)]
struct Disturbance {
    /// The vCPU halts.
    pause: Option<Often>,
    qemu: Qemu,
}

/// The kernels of placement and balancing: the paper's, and the last with CFS.
const KERNELS: [&str; 2] = ["3.8", "6.5"];

/// Serves presets whose programs pause.
struct Pausing(Option<Often>);

impl Files for Pausing {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        let (name, text) = Presets.read(path)?;
        let is_vm = VMS.iter().any(|program| path.ends_with(&format!("/{program}.toml")));
        let Some(Often { us, every_ms }) = self.0.filter(|_| is_vm) else { return Ok((name, text)) };
        let grain = "grain = \"10ms\"";
        assert!(text.contains(grain), "{name} has other grains");
        let pausing = format!("grain = \"{every_ms}ms\"\nimbalance = 0.5\nio = \"{us}us\"");
        Ok((name, text.replace(grain, &pausing)))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Presets.host()
    }
}

/// The name of a VM in tables.
fn name(place: usize) -> String {
    format!("VM{place} {}", VMS[place])
}

/// Runs the paper's VMs for `seconds`, each allowed on all CPUs.
fn eight_vms(linux: &str, disturbance: Disturbance, seed: u64, seconds: u64) -> Outcome {
    let preset = |name: &str| format!("workload = \"workloads/papers/{name}.toml\"\n");
    let mut tenants = String::new();
    for (i, program) in VMS.iter().enumerate() {
        // A VM and its QEMU are one control group.
        let session = format!("session = \"{i}\"\n");
        let does = match disturbance.qemu {
            Qemu::Never => None,
            Qemu::Wakes(Often { us, every_ms }) => {
                let demand = us as f64 / 1e3 / every_ms as f64;
                Some(format!("program = {{ kind = \"interference\", pattern = \"periodic\", busy = \"{us}us\", demand = {demand} }}\n"))
            }
            Qemu::Redraws => Some(preset("qemu-main")),
        };
        let qemu = does.map(|does| format!("[[tenant]]\nname = \"QEMU {i}\"\n{session}{does}"));
        tenants += &format!("{}repeat = true\n{session}{}", vm(&name(i), program), qemu.unwrap_or_default());
    }
    if disturbance.qemu == Qemu::Redraws {
        let all: Vec<usize> = (0..VMS.len()).collect();
        let by_cpu = format!("threads = {}\ncpus = {all:?}\n", all.len());
        tenants += &format!(
            "[[tenant]]\n{}{by_cpu}[[tenant]]\n{}",
            preset("linux-kworker"),
            preset("linux-kthreads")
        );
    }
    let head = format!("seeds = [{seed}]\nduration = \"{seconds}s\"");
    let options = Options { trace_limit: 1 << 21, ..Options::default() };
    run_under(&Pausing(disturbance.pause), linux, &head, &tenants, &options)
}

/// Moves of a VM: between CPUs, and of these between cores.
type Moves = (u64, u64);

/// Moves of a tenant.
fn moves_of(outcome: &Outcome, tenant: &str) -> Moves {
    let all = account(seen(outcome), tenant).events.migrations.expect("the model counts them");
    (all.total(), all.total() - all.same_core)
}

/// The moves of each VM's vCPU.
fn moves(outcome: &Outcome) -> Vec<Moves> {
    (0..VMS.len()).map(|i| moves_of(outcome, &name(i))).collect()
}

/// The moves of the main thread of each VM's QEMU, if it has one.
fn qemu_moves(outcome: &Outcome, disturbance: &Disturbance) -> Vec<Moves> {
    let all = if disturbance.qemu == Qemu::Never { 0 } else { VMS.len() };
    (0..all).map(|i| moves_of(outcome, &format!("QEMU {i}"))).collect()
}

/// The sum over all VMs.
fn sum(moves: &[Moves]) -> (f64, f64) {
    moves.iter().fold((0.0, 0.0), |(cpus, cores), m| (cpus + m.0 as f64, cores + m.1 as f64))
}

/// The share of the time in which VMs are unevenly placed, whether they run, wait or pause.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Crowding {
    /// Two or more VMs are on one CPU, so another CPU has none.
    two_on_a_cpu: f64,
    none_on_a_core: f64,
}

/// The crowding in a trace. A VM is where it ran last.
fn crowding(trace: &Trace, vms: &BTreeSet<TenantId>, machine: &Machine) -> Crowding {
    assert_eq!(trace.lost, 0, "the trace is whole");
    let core = |cpu: &CpuId| machine.cpu(*cpu).expect("a CPU of this machine").core;
    let is_vm = |task: &TaskId| vms.contains(&trace.tasks[task].tenant);
    let mut at = BTreeMap::<TaskId, CpuId>::new();
    let (mut since_ns, mut whole_ns, mut two_ns, mut none_ns) = (0, 0, 0, 0);
    for e in &trace.events {
        let TraceKind::Switch { next: Some(task), .. } = e.kind else { continue };
        if !is_vm(&task) || at.get(&task) == Some(&e.cpu) {
            continue;
        }
        // Before all have run their places are unknown.
        if at.len() == vms.len() {
            let ns = e.t_ns - since_ns;
            let cpus: BTreeSet<CpuId> = at.values().copied().collect();
            let cores: BTreeSet<u32> = at.values().map(core).collect();
            whole_ns += ns;
            two_ns += if cpus.len() < vms.len() { ns } else { 0 };
            none_ns += if cores.len() < machine.count(|c| c.core) { ns } else { 0 };
        }
        at.insert(task, e.cpu);
        since_ns = e.t_ns;
    }
    let share = |ns: u64| ns as f64 / whole_ns.max(1) as f64;
    Crowding { two_on_a_cpu: share(two_ns), none_on_a_core: share(none_ns) }
}

/// Sampling periods of an observer who looks where tasks are, as with `ps`. The paper does not name its own.
const LOOKS_NS: [u64; 3] = [10_000_000, 100_000_000, 1_000_000_000];

/// The moves that an observer sees who looks every `every_ns` where the tasks of some tenants ran last.
fn sampled(trace: &Trace, tenants: &BTreeSet<TenantId>, machine: &Machine, every_ns: u64) -> Moves {
    let core = |cpu: &CpuId| machine.cpu(*cpu).expect("a CPU of this machine").core;
    let (mut at, mut looked) = (BTreeMap::<TaskId, CpuId>::new(), BTreeMap::<TaskId, CpuId>::new());
    let (mut next_ns, mut moves) = (every_ns, (0, 0));
    for e in &trace.events {
        while e.t_ns >= next_ns {
            for (task, cpu) in &at {
                let before = looked.insert(*task, *cpu).filter(|before| before != cpu);
                moves.0 += u64::from(before.is_some());
                moves.1 += u64::from(before.is_some_and(|before| core(&before) != core(cpu)));
            }
            next_ns += every_ns;
        }
        if let TraceKind::Switch { next: Some(task), .. } = e.kind {
            if tenants.contains(&trace.tasks[&task].tenant) {
                at.insert(task, e.cpu);
            }
        }
    }
    moves
}

/// The results of a minute.
struct Minute {
    moves: Vec<Moves>,
    qemu: Vec<Moves>,
    crowding: Crowding,
    /// The sampled moves of both, by sampling period.
    sampled: Vec<[Moves; 2]>,
}

/// Round numbers, since the paper has none.
const SHORT: Often = Often { us: 100, every_ms: 10 };

/// No disturbance, each kind, and both kinds with several lengths and rates.
fn rows() -> Vec<Disturbance> {
    let often = |us, every_ms| Some(Often { us, every_ms });
    let both =
        |pause, qemu: Option<Often>| Disturbance { pause, qemu: qemu.map_or(Qemu::Never, Qemu::Wakes) };
    let redraws = |pause| Disturbance { pause, qemu: Qemu::Redraws };
    let mut rows = vec![both(None, None), redraws(None), redraws(Some(SHORT)), redraws(often(1000, 100))];
    rows.extend([both(None, Some(SHORT)), both(Some(SHORT), None)]);
    rows.extend([50, 100, 200, 300, 400, 500, 600, 1000].map(|us| both(Some(SHORT), often(us, 10))));
    rows.extend([20, 50, 200, 500, 1000].map(|us| both(often(us, 10), Some(SHORT))));
    rows.extend([30, 100].map(|ms| both(often(100, ms), often(100, ms))));
    rows
}

/// Prints the moves of all VMs under every disturbance, and those of each VM under one of them.
pub fn figures_1_and_2() {
    let machine = MachineModel::shipped("arms16-i7-950").expect("it is shipped").machine;
    let seeds: Vec<u64> = (1..=4).collect();
    let minutes = |linux: &str, d: Disturbance| {
        let one = |&seed: &u64| {
            let outcome = eight_vms(linux, d, seed, 60);
            let trace = outcome.runs[0].trace.as_ref().expect("a trace was asked for");
            let called = |name: &str| -> BTreeSet<TenantId> {
                let tenants = seen(&outcome).tenants.iter().filter(|t| t.name.starts_with(name));
                tenants.map(|t| t.id).collect()
            };
            let (vms, qemus) = (called("VM"), called("QEMU"));
            let looks = |every_ns| [&vms, &qemus].map(|tenants| sampled(trace, tenants, &machine, every_ns));
            let (crowding, sampled) = (crowding(trace, &vms, &machine), LOOKS_NS.map(looks).to_vec());
            Minute { moves: moves(&outcome), qemu: qemu_moves(&outcome, &d), crowding, sampled }
        };
        seeds.par_iter().map(one).collect::<Vec<_>>()
    };
    let words =
        |o: Option<Often>| o.map_or("never".to_owned(), |o| format!("{} µs every {} ms", o.us, o.every_ms));
    let wakes = |q: Qemu| match q {
        Qemu::Never => "never".to_owned(),
        Qemu::Wakes(often) => words(Some(often)),
        Qemu::Redraws => "redraws; idle host".to_owned(),
    };
    let share = |cpus: f64, cores: f64| if cpus > 0.0 { format!("{:.2}", cores / cpus) } else { "-".into() };
    let mut table = Table::new(&[
        "Linux",
        "vCPU pauses",
        "QEMU wakes up",
        ">between CPUs",
        ">between cores",
        ">share",
        ">QEMU: CPUs",
        ">cores",
        ">two on a CPU",
        ">none on a core",
    ]);
    let mut looked = Table::new(&[
        "vCPU pauses",
        "QEMU wakes up",
        ">vCPUs, all",
        ">every 10 ms",
        ">100 ms",
        ">1 s",
        ">QEMU, all",
        ">every 10 ms",
        ">100 ms",
        ">1 s",
    ]);
    for d in rows() {
        for linux in KERNELS {
            let minutes = minutes(linux, d);
            let over = |f: &dyn Fn(&Minute) -> f64| mean(&minutes.iter().map(f).collect::<Vec<_>>());
            let (cpus, cores) = (over(&|m| sum(&m.moves).0), over(&|m| sum(&m.moves).1));
            let of_qemu = [over(&|m| sum(&m.qemu).0), over(&|m| sum(&m.qemu).1)];
            let (two, none) = (over(&|m| m.crowding.two_on_a_cpu), over(&|m| m.crowding.none_on_a_core));
            let counts = [format!("{cpus:.0}"), format!("{cores:.0}"), share(cpus, cores)];
            if linux == KERNELS[0] {
                let cell = |cpus: f64, cores: f64| format!("{cpus:.0}, {}", share(cpus, cores));
                let of = |look: usize, who: usize| {
                    let of = |m: &Minute| m.sampled[look][who];
                    cell(over(&|m| of(m).0 as f64), over(&|m| of(m).1 as f64))
                };
                let of_all = |who: usize| (0..LOOKS_NS.len()).map(move |look| of(look, who));
                let row = [words(d.pause), wakes(d.qemu), cell(cpus, cores)].into_iter().chain(of_all(0));
                looked.row(row.chain([cell(of_qemu[0], of_qemu[1])]).chain(of_all(1)));
            }
            let row = [linux.to_owned(), words(d.pause), wakes(d.qemu)].into_iter().chain(counts);
            table.row(row.chain(of_qemu.map(|x| format!("{x:.0}"))).chain([percent(two), percent(none)]));
        }
    }
    let (cpus, cores) = PAPER;
    let paper = [cpus.to_string(), cores.to_string(), share(cpus, cores)];
    table.row(["3.8".to_owned(), "the paper".to_owned(), "does not say".to_owned()].into_iter().chain(paper));
    println!(
        "Figures 1 and 2: moves of eight VMs in a minute under CFS, mean of four seeds\n{}",
        table.text()
    );

    println!(
        "The same under 3.8 as somebody sees it who looks now and then where each is: moves, and the share between cores\n{}",
        looked.text()
    );

    let short = minutes(KERNELS[0], Disturbance { pause: Some(SHORT), qemu: Qemu::Wakes(SHORT) });
    let mut table = Table::new(&["VM", ">between CPUs", ">between cores"]);
    for (i, (cpus, cores)) in short[0].moves.iter().enumerate() {
        table.row([name(i), cpus.to_string(), cores.to_string()]);
    }
    println!("Moves by VM, both 100 µs every 10 ms, seed 1\n{}", table.text());
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::trace::{Left, TraceEvent, TraceTask};

    /// Moves in ten seconds.
    fn moved(linux: &str, pause: Option<Often>, qemu: Option<Often>) -> (f64, f64) {
        let qemu = qemu.map_or(Qemu::Never, Qemu::Wakes);
        sum(&moves(&eight_vms(linux, Disturbance { pause, qemu }, 1, 10)))
    }

    #[test]
    /// The paper's VMs, each allowed on all CPUs, for this long.
    fn eight_vms_on_eight_cpus_are_moved_only_if_vcpus_pause_and_others_wake_up() {
        let moved = |pause, qemu| moved("6.5", pause, qemu);
        assert_eq!(moved(None, None), (0.0, 0.0));
        let (wakeups, pauses, both) =
            (moved(None, Some(SHORT)).0, moved(Some(SHORT), None).0, moved(Some(SHORT), Some(SHORT)).0);
        assert!(both > 50.0 && wakeups.max(pauses) < 0.1 * both, "{wakeups}, {pauses}, both {both}");
    }

    /// Under the balancing of kernels since 5.10, not under that of the paper's (docs/arms16.md).
    #[test]
    fn most_moves_stay_within_a_core_if_woken_threads_end_soon_and_not_otherwise() {
        let share = |us| {
            let (cpus, cores) = moved("6.5", Some(SHORT), Some(Often { us, every_ms: 10 }));
            cores / cpus
        };
        let (short, long) = (share(100), share(1000));
        assert!(short < 0.4 && long > 0.5, "{short:.2} and {long:.2}");
    }

    #[test]
    fn under_the_papers_kernel_woken_threads_stay_on_their_core_and_under_a_later_one_they_go_anywhere() {
        let share = |linux| {
            let d = Disturbance { pause: Some(SHORT), qemu: Qemu::Wakes(SHORT) };
            let (cpus, cores) = sum(&qemu_moves(&eight_vms(linux, d, 1, 10), &d));
            assert!(cpus > 20.0, "{linux}: {cpus} moves");
            cores / cpus
        };
        let (then, later) = (share("3.8"), share("6.5"));
        assert!(then < 0.2 && later > 0.5, "{then:.2} and {later:.2}");
    }

    #[test]
    fn vms_crowd_while_two_have_one_cpu_or_a_core_has_none() {
        let machine = Machine::synthetic(1, 1, 2, 2);
        let mut trace = Trace::default();
        for task in 1..=2 {
            let tenant = TenantId(task);
            let known = TraceTask { name: "cpu 0".into(), process: task, tenant };
            trace.tasks.insert(TaskId(task), known);
        }
        // CPUs 0 and 2 are one core. On two cores, on one core, on one CPU, and on two cores again.
        for (t_ns, task, cpu) in [(0, 1, 0), (10, 2, 1), (30, 2, 2), (60, 2, 0), (100, 2, 1)] {
            let kind = TraceKind::Switch { prev: None, left: Left::Runnable, next: Some(TaskId(task)) };
            trace.events.push(TraceEvent { t_ns, cpu: CpuId(cpu), kind });
        }
        let vms = BTreeSet::from([TenantId(1), TenantId(2)]);
        // With a look at 45 and 90 only the second move is seen, within a core. With one every 5 ns the first is seen too. There is no
        // look after the last.
        assert_eq!(sampled(&trace, &vms, &machine, 45), (1, 0));
        assert_eq!(sampled(&trace, &vms, &machine, 5), (2, 1));
        let found = crowding(&trace, &vms, &machine);
        assert_eq!(found, Crowding { two_on_a_cpu: 40.0 / 90.0, none_on_a_core: 70.0 / 90.0 });
    }
}
