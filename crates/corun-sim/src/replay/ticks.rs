//! Threads that look around now and then: a wait with a time limit that runs out, again and again.
//!
//! How often such a thread looks depends on how long the program takes, and not the other way round: a runtime's housekeeper, a
//! progress meter, a wait for a result with a time limit. So its ticks are no steps of the program. Those before the
//! wait that somebody ends at last are a part of that wait. Those at the end of a run, or of a stretch of it, keep nobody.
//!
//! Who sleeps again and again until it sees by itself that another has ended (`while kill -0 …; do sleep …`) waits for that one: it is
//! taken for one where the last of many ticks is the one in which a task of the program ended. A tick may be a child's.
//!
//! Limit: of few ticks that would be chance; and who looks for anything else than an end cannot be told from who has to sleep for so long.

use super::script::{Op, Outside};
use corun_model::run_log::For;

/// Limit: who computes for a greater share of its ticks does some work in them.
pub(super) const IDLE: f64 = 0.05;
/// So many ticks at the end of a stretch are a habit.
pub(super) const HABIT: usize = 2;
/// Of so many, the last is hardly by chance the one in which a task ended.
pub(super) const MANY: usize = 10;

/// The last ticks of a task: from which of its steps on, up to which, how many, and for what it waited meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    from: usize,
    until: usize,
    count: usize,
    what: For,
    /// When the last one began and was over, on the log's clock, in nanoseconds.
    last_ns: [u64; 2],
}

impl Ticks {
    /// A wait with a time limit has run out, as the last step of these: one more, or the first one.
    pub(super) fn and(before: Option<Ticks>, ops: &[Op], what: For, last_ns: [u64; 2]) -> Option<Ticks> {
        let last = ops.len().checked_sub(1)?;
        let goes_on = |t: &Ticks| t.what == what && ops.get(t.until..last).is_some_and(do_nothing);
        Some(match before.filter(goes_on) {
            Some(t) => Ticks { until: ops.len(), count: t.count + 1, last_ns, ..t },
            None => Ticks { from: last, until: ops.len(), count: 1, what, last_ns },
        })
    }

    /// Whether a task that waits for this, or does not wait any more, has done nothing but tick at last.
    fn are_last(&self, ops: &[Op], what: Option<For>) -> bool {
        let Some(steps) = ops.get(self.from..) else { return false };
        let is_still = what.is_none_or(|what| what == self.what);
        let (mut slept_ns, mut computed_ns) = (0, 0);
        for op in steps {
            match op {
                Op::Compute { ns, .. } => computed_ns += ns,
                Op::Outside(Outside { is_sleep: true, lasted_ns, .. }) => slept_ns += lasted_ns,
                Op::Limit(_) => {}
                _ => return false,
            }
        }
        is_still && computed_ns as f64 <= IDLE * slept_ns as f64
    }

    /// Takes them away before a wait with a time limit that somebody has ended.
    pub(super) fn forget(&self, ops: &mut Vec<Op>, what: For) {
        if self.are_last(ops, Some(what)) {
            self.take_away(ops);
        }
    }

    /// Whether they are all that a task does at the end of a stretch, where it waits for this, if it does.
    pub(super) fn are_a_habit(&self, ops: &[Op], what: Option<For>) -> bool {
        // One more has begun, and is not among the steps.
        let has_begun = what == Some(self.what) && self.what != For::Sleep;
        self.count + usize::from(has_begun) >= HABIT && self.are_last(ops, what)
    }

    /// Whether they went on until a task ended that ended then; what came after them is no tick.
    pub(super) fn are_until(&self, ops: &[Op], ended_ns: u64) -> bool {
        let is_in_last = (self.last_ns[0]..self.last_ns[1]).contains(&ended_ns);
        let is_over = ops.get(self.until..).is_some_and(|rest| !rest.iter().any(is_sleep));
        let ticks = ops.get(..self.until).unwrap_or_default();
        is_in_last && is_over && self.count >= MANY && self.are_last(ticks, None)
    }

    /// Puts a wait in their place.
    pub(super) fn become_wait(&self, ops: &mut Vec<Op>, wait: u32) {
        let rest = ops.split_off(self.until.min(ops.len()));
        self.take_away(ops);
        ops.push(Op::Wait(wait));
        ops.extend(rest);
    }

    /// Takes them away; what its limits are is kept.
    pub(super) fn take_away(&self, ops: &mut Vec<Op>) {
        let ticks = ops.split_off(self.from.min(ops.len()));
        ops.extend(ticks.into_iter().filter(|op| matches!(op, Op::Limit(_))));
    }
}

fn is_sleep(op: &Op) -> bool {
    matches!(op, Op::Outside(Outside { is_sleep: true, .. }))
}

/// Whether there is nothing but a moment of computing among these.
fn do_nothing(ops: &[Op]) -> bool {
    ops.iter().all(|op| matches!(op, Op::Compute { .. } | Op::Limit(_)))
}
