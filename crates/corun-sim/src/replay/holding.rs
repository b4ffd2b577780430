//! Whether budgets still apply.
//!
//! A log records a task's budget when the budget has stopped the task. If a budget becomes looser or is
//! removed, it stops nobody any more, and the log does not mention it again. But the tasks show it: they run
//! for longer than the budget allows.
//!
//! Limit: until then, the budget counts as applied. Tasks that would not have used it up look the same with
//! and without it.

use super::script::Budget;
use std::collections::BTreeMap;

/// Limit: periods in which tasks may use more than the length suggests: the first, the last, and one that was
/// saved up.
const SPARE_PERIODS: u64 = 3;
/// Limit: every CPU may use this much more, since the kernel hands out budgets in slices and checks at ticks.
const SPARE_NS: u64 = 10_000_000;

/// How much of each budget was used since the log last recorded it.
#[derive(Clone, Debug, Default)]
pub(super) struct Holding(BTreeMap<Budget, Used>);

#[derive(Clone, Copy, Debug)]
struct Used {
    since_ns: u64,
    ran_ns: u64,
}

impl Holding {
    /// The budget applies now: it has just stopped a task, or a task has come under it.
    pub(super) fn is_told(&mut self, budget: Budget, now_ns: u64) {
        self.0.insert(budget, Used { since_ns: now_ns, ran_ns: 0 });
    }

    /// A task under the budget has run for this long, until now, on a machine with this many CPUs. Returns
    /// since when the budget cannot have applied.
    pub(super) fn runs(&mut self, budget: Budget, ran_ns: u64, now_ns: u64, cpus: usize) -> Option<u64> {
        let used = self.0.get_mut(&budget)?;
        used.ran_ns += ran_ns;
        let Budget { quota_ns, period_ns, .. } = budget;
        let periods = now_ns.saturating_sub(used.since_ns).div_ceil(period_ns.max(1)) + SPARE_PERIODS;
        let most_ns = periods.saturating_mul(quota_ns).saturating_add(cpus.max(1) as u64 * SPARE_NS);
        let since_ns = (used.ran_ns > most_ns).then_some(used.since_ns)?;
        self.0.remove(&budget);
        Some(since_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const FIFTH: Budget = Budget { quota_ns: 20 * MS, period_ns: 100 * MS, filled_ns: None };

    /// When a task that runs for this many of every 10 ms shows that its budget is gone, in milliseconds. The
    /// log recorded the budget at 1,000 ms.
    fn shows(of_ten: u64, cpus: usize) -> Option<u64> {
        let mut holding = Holding::default();
        holding.is_told(FIFTH, 1_000 * MS);
        (1..1_000).map(|n| 1_000 + 10 * n).find(|at| {
            let since = holding.runs(FIFTH, of_ten * MS, at * MS, cpus);
            assert!(since.is_none_or(|since| since == 1_000 * MS));
            since.is_some()
        })
    }

    #[test]
    fn a_task_that_runs_for_longer_than_its_budget_shows_that_the_budget_is_gone() {
        assert_eq!((shows(2, 1), shows(1, 1)), (None, None), "it holds, or nobody uses it up");
        // 20 ms in every period begun, three more periods, and 10 ms.
        assert_eq!(shows(10, 1), Some(1_100));
        assert!(shows(3, 1).is_some_and(|at| at > 1_500));
        assert!(shows(10, 8) > shows(10, 1), "each CPU may have had a slice");
    }

    #[test]
    fn a_budget_that_is_recorded_again_applies_again() {
        let mut holding = Holding::default();
        for at in 1..100 {
            holding.is_told(FIFTH, at * 100 * MS);
            assert_eq!(holding.runs(FIFTH, 60 * MS, (at * 100 + 60) * MS, 1), None);
        }
        let other = Budget { filled_ns: Some(1), ..FIFTH };
        assert_eq!(holding.runs(other, 6_000 * MS, 0, 0), None, "one of which nothing was told");
    }
}
