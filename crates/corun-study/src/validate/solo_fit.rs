//! Fits a workload to the solo run of a real program.
//!
//! Method. The solo run has a length, and a number of threads that worked (each had at least a twentieth of
//! the CPU time). Their time on CPUs is known, and how often, how long and on what they blocked. A family of
//! workloads has these threads, this CPU time and about as many blockings: every way to depend on each other,
//! even and uneven work, and three grains. Each runs solo on the modelled machine. The choice is the one
//! nearest in length, share of blocking and number of blockings. No co-run is used.
//!
//! Threads that do little but often (they may read and write for the workers) are modelled with them in the same session, with their
//! bursts. They take very little time. But some kernels give a session more than its share if its threads wake up often: see
//! `corun_sim`'s EEVDF.
//!
//! Limits: all workers are alike, and so are all helpers. No thread waits for a helper. Memory is not modelled. A program of several
//! phases becomes one phase.

use crate::validate::cell::{self, Interferer, Setting};
use crate::validate::file::ValidateStudy;
use crate::validate::modelled::{ModelError, PreparedCell, Take};
use corun_model::observation::TaskObservation;
use corun_model::{Observation, TenantId};
use corun_sim::experiment::all_or_first;
use corun_sim::machine_file::MachineModel;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Threads with less than this share of the program's CPU time are its helpers, and are modelled together. The others are the main
/// threads, and are modelled one by one. They include short stages, so there are more of them than of the workers in
/// [`corun_model::worker`].
const MAIN: f64 = 0.05;
/// A thread below that share is a helper if it blocks at least this often, in times per second of the run.
const HELPS_HZ: f64 = 10.0;
/// The shortest grain that is tried, in nanoseconds.
const SHORTEST_NS: u64 = 20_000;
/// Modelled runs of each candidate.
const PHASES: u64 = 3;
/// The weight of a factor e in the number of blockings, against a factor e in length and a difference of 1 in the share of blocking.
const BLOCKINGS_WEIGH: f64 = 0.1;

/// The profile of a program's solo run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoloProfile {
    /// Length of the run, in nanoseconds.
    pub wall_ns: u64,
    /// Threads that worked.
    pub threads: u32,
    /// Their time on a CPU, in nanoseconds.
    pub on_cpu_ns: u64,
    /// Their time blocked, in nanoseconds.
    pub block_ns: u64,
    /// The part of `block_ns` in which they did not wait for each other: devices, sleep, files.
    pub apart_ns: u64,
    /// How often they left the CPU voluntarily.
    pub yields: u64,
    /// Threads that did little, but often.
    #[serde(default)]
    pub helpers: Helpers,
}

/// Threads that did little, but often, in a solo run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Helpers {
    /// How many there were.
    pub threads: u32,
    /// Their time on a CPU, in nanoseconds.
    pub on_cpu_ns: u64,
    /// How often they left the CPU voluntarily.
    pub yields: u64,
}

/// The workload that imitates a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// A `[[tenant.program.model]]` phase, and a tenant for the helpers if there are any.
    pub phase: String,
    /// Its solo length on the modelled machine, in nanoseconds.
    pub wall_ns: u64,
    /// Its share of blocking in its threads' time, solo.
    pub block: f64,
    /// How often its threads block, solo.
    pub yields: u64,
    /// How far it is from the program (see the method); 0 is equal.
    pub misfit: f64,
}

impl SoloProfile {
    /// Profiles the tasks of `tenant` in the window of its solo run. `None` if no thread worked.
    pub fn of(seen: &Observation, tenant: TenantId, wall_ns: u64) -> Option<SoloProfile> {
        let workers = SoloProfile::main_tasks(seen, tenant);
        let sum = |f: &dyn Fn(&TaskObservation) -> u64| workers.iter().map(|t| f(t)).sum::<u64>();
        let apart = |t: &TaskObservation| t.account.block.as_ref().map_or(0, |b| b.apart_ns());
        (!workers.is_empty()).then(|| SoloProfile {
            wall_ns,
            threads: workers.len() as u32,
            on_cpu_ns: sum(&|t| t.account.ledger.on_cpu_ns()),
            block_ns: sum(&|t| t.account.ledger.parts().block_ns),
            apart_ns: sum(&apart),
            yields: sum(&yields_of),
            helpers: Helpers::of(seen, tenant, &workers, wall_ns),
        })
    }

    /// The main threads of `tenant`.
    pub fn main_tasks(seen: &Observation, tenant: TenantId) -> Vec<&TaskObservation> {
        let own = || seen.tasks.iter().filter(|t| t.tenant == tenant);
        let on_cpu = |t: &TaskObservation| t.account.ledger.on_cpu_ns();
        let all_ns: u64 = own().map(on_cpu).sum();
        own().filter(|t| on_cpu(t) > 0 && on_cpu(t) as f64 >= MAIN * all_ns as f64).collect()
    }

    /// The share of blocking in the time of its workers, 0 to 1.
    pub fn block(&self) -> f64 {
        self.block_ns as f64 / (self.on_cpu_ns + self.block_ns).max(1) as f64
    }

    /// The family of workloads.
    fn candidates(&self) -> Vec<String> {
        let threads = u64::from(self.threads);
        let dependences: &[&str] = match threads {
            1 => &["sync = \"none\"\n"],
            _ => &[
                "sync = \"none\"\n",
                "sync = \"queue\"\n",
                "sync = \"steal\"\n",
                "sync = \"barrier\"\n",
                "sync = \"lock\"\ncritical = 0.1\n",
                "sync = \"lock\"\ncritical = 0.3\n",
                "sync = \"lock\"\ncritical = 0.6\n",
            ],
        };
        let mut all = Vec::new();
        for factor in [0.5, 1.0, 2.0] {
            let longest_ns = self.on_cpu_ns / threads;
            let grain_ns = (self.on_cpu_ns as f64 * factor / self.yields.max(1) as f64) as u64;
            let grain_ns = grain_ns.clamp(SHORTEST_NS.min(longest_ns), longest_ns).max(1);
            let grains = (self.on_cpu_ns / grain_ns).max(threads);
            for dependence in dependences {
                let shared = dependence.contains("queue") || dependence.contains("steal");
                let iterations = if shared { grains } else { (grains / threads).max(1) };
                for imbalance in [0.0, 0.5, 1.0] {
                    all.push(format!(
                        "threads = {threads}\n{dependence}wait = \"block\"\ngrain = \"{grain_ns}ns\"\n\
                         imbalance = {imbalance:?}\niterations = {iterations}\nsleep = \"{}ns\"\n",
                        self.apart_ns / grains
                    ));
                }
            }
        }
        all
    }
}

fn yields_of(t: &TaskObservation) -> u64 {
    t.account.events.blocked.unwrap_or(0)
}

impl Helpers {
    fn of(seen: &Observation, tenant: TenantId, workers: &[&TaskObservation], wall_ns: u64) -> Helpers {
        let works = |t: &TaskObservation| workers.iter().any(|w| w.id == t.id);
        let often = HELPS_HZ * wall_ns as f64 / 1e9;
        let helps = |t: &&TaskObservation| {
            t.tenant == tenant
                && !works(t)
                && yields_of(t) as f64 >= often
                && t.account.ledger.on_cpu_ns() > 0
        };
        let all = || seen.tasks.iter().filter(helps);
        Helpers {
            threads: all().count() as u32,
            on_cpu_ns: all().map(|t| t.account.ledger.on_cpu_ns()).sum(),
            yields: all().map(yields_of).sum(),
        }
    }

    /// A tenant like the helpers, in the session of the program. Empty without helpers.
    fn tenant(&self, wall_ns: u64) -> String {
        if self.threads == 0 {
            return String::new();
        }
        let burst_ns = (self.on_cpu_ns / self.yields.max(1)).max(1);
        let demand = self.on_cpu_ns as f64 / (u64::from(self.threads) * wall_ns.max(1)) as f64;
        format!(
            "[[tenant]]\nname = \"subject's helpers\"\nsession = \"subject\"\nbackground = true\n[tenant.program]\n\
             kind = \"interference\"\npattern = \"periodic\"\nthreads = {}\nbusy = \"{burst_ns}ns\"\ndemand = {:?}\n",
            self.threads,
            demand.min(1.0)
        )
    }
}

/// Finds the workload nearest to `profile` of program `name`.
///
/// # Errors
/// [`ModelError`].
pub fn fit(
    name: &str,
    profile: &SoloProfile,
    study: &ValidateStudy,
    machine: &MachineModel,
    setting: &Setting,
) -> Result<Fitted, ModelError> {
    // This makes only solo runs, but a scenario needs an interferer.
    let nobody = Interferer { pattern: "persistent".into(), demand: None, threads: 1 };
    let alone = |candidate: String| -> Result<Fitted, ModelError> {
        let phase =
            format!("[[tenant.program.model]]\n{candidate}{}", profile.helpers.tenant(profile.wall_ns));
        let scenario = cell::scenario(name, setting, &nobody, &phase);
        let prepared = PreparedCell::new(study, name, &scenario, machine, setting)?;
        let runs: Result<Vec<_>, ModelError> =
            (0..PHASES).map(|phase| prepared.run(Take { seed: 1, phase, alone: true })).collect();
        let runs = runs?;
        let wall_ns = runs.iter().map(|r| r.wall_ns).sum::<u64>() / PHASES;
        let block = runs.iter().map(|r| r.ledger.block).sum::<f64>() / PHASES as f64;
        let yields = runs.iter().map(|r| r.yields).sum::<u64>() / PHASES;
        let factor = |a: u64, b: u64| (a.max(1) as f64 / b.max(1) as f64).ln().abs();
        let misfit = factor(wall_ns, profile.wall_ns)
            + (block - profile.block()).abs()
            + BLOCKINGS_WEIGH * factor(yields, profile.yields);
        Ok(Fitted { phase, wall_ns, block, yields, misfit })
    };
    let all: Vec<Fitted> = all_or_first(profile.candidates().into_par_iter().map(alone).collect())?;
    let best = all.into_iter().min_by(|a, b| a.misfit.total_cmp(&b.misfit));
    Ok(best.expect("the family is never empty"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::file::VALIDATE;
    use corun_model::Machine;

    fn fitted(profile: SoloProfile) -> Fitted {
        let study = ValidateStudy::parse("v", VALIDATE).unwrap();
        let machine = MachineModel::of(Machine::synthetic(1, 1, 2, 1));
        fit("p", &profile, &study, &machine, &Setting::default()).unwrap()
    }

    #[test]
    fn a_program_that_never_waits_is_fitted_by_threads_that_never_wait() {
        let profile = SoloProfile {
            wall_ns: 1_000_000_000,
            threads: 2,
            on_cpu_ns: 2_000_000_000,
            block_ns: 0,
            apart_ns: 0,
            yields: 4,
            helpers: Helpers::default(),
        };
        let f = fitted(profile);
        assert!(f.misfit < 0.1 && f.block < 0.02, "{f:?}");
        assert!((f.wall_ns as f64 / 1e9 - 1.0).abs() < 0.05, "{f:?}");
    }

    #[test]
    fn threads_that_wait_for_each_other_a_fifth_of_the_time_are_fitted_by_similar_ones() {
        let profile = SoloProfile {
            wall_ns: 1_250_000_000,
            threads: 2,
            on_cpu_ns: 2_000_000_000,
            block_ns: 500_000_000,
            apart_ns: 0,
            yields: 500,
            helpers: Helpers::default(),
        };
        let f = fitted(profile);
        assert!((f.block - 0.2).abs() < 0.06, "{f:?}");
        assert!(f.misfit < 0.2 && !f.phase.contains("\"none\""), "{f:?}");
    }

    #[test]
    fn one_thread_that_alternately_reads_and_computes_is_fitted_by_one_that_sleeps() {
        let profile = SoloProfile {
            wall_ns: 1_000_000_000,
            threads: 1,
            on_cpu_ns: 600_000_000,
            block_ns: 400_000_000,
            apart_ns: 400_000_000,
            yields: 100,
            helpers: Helpers::default(),
        };
        let f = fitted(profile);
        assert!((f.block - 0.4).abs() < 0.05 && f.misfit < 0.2, "{f:?}");
    }

    #[test]
    fn frequent_helpers_are_modelled_with_the_workers_and_change_their_share_of_a_shared_machine() {
        let alone = SoloProfile {
            wall_ns: 1_000_000_000,
            threads: 2,
            on_cpu_ns: 2_000_000_000,
            block_ns: 0,
            apart_ns: 0,
            yields: 4,
            helpers: Helpers::default(),
        };
        let helpers = Helpers { threads: 2, on_cpu_ns: 100_000_000, yields: 2_000 };
        let study =
            ValidateStudy { repetitions: 1, phases: 3, ..ValidateStudy::parse("v", VALIDATE).unwrap() };
        let machine = MachineModel::of(Machine::synthetic(1, 1, 2, 1));
        let setting = Setting { grouped: true, ..Setting::default() };
        let loops = Interferer { pattern: "persistent".into(), demand: None, threads: 2 };
        let slowdown = |profile: SoloProfile| {
            let f = fit("p", &profile, &study, &machine, &setting).unwrap();
            let scenario = cell::scenario("p", &setting, &loops, &f.phase);
            PreparedCell::new(&study, "p", &scenario, &machine, &setting)
                .unwrap()
                .modelled()
                .unwrap()
                .slowdown
        };
        let (without, with) = (slowdown(alone), slowdown(SoloProfile { helpers, ..alone }));
        assert!(without > 1.8 && with < 1.4, "{without} {with}");
    }
}
