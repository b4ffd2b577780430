//! The calibration points of the papers, from the shipped machine and workload files: only solo runs and
//! micro-benchmarks. What programs do to each other is a prediction, and not asserted here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use corun_model::workload::{Character, Program, Sync, Workload};
use corun_model::{Counters, CpuId, Distance, Machine};
use corun_sim::contention::{Running, System, ONE};
use corun_sim::machine_file::{MachineModel, SHIPPED};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// The text of every TOML file of a folder, by its stem.
fn files(name: &str) -> BTreeMap<String, String> {
    let text = |path: PathBuf| {
        let stem = path.file_stem()?.to_str()?.to_string();
        (path.extension()? == "toml").then(|| (stem, std::fs::read_to_string(&path).unwrap()))
    };
    std::fs::read_dir(folder(name)).unwrap().filter_map(|e| text(e.unwrap().path())).collect()
}

fn preset(name: &str) -> Workload {
    let path = folder("workloads/papers").join(format!("{name}.toml"));
    Workload::parse(name, &std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The first character of a preset's threads.
fn first_character(name: &str) -> Character {
    let w = preset(name);
    w.phase.first().map_or(w.character, |phase| phase.character.clone())
}

fn machine(name: &str) -> MachineModel {
    MachineModel::shipped(name).unwrap()
}

/// A second of a steady state.
struct Steady {
    /// Solo work per second of the slowest thread.
    progress: f64,
    /// Stall cycles per transfer of the first thread.
    spc: Option<f64>,
    inter_per_cycle: f64,
    ipc: f64,
    /// Bytes per second between all threads and DRAM.
    bandwidth: f64,
}

/// Runs one thread on each of `cpus` until the caches have settled, then for a second. `program` gives the sharing
/// group of the n-th thread.
fn steady(model: &MachineModel, cpus: &[u32], c: &Character, program: impl Fn(u32) -> u32) -> Steady {
    let mut system = System::new(model);
    let character = system.character(c);
    let mut progress = vec![ONE; model.machine.cpu_count()];
    for (task, cpu) in (0..).zip(cpus) {
        system.set(0, *cpu, Some(Running { task, program: program(task), character, spinning: false }));
    }
    let (mut changed, mut next_ns) = (Vec::new(), Some(0));
    let mut read = |until_ns| {
        while let Some(now) = next_ns.filter(|n| *n < until_ns) {
            system.refresh(now, &mut changed);
            changed.drain(..).for_each(|r| progress[r.cpu as usize] = r.progress);
            next_ns = system.next_ns();
        }
        (0..cpus.len() as u32).map(|t| system.counters(until_ns, t)).collect::<Vec<_>>()
    };
    let (before, after) = (read(2_000_000_000), read(3_000_000_000));
    let of = |task: usize, field: fn(&Counters) -> Option<u64>| {
        (field(&after[task]).unwrap() - field(&before[task]).unwrap()) as f64
    };
    let (cycles, inter) = (of(0, |c| c.cycles), of(0, |c| c.coherence_inter));
    Steady {
        progress: f64::from(cpus.iter().map(|c| progress[*c as usize]).min().unwrap()) / f64::from(ONE),
        spc: (inter > 0.0).then(|| of(0, |c| c.l2_stall_cycles) / inter),
        inter_per_cycle: inter / cycles,
        ipc: of(0, |c| c.instructions) / cycles,
        bandwidth: (0..cpus.len()).map(|t| of(t, |c| c.dram_bytes)).sum(),
    }
}

fn close(what: &str, got: f64, paper: f64, tolerance: f64) {
    println!("{what}: paper {paper}, here {got:.4}");
    assert!((got / paper - 1.0).abs() <= tolerance, "{what}: paper {paper}, here {got}");
}

/// CPUs in the order in which a scheduler that spreads load fills an idle machine: domains in turn, hyperthreads last.
fn spread(machine: &Machine) -> Vec<u32> {
    let (mut in_core, mut in_llc) = (BTreeMap::new(), BTreeMap::new());
    let mut order: Vec<(u32, u32, u32, u32)> = (0..)
        .zip(machine.cpus())
        .map(|(i, c)| {
            let thread = *in_core.entry(c.core).and_modify(|n| *n += 1).or_insert(0u32);
            let place = *in_llc.entry((thread, c.llc)).and_modify(|n| *n += 1).or_insert(0u32);
            (thread, place, c.llc, i)
        })
        .collect();
    order.sort_unstable();
    order.into_iter().map(|o| o.3).collect()
}

#[test]
fn every_machine_and_every_preset_parses_and_carries_its_file_name() {
    let machines = files("machines");
    for (name, text) in &machines {
        let m = MachineModel::parse(name, text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(&m.machine.name, name);
        assert!(m.power.is_some() && !m.about.is_empty(), "{name}");
    }
    for (name, _) in SHIPPED {
        assert!(machines.contains_key(name), "{name}");
    }
    let presets = files("workloads/papers");
    assert!(presets.len() >= 50, "{}", presets.len());
    for (name, text) in &presets {
        let w = Workload::parse(name, text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(&w.name, name);
        assert!(
            text.contains("# Paper") && text.contains("Assumption"),
            "{name} does not say what is assumed"
        );
        for on in &w.on {
            assert!(MachineModel::shipped(&on.machine).is_some(), "{name}: no machine `{}`", on.machine);
        }
    }
}

#[test]
fn figure_1_of_atc16_is_met() {
    let m = machine("atc16-ivybridge-40");
    assert_eq!(m.machine.distance(CpuId(0), CpuId(10)), Distance::OtherSocket);
    assert_eq!(m.machine.distance(CpuId(0), CpuId(20)), Distance::SameCore);
    let run = |name, cpus: &[u32]| steady(&m, cpus, &preset(name).character, |_| 0);
    for (name, spc, speed_up) in [("fig1-high-ilp", 436.0, 1.5), ("fig1-low-ilp", 677.0, 2.4)] {
        let (two, one) = (run(name, &[0, 10]), run(name, &[0, 1]));
        close("coherence events per cycle", two.inter_per_cycle, 1.2e-3, 0.01);
        close("SPC", two.spc.unwrap(), spc, 0.01);
        close("speed-up on one socket", one.progress / two.progress, speed_up, 0.02);
    }
    // Section 3.2, no numbers: with high ILP a shared core is worse than two cores of one socket, with low ILP and
    // an SPC beyond 550 it is better.
    assert!(run("fig1-high-ilp", &[0, 20]).progress < run("fig1-high-ilp", &[0, 1]).progress);
    assert!(run("fig1-low-ilp", &[0, 20]).progress > run("fig1-low-ilp", &[0, 1]).progress);
}

#[test]
fn table_1_of_atc16_is_met() {
    let m = machine("atc16-ivybridge-40");
    for (name, spc) in [("hubench", 745.0), ("lubench", 367.0)] {
        // A pair on two sockets.
        close(name, steady(&m, &[0, 10], &preset(name).character, |_| 0).spc.unwrap(), spc, 0.01);
    }
    let all: Vec<u32> = (0..20).collect();
    for (name, spc) in [("sgd", 398.0), ("bsgd", 421.0), ("lsgd", 455.0), ("rbm", 403.0), ("svd", 442.0)] {
        // Its first phase is that of high communication.
        let s = steady(&m, &all, &first_character(name), |_| 0);
        close(name, s.spc.unwrap(), spc, 0.01);
        assert!(s.inter_per_cycle > 0.78e-3, "{name} has high coherence activity");
    }
    for name in ["pmf", "als", "lubench"] {
        // Threads t and t + 10 of LuBench are a pair, on two sockets.
        let pairs = name == "lubench";
        let s = steady(&m, &all, &first_character(name), |t| if pairs { t % 10 } else { 0 });
        assert!(s.inter_per_cycle < 0.78e-3 && s.ipc > 0.9, "{name}: moderate activity, high IPC");
    }
}

/// Where a loop of figure 1 begins to be faster with both threads on one core than on two CPUs elsewhere.
/// Returns what it does on two sockets there. More of its work becomes transfers until that point.
fn crossing(name: &str, elsewhere: [u32; 2]) -> Steady {
    let m = machine("atc16-ivybridge-40");
    let run = |cpus: &[u32], pki: f64| {
        let c = Character { coherence_pki: pki, ..preset(name).character };
        steady(&m, cpus, &c, |_| 0)
    };
    let (mut below, mut above) = (0.01, 40.0);
    for _ in 0..20 {
        let pki = (below + above) / 2.0;
        let pays = run(&[0, 20], pki).progress > run(&elsewhere, pki).progress;
        *(if pays { &mut above } else { &mut below }) = pki;
    }
    run(&[0, 10], above)
}

#[test]
fn figure_1_of_atc16_crosses_at_the_thresholds_that_the_paper_reads_from_it() {
    // Only figure 1's points at 1.2e-3 events per cycle are inputs; the curve of a shared core is not.
    let (sockets, cores) = (crossing("fig1-high-ilp", [0, 10]), crossing("fig1-high-ilp", [0, 1]));
    close(
        "high ILP, a core against two sockets: activity, by 1e-3",
        1e3 * sockets.inter_per_cycle,
        0.78,
        0.15,
    );
    println!("high ILP, a core against two of a socket: activity {:.2e}", cores.inter_per_cycle);
    close("high ILP, a core against two of a socket: IPC", cores.ipc, 0.9, 0.05);
    let (sockets, cores) = (crossing("fig1-low-ilp", [0, 10]), crossing("fig1-low-ilp", [0, 1]));
    println!("low ILP: {:.2e}; {:.2e}, IPC {:.2}", sockets.inter_per_cycle, cores.inter_per_cycle, cores.ipc);
    assert!(sockets.inter_per_cycle < 0.4e-3 && cores.inter_per_cycle < 0.78e-3, "it pays earlier");
}

#[test]
fn a_higher_spc_means_a_higher_gain_from_one_socket_except_for_a_program_that_computes() {
    let m = machine("atc16-ivybridge-40");
    let two: Vec<u32> = (0..20).collect();
    let one: Vec<u32> = (0..10).chain(20..30).collect();
    let gain = |c: &Character, program: &dyn Fn(u32) -> u32| {
        steady(&m, &one, c, program).progress / steady(&m, &two, c, program).progress - 1.0
    };
    let all_with_all = |name: &str| gain(&first_character(name), &|_| 0);
    let by_spc = ["sgd", "bsgd", "svd", "lsgd"].map(all_with_all);
    println!("one socket over two, SGD, BSGD, SVD, LSGD (by SPC): {by_spc:.3?}");
    assert!(by_spc.is_sorted() && by_spc[3] > by_spc[0] + 0.02, "{by_spc:?}: section 5.2");
    // Section 5.4: placing SGD apart costs 18 %.
    assert!((0.10..0.25).contains(&(1.0 - 1.0 / (1.0 + by_spc[0]))), "{by_spc:?}");
    let rbm = preset("rbm").phase.iter().map(|p| gain(&p.character, &|_| 0)).collect::<Vec<_>>();
    println!("RBM by phase: {rbm:.3?}");
    assert!(rbm[0] < by_spc[0] && rbm[1] < -0.1, "{rbm:?}: its compute-heavy phases lose (section 5.2)");
    // Threads t and t + 10 are a pair: on two sockets, or on the two contexts of a core.
    let lubench = gain(&preset("lubench").character, &|t| t % 10);
    println!("LuBench: {lubench:.3}");
    assert!(lubench < -0.05, "{lubench}: its threads want a core each (section 5.2)");
}

#[test]
fn table_1_of_atc16_limits_how_few_lines_there_can_be() {
    let m = machine("atc16-ivybridge-40");
    let all: Vec<u32> = (0..20).collect();
    let spc = |lines: u32, hidden: f64| {
        let c = Character { hot_lines: lines, hidden, ..first_character("sgd") };
        steady(&m, &all, &c, |_| 0).spc.unwrap()
    };
    // A thread that waits for lines has less of their latency left to expose. So more has to be hidden, until
    // that is not enough.
    close("64 lines", spc(64, 0.851), 398.0, 0.01);
    close("40 lines", spc(40, 0.919), 398.0, 0.01);
    let least = spc(32, 1.0);
    println!("32 lines and everything hidden: {least:.0}");
    assert!(least > 1.05 * 398.0, "{least}");
}

#[test]
fn ten_membenches_saturate_a_socket_and_gain_from_two() {
    let m = machine("atc16-ivybridge-40");
    let c = preset("membench").character;
    let one = steady(&m, &(0..10).collect::<Vec<_>>(), &c, |_| 0);
    let two = steady(&m, &(5..15).collect::<Vec<_>>(), &c, |_| 0);
    assert!(one.bandwidth > 0.9 * m.node_bandwidth as f64, "{}", one.bandwidth);
    assert!(one.bandwidth <= m.node_bandwidth as f64);
    assert!(two.progress > 1.15 * one.progress, "{} {}", one.progress, two.progress);
}

/// The threads of a parallel program or a simulation.
fn threads_of(w: &Workload) -> u32 {
    match &w.program {
        Program::Parallel(p) => p.threads,
        Program::Pdes(p) => p.threads,
        _ => panic!("{} is neither a parallel program nor a simulation", w.name),
    }
}

/// Seconds of a solo run with spread threads: the steady rate of each phase, and the time of the slowest of
/// `threads` uniformly drawn grains. Start, end, the cost of waiting and what a simulation takes back are
/// left out.
fn solo_seconds(model: &MachineModel, w: &Workload) -> f64 {
    let threads = threads_of(w);
    let one_socket = model.machine.name.starts_with("pact16");
    let cpus = if one_socket { (0..4).collect() } else { spread(&model.machine) };
    let cpus = &cpus[..cpus.len().min(threads as usize)];
    let phases: Vec<(u64, &Character)> = match w.phase.as_slice() {
        [] => vec![(1, &w.character)],
        phases => phases.iter().map(|p| (p.rounds, &p.character)).collect(),
    };
    let rounds: u64 = phases.iter().map(|p| p.0).sum();
    let time =
        |(n, c): &(u64, &Character)| *n as f64 / rounds as f64 / steady(model, cpus, c, |_| 0).progress;
    let stretch: f64 = phases.iter().map(time).sum();
    let threads = f64::from(threads);
    let crowd = (threads / cpus.len() as f64).max(1.0);
    let seconds = |grain: u64| grain as f64 / 1e9 * stretch;
    match &w.program {
        Program::Pdes(p) => seconds(p.grain) * crowd / threads * p.iterations as f64,
        Program::Parallel(p) => {
            let grain = seconds(p.grain);
            let round = match p.sync {
                Sync::Barrier => grain * crowd * (1.0 + p.imbalance * (threads - 1.0) / (threads + 1.0)),
                Sync::Queue | Sync::Steal => grain * crowd / threads,
                Sync::Pipeline => {
                    let narrowest = f64::from(p.threads / p.stages);
                    (grain * f64::from(p.stages) * crowd / threads).max(grain / narrowest)
                }
                Sync::Lock | Sync::None => grain * crowd,
            };
            round * p.iterations as f64
        }
        _ => unreachable!("`threads_of` knows no other"),
    }
}

#[test]
fn thread_counts_and_solo_seconds_are_those_of_the_papers() {
    let magny =
        "pdes-fm 48 33, pdes-ladm 48 33, blackscholes 48 47, bodytrack 48 35, canneal 32 109, dedup 8 8, \
                 fluidanimate 32 58, streamcluster 8 192, swaptions 48 18, x264 32 13, cc-canneal 32 109, \
                 cc-fluidanimate 32 58, cc-streamcluster 8 192";
    let sandy =
        "pdes-fm 32 34, pdes-ladm 32 33, blackscholes 24 74, bodytrack 24 59, canneal 24 159, dedup 8 17, \
                 fluidanimate 32 67, streamcluster 24 90, swaptions 32 38, x264 24 22, cc-canneal 24 159, \
                 cc-fluidanimate 32 67, cc-streamcluster 24 90";
    let tables =
        [("cc-magny-cours-48", magny), ("cc-sandybridge", sandy), ("pact16-xeon-e5620", "sp 4 1004")];
    for (on, table) in tables {
        for row in table.split(", ") {
            let [name, threads, seconds] = row.split(' ').collect::<Vec<_>>()[..] else { panic!("{row}") };
            let w = preset(name).for_machine(on);
            assert_eq!(threads_of(&w).to_string(), threads, "{name} on {on}");
            let ours = solo_seconds(&machine(on), &w);
            close(&format!("{name} on {on}, seconds"), ours, seconds.parse().unwrap(), 0.05);
        }
    }
}
