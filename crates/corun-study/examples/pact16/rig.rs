//! The paper's machine with a program on it: one node of its Xeon under Xen's credit scheduler, a VM of four vCPUs with the program,
//! and co-runners.

use corun_model::observation::{Observation, TaskObservation, TenantObservation};
use corun_model::workload::draw::bits;
use corun_model::{Counters, Ledger};
use corun_sim::experiment::{co_runs, perform, Options};
use corun_sim::scenario::{Files, Scenario};
pub use corun_study::schedulers::presets::{Presets, NPB, PARSEC};
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use toml::{Table, Value};

/// The default number of runs.
pub const SEEDS: u32 = 4;
/// First slices are whole, as in Xen. Random ones let pCPUs get out of phase (see `xen_credit.rs`).
static WHOLE_SLICES: AtomicBool = AtomicBool::new(false);

/// Runs `make` with whole first slices.
pub fn with_whole_slices<T>(make: impl FnOnce() -> T) -> T {
    WHOLE_SLICES.store(true, Ordering::Relaxed);
    let made = make();
    WHOLE_SLICES.store(false, Ordering::Relaxed);
    made
}

/// One vCPU on each of the node's four cores.
pub const PINNED: &str = "cpus = [0, 1, 2, 3]";

/// A preset, as a scenario's tenant names it.
pub fn preset(name: &str) -> String {
    format!("workload = \"workloads/papers/{name}.toml\"")
}

/// A preset with changes to its `[program]` and its `[character]`. It does not end, since a changed program would end at another time.
pub fn changed(name: &str, change: impl FnOnce(&mut Table, &mut Table)) -> String {
    let (_, text) = Presets.read(&format!("workloads/papers/{name}.toml")).unwrap_or_else(|e| panic!("{e}"));
    let mut file: Table = text.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
    let Some(Value::Table(mut program)) = file.remove("program") else { panic!("{name} has no [program]") };
    let mut character = file.remove("character").map_or_else(Table::new, |c| match c {
        Value::Table(part) => part,
        _ => panic!("{name}'s [character] is no table"),
    });
    program.insert("iterations".into(), Value::Integer(0));
    change(&mut program, &mut character);
    format!("program = {}\ncharacter = {}", Value::Table(program), Value::Table(character))
}

/// A preset whose threads take lines from each other `times` times as often.
pub fn with_sharing(name: &str, times: f64) -> String {
    changed(name, |_, character| {
        let rate = character["coherence-pki"].as_float().expect("a preset says how often it shares");
        character.insert("coherence-pki".into(), Value::Float(rate * times));
    })
}

/// Interfering threads, as a scenario's tenant names them. With a pattern "by wall" bursts end by the wall clock.
pub fn loops(pattern: &str, threads: u32, demand: Option<f64>) -> String {
    let (pattern, clock) = pattern.split_once(" by ").unwrap_or((pattern, "cpu"));
    let demand = demand.map_or(String::new(), |d| format!(", demand = {d}"));
    format!(
        "program = {{ kind = \"interference\", pattern = \"{pattern}\", busy-by = \"{clock}\", threads = {threads}{demand} }}"
    )
}

/// A tenant: a program in a VM. `place` sets where its vCPUs may run.
pub fn vm(name: &str, program: &str, vcpus: u32, place: &str) -> String {
    format!("[[tenant]]\nname = \"{name}\"\n{program}\nvm = {{ vcpus = {vcpus} }}\n{place}\n")
}

/// The program of a figure, on the node's four cores.
pub fn subject(program: &str) -> String {
    vm("subject", program, 4, PINNED)
}

/// Interfering threads, each pinned to a core, in one VM.
pub fn beside(pattern: &str, threads: u32) -> String {
    let cores = if threads == 1 { "cpus = [0]" } else { PINNED };
    vm("loop", &loops(pattern, threads, None), threads, cores)
}

/// Four periodic loops, each in its own VM, whose start within the period depends on the seed.
pub fn apart(seed: u32) -> Vec<String> {
    const PERIOD_US: u64 = 20_000;
    let one = |core: u64| {
        let start_us = bits(u64::from(seed), core, 0) % PERIOD_US;
        let place = format!("cpus = [{core}]\nstart = \"{start_us}us\"");
        vm(&format!("loop {core}"), &loops("periodic", 1, None), 1, &place)
    };
    (0..4).map(one).collect()
}

/// The length of a run.
#[derive(Clone, Copy)]
pub enum Length {
    /// 20 s.
    Short,
    /// Until all tenants that can end have ended.
    Whole,
}

fn scenario(tenants: &[String], seeds: &[u32], length: Length) -> Scenario {
    let duration = match length {
        Length::Short => "duration = \"20s\"\n",
        Length::Whole => "",
    };
    let first = if WHOLE_SLICES.load(Ordering::Relaxed) { "whole" } else { "random" };
    let text = format!(
        "schema = \"corun.scenario/1\"\nmachine = \"pact16-xeon-e5620\"\nseeds = {seeds:?}\n{duration}\
         [scheduler]\nname = \"xen-credit\"\nfirst-slice = \"{first}\"\n{}",
        tenants.concat()
    );
    Scenario::parse("figure", &text, &Presets).unwrap_or_else(|e| panic!("{e}"))
}

/// Solo work per time of the first tenant in 20 s, one value per seed.
pub fn speeds(tenants: &[String], seeds: u32) -> Vec<f64> {
    let seeds: Vec<u32> = (1..=seeds).collect();
    let runs = co_runs(&scenario(tenants, &seeds, Length::Short)).unwrap_or_else(|e| panic!("{e}"));
    runs.iter().map(|run| run.progress[0].work_ns as f64 / run.end_ns as f64).collect()
}

/// The observations of a run.
pub struct Seen {
    whole: Observation,
    /// Solo work of all threads of the first tenant, in nanoseconds.
    pub work_ns: f64,
    /// When the first tenant ended, in nanoseconds. `None` if it did not.
    pub took_ns: Option<u64>,
}

impl Seen {
    /// The first tenant.
    pub fn subject(&self) -> &TenantObservation {
        &self.whole.by_tenant[0]
    }

    /// The share of its threads' time in which the first tenant waited for a core that one of its own threads held.
    pub fn stolen_by_itself(&self) -> f64 {
        let (id, account) = (self.subject().id, &self.subject().account);
        account.culprits.of_ns(id) as f64 / account.ledger.total_ns() as f64
    }

    /// The idle share of the first `cores` cores.
    pub fn idle_share(&self, cores: usize) -> f64 {
        let all = &self.whole.cpus[..cores];
        let idle_ns: u64 = all.iter().map(|c| c.idle_ns).sum();
        idle_ns as f64 / (self.whole.window_ns() as f64 * cores as f64)
    }

    /// The thread that shares its core with the first loop.
    pub fn slowed(&self) -> &TaskObservation {
        &self.whole.tasks[0]
    }
}

/// Runs the same tenants with each seed.
pub fn seen(tenants: &[String], seeds: u32, length: Length) -> Vec<Seen> {
    recorded(|seed| scenario(tenants, &[seed], length), seeds)
}

/// Runs tenants that depend on the seed, for 20 s.
pub fn seen_by_seed(tenants: impl Fn(u32) -> Vec<String> + Sync, seeds: u32) -> Vec<Seen> {
    recorded(|seed| scenario(&tenants(seed), &[seed], Length::Short), seeds)
}

/// Runs the same tenants with each seed for 20 s, on a machine with Xen's `timer_slop` and disturbed cores, as on the live machine in
/// docs/pact16.md: interruptions of bursts take 36 µs on average, with a standard deviation of 0.3 ms.
pub fn seen_disturbed(tenants: &[String], seeds: u32) -> Vec<Seen> {
    let disturbed = |seed: u32| {
        let mut s = scenario(tenants, &[seed], Length::Short);
        let costs = &mut s.machine.costs;
        (costs.timer_late_ns, costs.noise_ns, costs.noise_every_ns) = (50_000, 2_000_000, 580_000_000);
        s
    };
    recorded(disturbed, seeds)
}

/// One run with each seed, since only the first seed of a scenario is recorded.
fn recorded(of: impl Fn(u32) -> Scenario + Sync, seeds: u32) -> Vec<Seen> {
    let one = |seed: u32| {
        let outcome = perform(&of(seed), &Options::default(), &|| {});
        let mut outcome = outcome.unwrap_or_else(|e| panic!("{e}"));
        let run = outcome.runs.remove(0);
        Seen {
            whole: run
                .recording
                .as_ref()
                .and_then(|r| r.whole())
                .expect("the first seed is recorded")
                .clone(),
            work_ns: run.progress[0].work_ns as f64,
            took_ns: run.progress[0].completions.first.as_ref().map(|c| c.end_ns - c.start_ns),
        }
    };
    (1..=seeds).into_par_iter().map(one).collect()
}

/// The mean of a figure over runs.
pub fn mean<T>(of: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    of.iter().map(figure).sum::<f64>() / of.len() as f64
}

/// The time of threads by category, per nanosecond of solo work.
#[derive(Clone, Copy, Debug)]
pub struct Breakdown {
    pub compute: f64,
    pub sync: f64,
    pub steal: f64,
}

impl Breakdown {
    /// The breakdown of all threads of the first tenant, as a mean over runs.
    pub fn of_all(runs: &[Seen]) -> Breakdown {
        Breakdown::of(runs, |run| (&run.subject().account.ledger, run.work_ns))
    }

    /// The breakdown of the slowed thread, with the work shared equally by four.
    pub fn of_slowed(runs: &[Seen]) -> Breakdown {
        Breakdown::of(runs, |run| (&run.slowed().account.ledger, run.work_ns / 4.0))
    }

    fn of<'a>(runs: &'a [Seen], part: impl Fn(&'a Seen) -> (&'a Ledger, f64)) -> Breakdown {
        let share = |time_ns: fn(&Ledger) -> u64| {
            let each = runs.iter().map(|run| {
                let (ledger, work_ns) = part(run);
                time_ns(ledger) as f64 / work_ns
            });
            each.sum::<f64>() / runs.len() as f64
        };
        Breakdown {
            compute: share(|l| l.parts().compute_ns),
            sync: share(|l| l.parts().spin_ns.unwrap_or(0) + l.parts().block_ns),
            steal: share(|l| l.parts().steal_ns),
        }
    }

    pub fn time(&self) -> f64 {
        self.compute + self.sync + self.steal
    }
}

/// A counter per solo work of the program: of the slowed thread, or of all threads.
pub fn per_work(runs: &[Seen], slowed: bool, counter: impl Fn(&Counters) -> Option<u64>) -> f64 {
    mean(runs, |run| {
        let account = if slowed { &run.slowed().account } else { &run.subject().account };
        let counters = account.counters.as_ref().expect("a modelled machine has counters");
        counter(counters).expect("and this one") as f64 / run.work_ns
    })
}
