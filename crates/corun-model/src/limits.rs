//! The limits of the machine: the CPUs that a task may use, and the CPU time that a tenant may use.
//!
//! They bound what a program could have had alone. A host reports the limits that it knows. A task that is not listed, a set that is
//! `None`, and a tenant without a quota are not known to be confined.

use crate::machine::CpuId;
use crate::tenant::{TaskId, TenantId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A set of CPUs.
pub type CpuSet = BTreeSet<CpuId>;

/// The known limits of tasks and tenants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// By task, in the order of their ids.
    pub tasks: Vec<TaskLimits>,
    /// By tenant, in the order of their ids.
    pub quotas: Vec<CpuQuota>,
}

/// The process of a task, and its CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLimits {
    /// The task.
    pub task: TaskId,
    /// Its process. Work moves freely between threads of one process only.
    pub process: TaskId,
    /// The CPUs that the scheduler may put it on, now or when they are switched on: its affinity within its cpuset. Among isolated CPUs
    /// only its own one, since nothing moves tasks between them. `None` if unknown.
    pub cpus: Option<Arc<CpuSet>>,
    /// Whether it has only its own CPU although its affinity has others, because the CPUs are isolated.
    pub is_isolated: bool,
}

/// A limit to the CPU time of all tasks of a tenant together (CFS bandwidth): the tightest one that holds for all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuQuota {
    /// The tenant.
    pub tenant: TenantId,
    /// CPUs that it may use on average: 0.2 is a fifth of one. More than 0.
    pub cpus: f64,
    /// The period of the quota, in nanoseconds.
    pub period_ns: u64,
}

impl Limits {
    /// The limits of a task.
    pub fn of_task(&self, task: TaskId) -> Option<&TaskLimits> {
        self.tasks.binary_search_by_key(&task, |t| t.task).ok().map(|i| &self.tasks[i])
    }

    /// A tenant's quota. `None` if it has none, or it is unknown.
    pub fn quota(&self, tenant: TenantId) -> Option<&CpuQuota> {
        self.quotas.iter().find(|q| q.tenant == tenant)
    }

    /// Adds the limits of the next window. A quota that did not hold all the time is removed.
    pub fn extend(&mut self, next: &Limits) {
        // In a storm of threads every window has thousands of new tasks, so do not insert them one by one.
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
    fn of_two_windows_the_later_set_and_the_looser_quota_apply() {
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
