//! Timers that a program keeps itself: it asks the kernel to wait for the next one only if that one is in the
//! future.
//!
//! An event loop waits for an event or for the next of its timers, which is the limit of that wait. A program
//! that paces itself looks at a clock and sleeps for what is left. If it is late for a timer, it does not
//! wait. So a log shows only computing, as if all of that work had been there from the beginning. In a solo
//! run, the program may have been in time, and may have waited. So the work that it did after waiting for a
//! CPU may have been due only then. That is the slow end of the range, and a log does not show how close it
//! is.
//!
//! Limit: a program that was late all the time has shown no timer, so none is assumed.

use super::super::script::{Ends, Op, Outside};
use super::super::sleeps::FEWEST;
use super::super::ticks::IDLE;
use super::{Task, Transcriber};
use std::collections::BTreeMap;

/// Limit: limits that differ by less than this share count as one length, which the task asks for each time.
const ALIKE: f64 = 0.1;

/// The waits of a process whose limit ran out.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    /// How many of them had a limit other than the usual one of their task.
    others: usize,
    /// What its tasks computed, and what part of it came right after such a wait.
    computed_ns: u64,
    after_ns: u64,
}

impl Limits {
    /// Whether they are timers: the limit is the time until the next timer, and the program does something
    /// then.
    fn are_timers(&self) -> bool {
        self.others >= FEWEST && self.after_ns as f64 > IDLE * self.computed_ns as f64
    }

    fn add(&mut self, task: &Task) {
        let mut limits_ns: Vec<u64> = Vec::new();
        let mut is_after = false;
        for op in &task.script.ops {
            match op {
                Op::Outside(Outside { is_limit: true, may_look: None, lasted_ns, .. }) => {
                    limits_ns.push(*lasted_ns);
                    is_after = true;
                }
                Op::Outside(_) | Op::Wait(_) | Op::Looks(..) => is_after = false,
                Op::Compute { ns, .. } => {
                    self.computed_ns += ns;
                    self.after_ns += if is_after { *ns } else { 0 };
                }
                _ => {}
            }
        }
        limits_ns.sort_unstable();
        let usual_ns = limits_ns.get(limits_ns.len() / 2).copied().unwrap_or(0);
        let is_other = |ns: &&u64| !are_alike(**ns, usual_ns);
        self.others += limits_ns.iter().filter(is_other).count();
    }
}

/// Whether a length is close to the usual one.
pub(super) fn are_alike(ns: u64, usual_ns: u64) -> bool {
    ns.abs_diff(usual_ns) as f64 <= ALIKE * usual_ns as f64
}

impl Transcriber {
    /// Finds tasks that may have been late for timers that the log does not show.
    pub(super) fn find_late(&mut self) {
        let mut limits: BTreeMap<u32, Limits> = BTreeMap::new();
        for task in &self.tasks {
            limits.entry(task.script.process).or_default().add(task);
        }
        for task in &mut self.tasks {
            let keeps_timers = limits.get(&task.script.process).is_some_and(Limits::are_timers);
            task.script.may_be_late = keeps_timers || paces_itself(task);
        }
    }
}

/// Whether a task sleeps at regular times, and never called a sleep whose time was over: it looks at a clock
/// before.
fn paces_itself(task: &Task) -> bool {
    let length_ns = |op: &Op| match op {
        Op::Outside(Outside { is_sleep: true, is_limit: false, lasted_ns, .. }) => Some(*lasted_ns),
        _ => None,
    };
    let sleeps_ns = || task.script.ops.iter().filter_map(length_ns);
    task.sleeps.ends() == Ends::AtItsTime && sleeps_ns().count() >= FEWEST && sleeps_ns().all(|ns| ns > 0)
}
