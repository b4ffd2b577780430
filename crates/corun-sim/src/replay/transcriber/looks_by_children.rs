//! Who lets children sleep until it sees that another has ended: `while kill -0 …; do sleep …; done` in a shell.
//!
//! It is the same as a task that sleeps itself ([`Row`](super::Row)), but that each tick is a child, which it waits for. A tick may
//! have other children.
//!
//! Where nobody has ended in the last tick, it may have seen what another had done by then that goes on, such as a file of a daemon's.
//! That is likely where others were at work in every tick before, and nobody is any more when the last one is over.
//!
//! Limit: who computes much in ticks, as one that makes processes for short sleeps does, or has few of them, may have had to: both are
//! tried.

use super::super::script::{computes_ns, Ix, Look, Op, Outside};
use super::super::ticks::{IDLE, MANY};
use super::{State, Task, Transcriber};
use corun_model::run_log::For;

/// Limit: a child of more steps than this has done something else than to sleep.
const MOST_STEPS: usize = 256;

/// How far others had got when a child that slept had ended.
#[derive(Clone, Debug)]
pub(super) struct Glance {
    child: Ix,
    /// Waits of its parent that are over where the others were then.
    marks: Vec<u32>,
    /// Whether they were at work.
    amid_work: bool,
}

/// Ticks by children, one after another.
#[derive(Clone, Debug, Default)]
struct Looks {
    /// Its steps: the first one, and the first after them.
    from: usize,
    until: usize,
    /// Those of them that are waits for others.
    waits: Vec<u32>,
    children: Vec<Ix>,
    /// How many children slept, how long, and what all computed.
    count: usize,
    slept_ns: u64,
    computed_ns: u64,
    /// Those of the children that slept.
    sleepers: Vec<Ix>,
    /// When the last but one that slept, and the last, were over, on the log's clock.
    last_ns: [u64; 2],
}

impl Looks {
    /// Whether they can have been nothing else.
    fn are_sure(&self) -> bool {
        self.are_many() && self.computed_ns as f64 <= IDLE * self.slept_ns as f64
    }

    fn are_many(&self) -> bool {
        self.count >= MANY
    }
}

impl Transcriber {
    /// A child has just ended a wait of its parent's. If it has slept before, that was perhaps a tick.
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

    /// Makes waits for another's end of ticks by children until then. The children are made all the same, and end at once.
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

    /// Nobody has ended in the last of these ticks. They may have been for what others had done by then.
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

    /// These took no time of their own: what comes after them comes after this wait.
    fn end_at_once(&mut self, ix: Ix, looks: &Looks, wait: u32) {
        let ops = &mut self.tasks[ix].script.ops;
        let children = looks.children.iter().copied().map(Op::Spawn);
        let passes: Vec<Op> = ops[looks.from..looks.until].iter().filter(|op| is_mark(op)).cloned().collect();
        let waits = looks.waits.iter().copied().chain([wait]).map(Op::Wait);
        ops.splice(looks.from..looks.until, children.chain(passes).chain(waits));
        looks.children.iter().for_each(|&child| self.tasks[child].script.ops.retain(is_mark));
    }

    /// Their sleeps may have taken no time of their own, and what comes after them may come after these waits. What they computed they
    /// compute.
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

    /// Whether a child that a task makes as this step does nothing but pass time, and the task nothing but wait for it: the step
    /// after that wait, how long the child slept, and what both computed.
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
