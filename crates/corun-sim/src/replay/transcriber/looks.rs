//! Which timed waits were looks at what others had done ([`Row`]). This is decided at the end of a stretch.

use super::super::script::{computes_ns, Ix, Look, Op, Outside};
use super::super::ticks::{are_idle, cut_by_work, do_nothing, Row, Tick, MANY};
use super::timers::are_alike;
use super::{State, Task, Transcriber, ABOUT_NS};
use corun_model::run_log::For;
use std::collections::{BTreeMap, BTreeSet};

/// Limit: a task that did something in this last share of a stretch has delayed its end.
const LATE: f64 = 0.05;
/// Limit: a look takes no longer than this, in nanoseconds.
const LOOK_NS: u64 = 5 * ABOUT_NS;
/// Limit: marks record the progress of at most this many other tasks, and this many record where one stands.
const MOST_MARKS: usize = 64;

/// What ticks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ticks {
    Time,
    Looks,
    /// One of the two, and whether looks are likely.
    Either(bool),
}

/// What all of a task's rows show.
#[derive(Clone, Copy, Debug)]
struct Habits {
    /// Whether it does nothing but look: it mostly asked again, and its rows led to something more than once.
    looks: bool,
    /// The usual length of its ticks, in nanoseconds, if it asked again in more than one row and not equally
    /// often in each.
    retries_ns: Option<u64>,
    /// Whether anything came of the last row.
    last_led: bool,
}

impl Habits {
    fn of(task: &Task, rows: &[Row]) -> Habits {
        let ops = &task.script.ops;
        let last_led = task.state == State::Ended || rows.last().is_some_and(|row| !row.is_last(ops));
        let led = rows.len() - usize::from(!last_led && !rows.is_empty());
        let asked_again = task.parts + rows.iter().map(|row| row.count() - 1).sum::<usize>();
        let looks = led > 1 && asked_again >= led && are_idle(ops);
        let again = || rows.iter().filter(|row| row.count() > 1);
        let counts = || again().map(Row::count);
        let differ = counts().min() != counts().max();
        let mut ticks_ns: Vec<u64> = again().map(|row| row.every_ns(ops)).collect();
        ticks_ns.sort_unstable();
        let retries_ns = ticks_ns.get(ticks_ns.len() / 2).copied().filter(|_| differ);
        Habits { looks, retries_ns, last_led }
    }
}

impl Transcriber {
    /// A wait with a time limit has run out. It is the step of a task at this place.
    pub(super) fn ticks(&mut self, ix: Ix, at: usize, what: For, from_to_ns: [u64; 2]) {
        let task = &mut self.tasks[ix];
        let tick = Tick { at, from_to_ns, marks: None };
        match &mut task.row {
            Some(row) => task.rows.extend(row.ticks(&task.script.ops, what, tick)),
            none => *none = Some(Row::first(what, tick)),
        }
        self.looks(ix, from_to_ns[1]);
    }

    /// A task comes onto a CPU. If it had to wait for the CPU since its last wait ran out, it looks only now.
    pub(super) fn looks_late(&mut self, ix: Ix, now_ns: u64) {
        let task = &self.tasks[ix];
        let last = task.row.as_ref().and_then(Row::last);
        if last.is_some_and(|tick| tick.from_to_ns[1] == task.since_ns) {
            self.looks(ix, now_ns);
        }
    }

    /// A task's last wait has run out, and it looks at what others have done.
    fn looks(&mut self, ix: Ix, now_ns: u64) {
        let task = &self.tasks[ix];
        let Some(&Tick { at, from_to_ns: [from_ns, _], .. }) = task.row.as_ref().and_then(Row::last) else {
            return;
        };
        // If it has woken a task since, it was awake before the log says so. Then the present progress of
        // others says nothing about that time.
        if !task.script.ops.get(at + 1..).is_some_and(do_nothing) {
            return;
        }
        let marks = self.mark([ix, ix], [from_ns, now_ns]);
        let last = self.tasks[ix].row.as_mut().and_then(Row::last_mut);
        if let Some(last) = last.filter(|_| marks.is_some()) {
            last.marks = marks;
        }
    }

    /// Marks how far others have got in that time, as new waits of the first of these tasks, which end when
    /// the others have done as much. `None`: apart from the two, no task could go on then.
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
            // In a herd, each task looks at all others.
            if self.tasks[other].marks >= MOST_MARKS {
                continue;
            }
            // A task that only looks around itself has not advanced since it began to, even if that was in
            // this period.
            let looks_since = looks_since(&self.tasks[other]).map(|tick| (tick.at, tick.from_to_ns[0]));
            if looks_since.is_some_and(|(_, since_ns)| since_ns <= from_ns) {
                continue;
            }
            let marks = marks.get_or_insert_with(Vec::new);
            if marks.len() == MOST_MARKS {
                break;
            }
            if did {
                let task = &mut self.tasks[ix];
                let wait = task.waits;
                task.waits += 1;
                marks.push(wait);
                self.passes(other, looks_since.map(|(at, _)| at), Op::Passes(ix, wait));
            }
        }
        marks
    }

    /// Marks that a task has done as much as it has now, or as it had at this step. A sleep that it has
    /// called comes after the mark, even if it is not asleep yet. Otherwise, two tasks that look at each
    /// other would wait for each other.
    fn passes(&mut self, ix: Ix, at: Option<usize>, op: Op) {
        let task = &mut self.tasks[ix];
        task.marks += 1;
        let called = task.timer.map(|timer| timer.at);
        let at = at.or(called).unwrap_or(task.script.ops.len());
        task.script.ops.insert(at, op);
        let moves = |place: &mut usize| *place += usize::from(*place >= at);
        task.row.iter_mut().for_each(|row| row.makes_room(at));
        task.timer.iter_mut().for_each(|timer| moves(&mut timer.at));
        task.signalled.iter_mut().for_each(moves);
        if let Some((_, until)) = &mut task.outlives {
            *until += usize::from(*until > at);
        }
    }

    /// Which tasks did something late in a stretch.
    pub(super) fn late(&self, start_ns: u64, end_ns: u64) -> Vec<bool> {
        let late_ns = end_ns - ((end_ns - start_ns) as f64 * LATE) as u64;
        let is_late = |t: &Task| matches!(t.state, State::Running | State::Ready) || t.since_ns >= late_ns;
        self.tasks.iter().map(is_late).collect()
    }

    /// Decides about all timed waits of the stretch.
    pub(super) fn settle_ticks(&mut self) {
        for ix in 0..self.tasks.len() {
            let task = &mut self.tasks[ix];
            let mut rows = std::mem::take(&mut task.rows);
            rows.extend(task.row.take());
            let task = &self.tasks[ix];
            let ops = &task.script.ops;
            let rows = cut_by_work(rows, ops);
            let habits = Habits::of(task, &rows);
            let is_alone = |row: &&Row| {
                row.looks().next().is_none() && row.count() >= MANY && row.is_sleep() && row.is_idle(ops)
            };
            self.looked_ns += rows.iter().filter(is_alone).map(|row| row.slept_ns(ops)).sum::<u64>();
            let (mut ticks, mut after) = (BTreeMap::new(), BTreeMap::new());
            for (n, row) in rows.iter().enumerate() {
                let Some(last) = row.looks().next_back() else { continue };
                let may = match self.judge(ix, row, &habits, n + 1 == rows.len()) {
                    Ticks::Time => continue,
                    Ticks::Looks => None,
                    Ticks::Either(likely) => Some(likely),
                };
                ticks.extend(row.looks().map(|tick| (tick.at, may)));
                // If no task could go on in the last tick, that tick took its time.
                let marks = last.marks.iter().flatten().filter(move |_| last.at + 1 == row.until());
                // For a wait with a limit, the next look is when another task ends it. A task that does
                // nothing after it may have been ended.
                let is_timed = row.is_sleep() && !row.is_last(ops);
                let every_ns = if is_timed { row.every_ns(ops) } else { 0 };
                after.insert(row.until() - 1, marks.map(move |&wait| Look { wait, every_ns, may }));
            }
            if ticks.is_empty() {
                continue;
            }
            let mut settled = Vec::with_capacity(ops.len());
            for (at, op) in ops.iter().enumerate() {
                match (op, ticks.get(&at)) {
                    (Op::Outside(o), Some(&may_look)) if o.is_sleep => {
                        let either = may_look.map(|_| Op::Outside(Outside { may_look, ..*o }));
                        settled.extend(either);
                    }
                    _ => settled.push(op.clone()),
                }
                if let Some(looks) = after.remove(&at) {
                    settled.extend(looks.map(Op::Looks));
                }
            }
            self.tasks[ix].script.ops = settled;
        }
    }

    /// Removes unused marks.
    pub(super) fn forget_marks(&mut self) {
        let waits = |(ix, op): (Ix, &Op)| match op {
            Op::Wait(wait) | Op::Looks(Look { wait, .. }) => Some((ix, *wait)),
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

    /// The meaning of the ticks in a task's row.
    fn judge(&self, ix: Ix, row: &Row, habits: &Habits, is_last: bool) -> Ticks {
        let task = &self.tasks[ix];
        if habits.looks {
            return Ticks::Looks;
        }
        let ops = &task.script.ops;
        let is_again = row.count() > 1;
        // A retry may lead to something at once.
        let is_usual = |usual_ns| is_again || are_alike(row.every_ns(ops), usual_ns);
        let is_retry = habits.retries_ns.is_some_and(is_usual);
        if !(is_again || is_retry) || !row.is_idle(ops) {
            return Ticks::Time;
        }
        let may_have_to = task.script.leads && row.is_sleep();
        match !is_last || habits.last_led {
            false if !may_have_to => Ticks::Looks,
            true if is_retry => Ticks::Looks,
            _ if row.count() >= MANY && row.last().is_some_and(|tick| self.ends_in(ix, tick.from_to_ns)) => {
                Ticks::Looks
            }
            _ => Ticks::Either(!may_have_to),
        }
    }

    /// Whether another task ended in that time.
    fn ends_in(&self, ix: Ix, [from_ns, until_ns]: [u64; 2]) -> bool {
        let is_it = |t: &Task| t.state == State::Ended && (from_ns..until_ns).contains(&t.since_ns);
        self.tasks.iter().enumerate().any(|(other, t)| other != ix && is_it(t))
    }
}

/// The first of the ticks since which a task has done nothing but tick.
fn looks_since(task: &Task) -> Option<&Tick> {
    let (row, ops) = (task.row.as_ref()?, &task.script.ops);
    let only_ticks = row.is_last(ops) && ops.get(row.until()..).is_some_and(|ops| computes_ns(ops) < LOOK_NS);
    row.idle_since(ops, LOOK_NS).filter(|_| only_ticks)
}
