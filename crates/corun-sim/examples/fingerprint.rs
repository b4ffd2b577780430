//! The results of runs, as one number for each run: `cargo run --release -p corun-sim --example fingerprint`.
//!
//! It helps to make the engine faster. The scenarios together use every scheduler, way to wait, contention
//! model and knob. The number covers their traces, ledgers, culprits, counters and totals. A change without
//! effect on results prints the same first column. The second column is the number of events that the engine
//! needed, which may fall. The hash is FNV-1a over the text of everything else.

use corun_sim::engine::{Engine, Totals};
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Files, Participants, Scenario};
use std::fmt::Write;
use std::path::Path;

/// The repository's files; `host` is a machine of every level of sharing.
struct Repository;

impl Files for Repository {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        let full = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path.trim_start_matches("../"));
        let text = std::fs::read_to_string(&full).map_err(|e| format!("cannot read {path}: {e}"))?;
        Ok((path.to_string(), text))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Ok(MachineModel::of(corun_model::Machine::synthetic(2, 2, 3, 2)))
    }
}

/// Hashes everything that is written to it.
struct Fnv(u64);

impl Write for Fnv {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        for b in s.bytes() {
            self.0 = (self.0 ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

/// Everything visible of a run of `ns`, observed four times; and its number of events.
fn fingerprint(mut engine: Engine, ns: u64) -> (u64, u64) {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for quarter in 1..=4 {
        engine.run_until(ns / 4 * quarter).expect("no checker fires");
        write!(hash, "{:?}{:?}", engine.observe(), engine.progress()).expect("hashing does not fail");
    }
    let (energy, totals) = (engine.energy(), engine.totals());
    let rest = Totals { events: 0, ..totals };
    write!(hash, "{:?}{:?}{energy:?}", engine.trace(), rest).expect("hashing does not fail");
    (hash.0, totals.events)
}

const MIXED: &str = r#"
[[tenant]]
name = "barrier"
count = 6
program = { kind = "parallel", threads = 5, grain = "300us", imbalance = 0.5 }
character = { llc-refs-pki = 10.0, working-set = "1MiB", coherence-pki = 0.5 }
[[tenant]]
name = "lock"
count = 2
program = { kind = "parallel", threads = 4, sync = "lock", wait = "spin", grain = "150us", critical = 0.4, imbalance = 0.3 }
character = { llc-refs-pki = 20.0, working-set = "8MiB", coherence-pki = 3.0 }
[[tenant]]
name = "stages"
program = { kind = "parallel", sync = "pipeline", stages = 3, threads = 6, wait = "spin-then-block", grain = "400us", imbalance = 0.8 }
[[tenant]]
name = "stealers"
program = { kind = "parallel", sync = "steal", threads = 4, grain = "1ms", imbalance = 0.8, iterations = 100, io = "200us" }
repeat = true
[[tenant]]
name = "stream"
program = { kind = "micro", name = "membench", threads = 3 }
character = { llc-refs-pki = 40.0, compulsory = 1.0, hidden = 0.8 }
[[tenant]]
name = "heavy"
weight = 300
program = { kind = "interference", pattern = "periodic", threads = 3 }
slice = ["1ms", "5ms"]
[[tenant]]
name = "noise"
batch = true
program = { kind = "interference", pattern = "intermittent", busy-min = "100us", busy-max = "3ms", threads = 12 }
[[tenant]]
name = "guest"
vm = { vcpus = 3 }
program = { kind = "parallel", threads = 5, sync = "queue", grain = "2ms", imbalance = 0.5 }
"#;

fn main() {
    let one = |name: String, text: &str, seed: u64, ns: u64| {
        let text = format!("schema = \"corun.scenario/1\"\n{text}");
        let scenario =
            Scenario::parse("scenario", &text, &Repository).unwrap_or_else(|e| panic!("{name}: {e}"));
        let engine = scenario.engine(seed, Participants::All, 1 << 20).expect("the scenario is sound");
        let (hash, events) = fingerprint(engine, ns);
        println!("{hash:016x} {events:>8}  {name}");
    };
    for machine in ["host", "atc16-haswell-80", "pact16-xeon-e5620"] {
        for scheduler in ["eevdf", "cfs", "xen-credit"] {
            for groups in [true, false] {
                let head = format!(
                    "machine = \"{machine}\"\nduration = \"1h\"\n[scheduler]\nname = \"{scheduler}\"\ngroups = {groups}\n"
                );
                let name = format!("mixed, {machine}, {scheduler}, groups {groups}");
                // Enough tasks to outnumber the CPUs of every machine.
                let barriers = if machine.ends_with("-80") { "count = 40" } else { "count = 6" };
                one(name, &(head + &MIXED.replace("count = 6", barriers)), 1, 300_000_000);
            }
        }
    }
    for program in ["lu", "streamcluster", "canneal", "ua", "x264", "raytrace"] {
        for pattern in ["persistent", "periodic", "intermittent"] {
            let vm = "vm = { vcpus = 4 }\ncpus = [0, 1, 2, 3]\n";
            let text = format!(
                "machine = \"pact16-xeon-e5620\"\nduration = \"1h\"\n[scheduler]\nname = \"xen-credit\"\n[[tenant]]\nname = \"subject\"\nworkload = \"workloads/papers/{program}.toml\"\n{vm}[[tenant]]\nname = \"loop\"\nprogram = {{ kind = \"interference\", pattern = \"{pattern}\", threads = 4 }}\n{vm}"
            );
            one(format!("{program} beside {pattern} loops under Xen"), &text, 2, 2_000_000_000);
        }
    }
}
