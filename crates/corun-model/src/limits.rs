//! What the machine allows: the CPUs that a task may use, and the CPU time that a tenant may use.
//!
//! What a program could have had alone is bounded by this. A host says what it knows: a task that is not listed, a set that is
//! `None` and a tenant without a quota here are not known to be confined.

use crate::machine::CpuId;
use crate::tenant::{TaskId, TenantId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// CPUs.
pub type CpuSet = BTreeSet<CpuId>;

/// What tasks and tenants may use, as far as a host knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// By task, in the order of their ids.
    pub tasks: Vec<TaskLimits>,
    /// By tenant, in the order of their ids.
    pub quotas: Vec<CpuQuota>,
}

/// Where a task belongs and may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLimits {
    /// The task.
    pub task: TaskId,
    /// Its process. Work moves freely between threads of one process only.
    pub process: TaskId,
    /// The CPUs that the scheduler may put it on, now or as soon as they are switched on: its affinity within its cpuset. Of
    /// isolated CPUs, between which nobody moves tasks, only its own. `None`: not known.
    pub cpus: Option<Arc<CpuSet>>,
    /// Whether that is its own CPU alone although its affinity has others: between isolated CPUs nobody moves it.
    pub is_isolated: bool,
}

/// A limit to the CPU time of all tasks of a tenant together (CFS bandwidth): the tightest of those that hold for all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuQuota {
    /// The tenant.
    pub tenant: TenantId,
    /// CPUs that it may use on average: 0.2 is a fifth of one. More than 0.
    pub cpus: f64,
    /// How often the quota is filled up, in nanoseconds.
    pub period_ns: u64,
}

impl Limits {
    /// What is known of a task.
    pub fn of_task(&self, task: TaskId) -> Option<&TaskLimits> {
        self.tasks.binary_search_by_key(&task, |t| t.task).ok().map(|i| &self.tasks[i])
    }

    /// A tenant's quota; `None`: it has none, or nobody knows.
    pub fn quota(&self, tenant: TenantId) -> Option<&CpuQuota> {
        self.quotas.iter().find(|q| q.tenant == tenant)
    }

    /// Goes on with what holds in the next window. A quota that did not hold all the time is none.
    pub fn extend(&mut self, next: &Limits) {
        // In a storm of threads thousands are new in every window, so that each must not move those behind it.
        let known = self.tasks.len();
        for t in &next.tasks {
            match self.tasks[..known].binary_search_by_key(&t.task, |known| known.task) {
                Ok(i) => self.tasks[i] = t.clone(),
                Err(_) => self.tasks.push(t.clone()),
            }
        }
        if self.tasks.len() > known {
            self.tasks.sort_by_key(|t| t.task);
        }
        self.quotas.retain_mut(|known| match next.quota(known.tenant) {
            Some(now) => {
                known.cpus = known.cpus.max(now.cpus);
                known.period_ns = known.period_ns.max(now.period_ns);
                true
            }
            None => false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_windows_the_later_set_and_the_looser_quota_hold() {
        let of = |task, cpus: &[u32]| TaskLimits {
            task: TaskId(task),
            process: TaskId(1),
            cpus: Some(Arc::new(cpus.iter().map(|n| CpuId(*n)).collect())),
            is_isolated: false,
        };
        let quota = |tenant, cpus| CpuQuota { tenant: TenantId(tenant), cpus, period_ns: 100 };
        let mut limits =
            Limits { tasks: vec![of(1, &[0]), of(3, &[0])], quotas: vec![quota(0, 0.2), quota(1, 1.0)] };
        limits.extend(&Limits { tasks: vec![of(2, &[1]), of(3, &[0, 1])], quotas: vec![quota(0, 0.5)] });
        assert_eq!(limits.tasks, [of(1, &[0]), of(2, &[1]), of(3, &[0, 1])]);
        assert_eq!(limits.quotas, [quota(0, 0.5)], "one that has gone bounds nothing");
        assert_eq!(limits.of_task(TaskId(2)).map(|t| t.process), Some(TaskId(1)));
        assert_eq!(limits.of_task(TaskId(9)), None);
    }
}
