//! What is answered of windows that were made up: phases, beginnings, storms, and what keeps a program.

use super::*;
use crate::useful_work::Spent;
use corun_model::TaskId;

const WINDOW_NS: u64 = 100_000_000;

/// The `i`-th window of so many tasks, from each of which this share is stolen.
fn window_of(tasks: u32, i: u64, stolen: f64) -> Window {
    let life_ns = WINDOW_NS as f64;
    let stolen_ns = stolen * life_ns;
    let spent = Spent { life_ns, compute_ns: life_ns - stolen_ns, stolen_ns, ..Spent::default() };
    let (start_ns, end_ns) = (i * WINDOW_NS, (i + 1) * WINDOW_NS);
    let tasks = (1..=tasks).map(|t| (TaskId(t), spent)).collect();
    Window { start_ns, end_ns, wall_ns: life_ns, tasks, cpus: 8, ..Window::default() }
}

fn window(i: u64, stolen: f64) -> Window {
    window_of(1, i, stolen)
}

#[test]
fn the_beginning_counts_only_until_there_is_as_much_after_it() {
    let mut predictor = Predictor::new(TenantId(0), Options::default());
    let mut slowdown_after = |i| {
        predictor.push_window(window(i, if i < 5 { 0.5 } else { 0.0 }), Label::Shared);
        predictor.estimate().ok().map(|e| e.slowdown)
    };
    let slowdowns: Vec<Option<f64>> = (0..10).map(&mut slowdown_after).collect();
    assert_eq!(slowdowns[3], None, "half a second is the least");
    assert!((slowdowns[4].unwrap() - 2.0).abs() < 1e-9, "there is nothing else");
    assert!(slowdowns[8].unwrap() > 1.2);
    assert_eq!(slowdowns[9], Some(1.0));
}

#[test]
fn who_took_next_to_nothing_is_no_culprit_and_shares_are_round() {
    let tenants = (0..3).map(|i| (TenantId(i), (format!("t{i}"), TenantKind::Command))).collect();
    let took = [(0, 2e9), (1, 1e9), (2, 3e4)].map(|(id, ns)| (Some(TenantId(id)), ns));
    let found = culprits(&Window { culprits: took.into(), ..Window::default() }, &tenants);
    let shares: Vec<(&str, f64)> = found.iter().map(|c| (c.tenant.as_deref().unwrap(), c.share)).collect();
    assert_eq!(shares, [("t0", 0.666_66), ("t1", 0.333_33)]);
}

#[test]
fn of_too_few_windows_it_is_said_what_is_missing() {
    let mut predictor = Predictor::new(TenantId(0), Options::default());
    let cannot_tell = |predictor: &Predictor| predictor.estimate().unwrap_err();
    assert_eq!(cannot_tell(&predictor), CannotTell::NoTask);
    predictor.push_window(Window { wall_ns: 1_400_000.0, ..window(0, 0.5) }, Label::Shared);
    assert_eq!(cannot_tell(&predictor), CannotTell::TooShort { least_ns: 500_000_000 });
    predictor.push_window(Window { wall_ns: 1e9, ..window(1, 0.5) }, Label::Shared);
    assert_eq!(cannot_tell(&predictor), CannotTell::TooFewShared);
}

/// The `i`-th window of a task of whose life these shares are computed, throttled, stopped, frozen and stolen.
fn kept(i: u64, [compute, throttled, stopped, frozen, stolen]: [f64; 5]) -> Window {
    let ns = |share: f64| share * WINDOW_NS as f64;
    let spent = Spent {
        life_ns: ns(1.0),
        compute_ns: ns(compute),
        throttled_ns: ns(throttled),
        held_ns: ns(stopped + frozen),
        frozen_ns: ns(frozen),
        other_ns: ns(throttled + stopped + frozen),
        stolen_ns: ns(stolen),
        ..Spent::default()
    };
    Window { tasks: [(TaskId(1), spent)].into(), ..window(i, 0.0) }
}

#[test]
fn of_a_program_that_did_not_run_it_is_known_what_kept_it() {
    for shares in [[0.0, 0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.0, 1.0, 0.0], [0.0; 5]] {
        let mut predictor = Predictor::new(TenantId(0), Options::default());
        (0..20).for_each(|i| _ = predictor.push_window(kept(i, shares), Label::Shared));
        let Err(CannotTell::OnlyWaited(w)) = predictor.so_far() else { panic!("it did not run") };
        let found = [0, w.throttled_ns, w.stopped_ns, w.frozen_ns, w.stolen_ns];
        let [_, rest @ ..] = found.map(|ns| ns as f64 / w.life_ns as f64);
        assert!(rest.iter().zip(&shares[1..]).all(|(is, of)| (is - of).abs() < 1e-6), "{rest:?}: {shares:?}");
    }
}

#[test]
fn a_program_that_ran_only_at_the_beginning_did_run() {
    let mut predictor = Predictor::new(TenantId(0), Options::default());
    for i in 0..30 {
        let shares = if i < 4 { [1.0, 0.0, 0.0, 0.0, 0.0] } else { [0.0, 0.0, 0.0, 1.0, 0.0] };
        predictor.push_window(kept(i, shares), Label::Shared);
    }
    let run = predictor.so_far().unwrap();
    assert!((run.held - 26.0 / 30.0).abs() < 1e-6 && run.held == run.frozen, "{run:?}");
    assert!((run.slowdown - 1.0).abs() < 1e-6, "{run:?}");
}

/// Prepares for 4 s on one thread, from which nothing is taken, then goes on with four for 20 s, of which three
/// quarters are. A dedicated window every second, or none.
fn two_phases(dedicated: bool) -> Predictor {
    let mut predictor = Predictor::new(TenantId(0), Options::default());
    for i in 0..240 {
        let (tasks, stolen) = if i < 40 { (1, 0.0) } else { (4, 0.75) };
        if dedicated && i % 10 == 5 {
            predictor.push_window(window_of(tasks, i, 0.0), Label::Dedicated);
        }
        predictor.push_window(window_of(tasks, i, stolen), Label::Shared);
    }
    predictor
}

#[test]
fn the_present_is_the_last_phase_and_the_run_is_all_of_them_by_the_time_they_would_take_alone() {
    for dedicated in [true, false] {
        let predictor = two_phases(dedicated);
        let (now, run) = (predictor.estimate().unwrap(), predictor.so_far().unwrap());
        assert_eq!((now.phases, run.phases), (2, 2));
        assert!((now.slowdown - 4.0).abs() < 1e-6, "{}", now.slowdown);
        // 24 s, of which alone 4 s and 5 s.
        assert!((run.slowdown - 24.0 / 9.0).abs() < 0.05, "dedicated {dedicated}: {}", run.slowdown);
        assert!(run.interval[0] < run.slowdown && run.slowdown < run.interval[1]);
        let of_parts = run.parts.steal + run.parts.sync + run.parts.other;
        assert!((of_parts - (run.slowdown - 1.0)).abs() < 1e-9, "the parts sum to it");
        let method = if dedicated { Method::Dedicated } else { Method::Ledger };
        assert_eq!((now.method, run.method), (method, method));
        let first = run.windows.iter().find(|w| w.label == Label::Shared).unwrap();
        assert!((first.slowdown.unwrap() - 1.0).abs() < 1e-9, "a window is told by its own phase");
    }
}

#[test]
fn what_one_phase_gains_and_the_next_loses_is_judged_over_the_whole_run() {
    // Two threads, one of them alone on its CPU; when it has ended the other still needs as long again.
    let mut predictor = Predictor::new(TenantId(0), Options::default());
    for i in 0..160 {
        let mut window = window_of(2, i, 0.5);
        if i < 80 {
            window.tasks.insert(TaskId(1), window_of(1, i, 0.0).tasks[&TaskId(1)]);
        } else {
            window.tasks.remove(&TaskId(1));
        }
        predictor.push_window(window, Label::Shared);
    }
    let by_sums = predictor.so_far().unwrap();
    assert_eq!((by_sums.phases, by_sums.method), (2, Method::Ledger));
    assert!(by_sums.slowdown < 1.7, "{}", by_sums.slowdown);
    // Alone both would have ended after the first half: that is known of the two halves one after the other.
    let half_ns = 80 * WINDOW_NS;
    for (at, alone) in [(0, half_ns as f64), (half_ns, 0.0)] {
        let alone_ns = [alone; 3];
        let end_ns = at + half_ns;
        predictor.push_evidence(AloneTime {
            start_ns: at,
            end_ns,
            alone_ns,
            tells_spinning: false,
            looked_ns: 0.0,
        });
    }
    let run = predictor.so_far().unwrap();
    assert_eq!(run.method, Method::Replay);
    // A replay itself is not quite exact, so the sums keep some say.
    assert!((run.slowdown - 2.0).abs() < 0.05, "{}", run.slowdown);
    let of_parts = run.parts.steal + run.parts.sync + run.parts.other;
    assert!((of_parts - (run.slowdown - 1.0)).abs() < 1e-9, "the parts sum to it");
}

#[test]
fn a_phase_that_lies_within_one_shared_window_does_not_spoil_the_run() {
    let mut predictor = two_phases(true);
    predictor.push_window(window_of(4, 243, 0.0), Label::Dedicated);
    // Two changes, between which no shared window begins.
    predictor.changes_ns.extend([242 * WINDOW_NS, 244 * WINDOW_NS]);
    predictor.push_window(Window { start_ns: 240 * WINDOW_NS, ..window_of(4, 244, 0.75) }, Label::Shared);
    for i in 245..270 {
        predictor.push_window(window_of(4, i, 0.75), Label::Shared);
    }
    let run = predictor.so_far().unwrap();
    assert!((2.5..3.2).contains(&run.slowdown), "{}", run.slowdown);
}

/// The `i`-th window of a task that lives all the time and of so many others that live for a thousandth of it.
fn storm(i: u64, others: u32) -> Window {
    let mut window = window_of(1, i, 0.5);
    let ns = WINDOW_NS as f64 / 1_000.0;
    let moment = Spent { life_ns: ns, compute_ns: ns, ..Spent::default() };
    let id = |n: u32| TaskId(1_000_000 * (i as u32 + 1) + n);
    window.tasks.extend((0..others).map(|n| (id(n), moment)));
    window
}

#[test]
fn a_storm_of_threads_is_not_kept_apart_and_those_that_live_are() {
    let mut predictor = Predictor::new(TenantId(0), Options::default());
    for i in 0..50 {
        predictor.push_window(storm(i, 400), Label::Shared);
        let listed: usize = predictor.shared.windows.iter().map(|w| w.tasks.len()).sum();
        assert!(listed <= CROWD, "{listed} after {i}");
        assert!(predictor.shared.windows.iter().all(|w| w.tasks.contains_key(&TaskId(1))));
    }
    let all = Window::sum(&predictor.shared.windows).total();
    let life_ns = 50.0 * WINDOW_NS as f64;
    assert!((all.life_ns / life_ns - 1.4).abs() < 1e-9, "no time is lost: {}", all.life_ns);
    // Fewer are kept apart, and threads that live are, however many.
    let mut few = Predictor::new(TenantId(0), Options::default());
    (0..5).for_each(|i| _ = few.push_window(storm(i, 300), Label::Shared));
    assert_eq!(few.shared.windows[4].tasks.len(), 301);
    let mut large = Predictor::new(TenantId(0), Options::default());
    (0..5).for_each(|i| _ = large.push_window(window_of(1_000, i, 0.0), Label::Shared));
    assert_eq!(large.shared.windows[4].tasks.len(), 1_000);
}

#[test]
fn tasks_that_live_for_a_moment_are_not_kept_apart_for_ever() {
    let mut predictor = Predictor::new(TenantId(0), Options::default());
    let build = |i: u64| {
        let mut window = window_of(1, i, 0.5);
        let short = window.tasks[&TaskId(1)];
        window.tasks = [(TaskId(i as u32 + 10), short), (TaskId(1), short)].into();
        window
    };
    (0..64 * SLOTS as u64).for_each(|i| {
        let _ = predictor.push_window(build(i), Label::Shared);
    });
    let kept: usize = predictor.shared.windows.iter().map(|w| w.tasks.len()).sum();
    assert!(kept <= 24 * SLOTS, "{kept} of {} tasks", 64 * SLOTS);
    assert!((predictor.so_far().unwrap().slowdown - 2.0).abs() < 0.01, "their time counts all the same");
}

#[test]
fn a_phase_without_a_dedicated_window_of_its_own_is_not_the_present_yet() {
    let mut predictor = Predictor::new(TenantId(0), Options::default());
    for i in 0..100 {
        let (tasks, stolen) = if i < 40 { (1, 0.5) } else { (4, 0.75) };
        if i < 40 && i % 10 == 5 {
            predictor.push_window(window_of(tasks, i, 0.0), Label::Dedicated);
        }
        predictor.push_window(window_of(tasks, i, stolen), Label::Shared);
    }
    assert_eq!(predictor.wants_dedicated(), Some(WantsDedicated::BehaviourChanged));
    let before = predictor.estimate().unwrap();
    predictor.push_window(window_of(4, 100, 0.0), Label::Dedicated);
    let after = predictor.estimate().unwrap();
    assert!(
        (after.slowdown - 4.0).abs() < 1e-6 && before.slowdown < 2.0,
        "{} {}",
        before.slowdown,
        after.slowdown
    );
    assert_eq!(predictor.wants_dedicated(), Some(WantsDedicated::BehaviourChanged), "one is not enough");
}
