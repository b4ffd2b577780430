//! What a program would have taken alone, by replaying what it did beside others.
//!
//! A slowdown is a counterfactual: the time that a run took, by the time that it would have taken without its co-runners. A
//! [run log](corun_model::run_log) holds what decides that time: what each task computed between which events, who woke it, which
//! times it slept until, which CPUs and how much of them it may have. So the run is made again on a machine without
//! anybody else. Message passing has been studied so for long (Dimemas: record, replay under other conditions).
//!
//! ```text
//! RunLog ──▶ Transcriber ──▶ Transcript ──▶ machine::run ──▶ time alone
//!            (events into    (steps of      (CPUs, queue,
//!             each task's     each task)     quota, wake-ups)
//!             own steps)
//! ```
//!
//! The rules: computing takes what it took. A wait ends when its waker has got as far as it had when it woke the task, so that
//! there is none where the waker is ahead; where tasks meet, as at a barrier, all wait for the last one (`meetings`). A sleep is
//! over at its time or after its length, as its task's other sleeps show (`sleeps`); where that is open, and for what comes from
//! outside the program, both are tried. Who only looks around now and then, for as long as the program takes, keeps nobody
//! (`ticks`), and a process is over when the task that ends it has got there. A task's other affinity or budget comes at its time
//! where somebody else changed it, and when the task has got so far where the program did; where the log does not tell, the first
//! is likely and both are tried. Budgets are filled up when they were, of all groups that a task is in. A program that keeps
//! timers itself may have been late for them without showing it (`timers`): both are tried. CPUs come and go at their times, as
//! closely as these are known. What tasks spun goes, where somebody told how much that was. Queueing is made anew, by the
//! modelled scheduler; how often a CPU that runs dry looks for a task elsewhere is what the kernel has learnt and does not tell,
//! so both ends are tried.
//!
//! Limits. Computing that itself takes longer beside others (caches, memory) is not seen. Who does which work is as it was beside the
//! co-runners; where an idle CPU would have taken it over, [`Conditions::shares_work`] is the other end, and `pools` says which is likely. Waits that came
//! to nothing beside the co-runners (a lock that was free) are not in a log. The scheduler is the [modelled one](machine) of recent
//! kernels, whatever the kernel is.

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

/// How long a stretch of a run would have taken alone, in nanoseconds: at least, most likely, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alone {
    /// At least.
    pub least_ns: u64,
    /// Most likely.
    pub likely_ns: u64,
    /// At most.
    pub most_ns: u64,
}

/// Programs that give way so often a second wait by asking again and again, which a log does not show.
const YIELDS: f64 = 1_000.0;

impl Transcript {
    /// How long it would have taken under these conditions, all that the log leaves open tried both ways: what ends waits, when
    /// CPUs came and went, who changed limits, whether siblings share their work, and what was due when. `conditions.either`, `conditions.switches`,
    /// `conditions.changed_by`, `conditions.looks` and `conditions.shares_work` are not looked at.
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
        // What is likely of all of them is replayed anyway.
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
        // Nobody is later alone.
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
