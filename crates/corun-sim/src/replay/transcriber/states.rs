//! The states of tasks, and for how long tasks of a process wanted a CPU in vain.

use super::super::script::Ix;
use super::{Process, State, Transcriber};

impl Transcriber {
    pub(super) fn enter(&mut self, ix: Ix, state: State, now_ns: u64) {
        let process = self.tasks[ix].script.process;
        self.tick(process, now_ns);
        let before = self.tasks[ix].state;
        if before == state {
            return;
        }
        if (before == State::Running) != (state == State::Running) {
            // How fast the clock of all waiting tasks runs depends on how many tasks have a CPU.
            self.tick_all(now_ns);
            if state == State::Running {
                self.running += 1;
            } else {
                self.running -= 1;
            }
        }
        let group = self.processes.entry(process).or_default();
        let count = |n: usize, of: State| n + usize::from(state == of) - usize::from(before == of);
        (group.ready, group.running) =
            (count(group.ready, State::Ready), count(group.running, State::Running));
        if state == State::Ended {
            group.lives = group.lives.saturating_sub(1);
        }
        let (wanted, is_empty, ender) = (group.wanted, group.lives == 0, group.ender);
        if is_empty {
            self.processes.remove(&process);
        }
        let task = &mut self.tasks[ix];
        if before == State::Ready {
            let queued_ns = now_ns.saturating_sub(task.since_ns.max(self.begin_ns.unwrap_or(0)));
            (task.script.wanted_ns, task.queued_ns) =
                (task.script.wanted_ns + queued_ns, task.queued_ns + queued_ns);
        }
        (task.state, task.since_ns, task.wanted) = (state, now_ns, wanted);
        self.active_ns = self.active_ns.max(now_ns);
        match ender {
            Some(ender) if is_empty => self.are_ended_by(ender, now_ns),
            None if state == State::Ended && !is_empty => self.may_have_ended_all(ix, now_ns),
            _ => {}
        }
    }

    /// Whether any task is on a CPU or wants one.
    pub(super) fn is_anybody_at_work(&self) -> bool {
        self.running > 0 || self.processes.values().any(|p| p.ready > 0)
    }

    pub(super) fn tick(&mut self, process: u32, now_ns: u64) {
        self.computes(process, now_ns);
        let is_short = self.running < self.cpus.len();
        self.processes.entry(process).or_default().tick(is_short, now_ns);
    }

    pub(super) fn tick_all(&mut self, now_ns: u64) {
        let in_want: Vec<u32> =
            self.processes.iter().filter(|(_, p)| p.ready > 0).map(|(id, _)| *id).collect();
        in_want.into_iter().for_each(|process| self.tick(process, now_ns));
    }
}

impl Process {
    fn tick(&mut self, is_short: bool, now_ns: u64) {
        if self.ready > 0 && is_short {
            let ns = now_ns.saturating_sub(self.since_ns);
            self.wanted.any_ns += ns;
            self.wanted.one_ran_ns += if self.running == 1 { ns } else { 0 };
        }
        self.since_ns = self.since_ns.max(now_ns);
    }
}
