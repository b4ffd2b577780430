//! The cost of steal for a program that wants more CPUs than there are: its tasks would queue for each other alone, too.
//!
//! Method. If a program never wants more than all CPUs, alone there would be no theft from a task, and nothing else would change. If it does want more,
//! neither is true. While a co-runner holds a CPU, it delays every task that wants one, and several tasks may wait for the same
//! co-runner. And a part of their waiting for CPUs is there alone, too. So the loss of all tasks together follows from the CPUs that they
//! would have used. They wanted `w` of them on average (they were on one or waited for one) and used `u`. If each wants one independently of
//! the others, alone they would use
//!
//! ```text
//! a = E[min(how many want one, CPUs)]
//! ```
//!
//! and get through the same work in `u / a` of the time. Co-runners cost the share `1 - u / a` of all time in which tasks wanted CPUs. That is no
//! more than the theft, with each nanosecond counted for as many tasks as wait in turn: `w / a`.
//!
//! The CPUs are those that the tasks may use ([`crate::reach`]). Tasks that use CPUs together form a group. Tasks of a group that may use
//! only some of these CPUs use no more than these.
//!
//! Limits: tasks that want CPUs at the same moments (those of a barrier, when they wake up) use fewer than other tasks. And a sum of windows
//! does not show which tasks lived at the same time.

use crate::reach::{Group, Set};
use crate::useful_work::{Spent, Window};
use corun_model::TaskId;

/// How much of the tasks' waiting for CPUs co-runners caused, for each group of tasks that use CPUs together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Crowding {
    groups: Vec<(Group, Factors)>,
}

/// The same for all tasks of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Factors {
    /// The share of the theft from a task, 0..=1.
    stolen: f64,
    /// The share of its queueing behind siblings, 0..=1.
    queued: f64,
}

impl Factors {
    /// All theft counts, and no queueing.
    const NONE: Factors = Factors { stolen: 1.0, queued: 0.0 };
}

impl Crowding {
    /// That of a window's tasks.
    pub(crate) fn of(window: &Window) -> Crowding {
        let groups = window.reach.groups();
        let mut members: Vec<Vec<Member>> = vec![Vec::new(); groups.len()];
        for (task, s) in window.each() {
            let set = task
                .and_then(|task| window.reach.set_of.get(&task))
                .map(|at| &window.reach.sets[*at as usize]);
            members[window.reach.group_of(&groups, task)].push(Member { s, set });
        }
        let factors: Vec<Factors> =
            groups.iter().zip(&members).map(|(group, members)| factors(window, group, members)).collect();
        Crowding { groups: groups.into_iter().zip(factors).collect() }
    }

    /// How long this task of that window waited for CPUs because of co-runners, in nanoseconds.
    pub(crate) fn taken_ns(&self, window: &Window, task: Option<TaskId>, s: &Spent) -> f64 {
        let set = task.and_then(|task| window.reach.set_of.get(&task));
        let of = set.and_then(|at| self.groups.iter().find(|(group, _)| group.has(*at)));
        let factors = of.or(self.groups.first()).map_or(Factors::NONE, |(_, factors)| *factors);
        factors.stolen * s.stolen_ns + factors.queued * s.queued_ns
    }
}

/// A task of a group with the CPUs that it may use; `None`: any of the group's.
#[derive(Clone, Copy)]
struct Member<'a> {
    s: &'a Spent,
    set: Option<&'a Set>,
}

fn factors(window: &Window, group: &Group, members: &[Member]) -> Factors {
    let cpus = |get: fn(&Spent) -> f64| members.iter().map(|m| get(m.s)).sum::<f64>() / window.wall_ns;
    let (wanted, used) = (cpus(wanted_ns), cpus(Spent::on_cpu_ns));
    let (stolen, queued) = (cpus(|s| s.stolen_ns), cpus(|s| s.queued_ns));
    let alone = usable_in(window, group, members);
    if stolen <= 0.0 || alone <= used {
        return Factors::NONE;
    }
    let taken = (wanted * (1.0 - used / alone)).min(stolen * wanted / alone);
    let more = if queued > 0.0 { ((taken - stolen) / queued).clamp(0.0, 1.0) } else { 0.0 };
    Factors { stolen: (taken / stolen).min(1.0), queued: more }
}

/// How many CPUs the tasks of a group would use on average. Tasks that may not leave a set of CPUs use no more than it has. So the set that
/// confines most decides.
fn usable_in(window: &Window, group: &Group, members: &[Member]) -> f64 {
    let within = |set: &Set| {
        let is_within = |m: &&Member| m.set.is_some_and(|own| own.is_subset(set));
        let inside: Vec<&Spent> = members.iter().filter(is_within).map(|m| m.s).collect();
        let outside = members.iter().filter(|m| !is_within(m)).map(|m| wanted_ns(m.s)).sum::<f64>();
        let count = window.reach.count(set, window.wall_ns, window.cpus).round().max(1.0);
        usable_cpus(&wanted_shares(window.wall_ns, &inside), count as usize) + outside / window.wall_ns
    };
    let all: Vec<&Spent> = members.iter().map(|m| m.s).collect();
    let count = window.reach.count(&group.cpus, window.wall_ns, window.cpus).round();
    let usable = usable_cpus(&wanted_shares(window.wall_ns, &all), count as usize);
    let sets = members.iter().filter_map(|m| m.set);
    let mut narrower: Vec<&Set> = sets.filter(|set| set.len() < group.cpus.len()).collect();
    narrower.sort_unstable();
    narrower.dedup();
    narrower.into_iter().map(within).fold(usable, f64::min)
}

/// The share of the window for which each of its tasks wants a CPU, 0..=1. Tasks that did not live all the time follow each other, as in a
/// build: their lives are laid end to end, and each piece as long as the window counts as a task.
fn wanted_shares(wall_ns: f64, tasks: &[&Spent]) -> Vec<f64> {
    let (mut shares, mut open) = (Vec::new(), (0.0, 0.0));
    for s in tasks.iter().filter(|s| s.life_ns > 0.0) {
        let share = wanted_ns(s) / s.life_ns;
        if s.life_ns == wall_ns {
            shares.push(share);
            continue;
        }
        let mut left_ns = s.life_ns;
        while left_ns > 0.0 {
            let piece_ns = left_ns.min(wall_ns - open.0);
            open = (open.0 + piece_ns, open.1 + share * piece_ns);
            left_ns -= piece_ns;
            if open.0 >= wall_ns {
                shares.push(open.1 / wall_ns);
                open = (0.0, 0.0);
            }
        }
    }
    shares.push(open.1 / wall_ns);
    shares
}

/// How long a task was on a CPU or waited for one that somebody else held.
fn wanted_ns(s: &Spent) -> f64 {
    s.on_cpu_ns() + s.stolen_ns + s.queued_ns
}

/// How many of these CPUs are used on average by tasks that want one for these shares of the time, independently of each other.
fn usable_cpus(shares: &[f64], cpus: usize) -> f64 {
    if cpus == 0 {
        return shares.iter().sum();
    }
    // How likely it is that this many are wanted, fewer than there are.
    let mut likely = vec![0.0; cpus];
    likely[0] = 1.0;
    for share in shares.iter().map(|w| w.clamp(0.0, 1.0)).filter(|w| *w > 0.0) {
        for n in (1..cpus).rev() {
            likely[n] = likely[n] * (1.0 - share) + likely[n - 1] * share;
        }
        likely[0] *= 1.0 - share;
    }
    let idle: f64 = likely.iter().enumerate().map(|(n, likely)| (cpus - n) as f64 * likely).sum();
    cpus as f64 - idle
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A window of tasks by how long each was on a CPU, stolen from and queued, in percent of it.
    fn window(cpus: usize, tasks: &[[f64; 3]]) -> Window {
        let spent = |&[compute_ns, stolen_ns, queued_ns]: &[f64; 3]| Spent {
            life_ns: 100.0,
            compute_ns,
            stolen_ns,
            queued_ns,
            ..Spent::default()
        };
        let tasks = tasks.iter().enumerate().map(|(i, t)| (TaskId(i as u32), spent(t))).collect();
        Window { wall_ns: 100.0, tasks, cpus, ..Window::default() }
    }

    /// The share of its life that co-runners cost the first task.
    fn taken(cpus: usize, tasks: &[[f64; 3]]) -> f64 {
        let window = window(cpus, tasks);
        Crowding::of(&window).taken_ns(&window, Some(TaskId(0)), &window.tasks[&TaskId(0)]) / 100.0
    }

    #[test]
    fn four_threads_that_have_one_of_two_cpus_would_have_both_and_be_twice_as_fast() {
        let beside_one_loop = [[25.0, 25.0, 50.0]; 4];
        assert!(
            (taken(2, &beside_one_loop) - 0.5).abs() < 1e-9,
            "a CPU is missed by all who queue for the other"
        );
        let beside_two_loops = [[25.0, 75.0, 0.0]; 4];
        assert!(
            (taken(2, &beside_two_loops) - 0.5).abs() < 1e-9,
            "and who waits for a loop would wait for a sibling"
        );
    }

    #[test]
    fn what_is_stolen_from_no_more_threads_than_there_are_cpus_is_just_that() {
        assert!((taken(2, &[[60.0, 40.0, 0.0], [70.0, 0.0, 30.0]]) - 0.4).abs() < 1e-9);
        let sleeps = [[30.0, 20.0, 0.0], [10.0, 0.0, 0.0], [10.0, 0.0, 0.0]];
        assert!((taken(4, &sleeps) - 0.2).abs() < 1e-9);
    }

    #[test]
    fn who_queues_with_nobody_else_there_loses_nothing() {
        assert_eq!(taken(2, &[[50.0, 0.0, 50.0]; 4]), 0.0);
        assert_eq!(taken(0, &[[50.0, 0.0, 50.0]; 4]), 0.0, "whatever the machine is");
    }

    #[test]
    fn tasks_that_want_cpus_by_chance_use_fewer_than_as_many_that_always_do() {
        assert!((usable_cpus(&[1.0; 4], 2) - 2.0).abs() < 1e-12);
        // None of four with a chance of 1 in 16, one with 4 in 16.
        assert!((usable_cpus(&[0.5; 4], 2) - (2.0 - 2.0 / 16.0 - 4.0 / 16.0)).abs() < 1e-12);
    }

    #[test]
    fn tasks_that_follow_each_other_want_no_more_cpus_than_those_that_live_at_once() {
        let mut build = window(2, &[[0.0; 3]]);
        let of = |life_ns| Spent {
            life_ns,
            compute_ns: life_ns / 2.0,
            stolen_ns: life_ns / 2.0,
            ..Spent::default()
        };
        build.tasks.extend((1..=40).map(|i| (TaskId(i), of(4.0))));
        build.unlisted = of(40.0);
        let shares: Vec<f64> = wanted_shares(build.wall_ns, &build.all().collect::<Vec<_>>())
            .into_iter()
            .filter(|s| *s > 1e-9)
            .collect();
        assert!(shares.len() == 2 && shares.iter().all(|s| (s - 1.0).abs() < 1e-9), "{shares:?}");
        assert!((Crowding::of(&build).taken_ns(&build, None, &build.unlisted) - 20.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn nobody_uses_more_cpus_than_there_are_or_are_wanted(
            shares in proptest::collection::vec(0.0..=1.0f64, 0..12), cpus in 1usize..6,
        ) {
            let wanted = shares.iter().sum::<f64>();
            let used = usable_cpus(&shares, cpus);
            prop_assert!(used >= -1e-9 && used <= wanted.min(cpus as f64) + 1e-9);
            if shares.len() <= cpus {
                prop_assert!((used - wanted).abs() < 1e-9, "all are, where they are enough");
            }
        }

        #[test]
        fn no_task_loses_more_than_it_waited_for_cpus(
            tasks in proptest::collection::vec([0.0..34.0f64, 0.0..33.0f64, 0.0..33.0f64], 1..8), cpus in 1usize..6,
        ) {
            let window = window(cpus, &tasks);
            let crowding = Crowding::of(&window);
            for (task, s) in window.each() {
                let taken_ns = crowding.taken_ns(&window, task, s);
                prop_assert!((0.0..=s.stolen_ns + s.queued_ns).contains(&taken_ns), "{taken_ns} {s:?}");
            }
        }
    }
}
