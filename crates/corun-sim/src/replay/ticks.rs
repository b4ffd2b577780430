//! Waits whose time limit runs out, and what they show.
//!
//! A task that waits only for a time does not ask twice. A task that asks again, and has done nothing in
//! between, looks whether something has happened. The program's duration decides how often it looks, not the
//! other way around. So such a tick takes no time of its own. What follows the last tick comes at the first
//! look after the others have done as much as they had ([`Tick::marks`]). If another task ends the wait at
//! last, the ticks before are part of it. If no task of the program could go on meanwhile, a tick is time,
//! whatever its purpose.
//!
//! Limit: a single row of ticks may be one time in pieces (a benchmark that sleeps for a second ten times).
//! Then both are tried.

use super::script::{computes_ns, Op, Outside};
use corun_model::run_log::For;

/// Limit: a task that computes for a larger share of its ticks does some work in them.
pub(super) const IDLE: f64 = 0.05;
/// Limit: with this many ticks, it is hardly chance that a task ended in the last one.
pub(super) const MANY: usize = 10;

/// Limit: the computing between ticks is work in some of them and looking in the others, if it takes this
/// many times as long.
const CLEARLY: u64 = 10;
/// Limit: the fewest ticks that show how long a look takes.
const FEWEST: usize = 5;

/// A wait with a time limit that has run out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tick {
    /// Its step in the script.
    pub at: usize,
    /// When it began and ended, on the log's clock, in nanoseconds.
    pub from_to_ns: [u64; 2],
    /// Waits of the task that mark how far others had got. Each ends when a task that could go on meanwhile
    /// has done as much as it had then. `None`: no task of the program could go on.
    pub marks: Option<Vec<u32>>,
}

/// Consecutive ticks of a task, and what it waited for.
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

    /// Another one has: the next tick of this row, or the first of a new one. Returns the row that is over.
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

    /// The last one, for adding to it.
    pub(super) fn last_mut(&mut self) -> Option<&mut Tick> {
        self.ticks.last_mut()
    }

    /// Those in which other tasks of the program could go on.
    pub(super) fn looks(&self) -> impl DoubleEndedIterator<Item = &Tick> {
        self.ticks.iter().filter(|tick| tick.marks.is_some())
    }

    /// The first of its last ticks between which the task only looked.
    pub(super) fn idle_since(&self, ops: &[Op], look_ns: u64) -> Option<&Tick> {
        let after = (1..self.ticks.len()).rev().find(|&n| self.computed_before_ns(ops, n) > look_ns);
        self.ticks.get(after.unwrap_or(0))
    }

    /// A step was inserted before this one.
    pub(super) fn makes_room(&mut self, at: usize) {
        self.ticks.iter_mut().for_each(|tick| tick.at += usize::from(tick.at >= at));
    }

    /// What was computed between a tick and the previous one, in nanoseconds.
    fn computed_before_ns(&self, ops: &[Op], n: usize) -> u64 {
        let [before, tick] = [&self.ticks[n - 1], &self.ticks[n]];
        ops.get(before.at + 1..tick.at).map_or(0, computes_ns)
    }

    /// Whether work was done between a tick and the previous one.
    fn worked_before(&self, ops: &[Op], n: usize) -> bool {
        let slept_ns = ops.get(self.ticks[n - 1].at).map_or(0, |op| slept_ns(std::slice::from_ref(op)));
        self.computed_before_ns(ops, n) as f64 > IDLE * slept_ns as f64
    }

    /// The length of one of its ticks, in nanoseconds.
    pub(super) fn every_ns(&self, ops: &[Op]) -> u64 {
        self.slept_ns(ops) / self.ticks.len().max(1) as u64
    }

    /// Whether the task has since done nothing but compute for a moment.
    pub(super) fn is_last(&self, ops: &[Op]) -> bool {
        ops.get(self.until()..).is_some_and(do_nothing)
    }

    /// Whether it waits for this, and nothing has come of it.
    pub(super) fn is_for(&self, ops: &[Op], what: For) -> bool {
        self.what == what && self.is_last(ops) && self.is_idle(ops)
    }

    /// Whether it slept, rather than waiting for something with a limit.
    pub(super) fn is_sleep(&self) -> bool {
        self.what == For::Sleep
    }

    /// Whether it contains almost no computing.
    pub(super) fn is_idle(&self, ops: &[Op]) -> bool {
        ops.get(self.from()..self.until()).is_some_and(are_idle)
    }

    /// How long it slept in total.
    pub(super) fn slept_ns(&self, ops: &[Op]) -> u64 {
        ops.get(self.from()..self.until()).map_or(0, slept_ns)
    }

    /// Removes its ticks.
    pub(super) fn take_away(&self, ops: &mut Vec<Op>) {
        let ticks = ops.split_off(self.from().min(ops.len()));
        ops.extend(ticks.into_iter().filter(|op| matches!(op, Op::Limit(_) | Op::Passes(..))));
    }
}

/// The rows of a task, cut at its work. A task may ask again until there is something to do, do it, and then
/// ask again: each such time becomes a row. If looks are not clearly different from work, rows stay as they
/// are.
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

/// Whether these are sleeping with almost no computing.
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

/// Whether these are nothing but computing.
pub(super) fn do_nothing(ops: &[Op]) -> bool {
    ops.iter().all(|op| matches!(op, Op::Compute { .. } | Op::Limit(_) | Op::Passes(..)))
}
