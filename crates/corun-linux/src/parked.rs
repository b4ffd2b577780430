//! Which tenants were parked when, and the parked time in an observation.
//!
//! A watcher sees that a parked task does not run, but cannot know that corun is the reason. This module
//! moves parked time from where the watcher put it (block, for tasks that a freezer put to sleep) to the
//! ledger's `parked` part. It moves the overlap of the tenant's parked intervals with the task's life in the
//! window, but at most what that part holds. The ledger is only relabeled, so it stays conserved.
//!
//! Error: an interval begins when the parking write has returned, and ends when the unparking write begins. A
//! task on a CPU then needs tens of microseconds to stop. A waiting task keeps its wait until it reaches the
//! trap. That much of its block, if it has as much, is called parked, too. A task that would have slept
//! anyway counts as parked while its tenant is. With [`ParkedTasks::Queued`], steal cannot be distinguished
//! from being held back. So all steal up to the overlap is called parked. Tasks that are too short-lived to
//! be listed keep their values.

use crate::backend::ParkedTasks;
use corun_model::observation::{Account, TaskObservation};
use corun_model::{Observation, TenantId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which tenants were parked when: closed intervals, and open ones.
#[derive(Clone, Debug, Default)]
pub struct ParkLog {
    closed: BTreeMap<TenantId, Vec<(u64, u64)>>,
    open: BTreeMap<TenantId, u64>,
}

impl ParkLog {
    /// Exactly these tenants are parked. Those that were not parked before count as parked since `now_ns`. Those
    /// that no longer are count as released since `before_ns`, when releasing began.
    pub fn become_parked(&mut self, parked: &BTreeSet<TenantId>, before_ns: u64, now_ns: u64) {
        self.open.retain(|tenant, start_ns| {
            let is_parked = parked.contains(tenant);
            if !is_parked {
                let interval = (*start_ns, before_ns.max(*start_ns));
                self.closed.entry(*tenant).or_default().push(interval);
            }
            is_parked
        });
        for tenant in parked {
            self.open.entry(*tenant).or_insert(now_ns);
        }
    }

    /// The parked tenants.
    pub fn parked(&self) -> impl Iterator<Item = TenantId> + '_ {
        self.open.keys().copied()
    }

    /// How long a tenant was parked between two times, in nanoseconds.
    pub fn parked_ns(&self, tenant: TenantId, from_ns: u64, to_ns: u64) -> u64 {
        let closed = self.closed.get(&tenant).into_iter().flatten().copied();
        let open = self.open.get(&tenant).map(|&start_ns| (start_ns, u64::MAX));
        closed.chain(open).map(|(start, end)| end.min(to_ns).saturating_sub(start.max(from_ns))).sum()
    }

    /// Forgets what no later window can overlap.
    fn forget_before(&mut self, ns: u64) {
        self.closed.retain(|_, intervals| {
            intervals.retain(|(_, end_ns)| *end_ns > ns);
            !intervals.is_empty()
        });
    }

    /// Moves parked time to its place in an observation, and forgets everything before the end of it.
    pub fn relabel(&mut self, seen: &mut Observation, tasks_are: ParkedTasks) {
        let mut moved: BTreeMap<TenantId, u64> = BTreeMap::new();
        // A tenant with pairwise accounts keeps them.
        let mut last: Option<(Arc<Account>, u64, Arc<Account>)> = None;
        for task in &mut seen.tasks {
            let overlap_ns = self.overlap_ns(task, seen.start_ns);
            if overlap_ns == 0 {
                continue;
            }
            let before = task.account.clone();
            let is_same = |(of, ns, _): &&(_, u64, _)| Arc::ptr_eq(of, &before) && *ns == overlap_ns;
            task.account = match last.as_ref().filter(is_same) {
                Some((_, _, made)) => made.clone(),
                None => relabelled(&before, overlap_ns, tasks_are).into(),
            };
            let parked_ns = |account: &Account| account.ledger.parts().parked_ns;
            *moved.entry(task.tenant).or_default() += parked_ns(&task.account) - parked_ns(&before);
            last = Some((before, overlap_ns, task.account.clone()));
        }
        for tenant in &mut seen.by_tenant {
            if let Some(&moved_ns) = moved.get(&tenant.id) {
                tenant.account = relabelled(&tenant.account, moved_ns, tasks_are);
            }
        }
        self.forget_before(seen.end_ns);
    }

    fn overlap_ns(&self, task: &TaskObservation, window_start_ns: u64) -> u64 {
        let born_ns = task.born_ns.max(window_start_ns);
        self.parked_ns(task.tenant, born_ns, born_ns + task.account.ledger.total_ns())
    }
}

fn relabelled(account: &Account, parked_ns: u64, tasks_are: ParkedTasks) -> Account {
    match tasks_are {
        ParkedTasks::Asleep => account.with_parked_block(parked_ns),
        ParkedTasks::Queued => account.with_parked_steal(parked_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::ledger::{BlockReasons, Parts};
    use corun_model::observation::TenantObservation;
    use corun_model::{Culprits, Ledger, TaskId, Tenant, TenantKind};
    use proptest::prelude::*;

    const TENANT: TenantId = TenantId(3);

    impl ParkLog {
        fn begin(&mut self, now_ns: u64) {
            self.become_parked(&BTreeSet::from([TENANT]), now_ns, now_ns);
        }

        fn end(&mut self, now_ns: u64) {
            self.become_parked(&BTreeSet::new(), now_ns, now_ns);
        }
    }

    /// A window with one task that blocked, waited and ran for the given times.
    fn window(start_ns: u64, block_ns: u64, steal_ns: u64, compute_ns: u64) -> Observation {
        let total_ns = block_ns + steal_ns + compute_ns;
        let parts = Parts { block_ns, steal_ns, compute_ns, ..Parts::default() };
        let account = Account {
            ledger: Ledger::new(parts, total_ns).unwrap(),
            block: Some(BlockReasons { futex_ns: block_ns, ..BlockReasons::default() }),
            culprits: Culprits::unknown(steal_ns),
            ..Account::default()
        };
        Observation {
            start_ns,
            end_ns: start_ns + total_ns,
            tenants: vec![Tenant {
                id: TENANT,
                kind: TenantKind::Command,
                key: "pgid:1".into(),
                name: "x".into(),
            }],
            tasks: vec![TaskObservation {
                id: TaskId(1),
                name: "x".into(),
                tenant: TENANT,
                born_ns: start_ns,
                alive: true,
                last_cpu: None,
                account: account.clone().into(),
            }],
            by_tenant: vec![TenantObservation { id: TENANT, tasks: 1, account }],
            ..Observation::default()
        }
    }

    #[test]
    fn only_the_overlap_is_parked() {
        let mut log = ParkLog::default();
        log.begin(50);
        log.end(130);
        log.begin(180);
        let mut seen = window(100, 60, 0, 40);
        log.relabel(&mut seen, ParkedTasks::Asleep);
        seen.check().unwrap();
        let parts = *seen.by_tenant[0].account.ledger.parts();
        assert_eq!((parts.parked_ns, parts.block_ns, parts.compute_ns), (50, 10, 40));
        let mut next = window(200, 100, 0, 0);
        log.end(220);
        log.relabel(&mut next, ParkedTasks::Asleep);
        assert_eq!(next.tasks[0].account.ledger.parts().parked_ns, 20);
    }

    #[test]
    fn a_tenant_that_is_held_back_on_the_run_queue_blames_nobody() {
        let mut log = ParkLog::default();
        log.begin(0);
        let mut seen = window(0, 10, 80, 10);
        log.relabel(&mut seen, ParkedTasks::Queued);
        seen.check().unwrap();
        let parts = *seen.tasks[0].account.ledger.parts();
        assert_eq!((parts.parked_ns, parts.steal_ns, parts.block_ns), (80, 0, 10));
    }

    proptest! {
        #[test]
        fn relabelling_conserves_time(
            parks in proptest::collection::vec((0u64..500, 0u64..100), 0..6),
            (block, steal, compute) in (0u64..200, 0u64..200, 0u64..200),
        ) {
            for how in [ParkedTasks::Asleep, ParkedTasks::Queued] {
                let mut log = ParkLog::default();
                let mut t = 0;
                for (wait, length) in &parks {
                    log.begin(t + wait);
                    log.end(t + wait + length);
                    t += wait + length;
                }
                let mut seen = window(100, block, steal, compute);
                log.relabel(&mut seen, how);
                prop_assert!(seen.check().is_ok());
            }
        }
    }
}
