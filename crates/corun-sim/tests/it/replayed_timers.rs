//! Replays of programs that keep timers themselves: a log shows only the timers for which they were in time.

use super::replayed::{replayed, Tape};
use corun_model::run_log::For;

/// How long a handler computes in a round, in milliseconds.
fn computes(round: usize) -> f64 {
    [1.0, 3.0, 5.0, 2.0, 6.0, 4.0][round % 6]
}

/// A task computes for this long from a time on. In half of the time, work may be stolen from it. Returns the
/// time when it is done.
fn compute(tape: &mut Tape, mut now: f64, ms: f64, stolen: bool) -> f64 {
    for _ in 0..ms as u32 {
        if stolen {
            tape.stolen(now + 0.5, now + 1.5, 1);
        }
        now += if stolen { 2.0 } else { 1.0 };
    }
    now
}

/// An event loop with two timers. Each is set again for 6 ms after its handler has computed. From a certain
/// round on, time is stolen from it. Also returns its duration.
fn event_loop(stolen_from: usize) -> (Tape, f64) {
    let mut tape = Tape::new();
    tape.runs(0.0, 1);
    let (mut now, mut due) = (0.0, [0.0, 0.0]);
    for round in 0..60 {
        let next = if due[0] <= due[1] { 0 } else { 1 };
        if due[next] > now {
            tape.sleeps_until(now, 1, due[next], false).waits(now, 1, For::Poll).fires(due[next], 1);
            now = due[next];
        }
        now = compute(&mut tape, now, computes(round), round >= stolen_from);
        due[next] = now + 6.0;
    }
    tape.ends(now, 1);
    (tape, now)
}

/// It begins every 10 ms, looks at a clock, and sleeps for what is left, if anything. From a certain round
/// on, time is stolen from it.
fn paces_itself(stolen_from: usize) -> (Tape, f64) {
    let mut tape = Tape::new();
    tape.runs(0.0, 1);
    let mut now = 0.0;
    for round in 0..30 {
        now = compute(&mut tape, now, computes(round) + 3.0, round >= stolen_from);
        let due = 10.0 * (round + 1) as f64;
        if now < due {
            tape.sleeps_until(now, 1, due, true).waits(now, 1, For::Sleep).fires(due, 1);
            now = due;
        }
    }
    tape.ends(now, 1);
    (tape, now)
}

#[test]
fn in_a_program_that_keeps_timers_work_without_a_wait_may_not_have_been_due_before() {
    type Program = fn(usize) -> (Tape, f64);
    for (name, of) in [("an event loop", event_loop as Program), ("one that paces itself", paces_itself)] {
        let truth = of(usize::MAX).1;
        let (lasted, [least, likely, most]) = replayed(&of(15).0, 1);
        println!("{name}: took {lasted}, alone {least} {likely} {most}, truth {truth}");
        assert!(lasted > truth * 1.1, "{name} is stolen from: {lasted} for {truth}");
        assert!(least <= truth && truth <= most && most <= lasted, "{name}: {least} to {most} for {truth}");
        assert!(least < likely && likely < most && (likely / truth - 1.0).abs() < 0.2, "{name}: {likely}");
    }
}

#[test]
fn a_task_that_waits_for_the_same_length_each_time_keeps_no_timers() {
    // It computes and then sleeps for 6 ms, in a wait for nothing with a limit.
    let mut tape = Tape::new();
    tape.runs(0.0, 1);
    let (mut now, mut truth) = (0.0, 0.0);
    for round in 0..40 {
        now = compute(&mut tape, now, computes(round), true);
        tape.sleeps_until(now, 1, now + 6.0, true).waits(now, 1, For::Poll).fires(now + 6.0, 1);
        (now, truth) = (now + 6.0, truth + computes(round) + 6.0);
    }
    tape.ends(now, 1);
    let (_, [least, likely, most]) = replayed(&tape, 1);
    assert!(
        [least, likely, most].iter().all(|ms| (ms - truth).abs() < 1.0),
        "{least} {likely} {most} for {truth}"
    );
}

#[test]
fn a_task_that_is_always_woken_before_its_limit_keeps_no_timers() {
    // A thread does a piece of work whenever another one hands it over, which reads them one by one. It waits
    // until a fixed time at most.
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
    let mut now = 0.0;
    for round in 0..20 {
        tape.sleeps_until(now, 1, 1_000.0, false).waits(now, 1, For::Poll);
        tape.stolen(now + 1.0, now + 3.0, 2).woken(now + 5.0, 1, 2).waits(now + 5.0, 2, For::Futex(64));
        now = compute(&mut tape, now + 5.0, computes(round), true);
        tape.woken(now, 2, 1);
    }
    tape.ends(now, 2).ends(now, 1);
    let truth: f64 = (0..20).map(|round| computes(round) + 3.0).sum();
    let (_, [least, likely, most]) = replayed(&tape, 2);
    assert!(
        [least, likely, most].iter().all(|ms| (ms - truth).abs() < 1.0),
        "{least} {likely} {most} for {truth}"
    );
}

/// A service thread of a program wakes up after a second, and the other thread waits for it from this time on, for a moment. That
/// computes until 1,200 ms, of which 800 are stolen from it, and joins the service thread.
fn served(asleep_at: f64) -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
    tape.sleeps_until(0.02, 2, 1_000.0, false).waits(0.02, 2, For::Futex(64));
    tape.stolen(100.0, 900.0, 1).waits(asleep_at, 1, For::Futex(128));
    tape.fires(1_000.0, 2);
    tape.sleeps_until(1_000.2, 2, 1_000.26, true).waits(1_000.2, 2, For::Sleep).fires(1_000.26, 2);
    tape.woken(1_000.4, 1, 2);
    tape.sleeps_until(1_000.5, 2, 2_000.5, false).waits(1_000.5, 2, For::Futex(64));
    tape.woken(1_200.0, 2, 1).waits(1_200.1, 1, For::Futex(256));
    tape.woken(1_200.2, 1, 2).ends(1_200.3, 2).ends(1_200.3, 1);
    tape
}

#[test]
fn whoever_a_timer_stops_for_a_moment_does_not_wait_for_that_timer() {
    let (took, [least, _, most]) = replayed(&served(1_000.1), 2);
    assert!((1_200.0..1_201.0).contains(&took), "{took}");
    assert!((399.0..402.0).contains(&least) && (399.0..402.0).contains(&most), "{least} to {most}");
    // Whoever sleeps before the timer is over waits for it.
    let (took, [least, _, most]) = replayed(&served(990.0), 2);
    assert!(least > took - 5.0 && most < took + 1.0, "{least} to {most} of {took}");
}
