//! Synthetic interference with zero memory footprint (PACT'16 §2.4): persistent, periodic, intermittent.
//!
//! Busy is *CPU time* by default: a busy interval of 10 ms ends when the thread has computed for 10 ms on its own CPU clock. The
//! paper's periodic load "performs 10ms computation and stays idle for 10ms". So a preempted burst still does all its computing, and
//! the idle interval begins when it is done. In a co-run the cycle is therefore longer than 20 ms, and the *achieved* demand in the
//! report is lower than the requested one: the load behaves like a program that thinks after each burst, not like a clock. With wall
//! time (`busy-by = "wall"`) it behaves like a clock: the cycle stays 20 ms, and a burst loses the time that is stolen from it. Idle is
//! a sleep on an absolute timer without slack. So alone on a CPU the achieved demand is the requested one, except for the wake-up (some
//! µs).
//!
//! Persistent interference is `while(1)`, without any system call. An iteration is a burst, and for persistent interference a
//! millisecond of work.

use crate::clock::{now_ns, thread_cpu_ns, want_exact_timers};
use crate::crew::Crew;
use crate::kernel::Kernel;
use crate::load_thread::{LoadThread, Pace};
use crate::plan::{threads, Plan};
use crate::watch::{Ended, Watch};
use crate::LoadError;
use corun_model::duration::human_ns;
use corun_model::workload::{BusyBy, Interference, Length, Pattern};

const MS: u64 = 1_000_000;

/// A burst approaches its end by halves down to this, so that it ends on time at any speed of the CPU.
const LAST_STEP_NS: u64 = 10_000;

/// A burst by wall time checks the clock at this interval, so a preempted one ends at most this late.
const LONGEST_STEP_NS: u64 = 100_000;

/// The plan of `load`.
pub fn plan(load: &Interference) -> Plan {
    let (name, shape) = match load.pattern {
        Pattern::Persistent => ("persistent", String::new()),
        Pattern::Periodic => ("periodic", format!(", {} busy", human_ns(load.busy))),
        Pattern::Intermittent => {
            ("intermittent", format!(", {} to {} busy", human_ns(load.busy_min), human_ns(load.busy_max)))
        }
    };
    let demand = if load.pattern == Pattern::Persistent { 1.0 } else { load.demand };
    let by_wall = load.pattern != Pattern::Persistent && load.busy_by == BusyBy::Wall;
    let clock = if by_wall { " by wall time" } else { "" };
    Plan {
        what: format!(
            "{name} interference, {}{shape}{clock}, demand {:.0} %",
            threads(load.threads),
            demand * 100.0
        ),
        unit: if load.pattern == Pattern::Persistent { "ms of work" } else { "burst" },
        threads: Plan::alike(name, load.threads),
        cpus: load.cpus.clone(),
        length: if load.duration == 0 { Length::Endless } else { Length::DurationNs(load.duration) },
        demand: Some(demand),
        waits: false,
        works: true,
    }
}

/// Runs `load`.
///
/// # Errors
/// As [`Crew::run`].
pub fn run(load: &Interference, pace: Pace, crew: &Crew, watch: &mut Watch) -> Result<Ended, LoadError> {
    crew.run(watch, |number| {
        let mut hand = crew.load_thread(number, Kernel::registers(), pace);
        let iterations = &crew.tallies[number].iterations;
        want_exact_timers();
        move || {
            for index in 0.. {
                let done = match load.busy_ns(number as u32, index) {
                    None => hand.work(MS),
                    Some(busy_ns) => match load.busy_by {
                        BusyBy::Cpu => burst(&mut hand, busy_ns),
                        BusyBy::Wall => burst_by(&mut hand, busy_ns, now_ns, LONGEST_STEP_NS),
                    },
                };
                if !done {
                    return;
                }
                iterations.add(1);
                if let Some(busy_ns) = load.busy_ns(number as u32, index) {
                    hand.idle(load.idle_ns(busy_ns));
                }
            }
        }
    })
}

/// Computes for `cpu_ns` of the thread's CPU time; false if cut short.
pub(crate) fn burst(hand: &mut LoadThread, cpu_ns: u64) -> bool {
    burst_by(hand, cpu_ns, thread_cpu_ns, u64::MAX)
}

/// Computes for `ns` on `clock`, in steps of at most `step_ns`. Returns false if cut short.
fn burst_by(hand: &mut LoadThread, ns: u64, clock: fn() -> u64, step_ns: u64) -> bool {
    let end_ns = clock() + ns;
    loop {
        let left_ns = end_ns.saturating_sub(clock());
        if left_ns == 0 {
            // A burst that is over before any work must not outlive the run either.
            return !hand.is_cut();
        }
        if !hand.work((left_ns / 2).min(step_ns).max(LAST_STEP_NS.min(left_ns))) {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Counter;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn a_burst_too_short_for_any_work_ends_with_the_run() {
        let (cut, loops) = (AtomicBool::new(false), Counter::default());
        let pace = Pace { loops_per_ms: 1000 };
        let mut hand = LoadThread { kernel: Kernel::registers(), pace, cut: &cut, loops: &loops };
        assert!(burst(&mut hand, 0));
        cut.store(true, Relaxed);
        assert!(!burst(&mut hand, 0));
    }
}
