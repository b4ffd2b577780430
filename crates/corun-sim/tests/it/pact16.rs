//! The findings of PACT'16 §3 on its Xeon under Xen emerge on the modelled one, from the scheduler's rules
//! and the programs' grain, waiting and sharing. None of these inputs contains the paper's figures.

use crate::rig::scenario;
use corun_sim::experiment::{perform, Options, Outcome};
use corun_sim::scenario::Runs;

/// Four threads of a paper's program in a VM of four vCPUs, each pinned to a core, with `loops` interfering threads in a VM pinned
/// alike, for 20 s.
fn beside(program: &str, interference: &str, loops: u32, seeds: &str) -> Outcome {
    let cores = ["[0]", "", "", "[0, 1, 2, 3]"][loops as usize - 1];
    let body = format!(
        "machine = \"pact16-xeon-e5620\"\nseeds = {seeds}\nduration = \"20s\"\n[scheduler]\nname = \"xen-credit\"\nfirst-slice = \"random\"\n[[tenant]]\nname = \"subject\"\nworkload = \"workloads/papers/{program}.toml\"\nvm = {{ vcpus = 4 }}\ncpus = [0, 1, 2, 3]\n[[tenant]]\nname = \"loop\"\nprogram = {{ kind = \"interference\", pattern = \"{interference}\", threads = {loops} }}\nvm = {{ vcpus = {loops} }}\ncpus = {cores}\n"
    );
    perform(&scenario(&body), &Options::default(), &|| {}).unwrap()
}

/// Steal of the thread that shares its core with the loop, relative to its compute time.
fn steal_per_compute(program: &str) -> f64 {
    let outcome = beside(program, "persistent", 1, "[1]");
    let seen = outcome.runs[0].recording.as_ref().unwrap().whole().unwrap().clone();
    let parts = *seen.tasks[0].account.ledger.parts();
    parts.steal_ns as f64 / parts.compute_ns as f64
}

#[test]
fn figure_2_fine_grained_blockers_lose_less_to_a_persistent_loop_than_coarse_ones() {
    let fine: Vec<f64> = ["facesim", "canneal", "streamcluster"].map(steal_per_compute).to_vec();
    let coarse: Vec<f64> = ["fluidanimate", "blackscholes", "swaptions"].map(steal_per_compute).to_vec();
    let most_fine = fine.iter().copied().fold(0.0, f64::max);
    let least_coarse = coarse.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(most_fine < 0.8 * least_coarse, "fine {fine:?}, coarse {coarse:?}");
    // "Intuitively, the ratio of steal and compute time should be 1 if CPU is fairly allocated."
    assert!(coarse.iter().all(|r| (0.8..1.2).contains(r)), "{coarse:?}");
}

/// Compute time for the same work with one persistent loop, relative to a solo run: with the preset's
/// sharing, or with none.
fn compute_change(program: &str, shares: bool) -> f64 {
    let per_work = |others: &str| {
        let body = format!(
            "machine = \"pact16-xeon-e5620\"\nduration = \"20s\"\n[scheduler]\nname = \"xen-credit\"\nfirst-slice = \"random\"\n[[tenant]]\nname = \"subject\"\nworkload = \"workloads/papers/{program}.toml\"\nvm = {{ vcpus = 4 }}\ncpus = [0, 1, 2, 3]\n{others}"
        );
        let mut s = scenario(&body);
        let Runs::Workload(subject) = &mut s.tenants[0].runs else { panic!("a preset is a workload") };
        if !shares {
            subject.character.coherence_pki = 0.0;
        }
        let outcome = perform(&s, &Options::default(), &|| {}).unwrap();
        let run = &outcome.runs[0];
        let seen = run.recording.as_ref().unwrap().whole().unwrap().clone();
        let compute_ns = seen.by_tenant[0].account.ledger.parts().compute_ns;
        compute_ns as f64 / run.progress[0].work_ns as f64
    };
    let one_loop = "[[tenant]]\nname = \"loop\"\nprogram = { kind = \"interference\" }\nvm = { vcpus = 1 }\ncpus = [0]\n";
    per_work(one_loop) / per_work("") - 1.0
}

/// The paper: sp -49, lu -29, bt -19 %. Here the three fall by less, but by more than without taking lines
/// from each other: then only memory is less busy.
#[test]
fn figure_3_spinners_that_share_falsely_compute_less_when_one_of_them_is_slowed() {
    let of = |shares| ["sp", "bt", "lu"].map(|program| compute_change(program, shares));
    let (changes, without) = (of(true), of(false));
    println!("sp, bt, lu: {changes:+.3?}, without sharing {without:+.3?}");
    let [sp, bt, lu] = changes;
    assert!(sp < bt && bt < lu, "sp most, lu least: {changes:?}");
    assert!((-0.25..-0.10).contains(&sp) && (-0.19..-0.08).contains(&bt) && (-0.15..-0.04).contains(&lu));
    for (change, without) in changes.into_iter().zip(without) {
        assert!(without > -0.09 && change < without - 0.03, "{changes:?} {without:?}");
    }
}

/// Slowdown of a program with another one of as many threads on the same cores: the mean over four seeds.
fn beside_program(program: &str, other: &str) -> f64 {
    let body = format!(
        "machine = \"pact16-xeon-e5620\"\nseeds = [1, 2, 3, 4]\nduration = \"20s\"\n[scheduler]\nname = \"xen-credit\"\nfirst-slice = \"random\"\n[[tenant]]\nname = \"subject\"\nworkload = \"workloads/papers/{program}.toml\"\nvm = {{ vcpus = 4 }}\ncpus = [0, 1, 2, 3]\n[[tenant]]\nname = \"background\"\nworkload = \"workloads/papers/{other}.toml\"\nvm = {{ vcpus = 4 }}\ncpus = [0, 1, 2, 3]\n"
    );
    perform(&scenario(&body), &Options::default(), &|| {}).unwrap().tenants[0].slowdown.unwrap().mean
}

#[test]
fn figure_1_facesim_loses_more_to_streamcluster_than_to_fluidanimate_and_lu_more_than_half_to_loops() {
    let [streamcluster, fluidanimate] =
        ["streamcluster", "fluidanimate"].map(|other| beside_program("facesim", other));
    assert!(streamcluster > fluidanimate + 0.1, "{streamcluster:.3} {fluidanimate:.3}");
    let lu = under("lu", "persistent");
    assert!(lu > 2.0, "{lu:.3}");
}

#[test]
fn figure_1_lu_loses_more_to_fluidanimate_than_to_streamcluster() {
    let [streamcluster, fluidanimate] =
        ["streamcluster", "fluidanimate"].map(|other| beside_program("lu", other));
    println!("{streamcluster:.3} {fluidanimate:.3}");
    assert!(fluidanimate > streamcluster + 0.1, "{streamcluster:.3} {fluidanimate:.3}");
}

/// sp's slowdown with four intermittent loops, each on its own core, which take a tenth of the machine. Mean
/// over eight seeds, on the paper's machine or on one with private caches of this size.
fn sp_with_less_of_the_machine(l2_bytes: Option<u64>) -> f64 {
    let loops = [0.05, 0.08, 0.10, 0.15].iter().enumerate().map(|(core, demand)| {
        format!("[[tenant]]\nname = \"loop {core}\"\nprogram = {{ kind = \"interference\", pattern = \"intermittent\", threads = 1, demand = {demand} }}\nvm = {{ vcpus = 1 }}\ncpus = [{core}]\n")
    });
    let body = format!(
        "machine = \"pact16-xeon-e5620\"\nseeds = [1, 2, 3, 4, 5, 6, 7, 8]\nduration = \"20s\"\n[scheduler]\nname = \"xen-credit\"\nfirst-slice = \"random\"\n[[tenant]]\nname = \"subject\"\nworkload = \"workloads/papers/sp.toml\"\nvm = {{ vcpus = 4 }}\ncpus = [0, 1, 2, 3]\n{}",
        loops.collect::<String>()
    );
    let mut s = scenario(&body);
    s.machine.l2_bytes = l2_bytes.unwrap_or(s.machine.l2_bytes);
    perform(&s, &Options::default(), &|| {}).unwrap().tenants[0].slowdown.unwrap().mean
}

#[test]
fn table_2_sp_gains_from_less_of_the_machine_since_its_threads_get_out_of_step() {
    let (slowdown, always_in_step) =
        (sp_with_less_of_the_machine(None), sp_with_less_of_the_machine(Some(1 << 60)));
    println!("{slowdown:.3} {always_in_step:.3}");
    assert!(slowdown < 1.0, "{slowdown:.3}");
    assert!(always_in_step > 1.05, "{always_in_step:.3}");
}

/// Threads that follow each other plane by plane, up to 33 planes apart. NPB LU's flags allow one, with which this does
/// not emerge (docs/pact16.md).
const PLANES: &str = "program = { kind = \"parallel\", threads = 4, sync = \"pipeline\", stages = 4, queue-depth = 33, wait = \"spin\", grain = \"1200us\", imbalance = 0.1 }\ncharacter = { ipc = 1.9, branches-pki = 40.0, mispredicts = 0.003, llc-refs-pki = 22.0, working-set = \"2MiB\", compulsory = 0.5, coherence-pki = 3.0, hidden = 0.8 }";

#[test]
fn figure_6_intermittent_interference_harms_plane_by_plane_threads_least() {
    let slowdown = |pattern: &str| {
        let body = format!(
            "machine = \"pact16-xeon-e5620\"\nseeds = [1, 2, 3]\nduration = \"8s\"\n[scheduler]\nname = \"xen-credit\"\nfirst-slice = \"random\"\n[[tenant]]\nname = \"subject\"\n{PLANES}\nvm = {{ vcpus = 4 }}\ncpus = [0, 1, 2, 3]\n[[tenant]]\nname = \"loop\"\nprogram = {{ kind = \"interference\", pattern = \"{pattern}\", threads = 4 }}\nvm = {{ vcpus = 4 }}\ncpus = [0, 1, 2, 3]\n"
        );
        perform(&scenario(&body), &Options::default(), &|| {}).unwrap().tenants[0].slowdown.unwrap().mean
    };
    let [persistent, periodic, intermittent] = ["persistent", "periodic", "intermittent"].map(slowdown);
    println!("{persistent:.3} {periodic:.3} {intermittent:.3}");
    assert!(intermittent < persistent && intermittent < periodic);
}

/// The paper's result for the two programs that block. It does not name the clock that ends its bursts.
#[test]
fn figure_6_canneal_suffers_most_from_intermittent_interference_and_streamcluster_from_periodic() {
    let slowdown = |program: &str, pattern: &str, clock: &str| {
        let body = format!(
            "machine = \"pact16-xeon-e5620\"\nseeds = [1, 2, 3, 4]\nduration = \"20s\"\n[scheduler]\nname = \"xen-credit\"\nfirst-slice = \"random\"\n[[tenant]]\nname = \"subject\"\nworkload = \"workloads/papers/{program}.toml\"\nvm = {{ vcpus = 4 }}\ncpus = [0, 1, 2, 3]\n[[tenant]]\nname = \"loop\"\nprogram = {{ kind = \"interference\", pattern = \"{pattern}\", busy-by = \"{clock}\", threads = 4 }}\nvm = {{ vcpus = 4 }}\ncpus = [0, 1, 2, 3]\n"
        );
        perform(&scenario(&body), &Options::default(), &|| {}).unwrap().tenants[0].slowdown.unwrap().mean
    };
    for clock in ["cpu", "wall"] {
        let of = |program| {
            ["persistent", "periodic", "intermittent"].map(|pattern| slowdown(program, pattern, clock))
        };
        let (canneal, streamcluster) = (of("canneal"), of("streamcluster"));
        println!("by {clock} time: canneal {canneal:.3?}, streamcluster {streamcluster:.3?}");
        assert!(canneal[2] > canneal[1] && canneal[1] > canneal[0], "{clock}: {canneal:?}");
        assert!(
            streamcluster[1] > streamcluster[2] && streamcluster[2] > streamcluster[0],
            "{clock}: {streamcluster:?}"
        );
    }
}

/// Spin time of a program's threads with four interfering ones, relative to their work: the mean over eight seeds.
fn spin_under(program: &str, pattern: &str) -> f64 {
    let spin = |seed: u32| {
        let outcome = beside(program, pattern, 4, &format!("[{seed}]"));
        let run = &outcome.runs[0];
        let seen = run.recording.as_ref().unwrap().whole().unwrap().clone();
        let spin_ns = seen.by_tenant[0].account.ledger.parts().spin_ns.unwrap();
        spin_ns as f64 / run.progress[0].work_ns as f64
    };
    (1..=8).map(spin).sum::<f64>() / 8.0
}

#[test]
fn figure_6_lu_spins_longest_with_persistent_and_least_with_periodic_interference() {
    let [persistent, periodic, intermittent] =
        ["persistent", "periodic", "intermittent"].map(|pattern| spin_under("lu", pattern));
    println!("{persistent:.3} {periodic:.3} {intermittent:.3}");
    assert!(persistent > 1.2 * intermittent, "{persistent:.3} {intermittent:.3}");
    assert!(intermittent > 1.5 * periodic, "{intermittent:.3} {periodic:.3}");
}

/// Slowdown of a program's threads with four interfering ones: the mean over eight seeds.
///
/// In the paper, intermittent interference also slows lu least. That does not emerge here: periodic
/// interference slows it less (docs/pact16.md).
fn under(program: &str, pattern: &str) -> f64 {
    let seeds = 1..=8;
    let n = seeds.clone().count() as f64;
    seeds
        .map(|seed| beside(program, pattern, 4, &format!("[{seed}]")).tenants[0].slowdown.unwrap().mean / n)
        .sum()
}

#[test]
fn figure_6_intermittent_interference_harms_spinners_less_than_persistent_and_sp_least() {
    for program in ["lu", "sp"] {
        let [persistent, periodic, intermittent] =
            ["persistent", "periodic", "intermittent"].map(|pattern| under(program, pattern));
        println!("{program}: {persistent:.3} {periodic:.3} {intermittent:.3}");
        assert!(intermittent < persistent, "{program}");
        assert!(program == "lu" || intermittent < periodic, "{program}");
    }
}
