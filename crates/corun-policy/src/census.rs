//! What a policy knows of each tenant: how many of its tasks want a CPU, and what they got in the last window.
//!
//! A task's **demand** is the part of its time in which it would run alone: on-CPU time over on-CPU plus blocked time. Stolen,
//! throttled and parked time does not show what it wants, so it is left out. So a task that always waits for others does not look idle.
//! A task that was stopped or frozen for all of the last window wants no CPU now, and could not use a slot. A tenant's **weight** is
//! the number of its tasks whose demand reaches a threshold (Controlled Contention §III.A: 20 % of a CPU).
//!
//! A virtual machine's I/O threads belong to it. A slot for them alone would be useless, and where whole processes are parked it would
//! stop the vCPUs too. Where tasks are parked (sched_ext), those of a parked machine may finish their work.
//!
//! Demand is an average over the last few hundred milliseconds of useful windows. Windows in which the policy itself had parked the
//! tenant do not count. A new task counts once it has been seen for 2 ms. The CPUs of a task are those that the host last reported.

use crate::scope::Scope;
use crate::seats::Confined;
use corun_model::limits::CpuSet;
use corun_model::{Observation, TaskId, Tenant, TenantId, TenantKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// From this demand on, in hundredths of a CPU, a task counts as CPU-bound (Controlled Contention §III.A).
pub const CPU_BOUND_PERCENT: u64 = 20;
/// A task is judged after it has been seen for this long.
const ENOUGH_NS: u64 = 2_000_000;
/// The memory of a task's demand: time beyond this counts half.
const MEMORY_NS: u64 = 200_000_000;

/// One tenant, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantUse {
    /// The tenant.
    pub id: TenantId,
    /// Its living tasks.
    pub tasks: u32,
    /// Its CPU-bound tasks.
    pub weight: u64,
    /// CPUs that it wants, in thousandths: the sum of its tasks' demands.
    pub demand_milli: u64,
    /// Time on a CPU in the last window, all tasks together, without known spinning.
    pub useful_ns: u64,
    /// Time on a CPU in the last window, all tasks together.
    pub on_cpu_ns: u64,
    /// Time runnable but not running in the last window.
    pub steal_ns: u64,
    /// Time blocked in the last window, of tasks that also ran in it.
    pub block_ns: u64,
    /// The part of `block_ns` in which it waited for others than its own threads, as in
    /// [`corun_model::ledger::BlockReasons::beyond_threads_ns`]. `None` if the host cannot tell.
    pub beyond_threads_ns: Option<u64>,
    /// Wake-ups in the last window. `None` if the host cannot tell.
    pub wakeups: Option<u64>,
    /// The part of `on_cpu_ns` in which the host tells spinning from computing, and `useful_ns` leaves spinning out.
    pub judged_ns: u64,
}

impl TenantUse {
    /// CPUs that it would use, in thousandths: at least one for each CPU-bound task.
    pub fn want_milli(&self) -> u64 {
        (self.weight * 1_000).max(self.demand_milli)
    }
}

#[derive(Clone, Debug)]
struct Memory {
    id: TaskId,
    on_ns: u64,
    basis_ns: u64,
    /// The CPUs that it may use. `None` if unknown.
    cpus: Option<Arc<CpuSet>>,
}

impl Memory {
    fn add(&mut self, on_ns: u64, basis_ns: u64) {
        self.on_ns += on_ns;
        self.basis_ns += basis_ns;
        while self.basis_ns > 2 * MEMORY_NS {
            self.on_ns /= 2;
            self.basis_ns /= 2;
        }
    }

    /// Demand in thousandths of a CPU. `None` until it has been seen for long enough.
    fn demand_milli(&self) -> Option<u64> {
        (self.basis_ns >= ENOUGH_NS).then(|| self.on_ns * 1_000 / self.basis_ns)
    }
}

/// Follows tenants from window to window.
#[derive(Clone, Debug)]
pub struct Census {
    scope: Scope,
    threshold_milli: u64,
    /// Whether a task counts by its use of a CPU instead of its demand.
    by_use: bool,
    /// In the order of ids, as in observations.
    tasks: Vec<Memory>,
    confined: Confined,
}

impl Census {
    /// Counts tenants in `scope`; a task is CPU-bound from `threshold_percent` of a CPU.
    pub fn new(scope: Scope, threshold_percent: u64) -> Census {
        Census {
            scope,
            threshold_milli: threshold_percent * 10,
            by_use: false,
            tasks: Vec::new(),
            confined: Confined::new(),
        }
    }

    /// Counts a task by its use of a CPU, over the time in which it was not parked. Time that others take from it does not count as
    /// wanted.
    #[must_use]
    pub fn by_use(self) -> Census {
        Census { by_use: true, ..self }
    }

    /// The tenants with a living task, in the order of their ids. Those in `parked` were parked during the window.
    pub fn take(&mut self, seen: &Observation, parked: &BTreeSet<TenantId>) -> Vec<TenantUse> {
        let mut place = BTreeMap::new();
        let mut machines = BTreeMap::new();
        let mut uses: Vec<TenantUse> = Vec::new();
        let covered = self.scope.covered(seen);
        let has_own = |t: &&Tenant| t.kind != TenantKind::VmIo && covered.contains(&t.id);
        for tenant in seen.tenants.iter().filter(has_own) {
            place.insert(tenant.id, uses.len());
            machines.extend(tenant.vm().map(|name| (name, uses.len())));
            uses.push(TenantUse {
                id: tenant.id,
                tasks: 0,
                weight: 0,
                demand_milli: 0,
                useful_ns: 0,
                on_cpu_ns: 0,
                steal_ns: 0,
                block_ns: 0,
                beyond_threads_ns: Some(0),
                wakeups: Some(0),
                judged_ns: 0,
            });
        }
        for io in seen.tenants.iter().filter(|t| t.kind == TenantKind::VmIo) {
            place.extend(io.vm().and_then(|name| machines.get(name)).map(|&at| (io.id, at)));
        }
        let mut kept = Vec::with_capacity(seen.tasks.len());
        self.confined.clear();
        let mut old = self.tasks.iter().peekable();
        for t in &seen.tasks {
            let Some(&at) = place.get(&t.tenant) else { continue };
            let parts = t.account.ledger.parts();
            let on_ns = t.account.ledger.on_cpu_ns();
            let u = &mut uses[at];
            u.on_cpu_ns += on_ns;
            u.useful_ns += parts.compute_ns;
            u.steal_ns += parts.steal_ns;
            if on_ns > 0 {
                u.judged_ns += parts.spin_ns.map_or(0, |_| on_ns);
                u.block_ns += parts.block_ns;
                let beyond = t.account.block.map(|b| b.beyond_threads_ns());
                u.beyond_threads_ns = u.beyond_threads_ns.zip(beyond).map(|(a, b)| a + b);
            }
            u.wakeups = u.wakeups.zip(t.account.events.wakeups).map(|(a, b)| a + b);
            if !t.alive {
                continue;
            }
            while old.next_if(|m| m.id < t.id).is_some() {}
            let known = old.next_if(|m| m.id == t.id && t.born_ns <= seen.start_ns).cloned();
            let mut memory = known.unwrap_or(Memory { id: t.id, on_ns: 0, basis_ns: 0, cpus: None });
            if let Some(limits) = seen.limits.of_task(t.id) {
                memory.cpus.clone_from(&limits.cpus);
            }
            if !parked.contains(&u.id) {
                let stolen_ns = if self.by_use { parts.steal_ns } else { 0 };
                memory.add(on_ns, on_ns + parts.block_ns + stolen_ns);
            }
            u.tasks += 1;
            let is_held = parts.held_ns() > 0 && parts.held_ns() == t.account.ledger.total_ns();
            if let Some(demand) = memory.demand_milli().filter(|_| !is_held) {
                u.demand_milli += demand;
                if demand >= self.threshold_milli {
                    u.weight += 1;
                    if let Some(cpus) = &memory.cpus {
                        self.confined.entry(u.id).or_default().push(cpus.clone());
                    }
                }
            }
            kept.push(memory);
        }
        self.tasks = kept;
        uses.retain(|u| u.tasks > 0);
        uses
    }

    /// The CPUs that the CPU-bound tasks of the last window may use, if known.
    pub fn confined(&self) -> &Confined {
        &self.confined
    }

    /// A task's demand in thousandths of a CPU. `None` if it has not been seen for long enough, or is not in scope.
    pub fn demand_milli(&self, id: TaskId) -> Option<u64> {
        let at = self.tasks.binary_search_by_key(&id, |m| m.id).ok()?;
        self.tasks[at].demand_milli()
    }
}

/// Whether spinning is judged in enough of the time on a CPU, at least half. Threads that run only briefly are hardly ever judged, and
/// no thread is in its first window.
pub fn knows_spin(judged_ns: u64, on_cpu_ns: u64) -> bool {
    2 * judged_ns >= on_cpu_ns
}

/// The name of a tenant.
pub fn name(seen: &Observation, id: TenantId) -> String {
    seen.tenant(id).map_or("a tenant", |t| t.name.as_str()).to_owned()
}
