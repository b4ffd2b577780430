//! The paper's way: useful work in dedicated windows against useful work in shared ones (PACT'16 §4).
//!
//! Method: the rate of useful work over all tasks, alone by beside co-runners. Counting all tasks together is right for
//! tasks that are bound together and for those that take work from each other. In a pipeline the stage that limits it
//! decides: its tasks hardly wait, the others wait for them. They are taken on their own then, so that stages which only
//! fill or drain their queues during a window do not blur the rate. Where all tasks wait (an encoder whose threads wait
//! for each other in turn) there is no such stage, and all of them count.
//!
//! What useful work is measured in depends on what is known ([`Yardstick`]): time computing, without memory stalls where
//! they were counted; or, of a program that does not spin, instructions, which need no difference of two large times.
//!
//! The parts of the slowdown are differences of time spent per useful work, so they sum to it exactly.
//!
//! Limits: both kinds of windows must show the same behaviour of the program: long against its steps, and not astride a
//! change of phase. Without counters memory stalls are inside useful work, so a co-runner that only slows memory down is
//! not seen.

use crate::estimate::Parts;
use crate::useful_work::{Spent, Window, Yardstick};
use corun_model::TaskId;
use std::collections::BTreeSet;

/// Tasks differ in how long they wait, as a share of their life: below this they are alike.
const UNEVEN: f64 = 0.3;
/// A task belongs to the critical stage when it waits at most this much longer than the one that waits least.
const CRITICAL: f64 = 0.1;

/// A task of the critical stage waits at most this share of its life.
const BUSY: f64 = 0.05;

/// The tasks that decide how fast the program is: those of the critical stage, which hardly wait for siblings, of all that
/// have a fair part of the work. `None`: all tasks are alike in this, all of them wait, or they are too few.
pub fn critical_tasks(window: &Window) -> Option<BTreeSet<TaskId>> {
    let most = window.tasks.values().map(|s| s.compute_ns).fold(0.0, f64::max);
    let workers: Vec<(TaskId, f64)> = window
        .tasks
        .iter()
        .filter(|(_, s)| s.life_ns > 0.0 && s.compute_ns > 0.05 * most)
        .map(|(id, s)| (*id, s.waiting_ns() / s.life_ns))
        .collect();
    let least = workers.iter().map(|w| w.1).fold(f64::INFINITY, f64::min);
    let longest = workers.iter().map(|w| w.1).fold(0.0, f64::max);
    if workers.len() < 2 || longest - least < UNEVEN || least > BUSY {
        return None;
    }
    Some(workers.into_iter().filter(|w| w.1 <= least + CRITICAL).map(|w| w.0).collect())
}

/// Useful work per wall time, of all tasks or of the critical ones.
pub fn rate(window: &Window, by: Yardstick, critical: Option<&BTreeSet<TaskId>>) -> f64 {
    let all = match critical {
        None => window.total(),
        Some(ids) => ids.iter().filter_map(|id| window.tasks.get(id)).fold(Spent::default(), |mut sum, s| {
            sum.add(s);
            sum
        }),
    };
    all.useful(by) / window.wall_ns
}

/// Slowdown of the slowest task: each task's rate alone by its rate beside co-runners, the largest of those that have a
/// fair part of the work. `None`: no task is in both.
pub fn slowest(dedicated: &Window, shared: &Window, by: Yardstick) -> Option<f64> {
    let most = dedicated.tasks.values().map(|s| s.useful(by)).fold(0.0, f64::max);
    dedicated
        .tasks
        .iter()
        .filter(|(_, s)| s.useful(by) > 0.25 * most && most > 0.0)
        .filter_map(|(id, alone)| {
            let beside = shared.tasks.get(id)?.useful(by) / shared.wall_ns;
            (beside > 0.0).then(|| alone.useful(by) / dedicated.wall_ns / beside)
        })
        .fold(None, |most: Option<f64>, r| Some(most.map_or(r, |m| m.max(r))))
}

/// What makes up `slowdown - 1`. Time per useful work, beside by alone, category by category; what is left (another
/// number of tasks, waits for devices) is `other`, so the parts sum exactly.
pub fn parts(dedicated: &Window, shared: &Window, by: Yardstick, slowdown: f64) -> Parts {
    let (alone, beside) = (dedicated.total(), shared.total());
    let (useful_alone, useful_beside) = (alone.useful(by), beside.useful(by));
    if useful_alone <= 0.0 || useful_beside <= 0.0 {
        return Parts { other: slowdown - 1.0, ..Parts::default() };
    }
    let life = alone.life_ns / useful_alone;
    let part =
        |get: &dyn Fn(&Spent) -> f64| (get(&beside) / useful_beside - get(&alone) / useful_alone) / life;
    let steal = part(&|s| s.stolen_ns + s.queued_ns);
    let (switch_ns, memory) = match by {
        Yardstick::Time { switch_ns, memory } => (switch_ns, memory.then(|| part(&|s| s.stalled_ns()))),
        // What computing takes longer for the same instructions.
        Yardstick::Instructions => (0.0, Some(part(&|s| s.compute_ns))),
    };
    let sync = part(&|s| s.waiting_ns() + s.blockings.unwrap_or(0.0) * switch_ns);
    Parts { steal, sync, memory, other: slowdown - 1.0 - steal - sync - memory.unwrap_or(0.0) }
}
