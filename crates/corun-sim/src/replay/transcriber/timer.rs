//! A sleep, or a wait with a time limit, and what a task does after its own timer has woken it.
//!
//! **Stops.** A runtime may have a task that its timer wakes now and then, and that then stops all other tasks for a moment. A Java machine
//! does so after a second. The others fall asleep because that task is awake, and they need nothing from it. In a solo run they would be
//! elsewhere at that time, or done. If a replay let them wait until that task gets there, they would wait for its timer. So a stop takes its
//! own length, wherever it is in the run.
//!
//! The log shows a stop by the time when the tasks fell asleep. Tasks that wait for a timer fall asleep before the timer fires. A stopped task
//! computed when the timer fired, and fell asleep in the short time in which the other was awake. It may also have met a lock. By chance that
//! is rare: as rare as the time in which the other is awake.

use super::super::script::{Ends, Ix, Op, Outside};
use super::super::ticks::IDLE;
use super::Transcriber;
use corun_model::run_log::For;

/// The kernel lets timers end at once with others, as much before the last moment that it is told of, in nanoseconds: twice
/// what it does by default, or this part of the length of a poll.
const SLACK_NS: u64 = 100_000;
const SLACK_OF_POLL: u64 = 1_000;

/// A sleep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    /// Its step in the script.
    pub at: usize,
    pub called_ns: u64,
    pub deadline_ns: u64,
    /// It was called with a length, and not with a time.
    pub as_length: bool,
}

impl Timer {
    pub(super) fn slack_ns(&self) -> u64 {
        SLACK_NS.max(self.deadline_ns.saturating_sub(self.called_ns) / SLACK_OF_POLL)
    }

    /// The step of a task that waited for this until the timer was over.
    pub(super) fn ran_out(&self, what: Option<For>, lasted_ns: u64, until_ns: u64) -> Outside {
        let sleep = Outside::sleep(lasted_ns, until_ns);
        let sleep = match self.as_length {
            true => Outside { ends: Ends::AfterItsLength, ..sleep },
            false => sleep,
        };
        match what {
            Some(For::Futex(futex)) => Outside { is_limit: true, futex, ..sleep },
            Some(For::Poll) => Outside { is_limit: true, ..sleep },
            _ => sleep,
        }
    }
}

/// A task's own timer has woken it, and nobody has ended a wait of it since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Up {
    since_ns: u64,
    /// How long it had slept.
    slept_ns: u64,
    /// How long it had waited for CPUs by then.
    wanted_ns: u64,
}

impl Up {
    /// Whether that is a small share of the time that it slept.
    fn is_brief(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.since_ns) as f64 <= IDLE * self.slept_ns as f64
    }
}

impl Transcriber {
    /// A task's own timer wakes it after so long. A shorter sleep in the middle of what it is up to is a part of that.
    pub(super) fn gets_up(&mut self, ix: Ix, slept_ns: u64, now_ns: u64) {
        let task = &mut self.tasks[ix];
        let goes_on = task.up.is_some_and(|up| slept_ns < up.slept_ns && up.is_brief(now_ns));
        if !goes_on {
            task.up = Some(Up { since_ns: now_ns, slept_ns, wanted_ns: task.script.wanted_ns });
        }
    }

    /// The step of a task that another wakes, if that one had stopped it: a wait as long as the other was up, without the time that this
    /// waited for a CPU.
    pub(super) fn stop(&self, ix: Ix, by: Ix, now_ns: u64) -> Option<Op> {
        let (task, other) = (&self.tasks[ix], &self.tasks[by]);
        let up = other.up.filter(|up| up.is_brief(now_ns))?;
        if !(task.woken_ns < up.since_ns && up.since_ns < task.since_ns) {
            return None;
        }
        let wanted_ns = other.script.wanted_ns.saturating_sub(up.wanted_ns);
        let lasted_ns = now_ns.saturating_sub(task.since_ns).saturating_sub(wanted_ns);
        let until_ns = now_ns.saturating_sub(self.begin_ns.unwrap_or(now_ns));
        let wait = Outside::sleep(lasted_ns, until_ns);
        Some(Op::Outside(Outside { ends: Ends::AfterItsLength, is_sleep: false, ..wait }))
    }
}
