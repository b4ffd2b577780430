//! The CPUs that tasks of several tenants may use. Policies need them to know which tenants fit together.
//!
//! Method: call `sched_getaffinity` for each task that wanted a noticeable part of a CPU in the window. The
//! result is the task's affinity within its cpuset. Each task is read again once a second. Tasks that hardly
//! run are skipped, because there may be tens of thousands.
//!
//! Limits: a change of affinity is noticed up to a second late. Isolated CPUs count as one set here, although
//! nobody moves tasks between them.

use crate::procfs;
use crate::root::Root;
use crate::sched;
use corun_model::limits::{CpuSet, Limits, TaskLimits};
use corun_model::{Observation, TaskId, Tenant, TenantId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long a cached affinity is valid, in nanoseconds.
const HOLDS_NS: u64 = 1_000_000_000;

/// A task that wanted less than this part of a window is skipped.
const NOTICEABLE: u64 = 20;

/// The cached data of a task.
#[derive(Clone, Debug)]
struct Known {
    read_ns: u64,
    limits: TaskLimits,
}

/// Reads affinities and caches them for a while.
#[derive(Debug)]
pub struct Affinities {
    root: Root,
    known: BTreeMap<TaskId, Known>,
}

impl Affinities {
    /// A reader with an empty cache.
    pub fn new(root: &Root) -> Affinities {
        Affinities { root: root.clone(), known: BTreeMap::new() }
    }

    /// Fills in the CPUs of the tasks of the tenants of interest.
    pub fn fill(&mut self, seen: &mut Observation, of_interest: impl Fn(&Tenant) -> bool) {
        let meant: BTreeSet<TenantId> =
            seen.tenants.iter().filter(|t| of_interest(t)).map(|t| t.id).collect();
        let mut here = BTreeMap::new();
        for t in seen.tasks.iter().filter(|t| t.alive && meant.contains(&t.tenant)) {
            let wanted_ns = t.account.ledger.on_cpu_ns() + t.account.ledger.parts().steal_ns;
            // By now the number may belong to another task.
            let known = self.known.remove(&t.id).filter(|k| t.born_ns <= k.read_ns);
            let holds = |k: &Known| seen.end_ns < k.read_ns + HOLDS_NS;
            let is_asked = !known.as_ref().is_some_and(holds) && wanted_ns * NOTICEABLE >= seen.window_ns();
            let known = if is_asked { self.read(t.id, seen.end_ns).or(known) } else { known };
            here.extend(known.map(|known| (t.id, known)));
        }
        self.known = here;
        let tasks = self.known.values().map(|known| known.limits.clone()).collect();
        seen.limits = Limits { tasks, quotas: Vec::new() };
    }

    /// The kernel's answer for a task; `None` if the task has gone.
    fn read(&self, task: TaskId, read_ns: u64) -> Option<Known> {
        let cpus: CpuSet = sched::affinity(task.0).ok()?.into_iter().collect();
        let process = TaskId(procfs::process_of(&self.root, task.0).ok()??);
        let limits = TaskLimits { task, process, cpus: Some(Arc::new(cpus)), is_isolated: false };
        Some(Known { read_ns, limits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::{Account, TaskObservation};
    use corun_model::{CpuId, Ledger, Parts, TenantKind};

    /// A window of 100 ms that ends at this time, in which this thread computed for this long.
    fn seen(end_ns: u64, compute_ns: u64) -> Observation {
        let tenant =
            Tenant { id: TenantId(1), kind: TenantKind::Command, key: "pgid:1".into(), name: "it".into() };
        let parts = Parts { compute_ns, block_ns: 100_000_000 - compute_ns, ..Parts::default() };
        let task = TaskObservation {
            id: TaskId(sched::own_tid()),
            name: "it".into(),
            tenant: tenant.id,
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: Account { ledger: Ledger::new(parts, 100_000_000).unwrap(), ..Account::default() }
                .into(),
        };
        let start_ns = end_ns - 100_000_000;
        Observation { start_ns, end_ns, tenants: vec![tenant], tasks: vec![task], ..Observation::default() }
    }

    #[test]
    fn a_task_that_wants_a_cpu_is_read_once_a_second_and_others_are_not() {
        let (me, all) = (TaskId(sched::own_tid()), sched::affinity(0).unwrap());
        let mut affinities = Affinities::new(&Root::new("/"));
        let mut told = |end_ns, compute_ns, is_meant: bool| {
            let mut seen = seen(end_ns, compute_ns);
            affinities.fill(&mut seen, |_| is_meant);
            let known = seen.limits.of_task(me);
            known.map(|t| {
                (t.process, t.cpus.iter().flat_map(|set| set.iter().copied()).collect::<Vec<CpuId>>())
            })
        };
        let process = TaskId(std::process::id());
        let of = |cpus: &[CpuId]| Some((process, cpus.to_vec()));
        assert_eq!(told(1_000_000_000, 4_000_000, true), None, "it hardly runs");
        assert_eq!(told(1_100_000_000, 100_000_000, false), None, "nobody wants to know");
        assert_eq!(told(1_200_000_000, 100_000_000, true), of(&all));
        assert_eq!(told(1_300_000_000, 0, true), of(&all), "it is remembered");
        sched::set_affinity(0, Some(&all[..1])).unwrap();
        let later = told(1_400_000_000, 100_000_000, true);
        let after = told(2_300_000_000, 100_000_000, true);
        sched::set_affinity(0, Some(&all)).unwrap();
        assert_eq!((later, after), (of(&all), of(&all[..1])));
    }
}
