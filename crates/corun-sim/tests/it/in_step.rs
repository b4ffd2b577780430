//! Threads of a program that meet again and again share lines while they are in step. In a solo run they
//! always are, and among co-runners only for a while.

use crate::rig::scenario;
use corun_model::observation::Observation;
use corun_sim::scenario::{Participants, Scenario};

const MS: u64 = 1_000_000;

/// The observation of half a second.
fn run(s: &Scenario) -> Observation {
    let mut e = s.engine(1, Participants::All, 0).unwrap();
    e.paranoid = true;
    e.run_until(500 * MS).unwrap();
    e.observe()
}

/// The same on a machine whose private caches hold everything, so that no thread is ever out of step.
fn run_with_endless_caches(mut s: Scenario) -> Observation {
    s.machine.l2_bytes = 1 << 60;
    run(&s)
}

/// Instructions of the first tenant, and the lines that its threads took from each other.
fn counted(seen: &Observation) -> [f64; 2] {
    let c = seen.by_tenant[0].account.counters.as_ref().unwrap();
    let taken = c.coherence_intra.unwrap() + c.coherence_inter.unwrap();
    [c.instructions.unwrap() as f64, taken as f64]
}

fn on(machine: &str, program: &str, how: &str, others: &str) -> Scenario {
    scenario(&format!(
        "machine = \"{machine}\"\nduration = \"500ms\"\n[[tenant]]\nname = \"subject\"\nworkload = \"workloads/papers/{program}.toml\"\n{how}{others}"
    ))
}

/// The counts may differ slightly: the order in which equal rates are computed sometimes shifts a wake-up of
/// the cache model.
#[test]
fn alone_no_thread_is_ever_out_of_step() {
    let on_the_xeon = ["lu", "sp", "ua", "cg", "streamcluster", "canneal", "facesim", "lubench"];
    let elsewhere = [
        ("atc16-ivybridge-40", "sgd"),
        ("cc-magny-cours-48", "streamcluster"),
        ("cc-sandybridge", "streamcluster"),
    ];
    let all = on_the_xeon.map(|program| ("pact16-xeon-e5620", program));
    for (machine, program) in all.into_iter().chain(elsewhere) {
        for how in ["", "vm = { vcpus = 4 }\n"] {
            let s = || on(machine, program, how, "");
            let (ours, in_step) = (counted(&run(&s())), counted(&run_with_endless_caches(s())));
            for (a, b) in ours.iter().zip(in_step) {
                assert!(
                    *a > 0.0 && (a / b - 1.0).abs() < 1e-4,
                    "{program} on {machine}, {how}: {ours:?} {in_step:?}"
                );
            }
        }
    }
}

const BESIDE_LOOPS: &str =
    "[[tenant]]\nname = \"loop\"\nprogram = { kind = \"interference\", pattern = \"intermittent\", threads = 4 }\ncpus = [0, 1, 2, 3]\n";

#[test]
fn among_others_threads_are_out_of_step_and_the_same_seed_gives_the_same_bytes() {
    for program in ["ua", "sp", "streamcluster"] {
        let s = || on("pact16-xeon-e5620", program, "cpus = [0, 1, 2, 3]\n", BESIDE_LOOPS);
        let (first, in_step) = (run(&s()), run_with_endless_caches(s()));
        let [[instructions, taken], [then, taken_then]] = [counted(&first), counted(&in_step)];
        assert!(taken / instructions < 0.98 * taken_then / then, "{program}");
        let bytes = format!("{first:?}");
        assert!((0..20).all(|_| format!("{:?}", run(&s())) == bytes), "{program}");
    }
}
