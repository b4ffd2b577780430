//! Replays of runs that end while other tasks of the program still wait: reduced from logs of live runs with
//! a loop.

use super::recorded::times;
use super::replayed::{beside_a_loop, replayed, told, Tape};
use corun_model::run_log::file::{CoRunner, RunFile, RunWindow};
use corun_model::run_log::{For, Left, RunLog, Waker, What};
use corun_model::TaskId;
use corun_sim::replay::{Recorded, Transcriber};
use corun_sim::scenario::Scenario;

const MS: u64 = 1_000_000;

/// A Python program that computes for 300 ms next to a loop, which takes 600 from it. Its second thread
/// sleeps for 50 ms again and again. To continue, that thread needs the lock of the first one. It asks for
/// the lock every 5 ms, and gets it when the first thread yields. It ends with its process. The last task to
/// end wakes the parent.
fn ticker(parent: bool) -> Tape {
    let mut tape = Tape::new();
    tape.may = 1;
    if parent {
        tape.runs(0.0, 9).born(0.0, 1, 9, 1).waits(0.0, 9, For::Child);
    }
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(2.0, 2);
    beside_a_loop(&mut tape, 1);
    for tick in 0..10 {
        let at = 60.0 * f64::from(tick) + 2.01;
        tape.sleeps_until(at, 2, at + 50.0, false).waits(at, 2, For::Sleep).fires(at + 50.06, 2);
        let asks = at + 50.07;
        tape.sleeps_until(asks, 2, asks + 5.0, false).waits(asks, 2, For::Futex(64)).fires(asks + 5.02, 2);
        tape.sleeps_until(asks + 5.03, 2, asks + 10.0, false).waits(asks + 5.03, 2, For::Futex(64));
        // The first thread has the CPU again.
        tape.woken(60.0 * f64::from(tick) + if tick < 9 { 62.0 } else { 60.0 }, 2, 1);
    }
    tape.ends(600.02, 1);
    if parent {
        tape.woken(601.25, 9, 2).ends(601.3, 2).ends(601.4, 9);
    } else {
        tape.ends(601.3, 2);
    }
    tape
}

/// A Go program. One thread computes for 300 ms next to a loop, and two look for work: one by itself, the
/// other when that one wakes it.
fn runtime() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).born(0.0, 3, 1, 1).runs(0.0, 2).runs(0.0, 3);
    beside_a_loop(&mut tape, 1);
    tape.waits(0.01, 3, For::Futex(64));
    for tick in 0..59 {
        let at = 10.0 * f64::from(tick) + 0.02;
        tape.sleeps_until(at, 2, at + 9.9, true).waits(at, 2, For::Sleep).fires(at + 9.95, 2);
        if tick % 10 == 9 {
            tape.woken(at + 9.96, 3, 2).waits(at + 9.97, 3, For::Futex(64));
        }
    }
    tape.sleeps_until(590.02, 2, 600.1, true).waits(590.02, 2, For::Sleep);
    tape.woken(600.0, 2, 1).woken(600.01, 3, 1).ends(600.02, 1).ends(600.03, 2).ends(600.3, 3);
    tape
}

/// A shell looks every 50 ms what another command has done, which computes for 300 ms next to a loop: `until
/// test -e FILE; do sleep .05; done`.
fn twelve_looks() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).runs(0.0, 2);
    beside_a_loop(&mut tape, 2);
    for look in 0..12 {
        let (at, child) = (51.0 * f64::from(look), 10 + look as u32);
        tape.born(at + 0.1, child, 1, child).waits(at + 0.2, 1, For::Child).runs(at + 0.2, child);
        tape.waits(at + 0.3, child, For::Device).fires(at + 0.35, child);
        let until = at + 50.7;
        tape.sleeps_until(at + 0.7, child, until, true).waits(at + 0.7, child, For::Sleep);
        tape.fires(until, child);
        tape.woken(until + 0.2, 1, child).ends(until + 0.2, child);
    }
    tape.ends(612.5, 1);
    tape
}

/// It looks whether that has ended.
fn shell_looks(is_its_child: bool) -> Tape {
    let mut tape = twelve_looks();
    if is_its_child {
        tape.woken(600.0, 1, 2).waits(600.04, 1, For::Child);
    }
    tape.ends(600.02, 2);
    tape
}

/// It looks for a file of a daemon, which then waits for more work.
fn shell_looks_for_a_file() -> Tape {
    let mut tape = twelve_looks();
    tape.waits(600.0, 2, For::Poll);
    tape
}

/// A thread continues for 100 ms after the first one has ended, and nobody has ended it.
fn outlives() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
    beside_a_loop(&mut tape, 1);
    tape.sleeps_until(1.0, 2, 600.0, true).waits(1.0, 2, For::Sleep).fires(600.0, 2);
    tape.ends(600.0, 1).ends(700.0, 2);
    tape
}

/// A thread has a CPU for a tenth of the time, and the first one waits for it until somebody else kills both.
fn killed() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2).waits(0.1, 1, For::Futex(64));
    for tenth in 0..10 {
        let at = 100.0 * f64::from(tenth);
        tape.stolen(at + 10.0, at + 100.0, 2);
    }
    tape.woken(1_000.0, 1, 99).ends(1_000.1, 1).ends(1_000.2, 2);
    tape
}

/// The same with a shell that waits for its child. Whoever killed the shell lets the child run for a moment
/// longer.
fn killed_with_its_child() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).runs(0.0, 2).waits(0.1, 1, For::Child);
    for tenth in 0..10 {
        let at = 100.0 * f64::from(tenth);
        tape.stolen(at + 10.0, at + 100.0, 2);
    }
    tape.woken(1_000.0, 1, 99).ends(1_000.1, 1).ends(1_000.2, 2);
    tape
}

/// The same, but both get the signal, and the shell waits to see how its child ends.
fn killed_and_waited_for() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).runs(0.0, 2).waits(0.1, 1, For::Child);
    for tenth in 0..10 {
        let at = 100.0 * f64::from(tenth);
        tape.stolen(at + 10.0, at + 100.0, 2);
    }
    tape.woken(1_000.0, 1, 99).waits(1_000.1, 1, For::Child);
    tape.woken(1_000.15, 1, 2).killed(1_000.2, 2).killed(1_000.3, 1);
    tape
}

/// A program that waits for a request, and then ends by itself.
fn idle() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).waits(10.0, 1, For::Poll).woken(1_000.0, 1, 99).ends(1_000.1, 1);
    tape
}

/// A program that reads what another has yet to write. Time is stolen from the writer, until somebody else
/// kills both.
fn killed_in_a_pipe() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).runs(0.0, 2).waits(0.1, 1, For::Pipe);
    for tenth in 0..10 {
        let at = 100.0 * f64::from(tenth);
        tape.stolen(at + 10.0, at + 100.0, 2);
    }
    tape.woken(1_000.0, 1, 99).killed(1_000.1, 1).killed(1_000.2, 2);
    tape
}

/// `timeout`, whose signal ends a program that has a CPU for a tenth of the time. The limit is an alarm, or
/// the limit of its wait. The end of the program is known before `timeout` waits for it, or after.
fn timed_out(is_alarm: bool, is_early: bool) -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).runs(0.0, 2);
    if !is_alarm {
        tape.sleeps_until(0.05, 1, 1_000.0, true);
    }
    tape.waits(0.1, 1, if is_alarm { For::Other } else { For::Poll });
    for tenth in 0..10 {
        let at = 100.0 * f64::from(tenth);
        tape.stolen(at + 10.0, at + 100.0, 2);
    }
    tape.fires(1_000.0, 1);
    if is_early {
        tape.add(1_000.15, 1, What::Woken(Waker::Task(TaskId(2)))).killed(1_000.2, 2);
    } else {
        tape.waits(1_000.1, 1, For::Other).woken(1_000.15, 1, 2).killed(1_000.2, 2);
    }
    tape.ends(1_000.3, 1);
    tape
}

/// The same with a shell in between, which waits for the program. Both get the signal.
fn timed_out_with_a_shell() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).waits(0.1, 1, For::Other);
    tape.runs(0.1, 2).born(0.2, 3, 2, 3).waits(0.3, 2, For::Child).runs(0.3, 3);
    for tenth in 0..10 {
        let at = 100.0 * f64::from(tenth);
        tape.stolen(at + 10.0, at + 100.0, 3);
    }
    tape.fires(1_000.0, 1).woken(1_000.02, 2, 1).waits(1_000.05, 1, For::Other);
    tape.woken(1_000.1, 1, 2).killed(1_000.15, 2).killed(1_000.2, 3).ends(1_000.3, 1);
    tape
}

/// A test that waits at most a second for something that does not come. Then it ends the server that it has
/// started, which had nothing to do.
fn ends_an_idle_server() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).runs(0.0, 2).waits(10.0, 2, For::Poll);
    tape.sleeps_until(20.0, 1, 1_000.0, true).waits(20.0, 1, For::Poll).fires(1_000.0, 1);
    tape.woken(1_000.02, 2, 1).waits(1_000.05, 1, For::Child).woken(1_000.1, 1, 2).killed(1_000.15, 2);
    tape.ends(1_000.2, 1);
    tape
}

/// A runtime's thread looks every 5 ms, and hands on what one thread has done to another, which lets the
/// first one continue. What takes 15 ms in a solo run takes 30 next to loops.
fn hands_on() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).born(0.0, 3, 1, 1).runs(0.0, 2).runs(0.0, 3).waits(
        0.01,
        3,
        For::Futex(64),
    );
    tape.sleeps_until(0.02, 2, 5.0, true).waits(0.02, 2, For::Sleep);
    for round in 0..10 {
        let at = 30.0 * f64::from(round);
        tape.stolen(at + 5.5, at + 15.5, 1).waits(at + 20.0, 1, For::Futex(128));
        for tick in 1..=6 {
            let now = at + 5.0 * f64::from(tick) + 0.01;
            tape.fires(now, 2);
            if tick == 4 {
                tape.woken(now + 0.01, 3, 2).stolen(at + 22.0, at + 27.0, 3);
                tape.woken(at + 30.0, 1, 3).waits(at + 30.0, 3, For::Futex(64));
            }
            tape.sleeps_until(now + 0.02, 2, now + 4.99, true).waits(now + 0.03, 2, For::Sleep);
        }
    }
    tape.woken(300.1, 2, 1).woken(300.1, 3, 1).ends(300.1, 1).ends(300.2, 2).ends(300.2, 3);
    tape
}

/// A thread computes for 300 ms next to a loop. Another, which may be the first, sleeps this many times for a
/// fiftieth of a second.
fn sleeps_in_pieces(pieces: u32, leads: bool) -> Tape {
    let sleeper = if leads { 1 } else { 9 };
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
    if !leads {
        tape.born(0.0, sleeper, 1, 1).waits(0.0, 1, For::Futex(128)).runs(0.0, sleeper);
    }
    beside_a_loop(&mut tape, 2);
    for piece in 0..pieces {
        let at = 20.0 * f64::from(piece);
        tape.sleeps_until(at + 0.02, sleeper, at + 20.0, true).waits(at + 0.03, sleeper, For::Sleep);
        tape.fires(at + 20.0, sleeper);
    }
    let at = 20.0 * f64::from(pieces);
    tape.waits(at + 0.1, sleeper, For::Futex(256)).woken(600.0, sleeper, 2).ends(600.0, 2);
    if !leads {
        tape.woken(600.1, 1, sleeper).ends(600.1, sleeper);
    }
    tape.ends(600.2, 1);
    tape
}

#[test]
fn repeated_sleeping_may_be_a_look_at_others_or_a_time_in_pieces() {
    for (leads, truth) in [(true, 500.0), (false, 300.0)] {
        let (_, [least, likely, most]) = replayed(&sleeps_in_pieces(25, leads), 2);
        assert!(least < 302.0 && (most - 500.0).abs() < 2.0, "{leads}: {least} {likely} {most}");
        assert!((likely - truth).abs() < 2.0, "{leads}: {likely}");
    }
    // A single one is a time.
    let (_, [least, likely, most]) = replayed(&sleeps_in_pieces(1, true), 2);
    assert!([least, likely, most].iter().all(|ms| (ms - 300.0).abs() < 2.0), "{least} {likely} {most}");
}

#[test]
fn a_look_whose_end_was_recorded_late_waits_for_no_task_that_it_has_woken() {
    // A looker wakes the first thread before the log says that it has woken up itself.
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
    for tick in 0..5 {
        let at = 10.0 * f64::from(tick);
        tape.sleeps_until(at, 2, at + 10.0, true).waits(at + 0.01, 2, For::Sleep);
        if tick < 4 {
            tape.fires(at + 10.0, 2);
        }
    }
    tape.waits(45.0, 1, For::Futex(64)).woken(50.01, 1, 2).ends(50.02, 2).ends(60.0, 1);
    let (lasted, [_, likely, _]) = replayed(&tape, 2);
    assert!(likely <= lasted, "{likely} of {lasted}");
}

#[test]
fn a_run_is_over_when_its_process_ends_whatever_its_other_tasks_wait_for() {
    let rows = [
        ("a thread that sleeps and takes turns", 1, ticker(false), 301.3),
        ("the same, and a parent that is told by it", 1, ticker(true), 301.4),
        ("a runtime's threads", 2, runtime(), 300.0),
        ("a thread that works on", 2, outlives(), 700.0),
        ("a runtime's thread that hands work on", 2, hands_on(), 150.0),
        ("one that is killed while it waits for a thread", 2, killed(), 100.2),
        ("one that is killed while it waits for a child", 2, killed_with_its_child(), 100.2),
        ("one that is killed with its child, and waits for that", 2, killed_and_waited_for(), 100.3),
        ("one that a time limit ends", 2, timed_out(true, false), 100.3),
        ("the same, and its end is told early", 2, timed_out(true, true), 100.3),
        ("the same by a wait that is limited", 2, timed_out(false, false), 100.3),
        ("a shell and its child that a time limit ends", 2, timed_out_with_a_shell(), 100.3),
        ("a server that had nothing to do when a time limit was over", 2, ends_an_idle_server(), 1_000.2),
        ("one that waits for a request and ends by itself", 2, idle(), 1_000.1),
        ("a shell that looks after its child", 2, shell_looks(true), 300.0),
        ("a shell that looks after another", 2, shell_looks(false), 300.0),
        ("a shell that looks for a daemon's file", 2, shell_looks_for_a_file(), 300.0),
    ];
    for (name, cpus, tape, truth) in rows {
        let (lasted, [least, likely, most]) = replayed(&tape, cpus);
        println!("{name}: took {lasted}, alone {least} {likely} {most}, truth {truth}");
        assert!((likely / truth - 1.0).abs() < 0.02, "{name}: {likely} for {truth}");
        assert!(least <= likely && likely <= most && most <= lasted * 1.001, "{name}: {least} {most}");
    }
}

#[test]
fn a_task_killed_in_a_pipe_may_have_waited_for_a_sibling_or_for_somebody_outside() {
    let (_, [least, likely, most]) = replayed(&killed_in_a_pipe(), 2);
    assert!((least / 100.2 - 1.0).abs() < 0.02, "{least}");
    assert!(likely > 1_000.0 && most > 1_000.0, "{likely} {most}");
}

#[test]
fn in_a_part_of_a_run_an_onlooker_delays_it_no_longer_than_the_computing_task() {
    for (name, cpus, tape) in [("takes turns", 1, ticker(false)), ("a runtime", 2, runtime())] {
        let log = tape.log(cpus);
        let events = log.events.iter().copied().filter(|e| e.t_ns < 450 * MS).collect();
        let mut transcriber = Transcriber::default();
        transcriber.push(&RunLog { end_ns: 450 * MS, events, ..log });
        let (_, [_, likely, _]) = told(&transcriber.so_far(false));
        assert!((likely - 230.0).abs() < 5.0, "{name}: {likely}");
    }
}

#[test]
fn with_few_looks_by_children_their_purpose_is_unknown() {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).runs(0.0, 2);
    tape.add(10.0, 2, What::Leaves(Left::Preempted)).runs(80.0, 2).ends(90.0, 2);
    for (at, child) in [(0.0, 10), (51.0, 11)] {
        tape.born(at + 0.1, child, 1, child).waits(at + 0.2, 1, For::Child).runs(at + 0.2, child);
        tape.sleeps_until(at + 0.7, child, at + 50.7, true).waits(at + 0.7, child, For::Sleep);
        tape.fires(at + 50.7, child).woken(at + 50.9, 1, child).ends(at + 50.9, child);
    }
    tape.ends(102.0, 1);
    let (lasted, [least, likely, _]) = replayed(&tape, 2);
    assert!((likely - lasted).abs() < 1.0, "{likely} of {lasted}");
    assert!(least < 25.0, "the other may have been waited for, which computes for 20 ms: {least}");
}

#[test]
fn the_purpose_of_looks_at_a_daemon_that_continues_is_unknown() {
    let (_, [least, likely, most]) = replayed(&twelve_looks(), 2);
    assert!(least < 320.0, "they may have been for what it had done by then: {least}");
    assert!(likely > 590.0 && most > 590.0, "they may have been a time: {likely} {most}");
}

#[test]
fn repeated_sleeping_while_no_task_works_may_be_a_look_for_something_outside() {
    let looked = |tape: &Tape| {
        let mut transcriber = Transcriber::default();
        transcriber.push(&tape.log(2));
        transcriber.cut(true).looked_ns / MS
    };
    let sleeps = |pieces: u32, computes: f64| {
        let mut tape = Tape::new();
        tape.runs(0.0, 1);
        for piece in 0..pieces {
            let at = 20.0 * f64::from(piece);
            tape.sleeps_until(at + computes, 1, at + 20.0, true).waits(at + computes, 1, For::Sleep);
            tape.fires(at + 20.0, 1);
        }
        tape.ends(20.0 * f64::from(pieces), 1);
        tape
    };
    assert!(looked(&sleeps(20, 0.1)) > 380, "twenty times for a fiftieth of a second");
    assert_eq!(looked(&sleeps(4, 0.1)), 0, "a time in a few pieces");
    assert_eq!(looked(&sleeps(20, 4.0)), 0, "it paces its work");
    assert_eq!(looked(&twelve_looks()), 0, "it may look for what another of its own does");
    // A shell alone, which lets children sleep.
    let mut tape = Tape::new();
    tape.runs(0.0, 1);
    for look in 0..12 {
        let (at, child) = (51.0 * f64::from(look), 10 + look as u32);
        tape.born(at + 0.1, child, 1, child).waits(at + 0.2, 1, For::Child).runs(at + 0.2, child);
        tape.sleeps_until(at + 0.7, child, at + 50.7, true).waits(at + 0.7, child, For::Sleep);
        tape.fires(at + 50.7, child).woken(at + 50.9, 1, child).ends(at + 50.9, child);
    }
    tape.ends(612.5, 1);
    assert!(looked(&tape) > 580, "{}", looked(&tape));
}

#[test]
fn looks_that_are_short_next_to_their_cost_are_likely_looks() {
    // A task next to a loop computes 300 ms. A shell looks every 12 ms, and computes for 2 ms of these.
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).runs(0.0, 2);
    beside_a_loop(&mut tape, 2);
    for look in 0..50 {
        let (at, child) = (12.0 * f64::from(look), 10 + look as u32);
        tape.born(at + 1.0, child, 1, child).waits(at + 1.0, 1, For::Child).runs(at + 1.0, child);
        tape.sleeps_until(at + 1.5, child, at + 11.5, true).waits(at + 1.5, child, For::Sleep);
        tape.fires(at + 11.5, child);
        if look == 49 {
            tape.ends(598.0, 2);
        }
        tape.woken(at + 12.0, 1, child).ends(at + 12.0, child);
    }
    tape.ends(601.0, 1);
    let (lasted, [least, likely, most]) = replayed(&tape, 2);
    assert!((likely / 300.0 - 1.0).abs() < 0.05 && least <= likely, "{least} {likely}");
    assert!((most - lasted).abs() < 5.0, "it may have been a time: {most} of {lasted}");
}

#[test]
fn on_the_modelled_machine_such_a_run_ends_as_well() {
    let rows = [("takes turns", ticker(true)), ("a runtime", runtime()), ("a shell", shell_looks(true))];
    for (name, tape) in rows {
        let log = tape.log(2);
        let ns = log.end_ns;
        let loops = CoRunner { name: "loop".into(), tasks: 1, ran_ns: ns, waited_ns: 0 };
        let windows = vec![RunWindow { log, co_runners: vec![loops] }];
        let recorded = Recorded::of(&RunFile { command: name.into(), windows }).unwrap();
        let alone = times(&Scenario::of_recording("it.rec", name, &recorded, None).unwrap())[0] / 1e6;
        // There, a sleep that has begun continues to its end.
        assert!((300.0..355.0).contains(&alone), "{name}: {alone}");
    }
}
