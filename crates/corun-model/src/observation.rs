//! What a host saw in one window: the only thing that policies, predictors and reports ever see.

use crate::counters::Counters;
use crate::culprit::Culprits;
use crate::events::Events;
use crate::histogram::Histogram;
use crate::ledger::{BlockReasons, Ledger};
use crate::machine::CpuId;
use crate::tenant::{TaskId, Tenant, TenantId};

/// What happened on the machine between `start_ns` and `end_ns` of the host's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Start of the window, on the host's clock.
    pub start_ns: u64,
    /// End of the window, on the host's clock.
    pub end_ns: u64,
    /// Every tenant named anywhere below.
    pub tenants: Vec<Tenant>,
    /// Every task that lived in the window, in the order of its id; a task that ended is here with what it had.
    pub tasks: Vec<TaskObservation>,
    /// The same, summed by tenant, in the order of tenant ids; includes tasks too short-lived to be listed.
    pub by_tenant: Vec<TenantObservation>,
    /// Per CPU: busy and idle.
    pub cpus: Vec<CpuTime>,
    /// What the host below or the interrupts took, when the machine tells.
    pub machine: MachineTime,
    /// What was lost.
    pub loss: Loss,
    /// What cannot be seen here, and why.
    pub unavailable: Vec<Unavailable>,
}

/// One task in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskObservation {
    /// The task.
    pub id: TaskId,
    /// Its name (the kernel's comm).
    pub name: String,
    /// The tenant it belonged to at the end.
    pub tenant: TenantId,
    /// When it was first seen inside the window, on the host's clock.
    pub born_ns: u64,
    /// Whether it was still there at the end.
    pub alive: bool,
    /// The CPU it last ran on; `None` when it did not run.
    pub last_cpu: Option<CpuId>,
    /// Where its time went.
    pub account: Account,
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
}

impl Account {
    /// The sum of two accounts.
    #[must_use]
    pub fn plus(&self, o: &Account) -> Account {
        if self.ledger.total_ns() == 0 && *self == Account::default() {
            return o.clone();
        }
        if *o == Account::default() {
            return self.clone();
        }
        let histograms = |a: &Option<Histogram>, b: &Option<Histogram>| match (a, b) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            _ => None,
        };
        Account {
            ledger: self.ledger.plus(&o.ledger),
            block: match (&self.block, &o.block) {
                (Some(a), Some(b)) => Some(a.plus(b)),
                _ => None,
            },
            events: self.events.plus(&o.events),
            counters: match (&self.counters, &o.counters) {
                (Some(a), Some(b)) => Some(a.plus(b)),
                _ => None,
            },
            culprits: self.culprits.plus(&o.culprits),
            waits: histograms(&self.waits, &o.waits),
            stretches: histograms(&self.stretches, &o.stretches),
        }
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

/// What one CPU did in the window. `idle_ns + busy_ns + unknown_ns` is the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTime {
    /// Which CPU.
    pub cpu: CpuId,
    /// Time its idle task ran, in nanoseconds.
    pub idle_ns: u64,
    /// Time any other task ran, in nanoseconds.
    pub busy_ns: u64,
    /// Time nobody saw, in nanoseconds.
    pub unknown_ns: u64,
}

/// What was taken from the machine as a whole, summed over CPUs. `None`: this machine does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTime {
    /// Time the hypervisor below ran somebody else while this machine wanted to run.
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
    /// Tasks that could not be followed because the table of tasks was full.
    pub untracked_tasks: u64,
    /// Tasks that are in their tenant's sums but not listed one by one.
    pub unlisted_tasks: u64,
}

/// Something that cannot be seen or done here, with the reason (invariant 7).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unavailable {
    /// What: "culprits", "hardware counters".
    pub what: String,
    /// Why, and what would help.
    pub why: String,
}

impl Observation {
    /// Length of the window in nanoseconds.
    pub fn window_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// A tenant's name and kind.
    pub fn tenant(&self, id: TenantId) -> Option<&Tenant> {
        self.tenants.iter().find(|t| t.id == id)
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
