//! One thread as polls see it.
//!
//! A start time comes in ticks of 10 ms. It is narrowed to lie after the poll that did not see the task yet,
//! and early enough for the time that the task has already been running and waiting.

use super::meter::Meter;
use crate::procfs::{Schedstat, Switches};
use std::sync::Arc;

/// Whether a thread lives, and whether its end was reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It lives.
    Alive,
    /// It ended in this window.
    Ended,
    /// It ended in an earlier window and is still listed: a zombie.
    Reported,
}

/// One thread.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its comm.
    pub name: Arc<str>,
    /// The start of the task or of the host, whichever is later, on the host's clock.
    pub born_ns: u64,
    /// When it was last seen alive.
    pub seen_ns: u64,
    /// Whether it lives.
    pub life: Life,
    /// The CPU it last ran on.
    pub last_cpu: Option<u32>,
    /// Totals at the last sight.
    pub total: Schedstat,
    /// Totals when its name, CPU and state were read.
    pub described_at: Schedstat,
    /// Whether it was running or waiting for a CPU then.
    pub runnable: bool,
    /// It has not blocked since this time: when its voluntary switches were last seen to have moved.
    pub blocked_by_ns: u64,
    /// The part of its time on a CPU that was handed out.
    pub run: Meter,
    /// Handed out of the time waiting.
    pub wait: Meter,
    /// How long its cgroups were throttled in the last window beyond its own wait, in nanoseconds.
    pub throttled_left_ns: u64,
    /// Context switches at the last reading; `None` if they could not be read.
    pub switches: Option<Switches>,
    /// Context switches already reported.
    pub reported: Switches,
}

/// The birth of a task that did not exist at `before_ns` and does at `now_ns`.
pub fn born_ns(started_ns: u64, before_ns: u64, now_ns: u64, total: Schedstat) -> u64 {
    let latest = now_ns.saturating_sub(total.run_ns + total.wait_ns);
    started_ns.min(latest).clamp(before_ns.min(now_ns), now_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_birth_lies_after_the_poll_that_missed_it_and_before_the_time_already_used() {
        let used = |run_ns, wait_ns| Schedstat { run_ns, wait_ns, slices: 1 };
        assert_eq!(born_ns(40, 50, 100, used(0, 0)), 50);
        assert_eq!(born_ns(70, 50, 100, used(10, 5)), 70);
        assert_eq!(born_ns(95, 50, 100, used(10, 10)), 80);
        assert_eq!(born_ns(120, 50, 100, used(0, 0)), 100);
        assert_eq!(born_ns(70, 50, 100, used(90, 0)), 50);
    }
}
