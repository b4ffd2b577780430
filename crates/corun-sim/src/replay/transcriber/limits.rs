//! Changes of what tasks may use become steps of these tasks.

use super::super::script::{Budget, By, Change, Ix, Limit, Op};
use super::{State, Transcriber};

impl Transcriber {
    /// The log has recorded a task's budgets. The tasks of its process have the same. So have other tasks
    /// that had the same budgets as it before, if the new ones are looser: looser budgets do not stop them,
    /// so the log would never record these.
    pub(super) fn has_budgets(&mut self, ix: Ix, now_ns: u64) {
        let told = std::mem::take(&mut self.tasks[ix].told);
        let Some(before) = self.tasks[ix].budgets.clone() else {
            (self.tasks[ix].budgets, self.tasks[ix].script.budgets) = (Some(told.clone()), told);
            return;
        };
        if before == told {
            return;
        }
        let share = |budgets: &[Budget]| budgets.iter().map(Budget::share).fold(f64::INFINITY, f64::min);
        let is_looser = share(&told) > share(&before);
        let process = self.tasks[ix].script.process;
        for ix in 0..self.tasks.len() {
            let task = &mut self.tasks[ix];
            let is_same = task.budgets.as_ref() == Some(&before) && task.state != State::Ended;
            if is_same && (is_looser || task.script.process == process) {
                task.budgets = Some(told.clone());
                self.limited(ix, Limit::Budgets(told.clone()), None, now_ns);
            }
        }
    }

    /// This budget cannot have applied since then, so it applies to no task that had it. Few programs remove
    /// their own budgets.
    pub(super) fn has_gone(&mut self, budget: Budget, since_ns: u64) {
        for ix in 0..self.tasks.len() {
            let task = &mut self.tasks[ix];
            let Some(budgets) = task.budgets.as_mut().filter(|_| task.state != State::Ended) else {
                continue;
            };
            if budgets.contains(&budget) {
                budgets.retain(|other| *other != budget);
                let left = budgets.clone();
                self.is_limited(ix, Limit::Budgets(left), Some(By::Others), since_ns);
            }
        }
    }

    /// A task has another limit, which changed since it last ran or before that.
    pub(super) fn limited(&mut self, ix: Ix, limit: Limit, by: Option<By>, now_ns: u64) {
        self.flush(ix, now_ns);
        self.is_limited(ix, limit, by, now_ns);
    }

    /// The same for a task whose steps are complete.
    fn is_limited(&mut self, ix: Ix, limit: Limit, by: Option<By>, at_ns: u64) {
        let at_ns = at_ns.saturating_sub(self.begin_ns.unwrap_or(at_ns));
        let change = Op::Limit(Change { limit, at_ns, by });
        let task = &mut self.tasks[ix];
        let last = task.script.ops.len().saturating_sub(1);
        let ticked = task.row.as_ref().is_some_and(|row| row.until() > last);
        match task.script.ops.last() {
            // It had the limit already when it was woken.
            Some(Op::Wait(_) | Op::Outside(_)) if task.timer.is_none() && !ticked => {
                task.script.ops.insert(last, change);
            }
            _ => task.script.ops.push(change),
        }
    }
}
