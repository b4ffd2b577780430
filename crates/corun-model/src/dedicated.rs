//! Dedicated windows and their cost: the same on a live and on a modelled machine.
//!
//! All co-runners are parked. The subject's threads spread over the free CPUs ([`SETTLE_NS`]); then the window begins. The cost for the
//! co-runners is bounded by a **budget**: in any period of `over_ns`, they are parked for at most `per_mille` of it.

use std::collections::VecDeque;

/// How long the subject has the machine before a dedicated window begins, in nanoseconds. When the others are parked, two of its
/// threads may share a CPU, and the kernel moves one only at its next balancing. On two CPUs programs did 5 to 40 % less than in solo
/// runs in the first 20 ms, and nearly as much in the next.
pub const SETTLE_NS: u64 = 20_000_000;

/// The default length of a dedicated window, in nanoseconds.
pub const WINDOW_NS: u64 = 40_000_000;

/// The most that settling, parking, observing and unparking add to a window, on a machine that is not overloaded.
pub const AROUND_NS: u64 = SETTLE_NS + 4_000_000;

/// The share of co-runners' time that dedicated windows may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Thousandths of the time in which co-runners may be parked, 1 to 1000.
    pub per_mille: u32,
    /// The length of the period, in nanoseconds. The budget holds in any such period.
    pub over_ns: u64,
}

impl Default for Budget {
    /// 2 % of any 20 s: six windows of 40 ms with the time around them.
    fn default() -> Budget {
        Budget { per_mille: 20, over_ns: 20_000_000_000 }
    }
}

impl Budget {
    /// The budget for this share of their time, 0 to 1, in any period of the default length. It is never above the share.
    pub fn of_share(share: f64) -> Budget {
        // A share such as 0.023 is not a whole number of thousandths to the last bit.
        Budget { per_mille: (share * 1000.0 + 1e-6).floor() as u32, ..Budget::default() }
    }

    /// How long co-runners may be parked in any period, in nanoseconds.
    pub fn allowance_ns(&self) -> u64 {
        (u128::from(self.over_ns) * u128::from(self.per_mille) / 1000) as u64
    }
}

/// The use of a budget by windows of one length.
#[derive(Clone, Debug)]
pub struct Spending {
    window_ns: u64,
    budget: Budget,
    /// When co-runners were parked, as far back as the budget reaches.
    spent: VecDeque<(u64, u64)>,
}

impl Default for Spending {
    /// Windows of [`WINDOW_NS`] within the default budget.
    fn default() -> Spending {
        Spending { window_ns: WINDOW_NS, budget: Budget::default(), spent: VecDeque::new() }
    }
}

impl Spending {
    /// Windows of `window_ns` each. `None` if even one of them exceeds the budget.
    pub fn new(window_ns: u64, budget: Budget) -> Option<Spending> {
        let fits = window_ns.saturating_add(AROUND_NS) <= budget.allowance_ns();
        fits.then(|| Spending { window_ns, budget, spent: VecDeque::new() })
    }

    /// The length of a window in nanoseconds.
    pub fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// In how many nanoseconds the budget allows the next window; 0 means now.
    pub fn due_in_ns(&self, now_ns: u64) -> u64 {
        let allowance_ns = self.budget.allowance_ns();
        let needed_ns = self.window_ns + AROUND_NS;
        // The period that ends with the new window reaches back to here. As time passes, old windows leave it.
        let spent_since = |from_ns: u64| -> u64 {
            self.spent.iter().map(|&(start, end)| end.saturating_sub(start.max(from_ns))).sum()
        };
        let back = |at_ns: u64| (at_ns + needed_ns).saturating_sub(self.budget.over_ns);
        let fits = |at_ns: u64| spent_since(back(at_ns)) + needed_ns <= allowance_ns;
        if fits(now_ns) {
            return 0;
        }
        let (mut too_soon, mut fine) = (now_ns, now_ns + self.budget.over_ns);
        while fine - too_soon > 1 {
            let middle = too_soon + (fine - too_soon) / 2;
            match fits(middle) {
                true => fine = middle,
                false => too_soon = middle,
            }
        }
        fine - now_ns
    }

    /// Notes a time in which co-runners were parked.
    pub fn spend(&mut self, start_ns: u64, end_ns: u64) {
        self.spent.push_back((start_ns, end_ns));
        let reach_ns = end_ns.saturating_sub(self.budget.over_ns);
        while self.spent.front().is_some_and(|(_, end)| *end < reach_ns) {
            self.spent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_never_more_than_the_share_that_was_allowed() {
        let per_mille = [0.02, 0.023, 0.0239, 1.0].map(|share| Budget::of_share(share).per_mille);
        assert_eq!(per_mille, [20, 23, 23, 1000]);
        assert_eq!(Budget::of_share(0.02), Budget::default());
    }
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_window_that_can_never_be_within_the_budget_is_refused() {
        assert!(Spending::new(500 * MS, Budget::default()).is_none());
        assert!(Spending::new(100 * MS, Budget::default()).is_some());
    }

    #[test]
    fn the_budget_says_when_the_next_window_may_be() {
        let mut spending = Spending::new(200 * MS - AROUND_NS, Budget::default()).unwrap();
        assert_eq!(spending.due_in_ns(0), 0);
        spending.spend(0, 200 * MS);
        assert_eq!(spending.due_in_ns(200 * MS), 0);
        spending.spend(200 * MS, 400 * MS);
        // 200 ms have to leave the twenty seconds. The first window is over at 20.2 s, so the next must be over by then too.
        assert_eq!(spending.due_in_ns(400 * MS), 19_600 * MS);
    }

    proptest! {
        #[test]
        fn no_period_exceeds_the_budget(
            window_ms in 1u64..370,
            waits in proptest::collection::vec(0u64..3_000, 1..40),
            at in 0usize..40,
        ) {
            let budget = Budget::default();
            let mut spending = Spending::new(window_ms * MS, budget).unwrap();
            let mut now = 50_000 * MS;
            let mut all = Vec::new();
            for wait in waits {
                now += wait * MS + spending.due_in_ns(now + wait * MS);
                let end = now + window_ms * MS + AROUND_NS;
                spending.spend(now, end);
                all.push((now, end));
                now = end;
            }
            // The worst periods end with a window.
            let (_, end) = all[at % all.len()];
            let from = end - budget.over_ns;
            let spent: u64 = all
                .iter()
                .map(|(s, e)| (*e).min(end).saturating_sub((*s).max(from)))
                .sum();
            prop_assert!(spent <= budget.allowance_ns(), "{} ms in 20 s", spent / MS);
        }
    }
}
