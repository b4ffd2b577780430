//! What a program would do alone, from windows that it shared: the ledger alone.
//!
//! Method. Alone, a task's life would not include the time that co-runners stole. Nor would it include the part of its waiting for
//! siblings that co-runners caused by stealing from a sibling. Call the first `x` and the second `v`, as shares of its life. Alone the task
//! would have come as far in `1 - x - v` of the time, and the program's slowdown is
//!
//! ```text
//! slowdown = Σ compute_i / (1 - x_i - v_i)  /  Σ compute_i
//! ```
//!
//! weighted with compute time, because a task that computes nothing decides nothing. A ledger does not show `v`, but there are three bounds.
//! The tightest of them is what a program shows whose tasks wait only for each other:
//!
//! 1. `v` is no longer than the task waited at all, less the program's own waiting. **Quiet** windows, in which nothing was stolen, show
//!    that ([`own_waiting`]). If there are none, it is assumed to be nothing. In any case it is no less than wake-ups take
//!    ([`crate::wake_ups`]): alone CPUs sleep while tasks do, and next to a busy loop they do not.
//! 2. `v` is no longer than the time in which a sibling was stolen from and the task was not: every nanosecond taken from a sibling delays a
//!    waiting task by one at most. If more tasks have work than there are CPUs, several of them may wait for the same co-runner at once.
//!    Their steals then rise and fall together from window to window, and leave less ([`Hints::overlap`]). Sums do not tell when thefts
//!    from different tasks were. They are assumed to be independent of each other. A task that spins takes turns with a loop, and the turns
//!    of several loops may coincide or never do, for as long as they last. So for a program that spins, the most is that no two of its
//!    tasks are stolen from at once ([`Hints::apart`]).
//! 3. Tasks that are bound together (barriers, locks, pipelines) all lose the same `x + v`. So a task loses no more than the one for which
//!    the first two bounds leave least. In a pipeline, that is the critical stage, which never waits.
//!
//! Wake-ups also bound the slowdown from above, and may make it less than 1. A program that takes turns on the one CPU that a loop keeps
//! awake can be faster than one whose threads each wait for a CPU of their own to wake up. Its waiting for siblings is negative then.
//!
//! Threads that queue behind a sibling count as stolen from if co-runners held CPUs in the meantime. If the program wants more CPUs than
//! there are, they count as far as it would have more CPUs alone ([`crate::crowded`]). The result is kept within the bounds that hold for
//! every program ([`crate::bounds`]).
//!
//! A program that is never left in peace does not show how much it waits on its own. Two threads that take turns on the one CPU that a
//! loop leaves them look alike whether alone they would overlap wholly or hardly. The slowdown lies between that bound and the other one,
//! no induced waiting at all. The upper bound is too high on average, so [`likely`] goes a fixed part of the way down
//! (`WAITS_OF_ITS_OWN`).
//!
//! Limits: that part is the same for all programs. So programs whose threads never wait alone look less slowed than they are, and
//! programs whose threads always do (a lock that is always taken, a pool without requests) look more slowed. The interval shows how far
//! the bounds lie apart. Memory contention is not seen. A wait for a device that a co-runner keeps busy counts as the program's own.
//! Within a window, steals from different tasks are assumed to coincide as they do between windows; if each task has a CPU of its own, they
//! are assumed to be independent.

use crate::bounds::Bounds;
use crate::calibrated::WAITS_OF_ITS_OWN;
use crate::crowded::Crowding;
use crate::definitions::{NEGLIGIBLE, SMALL};
use crate::useful_work::{Spent, Window};
use crate::wake_ups::{self, WakeUps};
use corun_model::worker::is_worker;
use corun_model::TaskId;
use std::collections::BTreeMap;

/// What the ledger says about running alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alone {
    /// Time beside co-runners by time alone.
    pub slowdown: f64,
    /// The part of `slowdown - 1` that is steal.
    pub steal: f64,
    /// The part that is waiting for siblings.
    pub sync: f64,
    /// The slowdown of the slowest task that has a fair part of the work.
    pub slowest: f64,
}

/// What consecutive windows tell that their sum does not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hints {
    /// How long the program waits for its own reasons, per time computing; `None`: it was never left in peace.
    pub own_waiting: Option<f64>,
    /// How far tasks that are more than the CPUs are stolen from at the same moments, 0..=1; 0: independently of each other.
    pub overlap: f64,
    /// How long a wake-up takes if CPUs sleep, in nanoseconds; 0: nobody knows.
    pub wake_up_ns: f64,
    /// Tasks are never stolen from at the same moment.
    pub apart: bool,
}

impl Hints {
    /// The other extreme, on the same machine: all the program's waiting is its own.
    pub fn all_its_own(self) -> Hints {
        Hints { own_waiting: Some(f64::INFINITY), overlap: 0.0, ..self }
    }

    /// The hints of these consecutive windows, on a machine with this time for a wake-up.
    pub fn of(windows: &[Window], wake_up_ns: f64) -> Hints {
        let quiet = quiet(windows);
        Hints {
            own_waiting: quiet.as_ref().map(own_waiting),
            overlap: overlap(windows),
            wake_up_ns: quiet.map_or(wake_up_ns, |quiet| wake_ups::at_most(&quiet, wake_up_ns)),
            apart: false,
        }
    }

    /// How long a task would have waited for siblings alone at least, in nanoseconds: in proportion to its computing, or for wake-ups.
    fn own_waiting_ns(&self, s: &Spent, wake_ups: WakeUps) -> f64 {
        (self.own_waiting.unwrap_or(0.0) * s.compute_ns).max(wake_ups.waiting_ns(s).min(s.sibling_ns))
    }
}

/// How long a task would take alone at least, in nanoseconds. Nobody computes for it, and if each task has a CPU of its own (`roomy`),
/// nobody keeps that CPU awake while it sleeps.
fn least_alone_ns(s: &Spent, wake_ups: WakeUps, roomy: bool) -> f64 {
    s.compute_ns + if roomy { s.own_ns + wake_ups.waiting_ns(s) } else { 0.0 }
}

/// The likely slowdown of a window: its upper bound, or somewhat less if nobody knows how long the program waits on its own. `None`: the
/// subject computed nothing.
pub fn likely(window: &Window, hints: Hints) -> Option<Alone> {
    Some(Sums::of(window, hints.wake_up_ns, &Bounds::of(window))?.likely(hints))
}

/// For a window whose bounds are known: the slowdown if all waiting for siblings is the program's own, the answer of [`likely`], and the
/// most that it may be.
pub(crate) fn own_likely_most(window: &Window, hints: Hints, bounds: &Bounds) -> Option<[Alone; 3]> {
    let sums = Sums::of(window, hints.wake_up_ns, bounds)?;
    let apart = window.total().spins();
    let own = sums.most(hints.all_its_own());
    Some([own, sums.likely(hints), sums.most(Hints { apart, ..hints })])
}

impl Alone {
    /// The same if no slowdown can be more than `most`, which is 1 or more. The parts still sum to `slowdown - 1`. The slowest task may be
    /// slowed by more, if the rest makes up for it.
    fn at_most(self, most: f64) -> Alone {
        if self.slowdown <= most {
            return self;
        }
        let scale = (most - 1.0) / (self.slowdown - 1.0);
        let slowest = self.slowest.min(most);
        Alone { slowdown: most, steal: self.steal * scale, sync: self.sync * scale, slowest }
    }

    /// This share of the way to `least`. The parts still sum to `slowdown - 1`.
    fn towards(self, least: Alone, share: f64) -> Alone {
        let between = |most: f64, least: f64| most.powf(1.0 - share) * least.powf(share);
        let slowdown = between(self.slowdown, least.slowdown);
        let apart = self.slowdown - least.slowdown;
        let left = if apart > 0.0 { (slowdown - least.slowdown) / apart } else { 1.0 };
        let part = |most: f64, least: f64| least + left * (most - least);
        Alone {
            slowdown,
            steal: part(self.steal, least.steal),
            sync: part(self.sync, least.sync),
            slowest: between(self.slowest, least.slowest),
        }
    }
}

/// The sums of a window that do not depend on its hints, so that a window of thousands of tasks is walked once.
struct Sums<'a> {
    window: &'a Window,
    compute_ns: f64,
    busiest_ns: f64,
    crowding: Crowding,
    wake_ups: WakeUps,
    roomy: bool,
    /// No slowdown can be more.
    bound: f64,
}

impl Sums<'_> {
    /// `None`: the subject computed nothing.
    fn of<'a>(window: &'a Window, wake_up_ns: f64, bounds: &Bounds) -> Option<Sums<'a>> {
        let compute_ns = window.total().compute_ns;
        (compute_ns > 0.0).then(|| Sums {
            window,
            compute_ns,
            busiest_ns: window.busiest_ns(),
            crowding: Crowding::of(window),
            wake_ups: WakeUps::of(window, wake_up_ns),
            roomy: window.workers().count() as f64 <= window.cpus_in_reach(),
            bound: 1.0 / (1.0 - bounds.most_lost_ns / window.wall_ns).max(f64::MIN_POSITIVE),
        })
    }

    fn likely(&self, hints: Hints) -> Alone {
        let most = self.most(hints);
        match hints.own_waiting {
            Some(_) => most,
            None => most.towards(self.most(hints.all_its_own()), WAITS_OF_ITS_OWN),
        }
    }

    fn most(&self, hints: Hints) -> Alone {
        let &Sums { window, compute_ns, busiest_ns, ref crowding, wake_ups, roomy, bound } = self;
        let overlap = if roomy { 0.0 } else { hints.overlap };
        let taken = |task, s: &Spent| crowding.taken_ns(window, task, s) / s.life_ns;
        let all_taken_ns: f64 = match hints.apart {
            true => window.each().map(|(task, s)| crowding.taken_ns(window, task, s)).sum(),
            false => 0.0,
        };
        let lost = |task, s: &Spent| {
            let waiting_ns = (s.waiting_ns() - hints.own_waiting_ns(s, wake_ups)).max(0.0);
            let beside_ns = match hints.apart {
                true => (all_taken_ns - taken(task, s) * s.life_ns).max(0.0),
                false => s.beside_stolen_ns * (1.0 - overlap),
            };
            taken(task, s) + waiting_ns.min(beside_ns) / s.life_ns
        };
        let is_worker = |s: &Spent| is_worker(s.compute_ns, busiest_ns);
        let workers = window.each().filter(|(_, s)| is_worker(s));
        let common = workers.map(|(task, s)| lost(task, s)).fold(f64::INFINITY, f64::min);
        let (mut slowdown, mut steal, mut sync, mut slowest) = (0.0, 0.0, 0.0, 1.0f64);
        for (task, s) in window.each().filter(|(_, s)| s.compute_ns > 0.0) {
            let x = taken(task, s);
            let both = common.clamp(x, lost(task, s).max(x));
            let left = (1.0 - both).max(least_alone_ns(s, wake_ups, roomy) / s.life_ns);
            let weight = s.compute_ns / compute_ns;
            slowdown += weight / left;
            steal += weight * x / left;
            sync += weight * (1.0 - x - left) / left;
            if is_worker(s) {
                slowest = slowest.max(1.0 / left);
            }
        }
        Alone { slowdown, steal, sync, slowest }.at_most(bound)
    }
}

/// The windows in which next to nothing was stolen, nor in the window before, together. `None`: they are too few to tell anything about
/// the rest.
fn quiet(windows: &[Window]) -> Option<Window> {
    let quiet: Vec<bool> = windows
        .iter()
        .map(|w| w.all().all(|s| s.stolen_ns <= NEGLIGIBLE * w.wall_ns) && w.total().compute_ns > 0.0)
        .collect();
    let settled = quiet.windows(2).zip(&windows[1.min(windows.len())..]).filter(|(q, _)| q[0] && q[1]);
    let found: Vec<&Window> = settled.map(|(_, w)| w).collect();
    let are_enough = !found.is_empty() && found.len() as f64 >= SMALL * windows.len() as f64;
    are_enough.then(|| Window::sum(found))
}

/// How long the program waits for its own reasons per time computing, in a window in which nothing was stolen. A thread that only waits
/// for the others to end does not show how long they wait.
fn own_waiting(quiet: &Window) -> f64 {
    let sum = |get: fn(&Spent) -> f64| quiet.workers().map(get).sum::<f64>();
    sum(Spent::waiting_ns) / sum(|s| s.compute_ns)
}

/// Definition: fewest changes from window to window for a correlation: its standard error is a fifth then.
const FEWEST: usize = 24;
/// Limit: a smaller part of a sum is rounding.
const ROUNDING: f64 = 1e-3;

/// The correlation between the changes of the tasks' steals from one window to the next, 0..=1. Steals that rise and fall together over
/// long times (an interferer that comes and goes) show in the windows anyway.
fn overlap(windows: &[Window]) -> f64 {
    let share = |w: &Window, id: &TaskId| w.tasks.get(id).map_or(0.0, |s| s.stolen_ns / w.wall_ns);
    let (mut of_sum, mut of_each) = (0.0, BTreeMap::<TaskId, f64>::new());
    for pair in windows.windows(2) {
        let mut all = 0.0;
        // Only tasks that are in one of the two: a build has thousands of tasks, a few at a time.
        let gone = pair[0].tasks.keys().filter(|id| !pair[1].tasks.contains_key(id));
        for id in pair[1].tasks.keys().chain(gone) {
            let change = share(&pair[1], id) - share(&pair[0], id);
            *of_each.entry(*id).or_default() += change * change;
            all += change;
        }
        of_sum += all * all;
    }
    // (Σ sd)² = Σ var + Σ sd sd over pairs; the variance of the sum is Σ var + Σ cov over pairs.
    let variances: f64 = of_each.values().sum();
    let deviations: f64 = of_each.values().map(|v| v.sqrt()).sum();
    let pairs = deviations * deviations - variances;
    if windows.len() <= FEWEST || pairs <= ROUNDING * variances {
        return 0.0;
    }
    ((of_sum - variances) / pairs).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE_NS: f64 = 100.0;

    /// A task by its shares, in percent: computing, waiting for siblings, stolen, beside a stolen sibling.
    fn task(compute_ns: f64, sibling_ns: f64, stolen_ns: f64, beside_stolen_ns: f64) -> Spent {
        Spent { life_ns: LIFE_NS, compute_ns, sibling_ns, stolen_ns, beside_stolen_ns, ..Spent::default() }
    }

    /// With as much induced waiting as may be.
    fn most(window: &Window, hints: Hints) -> Alone {
        own_likely_most(window, hints, &Bounds::of(window)).unwrap()[2]
    }

    fn slowdown(tasks: &[Spent]) -> Alone {
        let tasks = tasks.iter().enumerate().map(|(i, s)| (TaskId(i as u32), *s)).collect();
        most(&Window { wall_ns: LIFE_NS, tasks, cpus: 8, ..Window::default() }, Hints::default())
    }

    #[test]
    fn threads_that_wait_at_a_barrier_for_a_stolen_one_lose_what_it_loses() {
        let straggler = task(50.0, 0.0, 50.0, 0.0);
        let waiting = task(50.0, 50.0, 0.0, 50.0);
        let found = slowdown(&[straggler, waiting, waiting]);
        assert!((found.slowdown - 2.0).abs() < 1e-9);
        assert!((found.steal - 1.0 / 3.0).abs() < 1e-9 && (found.sync - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn independent_threads_lose_on_average_but_the_slowest_loses_most() {
        let found = slowdown(&[task(50.0, 0.0, 50.0, 0.0), task(100.0, 0.0, 0.0, 50.0)]);
        assert!((found.slowdown - 4.0 / 3.0).abs() < 1e-9, "{found:?}");
        assert!((found.slowest - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_stage_that_waits_anyway_does_not_add_to_what_the_critical_stage_loses() {
        let critical = task(80.0, 0.0, 20.0, 10.0);
        let idle_half = task(40.0, 50.0, 10.0, 20.0);
        assert!((slowdown(&[critical, idle_half]).slowdown - 1.25).abs() < 1e-9);
    }

    #[test]
    fn nobody_is_slowed_beyond_the_cpus_there_are() {
        let tasks = [(TaskId(0), task(90.0, 0.0, 10.0, 0.0)), (TaskId(1), task(90.0, 0.0, 10.0, 0.0))].into();
        let window = Window { wall_ns: LIFE_NS, tasks, cpus: 1, ..Window::default() };
        assert_eq!(most(&window, Hints::default()).slowdown, 1.0);
    }

    #[test]
    fn threads_that_queue_for_the_cpu_that_a_loop_leaves_them_would_be_twice_as_fast_on_two() {
        let queues = Spent { queued_ns: 50.0, ..task(25.0, 0.0, 25.0, 50.0) };
        let tasks = (0..4).map(|i| (TaskId(i), queues)).collect();
        let window = Window { wall_ns: LIFE_NS, tasks, cpus: 2, ..Window::default() };
        let found = most(&window, Hints::default());
        assert!((found.slowdown - 2.0).abs() < 1e-9 && (found.steal - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn waiting_in_quiet_windows_is_the_programs_own() {
        let window = |start_ns, s| Window {
            start_ns,
            end_ns: start_ns + 100,
            wall_ns: LIFE_NS,
            tasks: [(TaskId(0), s)].into(),
            ..Window::default()
        };
        let mut windows: Vec<Window> =
            (0..8).map(|i| window(i * 100, task(40.0, 20.0, 40.0, 20.0))).collect();
        let own_waiting = |windows: &[Window]| Hints::of(windows, 0.0).own_waiting;
        assert_eq!(own_waiting(&windows), None, "no window is quiet");
        windows.extend((8..12).map(|i| window(i * 100, task(50.0, 50.0, 0.0, 0.0))));
        assert_eq!(own_waiting(&windows), Some(1.0));
        let only_waits = Spent { life_ns: LIFE_NS, sibling_ns: LIFE_NS, ..Spent::default() };
        windows.iter_mut().for_each(|w| {
            w.tasks.insert(TaskId(1), only_waits);
        });
        assert_eq!(own_waiting(&windows), Some(1.0), "who only waits for the end does not count");
    }

    #[test]
    fn who_sleeps_often_waits_for_wake_ups_alone_too_as_long_as_the_machine_takes_for_them() {
        let sleeps = Spent { blockings: Some(2.5), ..task(50.0, 25.0, 25.0, 25.0) };
        let tasks = (0..2).map(|i| (TaskId(i), sleeps)).collect();
        let window = Window { wall_ns: LIFE_NS, tasks, cpus: 8, ..Window::default() };
        let slowdown = |wake_up_ns| most(&window, Hints { wake_up_ns, ..Hints::default() }).slowdown;
        assert!((slowdown(0.0) - 2.0).abs() < 1e-9, "nobody knows");
        assert!((slowdown(3.0) - 1.0 / 0.65).abs() < 1e-9, "15 of 25 are its own");
        assert!((slowdown(10.0) - 1.0).abs() < 1e-9, "it would take as long alone");
        assert!((slowdown(30.0) - 0.5).abs() < 1e-9, "it would take twice as long alone");
        let crowded = Window { cpus: 1, ..window.clone() };
        let hints = Hints { wake_up_ns: 30.0, ..Hints::default() };
        let found = most(&crowded, hints);
        assert!(found.slowdown >= 1.0, "no CPU sleeps where threads are more than there are: {found:?}");
    }

    #[test]
    fn who_is_never_left_in_peace_is_taken_to_lie_between_the_bounds() {
        let tasks = [task(50.0, 25.0, 25.0, 25.0), task(50.0, 25.0, 25.0, 25.0)];
        let tasks = tasks.iter().enumerate().map(|(i, s)| (TaskId(i as u32), *s)).collect();
        let window = Window { wall_ns: LIFE_NS, tasks, cpus: 8, ..Window::default() };
        let slowdown = |hints| most(&window, hints).slowdown;
        let (most, least) = (slowdown(Hints::default()), slowdown(Hints::default().all_its_own()));
        assert!((most - 2.0).abs() < 1e-9 && (least - 4.0 / 3.0).abs() < 1e-9);
        let found = likely(&window, Hints::default()).unwrap();
        assert!(least < found.slowdown && found.slowdown < most);
        assert!((found.steal + found.sync - (found.slowdown - 1.0)).abs() < 1e-9, "{found:?}");
        let known = Hints { own_waiting: Some(0.0), ..Hints::default() };
        assert_eq!(likely(&window, known).unwrap().slowdown, most, "what is known needs no guess");
    }

    #[test]
    fn thefts_of_who_spins_may_never_fall_together_and_of_who_sleeps_they_fall_by_chance() {
        // Two threads that get a CPU for a third of the time, and compute for a twentieth.
        let waits = |spin_ns, sibling_ns| {
            let spent = Spent { spin_ns, ..task(5.0, sibling_ns, 200.0 / 3.0, 200.0 / 9.0) };
            let tasks = (0..2).map(|i| (TaskId(i), spent)).collect();
            let window = Window { wall_ns: LIFE_NS, tasks, cpus: 2, ..Window::default() };
            most(&window, Hints::default()).slowdown
        };
        let waiting_ns = 100.0 / 3.0 - 5.0;
        assert!((waits(waiting_ns, 0.0) - 20.0).abs() < 1e-6, "{}", waits(waiting_ns, 0.0));
        assert!((waits(0.0, waiting_ns) - 9.0).abs() < 1e-6, "{}", waits(0.0, waiting_ns));
    }

    #[test]
    fn steals_that_come_and_go_together_overlap_and_others_do_not() {
        let windows = |of: fn(u64) -> [f64; 2]| -> Vec<Window> {
            (0..100)
                .map(|i| {
                    let [a, b] = of(i).map(|stolen_ns| Spent { stolen_ns, ..task(0.0, 0.0, 0.0, 0.0) });
                    let tasks = [(TaskId(0), a), (TaskId(1), b)].into();
                    Window { wall_ns: LIFE_NS, tasks, ..Window::default() }
                })
                .collect()
        };
        assert!((overlap(&windows(|i| [40.0 + 20.0 * (i % 3) as f64; 2])) - 1.0).abs() < 1e-9);
        assert!(overlap(&windows(|i| [(i * i % 7) as f64, (i * 5 % 11) as f64])) < 0.2);
        assert_eq!(overlap(&windows(|_| [50.0, 50.0])), 0.0, "steady steal tells nothing");
    }
}
