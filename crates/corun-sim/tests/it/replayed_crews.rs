//! Replays of threads of which only one at a time makes progress: an idle CPU would not have taken over their
//! work.

use super::replayed::{replayed, Tape};
use corun_model::run_log::For;

/// Three threads hand on a lock after 5 ms each, like those of a Python interpreter. Time is stolen from the
/// holder.
fn under_one_lock() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1);
    for task in 2..=4 {
        tape.born(0.0, task, 1, 1).runs(0.0, task);
    }
    tape.waits(0.0, 1, For::Futex(8)).waits(0.0, 3, For::Futex(16)).waits(0.0, 4, For::Futex(16));
    let (mut now, mut holder) = (0.0, 2);
    for _ in 0..60 {
        tape.stolen(now + 1.0, now + 4.0, holder);
        now += 8.0;
        let next = 2 + (holder - 1) % 3;
        tape.woken(now, next, holder).waits(now, holder, For::Futex(16));
        holder = next;
    }
    let [second, third] = [2 + (holder - 1) % 3, 2 + holder % 3];
    tape.woken(now, second, holder).ends(now, holder).woken(now, third, second).ends(now, second);
    tape.woken(now, 1, third).ends(now, third).ends(now, 1);
    tape
}

/// Three threads take pieces of 5 ms from each other. A loop takes half of the time of one of them, so it
/// does fewer.
fn a_pool() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1);
    for task in 2..=4 {
        tape.born(0.0, task, 1, 1).runs(0.0, task);
    }
    tape.waits(0.0, 1, For::Futex(8));
    for round in 0..30 {
        let at = 10.0 * f64::from(round);
        tape.stolen(at + 5.0, at + 10.0, 4);
    }
    tape.ends(300.0, 2).ends(300.0, 3).woken(300.0, 1, 4).ends(300.0, 4).ends(300.0, 1);
    tape
}

#[test]
fn work_that_idle_siblings_left_to_a_thread_stays_with_it_in_a_solo_run() {
    let (lasted, alone) = replayed(&under_one_lock(), 4);
    assert!((lasted - 480.0).abs() < 1.0, "{lasted}");
    assert!(alone.iter().all(|ms| (ms - 300.0).abs() < 3.0), "5 ms at a time, 60 times: {alone:?}");
    let (_, [least, _, most]) = replayed(&a_pool(), 4);
    // Two have 300 ms of work, one 150. It takes half of what one of them has left, and then of what the other has.
    assert!((least - 262.5).abs() < 1.0, "they share it: {least}");
    assert!((most - 300.0).abs() < 3.0, "or keep it: {most}");
}
