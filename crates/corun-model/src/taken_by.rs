//! Whose time it was that a subject waited for a CPU. This is the only place that decides it.
//!
//! A report's parts, the view of `top`, the agent's totals, a prediction and a verdict all sort the culprits of an account with this:
//! [`Observation::taken_by`](crate::Observation::taken_by), or for a kind alone [`TenantKind::taken_by`](crate::TenantKind::taken_by).

/// The holder of a CPU that a subject waited for, as seen from the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TakenBy {
    /// A co-runner: the time is **stolen**; a solo run would not lose it.
    CoRunner,
    /// The subject's own tasks, or the I/O threads of the same virtual machine. A solo run has them too.
    Own,
    /// The kernel's own threads. A solo run has them too.
    Kernel,
    /// Corun itself: the cost of watching.
    Watcher,
    /// Nobody: the CPU was idle, and the task was just waking up.
    Idle,
    /// The holder is unknown.
    Unattributed,
}

impl TakenBy {
    /// Whether it may have been a co-runner. A loss counts unknown time as stolen, since most of it is. Lists of parts show it
    /// separately.
    pub fn may_be_co_runner(self) -> bool {
        matches!(self, TakenBy::CoRunner | TakenBy::Unattributed)
    }
}

/// An account's steal by holder, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// [`TakenBy::CoRunner`].
    pub co_runners_ns: u64,
    /// [`TakenBy::Own`].
    pub own_ns: u64,
    /// [`TakenBy::Kernel`].
    pub kernel_ns: u64,
    /// [`TakenBy::Watcher`].
    pub watcher_ns: u64,
    /// [`TakenBy::Idle`].
    pub idle_ns: u64,
    /// [`TakenBy::Unattributed`].
    pub unattributed_ns: u64,
}

impl Taken {
    /// Adds a time.
    pub fn add(&mut self, by: TakenBy, ns: u64) {
        *match by {
            TakenBy::CoRunner => &mut self.co_runners_ns,
            TakenBy::Own => &mut self.own_ns,
            TakenBy::Kernel => &mut self.kernel_ns,
            TakenBy::Watcher => &mut self.watcher_ns,
            TakenBy::Idle => &mut self.idle_ns,
            TakenBy::Unattributed => &mut self.unattributed_ns,
        } += ns;
    }

    /// The sum: the steal.
    pub fn total_ns(&self) -> u64 {
        self.co_runners_ns
            + self.own_ns
            + self.kernel_ns
            + self.watcher_ns
            + self.idle_ns
            + self.unattributed_ns
    }

    /// The time that may have been a co-runner's ([`TakenBy::may_be_co_runner`]).
    pub fn stolen_ns(&self) -> u64 {
        self.co_runners_ns + self.unattributed_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::culprit::{Culprits, Share};
    use crate::observation::{Account, Observation, TenantObservation};
    use crate::tenant::{Tenant, TenantId, TenantKind};

    fn tenant(id: u32, kind: TenantKind, key: &str) -> Tenant {
        Tenant { id: TenantId(id), kind, key: key.into(), name: key.into() }
    }

    #[test]
    fn every_part_of_a_steal_has_one_holder_and_a_machines_own_io_threads_are_its_own() {
        let seen = Observation {
            tenants: vec![
                tenant(0, TenantKind::Vm, "vm:web"),
                tenant(1, TenantKind::VmIo, "vm-io:web"),
                tenant(2, TenantKind::VmIo, "vm-io:db"),
                tenant(3, TenantKind::Kernel, "kernel"),
                tenant(4, TenantKind::Watcher, "watcher"),
                tenant(5, TenantKind::Idle, "idle"),
                tenant(6, TenantKind::Others, "others"),
            ],
            ..Observation::default()
        };
        let of = |subject| {
            let shares = (0..8u32).map(|id| Share { tenant: TenantId(id), steal_ns: 1 << id });
            let culprits = Culprits::new(shares, 256, 511).unwrap();
            seen.taken(TenantId(subject), &culprits)
        };
        let machine = Taken {
            co_runners_ns: 4 + 64 + 128,
            own_ns: 1 + 2,
            kernel_ns: 8,
            watcher_ns: 16,
            idle_ns: 32,
            unattributed_ns: 256,
        };
        assert_eq!((of(0), of(0).total_ns()), (machine, 511));
        assert_eq!(of(1), machine, "the threads wait for each other in both directions");
        let other = of(6);
        assert_eq!((other.own_ns, other.co_runners_ns), (64, 1 + 2 + 4 + 128));
        assert_eq!(other.stolen_ns(), other.co_runners_ns + 256);
    }

    #[test]
    fn a_kind_is_a_co_runner_or_says_what_else_it_is() {
        for kind in TenantKind::ALL {
            assert_eq!(kind.is_co_runner(), kind.taken_by() == TakenBy::CoRunner, "{kind:?}");
            assert!(!kind.is_controllable() || kind.is_co_runner(), "{kind:?}");
        }
    }

    #[test]
    fn a_machines_own_io_threads_are_no_co_runners_of_it() {
        let tenants = vec![
            tenant(0, TenantKind::Vm, "vm:web"),
            tenant(1, TenantKind::VmIo, "vm-io:web"),
            tenant(2, TenantKind::VmIo, "vm-io:db"),
            tenant(3, TenantKind::Kernel, "kernel"),
            tenant(4, TenantKind::Command, "pgid:7"),
            tenant(5, TenantKind::Others, "others"),
            tenant(6, TenantKind::Watcher, "corun"),
        ];
        let of = |t: &Tenant| TenantObservation { id: t.id, tasks: 1, account: Account::default() };
        let by_tenant = tenants.iter().map(of).collect();
        let seen = Observation { tenants, by_tenant, ..Observation::default() };
        let beside = |id| seen.co_runners(TenantId(id)).map(|t| t.id.0).collect::<Vec<u32>>();
        assert_eq!(beside(0), [2, 4, 5]);
        assert_eq!(beside(4), [0, 1, 2, 5]);
        assert!(seen.is_co_runner(TenantId(4), TenantId(9)), "nobody knows who it is");
    }
}
