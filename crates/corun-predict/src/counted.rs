//! Sums of hardware events, each with the time that it covers.
//!
//! Not all of a program's time is counted. A task is counted from the end of the window in which it first ran, and in a short window a group
//! of events may not get its turn. So each sum comes with the time on a CPU in which it was counted. It represents a whole only if that is
//! nearly all of it ([`NEARLY_ALL`]).

use serde::{Deserialize, Serialize};

/// Definition: the share of a time on a CPU that must have been counted to represent all of it. The first window of a program's threads is
/// not counted, and if groups of events take turns, some windows have none of one group. That is a tenth of a short run.
pub const NEARLY_ALL: f64 = 0.75;

/// A sum of events, and the time on a CPU in which they were counted, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Events.
    pub sum: f64,
    /// The time in which they were counted.
    pub in_ns: f64,
}

impl Counted {
    /// Events in a time on a CPU; `None`: not counted.
    pub fn of(events: Option<f64>, on_cpu_ns: f64) -> Counted {
        events.filter(|_| on_cpu_ns > 0.0).map_or(Counted::default(), |sum| Counted { sum, in_ns: on_cpu_ns })
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, o: Counted) -> Counted {
        Counted { sum: self.sum + o.sum, in_ns: self.in_ns + o.in_ns }
    }

    /// This without `o`, which is a part of it.
    #[must_use]
    pub fn less(self, o: Counted) -> Counted {
        let in_ns = (self.in_ns - o.in_ns).max(0.0);
        Counted { sum: if in_ns > 0.0 { (self.sum - o.sum).max(0.0) } else { 0.0 }, in_ns }
    }

    /// Events per nanosecond of the counted time; `None`: nothing was counted.
    pub fn rate(&self) -> Option<f64> {
        (self.in_ns > 0.0).then(|| self.sum / self.in_ns)
    }

    /// Events in all of a time on a CPU, if nearly all of it was counted.
    pub fn whole(&self, on_cpu_ns: f64) -> Option<f64> {
        self.rate().filter(|_| self.in_ns >= NEARLY_ALL * on_cpu_ns).map(|rate| rate * on_cpu_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_speaks_for_the_rest_if_it_is_nearly_all() {
        let sum = (0..3).map(|_| Counted::of(Some(200.0), 100.0)).fold(Counted::default(), Counted::plus);
        let sum = sum.plus(Counted::of(None, 100.0));
        assert_eq!(sum, Counted { sum: 600.0, in_ns: 300.0 });
        assert_eq!((sum.whole(400.0), sum.whole(500.0)), (Some(800.0), None));
        assert_eq!((Counted::default().rate(), Counted::of(Some(0.0), 0.0).rate()), (None, None));
    }

    #[test]
    fn what_is_left_of_a_sum_is_never_negative() {
        let (all, part) = (Counted::of(Some(10.0), 5.0), Counted::of(Some(11.0), 4.0));
        assert_eq!(all.less(part), Counted { sum: 0.0, in_ns: 1.0 });
        assert_eq!(part.less(all), Counted::default());
    }
}
