//! The results of a run, for programs (`corun.load/1`) and, in [`crate::text`], for people.
//!
//! Per thread: `work_ns` is the calibrated work done, `cpu_ns` its CPU time, and `wall_ns` the time that passed. With `waiting.spin_ns`
//! and `waiting.block_ns` these are the figures that a profile of the run should find. Figures without an account are null, not 0.

use crate::calibration::Calibration;
use crate::crew::Crew;
use crate::holding::Held;
use crate::progress::{per_second, share};
use crate::tally::{Start, Tally, Used};
use crate::watch::Ended;
use serde::Serialize;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Always `corun.load/1`.
    pub schema: &'static str,
    /// The program in one line.
    pub what: String,
    /// Why it ended.
    pub ended: Ended,
    /// The unit of iteration: round, grain, item, burst, ….
    pub unit: &'static str,
    /// Iterations of the program: rounds of a barrier, items out of a pipeline; otherwise the sum over the threads.
    pub iterations: u64,
    /// Iterations per second of wall time.
    pub per_second: f64,
    /// From the start of the first thread to the end of the last, in nanoseconds, without preparations.
    pub wall_ns: u64,
    /// CPU time of all threads in nanoseconds; of a command, with its descendants.
    pub cpu_ns: u64,
    /// Achieved demand: CPU time over wall time, the mean over the threads, or of the whole command.
    pub demand: f64,
    /// The requested demand; null if it is not fixed.
    pub demand_asked: Option<f64>,
    /// The pace of its work; null if no work is counted.
    pub calibration: Option<Calibration>,
    /// The cost of waiting for all threads together; null without an account.
    pub waiting: Option<Waiting>,
    /// The result of calibrated interference; null for all other programs.
    pub held: Option<Held>,
    /// The threads, in order; none for a command, whose threads are its own.
    pub threads: Vec<ThreadReport>,
    /// How the command ended; null for all other programs.
    pub command: Option<CommandReport>,
}

/// The results of one thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadReport {
    /// Its name.
    pub name: String,
    /// Its thread id in the kernel.
    pub tid: i32,
    /// The CPU it was pinned to; null if it was not.
    pub cpu: Option<u32>,
    /// Its own iterations.
    pub iterations: u64,
    /// Its own iterations per second of its wall time.
    pub per_second: f64,
    /// Wall time from its start to its end in nanoseconds.
    pub wall_ns: u64,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// CPU time over wall time.
    pub demand: f64,
    /// Work done, in nanoseconds of solo CPU time according to the calibration; null if none is counted.
    pub work_ns: Option<u64>,
    /// Voluntary context switches.
    pub yields: u64,
    /// Involuntary context switches.
    pub preemptions: u64,
    /// The cost of waiting; null without an account.
    pub waiting: Option<Waiting>,
}

/// The cost of waiting for other threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// Waits that were not over before they began.
    pub waits: u64,
    /// Wall time inside them in nanoseconds. In the part that is neither spin nor block, the thread was preempted.
    pub wait_ns: u64,
    /// CPU time spent spinning in nanoseconds.
    pub spin_ns: u64,
    /// Times a thread went to sleep in the kernel.
    pub sleeps: u64,
    /// Wall time from going to sleep until running again in nanoseconds, the wait for a CPU included.
    pub block_ns: u64,
}

/// The end of a command and its resource usage, from `wait4`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandReport {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its exit status; null if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if any.
    pub signal: Option<i32>,
    /// CPU time in user mode in nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel in nanoseconds.
    pub system_ns: u64,
    /// The most memory that one of its processes held, in bytes.
    pub max_rss_bytes: u64,
}

impl Report {
    /// The report of a crew whose threads have all ended.
    pub fn of(crew: &Crew, ended: Ended, calibration: Option<Calibration>) -> Report {
        let plan = &crew.plan;
        let done: Vec<(&Tally, &Start, &Used)> = crew
            .tallies
            .iter()
            .map(|t| (t, t.start.get().expect("it has started"), t.used.get().expect("it has ended")))
            .collect();
        let begin_ns = done.iter().map(|(_, start, _)| start.wall_ns).min().unwrap_or(0);
        let end_ns = done.iter().map(|(_, start, used)| start.wall_ns + used.wall_ns).max().unwrap_or(0);
        let threads: Vec<_> = done
            .iter()
            .enumerate()
            .map(|(number, (tally, start, used))| ThreadReport {
                name: plan.threads[number].name.clone(),
                tid: start.tid,
                cpu: plan.cpu(number),
                iterations: tally.iterations.get(),
                per_second: per_second(tally.iterations.get(), used.wall_ns),
                wall_ns: used.wall_ns,
                cpu_ns: used.cpu_ns,
                demand: share(used.cpu_ns, used.wall_ns),
                work_ns: calibration.map(|c| c.pace().ns(tally.loops.get())),
                yields: used.yields,
                preemptions: used.preemptions,
                waiting: plan.waits.then(|| Waiting::of(tally)),
            })
            .collect();
        let counting = threads.iter().zip(&plan.threads).filter(|(_, planned)| planned.counts);
        let iterations = counting.map(|(t, _)| t.iterations).sum();
        Report {
            schema: "corun.load/1",
            what: plan.what.clone(),
            ended,
            unit: plan.unit,
            iterations,
            per_second: per_second(iterations, end_ns - begin_ns),
            wall_ns: end_ns - begin_ns,
            cpu_ns: threads.iter().map(|t| t.cpu_ns).sum(),
            demand: threads.iter().map(|t| t.demand).sum::<f64>() / threads.len() as f64,
            demand_asked: plan.demand,
            calibration,
            waiting: plan.waits.then(|| threads.iter().filter_map(|t| t.waiting).sum()),
            held: None,
            threads,
            command: None,
        }
    }
}

impl Waiting {
    fn of(tally: &Tally) -> Waiting {
        let w = &tally.wait;
        Waiting {
            waits: w.waits.get(),
            wait_ns: w.wait_ns.get(),
            spin_ns: w.spin_ns.get(),
            sleeps: w.sleeps.get(),
            block_ns: w.block_ns.get(),
        }
    }
}

impl std::iter::Sum for Waiting {
    fn sum<I: Iterator<Item = Waiting>>(parts: I) -> Waiting {
        parts.fold(Waiting::default(), |a, b| Waiting {
            waits: a.waits + b.waits,
            wait_ns: a.wait_ns + b.wait_ns,
            spin_ns: a.spin_ns + b.spin_ns,
            sleeps: a.sleeps + b.sleeps,
            block_ns: a.block_ns + b.block_ns,
        })
    }
}
