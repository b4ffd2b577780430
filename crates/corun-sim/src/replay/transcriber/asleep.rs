//! Sleeps: what a task asks for, whether it falls asleep, and waits that ended with a timer set before.

use super::super::script::{Ends, Ix, Op, Outside};
use super::{Timer, Transcriber, ABOUT_NS};

impl Transcriber {
    pub(super) fn sleeps_until(&mut self, ix: Ix, deadline_ns: u64, as_length: bool, now_ns: u64) {
        self.must_run(ix, now_ns);
        self.flush(ix, now_ns);
        self.forget_timer(ix);
        self.goes_on(ix);
        let begin_ns = self.begin_ns.unwrap_or(now_ns);
        let late_ns = self.late_ns(ix);
        let task = &mut self.tasks[ix];
        task.sleeps.add(now_ns, deadline_ns, as_length, late_ns);
        if let Some(parent) = task.parent {
            self.of_children.entry(parent).or_default().add(now_ns, deadline_ns, as_length, late_ns);
        }
        task.timer = Some(Timer { at: task.script.ops.len(), called_ns: now_ns, deadline_ns, as_length });
        // How long it lasts if it does not block. All sleeps together decide later.
        let until_ns = deadline_ns.saturating_sub(begin_ns);
        task.script.ops.push(Op::Outside(Outside::sleep(0, until_ns)));
    }

    /// How long its process has wanted CPUs in vain.
    fn late_ns(&self, ix: Ix) -> u64 {
        let process = self.processes.get(&self.tasks[ix].script.process);
        process.map_or(0, |process| process.wanted.any_ns)
    }

    /// The sleep that it had called did not happen. It counts only if its time was over when it was called.
    pub(super) fn forget_timer(&mut self, ix: Ix) {
        let task = &mut self.tasks[ix];
        if task.timer.is_some_and(|t| t.deadline_ns <= t.called_ns) {
            task.timer = None;
        }
        self.drop_timer(ix);
    }

    /// Whether the task is about to wait for the sleep that it called last: it has done almost nothing since.
    pub(super) fn is_falling_asleep(&self, ix: Ix) -> bool {
        let task = &self.tasks[ix];
        let Some(timer) = &task.timer else { return false };
        task.script.ops[timer.at + 1..].iter().all(|op| {
            matches!(op, Op::Limit(..) | Op::Passes(..))
                || matches!(op, Op::Compute { ns, .. } if *ns < ABOUT_NS * 5)
        })
    }

    /// The sleep that it had called was cut short: it waited for something else.
    pub(super) fn drop_timer(&mut self, ix: Ix) {
        let task = &mut self.tasks[ix];
        if let Some(timer) = task.timer.take() {
            task.script.ops.remove(timer.at);
            if let Some((_, until)) = &mut task.outlives {
                *until -= usize::from(*until > timer.at);
            }
        }
    }

    /// A timer that the task had set before, such as a `timerfd`, ended its wait. That is a sleep, or a time limit for something else.
    pub(super) fn kept_by_a_timer(&mut self, ix: Ix, now_ns: u64) {
        let late_ns = self.late_ns(ix);
        let task = &mut self.tasks[ix];
        if let Some(Op::Outside(outside @ Outside { is_sleep: false, ends: Ends::Either, .. })) =
            task.script.ops.last_mut()
        {
            (outside.is_sleep, outside.is_limit) = (true, true);
            task.sleeps.add(now_ns.saturating_sub(outside.lasted_ns), now_ns, false, late_ns);
        }
    }
}
