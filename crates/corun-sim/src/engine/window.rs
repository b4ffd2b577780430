//! Observations: what happened in a window, as every host reports it.

use super::account::{counters_between, Tally};
use super::tracing::task_id;
use super::{Completions, Engine, State};
use crate::checker;
use crate::contention::Energy;
use corun_model::limits::{CpuSet, Limits, TaskLimits};
use corun_model::observation::{CpuTime, Loss, MachineTime, Observation, TaskObservation, TenantObservation};
use corun_model::{TaskId, TenantId, Unavailable};
use std::sync::Arc;

/// The progress of a tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Its name.
    pub name: String,
    /// Its runs from start to end.
    pub completions: Completions,
    /// When its present run started; `None`: it has not started at all.
    pub started_ns: Option<u64>,
    /// Its total work, in nanoseconds of solo run time.
    pub work_ns: u64,
    /// It never ends by itself.
    pub endless: bool,
    /// It ends after a time, not after an amount of work.
    pub timed: bool,
}

impl Engine {
    /// Closes the window, and returns what happened since the previous one.
    pub fn observe(&mut self) -> Observation {
        for cpu in 0..self.cpus.len() {
            self.settle(cpu);
        }
        for task in 0..self.tasks.len() {
            self.count_until_now(task);
        }
        self.check_everything();
        let (start_ns, end_ns) = (self.window_ns, self.now_ns);
        let mut tasks = Vec::new();
        let mut by_tenant: Vec<TenantObservation> = Vec::new();
        let mut limits = Limits::default();
        let everywhere: Arc<CpuSet> = Arc::new(self.cpus.iter().map(|c| c.id).collect());
        // Without a VM a tenant is a process: its first thread has the process's number.
        let mut process: Option<(usize, TaskId)> = None;
        for ix in 0..self.tasks.len() {
            let tally = std::mem::take(&mut self.tasks[ix].tally);
            if self.tasks[ix].state == State::Unborn
                || self.tasks[ix].state == State::Ended && tally.total_ns() == 0
            {
                continue;
            }
            let total = self.contention.counters(end_ns, ix as u32);
            let earlier = self.tasks[ix].counters.replace(total);
            let counters = earlier.map_or(total, |earlier| counters_between(&total, &earlier));
            let account = tally.account(Some(counters));
            let t = &self.tasks[ix];
            let tenant = TenantId(t.tenant as u32);
            let (_, first) =
                *process.insert(process.filter(|p| p.0 == t.tenant).unwrap_or((t.tenant, task_id(ix))));
            // In a solo run, a policy's restriction would not exist.
            let cpus =
                t.home_affinity.as_ref().map(|set| Arc::new(set.iter().map(|c| self.cpus[c].id).collect()));
            limits.tasks.push(TaskLimits {
                task: task_id(ix),
                process: first,
                cpus: Some(cpus.unwrap_or_else(|| everywhere.clone())),
                is_isolated: false,
            });
            match by_tenant.last_mut().filter(|o| o.id == tenant) {
                Some(sum) => {
                    sum.tasks += 1;
                    sum.account.add(&account);
                }
                None => by_tenant.push(TenantObservation { id: tenant, tasks: 1, account: account.clone() }),
            }
            tasks.push(TaskObservation {
                id: task_id(ix),
                name: t.name.clone(),
                tenant,
                born_ns: t.born_ns.max(start_ns),
                alive: t.state != State::Ended,
                last_cpu: t.ran.then(|| self.cpus[t.cpu].id),
                account: account.into(),
            });
        }
        let cpus = self
            .cpus
            .iter_mut()
            .map(|c| {
                c.occupancy.prune();
                CpuTime {
                    cpu: c.id,
                    idle_ns: std::mem::take(&mut c.idle_ns),
                    busy_ns: std::mem::take(&mut c.busy_ns),
                    unknown_ns: 0,
                    host_steal_ns: Some(0),
                }
            })
            .collect();
        for ix in 0..self.tasks.len() {
            if self.tasks[ix].state == State::Waiting {
                self.tasks[ix].wait_mark = self.cpus[self.tasks[ix].cpu].occupancy.mark();
            }
        }
        self.window_ns = end_ns;
        let weight = |(ix, t): (usize, &super::TenantRun)| {
            let weight = t.setup.group.map_or(100, |group| self.weights_now[group]);
            (weight != 100).then_some((TenantId(ix as u32), weight))
        };
        let weights = self.tenants.iter().enumerate().filter_map(weight).collect();
        Observation {
            start_ns,
            end_ns,
            tenants: self.tenant_names.clone(),
            tasks,
            by_tenant,
            cpus,
            limits,
            machine: MachineTime { host_steal_ns: Some(0), irq_ns: Some(0), softirq_ns: Some(0) },
            energy: corun_model::Energy::default(),
            loss: Loss::default(),
            weights,
            refused: Vec::new(),
            unavailable: Vec::<Unavailable>::new(),
        }
    }

    /// The same, unless a checker finds that the engine is wrong.
    ///
    /// # Errors
    /// [`Fault`](super::Fault): what it found.
    pub fn try_observe(&mut self) -> Result<Observation, super::Fault> {
        let seen = self.observe();
        self.fault.take().map_or(Ok(seen), Err)
    }

    /// The progress of each tenant.
    pub fn progress(&mut self) -> Vec<Progress> {
        (0..self.cpus.len()).for_each(|c| self.settle(c));
        self.tenants
            .iter()
            .map(|t| Progress {
                name: t.setup.name.clone(),
                completions: t.completions,
                started_ns: t.started.then_some(t.started_ns),
                work_ns: (t.work_done >> super::cpu::BITS) as u64,
                endless: t.setup.plan.endless,
                timed: t.setup.plan.phases.iter().all(|p| p.duration_ns.is_some()),
            })
            .collect()
    }

    /// Energy used since the start; `None` if the machine file has no power figures.
    pub fn energy(&mut self) -> Option<Energy> {
        self.contention.energy_uj(self.now_ns)
    }

    /// Runs all checkers now.
    ///
    /// # Errors
    /// [`Fault`](super::Fault): the finding of the first that fires.
    pub fn check(&mut self) -> Result<(), super::Fault> {
        self.check_everything();
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Runs the checkers over the whole state.
    pub(super) fn check_everything(&mut self) {
        let window = (self.window_ns, self.now_ns);
        let cpus: Vec<(u64, u64)> = self
            .cpus
            .iter()
            .map(|c| {
                let rest = self.now_ns - c.since_ns;
                let busy = if c.curr.is_some() { rest } else { 0 };
                (c.busy_ns + busy, c.idle_ns + rest - busy)
            })
            .collect();
        let mut found = cpus.iter().enumerate().find_map(|(i, &(busy_ns, idle_ns))| {
            checker::conservation_of_cpu(i, window, busy_ns, idle_ns).err()
        });
        let (mut on_cpu_ns, mut waiting) = (0, vec![0; self.cpus.len()]);
        for (ix, t) in self.tasks.iter().enumerate() {
            let open_ns = match t.state {
                State::Unborn | State::Ended => 0,
                _ => self.now_ns - t.since_ns,
            };
            let running = t.state == State::Running;
            waiting[t.cpu] += u32::from(t.state == State::Waiting);
            on_cpu_ns += on_cpu(&t.tally) + if running { open_ns } else { 0 };
            let alive = !matches!(t.state, State::Unborn | State::Ended);
            let counted_ns = t.tally.total_ns() + open_ns;
            found = found.or_else(|| {
                checker::conservation_of_task(&t.name, window, t.born_ns, alive, counted_ns).err()
            });
            let expected = matches!(t.state, State::Running | State::Waiting).then_some(t.cpu);
            found = found.or_else(|| checker::queued_once(&t.name, expected, self.sched.queued_on(ix)).err());
            if running && self.cpus[t.cpu].curr != Some(ix) {
                found = found.or_else(|| {
                    Some(checker::bug("occupancy", format!("task {} runs where another does", t.name)))
                });
            }
        }
        for (ix, (c, waiting)) in self.cpus.iter().zip(waiting).enumerate() {
            let known = c.occupancy.open_waits();
            if known != waiting {
                let what = format!("{waiting} tasks wait for CPU index {ix}, which knows of {known}");
                found = found.or_else(|| Some(checker::bug("occupancy", what)));
            }
        }
        let busy_ns = cpus.iter().map(|c| c.0).sum();
        found = found.or_else(|| checker::conservation_of_machine(on_cpu_ns, busy_ns).err());
        if let Some(fault) = found {
            self.fail(fault);
        }
    }

    /// Looks for tasks that wait without end.
    pub(super) fn check_progress(&mut self) {
        /// Ticks between two checks: starvation takes minutes.
        const EVERY: u64 = 256;
        self.master_ticks += 1;
        if !self.master_ticks.is_multiple_of(EVERY) {
            return;
        }
        for t in self.tasks.iter().filter(|t| t.state == State::Waiting) {
            if let Err(fault) =
                checker::progress(&t.name, &self.tenants[t.tenant].setup.name, t.wait_since_ns, self.now_ns)
            {
                self.fault.get_or_insert(fault);
            }
        }
    }
}

fn on_cpu(t: &Tally) -> u64 {
    t.compute_ns + t.spin_ns
}
