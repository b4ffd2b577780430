//! Makes an engine from a scenario: for one seed, with all tenants or with a single one.

use super::file::SchedulerKind;
use super::{BadScenario, Runs, Scenario, TenantSpec};
use crate::cpu_set::CpuSet;
use crate::engine::{Engine, Setup, TenantSetup};
use crate::program::Plan;
use crate::sched::{Cfs, Eevdf, FairOptions, Kernel, Scheduler, VintageCfs, XenCredit};
use crate::streams::Streams;
use corun_model::duration::human_ns;
use corun_model::Linux;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The most tasks and threads in a scenario.
pub const MOST_TASKS: usize = 100_000;

/// A time of any length, for people.
fn written(ns: u128) -> String {
    u64::try_from(ns).map_or_else(|_| format!("{} h", ns / 3_600_000_000_000), human_ns)
}

/// The tenants that take part in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Participants {
    /// Every tenant.
    All,
    /// This one, in a solo run on the same machine under the same scheduler.
    Solo(usize),
}

/// Bound on the grains that a run waits for. Each takes a microsecond or two to model.
const MOST_GRAINS: u128 = 50_000_000_000;

/// The most parts of charged time: every task that waits for a CPU has one for every task that holds the CPU
/// meanwhile. Each takes more than a kilobyte until it is in the report.
const MOST_PARTS: u128 = 4_000_000;

/// Tenants that always want a CPU.
#[derive(Clone, Copy, Default)]
struct Crowd {
    tasks: u128,
    tenants: u128,
    /// Work that the run waits for.
    work_ns: u128,
    /// The last tenant, by place.
    last: usize,
}

impl Scenario {
    /// Makes the machine of one run. `trace_limit` is how many events its trace may hold; 0: none.
    ///
    /// # Errors
    /// [`BadScenario`]: the model does not support a program.
    pub fn engine(
        &self,
        seed: u64,
        participants: Participants,
        trace_limit: usize,
    ) -> Result<Engine, BadScenario> {
        self.check_switches()?;
        let model = Rc::new(self.machine.clone());
        let streams = Streams::new(seed);
        let mut scheduler = self.scheduler(&streams);
        let mut sessions: Vec<&str> = Vec::new();
        let mut weights = Vec::new();
        let mut tenants = Vec::new();
        let n = model.machine.cpu_count();
        for (ix, t) in self.tenants.iter().enumerate() {
            if matches!(participants, Participants::Solo(only) if only != ix) {
                continue;
            }
            let plan = self.plan(t, seed)?;
            let group = self.grouped().then(|| {
                let found = t.session.as_ref().and_then(|s| sessions.iter().position(|known| known == s));
                found.unwrap_or_else(|| {
                    // A session of its own has a name that no file can write.
                    sessions.push(t.session.as_deref().unwrap_or("\n"));
                    scheduler.add_group(t.weight);
                    weights.push(t.weight);
                    weights.len() - 1
                })
            });
            // On a live machine, chance decides where in a tick a tenant starts. Here the seed decides,
            // equally for all tenants of one session.
            let starter = t.session.as_ref().unwrap_or(&t.name);
            let phase_ns = streams.stream(&format!("start of {starter}")).between(0, scheduler.tick_ns() - 1);
            let alone = matches!(participants, Participants::Solo(_));
            tenants.push(TenantSetup {
                name: t.name.clone(),
                plan: Rc::new(plan),
                start_ns: phase_ns + if alone { 0 } else { t.start_ns },
                after: if alone { None } else { t.after },
                repeat: t.repeat && !alone,
                background: t.background && !alone,
                vcpus: t.vcpus,
                group,
                pins: t.pins.clone(),
                affinity: (!t.allowed.is_empty()).then(|| Rc::new(CpuSet::of(n, t.allowed.iter().copied()))),
                affinities: self.affinities(&t.runs),
                batch: t.batch,
                slice_ns: t.slice_ns,
            });
        }
        let guest_slice_ns = self.scheduler.guest_slice.0;
        Ok(Engine::new(Setup { model, scheduler, weights, tenants, guest_slice_ns, trace_limit, streams }))
    }

    /// CPUs that each of a recorded program's tasks might use at first, as far as the machine has them.
    fn affinities(&self, runs: &Runs) -> Vec<Option<Rc<CpuSet>>> {
        let Runs::Recorded(program) = runs else { return Vec::new() };
        let n = self.machine.machine.cpu_count();
        let own = program.scripts.iter().map(|script| {
            let may: Vec<usize> = script.may.iter().filter(|&cpu| cpu < n).collect();
            (!may.is_empty() && may.len() < n).then(|| Rc::new(CpuSet::of(n, may)))
        });
        own.collect()
    }

    /// A tenant's program, with the draws of this seed. With seed 1 these are the draws of the workload's own seed, as in the live
    /// load.
    fn plan(&self, t: &TenantSpec, seed: u64) -> Result<Plan, BadScenario> {
        match &t.runs {
            Runs::Workload(workload) => {
                Plan::of(workload, &self.machine, seed.wrapping_sub(1)).map_err(|what| self.bad(t.line, what))
            }
            Runs::Recorded(program) => Ok(Plan::recorded(&t.name, program)),
        }
    }

    /// Whether tenants share CPU time as groups: always under Xen, where a group is a VM.
    fn grouped(&self) -> bool {
        self.scheduler.groups || self.scheduler.name == SchedulerKind::XenCredit
    }

    /// The time between two ticks, if the scheduler uses them.
    fn tick_ns(&self) -> u64 {
        self.scheduler.tick.map_or(self.machine.tick_ns, |t| t.0)
    }

    fn scheduler(&self, streams: &Streams) -> Box<dyn Scheduler> {
        let machine = &self.machine.machine;
        let tick_ns = self.tick_ns();
        let defaults = FairOptions::default();
        let newidle_ratio = self.scheduler.newidle_ratio.unwrap_or(defaults.newidle_ratio);
        let linux = self.scheduler.linux.unwrap_or(Linux::USUAL);
        let stretches_who_runs = Linux::STRETCH_WHO_RUNS.contains(&linux);
        let opts = FairOptions { tick_ns, newidle_ratio, stretches_who_runs, ..defaults };
        match self.scheduler.name {
            SchedulerKind::Eevdf => {
                let base = self.scheduler.base_slice.map(|t| t.0);
                Box::new(Eevdf::new(machine, opts, base, streams))
            }
            SchedulerKind::Cfs => match self.scheduler.linux.or(self.machine.linux).and_then(Kernel::of) {
                Some(kernel) => Box::new(VintageCfs::new(machine, opts, kernel, streams)),
                None => Box::new(Cfs::new(machine, opts, streams)),
            },
            SchedulerKind::XenCredit => {
                let first = self.scheduler.first_slice.unwrap_or_default();
                Box::new(XenCredit::new(machine, first, streams.stream("slices")))
            }
        }
    }

    /// Refuses times after which a CPU would change to the next task before the change to this one is
    /// complete. Such a run does nothing else up to its horizon.
    fn check_switches(&self) -> Result<(), BadScenario> {
        let switch_ns = self.machine.costs.switch_ns;
        let ticks = self.scheduler.name != SchedulerKind::XenCredit;
        let has_guests = self.tenants.iter().any(|t| t.vcpus.is_some());
        let times =
            [("tick", self.tick_ns(), ticks), ("guest-slice", self.scheduler.guest_slice.0, has_guests)];
        let Some((key, ns, _)) = times.into_iter().find(|(_, ns, counts)| *counts && *ns <= switch_ns) else {
            return Ok(());
        };
        let what = format!(
            "{key} is {}, but a switch on {} takes {}, so its CPUs would do nothing else; give a longer {key}",
            human_ns(ns),
            self.machine.machine.name,
            human_ns(switch_ns)
        );
        Err(self.bad(self.scheduler_line, what))
    }

    /// Refuses more tasks than the model supports, unknown programs, and work that cannot end.
    pub(super) fn check_size(&self) -> Result<(), BadScenario> {
        let (mut tasks, mut cpu_ns, mut grains) = (0, 0, 0);
        let (cpus, horizon_ns) = (self.machine.machine.cpu_count() as u128, u128::from(self.horizon_ns));
        let horizon = || human_ns(self.horizon_ns);
        for t in &self.tenants {
            let plan = self.plan(t, 1)?;
            tasks += plan.threads as usize + t.vcpus.unwrap_or(0) as usize;
            if tasks > MOST_TASKS {
                let what =
                    format!("the scenario has more than {MOST_TASKS} tasks; take fewer or smaller tenants");
                return Err(self.bad(t.line, what));
            }
            let Some(least) = plan.least() else { continue };
            if least.time_ns > horizon_ns {
                let what = format!(
                    "{} takes {} even alone, beyond the horizon of {}; give it less work, or a longer `horizon`",
                    t.name,
                    written(least.time_ns),
                    horizon()
                );
                return Err(self.bad(t.line, what));
            }
            // In a solo run, each runs to its end.
            if least.grains > MOST_GRAINS {
                let what = format!(
                    "{} has {} grains, which takes a day to model even alone; give it fewer or longer ones",
                    t.name, least.grains
                );
                return Err(self.bad(t.line, what));
            }
            // With a duration, and for background tenants, the run does not wait for the end.
            if self.duration_ns.is_none() && !t.background {
                cpu_ns += least.cpu_ns;
                grains += least.grains;
            }
            if grains > MOST_GRAINS {
                let what = format!(
                    "the work up to {} has {grains} grains, which takes a day to model; give fewer or longer ones, or a `duration`",
                    t.name
                );
                return Err(self.bad(t.line, what));
            }
            if cpu_ns > horizon_ns * cpus {
                let what = format!(
                    "{cpus} CPUs cannot do the work up to {} before the horizon of {}; give less work, or a longer `horizon`",
                    t.name,
                    horizon()
                );
                return Err(self.bad(t.line, what));
            }
        }
        self.check_crowds()
    }

    /// Refuses crowds on one CPU that are too large: the answer (which task took how much from which) would
    /// not fit into memory.
    fn check_crowds(&self) -> Result<(), BadScenario> {
        let n = self.machine.machine.cpu_count();
        // Each CPU gets its part of the tenants that may run anywhere.
        let (mut pinned, mut anywhere) = (vec![Crowd::default(); n], Crowd::default());
        let mut longest_ns = 0;
        for (place, t) in self.tenants.iter().enumerate() {
            let plan = self.plan(t, 1)?;
            let awaited = self.duration_ns.is_none() && !t.background;
            let least = plan.least().filter(|_| awaited).unwrap_or_default();
            longest_ns = longest_ns.max(least.time_ns);
            if !plan.always_runs() {
                continue;
            }
            let tasks = t.vcpus.unwrap_or(plan.threads) as usize;
            let join = |crowd: &mut Crowd, tasks: u128| {
                crowd.work_ns += least.cpu_ns * tasks / (t.vcpus.unwrap_or(plan.threads).max(1) as u128);
                *crowd =
                    Crowd { tasks: crowd.tasks + tasks, tenants: crowd.tenants + 1, last: place, ..*crowd };
            };
            match t.pins.len().min(tasks) {
                0 if t.allowed.is_empty() => join(&mut anywhere, tasks as u128),
                0 => t.allowed.iter().for_each(|&cpu| {
                    join(&mut pinned[cpu], (tasks as u128).div_ceil(t.allowed.len() as u128));
                }),
                used => {
                    // One CPU each in turn; a CPU may be named twice.
                    let mut of_cpu = BTreeMap::<usize, u128>::new();
                    for (i, &cpu) in t.pins[..used].iter().enumerate() {
                        *of_cpu.entry(cpu).or_default() += (tasks - i).div_ceil(t.pins.len()) as u128;
                    }
                    of_cpu.into_iter().for_each(|(cpu, tasks)| join(&mut pinned[cpu], tasks));
                }
            }
        }
        let mut parts = 0;
        for (cpu, own) in self.machine.machine.cpus().iter().zip(&pinned) {
            let cpus = n as u128;
            let tenants = own.tenants + anywhere.tenants.div_ceil(cpus);
            let length_ns = self
                .duration_ns
                .map_or_else(|| longest_ns.max(own.work_ns + anywhere.work_ns / cpus), u128::from);
            // In a short run, not every task gets a turn.
            let turns = length_ns / u128::from(self.tick_ns().max(1)) + 1;
            parts += (own.tasks + anywhere.tasks.div_ceil(cpus)) * tenants.min(turns);
            if parts > MOST_PARTS {
                let last = &self.tenants[own.last.max(anywhere.last)];
                let what = format!(
                    "too many tenants share CPUs ({tenants} of them CPU {}): the account of their steal has more than \
                     {MOST_PARTS} parts; give fewer tenants, more CPUs, or a shorter `duration`",
                    cpu.id.0
                );
                return Err(self.bad(last.line, what));
            }
        }
        Ok(())
    }
}
