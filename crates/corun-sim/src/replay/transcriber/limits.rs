//! What tasks may use, as it changes: steps of the tasks that have another limit.

use super::super::script::{Budget, By, Change, Ix, Limit, Op};
use super::{State, Transcriber};

impl Transcriber {
    /// A task's budget is told. Those of its process have the same; so have others that had the same as it before, where the new one
    /// is looser: they would not be stopped any more, so that it would never be told of them.
    pub(super) fn has_budget(&mut self, ix: Ix, budget: Option<Budget>, now_ns: u64) {
        let Some(before) = self.tasks[ix].budget else {
            (self.tasks[ix].budget, self.tasks[ix].script.budget) = (Some(budget), budget);
            return;
        };
        if before == budget {
            return;
        }
        let share =
            |b: Option<Budget>| b.map_or(f64::INFINITY, |(quota, period)| quota as f64 / period as f64);
        let is_looser = share(budget) > share(before);
        let process = self.tasks[ix].script.process;
        for ix in 0..self.tasks.len() {
            let task = &mut self.tasks[ix];
            let is_same = task.budget == Some(before) && task.state != State::Ended;
            if is_same && (is_looser || task.script.process == process) {
                task.budget = Some(budget);
                self.limited(ix, Limit::Budget(budget), None, now_ns);
            }
        }
    }

    /// A task is told its budget: whoever was ready was stopped by it, and goes on.
    pub(super) fn was_stopped(&mut self, ix: Ix, budget: Budget, now_ns: u64) {
        let task = &self.tasks[ix];
        if task.state == State::Ready && task.budget == Some(Some(budget)) {
            self.refilling.goes_on(budget, task.since_ns, now_ns);
        }
    }

    /// This budget cannot have held since then, so it holds for nobody who had it. Few programs take their own away.
    pub(super) fn has_gone(&mut self, budget: Budget, since_ns: u64) {
        for ix in 0..self.tasks.len() {
            let task = &mut self.tasks[ix];
            if task.budget == Some(Some(budget)) && task.state != State::Ended {
                task.budget = Some(None);
                self.is_limited(ix, Limit::Budget(None), Some(By::Others), since_ns);
            }
        }
    }

    /// A task has another limit, since it last ran or before that.
    pub(super) fn limited(&mut self, ix: Ix, limit: Limit, by: Option<By>, now_ns: u64) {
        self.flush(ix, now_ns);
        self.is_limited(ix, limit, by, now_ns);
    }

    /// The same of one whose steps are closed.
    fn is_limited(&mut self, ix: Ix, limit: Limit, by: Option<By>, at_ns: u64) {
        let at_ns = at_ns.saturating_sub(self.begin_ns.unwrap_or(at_ns));
        let change = Op::Limit(Change { limit, at_ns, by });
        let task = &mut self.tasks[ix];
        let last = task.script.ops.len().saturating_sub(1);
        let ticked = task.row.as_ref().is_some_and(|row| row.until > last);
        match task.script.ops.last() {
            // It had it already when it was woken.
            Some(Op::Wait(_) | Op::Outside(_)) if task.timer.is_none() && !ticked => {
                task.script.ops.insert(last, change);
            }
            _ => task.script.ops.push(change),
        }
    }
}
