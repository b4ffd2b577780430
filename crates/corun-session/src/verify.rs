//! Verify: run a command once, and judge how much of its time others cost it.

use crate::end::{left_behind, next_window, EndConditions, Ended};
use crate::error::Error;
use crate::stop::Stop;
use crate::subject_watch::{SubjectWatch, WatchOptions};
use crate::target::{hold, release};
use corun_linux::clock::unix_ahead_ns;
use corun_linux::launch::Running;
use corun_linux::spin::SpinOptions;
use corun_linux::watcher::Source;
use corun_linux::Root;
use corun_model::run_log::{Left, RunLog, What as Event};
use corun_model::{Host, HostError, Machine, Observation, TaskId, TenantId, Unavailable};
use corun_predict::verdict::{Judge, Verdict};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// The length of a window: closing one costs half a millisecond of CPU time on a calm machine, and several
/// where hundreds of tasks run. That must not disturb the run.
const SLOT: Duration = Duration::from_millis(250);
/// The same if parts of the run are judged, each of which should have windows of its own.
const SLOT_OF_PARTS: Duration = Duration::from_millis(100);

/// The time between two samples of a CPU, in nanoseconds: φ⁴ ms. A sample interrupts the program, in a
/// virtual machine for about 15 µs, so these cost it a fifth of a per cent. A verdict sums over the whole run
/// and needs no more of them.
const SAMPLED_NS: u64 = 6_854_102;

/// This many processes are remembered; a run with more is judged without them.
const MOST_LIVES: usize = 100_000;

/// How to judge.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// The source; `None`: the best one.
    pub source: Option<Source>,
    /// Share of the run's time that others may cost it.
    pub max_disturbance: f64,
    /// Separate spinning from computing by samples.
    pub spin: bool,
    /// Count hardware events of each task.
    pub counters: bool,
    /// Keep what is needed to judge parts of the run ([`Judge::parts`]).
    pub parts: bool,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        VerifyOptions {
            source: None,
            max_disturbance: corun_predict::verdict::MAX_DISTURBANCE,
            spin: true,
            counters: false,
            parts: false,
        }
    }
}

/// A judged run: an iterator over its windows. Dropping it leaves nothing in the kernel; the command goes on.
pub struct Verify {
    watch: SubjectWatch,
    end: EndConditions,
    ended: Option<Ended>,
    judge: Judge,
    lives: Lives,
    slot: Duration,
    first: TaskId,
    begin_ns: u64,
    end_ns: u64,
    /// How far the wall clock was ahead at the start.
    unix_ahead_ns: i64,
    left_behind: usize,
}

impl Verify {
    /// Starts a command, watched from its first instruction.
    ///
    /// # Errors
    /// If it cannot be started or watched.
    pub fn start(command: Command, options: &VerifyOptions, stop: &Stop) -> Result<Verify, Error> {
        let root = Root::new("/");
        let (subject, held) = hold(command)?;
        let first = TaskId(held.pid());
        let wanted = WatchOptions {
            source: options.source,
            spin: options.spin.then(|| SpinOptions { period_ns_min: SAMPLED_NS, ..SpinOptions::default() }),
            counters: options.counters,
            dedicated: None,
            wake_up_ns: None,
        };
        let mut watch = stop.at_once(|| SubjectWatch::start(&root, subject, &[first], wanted))?;
        // Time before the command began does not belong to its run.
        watch.observe()?;
        let begin_ns = watch.now_ns();
        let running = release(held, stop)?;
        let judge = Judge::new(watch.tenant(), options.max_disturbance);
        Ok(Verify {
            judge: if options.parts { judge.of_parts() } else { judge },
            lives: Lives::default(),
            slot: if options.parts { SLOT_OF_PARTS } else { SLOT },
            watch,
            end: EndConditions { running: Some(running), end_ns: None, stop: stop.clone() },
            ended: None,
            first,
            begin_ns,
            end_ns: begin_ns,
            unix_ahead_ns: unix_ahead_ns(),
            left_behind: 0,
        })
    }

    /// The command's tenant.
    pub fn subject(&self) -> TenantId {
        self.watch.tenant()
    }

    fn window(&mut self) -> Result<Observation, HostError> {
        self.ended = self.end.wait(&mut self.watch, self.slot)?;
        self.end_ns = self.watch.now_ns();
        let seen = self.watch.observe()?;
        self.judge.push(&seen);
        if let Some(log) = self.watch.run_log() {
            self.judge.push_log(log);
            self.lives.push(log);
        }
        self.left_behind = left_behind(&seen, Some(self.watch.tenant()), self.first);
        Ok(seen)
    }

    /// Stops watching and judges the observations.
    pub fn finish(mut self) -> Verified {
        let ended = self.ended.unwrap_or(Ended::Interrupted);
        let evidence = self.watch.evidence(ended.is_complete());
        evidence.into_iter().for_each(|evidence| self.judge.push_evidence(evidence));
        self.judge.know_servers(self.watch.servers());
        Verified {
            verdict: self.judge.verdict(Some(self.end_ns - self.begin_ns)),
            judge: self.judge,
            lives: self.lives.ended,
            begin_ns: self.begin_ns,
            end_ns: self.end_ns,
            unix_ahead_ns: [self.unix_ahead_ns, unix_ahead_ns()],
            missing: self.watch.missing(),
            machine: self.watch.machine().clone(),
            source: self.watch.watcher().source(),
            counting_cost: self.watch.counting_cost(),
            left_behind: (ended != Ended::Interrupted).then_some(self.left_behind),
            ended,
            command: self.end.running,
        }
    }
}

impl Iterator for Verify {
    type Item = Result<Observation, Error>;

    /// The next window; `None` once the command has ended or a stop was requested.
    fn next(&mut self) -> Option<Result<Observation, Error>> {
        next_window(self, |session| &mut session.ended, Verify::window)
    }
}

/// The result of a try, as far as it matters to whether there is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Whether the result is good enough: the run was clean, or every benchmark has as many clean iterations
    /// as it needs.
    pub is_clean: bool,
    /// Whether the command failed, or its output cannot be read: the next try would be no better.
    pub has_failed: bool,
}

/// Makes tries until one is clean, at most this many after the first, and returns the last. A try gets the
/// previous one. If a command ends well despite a stop request, it was not interrupted, but there is no other
/// try.
///
/// # Errors
/// The error of a try; there is none after it.
pub fn until_clean<T, E>(
    retries: u32,
    stop: &Stop,
    mut make: impl FnMut(Option<&T>) -> Result<T, E>,
    came_to: impl Fn(&T) -> Attempt,
) -> Result<T, E> {
    let mut last = make(None)?;
    for _ in 0..retries {
        let Attempt { is_clean, has_failed } = came_to(&last);
        if is_clean || has_failed || stop.is_asked() {
            break;
        }
        last = make(Some(&last))?;
    }
    Ok(last)
}

/// When processes lived.
#[derive(Default)]
struct Lives {
    /// Since when, of those that do.
    begun: BTreeMap<TaskId, u64>,
    ended: Vec<(u64, u64)>,
    is_over: bool,
}

impl Lives {
    fn push(&mut self, log: &RunLog) {
        self.is_over |= log.lost > 0 || self.ended.len() > MOST_LIVES;
        if self.is_over {
            return *self = Lives { is_over: true, ..Lives::default() };
        }
        for event in &log.events {
            match event.what {
                Event::Born { process, .. } if process == event.task.0 => {
                    self.begun.insert(event.task, event.t_ns);
                }
                Event::Leaves(Left::Ended | Left::Killed) => {
                    let begun = self.begun.remove(&event.task);
                    self.ended.extend(begun.map(|begin_ns| (begin_ns, event.t_ns)));
                }
                _ => {}
            }
        }
        self.ended.sort_unstable();
    }
}

/// A run that was judged.
pub struct Verified {
    /// How much of its time others cost it, when and who.
    pub verdict: Verdict,
    /// The judge of it and of its parts.
    pub judge: Judge,
    /// The lifetimes of the processes that it started, on the host's clock, in the order in which they began;
    /// empty unless all are known.
    pub lives: Vec<(u64, u64)>,
    /// When the command began, on the host's clock.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// How far the wall clock was ahead of the host's when it began and when it had ended: somebody may have
    /// set it.
    pub unix_ahead_ns: [i64; 2],
    /// The unseen values, and why.
    pub missing: Vec<Unavailable>,
    /// The machine's shape.
    pub machine: Machine,
    /// How it was seen.
    pub source: Source,
    /// The cost of counting, as a share of the command's time on a CPU.
    pub counting_cost: Option<f64>,
    /// Tasks that the command has left behind; `None` if it was interrupted.
    pub left_behind: Option<usize>,
    /// Why it ended.
    pub ended: Ended,
    /// The command. [`Running::wait`] collects it.
    pub command: Option<Running>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of tries if they have these results, one after another.
    fn tries(retries: u32, stop: &Stop, came_to: &[Attempt]) -> usize {
        let made = |before: Option<&usize>| Ok::<usize, ()>(before.map_or(1, |n| n + 1));
        until_clean(retries, stop, made, |n| came_to[n - 1]).unwrap()
    }

    #[test]
    fn a_run_is_repeated_until_it_is_clean_or_the_next_try_would_be_no_better() {
        let disturbed = Attempt { is_clean: false, has_failed: false };
        let clean = Attempt { is_clean: true, ..disturbed };
        let failed = Attempt { has_failed: true, ..disturbed };
        let stop = Stop::new();
        assert_eq!(tries(0, &stop, &[disturbed]), 1);
        assert_eq!(tries(3, &stop, &[clean]), 1);
        assert_eq!(tries(3, &stop, &[disturbed, clean]), 2);
        assert_eq!(tries(3, &stop, &[disturbed, failed]), 2);
        assert_eq!(tries(2, &stop, &[disturbed; 3]), 3);
        stop.stop();
        assert_eq!(tries(3, &stop, &[disturbed]), 1, "its user was heard");
    }
}
