//! When in a run its tasks waited for CPUs.
//!
//! A ledger says how much of a window was stolen. A run log ([`RunLog`]) says to the microsecond when a task waited, but not for whom.
//! Together they say when in a window the theft can have been: only during waits.
//!
//! The log also says when the program **stood still**: some of its tasks waited for CPUs, and none was on a CPU. Nothing got on then.
//!
//! And it says when **any** task waited. Two tasks that wait at the same time wait twice as long in sum, but a program loses no more time
//! than that in which any of them waits.
//!
//! These sums are kept at instants at least [`GRAIN_NS`] apart. Between two of them a sum grows evenly. So the answer for a stretch is off by no
//! more than that at each of its ends.
//!
//! Limits: a log that lost events says nothing from then on, and neither does a log of more than [`MOST`] instants.

use corun_model::run_log::{Left, RunLog, What};
use corun_model::TaskId;
use std::collections::BTreeSet;

/// Limit: instants that are kept are no closer than this, in nanoseconds.
const GRAIN_NS: u64 = 100_000;
/// Limit: this many are kept. That is some 20 minutes of a program that waits all the time, and a day of most programs.
const MOST: usize = 4_000_000;

/// When the tasks of one program waited for CPUs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// From when on it is known; `None`: never.
    from_ns: Option<u64>,
    until_ns: u64,
    is_over: bool,
    running: BTreeSet<TaskId>,
    waiting: BTreeSet<TaskId>,
    sums: Vec<Sums>,
}

/// The sums up to an instant, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    at_ns: u64,
    /// How long all tasks had waited, summed.
    waited_ns: f64,
    /// How long any of them had waited.
    anybody_ns: f64,
    /// How long the program had stood still.
    still_ns: f64,
}

impl Waits {
    /// Takes the next events of the tasks.
    pub fn push(&mut self, log: &RunLog) {
        self.is_over |= log.lost > 0 || self.sums.len() > MOST;
        if self.is_over {
            return;
        }
        if self.from_ns.is_none() {
            self.from_ns = Some(log.start_ns);
            self.sums.push(Sums { at_ns: log.start_ns, ..Sums::default() });
        }
        for event in &log.events {
            let before = self.state();
            match event.what {
                What::Runs { .. } => {
                    self.waiting.remove(&event.task);
                    self.running.insert(event.task);
                }
                What::Leaves(left) => {
                    self.running.remove(&event.task);
                    match left {
                        Left::Preempted | Left::Yielded => self.waiting.insert(event.task),
                        Left::Waits(_) | Left::Ended | Left::Killed => self.waiting.remove(&event.task),
                    };
                }
                // A task that is woken while it runs goes on.
                What::Woken(_) | What::Born { .. } if !self.running.contains(&event.task) => {
                    self.waiting.insert(event.task);
                }
                _ => {}
            }
            if self.state() != before {
                self.note(event.t_ns, before);
            }
        }
        self.until_ns = self.until_ns.max(log.end_ns);
        self.note(self.until_ns, self.state());
    }

    /// How many tasks wait, and whether the program stands still.
    fn state(&self) -> (usize, bool) {
        (self.waiting.len(), self.running.is_empty() && !self.waiting.is_empty())
    }

    /// The state has been this since the last instant.
    fn note(&mut self, t_ns: u64, (waiting, is_still): (usize, bool)) {
        let Some(last) = self.sums.last().copied() else { return };
        let ns = t_ns.saturating_sub(last.at_ns) as f64;
        let still_ns = last.still_ns + if is_still { ns } else { 0.0 };
        let anybody_ns = last.anybody_ns + if waiting > 0 { ns } else { 0.0 };
        let waited_ns = last.waited_ns + ns * waiting as f64;
        let now = Sums { at_ns: t_ns.max(last.at_ns), waited_ns, anybody_ns, still_ns };
        if let [.., before, _] = self.sums[..] {
            if last.at_ns < before.at_ns + GRAIN_NS {
                self.sums.pop();
            }
        }
        self.sums.push(now);
    }

    /// The part of a stretch for which it is known when tasks waited.
    pub fn known(&self, from_ns: f64, until_ns: f64) -> (f64, f64) {
        match self.from_ns {
            Some(begin_ns) => {
                let from_ns = from_ns.max(begin_ns as f64);
                (from_ns, until_ns.min(self.until_ns as f64).max(from_ns))
            }
            None => (from_ns, from_ns),
        }
    }

    /// How long tasks waited between two instants, summed, as far as it is known.
    pub fn within(&self, from_ns: f64, until_ns: f64) -> f64 {
        self.grown(from_ns, until_ns, |sums| sums.waited_ns)
    }

    /// How long any task waited between two instants, as far as it is known.
    pub fn anybody(&self, from_ns: f64, until_ns: f64) -> f64 {
        self.grown(from_ns, until_ns, |sums| sums.anybody_ns)
    }

    /// How long the program stood still between two instants, as far as it is known.
    pub fn stood_still(&self, from_ns: f64, until_ns: f64) -> f64 {
        self.grown(from_ns, until_ns, |sums| sums.still_ns)
    }

    fn grown(&self, from_ns: f64, until_ns: f64, of: fn(&Sums) -> f64) -> f64 {
        (self.by(until_ns, of) - self.by(from_ns, of)).max(0.0)
    }

    fn by(&self, t_ns: f64, of: fn(&Sums) -> f64) -> f64 {
        let next = self.sums.partition_point(|sums| (sums.at_ns as f64) < t_ns);
        match (next.checked_sub(1).map(|i| &self.sums[i]), self.sums.get(next)) {
            (None, _) => 0.0,
            (Some(before), None) => of(before),
            (Some(before), Some(after)) => {
                let part = (t_ns - before.at_ns as f64) / (after.at_ns - before.at_ns).max(1) as f64;
                of(before) + (of(after) - of(before)) * part
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::run_log::{CpuMask, Event, For, Waker};
    use corun_model::CpuId;

    const MS: u64 = 1_000_000;

    fn log(start_ms: u64, end_ms: u64, events: &[(u64, u32, What)]) -> RunLog {
        let events =
            events.iter().map(|&(t_ms, task, what)| Event { t_ns: t_ms * MS, task: TaskId(task), what });
        RunLog { start_ns: start_ms * MS, end_ns: end_ms * MS, events: events.collect(), ..RunLog::default() }
    }

    const RUNS: What = What::Runs { cpu: CpuId(0), may: CpuMask::ALL };
    const PREEMPTED: What = What::Leaves(Left::Preempted);

    fn within(waits: &Waits, from_ms: u64, until_ms: u64) -> u64 {
        (waits.within((from_ms * MS) as f64, (until_ms * MS) as f64) / MS as f64).round() as u64
    }

    #[test]
    fn a_task_waits_from_when_it_could_run_to_when_it_does() {
        let mut waits = Waits::default();
        let woken = What::Woken(Waker::Interrupt);
        let asleep = What::Leaves(Left::Waits(For::Sleep));
        waits.push(&log(0, 50, &[(10, 1, RUNS), (20, 1, PREEMPTED), (30, 1, RUNS), (35, 1, woken)]));
        waits.push(&log(50, 100, &[(60, 1, asleep), (80, 1, woken), (83, 1, RUNS)]));
        assert_eq!([within(&waits, 0, 100), within(&waits, 0, 25), within(&waits, 30, 80)], [13, 5, 0]);
        assert_eq!(within(&waits, 81, 82), 1);
    }

    #[test]
    fn tasks_that_wait_at_a_time_wait_in_sum() {
        let mut waits = Waits::default();
        let born = What::Born { parent: TaskId(1), process: 2 };
        let ended = What::Leaves(Left::Ended);
        waits.push(&log(0, 100, &[(10, 1, PREEMPTED), (20, 2, born), (30, 2, RUNS), (40, 1, ended)]));
        assert_eq!([within(&waits, 0, 100), within(&waits, 20, 30)], [40, 20]);
        let anybody = |from, until| waits.anybody((from * MS) as f64, (until * MS) as f64) / MS as f64;
        assert_eq!([anybody(0, 100).round(), anybody(25, 100).round()], [30.0, 15.0], "side by side");
    }

    #[test]
    fn a_program_stands_still_while_a_task_of_it_waits_and_none_runs() {
        let mut waits = Waits::default();
        let child = What::Leaves(Left::Waits(For::Child));
        let runs = [(0, 1, RUNS), (10, 2, RUNS), (20, 1, PREEMPTED), (30, 2, PREEMPTED), (50, 2, RUNS)];
        waits.push(&log(0, 60, &runs));
        waits.push(&log(60, 100, &[(60, 1, RUNS), (70, 2, child), (80, 1, child)]));
        let still =
            |from, until| (waits.stood_still((from * MS) as f64, (until * MS) as f64) / MS as f64).round();
        assert_eq!([still(0, 100), still(0, 30), still(40, 100)], [20.0, 0.0, 10.0]);
    }

    #[test]
    fn many_short_waits_are_summed_and_none_is_lost() {
        let mut waits = Waits::default();
        let switch = |i: u64| Event {
            t_ns: i * 10_000,
            task: TaskId(1),
            what: if i.is_multiple_of(2) { PREEMPTED } else { RUNS },
        };
        waits.push(&RunLog { end_ns: 100 * MS, events: (0..10_000).map(switch).collect(), ..log(0, 0, &[]) });
        assert!(waits.sums.len() < 1_500, "{}", waits.sums.len());
        assert_eq!(within(&waits, 0, 100), 50);
        assert_eq!(within(&waits, 20, 40), 10);
    }

    #[test]
    fn a_log_that_lost_events_says_nothing_from_then_on() {
        let mut waits = Waits::default();
        assert_eq!(waits.known(10.0, 20.0), (10.0, 10.0), "of no time");
        waits.push(&log(0, 50, &[]));
        waits.push(&RunLog { lost: 1, ..log(50, 100, &[(60, 1, PREEMPTED)]) });
        waits.push(&log(100, 150, &[]));
        let ms = |(from, until): (f64, f64)| (from as u64 / MS, until as u64 / MS);
        assert_eq!(ms(waits.known((40 * MS) as f64, (70 * MS) as f64)), (40, 50));
    }
}
