//! Timers that a program keeps itself: it asks the kernel to wait for the next one only if there is time until then.
//!
//! An event loop waits for whatever comes first: an event, or the next of its timers, which is the limit of that wait. Who paces itself looks at a
//! clock and sleeps for what is left. Who is late for a timer does not wait, so that a log shows computing and nothing else, as if all of that
//! work had been there all along. Alone the program may have been in time, and have waited. So of such a program the work that came
//! after waiting for a CPU may have been due only then. That is the slow end of what may be, and nothing in a log tells how near it is.
//!
//! Limit: a program that was late all the time has shown no timer, and so none is looked for.

use super::super::script::{Ends, Op, Outside};
use super::super::sleeps::FEWEST;
use super::super::ticks::IDLE;
use super::{Task, Transcriber};
use std::collections::BTreeMap;

/// Limit: limits that differ by less than this share are one length, which is asked for each time.
const ALIKE: f64 = 0.1;

/// The waits with a limit that ran out in a process.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    /// How many had another limit than most of their task's.
    others: usize,
    /// What its tasks computed, and what right after one of these.
    computed_ns: u64,
    after_ns: u64,
}

impl Limits {
    /// Whether they are timers: the limit is what is left until the next one, and it is to do something then.
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

/// Whether a length is this usual one.
pub(super) fn are_alike(ns: u64, usual_ns: u64) -> bool {
    ns.abs_diff(usual_ns) as f64 <= ALIKE * usual_ns as f64
}

impl Transcriber {
    /// Finds who may have been late for timers that do not show.
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

/// Whether a task sleeps to a rhythm, and has never called a sleep whose time was over: it looks at a clock before.
fn paces_itself(task: &Task) -> bool {
    let length_ns = |op: &Op| match op {
        Op::Outside(Outside { is_sleep: true, is_limit: false, lasted_ns, .. }) => Some(*lasted_ns),
        _ => None,
    };
    let sleeps_ns = || task.script.ops.iter().filter_map(length_ns);
    task.sleeps.ends() == Ends::AtItsTime && sleeps_ns().count() >= FEWEST && sleeps_ns().all(|ns| ns > 0)
}
