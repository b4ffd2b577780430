//! How long a program would have taken in a solo run, by replaying what it did among co-runners.
//!
//! A slowdown is a counterfactual: the duration of a run, divided by the duration that it would have had
//! without co-runners. A [run log](corun_model::run_log) holds what decides that duration: what each task
//! computed between which events, who woke it, until when it slept, and which CPUs and how much CPU time it
//! may use. So the run is repeated on a machine with nobody else. This method is well known for message
//! passing (Dimemas: record, then replay under other conditions).
//!
//! ```text
//! RunLog ──▶ Transcriber ──▶ Transcript ──▶ machine::run ──▶ time alone
//!            (events into    (steps of      (CPUs, queue,
//!             each task's     each task)     quota, wake-ups)
//!             own steps)
//! ```
//!
//! The rules:
//!
//! - Computing takes the recorded time. Spinning is removed if the log says how much there was.
//! - A wait ends when its waker has done as much as it had when it woke the task. If the waker is already
//!   there, there is no wait. If tasks meet, as at a barrier, all wait for the last one (`meetings`).
//! - A sleep ends at its time or after its length, as the task's other sleeps show (`sleeps`). If that is
//!   open, both are tried. The same holds for what comes from outside the program.
//! - A task that only looks around periodically, for as long as the program takes, delays nobody (`ticks`). A
//!   process is over when the task that ends it has got there.
//! - If somebody else changed a task's affinity or budget, the change comes at its time. If the program did,
//!   it comes when the task has done as much as it had then. If the log does not say who, the former is
//!   likely and both are tried.
//! - Budgets are refilled at the recorded times, for all groups that contain the task.
//! - A program that keeps timers itself may have been late for them, and the log does not show it (`timers`):
//!   both are tried.
//! - CPUs come and go at their times, as far as these are known.
//! - The modelled scheduler does all queueing again. The kernel learns how often a CPU that runs out of tasks
//!   looks for one elsewhere, and does not show it: both ends are tried.
//!
//! Limits. A replay does not see that computing itself takes longer among co-runners (caches, memory). Each
//! task does the work that it did in the recorded run. If an idle CPU would have taken over work,
//! [`Conditions::shares_work`] is the other end, and `pools` says which is likely. A log does not contain
//! waits that did not happen among the co-runners (a lock that was free). The scheduler is the [modelled
//! one](machine) of recent kernels, on any kernel.

mod conditions;
mod confining;
mod holding;
pub mod machine;
mod meetings;
pub mod modelled;
mod pools;
mod recorded;
pub mod script;
mod sleeps;
mod ticks;
mod transcriber;

pub use conditions::{Conditions, Switches};
pub use corun_model::why::NoReplay;
pub use recorded::{Loops, Recorded};
pub use transcriber::{Transcriber, Transcript};

use script::{By, Ends, Look, Op, Outside};

/// How long a stretch of a run would have taken in a solo run, in nanoseconds: at least, most likely, at
/// most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alone {
    /// At least.
    pub least_ns: u64,
    /// Most likely.
    pub likely_ns: u64,
    /// At most.
    pub most_ns: u64,
}

/// A program that yields more often than this per second waits by asking again and again. A log does not show
/// such waits.
const YIELDS: f64 = 1_000.0;

impl Transcript {
    /// How long it would have taken under these conditions. Whatever the log leaves open is tried both ways:
    /// what ends waits, when CPUs came and went, who changed limits, whether siblings share their work, and
    /// what was due when. The fields `either`, `switches`, `changed_by`, `looks` and `shares_work` of
    /// `conditions` have no effect.
    ///
    /// # Errors
    /// [`NoReplay::WaitsByYielding`]; [`NoReplay::Contradiction`], which means that events are missing; [`NoReplay::Endless`].
    pub fn alone(&self, conditions: &Conditions) -> Result<Alone, NoReplay> {
        if self.yields as f64 * 1e9 > YIELDS * self.lasted_ns as f64 {
            return Err(NoReplay::WaitsByYielding);
        }
        let by_length = Conditions {
            either: Ends::AfterItsLength,
            switches: Switches::Midway,
            changed_by: By::Others,
            shares_work: false,
            looks: None,
            ..*conditions
        };
        let by_time = Conditions { either: Ends::AtItsTime, ..by_length };
        let mut others = Vec::new();
        if !self.program.switched.is_empty() {
            others.extend(
                [Switches::Kindest, Switches::Harshest].map(|switches| Conditions { switches, ..by_length }),
            );
        }
        let ops = || self.program.scripts.iter().flat_map(|script| &script.ops);
        // The likely value of all of them is replayed anyway.
        let is_any = |likely: bool| {
            ops().any(|op| match op {
                Op::Looks(Look { may: Some(is), .. }) | Op::Outside(Outside { may_look: Some(is), .. }) => {
                    *is == likely
                }
                _ => false,
            })
        };
        let looks = [true, false].into_iter().filter(|looks| is_any(!looks));
        others.extend(looks.map(|looks| Conditions { looks: Some(looks), ..by_length }));
        if ops().any(|op| matches!(op, Op::Limit(change) if change.by.is_none())) {
            others.push(Conditions { changed_by: By::Itself, ..by_length });
        }
        if self.program.scripts.len() > self.program.cpus.len() {
            others.extend([0, 1_024].map(|newidle_ratio| Conditions { newidle_ratio, ..by_length }));
        }
        let run = |conditions: &Conditions| machine::run(&self.program, conditions);
        let shared = run(&Conditions { shares_work: true, ..by_length })?;
        let in_time = self.program.as_if_in_time();
        let in_time = in_time.map(|in_time| machine::run(&in_time, &by_length)).transpose()?;
        // No task is later in a solo run.
        let in_time = in_time.map(|ns| ns.min(self.lasted_ns));
        let (by_length, by_time) = (run(&by_length)?, run(&by_time)?);
        let mut all = others.iter().map(run).collect::<Result<Vec<u64>, NoReplay>>()?;
        all.extend([by_length, by_time, shared].into_iter().chain(in_time));
        let kept = (by_length as f64 + by_time as f64) / 2.0;
        let gained = (kept - shared as f64).max(0.0);
        let late = kept - pools::share_of_work(&self.program.scripts) * gained;
        let likely = in_time.map_or(late, |in_time| (late + in_time as f64) / 2.0);
        Ok(Alone {
            least_ns: all.iter().copied().min().unwrap_or(0),
            likely_ns: likely as u64,
            most_ns: all.iter().copied().max().unwrap_or(0),
        })
    }
}
