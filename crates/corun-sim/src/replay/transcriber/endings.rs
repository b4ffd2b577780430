//! Whose end is not the end of a stretch: tasks that end because another ends their process, and those that only look on.
//!
//! Who returns from `main` or calls `exit` ends all threads of its process, wherever they are. What such a thread waited for, and until
//! when it wanted to sleep, does not matter then: it would have ended earlier if the other had. So its last steps, which are the end
//! of the process, become those of the other, and it ends with that one.
//!
//! A log does not tell of calls of `exit`. What it shows: the last deed of one task is to wake the others of its process, and from
//! its end on they do nothing but end.
//!
//! Who is killed while it waits for a thread or a child waited for something that had not come. How long that would have taken does not
//! show, and a run that was too slow for a time limit is not as long alone because of that limit. Of one that waits for something else,
//! such as a pipe, nobody knows whether that was to come from a sibling or from outside: both are tried.
//!
//! The limit may be the program's own, as `timeout` has one. Who wakes up by it, kills and waits for the end of what it has killed had
//! waited for that before. So the wait until the limit is none, unless nobody was at work then: a server that waits for requests has none.
//!
//! Limit: of a task that did not wait at that time it is not seen.

use super::super::script::{computes_ns, Ends, Ix, Op, Outside};
use super::super::ticks::IDLE;
use super::{State, Task, Transcriber};
use corun_model::run_log::Waker;

/// Limit: who computes for more than this share of the stretch after another has ended has not been ended by that one.
const ENDING: f64 = 0.05;

/// Limit: who ends a process computes for so long at most from waking the first of its tasks until it has ended, in nanoseconds.
const TELLING_NS: u64 = 1_000_000;

/// Where the steps begin that a task did after another had ended.
fn last_steps(task: &Task) -> usize {
    task.outlives.map_or(task.script.ops.len(), |(_, from)| from)
}

impl Task {
    /// A signal was for its end, or for that of another: what it has ended was no wait, if nothing was done since.
    fn forget_signalled(&mut self) {
        let ops =
            self.signalled.and_then(|at| self.script.ops.get_mut(at..)).and_then(<[Op]>::split_first_mut);
        if let Some((Op::Outside(wait), _)) = ops.filter(|(_, after)| is_soon(after)) {
            forget(wait);
        }
    }
}

/// What was waited for had not come.
fn forget(wait: &mut Outside) {
    (wait.lasted_ns, wait.until_ns) = (0, 0);
}

/// Who has done this, kills, and waits for the end of whom it has killed: what ended its wait before was a time limit.
fn forget_limit(ops: &mut [Op]) {
    let mut left_ns = TELLING_NS;
    for op in ops.iter_mut().rev() {
        match op {
            Op::Compute { ns, .. } if *ns <= left_ns => left_ns -= *ns,
            Op::Wake(..) | Op::Passes(..) | Op::Limit(_) => {}
            Op::Outside(wait) if wait.ends == Ends::AfterItsLength => {}
            // It may have looked at every tick whether that had come.
            Op::Outside(wait) if wait.is_limit => {
                forget(wait);
                left_ns = TELLING_NS;
            }
            // A time for which it slept was its own.
            Op::Outside(wait) if !wait.is_sleep => return forget(wait),
            _ => return,
        }
    }
}

impl Transcriber {
    /// A task has ended, and others of its process have not: it may be that it has ended them all.
    pub(super) fn may_have_ended_all(&mut self, ender: Ix, now_ns: u64) {
        let process = self.tasks[ender].script.process;
        for ix in 0..self.tasks.len() {
            if self.tasks[ix].script.process == process && self.tasks[ix].state != State::Ended {
                self.flush(ix, now_ns);
                self.tasks[ix].outlives = Some((ender, self.tasks[ix].script.ops.len()));
            }
        }
        self.processes.entry(process).or_default().ender = Some(ender);
    }

    /// A task ends. It was killed as it waited if it has done nothing since. Where it waited for its own, that is no wait. What else it
    /// waited for may have been to come from its own or from outside.
    pub(super) fn may_have_been_killed(&mut self, ix: Ix, is_killed: bool) {
        if !is_killed {
            return self.tasks[ix].forget_signalled();
        }
        // The same signal may have come to others, such as a shell that goes on to look how its child has ended.
        self.tasks.iter_mut().for_each(Task::forget_signalled);
        self.may_have_been_limited(ix);
        let is_wait = |op: &Op| matches!(op, Op::Outside(_) | Op::Wait(_));
        let ops = &mut self.tasks[ix].script.ops;
        let last = ops.iter().rposition(is_wait).and_then(|at| ops[at..].split_first_mut());
        if let Some((Op::Outside(wait), after)) = last {
            if !wait.is_sleep && wait.lasted_ns > 0 && is_soon(after) {
                wait.may_look = Some(false);
            }
        }
    }

    /// Of those that are told of the end of one that was killed, some may have done that when a time limit was over, amid the work.
    fn may_have_been_limited(&mut self, killed: Ix) {
        let mut left_ns = TELLING_NS;
        let mut told = Vec::new();
        for op in self.tasks[killed].script.ops.iter().rev() {
            match op {
                Op::Compute { ns, .. } if *ns <= left_ns => left_ns -= ns,
                Op::Wake(by, wait) => told.push((*by, *wait)),
                Op::Passes(..) | Op::Limit(_) => {}
                _ => break,
            }
        }
        for (by, wait) in told {
            let Task { script, amid_work, .. } = &mut self.tasks[by];
            match script.ops.iter().rposition(|op| *op == Op::Wait(wait)) {
                Some(at) if *amid_work => forget_limit(&mut script.ops[..at]),
                _ => {}
            }
        }
        // Who has not come to wait yet is told as well.
        for ix in 0..self.tasks.len() {
            let Task { early, amid_work, compute_ns, .. } = self.tasks[ix];
            let is_told = matches!(early, Some(Waker::Task(by)) if self.by_tid.get(&by) == Some(&killed));
            if is_told && amid_work && compute_ns <= TELLING_NS {
                forget_limit(&mut self.tasks[ix].script.ops);
            }
        }
    }

    /// A task does something else than to end, so nobody has ended its process.
    pub(super) fn goes_on(&mut self, ix: Ix) {
        if let Some(process) = self.processes.get_mut(&self.tasks[ix].script.process) {
            process.ender = None;
        }
    }

    /// A process is over in which nobody has done anything but end since this task did.
    pub(super) fn are_ended_by(&mut self, ender: Ix, now_ns: u64) {
        let most_ns = ENDING * now_ns.saturating_sub(self.begin_ns.unwrap_or(now_ns)) as f64;
        let mut ended: Vec<Ix> = (0..self.tasks.len()).filter(|&ix| self.is_told_to_end(ix, ender)).collect();
        ended.sort_by_key(|&ix| self.tasks[ix].since_ns);
        let computed = |ix: &Ix| computes_ns(&self.tasks[*ix].script.ops[last_steps(&self.tasks[*ix])..]);
        if ended.iter().map(computed).sum::<u64>() as f64 > most_ns {
            return;
        }
        for ix in ended {
            let task = &mut self.tasks[ix];
            let last = task.script.ops.split_off(last_steps(task));
            task.script.ends_with = Some(ender);
            self.tasks[ender].script.ops.extend(last);
        }
    }

    /// Whether that one's last deed was to wake this one up, which waited, and has done nothing else since.
    fn is_told_to_end(&self, ix: Ix, ender: Ix) -> bool {
        let task = &self.tasks[ix];
        // A process's first task may have waited for the others one by one.
        if task.script.leads || task.outlives.is_none_or(|(by, _)| by != ender) {
            return false;
        }
        let (before, after) = task.script.ops.split_at(last_steps(task));
        let last = before.iter().rfind(|op| matches!(op, Op::Wait(_) | Op::Outside(_)));
        let Some(Op::Wait(wait)) = last.filter(|_| after.iter().all(only_ends)) else { return false };
        let told = Op::Wake(ix, *wait);
        let deeds = &self.tasks[ender].script.ops;
        let told = deeds.iter().rposition(|op| *op == told).map(|at| &deeds[at..]);
        told.is_some_and(|since| computes_ns(since) <= TELLING_NS)
    }

    /// Finds those who only look around in a stretch at whose end the program goes on, while another does something `late`
    /// in it: they do not keep it from being over.
    pub(super) fn find_onlookers(&mut self, late: &[bool], length_ns: u64) {
        let is_idle = |t: &Task| computes_ns(&t.script.ops) as f64 <= IDLE * length_ns as f64;
        // Or does what others tell it to do, and nothing else.
        let looks = |t: &Task| {
            let outside = t.script.ops.iter().filter(|op| matches!(op, Op::Outside(_)));
            outside.clone().next().is_none() || outside.filter(|op| is_sleep(op)).nth(1).is_some()
        };
        let looks_on = |t: &Task| t.state != State::Ended && !t.script.leads && is_idle(t) && looks(t);
        let onlookers: Vec<bool> = self.tasks.iter().map(looks_on).collect();
        let others = (0..self.tasks.len()).filter(|&ix| late[ix] && !onlookers[ix]);
        let counts = |ix: &Ix| self.tasks[*ix].script.ends_with.is_none();
        let busiest = others.filter(counts).max_by_key(|&ix| computes_ns(&self.tasks[ix].script.ops));
        for (task, _) in self.tasks.iter_mut().zip(onlookers).filter(|(_, looks_on)| *looks_on) {
            task.script.ends_with = busiest;
        }
    }
}

/// Whether a task has only ended since, or is about to, and has perhaps waited to see how another did.
fn is_soon(ops: &[Op]) -> bool {
    ops.iter().all(|op| only_ends(op) || matches!(op, Op::Wait(_))) && computes_ns(ops) <= TELLING_NS
}

/// Whether a task may do that while the kernel ends it.
fn only_ends(op: &Op) -> bool {
    matches!(
        op,
        Op::Compute { .. }
            | Op::Wake(..)
            | Op::Passes(..)
            | Op::Limit(_)
            | Op::Outside(Outside { is_sleep: false, .. })
    )
}

fn is_sleep(op: &Op) -> bool {
    matches!(op, Op::Outside(Outside { is_sleep: true, .. }))
}
