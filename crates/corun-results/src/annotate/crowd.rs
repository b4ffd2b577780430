//! Finds test cases that ran at the same time as others.
//!
//! A command's ledger is that of all its tests. If several ran at a time, it shows what they lost together, but not which of them. This
//! uses only the time in which a test ran for certain, wherever within its bounds it began. So tests that ran one after another never
//! count as simultaneous, even with coarse timestamps.

use crate::when::{Span, TOLERANCE_NS};

/// The times at which tests ran.
#[derive(Default)]
pub(super) struct Crowd {
    /// Certain times, ordered by start. In the finished list each end is the latest so far.
    ran: Vec<(i64, i64)>,
    /// Times with at least two tests, in order and disjoint.
    crowded: Vec<(i64, i64)>,
}

impl Crowd {
    /// Made from the spans of the tests.
    pub fn of<'a>(spans: impl Iterator<Item = &'a Span>) -> Crowd {
        let mut ran: Vec<(i64, i64)> = spans.map(certainly).filter(|(a, b)| a < b).collect();
        ran.sort_unstable();
        let mut crowded: Vec<(i64, i64)> = Vec::new();
        let mut latest = i64::MIN;
        for (from, until) in &mut ran {
            let begin = crowded.last().map_or(*from, |last| last.1.max(*from));
            let end = latest.min(*until);
            if begin < end {
                crowded.push((begin, end));
            }
            latest = latest.max(*until);
            *until = latest;
        }
        Crowd { ran, crowded }
    }

    /// Whether another test ran at the same time as this one, which is itself in the list.
    pub fn is_around(&self, span: &Span) -> bool {
        let (from, until) = certainly(span);
        if from >= until {
            // It ran somewhere within these bounds. Did another test run all that time?
            let (from, until) = (span.earliest_ns, span.latest_ns.saturating_add(span.length_ns));
            let before = self.ran.partition_point(|ran| ran.0 <= from);
            return self.ran[..before].last().is_some_and(|ran| ran.1 >= until);
        }
        // Times are rounded, and clocks get set.
        let mut left = TOLERANCE_NS.min((until - from) / 2);
        let first = self.crowded.partition_point(|stretch| stretch.1 <= from);
        for stretch in self.crowded[first..].iter().take_while(|stretch| stretch.0 < until) {
            left -= stretch.1.min(until) - stretch.0.max(from);
            if left < 0 {
                return true;
            }
        }
        false
    }
}

/// The time in which a test ran for certain. Empty if no moment is certain.
fn certainly(span: &Span) -> (i64, i64) {
    (span.latest_ns, span.earliest_ns.saturating_add(span.length_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::when::By;

    const MS: i64 = 1_000_000;

    /// Tests with their earliest begin, the width of its bounds, and their length, in ms. Returns which of them ran with another.
    fn around(tests: &[(i64, i64, i64)]) -> Vec<bool> {
        let span = |&(at, open, length): &(i64, i64, i64)| Span {
            earliest_ns: at * MS,
            latest_ns: (at + open) * MS,
            length_ns: length * MS,
            by: By::Stamp,
        };
        let spans: Vec<Span> = tests.iter().map(span).collect();
        let crowd = Crowd::of(spans.iter());
        spans.iter().map(|span| crowd.is_around(span)).collect()
    }

    #[test]
    fn a_test_has_another_around_it_where_both_ran_for_certain() {
        assert_eq!(around(&[(0, 1, 2_000), (0, 1, 900), (2_500, 1, 100)]), [true, true, false]);
        assert_eq!(around(&[(0, 1, 500), (500, 1, 500), (1_000, 1, 1)]), [false; 3], "one after another");
        assert_eq!(around(&[(0, 1, 510), (500, 1, 510)]), [false; 2], "clocks differ by so much");
        assert_eq!(around(&[(0, 1_000, 900), (0, 1_000, 900)]), [false; 2], "both fit into whole seconds");
        assert_eq!(
            around(&[(0, 1_000, 2_000), (1_000, 1_000, 2_000)]),
            [false; 2],
            "they may have met, or not"
        );
        assert_eq!(around(&[(0, 1_000, 5_000), (2_000, 1_000, 5_000)]), [true; 2]);
    }

    #[test]
    fn short_tests_next_to_a_long_one_crowd_it_together() {
        let mut tests = vec![(0, 1, 1_000)];
        tests.extend((1..10).map(|n| (n * 20, 1, 8)));
        assert_eq!(around(&tests), [true; 10]);
        assert_eq!(
            around(&[(0, 1, 1_000), (500, 1, 1)]),
            [false, true],
            "a millisecond takes little from a second"
        );
        assert_eq!(around(&[(0, 1, 1_000), (1_000, 1, 1)]), [false; 2], "it came after");
    }
}
