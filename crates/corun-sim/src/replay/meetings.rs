//! Where tasks meet, as at a barrier.
//!
//! The last task to reach a barrier waits for nobody and wakes all others. So a log shows that they waited
//! for it, but not that it would have waited for them. Replayed literally, the task that came last among
//! co-runners would pass at once, wherever the others are.
//!
//! Method: at least three tasks meet if one wakes all others at once, another one does so at another time,
//! and most of their wake-ups are of this kind. A task that broadcasts or hands out work is always the same
//! one. Tasks that share a lock or a queue mostly wake one at a time.
//!
//! Limit: two tasks that wake each other in turn may meet, hand on work, or share a lock. They are left as
//! recorded.

use super::script::{Ix, Op, Script};
use std::collections::{BTreeMap, BTreeSet};

/// A task that wakes several at once computes no longer than this between two wake-ups, in nanoseconds.
const AT_ONCE_NS: u64 = 100_000;

/// What a step does in a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The task arrives, and goes on when all have arrived. The number of the meeting.
    Comes(usize),
    /// It wakes another task that comes to the meeting anyway.
    Wakes,
}

/// The meetings of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Meetings {
    /// For each task and place of a step in its script.
    parts: BTreeMap<(Ix, usize), Part>,
    /// The number of tasks in each meeting.
    sizes: Vec<usize>,
}

/// A task that wakes others at once: which step ends which wait of which task.
struct Wakes {
    by: Ix,
    steps: Vec<(usize, Ix, u32)>,
}

impl Wakes {
    /// All tasks in it, in order; `None`: a task occurs twice.
    fn group(&self) -> Option<Vec<Ix>> {
        let group: BTreeSet<Ix> = self.steps.iter().map(|(_, ix, _)| *ix).chain([self.by]).collect();
        (group.len() == self.steps.len() + 1).then(|| group.into_iter().collect())
    }
}

impl Meetings {
    /// Finds the meetings.
    pub(super) fn of(scripts: &[Script]) -> Meetings {
        let all: Vec<Wakes> =
            scripts.iter().enumerate().flat_map(|(by, script)| at_once(by, script)).collect();
        let mut by_group: BTreeMap<Vec<Ix>, Vec<&Wakes>> = BTreeMap::new();
        for wakes in &all {
            if let Some(group) = wakes.group() {
                by_group.entry(group).or_default().push(wakes);
            }
        }
        by_group.retain(|group, wakes| {
            let at_once: usize = wakes.iter().map(|w| w.steps.len()).sum();
            wakes.iter().any(|w| w.by != wakes[0].by) && 2 * at_once >= wakes_within(scripts, group)
        });
        let mut found = Meetings::default();
        if by_group.is_empty() {
            return found;
        }
        let mut waits: BTreeMap<(Ix, u32), usize> = BTreeMap::new();
        for (ix, script) in scripts.iter().enumerate() {
            let places = script.ops.iter().enumerate();
            waits.extend(places.filter_map(|(place, op)| match op {
                Op::Wait(wait) => Some(((ix, *wait), place)),
                _ => None,
            }));
        }
        for wakes in by_group.into_values().flatten() {
            let others: Option<Vec<(Ix, usize)>> =
                wakes.steps.iter().map(|(_, ix, wait)| Some((*ix, *waits.get(&(*ix, *wait))?))).collect();
            let Some(others) = others else { continue };
            let come = Part::Comes(found.sizes.len());
            found.sizes.push(others.len() + 1);
            found.parts.extend(others.into_iter().map(|at| (at, come)));
            found.parts.extend(wakes.steps.iter().map(|(place, ..)| ((wakes.by, *place), Part::Wakes)));
            found.parts.insert((wakes.by, wakes.steps[0].0), come);
        }
        found
    }

    /// The number of meetings.
    pub(super) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// The number of tasks in this meeting.
    pub(super) fn size(&self, meeting: usize) -> usize {
        self.sizes[meeting]
    }

    /// What this step does in a meeting.
    pub(super) fn part(&self, ix: Ix, place: usize) -> Option<Part> {
        if self.parts.is_empty() {
            return None;
        }
        self.parts.get(&(ix, place)).copied()
    }
}

/// How often tasks of a group wake each other.
fn wakes_within(scripts: &[Script], group: &[Ix]) -> usize {
    let is_within = |op: &&Op| matches!(op, Op::Wake(other, _) if group.binary_search(other).is_ok());
    group.iter().map(|&ix| scripts[ix].ops.iter().filter(is_within).count()).sum()
}

/// Where a task wakes several others at once.
fn at_once(by: Ix, script: &Script) -> Vec<Wakes> {
    let (mut found, mut steps, mut since_ns) = (Vec::new(), Vec::new(), 0u64);
    for (place, op) in script.ops.iter().enumerate() {
        match op {
            Op::Wake(other, wait) => {
                steps.push((place, *other, *wait));
                since_ns = 0;
            }
            Op::Compute { ns, .. } => since_ns = since_ns.saturating_add(*ns),
            Op::Passes(..) | Op::Limit(..) => {}
            _ => since_ns = u64::MAX,
        }
        if since_ns > AT_ONCE_NS && !steps.is_empty() {
            found.push(std::mem::take(&mut steps));
        }
    }
    found.push(steps);
    found.into_iter().filter(|steps| steps.len() > 1).map(|steps| Wakes { by, steps }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::script::ScriptedProgram;
    use crate::replay::{machine, Conditions};
    use corun_model::run_log::CpuMask;

    const COMPUTE: Op = Op::Compute { ns: 1_000_000, beside_ns: 0, queued_ns: 0 };

    fn scripts(ops: [Vec<Op>; 3]) -> Vec<Script> {
        ops.into_iter().map(|ops| Script { ops, ..Script::default() }).collect()
    }

    #[test]
    fn three_meet_if_first_one_and_then_another_wakes_both_others() {
        let found = Meetings::of(&scripts([
            vec![COMPUTE, Op::Wait(0), COMPUTE, Op::Wake(1, 1), Op::Wake(2, 0)],
            vec![COMPUTE, Op::Wait(0), COMPUTE, Op::Wait(1)],
            vec![COMPUTE, Op::Wake(0, 0), Op::Wake(1, 0), COMPUTE, Op::Wait(0)],
        ]));
        assert_eq!((found.len(), found.size(0), found.size(1)), (2, 3, 3));
        let part = |ix, place| found.part(ix, place);
        let first = part(2, 1);
        assert!(matches!(first, Some(Part::Comes(_))) && first == part(0, 1) && first == part(1, 1));
        assert_eq!((part(2, 2), part(2, 0)), (Some(Part::Wakes), None));
        assert!(part(0, 3) == part(1, 3) && part(0, 3) == part(2, 4) && part(0, 3) != first);
    }

    #[test]
    fn tasks_that_mostly_wake_one_other_share_a_lock_or_a_queue() {
        let mut ops = [
            vec![COMPUTE, Op::Wake(1, 0), Op::Wake(2, 0), COMPUTE, Op::Wait(0)],
            vec![Op::Wait(0), COMPUTE, Op::Wake(0, 0), Op::Wake(2, 1)],
            vec![Op::Wait(0), COMPUTE, Op::Wait(1)],
        ];
        assert_eq!(Meetings::of(&scripts(ops.clone())).len(), 2);
        for wait in 1..6 {
            ops[0].extend([COMPUTE, Op::Wait(wait)]);
            ops[1].extend([COMPUTE, Op::Wake(0, wait)]);
        }
        assert_eq!(Meetings::of(&scripts(ops)).len(), 0);
    }

    #[test]
    fn a_supposed_meeting_that_nobody_could_reach_is_not_one() {
        // The third waits for the first only when the second, which was woken at the same time, has done
        // more.
        let scripts = scripts([
            vec![COMPUTE, Op::Wake(1, 0), Op::Wake(2, 1), COMPUTE, Op::Wait(0)],
            vec![Op::Wait(0), COMPUTE, Op::Wake(2, 0), COMPUTE, Op::Wake(0, 0), Op::Wake(2, 2)],
            vec![Op::Wait(0), COMPUTE, Op::Wait(1), COMPUTE, Op::Wait(2)],
        ]);
        assert_eq!(Meetings::of(&scripts).len(), 2);
        let program =
            ScriptedProgram { scripts, first: vec![0, 1, 2], cpus: CpuMask::first(3), ..Default::default() };
        let conditions = Conditions { wake_up_ns: 0, ..Conditions::default() };
        assert_eq!(machine::run(&program, &conditions), Ok(4_000_000));
    }

    #[test]
    fn one_that_always_wakes_the_others_hands_out_work_and_two_in_turn_are_left_as_recorded() {
        let hands_out = Meetings::of(&scripts([
            vec![COMPUTE, Op::Wake(1, 0), Op::Wake(2, 0), COMPUTE, Op::Wake(1, 1), Op::Wake(2, 1)],
            vec![Op::Wait(0), COMPUTE, Op::Wait(1)],
            vec![Op::Wait(0), COMPUTE, Op::Wait(1)],
        ]));
        let turns = Meetings::of(&scripts([
            vec![COMPUTE, Op::Wake(1, 0), Op::Wait(0)],
            vec![Op::Wait(0), COMPUTE, Op::Wake(0, 0)],
            vec![COMPUTE],
        ]));
        assert_eq!((hands_out.len(), turns.len()), (0, 0));
    }
}
