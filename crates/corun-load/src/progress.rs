//! The progress of a run: the difference of two snapshots of its threads' counters.

use crate::goal::Measure;
use crate::plan::Plan;
use crate::tally::Tally;
use corun_model::workload::Length;
use serde::Serialize;
use std::fmt::{Display, Formatter};

/// The progress of a run. Rates and demands are those since the last progress.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Progress {
    /// Always `corun.load.progress/1`.
    pub schema: &'static str,
    /// Wall time since the start in nanoseconds.
    pub wall_ns: u64,
    /// The unit of iteration.
    pub unit: &'static str,
    /// Iterations of the program so far.
    pub iterations: u64,
    /// Iterations of the program per second.
    pub per_second: f64,
    /// Achieved demand: CPU time over wall time, the mean over the threads; `None` for a command, whose children
    /// are not watched.
    pub demand: Option<f64>,
    /// How much of the run is done, 0..=1. `None` if unknown.
    pub done: Option<f64>,
    /// The state of calibrated interference; null for all other programs.
    pub holding: Option<Holding>,
    /// The threads, in order.
    pub threads: Vec<ThreadProgress>,
}

/// The progress of a thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadProgress {
    /// Its name.
    pub name: String,
    /// Its own iterations so far.
    pub iterations: u64,
    /// Its own iterations per second.
    pub per_second: f64,
    /// CPU time over wall time, 0..=1.
    pub demand: f64,
}

/// The state of calibrated interference, in a [`Progress`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Holding {
    /// Whether the numbers are shares of steal or slowdowns.
    pub measure: Measure,
    /// The requested value.
    pub target: f64,
    /// The value of the last second.
    pub achieved: f64,
    /// Whether that is in the band.
    pub in_band: bool,
    /// The present demand: a share of every CPU.
    pub demand: f64,
}

impl Display for Holding {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        let text = |value| self.measure.text(value);
        let sign = if self.in_band { "" } else { ", not in the band" };
        let demand = self.demand * 100.0;
        write!(
            f,
            "{} of {}{sign}; asks for {demand:.0} % of each CPU",
            text(self.achieved),
            text(self.target)
        )
    }
}

/// The counters of a plan's threads at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot(Vec<Count>);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    iterations: u64,
    wall_ns: u64,
    cpu_ns: u64,
}

impl Snapshot {
    /// The counters at present.
    pub fn of(tallies: &[Tally]) -> Snapshot {
        let count = |tally: &Tally| {
            let (wall_ns, cpu_ns) = tally.time_ns();
            Count { iterations: tally.iterations.get(), wall_ns, cpu_ns }
        };
        Snapshot(tallies.iter().map(count).collect())
    }
}

impl Progress {
    /// The progress of `plan` from `before` to `after`, which was `wall_ns` after the start of a run that may
    /// last for `limit_ns`.
    pub fn between(
        plan: &Plan,
        before: &Snapshot,
        after: &Snapshot,
        wall_ns: u64,
        limit_ns: Option<u64>,
    ) -> Progress {
        let pairs = || before.0.iter().zip(&after.0).zip(&plan.threads);
        let threads: Vec<_> = pairs()
            .map(|((before, after), thread)| {
                let passed_ns = after.wall_ns.saturating_sub(before.wall_ns);
                ThreadProgress {
                    name: thread.name.clone(),
                    iterations: after.iterations,
                    per_second: per_second(after.iterations - before.iterations, passed_ns),
                    demand: share(after.cpu_ns.saturating_sub(before.cpu_ns), passed_ns),
                }
            })
            .collect();
        let counting = || threads.iter().zip(&plan.threads).filter(|(_, t)| t.counts).map(|(p, _)| p);
        let iterations = counting().map(|t| t.iterations).sum();
        Progress {
            schema: "corun.load.progress/1",
            wall_ns,
            unit: plan.unit,
            iterations,
            per_second: counting().map(|t| t.per_second).sum(),
            demand: Some(threads.iter().map(|t| t.demand).sum::<f64>() / threads.len() as f64),
            done: done(plan.length, iterations, wall_ns, limit_ns),
            holding: None,
            threads,
        }
    }

    /// The progress of a run if only the time is known.
    pub fn of_time(unit: &'static str, wall_ns: u64, limit_ns: Option<u64>) -> Progress {
        Progress {
            schema: "corun.load.progress/1",
            wall_ns,
            unit,
            iterations: 0,
            per_second: 0.0,
            demand: None,
            done: done(Length::Endless, 0, wall_ns, limit_ns),
            holding: None,
            threads: Vec::new(),
        }
    }
}

/// The nearer of the two ends, if any is known.
fn done(length: Length, iterations: u64, wall_ns: u64, limit_ns: Option<u64>) -> Option<f64> {
    let by_iterations = match length {
        Length::Iterations(n) => Some(share(iterations, n)),
        _ => None,
    };
    let by_time = limit_ns.map(|limit| share(wall_ns, limit));
    by_iterations.into_iter().chain(by_time).reduce(f64::max).map(|done| done.min(1.0))
}

/// `events` in `ns` nanoseconds, per second; 0 if no time has passed.
pub fn per_second(events: u64, ns: u64) -> f64 {
    share(events, ns) * 1e9
}

/// `part` divided by `whole`; 0 if `whole` is 0.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Thread;

    fn plan() -> Plan {
        let thread = |name: &str, counts| Thread { name: name.into(), counts };
        Plan {
            what: "test".into(),
            unit: "item",
            threads: vec![thread("stage0-0", false), thread("stage1-1", true)],
            cpus: Vec::new(),
            length: Length::Iterations(200),
            demand: None,
            waits: false,
            works: true,
        }
    }

    #[test]
    fn only_the_threads_that_count_add_to_the_programs_iterations() {
        let count = |iterations, cpu_ns, wall_ns| Count { iterations, cpu_ns, wall_ns };
        let before = Snapshot(vec![count(20, 0, 1_000), count(10, 0, 1_000)]);
        let after = Snapshot(vec![count(70, 500_000, 1_001_000), count(50, 1_000_000, 1_001_000)]);
        let p = Progress::between(&plan(), &before, &after, 1_001_000, None);
        assert_eq!((p.iterations, p.per_second, p.demand, p.done), (50, 40_000.0, Some(0.75), Some(0.25)));
        assert_eq!((p.threads[0].iterations, p.threads[0].demand), (70, 0.5));
    }

    #[test]
    fn the_progress_of_a_run_is_that_of_its_nearer_end() {
        assert_eq!(done(Length::Iterations(100), 10, 9, Some(10)), Some(0.9));
        assert_eq!(done(Length::Iterations(100), 95, 5, Some(10)), Some(0.95));
        assert_eq!(done(Length::Endless, 95, 20, Some(10)), Some(1.0));
        assert_eq!(done(Length::Endless, 95, 20, None), None);
    }
}
