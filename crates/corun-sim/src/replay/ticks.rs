//! Waits with a time limit that run out: what they show.
//!
//! Nobody who waits for a time only has to ask twice. Who asks again, and has done nothing in between, looks whether something has
//! happened. How often he looks depends on how long the program takes, and not the other way round. So such a tick takes no time of
//! its own: what comes after the last one comes when the others have got as far as they had ([`Row::marks`]). Where somebody ends the
//! wait at last, the ticks before are a part of it. And where nobody of the program could go on meanwhile, a tick is time, whatever it was for.
//!
//! Limit: one single row of ticks may be a time in pieces (a benchmark that sleeps for a second ten times). Then both are tried.

use super::script::{Op, Outside};
use corun_model::run_log::For;

/// Limit: who computes for a greater share of its ticks does some work in them.
pub(super) const IDLE: f64 = 0.05;
/// Limit: of so many ticks, the last is hardly by chance the one in which a task ended.
pub(super) const MANY: usize = 10;

/// Ticks of a task, one after another: from which of its steps on, up to which, how many, and for what it waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub from: usize,
    pub until: usize,
    pub count: usize,
    what: For,
    /// When the last one began and was over, on the log's clock, in nanoseconds.
    pub last_ns: [u64; 2],
    /// The steps among them in which others of the program could go on.
    pub looks: Vec<usize>,
    /// Waits of the task, each of which is over when one of those who could go on in the last tick has got as far as it had then.
    pub marks: Vec<u32>,
}

impl Row {
    /// A wait with a time limit has run out, as the last of these steps: the next tick of a row, or the first one of another. Returns
    /// the row that is over.
    pub(super) fn ticks(&mut self, ops: &[Op], what: For, last_ns: [u64; 2]) -> Option<Row> {
        let last = ops.len() - 1;
        if self.what == what && ops.get(self.until..last).is_some_and(do_nothing) {
            (self.until, self.count, self.last_ns) = (ops.len(), self.count + 1, last_ns);
            self.marks.clear();
            return None;
        }
        Some(std::mem::replace(self, Row::first(ops, what, last_ns)))
    }

    /// The first tick of a row.
    pub(super) fn first(ops: &[Op], what: For, last_ns: [u64; 2]) -> Row {
        let from = ops.len() - 1;
        Row { from, until: ops.len(), count: 1, what, last_ns, looks: Vec::new(), marks: Vec::new() }
    }

    /// Whether the task has done nothing since but computed for a moment.
    pub(super) fn is_last(&self, ops: &[Op]) -> bool {
        ops.get(self.until..).is_some_and(do_nothing)
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
        ops.get(self.from..self.until).is_some_and(are_idle)
    }

    /// How long it slept in it.
    pub(super) fn slept_ns(&self, ops: &[Op]) -> u64 {
        ops.get(self.from..self.until).map_or(0, slept_ns)
    }

    /// Takes its ticks away.
    pub(super) fn take_away(&self, ops: &mut Vec<Op>) {
        let ticks = ops.split_off(self.from.min(ops.len()));
        ops.extend(ticks.into_iter().filter(|op| matches!(op, Op::Limit(_) | Op::Passes(..))));
    }
}

/// Whether these are sleeping, and next to no computing.
pub(super) fn are_idle(ops: &[Op]) -> bool {
    let computed_ns: u64 = ops.iter().map(|op| if let Op::Compute { ns, .. } = op { *ns } else { 0 }).sum();
    computed_ns as f64 <= IDLE * slept_ns(ops) as f64
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
