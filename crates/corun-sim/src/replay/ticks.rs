//! Waits with a time limit that run out: what they show.
//!
//! Nobody who waits for a time only has to ask twice. Who asks again, and has done nothing in between, looks whether something has
//! happened. How often he looks depends on how long the program takes, and not the other way round. So such a tick takes no time of
//! its own: what comes after the last one comes when the others have got as far as they had ([`Tick::marks`]), at the first look then. Where
//! somebody ends the wait at last, the ticks before are a part of it. And where nobody of the program could go on meanwhile, a tick is time, whatever it was for.
//!
//! Limit: one single row of ticks may be a time in pieces (a benchmark that sleeps for a second ten times). Then both are tried.

use super::script::{computes_ns, Op, Outside};
use corun_model::run_log::For;

/// Limit: who computes for a greater share of its ticks does some work in them.
pub(super) const IDLE: f64 = 0.05;
/// Limit: of so many ticks, the last is hardly by chance the one in which a task ended.
pub(super) const MANY: usize = 10;

/// Limit: what is computed between ticks is work between some and a look between the others, if it takes so many times as long.
const CLEARLY: u64 = 10;
/// Limit: fewest ticks that tell how long a look takes.
const FEWEST: usize = 5;

/// A wait with a time limit that has run out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tick {
    /// The step that it is.
    pub at: usize,
    /// When it began and was over, on the log's clock, in nanoseconds.
    pub from_to_ns: [u64; 2],
    /// Waits of the task, each of which is over when one of those who could go on in it has got as far as it had then. `None`: nobody
    /// of the program could.
    pub marks: Option<Vec<u32>>,
}

/// Ticks of a task, one after another, and for what it waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    what: For,
    ticks: Vec<Tick>,
}

impl Row {
    /// A wait with a time limit has run out: the first tick of a row.
    pub(super) fn first(what: For, tick: Tick) -> Row {
        Row { what, ticks: vec![tick] }
    }

    /// The same: the next tick of this row, or the first one of another. Returns the row that is over.
    pub(super) fn ticks(&mut self, ops: &[Op], what: For, tick: Tick) -> Option<Row> {
        if self.what == what && ops.get(self.until()..tick.at).is_some_and(do_nothing) {
            self.ticks.push(tick);
            return None;
        }
        Some(std::mem::replace(self, Row::first(what, tick)))
    }

    /// Its first step.
    fn from(&self) -> usize {
        self.ticks.first().map_or(0, |tick| tick.at)
    }

    /// The first step after it.
    pub(super) fn until(&self) -> usize {
        self.ticks.last().map_or(0, |tick| tick.at + 1)
    }

    /// How many ticks it has.
    pub(super) fn count(&self) -> usize {
        self.ticks.len()
    }

    /// The last one.
    pub(super) fn last(&self) -> Option<&Tick> {
        self.ticks.last()
    }

    /// The same, to say more of it.
    pub(super) fn last_mut(&mut self) -> Option<&mut Tick> {
        self.ticks.last_mut()
    }

    /// Those in which others of the program could go on.
    pub(super) fn looks(&self) -> impl DoubleEndedIterator<Item = &Tick> {
        self.ticks.iter().filter(|tick| tick.marks.is_some())
    }

    /// The first of its last ticks between which the task did no more than look.
    pub(super) fn idle_since(&self, ops: &[Op], look_ns: u64) -> Option<&Tick> {
        let after = (1..self.ticks.len()).rev().find(|&n| self.computed_before_ns(ops, n) > look_ns);
        self.ticks.get(after.unwrap_or(0))
    }

    /// A step was put in before this one.
    pub(super) fn makes_room(&mut self, at: usize) {
        self.ticks.iter_mut().for_each(|tick| tick.at += usize::from(tick.at >= at));
    }

    /// What was computed between a tick and the one before it, in nanoseconds.
    fn computed_before_ns(&self, ops: &[Op], n: usize) -> u64 {
        let [before, tick] = [&self.ticks[n - 1], &self.ticks[n]];
        ops.get(before.at + 1..tick.at).map_or(0, computes_ns)
    }

    /// Whether work was done between a tick and the one before it.
    fn worked_before(&self, ops: &[Op], n: usize) -> bool {
        let slept_ns = ops.get(self.ticks[n - 1].at).map_or(0, |op| slept_ns(std::slice::from_ref(op)));
        self.computed_before_ns(ops, n) as f64 > IDLE * slept_ns as f64
    }

    /// How long one of its ticks takes, in nanoseconds.
    pub(super) fn every_ns(&self, ops: &[Op]) -> u64 {
        self.slept_ns(ops) / self.ticks.len().max(1) as u64
    }

    /// Whether the task has done nothing since but computed for a moment.
    pub(super) fn is_last(&self, ops: &[Op]) -> bool {
        ops.get(self.until()..).is_some_and(do_nothing)
    }

    /// Whether it is for this, and nothing has come of it.
    pub(super) fn is_for(&self, ops: &[Op], what: For) -> bool {
        self.what == what && self.is_last(ops) && self.is_idle(ops)
    }

    /// Whether it slept rather than waited for something with a limit.
    pub(super) fn is_sleep(&self) -> bool {
        self.what == For::Sleep
    }

    /// Whether next to nothing was computed in it.
    pub(super) fn is_idle(&self, ops: &[Op]) -> bool {
        ops.get(self.from()..self.until()).is_some_and(are_idle)
    }

    /// How long it slept in it.
    pub(super) fn slept_ns(&self, ops: &[Op]) -> u64 {
        ops.get(self.from()..self.until()).map_or(0, slept_ns)
    }

    /// Takes its ticks away.
    pub(super) fn take_away(&self, ops: &mut Vec<Op>) {
        let ticks = ops.split_off(self.from().min(ops.len()));
        ops.extend(ticks.into_iter().filter(|op| matches!(op, Op::Limit(_) | Op::Passes(..))));
    }
}

/// The rows of a task, as its work cuts them: who asks again until there is something to do, does it, and then asks again, has a row for
/// each of these times. Where looks are not clearly told from work, rows are left as they are.
pub(super) fn cut_by_work(rows: Vec<Row>, ops: &[Op]) -> Vec<Row> {
    let usual_ns = |is_work: bool| {
        let of = |row: &Row| {
            let between = (1..row.count()).filter(|&n| row.worked_before(ops, n) == is_work);
            between.map(|n| row.computed_before_ns(ops, n)).collect::<Vec<u64>>()
        };
        let mut all: Vec<u64> = rows.iter().flat_map(of).collect();
        all.sort_unstable();
        (all.len(), all.get(all.len() / 2).copied().unwrap_or(0))
    };
    let ((_, work_ns), (looks, look_ns)) = (usual_ns(true), usual_ns(false));
    if looks < FEWEST || work_ns < CLEARLY * look_ns.max(1) {
        return rows;
    }
    let cut = |row: Row| {
        let starts: Vec<bool> = (0..row.count()).map(|n| n == 0 || row.worked_before(ops, n)).collect();
        let mut pieces: Vec<Row> = Vec::new();
        for (tick, is_start) in row.ticks.into_iter().zip(starts) {
            match pieces.last_mut().filter(|_| !is_start) {
                Some(piece) => piece.ticks.push(tick),
                None => pieces.push(Row::first(row.what, tick)),
            }
        }
        pieces
    };
    rows.into_iter().flat_map(cut).collect()
}

/// Whether these are sleeping, and next to no computing.
pub(super) fn are_idle(ops: &[Op]) -> bool {
    computes_ns(ops) as f64 <= IDLE * slept_ns(ops) as f64
}

fn slept_ns(ops: &[Op]) -> u64 {
    let of = |op: &Op| match op {
        Op::Outside(Outside { is_sleep: true, lasted_ns, .. }) => *lasted_ns,
        _ => 0,
    };
    ops.iter().map(of).sum()
}

/// Whether there is nothing but computing among these.
pub(super) fn do_nothing(ops: &[Op]) -> bool {
    ops.iter().all(|op| matches!(op, Op::Compute { .. } | Op::Limit(_) | Op::Passes(..)))
}
