//! When budgets are filled up.
//!
//! The kernel fills a budget up at even times, which have nothing to do with when a program began. Whom a budget has stopped goes on at such
//! a time, or a little later where others have the CPU: so it lies between stopping and going on, of every stop. Stops in other periods
//! leave less of that open, and what is left is taken to be its end: nobody waits for long each time.

use super::script::Budget;
use std::collections::BTreeMap;

/// Between which times each budget was filled up once, on the log's clock, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Refilling(BTreeMap<Budget, [u64; 2]>);

impl Refilling {
    /// A task that a budget had stopped goes on.
    pub(super) fn goes_on(&mut self, budget: Budget, stopped_ns: u64, now_ns: u64) {
        let period_ns = budget.1;
        if now_ns.saturating_sub(stopped_ns) >= period_ns {
            return; // It may have been filled up at any time.
        }
        let stop = [stopped_ns, now_ns];
        let known = self.0.entry(budget).or_insert(stop);
        let last = now_ns.saturating_sub(known[0]) / period_ns;
        // The last time that it can have been filled up, or the one before that.
        let both = [last, last.saturating_sub(1)].into_iter().find_map(|periods| {
            let [from, until] = known.map(|ns| ns + periods * period_ns);
            let both = [from.max(stop[0]), until.min(stop[1])];
            (both[0] <= both[1]).then_some(both)
        });
        // Another budget of the same size, or the times have changed.
        *known = both.unwrap_or(stop);
    }

    /// When budgets are filled up first from a time on, in nanoseconds from then.
    pub(super) fn since(&self, begin_ns: u64) -> Vec<(Budget, u64)> {
        let first = |(budget, [_, at_ns]): (&Budget, &[u64; 2])| {
            let period_ns = budget.1;
            (*budget, period_ns - (begin_ns % period_ns + period_ns - at_ns % period_ns) % period_ns)
        };
        self.0.iter().map(first).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const BUDGET: Budget = (6 * MS, 20 * MS);

    #[test]
    fn all_stops_together_tell_when_a_budget_is_filled_up() {
        let mut refilling = Refilling::default();
        // It is filled up at 7, 27, 47 ...; others have the CPU for up to 4 ms more.
        for (stopped, goes_on) in [(14, 31), (40, 48), (60, 69), (93, 107), (999, 1_010)] {
            refilling.goes_on(BUDGET, stopped * MS, goes_on * MS);
        }
        assert_eq!(refilling.since(0), [(BUDGET, 7 * MS)]);
        assert_eq!(refilling.since(7 * MS), [(BUDGET, 20 * MS)], "it has just been");
        assert_eq!(refilling.since(1_000 * MS), [(BUDGET, 7 * MS)]);
        assert_eq!(refilling.since(1_010 * MS), [(BUDGET, 17 * MS)]);
    }

    #[test]
    fn a_stop_of_a_period_tells_nothing_and_one_that_contradicts_the_others_begins_anew() {
        let mut refilling = Refilling::default();
        refilling.goes_on(BUDGET, 10 * MS, 30 * MS);
        assert!(refilling.since(0).is_empty());
        refilling.goes_on(BUDGET, 5 * MS, 7 * MS);
        refilling.goes_on(BUDGET, 33 * MS, 35 * MS);
        assert_eq!(refilling.since(0), [(BUDGET, 15 * MS)]);
    }
}
