//! Tasks whose end is not the end of a stretch: another task ends their process, or they only look on.
//!
//! A task that returns from `main` or calls `exit` ends all threads of its process, wherever they are. It
//! does not matter what such a thread waited for, and until when it wanted to sleep: it would have ended
//! earlier if the other task had. So its last steps, which belong to the end of the process, become steps of
//! the other task, and it ends with that task.
//!
//! A log does not contain calls of `exit`. It shows this: the last action of one task is to wake the others
//! of its process. After its end, they only end.
//!
//! A task that was killed while it waited for a thread or a child waited for something that had not come. A
//! log does not show how long that would have taken. A run that was too slow for a time limit would not take
//! as long in a solo run because of the limit. If a killed task waits for something else, such as a pipe, a
//! sibling or somebody outside might have filled it: both are tried.
//!
//! The limit may belong to the program, as with `timeout`. Such a task wakes up at the limit, kills the other
//! task, and waits for its end. Before, it had waited for the same end. So its wait until the limit does not
//! count, unless no task was working then: a server that waits for requests has no such limit.
//!
//! Limit: this does not recognize a task that was not waiting at that time.

use super::super::script::{computes_ns, Ends, Ix, Op, Outside};
use super::super::ticks::IDLE;
use super::{State, Task, Transcriber};
use corun_model::run_log::Waker;

/// Limit: if a task computes for more than this share of the stretch after another has ended, that one has
/// not ended it.
const ENDING: f64 = 0.05;

/// Limit: the task that ends a process computes at most this long from waking the first of the others until
/// its own end, in nanoseconds.
const TELLING_NS: u64 = 1_000_000;

/// The index of the first step that a task did after another had ended.
fn last_steps(task: &Task) -> usize {
    task.outlives.map_or(task.script.ops.len(), |(_, from)| from)
}

impl Task {
    /// A signal announced its own end or that of another task. If it has done nothing since, the wait that
    /// the signal ended was none.
    fn forget_signalled(&mut self) {
        let ops =
            self.signalled.and_then(|at| self.script.ops.get_mut(at..)).and_then(<[Op]>::split_first_mut);
        if let Some((Op::Outside(wait), _)) = ops.filter(|(_, after)| is_soon(after)) {
            forget(wait);
        }
    }
}

/// The event that the task waited for had not come.
fn forget(wait: &mut Outside) {
    (wait.lasted_ns, wait.until_ns) = (0, 0);
}

/// A task with these steps kills another and waits for its end. So a time limit ended its wait before.
fn forget_limit(ops: &mut [Op]) {
    let mut left_ns = TELLING_NS;
    for op in ops.iter_mut().rev() {
        match op {
            Op::Compute { ns, .. } if *ns <= left_ns => left_ns -= *ns,
            Op::Wake(..) | Op::Passes(..) | Op::Limit(_) => {}
            Op::Outside(wait) if !wait.is_sleep && wait.ends == Ends::AfterItsLength => {}
            // It may have checked at every tick whether that event had come.
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
    /// A task has ended, and others of its process have not. Perhaps it has ended them all.
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

    /// A task ends. If it has done nothing since its last wait, it was killed during that wait. A wait for
    /// its own tasks does not count. For any other wait, its own tasks or somebody outside may have been
    /// about to end it.
    pub(super) fn may_have_been_killed(&mut self, ix: Ix, is_killed: bool) {
        if !is_killed {
            return self.tasks[ix].forget_signalled();
        }
        // The same signal may have reached others, such as a shell that goes on to check how its child ended.
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

    /// Some tasks that learn of the end of a killed task may have killed it themselves, when a time limit was
    /// over amid the work.
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
        // A task that does not wait yet also learns of it.
        for ix in 0..self.tasks.len() {
            let Task { early, amid_work, compute_ns, .. } = self.tasks[ix];
            let is_told = matches!(early, Some(Waker::Task(by)) if self.by_tid.get(&by) == Some(&killed));
            if is_told && amid_work && compute_ns <= TELLING_NS {
                forget_limit(&mut self.tasks[ix].script.ops);
            }
        }
    }

    /// A task does something other than ending, so nobody has ended its process.
    pub(super) fn goes_on(&mut self, ix: Ix) {
        if let Some(process) = self.processes.get_mut(&self.tasks[ix].script.process) {
            process.ender = None;
        }
    }

    /// A process is over. After the end of this task, the others have only ended.
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

    /// Whether the last action of `ender` was to wake this task, which waited and has done nothing else
    /// since.
    fn is_told_to_end(&self, ix: Ix, ender: Ix) -> bool {
        let task = &self.tasks[ix];
        // The first task of a process may have waited for the others one by one.
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

    /// Finds tasks that only look around, in a stretch after which the program goes on, while another task
    /// does something `late` in it. They do not delay its end.
    pub(super) fn find_onlookers(&mut self, late: &[bool], length_ns: u64) {
        let is_idle = |t: &Task| computes_ns(&t.script.ops) as f64 <= IDLE * length_ns as f64;
        // Or it only does what others wake it for.
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

/// Whether these steps are only those of an ending task, perhaps after a wait for the end of another.
fn is_soon(ops: &[Op]) -> bool {
    ops.iter().all(|op| only_ends(op) || matches!(op, Op::Wait(_))) && computes_ns(ops) <= TELLING_NS
}

/// Whether a task may do this step while the kernel ends it.
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
