//! How long tasks' wake-ups of each other would take alone, if each has a CPU of its own that sleeps while its task does.
//!
//! It takes a while to run a task on a CPU that slept, some ten to twenty microseconds in a virtual machine. Next to busy co-runners no CPU
//! sleeps. Two threads that meet again and again after a few microseconds of work wait for nothing else: the one that was woken comes last
//! the next time, and the other sleeps. So each of them waits for all wake-ups of both: its own, and those that make the other late. They
//! follow each other like the rounds of a dance, each a wake-up and the computing of one thread. Alone such a program takes
//! `computing + rounds × wake-up`.
//!
//! Method. In a round of `n` tasks, all but the last one to come sleep. So the rounds are the blockings of all divided by `n - 1`. A task waits
//! for the rounds in which it is woken, and for as many in which another was woken that it then waits for. So a task that never sleeps
//! (the first stage of a pipeline) waits for none.
//!
//! Limits: wake-ups are assumed to follow each other even if threads sleep by chance (a lock), or only because they take turns on one CPU
//! (a full queue). If windows are quiet, the program shows how long wake-ups take at most ([`at_most`]).

use crate::definitions::SMALL;
use crate::useful_work::{Spent, Window};
use corun_model::{Unavailable, What, Why};
use corun_sim::replay::Conditions;

/// The wake-ups of a window's tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeUps {
    /// How often the tasks that have a fair part of the work waited for each other.
    rounds: f64,
    /// How long one takes, in nanoseconds.
    each_ns: f64,
}

impl WakeUps {
    /// Those of a window, if each takes this long.
    pub(crate) fn of(window: &Window, each_ns: f64) -> WakeUps {
        let (blockings, tasks) =
            window.workers().fold((0.0, 0), |(sum, n), s| (sum + s.blockings_for_siblings(), n + 1));
        WakeUps { rounds: blockings / f64::from((tasks - 1).max(1)), each_ns }
    }

    /// How long one of the tasks would wait for them alone, in nanoseconds.
    pub(crate) fn waiting_ns(&self, s: &Spent) -> f64 {
        let own = s.blockings_for_siblings();
        (own + (self.rounds - own).clamp(0.0, own)) * self.each_ns
    }
}

/// Whether wake-ups of this length take a large share of the lives of a window's tasks.
fn take_long(window: &Window, each_ns: f64) -> bool {
    let sum = |get: &dyn Fn(&Spent) -> f64| window.workers().map(get).sum::<f64>();
    let wake_ups = WakeUps::of(window, each_ns);
    let waiting_ns = sum(&|s| wake_ups.waiting_ns(s));
    waiting_ns > 0.0 && waiting_ns >= SMALL * sum(&|s| s.life_ns)
}

/// A note that nobody knows how long a wake-up takes, if the tasks of this window sleep so often that it matters.
pub(crate) fn unknown(window: &Window, each_ns: f64) -> Option<Unavailable> {
    // A replay assumes this length if nobody knows better.
    let about_ns = Conditions::default().wake_up_ns as f64;
    (each_ns == 0.0 && take_long(window, about_ns))
        .then_some(Unavailable { what: What::WakeUps, why: Why::WakeUpsNotMeasured })
}

/// How long a wake-up takes in the program of this window, in which nothing was stolen: no longer than its tasks waited, and no longer
/// than on this machine (`each_ns`, in nanoseconds).
pub(crate) fn at_most(quiet: &Window, each_ns: f64) -> f64 {
    let all = WakeUps::of(quiet, each_ns);
    let part = |s: &Spent| (s.life_ns - s.compute_ns - s.own_ns).max(0.0) / all.waiting_ns(s);
    let parts = quiet.workers().filter(|s| all.waiting_ns(s) > 0.0).map(part);
    parts.fold(1.0, f64::min) * each_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::TaskId;

    /// Tasks by how long they computed and how often they blocked, in a window of 100 ns.
    fn window(tasks: &[(f64, f64)]) -> Window {
        let spent = |&(compute_ns, blockings): &(f64, f64)| Spent {
            life_ns: 100.0,
            compute_ns,
            sibling_ns: 100.0 - compute_ns,
            blockings: Some(blockings),
            ..Spent::default()
        };
        let tasks = tasks.iter().enumerate().map(|(i, t)| (TaskId(i as u32), spent(t))).collect();
        Window { wall_ns: 100.0, tasks, ..Window::default() }
    }

    fn waiting_ns(tasks: &[(f64, f64)]) -> Vec<f64> {
        let window = window(tasks);
        let wake_ups = WakeUps::of(&window, 2.0);
        window.tasks.values().map(|s| wake_ups.waiting_ns(s)).collect()
    }

    #[test]
    fn two_threads_that_meet_wait_for_each_others_wake_ups_and_one_that_never_sleeps_for_none() {
        assert_eq!(waiting_ns(&[(50.0, 5.0), (50.0, 5.0)]), [20.0, 20.0]);
        assert_eq!(waiting_ns(&[(90.0, 0.0), (50.0, 10.0)]), [0.0, 20.0], "a producer and its consumer");
        assert_eq!(waiting_ns(&[(90.0, 2.0), (50.0, 8.0)]), [8.0, 20.0]);
    }

    #[test]
    fn of_four_threads_three_sleep_in_each_round() {
        assert_eq!(waiting_ns(&[(50.0, 6.0); 4]), [16.0; 4], "eight rounds of 2 ns");
        assert_eq!(
            waiting_ns(&[(50.0, 6.0), (50.0, 6.0), (1.0, 9.0)])[0],
            24.0,
            "who only waits is nobody's sibling"
        );
    }

    #[test]
    fn that_nobody_knows_what_a_wake_up_takes_is_said_where_threads_sleep_often() {
        let of = |blockings| {
            let mut window = window(&[(60.0, blockings), (60.0, blockings)]);
            window.tasks.values_mut().for_each(|s| s.life_ns = 1e6);
            window
        };
        assert!(unknown(&of(10.0), 0.0).is_some_and(|u| u.what == What::WakeUps));
        assert_eq!(unknown(&of(10.0), 17_000.0), None, "it is known");
        assert_eq!((unknown(&of(1.0), 0.0), unknown(&of(0.0), 0.0)), (None, None), "it does not matter");
    }

    #[test]
    fn a_quiet_window_tells_how_long_wake_ups_take_at_most() {
        let quiet = window(&[(70.0, 5.0), (60.0, 5.0)]);
        assert_eq!(at_most(&quiet, 2.0), 2.0, "ten of them fit in");
        assert!((at_most(&quiet, 4.0) - 3.0).abs() < 1e-9, "ten take 30 ns of the first one's time");
        assert_eq!(at_most(&window(&[(70.0, 0.0)]), 4.0), 4.0, "nobody slept");
    }
}
