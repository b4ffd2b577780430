//! From a task's lagging totals to its part of a window, which sums exactly. Pure.

use super::task::{Life, Task};
use corun_model::ledger::Parts;
use corun_model::observation::{Account, TaskObservation, TenantObservation};
use corun_model::{CpuId, Culprits, Events, Ledger, TaskId, TenantId};
use std::collections::BTreeMap;

/// The longest tick of the scheduler (HZ=100): a running task's time on the CPU lags by at most this.
const TICK_NS_MAX: u64 = 10_000_000;

/// One task's part of a window: its life in it, and how that divides.
pub fn observed(
    tid: u32,
    task: &mut Task,
    tenant: TenantId,
    (start_ns, end_ns): (u64, u64),
    throttled_ns: u64,
) -> TaskObservation {
    let alive = task.life == Life::Alive;
    let born_ns = task.born_ns.clamp(start_ns, end_ns);
    let last_ns = if alive { end_ns } else { task.seen_ns.clamp(born_ns, end_ns) };
    let lifetime_ns = last_ns - born_ns;
    let mut compute_ns = task.run.take_ns(task.total.run_ns, lifetime_ns);
    let mut waited_ns = task.wait.take_ns(task.total.wait_ns, lifetime_ns - compute_ns);
    // The time in progress is in no total yet. The tick bounds how much of it can be running.
    let left_ns = lifetime_ns - compute_ns - waited_ns;
    let since_ns = end_ns.saturating_sub(task.blocked_by_ns);
    let under_way_ns = if alive && task.runnable { left_ns.min(since_ns) } else { 0 };
    if under_way_ns <= TICK_NS_MAX {
        task.run.take_ahead(under_way_ns);
        compute_ns += under_way_ns;
    } else {
        task.wait.take_ahead(under_way_ns);
        waited_ns += under_way_ns;
    }
    // A stop is counted when it ends, the wait when the task runs again, which may be in the next window.
    let stopped_ns = throttled_ns + task.throttled_left_ns;
    let left_ns = stopped_ns.saturating_sub(waited_ns).min(throttled_ns);
    task.throttled_left_ns = left_ns;
    let throttled_ns = stopped_ns.min(waited_ns);
    let parts = Parts {
        compute_ns,
        steal_ns: waited_ns - throttled_ns,
        throttled_ns,
        block_ns: lifetime_ns - compute_ns - waited_ns,
        ..Parts::default()
    };
    let mut events = Events::default();
    if let Some(now) = task.switches {
        events.blocked = Some(now.voluntary.saturating_sub(task.reported.voluntary));
        events.preemptions = Some(now.involuntary.saturating_sub(task.reported.involuntary));
        task.reported = now;
    }
    let account = Account {
        ledger: Ledger::new(parts, lifetime_ns).expect("each part was taken from what the others left"),
        culprits: Culprits::unknown(parts.steal_ns),
        events,
        ..Account::default()
    };
    TaskObservation {
        id: TaskId(tid),
        name: task.name.clone(),
        tenant,
        born_ns,
        alive,
        last_cpu: task.last_cpu.filter(|_| compute_ns > 0).map(CpuId),
        account: account.into(),
    }
}

/// The sums of tasks by tenant, in the order of tenants. A tenant may have computed for so long in tasks that nobody looked at.
pub fn by_tenant(tasks: &[TaskObservation], unseen: Option<(TenantId, u64)>) -> Vec<TenantObservation> {
    let mut sums: BTreeMap<TenantId, TenantObservation> = BTreeMap::new();
    let empty = |id| TenantObservation { id, tasks: 0, account: Account::default() };
    for task in tasks {
        let sum = sums.entry(task.tenant).or_insert_with(|| empty(task.tenant));
        sum.account.add(&task.account);
        sum.tasks += 1;
    }
    if let Some((tenant, compute_ns)) = unseen {
        let parts = Parts { compute_ns, ..Parts::default() };
        let account = &mut sums.entry(tenant).or_insert_with(|| empty(tenant)).account;
        account.ledger =
            account.ledger.plus(&Ledger::new(parts, compute_ns).expect("all of it is computing"));
    }
    sums.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::super::meter::Meter;
    use super::*;
    use crate::procfs::{Schedstat, Switches};

    const MS: u64 = 1_000_000;

    /// A task that existed when the host started, at time 0.
    fn task(runnable: bool) -> Task {
        Task {
            name: "t".into(),
            born_ns: 0,
            seen_ns: 0,
            life: Life::Alive,
            last_cpu: Some(0),
            total: Schedstat::default(),
            described_at: Schedstat::default(),
            runnable,
            blocked_by_ns: 0,
            run: Meter::default(),
            wait: Meter::default(),
            throttled_left_ns: 0,
            switches: None,
            reported: Switches::default(),
        }
    }

    /// Compute, steal and block of a window in milliseconds, given the totals at its end.
    fn window(task: &mut Task, from_ms: u64, to_ms: u64, run_ms: u64, wait_ms: u64) -> (u64, u64, u64) {
        task.total = Schedstat { run_ns: run_ms * MS, wait_ns: wait_ms * MS, slices: 1 };
        let seen = observed(1, task, TenantId(0), (from_ms * MS, to_ms * MS), 0);
        let p = *seen.account.ledger.parts();
        (p.compute_ns / MS, p.steal_ns / MS, p.block_ns / MS)
    }

    #[test]
    fn a_wait_in_progress_is_steal_and_is_not_counted_again_when_it_ends() {
        let mut t = task(true);
        assert_eq!(window(&mut t, 0, 100, 20, 0), (20, 80, 0));
        assert_eq!(window(&mut t, 100, 200, 20, 0), (0, 100, 0));
        assert_eq!(window(&mut t, 200, 300, 110, 190), (90, 10, 0));
    }

    #[test]
    fn a_spinners_time_since_the_last_tick_is_compute_and_is_not_counted_again() {
        let mut t = task(true);
        assert_eq!(window(&mut t, 0, 100, 96, 0), (100, 0, 0));
        assert_eq!(window(&mut t, 100, 200, 199, 0), (100, 0, 0));
    }

    #[test]
    fn a_task_that_blocked_since_is_credited_only_with_later_time() {
        let mut t = task(true);
        t.blocked_by_ns = 70 * MS;
        assert_eq!(window(&mut t, 0, 100, 10, 0), (10, 30, 60));
        let mut t = task(false);
        assert_eq!(window(&mut t, 0, 100, 10, 0), (10, 0, 90));
    }

    #[test]
    fn totals_that_exceed_their_window_are_credited_to_the_next() {
        let mut t = task(false);
        assert_eq!(window(&mut t, 0, 100, 30, 150), (30, 70, 0));
        assert_eq!(window(&mut t, 100, 300, 30, 150), (0, 80, 120));
    }
}
