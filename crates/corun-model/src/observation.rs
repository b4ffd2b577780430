//! The observation of a host over one window: the only input of policies, predictors and reports.

use crate::counters::Counters;
use crate::culprit::Culprits;
use crate::energy::Energy;
use crate::events::Events;
use crate::histogram::Histogram;
use crate::ledger::{BlockReasons, Ledger};
use crate::limits::Limits;
pub use crate::lost::Loss;
use crate::machine::CpuId;
use crate::taken_by::{Taken, TakenBy};
use crate::tenant::{TaskId, Tenant, TenantId};
use crate::unavailable::Unavailable;
use std::sync::Arc;

/// The events on the machine between `start_ns` and `end_ns` of the host's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Start of the window, on the host's clock.
    pub start_ns: u64,
    /// End of the window, on the host's clock.
    pub end_ns: u64,
    /// Every tenant named anywhere below, in the order of their ids.
    pub tenants: Vec<Tenant>,
    /// Every task that lived in the window, in the order of ids, including tasks that ended.
    pub tasks: Vec<TaskObservation>,
    /// The sums by tenant, in the order of tenant ids. They include tasks too short-lived to be listed.
    pub by_tenant: Vec<TenantObservation>,
    /// Tenants whose weight is known to differ from the default of 100, in the order of their ids. Weights are 1 to 10000, as in
    /// `cpu.weight`.
    pub weights: Vec<(TenantId, u32)>,
    /// Tenants that nobody may touch, in the order of their ids. Actions on them would be refused.
    pub refused: Vec<TenantId>,
    /// Per CPU: busy and idle.
    pub cpus: Vec<CpuTime>,
    /// The CPUs that tasks may use, and the CPU time that tenants may use, for those that the host watches closely.
    pub limits: Limits,
    /// Time taken by the hypervisor and by interrupts, if the machine reports it.
    pub machine: MachineTime,
    /// The machine's energy counters. Unknown if nobody asked for them.
    pub energy: Energy,
    /// Lost events and times.
    pub loss: Loss,
    /// What cannot be seen here, with the reason.
    pub unavailable: Vec<Unavailable>,
}

/// One task in one window. Most tasks sleep through a window and share one account; windows share the names.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskObservation {
    /// The task.
    pub id: TaskId,
    /// Its name (the kernel's comm).
    pub name: Arc<str>,
    /// The tenant it belonged to at the end.
    pub tenant: TenantId,
    /// When it was first seen inside the window, on the host's clock.
    pub born_ns: u64,
    /// Whether it was still alive at the end.
    pub alive: bool,
    /// The CPU that it last ran on. `None` if it did not run.
    pub last_cpu: Option<CpuId>,
    /// Where its time went.
    pub account: Arc<Account>,
}

/// One tenant in one window: the sum over its tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantObservation {
    /// The tenant.
    pub id: TenantId,
    /// How many tasks it had in the window.
    pub tasks: u64,
    /// Where their time went.
    pub account: Account,
}

/// The times and events of a task or tenant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// The conserved ledger.
    pub ledger: Ledger,
    /// The block part of it, by reason. `None` if the source cannot tell.
    pub block: Option<BlockReasons>,
    /// Switches, wake-ups, migrations.
    pub events: Events,
    /// Hardware events. `None` if the machine has no counters.
    pub counters: Option<Counters>,
    /// Who took the steal.
    pub culprits: Culprits,
    /// Lengths of waits in the run queue. `None` if the source cannot tell.
    pub waits: Option<Histogram>,
    /// Lengths of stretches on a CPU. `None` if the source cannot tell.
    pub stretches: Option<Histogram>,
    /// Kernel time within its computing time, in nanoseconds. `None` if unknown.
    pub system_ns: Option<u64>,
}

impl Account {
    /// The sum of two accounts.
    #[must_use]
    pub fn plus(&self, o: &Account) -> Account {
        let mut sum = self.clone();
        sum.add(o);
        sum
    }

    /// Adds another account. The sum lacks what either lacks. An empty account changes nothing.
    pub fn add(&mut self, o: &Account) {
        if self.ledger.total_ns() == 0 && *self == Account::default() {
            *self = o.clone();
            return;
        }
        if o.ledger.total_ns() == 0 && *o == Account::default() {
            return;
        }
        let add = |sum: &mut Option<Histogram>, o: &Option<Histogram>| match (sum.as_mut(), o) {
            (Some(sum), Some(o)) => sum.add(o),
            _ => *sum = None,
        };
        self.system_ns = match (self.ledger.on_cpu_ns(), o.ledger.on_cpu_ns()) {
            (_, 0) => self.system_ns,
            (0, _) => o.system_ns,
            _ => self.system_ns.zip(o.system_ns).map(|(a, b)| a + b),
        };
        self.block = self.block.zip(o.block).map(|(a, b)| a.plus(&b));
        let block_ns = self.ledger.parts().block_ns + o.ledger.parts().block_ns;
        self.ledger = self.ledger.plus(&o.ledger);
        if let Some(block) = &mut self.block {
            // If one of them lacks the reasons of its block, that block has no reason in the sum.
            block.other_ns += self.ledger.parts().block_ns - block_ns;
        }
        self.events = self.events.plus(&o.events);
        self.counters = self.counters.take().zip(o.counters.as_ref()).map(|(a, b)| a.plus(b));
        if o.culprits.total_ns() > 0 {
            self.culprits.add(&o.culprits);
        }
        add(&mut self.waits, &o.waits);
        add(&mut self.stretches, &o.stretches);
    }

    /// The same account with up to `parked_ns` of its block as corun's own parking.
    #[must_use]
    pub fn with_parked_block(&self, parked_ns: u64) -> Account {
        let ledger = self.ledger.with_parked_block(parked_ns);
        let moved_ns = self.ledger.parts().block_ns - ledger.parts().block_ns;
        Account { ledger, block: self.block.map(|b| b.less(moved_ns)), ..self.clone() }
    }

    /// The same account with up to `parked_ns` of its steal as corun's own parking, so without a culprit.
    #[must_use]
    pub fn with_parked_steal(&self, parked_ns: u64) -> Account {
        let ledger = self.ledger.with_parked_steal(parked_ns);
        Account { ledger, culprits: self.culprits.scaled_to(ledger.parts().steal_ns), ..self.clone() }
    }

    /// [`BlockReasons::waited_outside_ns`] of all its tasks. `None` if the source cannot tell.
    pub fn waited_outside_ns(&self, wall_ns: u64) -> Option<u64> {
        let awake_ns = self.ledger.total_ns() - self.ledger.parts().block_ns;
        Some(self.block.as_ref()?.waited_outside_ns(wall_ns, awake_ns))
    }

    /// Checks the rules of every account: culprits explain the steal, and block reasons explain the block.
    ///
    /// # Errors
    /// One sentence that says what does not sum.
    pub fn check(&self) -> Result<(), String> {
        let parts = self.ledger.parts();
        if self.culprits.total_ns() != parts.steal_ns {
            return Err(format!(
                "culprits sum to {} ns, steal is {} ns",
                self.culprits.total_ns(),
                parts.steal_ns
            ));
        }
        match &self.block {
            Some(b) if b.sum_ns() != parts.block_ns => {
                Err(format!("block reasons sum to {} ns, block is {} ns", b.sum_ns(), parts.block_ns))
            }
            _ => Ok(()),
        }
    }
}

/// The unit of steal time from the hypervisor, in nanoseconds. Each tick is reported when it is full.
pub const HOST_STEAL_TICK_NS: u64 = 10_000_000;

/// The times of one CPU in the window. `idle_ns + busy_ns + unknown_ns` is the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTime {
    /// The CPU.
    pub cpu: CpuId,
    /// Time its idle task ran, in nanoseconds.
    pub idle_ns: u64,
    /// Time any other task ran, in nanoseconds. Includes time that the hypervisor took from it meanwhile.
    pub busy_ns: u64,
    /// Time that was not seen, or in which it was switched off, in nanoseconds.
    pub unknown_ns: u64,
    /// The part of its busy time that the hypervisor took, in nanoseconds. `None` if this machine does not report it.
    pub host_steal_ns: Option<u64>,
}

/// Time taken from the machine as a whole, summed over CPUs. `None` if this machine does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTime {
    /// Time in which the hypervisor ran others while this machine wanted to run. Time that it took from a running task is part of that
    /// CPU's busy time. With the probe, but not with `schedstat`, it is also part of the task's time on the CPU.
    pub host_steal_ns: Option<u64>,
    /// Time in hard interrupts; part of what the interrupted tasks show as compute.
    pub irq_ns: Option<u64>,
    /// Time in soft interrupts; also part of compute.
    pub softirq_ns: Option<u64>,
}

impl TaskObservation {
    /// Sets its counters. An account that already has them stays shared.
    pub fn set_counters(&mut self, counters: Option<Counters>) {
        if self.account.counters != counters {
            Arc::make_mut(&mut self.account).counters = counters;
        }
    }
}

impl Observation {
    /// Length of the window in nanoseconds.
    pub fn window_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// A tenant's name and kind.
    pub fn tenant(&self, id: TenantId) -> Option<&Tenant> {
        self.tenants.binary_search_by_key(&id, |t| t.id).ok().map(|at| &self.tenants[at])
    }

    /// Whose time on a CPU this is, for a subject that waits for it. An unknown tenant counts as a co-runner.
    pub fn taken_by(&self, subject: TenantId, tenant: TenantId) -> TakenBy {
        if tenant == subject {
            return TakenBy::Own;
        }
        match (self.tenant(subject), self.tenant(tenant)) {
            (Some(own), Some(other)) if other.is_of_vm(own) => TakenBy::Own,
            (_, Some(other)) => other.kind.taken_by(),
            (_, None) => TakenBy::CoRunner,
        }
    }

    /// Whose time the steal in one of the subject's accounts was.
    pub fn taken(&self, subject: TenantId, culprits: &Culprits) -> Taken {
        let mut taken = Taken { unattributed_ns: culprits.unattributed_ns(), ..Taken::default() };
        for share in culprits.shares() {
            taken.add(self.taken_by(subject, share.tenant), share.steal_ns);
        }
        taken
    }

    /// Whether a tenant is a co-runner of the subject: its CPU time is **stolen** from tasks that wait, and a solo run would not have
    /// it. The kernel, idle CPUs and corun itself are not co-runners. For a virtual machine neither are its own I/O threads, which a
    /// solo run has too. An unknown tenant is one.
    pub fn is_co_runner(&self, subject: TenantId, tenant: TenantId) -> bool {
        self.taken_by(subject, tenant) == TakenBy::CoRunner
    }

    /// The sums of the subject's co-runners.
    pub fn co_runners(&self, subject: TenantId) -> impl Iterator<Item = &TenantObservation> {
        self.by_tenant.iter().filter(move |seen| self.is_co_runner(subject, seen.id))
    }

    /// A tenant's weight; 100 if nothing else is known.
    pub fn weight(&self, id: TenantId) -> u64 {
        let known = self.weights.binary_search_by_key(&id, |w| w.0).ok();
        known.map_or(100, |at| u64::from(self.weights[at].1.max(1)))
    }

    /// CPU time of tasks and of the hypervisor, summed over CPUs. The rest was available to any task.
    pub fn taken_ns(&self) -> u64 {
        let on_cpu_ns: u64 = self.by_tenant.iter().map(|t| t.account.ledger.on_cpu_ns()).sum();
        let busy_ns: u64 = self.cpus.iter().map(|c| c.busy_ns).sum();
        // The time of tasks may include time that was taken from them; the busy time of CPUs does.
        let taken_ns = on_cpu_ns + self.machine.host_steal_ns.unwrap_or(0);
        taken_ns.min(busy_ns).max(on_cpu_ns)
    }

    /// Adds the window that follows this one, so that both become one. The sum lacks what either cannot see.
    ///
    /// # Panics
    /// If `next` does not begin where this ends: the sum would have a hole.
    pub fn extend(&mut self, next: &Observation) {
        assert_eq!(self.end_ns, next.start_ns, "windows must follow each other");
        self.end_ns = next.end_ns;
        self.extend_tenants(next);
        self.weights.clone_from(&next.weights);
        self.refused.clone_from(&next.refused);
        self.limits.extend(&next.limits);
        let going_on = self.extend_tasks(next);
        for t in &next.by_tenant {
            match self.by_tenant.binary_search_by_key(&t.id, |x| x.id) {
                Ok(i) => {
                    self.by_tenant[i].account.add(&t.account);
                    self.by_tenant[i].tasks +=
                        t.tasks - going_on.get(&t.id).copied().unwrap_or(0).min(t.tasks);
                }
                Err(i) => self.by_tenant.insert(i, t.clone()),
            }
        }
        let add = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        let (before_ns, next_ns) = (next.start_ns - self.start_ns, next.window_ns());
        // A CPU that is in only one window was off in the other, so its time there is unknown.
        for x in self.cpus.iter_mut().filter(|x| next.cpus.iter().all(|c| c.cpu != x.cpu)) {
            x.unknown_ns += next_ns;
        }
        for c in &next.cpus {
            match self.cpus.iter_mut().find(|x| x.cpu == c.cpu) {
                Some(x) => {
                    x.idle_ns += c.idle_ns;
                    x.busy_ns += c.busy_ns;
                    x.unknown_ns += c.unknown_ns;
                    x.host_steal_ns = add(x.host_steal_ns, c.host_steal_ns);
                }
                None => self.cpus.push(CpuTime { unknown_ns: c.unknown_ns + before_ns, ..*c }),
            }
        }
        self.machine = MachineTime {
            host_steal_ns: add(self.machine.host_steal_ns, next.machine.host_steal_ns),
            irq_ns: add(self.machine.irq_ns, next.machine.irq_ns),
            softirq_ns: add(self.machine.softirq_ns, next.machine.softirq_ns),
        };
        self.energy = self.energy.plus(&next.energy);
        self.loss.add(&next.loss);
        for u in &next.unavailable {
            if !self.unavailable.contains(u) {
                self.unavailable.push(u.clone());
            }
        }
    }

    /// A window names the tenants in it. The sum names all, with their last names.
    fn extend_tenants(&mut self, next: &Observation) {
        for t in &next.tenants {
            match self.tenants.binary_search_by_key(&t.id, |known| known.id) {
                Ok(i) => self.tenants[i].clone_from(t),
                Err(i) => self.tenants.insert(i, t.clone()),
            }
        }
    }

    /// A task goes on from one window to the next if it was alive at the end of the first and existed at the beginning of the second,
    /// in the same tenant. Otherwise it is another task, even with the same number. Returns how many went on.
    fn extend_tasks(&mut self, next: &Observation) -> std::collections::BTreeMap<TenantId, u64> {
        let mut going_on = std::collections::BTreeMap::new();
        let mut living: std::collections::BTreeMap<TaskId, usize> =
            self.tasks.iter().enumerate().filter(|(_, t)| t.alive).map(|(i, t)| (t.id, i)).collect();
        let mut shared = crate::shared_sums::SharedSums::default();
        for t in &next.tasks {
            match living.remove(&t.id).filter(|_| t.born_ns <= next.start_ns) {
                Some(i) if self.tasks[i].tenant != t.tenant => {
                    self.tasks[i].alive = false;
                    self.tasks.push(TaskObservation { born_ns: next.start_ns, ..t.clone() });
                }
                Some(i) => {
                    let known = &mut self.tasks[i];
                    shared.add(&mut known.account, &t.account, Account::add);
                    known.alive = t.alive;
                    known.name.clone_from(&t.name);
                    known.last_cpu = t.last_cpu.or(known.last_cpu);
                    *going_on.entry(t.tenant).or_default() += 1;
                }
                None => self.tasks.push(t.clone()),
            }
        }
        // A task that is not in the next window ended exactly at the edge.
        living.into_values().for_each(|i| self.tasks[i].alive = false);
        self.tasks.sort_by_key(|t| (t.id, t.born_ns));
        going_on
    }

    /// Checks the rules of every observation on every host: time is conserved for every task and CPU, lifetimes lie in the window,
    /// tenants are the sums of their tasks, and all have names.
    ///
    /// # Errors
    /// One sentence per contradiction.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let mut wrong = Vec::new();
        let window = self.end_ns.saturating_sub(self.start_ns);
        for t in &self.tasks {
            let total = t.account.ledger.total_ns();
            let at_most = self.end_ns.saturating_sub(t.born_ns.max(self.start_ns));
            if total > window || t.alive && total != at_most {
                wrong.push(format!("task {} ({}) lived {total} ns of at most {at_most} ns", t.id, t.name));
            }
            if let Err(e) = t.account.check() {
                wrong.push(format!("task {} ({}): {e}", t.id, t.name));
            }
        }
        for t in &self.by_tenant {
            if self.tenant(t.id).is_none() {
                wrong.push(format!("tenant {} has no name", t.id.0));
            }
            if let Err(e) = t.account.check() {
                wrong.push(format!("tenant {}: {e}", t.id.0));
            }
            let listed: u64 =
                self.tasks.iter().filter(|x| x.tenant == t.id).map(|x| x.account.ledger.total_ns()).sum();
            let total = t.account.ledger.total_ns();
            if listed > total || self.loss.unlisted_tasks == 0 && total - listed > self.loss.unseen_ns {
                wrong.push(format!("tenant {}: its tasks sum to {listed} ns, it has {total} ns", t.id.0));
            }
        }
        for share in self.by_tenant.iter().flat_map(|t| t.account.culprits.shares()) {
            if self.tenant(share.tenant).is_none() {
                wrong.push(format!("culprit {} has no name", share.tenant.0));
            }
        }
        if self.limits.tasks.windows(2).any(|pair| pair[0].task >= pair[1].task) {
            wrong.push("what tasks may use is not in the order of their ids".into());
        }
        if self.limits.quotas.iter().any(|q| q.cpus.is_nan() || q.cpus <= 0.0) {
            wrong.push("a quota allows nothing".into());
        }
        for c in &self.cpus {
            if c.idle_ns + c.busy_ns + c.unknown_ns != window {
                wrong.push(format!("CPU {}: idle, busy and unknown do not sum to the window", c.cpu.0));
            }
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(wrong)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{BlockReasons, Parts};
    use crate::tenant::TenantKind;

    #[test]
    fn a_tenant_waits_for_the_outside_if_none_of_its_tasks_runs_sleeps_or_reads_a_device() {
        let waited = |compute_ns, steal_ns, block: BlockReasons| {
            let parts = Parts { compute_ns, steal_ns, block_ns: block.sum_ns(), ..Parts::default() };
            let total_ns = compute_ns + steal_ns + block.sum_ns();
            let ledger = Ledger::new(parts, total_ns).unwrap();
            Account { ledger, block: Some(block), ..Account::default() }.waited_outside_ns(100)
        };
        let none = BlockReasons::default();
        for (facts, waited, outside_ns) in [
            ("a thin client", waited(4, 0, BlockReasons { pipe_ns: 96, ..none }), 96),
            ("a server that polls", waited(10, 5, BlockReasons { poll_ns: 85, ..none }), 85),
            ("a sleeper", waited(4, 0, BlockReasons { sleep_ns: 96, ..none }), 0),
            ("a pipe from a sleeper", waited(4, 0, BlockReasons { pipe_ns: 96, sleep_ns: 100, ..none }), 0),
            ("a pipe from a loop", waited(100, 0, BlockReasons { pipe_ns: 100, ..none }), 0),
            ("a pipe from a disk", waited(0, 0, BlockReasons { pipe_ns: 100, io_ns: 70, ..none }), 30),
            ("a lock of somebody else's", waited(4, 0, BlockReasons { futex_ns: 96, ..none }), 96),
            ("a file lock or a semaphore", waited(4, 0, BlockReasons { other_ns: 96, ..none }), 96),
            ("a lock that its own thread holds", waited(100, 0, BlockReasons { futex_ns: 100, ..none }), 0),
            ("a child that sleeps", waited(4, 0, BlockReasons { child_ns: 96, sleep_ns: 96, ..none }), 0),
        ] {
            assert_eq!(waited, Some(outside_ns), "{facts}");
        }
        assert_eq!(Account::default().waited_outside_ns(100), None);
    }

    fn task(id: u32, born_ns: u64, compute_ns: u64, alive: bool) -> TaskObservation {
        let parts = Parts { compute_ns, ..Parts::default() };
        let ledger = Ledger::new(parts, compute_ns).unwrap();
        TaskObservation {
            id: TaskId(id),
            name: format!("t{id}").into(),
            tenant: TenantId(0),
            born_ns,
            alive,
            last_cpu: None,
            account: Account { ledger, ..Account::default() }.into(),
        }
    }

    fn window(start_ns: u64, end_ns: u64, tasks: Vec<TaskObservation>) -> Observation {
        let account = tasks.iter().fold(Account::default(), |a, t| a.plus(&t.account));
        let name = || "x".to_string();
        Observation {
            start_ns,
            end_ns,
            tenants: vec![Tenant { id: TenantId(0), kind: TenantKind::Command, key: name(), name: name() }],
            by_tenant: vec![TenantObservation { id: TenantId(0), tasks: tasks.len() as u64, account }],
            tasks,
            ..Observation::default()
        }
    }

    #[test]
    fn two_windows_become_one_and_time_stays_conserved() {
        let mut a = window(100, 200, vec![task(1, 100, 100, true), task(2, 150, 50, true)]);
        a.extend(&window(
            200,
            300,
            vec![task(1, 200, 100, true), task(2, 200, 30, false), task(3, 250, 50, true)],
        ));
        a.check().unwrap();
        let lived: Vec<u64> = a.tasks.iter().map(|t| t.account.ledger.total_ns()).collect();
        assert_eq!(lived, [200, 80, 50]);
        assert_eq!(a.by_tenant[0].tasks, 3);
    }

    #[test]
    fn the_time_of_a_task_before_it_changed_its_tenant_stays_there() {
        let of = |tenant: TenantId, start_ns| {
            let mut seen = window(start_ns, start_ns + 100, vec![task(1, 0, 100, true)]);
            (seen.tasks[0].tenant, seen.tenants[0].id, seen.by_tenant[0].id) = (tenant, tenant, tenant);
            seen
        };
        let mut sum = of(TenantId(0), 0);
        [(0, 100), (7, 200), (7, 300), (0, 400)].iter().for_each(|&(n, at)| sum.extend(&of(TenantId(n), at)));
        sum.check().unwrap();
        let lived = |t: &TaskObservation| (t.tenant.0, t.born_ns, t.account.ledger.total_ns(), t.alive);
        let rows = [(0, 0, 200, false), (7, 200, 200, false), (0, 400, 100, true)];
        assert!(sum.tasks.iter().map(lived).eq(rows));
    }

    #[test]
    fn a_reused_number_is_another_task() {
        let mut a = window(100, 200, vec![task(1, 100, 60, false)]);
        a.extend(&window(200, 300, vec![task(1, 220, 80, true)]));
        a.check().unwrap();
        assert_eq!(a.tasks.len(), 2);
    }

    #[test]
    fn the_sum_still_names_tenants_that_the_last_window_lacks() {
        let (gone, newer) = (window(100, 200, vec![task(1, 100, 60, false)]), window(200, 300, Vec::new()));
        let mut sum = gone.clone();
        sum.extend(&Observation { tenants: Vec::new(), ..newer.clone() });
        assert_eq!(sum.tenants, gone.tenants);
        sum.check().unwrap();
        let mut renamed = newer;
        renamed.tenants[0].name = "make".into();
        sum = gone;
        sum.extend(&renamed);
        assert_eq!((sum.tenants.len(), sum.tenants[0].name.as_str()), (1, "make"));
    }

    #[test]
    fn steal_of_the_hypervisor_counts_once_whether_or_not_tasks_include_it() {
        let cpu = |busy_ns| CpuTime {
            cpu: CpuId(0),
            idle_ns: 100 - busy_ns,
            busy_ns,
            unknown_ns: 0,
            host_steal_ns: None,
        };
        let machine = |steal_ns| MachineTime { host_steal_ns: steal_ns, ..MachineTime::default() };
        let taken_ns = |on_cpu_ns, busy_ns, steal_ns| {
            let tasks = vec![task(1, 0, on_cpu_ns, false)];
            let seen =
                Observation { cpus: vec![cpu(busy_ns)], machine: machine(steal_ns), ..window(0, 100, tasks) };
            seen.taken_ns()
        };
        assert_eq!(taken_ns(80, 80, Some(30)), 80, "by the clock");
        assert_eq!(taken_ns(50, 80, Some(30)), 80, "without what was taken");
        assert_eq!(taken_ns(50, 90, Some(30)), 80, "some were busy with what is no task's");
        assert_eq!(taken_ns(50, 90, None), 50);
    }

    #[test]
    #[should_panic(expected = "windows must follow each other")]
    fn windows_with_a_hole_between_them_are_not_summed() {
        window(0, 10, vec![]).extend(&window(11, 20, vec![]));
    }

    #[test]
    fn contradictions_are_found() {
        let mut o = window(0, 100, vec![task(1, 0, 90, true)]);
        assert!(o.check().unwrap_err()[0].contains("lived 90 ns of at most 100 ns"));
        o.tasks[0].alive = false;
        o.check().unwrap();
        o.tenants.clear();
        assert!(o.check().is_err());
    }
}
