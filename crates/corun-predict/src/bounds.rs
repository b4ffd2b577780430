//! What holds of every run, whatever the program does: how much of its wall time it can have lost to co-runners at most.
//!
//! Let `W` be the wall time of a run, `A` the time that it would have taken alone, and `W - A` the loss.
//!
//! | bound | reason |
//! | --- | --- |
//! | `W - A ≤ Σ stolen` | While no task waits for a CPU that a co-runner holds, the program gets on as it would alone. So it loses time only while some task is stolen from, and that is no longer than all thefts together. |
//! | `W - A ≤ time that co-runners had CPUs in reach` | A co-runner steals from a task only on a CPU that the task may use. A neighbor on any other CPU costs nothing. |
//! | `A ≥ used / quota - period` | Alone, too, the program gets no more CPU time than its quota allows, but it may begin with a full one. Theft from the time that the quota would have stopped it in costs nothing. |
//! | `A ≥ computed / CPUs`, for every set of CPUs and the processes that may not leave it | Nobody computes on more CPUs than he may use. According to max-flow and min-cut, the largest of these is the time that the best placement takes. |
//! | `A ≥ life - stolen - min(waited for others, stolen from others)`, for every task | What a task does itself takes as long alone, except for what was stolen from it and for its waits for tasks that were stolen from. |
//!
//! Limits may change while the program runs ([`crate::reach`]). Of the CPUs, the most that were ever switched on at once count. Work that
//! may have been done before an affinity or a quota became tighter is left out of these bounds. If a limit became tighter, the program
//! may also have queued behind itself, or have been stopped, for work that alone would have been done by then. That is no theft, but it may be a loss.
//!
//! If tasks were too short for anybody to look at them ([`crate::unseen`]), `stolen` bounds nothing, and neither does a task that waited for
//! them.
//!
//! `stolen` includes the time that siblings queued behind each other while co-runners had CPUs in reach ([`Window`]). Waiting is blocking
//! until somebody wakes the task, spinning, and time on a CPU of which nobody knows whether it was spinning. It is also the computing of a
//! task that calls `sched_yield`.
//!
//! Limits. Work that moves between tasks breaks the last bound: a thread that was not stolen from may have done what a sibling could not.
//! Between threads of one process that is common, so theft from siblings may have lengthened a thread's computing there. Between processes it
//! takes a message, which shows as blocking, or shared memory, which does not show. So that bound is likely to hold, and not certain.
//! [`Bounds::certain_ns`] does without it. Late work may also come at once, and use up a budget that would have lasted alone. So the time that
//! budgets took may have been lost. It is likely that they take it alone, too, so only [`Bounds::certain_ns`] counts it. Co-runners that
//! slow computing down (caches, memory, the other hardware thread of a core) lengthen it. None of the sums has that cost, nor what the
//! hypervisor took.

use crate::counterfactual::Counterfactual;
use crate::reach::Set;
use crate::useful_work::{Spent, Window};
use corun_model::TaskId;
use std::collections::BTreeMap;

/// How much of a window can have been lost at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The most that can have been lost unless work moves between processes unseen, in nanoseconds, from 0 to its wall time.
    pub most_lost_ns: f64,
    /// The most that can have been lost in any case.
    pub certain_ns: f64,
}

impl Bounds {
    /// Those of a window, or of a sum of windows.
    pub fn of(window: &Window) -> Bounds {
        let wall_ns = window.wall_ns;
        let stolen_ns: f64 = window.all().map(|s| s.stolen_ns).sum();
        let confined_ns: f64 = window.all().map(|s| confined_ns(window, s)).sum();
        let corunners_ns = corunners_ns(window);
        let computing_ns = least_computing_ns(window);
        // `delayed_ns`: what budgets took only because work was late.
        let bound_ns = |delayed_ns: f64| {
            let besides_ns = confined_ns + delayed_ns;
            let mut bound_ns = wall_ns - computing_ns;
            if !window.is_half_seen() {
                bound_ns = bound_ns.min(stolen_ns + besides_ns);
            }
            if let Some(corunners_ns) = corunners_ns {
                bound_ns = bound_ns.min(corunners_ns + besides_ns);
            }
            if window.reach.quota_ns > 0.0 {
                bound_ns = bound_ns.min(wall_ns - window.reach.quota_ns + window.reach.period_ns);
            }
            bound_ns.clamp(0.0, wall_ns.max(0.0))
        };
        let throttled_ns: f64 = match stolen_ns > 0.0 && !window.reach.tightened {
            true => window.all().map(|s| s.throttled_ns).sum(),
            false => 0.0,
        };
        let most_lost_ns = bound_ns(0.0).min((wall_ns - longest_own_ns(window, stolen_ns)).max(0.0));
        Bounds { most_lost_ns, certain_ns: bound_ns(throttled_ns) }
    }
}

impl Bounds {
    /// The most that can have been lost: with evidence for most of the window, only what is certain bounds it.
    pub fn most_lost_ns(window: &Window, known: &Counterfactual) -> f64 {
        let bounds = Bounds::of(window);
        let length_ns = window.end_ns.saturating_sub(window.start_ns) as f64;
        let is_evident = known.of(window.start_ns, window.end_ns).wall_ns > length_ns / 2.0;
        if is_evident {
            bounds.certain_ns
        } else {
            bounds.most_lost_ns
        }
    }
}

/// The time that co-runners had CPUs in reach, in nanoseconds, at most; `None`: it is not known.
fn corunners_ns(window: &Window) -> Option<f64> {
    let others_ns = window.reach.others_ns(&window.reach.all(), window.total().on_cpu_ns());
    if window.is_half_seen() {
        return others_ns;
    }
    let unattributed_ns = window.culprits.get(&None).copied().unwrap_or(0.0);
    let known_ns = window.corunners_ns + unattributed_ns;
    (!window.culprits.is_empty()).then(|| others_ns.map_or(known_ns, |ns| ns.min(known_ns)))
}

/// How long a task waited that would perhaps not have had to before a limit became tighter, in nanoseconds.
fn confined_ns(window: &Window, s: &Spent) -> f64 {
    if window.reach.tightened {
        s.queued_ns + s.throttled_ns
    } else {
        0.0
    }
}

/// How long what was computed takes at least on the CPUs that it may use, in nanoseconds.
fn least_computing_ns(window: &Window) -> f64 {
    let cpus = |set: &Set| window.reach.most(set, window.wall_ns, window.cpus);
    let total = window.total();
    // Of all tasks together; those of which nothing is known may use any CPU.
    let all = if window.reach.knows_work(total.compute_ns) { window.reach.all() } else { Set::new() };
    let all = cpus(&all);
    let of_all = if all > 0.0 { total.compute_ns / all } else { 0.0 };
    let of_set = |set: Set| match cpus(&set) {
        n if n > 0.0 => window.reach.work_within(&set) / n,
        _ => 0.0,
    };
    window.reach.unions().into_iter().map(of_set).fold(of_all, f64::max)
}

/// The longest that any task takes at least for what it did itself, in nanoseconds.
fn longest_own_ns(window: &Window, stolen_ns: f64) -> f64 {
    let reach = &window.reach;
    // A task of an unknown process may be a thread of any.
    let mut of_process: BTreeMap<Option<TaskId>, f64> = BTreeMap::new();
    for (task, s) in window.each() {
        *of_process.entry(reach.process(task)).or_default() += s.stolen_ns;
    }
    let of = |process: Option<TaskId>| of_process.get(&process).copied().unwrap_or(0.0);
    let own = |(task, s): (Option<TaskId>, &Spent)| {
        let from_others_ns = match window.is_half_seen() {
            true => s.life_ns,
            false => (stolen_ns - s.stolen_ns).max(0.0),
        };
        let from_siblings_ns = match reach.process(task) {
            _ if window.is_half_seen() => from_others_ns,
            None => from_others_ns,
            process => (of(process) + of(None) - s.stolen_ns).max(0.0),
        };
        let yields = s.yieldings.unwrap_or(0.0) > 0.0;
        // A sibling may be who ends a poll, or ends the program in the middle of a sleep.
        let waited_ns = s.sibling_ns
            + s.slack_ns.min(s.own_ns)
            + if yields { s.on_cpu_ns() } else { s.spin_ns + s.unjudged_ns };
        let taken_over_ns = from_siblings_ns.min(s.on_cpu_ns());
        s.life_ns - s.stolen_ns - confined_ns(window, s) - (waited_ns + taken_over_ns).min(from_others_ns)
    };
    // Tasks that nobody lists lived one after another, or side by side: that says nothing.
    let listed = window.each().filter(|(task, s)| task.is_some() && s.life_ns <= window.wall_ns);
    listed.map(own).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    #[test]
    fn a_budget_may_have_stopped_it_for_what_was_late_but_not_where_nothing_was() {
        let certain = |stolen_ns: f64| {
            let spent = Spent {
                life_ns: 1_000.0 * MS,
                compute_ns: 900.0 * MS - stolen_ns,
                stolen_ns,
                throttled_ns: 100.0 * MS,
                ..Spent::default()
            };
            let tasks = [(TaskId(1), spent)].into();
            let window = Window { wall_ns: 1_000.0 * MS, cpus: 2, tasks, ..Window::default() };
            let Bounds { most_lost_ns, certain_ns } = Bounds::of(&window);
            [most_lost_ns, certain_ns].map(|ns| (ns / MS).round())
        };
        assert_eq!(certain(20.0 * MS), [20.0, 120.0]);
        assert_eq!(certain(0.0), [0.0, 0.0]);
    }
}
