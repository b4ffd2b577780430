//! When a run was disturbed is told by the same account of it as how much it lost, or not at all.

use crate::spans::{of_shell, window, BEGIN, COMPUTES, MS, STARVES, SUBJECT, WINDOW};
use corun_model::Observation;
use corun_predict::estimate::Method;
use corun_predict::{AloneTime, Judge, Ruling, Verdict, MAX_DISTURBANCE};

/// The length of the run, in milliseconds.
const WALL_MS: u64 = 10 * WINDOW / MS;

/// What is said of ten windows, of which a replay tells that alone they would have taken so many milliseconds.
fn verdict(seen: impl Fn(usize) -> Observation, alone_ms: Option<[u64; 3]>) -> Verdict {
    let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE);
    (0..10).for_each(|n| judge.push(&seen(n)));
    if let Some(ms) = alone_ms {
        let alone_ns = ms.map(|ms| (ms * MS) as f64);
        judge.push_evidence(AloneTime {
            start_ns: BEGIN,
            end_ns: BEGIN + WALL_MS * MS,
            alone_ns,
            tells_spinning: false,
            looked_ns: 0.0,
        });
    }
    judge.verdict(None)
}

/// What its intervals lost together, as a share of the run.
fn lost_in_intervals(found: &Verdict) -> f64 {
    found.intervals.iter().map(|interval| interval.lost_ns()).sum::<f64>() / found.wall_ns as f64
}

/// A program that starves in two windows of ten.
fn starves_for_a_while(n: usize) -> Observation {
    window(n, if (3..5).contains(&n) { STARVES } else { COMPUTES }, None)
}

/// One that starves in the first window and starts short processes then, before each of which it waits as long as that computes: sums
/// do not tell that this holds it up.
fn starts_processes(n: usize) -> Observation {
    if n == 0 {
        window(0, STARVES, None)
    } else {
        of_shell(n)
    }
}

#[test]
fn intervals_sum_to_the_loss_of_the_run_where_a_replay_agrees_with_them() {
    for alone_ms in [None, Some([830, 840, 850]), Some([820, 830, 845])] {
        let found = verdict(starves_for_a_while, alone_ms);
        let [only] = &found.intervals[..] else { panic!("{found:?}") };
        assert_eq!((only.start_ns / MS, only.end_ns / MS, found.method), (300, 500, Method::Ledger));
        assert!((lost_in_intervals(&found) - found.disturbance).abs() < 1e-3, "{found:?}");
    }
}

#[test]
fn a_replay_that_contradicts_the_sums_tells_how_much_was_lost_and_not_when() {
    let by_sums = verdict(starts_processes, None);
    assert!(by_sums.intervals.iter().any(|interval| interval.start_ns == 0), "{by_sums:?}");
    let replayed = verdict(starts_processes, Some([470, 480, 490]));
    assert!(replayed.disturbance > 2.0 * by_sums.disturbance, "{by_sums:?} {replayed:?}");
    assert_eq!((replayed.verdict, replayed.method), (Ruling::Disturbed, Method::Replay));
    assert_eq!(replayed.intervals, [], "those of the sums name a time in which a fraction of it was lost");
}

#[test]
fn a_replay_that_lets_less_be_lost_leaves_no_interval_of_what_was_not() {
    let found = verdict(starves_for_a_while, Some([890, 900, 910]));
    assert_eq!((found.verdict, found.method), (Ruling::Disturbed, Method::Replay), "{found:?}");
    assert_eq!(found.intervals, []);
}
