//! Tasks of a process take over work from each other ([`Conditions::shares_work`](super::Conditions)).
//!
//! An idle CPU computes along with a task, in place of a sibling that has nothing to do. Each does half of
//! what is left of the step. Some work stays with its task: work that siblings left to it in the recorded run
//! although they had nothing else to do ([`Script::kept`](super::super::script::Script::kept)). The two
//! halves take the same time, so the helper needs no state of its own. The helper's CPU does not count as
//! taken meanwhile. So the program looks a little too fast, never too slow: this is the fast end of the
//! range.

use super::{Ix, Machine, State};

impl Machine<'_> {
    /// A CPU is about to idle.
    pub(super) fn help(&mut self, at: usize) {
        let left = |other: usize| {
            let cpu = &self.cpus[other].1;
            let ix = cpu.task?;
            let left_ns = self.tasks[ix].left_ns.saturating_sub(self.now_ns - cpu.since_ns);
            (!self.tasks[ix].helped && left_ns > 0 && self.may(ix, at)).then_some((left_ns, other, ix))
        };
        let most = (0..self.cpus.len()).filter_map(left).max();
        let Some((_, other, ix)) = most.filter(|(_, _, ix)| self.has_helper(*ix)) else { return };
        self.charge(other);
        self.shares(ix);
        self.plan_cpu(other, ix);
    }

    /// A helper takes over half of what a task has left of its step, except for the part that the task keeps.
    pub(super) fn shares(&mut self, ix: Ix) {
        let task = &mut self.tasks[ix];
        let taken_ns = (task.left_ns / 2) as f64 * (1.0 - task.script.kept);
        (task.left_ns, task.helped) = (task.left_ns - taken_ns as u64, true);
    }

    /// Whether there is a CPU for it, and a sibling that has nothing to do.
    pub(super) fn has_helper(&self, ix: Ix) -> bool {
        let script = self.tasks[ix].script;
        // While tasks wait for a CPU, there is no CPU for helpers.
        if script.leads || self.ready > 0 {
            return false;
        }
        let idle =
            (0..self.cpus.len()).filter(|&at| self.cpus[at].1.task.is_none() && self.may(ix, at)).count();
        let helpers =
            self.cpus.iter().filter(|(_, c)| c.task.is_some_and(|ix| self.tasks[ix].helped)).count();
        let is_idle = |ix: &&Ix| matches!(self.tasks[**ix].state, State::Waiting | State::Ended);
        let crew = self.crews.get(&script.process).map_or(&[][..], Vec::as_slice);
        idle > helpers && crew.iter().filter(is_idle).nth(helpers).is_some()
    }
}
