//! What a host saw in one window: the only thing that policies, predictors and reports ever see.

use crate::counters::Counters;
use crate::culprit::Culprits;
use crate::energy::Energy;
use crate::events::Events;
use crate::histogram::Histogram;
use crate::ledger::{BlockReasons, Ledger};
use crate::limits::Limits;
use crate::machine::CpuId;
use crate::taken_by::{Taken, TakenBy};
use crate::tenant::{TaskId, Tenant, TenantId};
use crate::unavailable::Unavailable;
use std::sync::Arc;

/// What happened on the machine between `start_ns` and `end_ns` of the host's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Start of the window, on the host's clock.
    pub start_ns: u64,
    /// End of the window, on the host's clock.
    pub end_ns: u64,
    /// Every tenant named anywhere below, in the order of their ids.
    pub tenants: Vec<Tenant>,
    /// Every task that lived in the window, in the order of its id; a task that ended is here with what it had.
    pub tasks: Vec<TaskObservation>,
    /// The same, summed by tenant, in the order of tenant ids; includes tasks too short-lived to be listed.
    pub by_tenant: Vec<TenantObservation>,
    /// Tenants whose weight is known to differ from the default of 100, in the order of their ids: 1 to 10000, as in `cpu.weight`.
    pub weights: Vec<(TenantId, u32)>,
    /// Tenants that nobody may touch, in the order of their ids: what a policy decides of them would be refused.
    pub refused: Vec<TenantId>,
    /// Per CPU: busy and idle.
    pub cpus: Vec<CpuTime>,
    /// Which CPUs tasks may use, and how much CPU time tenants may, of those that the host watches closely.
    pub limits: Limits,
    /// What the host below or the interrupts took, when the machine tells.
    pub machine: MachineTime,
    /// What the machine's energy counters counted; where nobody was asked to read them, nothing is known.
    pub energy: Energy,
    /// What was lost.
    pub loss: Loss,
    /// What cannot be seen here, and why.
    pub unavailable: Vec<Unavailable>,
}

/// One task in one window. Most tasks of a machine sleep through a window, and those that do have the same account: it is there
/// once, and so is a name from window to window.
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
    /// Whether it was still there at the end.
    pub alive: bool,
    /// The CPU it last ran on; `None` when it did not run.
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

/// Where the time of a task or tenant went, and what happened to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// The conserved ledger.
    pub ledger: Ledger,
    /// The block part of it, by reason; `None` when the source cannot tell.
    pub block: Option<BlockReasons>,
    /// Switches, wake-ups, migrations.
    pub events: Events,
    /// Hardware events; `None` when the machine has no counters.
    pub counters: Option<Counters>,
    /// Who took the steal.
    pub culprits: Culprits,
    /// Lengths of waits in the run queue; `None` when the source cannot tell.
    pub waits: Option<Histogram>,
    /// Lengths of stretches on a CPU; `None` when the source cannot tell.
    pub stretches: Option<Histogram>,
    /// Of its time computing, what it was in the kernel for, in nanoseconds; `None` when nobody told.
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

    /// Adds another account. What either cannot tell, the sum cannot; an empty account changes nothing.
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
            // What one of them did not tell apart from its block the sum does not.
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

    /// The same account with up to `parked_ns` of its block found to be corun's own parking.
    #[must_use]
    pub fn with_parked_block(&self, parked_ns: u64) -> Account {
        let ledger = self.ledger.with_parked_block(parked_ns);
        let moved_ns = self.ledger.parts().block_ns - ledger.parts().block_ns;
        Account { ledger, block: self.block.map(|b| b.less(moved_ns)), ..self.clone() }
    }

    /// The same account with up to `parked_ns` of its steal found to be corun's own parking, and so nobody's fault.
    #[must_use]
    pub fn with_parked_steal(&self, parked_ns: u64) -> Account {
        let ledger = self.ledger.with_parked_steal(parked_ns);
        Account { ledger, culprits: self.culprits.scaled_to(ledger.parts().steal_ns), ..self.clone() }
    }

    /// [`BlockReasons::waited_outside_ns`] of all its tasks; `None`: the source cannot tell.
    pub fn waited_outside_ns(&self, wall_ns: u64) -> Option<u64> {
        let awake_ns = self.ledger.total_ns() - self.ledger.parts().block_ns;
        Some(self.block.as_ref()?.waited_outside_ns(wall_ns, awake_ns))
    }

    /// Checks what must hold for every account: culprits explain the steal, block reasons explain the block.
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

/// What the hypervisor took is told in ticks of so many nanoseconds, each when it is full.
pub const HOST_STEAL_TICK_NS: u64 = 10_000_000;

/// What one CPU did in the window. `idle_ns + busy_ns + unknown_ns` is the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTime {
    /// Which CPU.
    pub cpu: CpuId,
    /// Time its idle task ran, in nanoseconds.
    pub idle_ns: u64,
    /// Time any other task ran, in nanoseconds; also what the hypervisor below took from it meanwhile.
    pub busy_ns: u64,
    /// Time nobody saw, or in which it was switched off, in nanoseconds.
    pub unknown_ns: u64,
    /// Of its busy time, what the hypervisor below took, in nanoseconds; `None`: this machine does not tell.
    pub host_steal_ns: Option<u64>,
}

/// What was taken from the machine as a whole, summed over CPUs. `None`: this machine does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTime {
    /// Time the hypervisor below ran somebody else while this machine wanted to run. What it took from a running task is part of
    /// what that CPU was busy, and of the task's time on it where the source is the probe (not where it is `schedstat`).
    pub host_steal_ns: Option<u64>,
    /// Time in hard interrupts; part of what the interrupted tasks show as compute.
    pub irq_ns: Option<u64>,
    /// Time in soft interrupts; likewise.
    pub softirq_ns: Option<u64>,
}

/// What was not seen, counted (invariant 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Events that found no room (records, ring).
    pub events: u64,
    /// Task time that fell into no category, in nanoseconds.
    pub unknown_ns: u64,
    /// Task time that an earlier window put into one category and that turned out later to belong to another (the
    /// kernel told of a switch late or not at all), in nanoseconds. It stays where it was first put.
    pub revised_ns: u64,
    /// Tasks that could not be followed because the table of tasks was full.
    pub untracked_tasks: u64,
    /// Tasks that are in their tenant's sums but not listed one by one.
    pub unlisted_tasks: u64,
}

impl TaskObservation {
    /// Says what was counted of it; an account that says so already is left as it is, and stays everybody's who shares it.
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

    /// What the time of `tenant` on a CPU is to the subject that waits for it. A tenant that nobody knows is a co-runner.
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

    /// Whose the steal of one of the subject's accounts was.
    pub fn taken(&self, subject: TenantId, culprits: &Culprits) -> Taken {
        let mut taken = Taken { unattributed_ns: culprits.unattributed_ns(), ..Taken::default() };
        for share in culprits.shares() {
            taken.add(self.taken_by(subject, share.tenant), share.steal_ns);
        }
        taken
    }

    /// Whether a tenant is a co-runner of the subject: what it has of CPUs is **stolen** from those who wait for them, and would
    /// not be alone. Not so the kernel, idle CPUs and corun itself, nor of a virtual machine its own I/O threads, which are there
    /// alone as well. One that nobody knows is.
    pub fn is_co_runner(&self, subject: TenantId, tenant: TenantId) -> bool {
        self.taken_by(subject, tenant) == TakenBy::CoRunner
    }

    /// What the co-runners of the subject did.
    pub fn co_runners(&self, subject: TenantId) -> impl Iterator<Item = &TenantObservation> {
        self.by_tenant.iter().filter(move |seen| self.is_co_runner(subject, seen.id))
    }

    /// A tenant's weight: what is known of it, else the default of 100.
    pub fn weight(&self, id: TenantId) -> u64 {
        let known = self.weights.binary_search_by_key(&id, |w| w.0).ok();
        known.map_or(100, |at| u64::from(self.weights[at].1.max(1)))
    }

    /// CPU time that tasks had or that the host below took, summed over CPUs: the rest was to be had by anybody.
    pub fn taken_ns(&self) -> u64 {
        let on_cpu_ns: u64 = self.by_tenant.iter().map(|t| t.account.ledger.on_cpu_ns()).sum();
        let busy_ns: u64 = self.cpus.iter().map(|c| c.busy_ns).sum();
        // What tasks had may contain what was taken from them; what CPUs were busy does.
        let taken_ns = on_cpu_ns + self.machine.host_steal_ns.unwrap_or(0);
        taken_ns.min(busy_ns).max(on_cpu_ns)
    }

    /// Adds the window that follows this one, so that both become one. What either cannot see, the sum cannot.
    ///
    /// # Panics
    /// When `next` does not begin where this ends: the sum would have a hole in it.
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
        // Of a CPU that is in one window only, nobody knows what it did in the other: it was off.
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
        self.loss.events += next.loss.events;
        self.loss.unknown_ns += next.loss.unknown_ns;
        self.loss.revised_ns += next.loss.revised_ns;
        self.loss.untracked_tasks += next.loss.untracked_tasks;
        self.loss.unlisted_tasks += next.loss.unlisted_tasks;
        for u in &next.unavailable {
            if !self.unavailable.contains(u) {
                self.unavailable.push(u.clone());
            }
        }
    }

    /// A window names those of whom it speaks; the sum names all, as they were called last.
    fn extend_tenants(&mut self, next: &Observation) {
        for t in &next.tenants {
            match self.tenants.binary_search_by_key(&t.id, |known| known.id) {
                Ok(i) => self.tenants[i].clone_from(t),
                Err(i) => self.tenants.insert(i, t.clone()),
            }
        }
    }

    /// A task goes on from one window to the next when it was alive at the end of the first and was there at the
    /// beginning of the second; otherwise, and in another tenant, it is another task, whatever its number. Returns how many went on.
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
        // Whoever is not in the next window ended exactly at the edge between the two.
        living.into_values().for_each(|i| self.tasks[i].alive = false);
        self.tasks.sort_by_key(|t| (t.id, t.born_ns));
        going_on
    }

    /// Checks everything that must hold of any observation on any host: time is conserved for every task and
    /// CPU, lifetimes lie in the window, tenants are the sums of their tasks and are all named.
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
            if listed > total || self.loss.unlisted_tasks == 0 && listed != total {
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
    fn a_tenant_waits_for_the_outside_where_nothing_of_it_runs_sleeps_or_reads_a_device() {
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
    fn what_a_task_did_before_it_went_over_to_another_tenant_stays_there() {
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
    fn whom_a_window_does_not_speak_of_any_more_the_sum_still_names() {
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
    fn what_the_host_below_took_counts_once_whether_or_not_tasks_have_it_too() {
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
