//! Scenarios: a machine, a scheduler, tenants and seeds, read from a TOML file.
//!
//! ```toml
//! schema  = "corun.scenario/1"
//! machine = "pact16-xeon-e5620"      # a machine of the papers, a machine file, or "host"
//! seeds   = [1, 2, 3]
//!
//! [scheduler]
//! name = "xen-credit"
//!
//! [policy]                            # optional: what `corun control` would do there
//! name    = "controlled_contention"
//! options = { dc = 4 }
//!
//! [[tenant]]
//! workload = "../workloads/papers/lu.toml"
//! vm   = { vcpus = 4 }
//! cpus = [0, 1, 2, 3]
//!
//! [[tenant]]
//! name    = "loop"
//! program = { kind = "interference", threads = 4 }
//! vm   = { vcpus = 4 }
//! cpus = [0, 1, 2, 3]
//! ```
//!
//! [`mod@file`] is the file's text; [`check`] checks it beyond its types; [`build`] makes engines of it. The caller reads other files
//! (workloads, machines): a [`Files`] gives their text, so this crate opens none.

mod build;
mod check;
mod file;
mod recorded;

pub use build::{Participants, MOST_TASKS};
pub use file::{PolicyFile, ScenarioFile, SchedulerFile, SchedulerKind};

use crate::machine_file::MachineModel;
use corun_model::workload::Workload;
use corun_policy::controller::MOST_EPOCH_NS;
use std::sync::Arc;
use thiserror::Error;

/// Gives the text of files that a scenario names.
pub trait Files {
    /// The text of `path`, which is as the scenario wrote it; and its name in errors.
    ///
    /// # Errors
    /// One sentence: why it cannot be read.
    fn read(&self, path: &str) -> Result<(String, String), String>;

    /// The machine that the caller runs on, as a model.
    ///
    /// # Errors
    /// One sentence: why there is none.
    fn host(&self) -> Result<MachineModel, String>;
}

/// A scenario that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}{}: {what}", Some(line).filter(|l| **l > 0).map_or_else(String::new, |l| format!(":{l}")))]
pub struct BadScenario {
    /// The file at fault as named: the scenario's, or one that it names; or the flag.
    pub file: String,
    /// The line, from 1; 0 if no line of a file applies.
    pub line: usize,
    /// The error and the remedy, in one sentence.
    pub what: String,
}

/// A scenario that was read and checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The machine.
    pub machine: MachineModel,
    /// The scheduler and its options.
    pub scheduler: SchedulerFile,
    /// The policy above it. `None` without a controller.
    pub policy: Option<PolicySpec>,
    /// The tenants; copies are tenants of their own.
    pub tenants: Vec<TenantSpec>,
    /// Seeds, one run each.
    pub seeds: Vec<u64>,
    /// How long to run; `None`: until every tenant that has an end and is not background has ended.
    pub duration_ns: Option<u64>,
    /// When to give up.
    pub horizon_ns: u64,
    file: String,
    /// The line of the first tenant. Errors of the run as a whole point to it.
    tenants_line: usize,
    /// The line of the scheduler, or of the machine if the file has no scheduler.
    scheduler_line: usize,
}

/// A policy of a scenario. It exists, and accepts its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// Its name.
    pub name: &'static str,
    /// Its options.
    pub options: corun_policy::Options,
    /// How often it decides, in nanoseconds.
    pub epoch_ns: u64,
    /// Whether a guard measures if it helps, and stops it if not.
    pub guard: bool,
}

impl PolicySpec {
    /// The policy of this name, which decides as often as it wants.
    ///
    /// # Errors
    /// No such policy, option or value.
    pub fn new(name: &str, options: corun_policy::Options) -> Result<PolicySpec, corun_policy::BadPolicy> {
        let made = corun_policy::by_name(name, &options)?;
        Ok(PolicySpec { name: made.name(), options, epoch_ns: made.epoch_ns(), guard: false })
    }

    /// The same, under a guard where `guard` is true.
    #[must_use]
    pub fn guarded(self, guard: bool) -> PolicySpec {
        PolicySpec { guard, ..self }
    }

    /// The same, but it decides this often.
    ///
    /// # Errors
    /// One sentence: no policy decides this often, or this seldom.
    pub fn every(self, epoch_ns: u64) -> Result<PolicySpec, String> {
        match epoch_ns {
            ..100_000 => Err("an epoch below 100us makes no sense; give a longer one".into()),
            _ if epoch_ns > MOST_EPOCH_NS => {
                Err("an epoch above 1h makes no sense; give a shorter one".into())
            }
            _ => Ok(PolicySpec { epoch_ns, ..self }),
        }
    }
}

/// The program of a tenant.
#[derive(Clone, Debug)]
pub enum Runs {
    /// A workload.
    Workload(Box<Workload>),
    /// The recorded activity of a program.
    Recorded(Arc<crate::replay::script::ScriptedProgram>),
}

impl PartialEq for Runs {
    fn eq(&self, other: &Runs) -> bool {
        match (self, other) {
            (Runs::Workload(a), Runs::Workload(b)) => a == b,
            (Runs::Recorded(a), Runs::Recorded(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Runs {
    /// Whether it never ends by itself.
    pub(crate) fn is_endless(&self) -> bool {
        match self {
            Runs::Workload(workload) => check::is_endless(&workload.program),
            Runs::Recorded(_) => false,
        }
    }
}

/// One tenant of a scenario.
#[derive(Clone, Debug)]
pub struct TenantSpec {
    /// Its name, unique in the scenario.
    pub name: String,
    /// Its program.
    pub runs: Runs,
    /// Line of the file where it begins.
    pub line: usize,
    /// CPUs to pin its tasks to, one each in turn, by dense index; empty: the workload's own, or not pinned.
    pub pins: Vec<usize>,
    /// CPUs that all its tasks may use, by dense index; empty: all.
    pub allowed: Vec<usize>,
    /// Its weight as `cpu.weight` (100).
    pub weight: u32,
    /// The session (scheduling group) it shares with others of the same name; `None`: one of its own.
    pub session: Option<String>,
    /// vCPUs of the VM it runs in; `None`: not in a VM.
    pub vcpus: Option<u32>,
    /// When it starts.
    pub start_ns: u64,
    /// The index of the tenant whose first run must end before it starts.
    pub after: Option<usize>,
    /// It starts again whenever it ends.
    pub repeat: bool,
    /// Whether the run does not wait for its end.
    pub background: bool,
    /// SCHED_BATCH.
    pub batch: bool,
    /// Slices of its tasks, shortest and longest.
    pub slice_ns: Option<(u64, u64)>,
}

impl Scenario {
    /// Reads the text of a scenario file; `file` is named in errors.
    ///
    /// # Errors
    /// [`BadScenario`] with file, line and remedy.
    pub fn parse(file: &str, text: &str, files: &dyn Files) -> Result<Scenario, BadScenario> {
        check::resolve(file, text, files)
    }

    /// The same scenario on another machine: a machine of the papers, a machine file or `host`.
    ///
    /// # Errors
    /// [`BadScenario`]: no such machine, or a tenant names a CPU that it lacks.
    pub fn on_machine(self, machine: &str, files: &dyn Files) -> Result<Scenario, BadScenario> {
        check::on_machine(self, machine, files)
    }

    /// An error in the tenants.
    fn bad(&self, line: usize, what: impl Into<String>) -> BadScenario {
        BadScenario { file: self.file.clone(), line, what: what.into() }
    }

    /// An error of the run as a whole, for example a deadlock.
    pub fn failed(&self, what: impl Into<String>) -> BadScenario {
        self.bad(self.tenants_line, what)
    }

    /// A run has reached the horizon before these tenants, by place, have ended.
    pub(crate) fn not_ended(&self, tenants: &[usize]) -> BadScenario {
        let names: Vec<&str> = tenants.iter().map(|&t| self.tenants[t].name.as_str()).collect();
        let who = match names.as_slice() {
            [name] => format!("{name} has"),
            [first, second] => format!("{first} and {second} have"),
            [first, rest @ ..] => format!("{first} and {} others have", rest.len()),
            [] => "the scenario has".into(),
        };
        let horizon = corun_model::duration::human_ns(self.horizon_ns);
        let what = format!(
            "{who} not ended at the horizon of {horizon}; give less work, a longer `horizon` or a `duration`"
        );
        self.bad(tenants.first().map_or(self.tenants_line, |&t| self.tenants[t].line), what)
    }
}
