//! A thread at work: turns time into loops of its kernel, and stops it.

use crate::clock::{now_ns, sleep_until};
use crate::kernel::Kernel;
use crate::tally::Counter;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How many loops a millisecond of solo CPU time has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Passes per millisecond, above 0.
    pub loops_per_ms: u64,
}

impl Pace {
    /// The loops for `ns` nanoseconds of work: the nearest whole number, at least 1 unless `ns` is 0.
    pub fn loops(self, ns: u64) -> u64 {
        let exact = u128::from(ns) * u128::from(self.loops_per_ms);
        u64::try_from((exact + 500_000) / 1_000_000).unwrap_or(u64::MAX).max(ns.min(1))
    }

    /// The nanoseconds of work in `loops`.
    pub fn ns(self, loops: u64) -> u64 {
        let ns = u128::from(loops) * 1_000_000 / u128::from(self.loops_per_ms);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// Work between two checks of the stop flag. A thread that is asked to stop goes on for at most this long.
const LOOK_EVERY_NS: u64 = 500_000;

/// The longest sleep between two looks at the stop flag.
const NAP_NS: u64 = 100_000_000;

/// One thread at work: its kernel, its pace, and when to stop.
#[derive(Debug)]
pub struct LoadThread<'a> {
    /// Its kernel.
    pub kernel: Kernel<'a>,
    /// Its pace.
    pub pace: Pace,
    /// Set when all should stop.
    pub cut: &'a AtomicBool,
    /// Counts the loops done.
    pub loops: &'a Counter,
}

impl LoadThread<'_> {
    /// Does `ns` nanoseconds of work; returns false if the end of the run cut it short.
    pub fn work(&mut self, ns: u64) -> bool {
        let look_every = self.pace.loops(LOOK_EVERY_NS);
        let mut left = self.pace.loops(ns);
        while left > 0 {
            if self.is_cut() {
                return false;
            }
            let now = left.min(look_every);
            self.kernel.run(now);
            self.loops.add(now);
            left -= now;
        }
        true
    }

    /// Sleeps for `ns` on an absolute timer, or until cut short.
    pub fn idle(&self, ns: u64) {
        let end_ns = now_ns().saturating_add(ns);
        loop {
            let now = now_ns();
            if now >= end_ns || self.is_cut() {
                return;
            }
            sleep_until(end_ns.min(now + NAP_NS));
        }
    }

    /// Whether all should stop.
    pub fn is_cut(&self) -> bool {
        self.cut.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_becomes_loops_and_back() {
        let pace = Pace { loops_per_ms: 62_500 };
        assert_eq!((pace.loops(1_000_000), pace.ns(62_500)), (62_500, 1_000_000));
        assert_eq!((pace.loops(1), pace.loops(0)), (1, 0), "some work is never rounded to none");
        assert_eq!(pace.loops(u64::MAX / 2), 576_460_752_303_423_488);
    }

    #[test]
    fn work_is_cut_short_by_the_end_of_the_run_and_counted_up_to_there() {
        let (cut, loops) = (AtomicBool::new(false), Counter::default());
        let pace = Pace { loops_per_ms: 1000 };
        let mut hand = LoadThread { kernel: Kernel::registers(), pace, cut: &cut, loops: &loops };
        assert!(hand.work(3_000_000));
        assert_eq!(loops.get(), 3000);
        cut.store(true, Relaxed);
        assert!(!hand.work(3_000_000));
        assert_eq!(loops.get(), 3000);
    }
}
