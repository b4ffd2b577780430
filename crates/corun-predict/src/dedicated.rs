//! The paper's way: useful work in dedicated windows compared with useful work in shared ones (PACT'16 §4).
//!
//! Method: the rate of useful work over all tasks, alone divided by shared. Counting all tasks together is right for tasks that are bound
//! together and for tasks that take work from each other. In a pipeline, the slowest stage decides: its tasks hardly wait, and the others
//! wait for them. Then only its tasks count, so that stages which only fill or drain their queues during a window do not blur the rate. If
//! all tasks wait (an encoder whose threads wait for each other in turn), there is no such stage, and all of them count.
//!
//! The unit of useful work depends on what is known ([`Yardstick`]). What counters add to time counts as far as it is more than noise
//! ([`Speed`]).
//!
//! The parts of the slowdown are differences of time spent per useful work, so they sum to it exactly.
//!
//! Limits: both kinds of windows must show the same behavior of the program. They must be long compared with its steps, and not include a change
//! of phase. Without counters, memory stalls are inside useful work, so a co-runner that only slows memory down is not seen.

use crate::calibrated::SAME_WORK;
use crate::combine::Weight;
use crate::definitions::SMALL;
use crate::estimate::Parts;
use crate::interval::{batches, jackknife};
use crate::useful_work::{Spent, Window};
use crate::yardstick::Yardstick;
use corun_model::worker::is_worker;
use corun_model::TaskId;
use std::collections::BTreeSet;

/// Definition: tasks are of different stages if their shares of waiting differ by this much.
const UNEVEN: f64 = 0.3;

/// Definition: a task may be a stage of the program if it computes for more than this share of the busiest task's time. That is less than
/// for a worker ([`corun_model::worker`]), since a short stage may still be the one that all wait for.
const STAGE: f64 = 0.05;

/// The tasks that decide how fast the program is: those of the critical stage. Alone they hardly wait for siblings: for a small share of
/// their lives (`SMALL`). `None`: all tasks are alike in this, all of them wait, or they are too few; some do not live any more in shared
/// windows, or the others get on there without them. In a window that is short compared with the queues, the critical tasks' share of
/// the work may differ (`SAME_WORK`).
pub fn critical_tasks(alone: &Window, beside: &Window) -> Option<BTreeSet<TaskId>> {
    let most = alone.tasks.values().map(|s| s.compute_ns).fold(0.0, f64::max);
    let stages: Vec<(TaskId, f64)> = alone
        .tasks
        .iter()
        .filter(|(_, s)| s.life_ns > 0.0 && s.compute_ns > STAGE * most)
        .map(|(id, s)| (*id, s.waiting_ns() / s.life_ns))
        .collect();
    let least = stages.iter().map(|w| w.1).fold(f64::INFINITY, f64::min);
    let longest = stages.iter().map(|w| w.1).fold(0.0, f64::max);
    if stages.len() < 2 || longest - least < UNEVEN || least > SMALL {
        return None;
    }
    let critical: BTreeSet<TaskId> = stages.into_iter().filter(|w| w.1 <= SMALL).map(|w| w.0).collect();
    let share = |window: &Window| -> Option<f64> {
        let own: Option<f64> = critical.iter().map(|id| Some(window.tasks.get(id)?.compute_ns)).sum();
        Some(own? / window.total().compute_ns)
    };
    let differs = share(alone)? / share(beside)?;
    (1.0 / SAME_WORK..=SAME_WORK).contains(&differs).then_some(critical)
}

/// How fast the program is: its useful work per time with the best yardstick, as far as that differs by more than noise, and for the rest
/// with the one without counters.
#[derive(Clone, Debug)]
pub struct Speed {
    /// The best yardstick.
    pub by: Yardstick,
    /// The one without counters.
    pub blind: Yardstick,
    /// How much the difference counts, 0..=1.
    pub weight: f64,
    /// The tasks whose work counts; `None`: all.
    pub critical: Option<BTreeSet<TaskId>>,
}

impl Speed {
    /// That of all tasks with one yardstick alone.
    pub fn by_one(by: Yardstick) -> Speed {
        Speed { by, blind: by, weight: 1.0, critical: None }
    }

    /// That of these windows, alone and shared; `unsure` is the standard error of the share of spinning that `by` assumes to be stalled.
    pub fn of(
        alone: &[Window],
        beside: &[Window],
        by: Yardstick,
        unsure: f64,
        blind: Yardstick,
        critical: Option<BTreeSet<TaskId>>,
    ) -> Speed {
        let told = |by: Yardstick, w: &Window| {
            let of = |by| rate(w, by, critical.as_ref());
            Some(of(by) / of(blind)).filter(|x| x.is_finite() && *x > 0.0)
        };
        let (fast, slow) = (Window::sum(alone), Window::sum(beside));
        let change = |by| Some((told(by, &fast)? / told(by, &slow)?).ln());
        let spread = |windows: &[Window]| Some(jackknife(&batches(windows.iter()), |w| told(by, w))?.error);
        let of_spinning = || Some((change(by.shifted(unsure))? - change(by.shifted(-unsure))?) / 2.0);
        let seen = || Some((change(by)?, [spread(alone)?, spread(beside)?, of_spinning()?]));
        let weight = if by == blind { None } else { seen() };
        let weight = weight.map_or(0.0, |(change, errors)| {
            let error = errors.iter().map(|e| e * e).sum::<f64>().sqrt();
            // Both saw the same windows: chance is in their difference only.
            Weight::of(change, error, 0.0, 0.0).share
        });
        Speed { by, blind, weight, critical }
    }

    /// In a window, without a unit: only the ratio of two has a meaning.
    pub fn rate(&self, window: &Window) -> f64 {
        self.weighted(|by| rate(window, by, self.critical.as_ref()))
    }

    /// The answer of both yardsticks, with their weights.
    fn weighted(&self, of: impl Fn(Yardstick) -> f64) -> f64 {
        match self.weight {
            0.0 => of(self.blind),
            weight => of(self.blind).powf(1.0 - weight) * of(self.by).powf(weight),
        }
    }

    /// Slowdown of the slowest task: each task's rate alone divided by its shared rate, the largest among the workers. `None`: no task is in
    /// both.
    pub fn slowest(&self, alone: &Window, beside: &Window) -> Option<f64> {
        let useful = |s: &Spent| self.weighted(|by| s.useful(by));
        let most = alone.tasks.values().map(useful).fold(0.0, f64::max);
        let workers = alone.tasks.iter().filter(|(_, s)| is_worker(useful(s), most));
        let slowdowns = workers.filter_map(|(id, s)| {
            let (fast, slow) = (useful(s) / alone.wall_ns, useful(beside.tasks.get(id)?) / beside.wall_ns);
            (slow > 0.0).then(|| fast / slow)
        });
        slowdowns.reduce(f64::max)
    }

    /// The parts of `slowdown - 1`, with the weight of what counters add.
    pub fn parts(&self, alone: &Window, beside: &Window, slowdown: f64) -> Parts {
        let (by, blind) =
            (parts(alone, beside, self.by, slowdown), parts(alone, beside, self.blind, slowdown));
        let mixed = |get: fn(&Parts) -> f64| self.weight * get(&by) + (1.0 - self.weight) * get(&blind);
        let (steal, sync) = (mixed(|p| p.steal), mixed(|p| p.sync));
        let memory = by.memory.map(|part| self.weight * part);
        Parts::of(slowdown, steal, sync, memory)
    }
}

/// Useful work per wall time, of all tasks or of the critical ones.
fn rate(window: &Window, by: Yardstick, critical: Option<&BTreeSet<TaskId>>) -> f64 {
    let all = match critical {
        None => window.total(),
        Some(ids) => ids.iter().filter_map(|id| window.tasks.get(id)).fold(Spent::default(), |mut sum, s| {
            sum.add(s);
            sum
        }),
    };
    all.useful(by) / window.wall_ns
}

/// The parts of `slowdown - 1`: time per useful work, shared less alone, category by category. The rest (another number of tasks, waits
/// for devices) is `other`, so the parts sum exactly.
fn parts(dedicated: &Window, shared: &Window, by: Yardstick, slowdown: f64) -> Parts {
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
        Yardstick::Time { switch_ns, spin_stalls } => {
            (switch_ns, spin_stalls.map(|share| part(&|s| s.stalled_computing_ns(share))))
        }
        Yardstick::UserTime => (0.0, None),
        // How much longer computing takes for the same steps.
        Yardstick::Blockings => (0.0, Some(part(&|s| s.useful(Yardstick::UserTime)))),
        // How much longer computing takes for the same instructions.
        Yardstick::Instructions => (0.0, Some(part(&|s| s.compute_ns))),
    };
    // Waking and being woken are parts of waiting.
    let is_waiting = matches!(by, Yardstick::UserTime | Yardstick::Blockings);
    let in_kernel = |s: &Spent| if is_waiting { s.system_ns() } else { 0.0 };
    let sync = part(&|s| s.waiting_ns() + s.blockings.unwrap_or(0.0) * switch_ns + in_kernel(s));
    Parts::of(slowdown, steal, sync, memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of tasks by how long each computed and waited for siblings.
    fn window(tasks: &[(f64, f64)]) -> Window {
        let spent = |&(compute_ns, sibling_ns): &(f64, f64)| Spent {
            life_ns: 100.0,
            compute_ns,
            sibling_ns,
            ..Spent::default()
        };
        let tasks = tasks.iter().enumerate().map(|(i, t)| (TaskId(i as u32), spent(t))).collect();
        Window { wall_ns: 100.0, tasks, ..Window::default() }
    }

    #[test]
    fn of_a_program_that_goes_in_steps_memory_is_what_computing_takes_longer_for_a_step() {
        let of = |compute_ns: f64, stolen_ns: f64, blockings: f64| {
            let mut window = window(&[(compute_ns, 100.0 - compute_ns - stolen_ns); 2]);
            window.tasks.values_mut().for_each(|s| {
                (s.stolen_ns, s.blockings) = (stolen_ns, Some(blockings));
            });
            window
        };
        // Ten steps in 80 ns computing alone, six in 30 beside others: 8 ns each, and 5.
        let found = parts(&of(80.0, 0.0, 10.0), &of(30.0, 50.0, 6.0), Yardstick::Blockings, 10.0 / 6.0);
        let memory = found.memory.unwrap();
        assert!((memory - (5.0 - 8.0) / 10.0).abs() < 1e-9, "{found:?}");
        assert!((found.steal + found.sync + memory + found.other - 4.0 / 6.0).abs() < 1e-9, "{found:?}");
        assert!(found.other.abs() < 1e-9, "nothing is left: {found:?}");
    }

    #[test]
    fn the_stage_that_hardly_waits_decides_if_the_others_do_not_get_on_without_it() {
        let alone = window(&[(98.0, 0.0), (50.0, 48.0)]);
        let critical = Some(BTreeSet::from([TaskId(0)]));
        let stolen_from = window(&[(49.0, 0.0), (25.0, 73.0)]);
        assert_eq!(critical_tasks(&alone, &stolen_from), critical);
        let while_a_queue_fills = window(&[(49.0, 0.0), (40.0, 58.0)]);
        assert_eq!(critical_tasks(&alone, &while_a_queue_fills), critical);
        let gets_on_without_it = window(&[(5.0, 0.0), (90.0, 8.0)]);
        assert_eq!(critical_tasks(&alone, &gets_on_without_it), None);
        assert_eq!(critical_tasks(&alone, &window(&[])), None, "it does not live any more");
        assert_eq!(critical_tasks(&window(&[(50.0, 48.0), (50.0, 40.0)]), &stolen_from), None, "all wait");
    }
}
