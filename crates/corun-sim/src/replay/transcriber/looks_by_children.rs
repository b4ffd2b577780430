//! A task that lets children sleep until it sees that another task has ended: `while kill -0 …; do sleep …;
//! done` in a shell.
//!
//! It is like a task that sleeps itself ([`Row`](super::Row)), except that each tick is a child, for which it
//! waits. A tick may have other children.
//!
//! If no task has ended in the last tick, the task may have seen something that another had done by then,
//! such as a daemon's file, while that one goes on. This is likely if others were working in every earlier
//! tick, and none is when the last one ends.
//!
//! Limit: the task may have had to sleep if it computes much in its ticks, or has few of them. Starting
//! processes for short sleeps is such a case. Then both are tried.

use super::super::script::{computes_ns, Ix, Look, Op, Outside};
use super::super::ticks::{IDLE, MANY};
use super::{State, Task, Transcriber};
use corun_model::run_log::For;

/// Limit: a child with more steps than this has done something other than sleeping.
const MOST_STEPS: usize = 256;

/// How far others had got when a sleeping child ended.
#[derive(Clone, Debug)]
pub(super) struct Glance {
    child: Ix,
    /// Waits of its parent that end when the others have done as much.
    marks: Vec<u32>,
    /// Whether others were working.
    amid_work: bool,
}

/// Consecutive ticks by children.
#[derive(Clone, Debug, Default)]
struct Looks {
    /// Its steps: the first one, and the first one after it.
    from: usize,
    until: usize,
    /// The numbers of the waits for others in these steps.
    waits: Vec<u32>,
    children: Vec<Ix>,
    /// How many children slept, for how long, and what all of them computed.
    count: usize,
    slept_ns: u64,
    computed_ns: u64,
    /// The children that slept.
    sleepers: Vec<Ix>,
    /// When the last two sleeping children ended, on the log's clock.
    last_ns: [u64; 2],
}

impl Looks {
    /// Whether they can only have been looks.
    fn are_sure(&self) -> bool {
        self.are_many() && self.computed_ns as f64 <= IDLE * self.slept_ns as f64
    }

    fn are_many(&self) -> bool {
        self.count >= MANY
    }
}

impl Transcriber {
    /// A child has just ended a wait of its parent. If the child has slept before, it may have been a tick.
    pub(super) fn ticked_by_child(&mut self, ix: Ix, child: Ix, now_ns: u64) {
        let ops = &self.tasks[child].script.ops;
        let slept = |op: &Op| matches!(op, Op::Outside(Outside { is_sleep: true, lasted_ns: 1.., .. }));
        let is_child = self.tasks[ix].what == Some(For::Child);
        if !is_child || ops.len() > MOST_STEPS || !ops.iter().any(slept) {
            return;
        }
        let is_at_work = |t: &Task| matches!(t.state, State::Running | State::Ready);
        let amid_work =
            self.tasks.iter().enumerate().any(|(at, t)| ![ix, child].contains(&at) && is_at_work(t));
        let from_ns = self.tasks[ix].since_ns;
        if let Some(marks) = self.mark([ix, child], [from_ns, now_ns]) {
            self.tasks[ix].glances.push(Glance { child, marks, amid_work });
        }
    }

    /// Replaces ticks by children with a wait for the end of another task, if one ended in the last tick. The
    /// children are created as before, and end at once.
    pub(super) fn find_lookouts_by_children(&mut self) {
        for ix in 0..self.tasks.len() {
            for looks in self.looks_by_children(ix).into_iter().rev().filter(|looks| looks.count > 1) {
                let is_in_last = |t: &Task| (looks.last_ns[0]..looks.last_ns[1]).contains(&t.since_ns);
                let is_it = |t: &Task| t.state == State::Ended && is_in_last(t);
                let others =
                    (0..self.tasks.len()).filter(|other| *other != ix && !looks.children.contains(other));
                let ended = others.filter(|&other| is_it(&self.tasks[other]));
                let Some(other) = ended.max_by_key(|&other| self.tasks[other].since_ns) else {
                    self.may_have_seen(ix, &looks);
                    continue;
                };
                let task = &mut self.tasks[ix];
                let wait = task.waits;
                task.waits += 1;
                if looks.are_sure() {
                    self.end_at_once(ix, &looks, wait);
                } else {
                    self.may_end_at_once(ix, &looks, &[wait], looks.are_many());
                }
                self.tasks[other].script.ops.push(Op::Wake(ix, wait));
            }
        }
        self.tasks.iter_mut().for_each(|task| task.glances.clear());
    }

    /// No task has ended in the last of these ticks. They may have been for what others had done by then.
    fn may_have_seen(&mut self, ix: Ix, looks: &Looks) {
        let glances = &self.tasks[ix].glances;
        let of = |child: &Ix| glances.iter().rfind(|glance| glance.child == *child);
        if looks.are_sure() && looks.sleepers.iter().all(|child| of(child).is_none()) {
            self.looked_ns += looks.slept_ns;
            return;
        }
        let Some((last, before)) = looks.sleepers.split_last() else { return };
        let Some(Glance { marks, amid_work: goes_on, .. }) = of(last).cloned() else { return };
        let was_amid_work = before.iter().all(|child| of(child).is_some_and(|glance| glance.amid_work));
        if !marks.is_empty() {
            self.may_end_at_once(ix, looks, &marks, looks.are_many() && was_amid_work && !goes_on);
        }
    }

    /// These ticks took no time of their own: what follows them comes after this wait.
    fn end_at_once(&mut self, ix: Ix, looks: &Looks, wait: u32) {
        let ops = &mut self.tasks[ix].script.ops;
        let children = looks.children.iter().copied().map(Op::Spawn);
        let passes: Vec<Op> = ops[looks.from..looks.until].iter().filter(|op| is_mark(op)).cloned().collect();
        let waits = looks.waits.iter().copied().chain([wait]).map(Op::Wait);
        ops.splice(looks.from..looks.until, children.chain(passes).chain(waits));
        looks.children.iter().for_each(|&child| self.tasks[child].script.ops.retain(is_mark));
    }

    /// Their sleeps may have taken no time of their own, and what follows them may come after these waits.
    /// Their computing remains.
    fn may_end_at_once(&mut self, ix: Ix, looks: &Looks, waits: &[u32], likely: bool) {
        let waits = waits.iter().map(|&wait| Op::Looks(Look { wait, every_ns: 0, may: Some(likely) }));
        self.tasks[ix].script.ops.splice(looks.until..looks.until, waits);
        for &child in &looks.children {
            for op in &mut self.tasks[child].script.ops {
                if let Op::Outside(outside @ Outside { is_sleep: true, .. }) = op {
                    outside.may_look = Some(likely);
                }
            }
        }
    }

    /// All such rows of ticks among the steps of a task.
    fn looks_by_children(&self, ix: Ix) -> Vec<Looks> {
        let ops = &self.tasks[ix].script.ops;
        let (mut found, mut looks, mut at) = (Vec::new(), Looks::default(), 0);
        while let Some(op) = ops.get(at) {
            let child = match op {
                Op::Spawn(child) => self.tick_of(ix, at, *child),
                _ => None,
            };
            match (op, child) {
                (_, Some((until, slept_ns, computed_ns))) => {
                    let Op::Spawn(child) = op else { break };
                    if looks.children.is_empty() {
                        looks.from = at;
                    }
                    looks.children.push(*child);
                    (looks.slept_ns, looks.until) = (looks.slept_ns + slept_ns, until);
                    looks.computed_ns += computed_ns;
                    if slept_ns > 0 {
                        looks.count += 1;
                        looks.sleepers.push(*child);
                        looks.last_ns = [looks.last_ns[1], self.tasks[*child].since_ns];
                    }
                    let between = &ops[at + 1..until - 1];
                    looks.waits.extend(between.iter().filter_map(|op| match op {
                        Op::Wait(wait) => Some(*wait),
                        _ => None,
                    }));
                    at = until;
                }
                (Op::Compute { ns, .. }, _) => (looks.computed_ns, at) = (looks.computed_ns + ns, at + 1),
                (Op::Limit(_) | Op::Passes(..), _) => at += 1,
                _ => {
                    found.push(std::mem::take(&mut looks));
                    at += 1;
                }
            }
        }
        found.push(looks);
        found
    }

    /// Whether a child that a task creates in this step only passes time, and the task only waits for it.
    /// Returns the step after that wait, how long the child slept, and what both computed.
    fn tick_of(&self, ix: Ix, at: usize, child: Ix) -> Option<(usize, u64, u64)> {
        let child = &self.tasks[child];
        let (mut slept_ns, mut wakes) = (0, None);
        for op in &child.script.ops {
            match op {
                Op::Compute { .. } | Op::Limit(_) | Op::Passes(..) => {}
                Op::Outside(Outside { is_sleep, lasted_ns, .. }) => {
                    slept_ns += if *is_sleep { *lasted_ns } else { 0 };
                }
                Op::Wake(other, wait) if *other == ix => wakes = Some(*wait),
                _ => return None,
            }
        }
        let wakes = wakes.filter(|_| child.state == State::Ended)?;
        let ops = self.tasks[ix].script.ops.get(at + 1..)?;
        let length = ops.iter().position(|op| *op == Op::Wait(wakes))?;
        let between = &ops[..length];
        let is_wait =
            |op: &Op| matches!(op, Op::Compute { .. } | Op::Limit(_) | Op::Passes(..) | Op::Wait(_));
        let computed_ns = computes_ns(&child.script.ops) + computes_ns(between);
        between.iter().all(is_wait).then_some((at + length + 2, slept_ns, computed_ns))
    }
}

fn is_mark(op: &Op) -> bool {
    matches!(op, Op::Passes(..))
}
