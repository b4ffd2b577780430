//! The result of a spin detector: how much of a task's time on a CPU was only waiting. All detectors have the same result.
//!
//! A task spins if it runs but only checks repeatedly whether a lock, barrier or queue has changed (PACT'16 §2.1). The kernel shows it
//! as running; a detector splits that time. The result is a time with an interval, so that a reader can tell little spinning from
//! little knowledge.

use crate::observation::{Account, Observation, TaskObservation};
use crate::tenant::{TaskId, TenantId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The method that tells spinning from useful work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpinMethod {
    /// Branches per instruction and misprediction rate against sibling tasks (PACT'16 §2.1).
    Counters,
    /// Samples of the user's instruction pointer that stay in a loop which makes no progress.
    Samples,
    /// Exits of a virtual CPU at PAUSE instructions.
    PauseExits,
    /// The program, or the modelled machine, reports it.
    Told,
}

impl SpinMethod {
    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            SpinMethod::Counters => "counters",
            SpinMethod::Samples => "samples",
            SpinMethod::PauseExits => "pause_exits",
            SpinMethod::Told => "told",
        }
    }
}

/// Spin time of one task in one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpinEstimate {
    /// The observed part of the time on a CPU, in nanoseconds. The rest is assumed to be like it.
    pub observed_ns: u64,
    /// The observed part that cannot be judged, in nanoseconds. It may have been either.
    pub unjudged_ns: u64,
    /// Best estimate, in nanoseconds of time on a CPU.
    pub spin_ns: u64,
    /// Lower end of the 95 % interval.
    pub low_ns: u64,
    /// Upper end of the 95 % interval.
    pub high_ns: u64,
    /// Kernel time without spinning, in nanoseconds. `None` if the method does not show it.
    pub system_ns: Option<u64>,
    /// The method.
    pub method: SpinMethod,
}

impl Observation {
    /// Splits the time on a CPU of every task with an estimate into compute and spin, and sums tenants again. A tenant with a running
    /// task that was not judged has no spin time, since unknown is not zero. The estimate is at most the task's time on a CPU.
    pub fn split_spin(&mut self, found: &BTreeMap<TaskId, SpinEstimate>) {
        let ran = |t: &&mut TaskObservation| t.account.ledger.on_cpu_ns() > 0;
        for task in self.tasks.iter_mut().filter(ran) {
            if let Some(estimate) = found.get(&task.id) {
                let account = Arc::make_mut(&mut task.account);
                account.ledger = account.ledger.with_spin(estimate.spin_ns);
                let compute_ns = account.ledger.parts().compute_ns;
                account.system_ns = estimate.system_ns.map(|ns| ns.min(compute_ns));
            }
        }
        let mut judged: BTreeMap<TenantId, Option<u64>> = BTreeMap::new();
        let mut listed_ns: BTreeMap<TenantId, u64> = BTreeMap::new();
        for task in &self.tasks {
            let ledger = &task.account.ledger;
            if ledger.on_cpu_ns() == 0 {
                continue;
            }
            let sum = judged.entry(task.tenant).or_insert(Some(0));
            *sum = (*sum).and_then(|s| ledger.parts().spin_ns.map(|x| s + x));
            *listed_ns.entry(task.tenant).or_default() += ledger.on_cpu_ns();
        }
        for tenant in &mut self.by_tenant {
            let Account { ledger, .. } = &mut tenant.account;
            let all_listed = listed_ns.get(&tenant.id) == Some(&ledger.on_cpu_ns());
            if let (Some(Some(spin_ns)), true) = (judged.get(&tenant.id), all_listed) {
                *ledger = ledger.with_spin(*spin_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger, Parts};
    use crate::observation::TenantObservation;

    fn window() -> Observation {
        let task = |id: u32, compute_ns: u64| {
            let ledger = Ledger::new(Parts { compute_ns, ..Parts::default() }, compute_ns).unwrap();
            TaskObservation {
                id: TaskId(id),
                name: "t".into(),
                tenant: TenantId(0),
                born_ns: 0,
                alive: true,
                last_cpu: None,
                account: Account { ledger, ..Account::default() }.into(),
            }
        };
        let tasks = vec![task(1, 100), task(2, 60)];
        let account = tasks.iter().fold(Account::default(), |a, t| a.plus(&t.account));
        let by_tenant = vec![TenantObservation { id: TenantId(0), tasks: 2, account }];
        Observation { tasks, by_tenant, end_ns: 100, ..Observation::default() }
    }

    fn estimate(spin_ns: u64) -> SpinEstimate {
        let method = SpinMethod::Samples;
        let (low_ns, high_ns, system_ns) = (spin_ns, spin_ns, Some(40));
        SpinEstimate { observed_ns: spin_ns, unjudged_ns: 0, spin_ns, low_ns, high_ns, system_ns, method }
    }

    #[test]
    fn spin_is_taken_from_compute_and_time_stays_conserved() {
        let mut seen = window();
        seen.split_spin(&BTreeMap::from([(TaskId(1), estimate(30)), (TaskId(2), estimate(90))]));
        let parts = seen.by_tenant[0].account.ledger.parts();
        assert_eq!((parts.compute_ns, parts.spin_ns), (70, Some(90)), "clamped to the 60 ns that task 2 ran");
        assert_eq!(seen.by_tenant[0].account.ledger.total_ns(), 160);
        let system_ns = seen.tasks.iter().map(|t| t.account.system_ns).collect::<Vec<_>>();
        assert_eq!(system_ns, [Some(40), Some(0)], "who only spun computed nothing in the kernel");
    }

    #[test]
    fn a_tenant_with_a_task_that_was_not_judged_has_unknown_spin_not_zero() {
        let mut seen = window();
        seen.split_spin(&BTreeMap::from([(TaskId(1), estimate(30))]));
        assert_eq!(seen.tasks[0].account.ledger.parts().spin_ns, Some(30));
        assert_eq!(seen.by_tenant[0].account.ledger.parts().spin_ns, None);
    }
}
