//! Tasks that look around now and then, at the end of a stretch ([`Ticks`]).

use super::super::script::Op;
use super::super::ticks::Ticks;
use super::{State, Task, Transcriber};

/// Who did something in this share of a stretch at its end has kept it from being over before.
const LATE: f64 = 0.05;

impl Transcriber {
    /// Which tasks did something late in a stretch.
    pub(super) fn late(&self, start_ns: u64, end_ns: u64) -> Vec<bool> {
        let late_ns = end_ns - ((end_ns - start_ns) as f64 * LATE) as u64;
        let is_late = |t: &Task| matches!(t.state, State::Running | State::Ready) || t.since_ns >= late_ns;
        self.tasks.iter().map(is_late).collect()
    }

    /// Makes waits of the ticks of those who looked out for the end of another task.
    pub(super) fn find_lookouts(&mut self) {
        for ix in 0..self.tasks.len() {
            let Some(ticks) = self.tasks[ix].ticks else { continue };
            let ops = &self.tasks[ix].script.ops;
            let ended = |t: &Task| (t.state == State::Ended).then_some(t.since_ns);
            let is_it = |t: &Task| ended(t).is_some_and(|ended_ns| ticks.are_until(ops, ended_ns));
            let others = self.tasks.iter().enumerate().filter(|&(other, t)| other != ix && is_it(t));
            let Some((other, _)) = others.max_by_key(|(_, t)| t.since_ns) else { continue };
            let task = &mut self.tasks[ix];
            let wait = task.waits;
            (task.waits, task.ticks) = (wait + 1, None);
            ticks.become_wait(&mut task.script.ops, wait);
            self.tasks[other].script.ops.push(Op::Wake(ix, wait));
        }
    }

    /// Takes the ticks away that some tasks end a stretch with, where another did something `late` in it: they went on because of that.
    pub(super) fn forget_habits(&mut self, late: &[bool]) {
        let what = |t: &Task| t.what.filter(|_| t.state == State::Blocked);
        // A process's first thread is the one that may have to go on for so long, as that of a benchmark of ten seconds.
        let may = |t: &Task| t.ticks.filter(|_| !t.script.leads);
        let ticks = |t: &Task| may(t).filter(|ticks| ticks.are_a_habit(&t.script.ops, what(t)));
        let habits: Vec<Option<Ticks>> = self.tasks.iter().map(ticks).collect();
        if habits.iter().zip(late).any(|(habit, late)| habit.is_none() && *late) {
            for (task, habit) in self.tasks.iter_mut().zip(habits) {
                habit.iter().for_each(|habit| habit.take_away(&mut task.script.ops));
            }
        }
    }
}
