//! Where every nanosecond of a task goes, and who held the CPU while it waited.
//!
//! Culprits are exact. While a task waits for a CPU, the CPU remembers which tenant occupied it since when. A
//! waiting task is charged by walking that history over its wait. Idle CPU time within a wait (idle exit,
//! interrupt, switch) goes to the idle tenant. Cost: a wait walks as many entries as the tenants of its CPU
//! changed during it.

use crate::sched::CpuIx;
use corun_model::culprit::Share;
use corun_model::events::Migrations;
use corun_model::ledger::{BlockReasons, Held, Ledger, Parts};
use corun_model::observation::Account;
use corun_model::{Counters, Culprits, Distance, Events, Histogram, TenantId};

/// Why a task is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It waits for another thread.
    Futex,
    /// It sleeps for a time.
    Sleep,
    /// It waits for a device.
    Io,
    /// A vCPU has no runnable thread.
    Halt,
}

/// What a task did in the present window. The fields are in this order in memory, histograms last.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Tally {
    /// Useful time on a CPU.
    pub compute_ns: u64,
    /// Waiting on a CPU.
    pub spin_ns: u64,
    /// Off the CPU voluntarily, by reason.
    pub block: BlockReasons,
    /// Runnable but not running.
    pub steal_ns: u64,
    /// Who held the CPU during its waits: tenant and time, by tenant.
    culprits: Vec<(u32, u64)>,
    /// Stopped because its tenant is parked.
    pub parked_ns: u64,
    /// Times it blocked or ended.
    pub blocked: u64,
    /// Involuntary switches.
    pub preemptions: u64,
    /// Times it was made runnable.
    pub wakeups: u64,
    /// Moves between CPUs.
    pub migrations: Migrations,
    /// Lengths of waits.
    pub waits: Histogram,
    /// Lengths of stretches on a CPU.
    pub stretches: Histogram,
}

impl Tally {
    /// Counts blocked time.
    pub fn block(&mut self, reason: Reason, ns: u64) {
        match reason {
            Reason::Futex => self.block.futex_ns += ns,
            Reason::Sleep => self.block.sleep_ns += ns,
            Reason::Io => self.block.io_ns += ns,
            Reason::Halt => self.block.other_ns += ns,
        }
    }

    /// Counts a move. Staying on a CPU does not count.
    pub fn migrate(&mut self, distance: Distance) {
        self.migrations.count(distance);
    }

    /// All time counted so far.
    pub fn total_ns(&self) -> u64 {
        self.compute_ns + self.spin_ns + self.block.sum_ns() + self.steal_ns + self.parked_ns
    }

    /// The same as an account; `counters` are those of the window.
    ///
    /// # Panics
    /// Never: the time charged to culprits equals the time counted as steal.
    pub fn account(&self, counters: Option<Counters>) -> Account {
        let parts = Parts {
            compute_ns: self.compute_ns,
            spin_ns: Some(self.spin_ns),
            block_ns: self.block.sum_ns(),
            steal_ns: self.steal_ns,
            parked_ns: self.parked_ns,
            // Nothing stops or freezes a modelled task.
            held: Some(Held::default()),
            ..Parts::default()
        };
        let shares = self.culprits.iter().map(|&(t, steal_ns)| Share { tenant: TenantId(t), steal_ns });
        Account {
            ledger: Ledger::new(parts, self.total_ns()).expect("the total is the sum of the parts"),
            block: Some(self.block),
            events: Events {
                blocked: Some(self.blocked),
                // No modelled program calls `sched_yield`.
                yielded: Some(0),
                preemptions: Some(self.preemptions),
                wakeups: Some(self.wakeups),
                migrations: Some(self.migrations),
            },
            counters,
            culprits: Culprits::new(shares, 0, self.steal_ns)
                .expect("every wait was charged as it was counted"),
            waits: Some(self.waits.clone()),
            stretches: Some(self.stretches.clone()),
            system_ns: None,
        }
    }

    fn charge(&mut self, tenant: u32, ns: u64) {
        self.steal_ns += ns;
        match self.culprits.binary_search_by_key(&tenant, |c| c.0) {
            Ok(i) => self.culprits[i].1 += ns,
            Err(i) => self.culprits.insert(i, (tenant, ns)),
        }
    }
}

/// Which tenant occupied a CPU since when.
#[derive(Clone, Debug)]
pub struct Occupancy {
    /// The present occupant, and since when.
    tenant: u32,
    since_ns: u64,
    /// Earlier occupants, oldest first, as far back as an open wait reaches.
    past: Vec<(u64, u32)>,
    /// The number of entries dropped from the front of the history.
    dropped: u64,
    /// Waits that have begun and not ended.
    open: u32,
}

/// The history is pruned beyond this many entries.
pub const PAST_LIMIT: usize = 4096;

impl Occupancy {
    /// The CPU belongs to a tenant from time 0.
    pub fn of(tenant: u32) -> Occupancy {
        Occupancy { tenant, since_ns: 0, past: Vec::new(), dropped: 0, open: 0 }
    }

    /// The CPU belongs to a tenant from `now_ns`.
    pub fn enter(&mut self, now_ns: u64, tenant: u32) {
        if tenant == self.tenant {
            return;
        }
        if self.open == 0 {
            self.past.clear();
        } else if self.since_ns != now_ns {
            self.past.push((self.since_ns, self.tenant));
        }
        (self.tenant, self.since_ns) = (tenant, now_ns);
    }

    /// A wait begins. Returns its place in the history.
    pub fn begin_wait(&mut self) -> u64 {
        self.open += 1;
        self.mark()
    }

    /// A wait ends; it has been charged.
    pub fn end_wait(&mut self) {
        self.open -= 1;
    }

    /// The number of waits that have begun and not ended.
    pub fn open_waits(&self) -> u32 {
        self.open
    }

    /// Where a wait continues that has been charged up to now.
    pub fn mark(&self) -> u64 {
        self.dropped + self.past.len() as u64
    }

    /// Charges a wait from `since_ns` to `now_ns` that began at `mark`.
    pub fn charge(&self, mark: u64, since_ns: u64, now_ns: u64, to: &mut Tally) {
        let mut from_ns = since_ns;
        let mut until = |until_ns: u64, tenant: u32| {
            if until_ns > from_ns {
                to.charge(tenant, until_ns - from_ns);
                from_ns = until_ns;
            }
        };
        let past = &self.past[(mark - self.dropped) as usize..];
        for (i, &(_, tenant)) in past.iter().enumerate() {
            until(past.get(i + 1).map_or(self.since_ns, |next| next.0), tenant);
        }
        until(now_ns, self.tenant);
    }

    /// Whether the history is beyond its limit. Then every wait on this CPU must be charged and get a new
    /// mark.
    pub fn is_long(&self) -> bool {
        self.past.len() > PAST_LIMIT
    }

    /// Forgets all but the present occupant.
    pub fn prune(&mut self) {
        self.dropped += self.past.len() as u64;
        self.past.clear();
    }
}

/// Migration distances between the CPUs of one machine, by index.
#[derive(Clone, Debug)]
pub struct Distances {
    cpus: Vec<corun_model::machine::Cpu>,
}

impl Distances {
    /// The distances of a machine.
    pub fn of(machine: &corun_model::Machine) -> Distances {
        Distances { cpus: machine.cpus().to_vec() }
    }

    /// How far apart two CPUs are.
    pub fn between(&self, a: CpuIx, b: CpuIx) -> Distance {
        let (x, y) = (&self.cpus[a], &self.cpus[b]);
        match () {
            () if a == b => Distance::SameCpu,
            () if x.core == y.core => Distance::SameCore,
            () if x.llc == y.llc => Distance::SameLlc,
            () if x.socket == y.socket => Distance::SameSocket,
            () => Distance::OtherSocket,
        }
    }
}

/// The difference of `later` and `earlier`, field by field. A field that either lacks is missing.
pub fn counters_between(later: &Counters, earlier: &Counters) -> Counters {
    let sub = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_sub(b?));
    Counters {
        cycles: sub(later.cycles, earlier.cycles),
        instructions: sub(later.instructions, earlier.instructions),
        branches: sub(later.branches, earlier.branches),
        branch_misses: sub(later.branch_misses, earlier.branch_misses),
        l2_misses: sub(later.l2_misses, earlier.l2_misses),
        llc_references: sub(later.llc_references, earlier.llc_references),
        llc_misses: sub(later.llc_misses, earlier.llc_misses),
        offcore_stall_cycles: sub(later.offcore_stall_cycles, earlier.offcore_stall_cycles),
        l2_stall_cycles: sub(later.l2_stall_cycles, earlier.l2_stall_cycles),
        coherence_intra: sub(later.coherence_intra, earlier.coherence_intra),
        coherence_inter: sub(later.coherence_inter, earlier.coherence_inter),
        remote_dram: sub(later.remote_dram, earlier.remote_dram),
        dram_bytes: sub(later.dram_bytes, earlier.dram_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_charged_to_the_holders_of_the_cpu_and_for_how_long() {
        let mut o = Occupancy::of(9);
        o.enter(10, 1);
        let mark = o.begin_wait();
        o.enter(20, 2);
        o.enter(25, 2);
        o.enter(40, 1);
        let mut t = Tally::default();
        o.charge(mark, 15, 50, &mut t);
        let a = t.account(None);
        assert_eq!(a.culprits.of_ns(TenantId(1)), 5 + 10);
        assert_eq!(a.culprits.of_ns(TenantId(2)), 20);
        assert_eq!(a.ledger.parts().steal_ns, 35);
    }

    #[test]
    fn pruning_keeps_the_marks_of_waits_that_begin_afterwards() {
        let mut o = Occupancy::of(0);
        let early = o.begin_wait();
        (1..10).for_each(|i| o.enter(i * 10, i as u32));
        o.charge(early, 0, 90, &mut Tally::default());
        o.end_wait();
        o.prune();
        let mark = o.begin_wait();
        o.enter(200, 3);
        let mut t = Tally::default();
        o.charge(mark, 150, 210, &mut t);
        assert_eq!(t.account(None).culprits.of_ns(TenantId(9)), 50);
    }

    #[test]
    fn the_history_is_forgotten_while_no_task_waits() {
        let mut o = Occupancy::of(0);
        (1..10).for_each(|i| o.enter(i * 10, i as u32));
        assert_eq!(o.past, []);
        o.begin_wait();
        (10..20).for_each(|i| o.enter(i * 10, i as u32));
        o.end_wait();
        assert_eq!((o.past.len(), o.open_waits()), (10, 0));
        o.enter(200, 1);
        assert_eq!((o.past.len(), o.since_ns, o.tenant), (0, 200, 1));
    }
}
