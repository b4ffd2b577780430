//! Replays of programs that sleep and ask again. How often they do depends on others.

use super::replayed::{beside_a_loop, replayed, Tape};
use corun_model::run_log::For;

/// Sleeps for a millisecond. A look delays the start of the sleep.
fn sleeps(tape: &mut Tape, ms: f64, task: u32) {
    tape.sleeps_until(ms + 0.01, task, ms + 1.0, true)
        .waits(ms + 0.01, task, For::Sleep)
        .fires(ms + 1.0, task);
}

/// Two processes hand work over with a flag, at which each looks every millisecond. In every third piece of
/// work, time is stolen. Also returns the duration.
fn flag(is_stolen: bool) -> (Tape, f64) {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).runs(0.0, 2);
    let (mut works_ms, mut looks_ms) = (0.0, 0.0);
    for round in 0..20 {
        let [works, looks] = if round % 2 == 0 { [1, 2] } else { [2, 1] };
        let lost = if is_stolen && round % 3 == 0 { 3.0 } else { 0.0 };
        if lost > 0.0 {
            tape.stolen(works_ms + 1.0, works_ms + 1.0 + lost, works);
        }
        // No work is done exactly when the other looks.
        let done_ms = works_ms + if round == 0 { 2.6 } else { 2.3 } + lost;
        while looks_ms < done_ms {
            sleeps(&mut tape, looks_ms, looks);
            looks_ms += 1.0;
        }
        (works_ms, looks_ms) = (looks_ms, done_ms);
    }
    tape.ends(looks_ms, 2).ends(works_ms, 1);
    (tape, works_ms)
}

/// A thread puts pieces of work into a queue of two, which takes half a millisecond, and looks every
/// millisecond whether there is room. Another takes them out, which takes two milliseconds each, and twice as
/// long next to a loop. Also returns the duration.
fn queue(is_stolen: bool) -> (Tape, f64) {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
    let mut taken_ms = vec![0.5];
    for piece in 0..30 {
        let from = taken_ms[piece];
        if is_stolen && piece > 10 {
            tape.stolen(from + 1.0, from + 3.0, 2);
        }
        taken_ms.push(from + if is_stolen && piece > 10 { 4.0 } else { 2.0 });
    }
    let mut now = 0.0;
    for piece in 0..30 {
        now += 0.5;
        while piece >= 2 && now < taken_ms[piece - 2] {
            sleeps(&mut tape, now, 1);
            now += 1.0;
        }
    }
    let end = taken_ms[30];
    tape.waits(now, 1, For::Futex(64)).woken(end, 1, 2).ends(end, 2).ends(end, 1);
    (tape, end)
}

#[test]
fn how_often_a_program_asks_again_depends_on_the_progress_of_others() {
    for (name, [stolen, alone]) in [("flag", [true, false].map(flag)), ("queue", [true, false].map(queue))] {
        let (took, [least, likely, most]) = replayed(&stolen.0, 2);
        println!("{name}: took {took} ({}), alone {least} {likely} {most}, truth {}", stolen.1, alone.1);
        assert!(took > 1.2 * alone.1, "{name}: {took}");
        assert!((likely / alone.1 - 1.0).abs() < 0.02, "{name}: {likely} for {}", alone.1);
        let (took, [_, likely, _]) = replayed(&alone.0, 2);
        assert!((likely / took - 1.0).abs() < 0.02, "{name}, alone: {likely} for {took}");
    }
}

#[test]
fn a_task_that_always_sleeps_equally_often_may_have_to_or_may_wait_for_others() {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
    beside_a_loop(&mut tape, 2);
    for round in 0..100 {
        for tick in 0..3 {
            sleeps(&mut tape, 6.0 * f64::from(round) + 3.0 + f64::from(tick), 1);
        }
    }
    tape.waits(600.0, 1, For::Futex(64)).woken(600.1, 1, 2).ends(600.1, 2).ends(600.1, 1);
    let (took, [least, likely, most]) = replayed(&tape, 2);
    assert!(likely > 0.99 * took && most > 0.99 * took && least < 0.7 * took, "{least} {likely} {most}");
}
