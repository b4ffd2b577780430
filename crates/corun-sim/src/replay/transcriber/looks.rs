//! Which timed waits were looks at what others had done ([`Row`]), decided when a stretch is over.

use super::super::script::{Ix, Op, Outside};
use super::super::ticks::{are_idle, do_nothing, Row, MANY};
use super::{State, Task, Transcriber, ABOUT_NS};
use corun_model::run_log::For;
use std::collections::{BTreeMap, BTreeSet};

/// Limit: who did something in this share of a stretch at its end has kept it from being over before.
const LATE: f64 = 0.05;
/// Limit: of so many others it is marked how far they have got.
const MOST_MARKS: usize = 64;

/// What ticks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ticks {
    Time,
    Looks,
    /// One of the two; whether looks are likely.
    Either(bool),
}

/// What all of a task's rows show.
#[derive(Clone, Copy, Debug)]
struct Habits {
    /// Whether it does nothing but look: mostly it asked again, and its rows led to something more than once.
    looks: bool,
    /// Whether it asked again in more than one row.
    repeats: bool,
    /// Whether anything came of the last row yet.
    last_led: bool,
}

impl Habits {
    fn of(task: &Task, rows: &[Row]) -> Habits {
        let ops = &task.script.ops;
        let last_led = task.state == State::Ended || rows.last().is_some_and(|row| !row.is_last(ops));
        let led = rows.len() - usize::from(!last_led && !rows.is_empty());
        let asked_again = task.parts + rows.iter().map(|row| row.count - 1).sum::<usize>();
        let looks = led > 1 && asked_again >= led && are_idle(ops);
        Habits { looks, repeats: rows.iter().filter(|row| row.count > 1).count() > 1, last_led }
    }
}

impl Transcriber {
    /// A wait with a time limit has run out, as the step of a task at this place.
    pub(super) fn ticks(&mut self, ix: Ix, at: usize, what: For, last_ns: [u64; 2]) {
        let task = &mut self.tasks[ix];
        let ops = &task.script.ops[..=at];
        match &mut task.row {
            Some(row) => task.rows.extend(row.ticks(ops, what, last_ns)),
            none => *none = Some(Row::first(ops, what, last_ns)),
        }
        // Who has woken somebody since was awake before that was told: how far others have got now says nothing of then.
        if !do_nothing(&self.tasks[ix].script.ops[at + 1..]) {
            return;
        }
        let marks = self.mark([ix, ix], last_ns);
        if let Some((row, marks)) = self.tasks[ix].row.as_mut().zip(marks) {
            row.looks.push(at);
            row.marks = marks;
        }
    }

    /// Marks how far others have got in that time: new waits of the first of these tasks that are over there. `None`: nobody but the two
    /// could go on in it.
    pub(super) fn mark(&mut self, but: [Ix; 2], [from_ns, now_ns]: [u64; 2]) -> Option<Vec<u32>> {
        let ([ix, _], mut marks) = (but, None);
        for other in (0..self.tasks.len()).filter(|other| !but.contains(other)) {
            let task = &self.tasks[other];
            let has_changed = task.since_ns > from_ns;
            let (could, did) = match task.state {
                State::Running => (true, true),
                State::Ready => (true, has_changed),
                State::Blocked | State::Ended => (has_changed, has_changed),
                State::Unknown => (false, false),
            };
            if !could {
                continue;
            }
            self.flush(other, now_ns);
            if only_ticks(&self.tasks[other]) {
                continue;
            }
            let marks = marks.get_or_insert_with(Vec::new);
            if did && marks.len() < MOST_MARKS {
                let task = &mut self.tasks[ix];
                let wait = task.waits;
                task.waits += 1;
                marks.push(wait);
                self.passes(other, Op::Passes(ix, wait));
            }
        }
        marks
    }

    /// A task has got as far as it has. A sleep that it has called comes after that, also where it has not fallen asleep yet: two that
    /// look at each other would wait for each other.
    fn passes(&mut self, ix: Ix, op: Op) {
        let task = &mut self.tasks[ix];
        let Some(timer) = &mut task.timer else {
            task.script.ops.push(op);
            return;
        };
        task.script.ops.insert(timer.at, op);
        if let Some((_, until)) = &mut task.outlives {
            *until += usize::from(*until > timer.at);
        }
        timer.at += 1;
    }

    /// Which tasks did something late in a stretch.
    pub(super) fn late(&self, start_ns: u64, end_ns: u64) -> Vec<bool> {
        let late_ns = end_ns - ((end_ns - start_ns) as f64 * LATE) as u64;
        let is_late = |t: &Task| matches!(t.state, State::Running | State::Ready) || t.since_ns >= late_ns;
        self.tasks.iter().map(is_late).collect()
    }

    /// Decides of all timed waits of the stretch.
    pub(super) fn settle_ticks(&mut self) {
        for ix in 0..self.tasks.len() {
            let task = &mut self.tasks[ix];
            let mut rows = std::mem::take(&mut task.rows);
            rows.extend(task.row.take());
            let task = &self.tasks[ix];
            let (ops, habits) = (&task.script.ops, Habits::of(task, &rows));
            let is_alone =
                |row: &&Row| row.looks.is_empty() && row.count >= MANY && row.is_sleep() && row.is_idle(ops);
            self.looked_ns += rows.iter().filter(is_alone).map(|row| row.slept_ns(ops)).sum::<u64>();
            let (mut ticks, mut after) = (BTreeMap::new(), BTreeMap::new());
            for (n, row) in rows.iter().enumerate().filter(|(_, row)| !row.looks.is_empty()) {
                let may_look = match self.judge(ix, row, &habits, n + 1 == rows.len()) {
                    Ticks::Time => continue,
                    Ticks::Looks => None,
                    Ticks::Either(likely) => Some(likely),
                };
                ticks.extend(row.looks.iter().map(|&at| (at, may_look)));
                after.insert(row.until - 1, (&row.marks, may_look));
            }
            if ticks.is_empty() {
                continue;
            }
            let mut ops = Vec::with_capacity(task.script.ops.len());
            for (at, op) in task.script.ops.iter().enumerate() {
                match (op, ticks.get(&at)) {
                    (Op::Outside(o), Some(&may_look)) if o.is_sleep => {
                        let either = may_look.map(|_| Op::Outside(Outside { may_look, ..*o }));
                        ops.extend(either);
                    }
                    _ => ops.push(op.clone()),
                }
                if let Some((marks, may_look)) = after.get(&at) {
                    let mark = |&wait| may_look.map_or(Op::Wait(wait), |likely| Op::Looks(wait, likely));
                    ops.extend(marks.iter().map(mark));
                }
            }
            self.tasks[ix].script.ops = ops;
        }
    }

    /// Takes away what has been marked in vain.
    pub(super) fn forget_marks(&mut self) {
        let waits = |(ix, op): (Ix, &Op)| match op {
            Op::Wait(wait) | Op::Looks(wait, _) => Some((ix, *wait)),
            _ => None,
        };
        let each = self.tasks.iter().enumerate();
        let all = each.flat_map(|(ix, t)| t.script.ops.iter().map(move |op| (ix, op)));
        let used: BTreeSet<(Ix, u32)> = all.filter_map(waits).collect();
        for task in &mut self.tasks {
            let ops = std::mem::take(&mut task.script.ops);
            for op in ops {
                match (op, task.script.ops.last_mut()) {
                    (Op::Passes(ix, wait), _) if !used.contains(&(ix, wait)) => {}
                    (
                        Op::Compute { ns, beside_ns, queued_ns },
                        Some(Op::Compute { ns: all, beside_ns: beside, queued_ns: queued }),
                    ) => (*all, *beside, *queued) = (*all + ns, *beside + beside_ns, *queued + queued_ns),
                    (op, _) => task.script.ops.push(op),
                }
            }
        }
    }

    /// What the ticks of a task's row are.
    fn judge(&self, ix: Ix, row: &Row, habits: &Habits, is_last: bool) -> Ticks {
        let task = &self.tasks[ix];
        if habits.looks {
            return Ticks::Looks;
        }
        if row.count == 1 || !row.is_idle(&task.script.ops) {
            return Ticks::Time;
        }
        let may_have_to = task.script.leads && row.is_sleep();
        match !is_last || habits.last_led {
            false if !may_have_to => Ticks::Looks,
            true if habits.repeats => Ticks::Looks,
            _ if row.count >= MANY && self.ends_in(ix, row.last_ns) => Ticks::Looks,
            _ => Ticks::Either(!may_have_to),
        }
    }

    /// Whether a task other than this ended in that time.
    fn ends_in(&self, ix: Ix, [from_ns, until_ns]: [u64; 2]) -> bool {
        let is_it = |t: &Task| t.state == State::Ended && (from_ns..until_ns).contains(&t.since_ns);
        self.tasks.iter().enumerate().any(|(other, t)| other != ix && is_it(t))
    }
}

/// Whether a task has done nothing but tick of late.
fn only_ticks(task: &Task) -> bool {
    let Some(row) = &task.row else { return false };
    let ops = &task.script.ops;
    let computed_ns = super::endings::computes_ns(ops.get(row.until..).unwrap_or_default());
    row.is_last(ops) && computed_ns < ABOUT_NS * 5
}
