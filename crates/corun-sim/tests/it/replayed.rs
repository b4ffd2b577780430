//! Replays of runs whose solo time is known: a disturbed run, written event by event, with the truth.

use corun_model::run_log::{CpuMask, Event, For, Left, RunLog, Waker, What};
use corun_model::{CpuId, TaskId};
use corun_sim::replay::script::Spinning;
use corun_sim::replay::{Alone, Conditions, Transcriber, Transcript};

const MS: u64 = 1_000_000;

/// A run log, written in milliseconds.
#[derive(Default)]
pub struct Tape {
    events: Vec<Event>,
    pub may: u128,
}

impl Tape {
    pub fn new() -> Tape {
        Tape { events: Vec::new(), may: u128::MAX }
    }

    pub fn add(&mut self, ms: f64, task: u32, what: What) -> &mut Tape {
        self.events.push(Event { t_ns: (ms * MS as f64) as u64, task: TaskId(task), what });
        self
    }

    pub fn runs(&mut self, ms: f64, task: u32) -> &mut Tape {
        let may = CpuMask(self.may);
        self.add(ms, task, What::Runs { cpu: CpuId(0), may })
    }

    /// Time is stolen from it in [from, to).
    pub fn stolen(&mut self, from: f64, to: f64, task: u32) -> &mut Tape {
        self.add(from, task, What::Leaves(Left::Preempted)).runs(to, task)
    }

    pub fn waits(&mut self, ms: f64, task: u32, what: For) -> &mut Tape {
        self.add(ms, task, What::Leaves(Left::Waits(what)))
    }

    pub fn ends(&mut self, ms: f64, task: u32) -> &mut Tape {
        self.add(ms, task, What::Leaves(Left::Ended))
    }

    pub fn killed(&mut self, ms: f64, task: u32) -> &mut Tape {
        self.add(ms, task, What::Leaves(Left::Killed))
    }

    /// A task wakes it, and it is on a CPU at once.
    pub fn woken(&mut self, ms: f64, task: u32, by: u32) -> &mut Tape {
        self.add(ms, task, What::Woken(Waker::Task(TaskId(by)))).runs(ms, task)
    }

    pub fn fires(&mut self, ms: f64, task: u32) -> &mut Tape {
        self.add(ms, task, What::Woken(Waker::Interrupt)).runs(ms, task)
    }

    /// Woken by a timer that it set before, without asking again.
    pub fn timed(&mut self, ms: f64, task: u32) -> &mut Tape {
        self.add(ms, task, What::Woken(Waker::Timer)).runs(ms, task)
    }

    pub fn born(&mut self, ms: f64, task: u32, parent: u32, process: u32) -> &mut Tape {
        self.add(ms, task, What::Born { parent: TaskId(parent), process })
    }

    pub fn sleeps_until(&mut self, ms: f64, task: u32, deadline: f64, as_length: bool) -> &mut Tape {
        self.add(ms, task, What::SleepsUntil { deadline_ns: (deadline * MS as f64) as u64, as_length })
    }

    pub fn log(&self, cpus: usize) -> RunLog {
        let mut events = self.events.clone();
        events.sort_by_key(|e| e.t_ns);
        let end_ns = events.last().map_or(0, |e| e.t_ns);
        RunLog { cpus: CpuMask::first(cpus), end_ns, events, ..RunLog::default() }
    }
}

fn conditions() -> Conditions {
    Conditions { wake_up_ns: 0, ..Conditions::default() }
}

/// Its duration in milliseconds: as recorded, and in a solo run at least, likely, at most.
pub fn replayed(tape: &Tape, cpus: usize) -> (f64, [f64; 3]) {
    let mut transcriber = Transcriber::default();
    transcriber.push(&tape.log(cpus));
    told(&transcriber.cut(true))
}

pub fn told(transcript: &Transcript) -> (f64, [f64; 3]) {
    let Alone { least_ns, likely_ns, most_ns } = transcript.alone(&conditions()).unwrap();
    let ms = |ns: u64| ns as f64 / MS as f64;
    (ms(transcript.lasted_ns), [ms(least_ns), ms(likely_ns), ms(most_ns)])
}

/// The kind of a program, its number of CPUs, its log, and the duration of its solo run.
type Row = (&'static str, usize, Tape, f64);

/// Computes 4 ms of every 10. In most rounds, half as much again is stolen.
fn paced(late: bool) -> Tape {
    let mut tape = Tape::new();
    let lost = if late { 7.0 } else { 2.0 };
    tape.runs(0.0, 1);
    let mut now = 0.0;
    for round in 1..=20 {
        let deadline = 10.0 * f64::from(round);
        let lost = lost + 0.1 * f64::from(round % 3 - 1);
        tape.stolen(now + 1.0, now + 1.0 + lost, 1);
        now += 4.0 + lost;
        tape.sleeps_until(now, 1, deadline, false);
        if now < deadline {
            tape.waits(now, 1, For::Sleep).fires(deadline, 1);
            now = deadline;
        }
    }
    tape.ends(now, 1);
    tape
}

/// The same with a timer that recurs every 10 ms, which it reads.
fn paced_by_a_timer(by: Waker) -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1);
    for round in 0..20 {
        let (now, lost) = (10.0 * f64::from(round), 2.0 + 0.1 * f64::from(round % 3 - 1));
        tape.stolen(now + 1.0, now + 1.0 + lost, 1).waits(now + 4.0 + lost, 1, For::Pipe);
        tape.add(now + 10.0, 1, What::Woken(by)).runs(now + 10.0, 1);
    }
    tape.ends(200.0, 1);
    tape
}

/// Computes 4 ms, some of which is stolen, and then waits for 6 ms.
fn works_and_waits(waits: impl Fn(&mut Tape, f64)) -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1);
    let mut now = 0.0;
    for round in 0..20 {
        let lost = 1.0 + f64::from(round % 4);
        tape.stolen(now + 1.0, now + 1.0 + lost, 1);
        now += 4.0 + lost;
        waits(&mut tape, now);
        now += 6.0;
    }
    tape.ends(now, 1);
    tape
}

fn sleeper(as_length: bool) -> Tape {
    works_and_waits(|tape, now| {
        tape.sleeps_until(now, 1, now + 6.0, as_length).waits(now, 1, For::Sleep).fires(now + 6.0, 1);
    })
}

fn shell() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1);
    let mut now = 0.0;
    for round in 0..2 {
        let child = 10 + round;
        tape.born(now, child, 1, child).waits(now, 1, For::Child).runs(now, child);
        tape.stolen(now + 100.0, now + 400.0, child);
        now += 600.0;
        tape.woken(now, 1, child).ends(now, child);
        let sleep = 20 + round;
        tape.born(now, sleep, 1, sleep).waits(now, 1, For::Child).runs(now, sleep);
        tape.sleeps_until(now, sleep, now + 2_000.0, true)
            .waits(now, sleep, For::Sleep)
            .fires(now + 2_000.0, sleep);
        now += 2_000.0;
        tape.woken(now, 1, sleep).ends(now, sleep);
    }
    tape.ends(now, 1);
    tape
}

fn off_the_path() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).born(0.0, 3, 1, 3).waits(0.0, 1, For::Child);
    tape.runs(0.0, 2).runs(0.0, 3);
    for i in 0..10 {
        tape.stolen(50.0 + 100.0 * f64::from(i), 100.0 + 100.0 * f64::from(i), 3);
    }
    tape.ends(1_000.0, 3);
    tape.woken(1_500.0, 1, 2).ends(1_500.0, 2).ends(1_500.0, 1);
    tape
}

/// Four threads take turns with a loop on one CPU.
fn four_on_one() -> Tape {
    let mut tape = Tape { may: 1, ..Tape::new() };
    tape.runs(0.0, 1);
    for t in 2..=4 {
        tape.born(0.0, t, 1, 1);
    }
    let mut now = 0.0;
    for _ in 0..10 {
        for t in 1..=4 {
            if now > 0.0 {
                tape.runs(now, t);
            }
            tape.add(now + 3.0, t, What::Leaves(Left::Preempted));
            now += 6.0; // the loop's turn
        }
    }
    for t in 1..=4 {
        tape.runs(now, t).ends(now, t);
    }
    tape
}

/// A fifth of a CPU, which it uses up in the first 40 ms of each period. A loop takes half of those.
fn at_its_quota() -> Tape {
    let mut tape = Tape::new();
    let quota_ns = 20 * MS;
    tape.runs(0.0, 1).add(
        0.0,
        1,
        What::Budget { quota_ns, period_ns: 100 * MS, filled_ns: None, more: false },
    );
    for period in 0..10 {
        let at = 100.0 * f64::from(period);
        tape.stolen(at + 10.0, at + 30.0, 1);
        tape.add(at + 40.0, 1, What::Leaves(Left::Preempted)).runs(at + 100.0, 1);
    }
    tape.ends(1_010.0, 1);
    tape
}

/// Two threads meet every 10 ms. Time is stolen from one of them, so that they meet every 20.
fn barrier() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
    for i in 0..10 {
        let at = 20.0 * f64::from(i);
        tape.waits(at + 10.0, 1, For::Futex(64)).stolen(at + 5.0, at + 15.0, 2).woken(at + 20.0, 1, 2);
    }
    tape.ends(200.0, 2).ends(200.0, 1);
    tape
}

/// Time is stolen from the holder of a lock while the other waits for it. In a solo run, that one waits less.
fn lock() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
    for i in 0..10 {
        let at = 30.0 * f64::from(i);
        // The holder has it for 10 ms of its own time, which take 20. The other computes for 2 ms, waits, and
        // computes for 10 ms more.
        tape.stolen(at + 3.0, at + 13.0, 1).waits(at + 2.0, 2, For::Futex(64)).woken(at + 20.0, 2, 1);
        tape.waits(at + 20.0, 1, For::Futex(128)).woken(at + 30.0, 1, 2);
    }
    tape.ends(300.0, 1).ends(300.0, 2);
    tape
}

/// One produces an item in 5 ms, the other consumes one in 4, and 4 more are stolen from it.
fn pipe() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).runs(0.0, 2).waits(0.0, 2, For::Pipe);
    for i in 0..10 {
        let at = 9.0 * f64::from(i);
        // It waits for room until the consumer has read.
        tape.woken(at + 5.0, 2, 1).waits(at + 5.0, 1, For::Pipe);
        tape.stolen(at + 6.0, at + 7.0, 2).woken(at + 9.0, 1, 2).waits(at + 9.0, 2, For::Pipe);
    }
    tape.woken(90.0, 2, 1).ends(90.0, 1).ends(90.0, 2);
    tape
}

/// Computes for 300 ms. A loop has its CPU every other 10 ms.
pub fn beside_a_loop(tape: &mut Tape, task: u32) {
    for i in 0..30 {
        let at = 20.0 * f64::from(i);
        tape.stolen(at + 10.0, at + 20.0, task);
    }
}

/// How a thread that looks around every 50 ms ends.
#[derive(Clone, Copy)]
enum Housekeeper {
    /// The other thread wakes it, and waits until it has ended.
    Told,
    /// It ends with its process, while it sleeps.
    Killed,
    /// It ends with its process, while it waits for a CPU.
    KilledAwake,
}

/// Computes next to a loop, with a thread that looks around.
fn housekeeper(how: Housekeeper) -> Tape {
    let what = if matches!(how, Housekeeper::Told) { For::Futex(64) } else { For::Sleep };
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
    beside_a_loop(&mut tape, 1);
    let falls_asleep = |tape: &mut Tape, at: f64, until: f64| {
        tape.sleeps_until(at + 0.02, 2, until, false).waits(at + 0.03, 2, what);
    };
    for tick in 0..11 {
        let at = 50.0 * f64::from(tick);
        // Some timers end a little before the last moment.
        falls_asleep(&mut tape, at, at + 50.0 + 0.03 * f64::from(tick % 3));
        tape.fires(at + 50.0, 2);
    }
    match how {
        Housekeeper::Told => {
            falls_asleep(&mut tape, 550.0, 620.0);
            tape.woken(600.0, 2, 1).waits(600.0, 1, For::Futex(128));
            tape.woken(600.02, 1, 2).ends(600.02, 2).ends(600.03, 1);
        }
        Housekeeper::Killed => {
            falls_asleep(&mut tape, 550.0, 620.0);
            tape.woken(600.0, 2, 1).ends(600.0, 1).ends(600.02, 2);
        }
        Housekeeper::KilledAwake => {
            falls_asleep(&mut tape, 550.0, 599.0);
            tape.add(599.0, 2, What::Woken(Waker::Interrupt)).ends(600.0, 1);
            tape.runs(600.0, 2).ends(600.02, 2);
        }
    }
    tape
}

/// Sleeps for 500 ms because it has to, and then waits for a child.
fn has_to_sleep() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).runs(0.0, 2);
    beside_a_loop(&mut tape, 2);
    for i in 0..5 {
        let at = 100.0 * f64::from(i);
        tape.sleeps_until(at, 1, at + 100.0, true).waits(at, 1, For::Sleep).fires(at + 100.0, 1);
    }
    tape.waits(500.0, 1, For::Child).woken(600.0, 1, 2).ends(600.0, 2).ends(600.0, 1);
    tape
}

/// Looks every 20 ms whether a child has ended.
fn lookout() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 2).runs(0.0, 2);
    beside_a_loop(&mut tape, 2);
    tape.ends(603.0, 2);
    for i in 0..31 {
        let at = 20.0 * f64::from(i);
        tape.sleeps_until(at + 0.02, 1, at + 20.0, true).waits(at + 0.03, 1, For::Sleep).fires(at + 20.0, 1);
    }
    tape.ends(621.0, 1);
    tape
}

/// Works for 30 ms of every 100. In between, it waits for a sibling with a time limit.
fn works_between_looks() -> Tape {
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
    beside_a_loop(&mut tape, 2);
    for i in 0..5 {
        let at = 100.0 * f64::from(i);
        tape.sleeps_until(at + 30.0, 1, at + 100.0, false).waits(at + 30.0, 1, For::Futex(64));
        tape.fires(at + 100.0, 1);
    }
    tape.sleeps_until(530.0, 1, 700.0, false).waits(530.0, 1, For::Futex(64));
    tape.woken(600.0, 1, 2).ends(600.0, 2).ends(600.0, 1);
    tape
}

fn rows() -> Vec<Row> {
    vec![
        ("paced: theft comes out of its sleep", 1, paced(false), 200.0),
        ("sleeps for a length", 1, sleeper(true), 200.0),
        ("sleeps for a length, given as a time", 1, sleeper(false), 200.0),
        ("a script that computes and sleeps", 2, shell(), 4_600.0),
        ("stolen from off the critical path", 2, off_the_path(), 1_500.0),
        ("four threads that may use one CPU", 2, four_on_one(), 120.0),
        ("at its quota", 1, at_its_quota(), 1_010.0),
        ("a barrier with a stolen sibling", 2, barrier(), 100.0),
        ("a lock whose holder is stolen from", 2, lock(), 200.0),
        ("a pipe", 2, pipe(), 80.0),
        ("a housekeeper that is told to end", 2, housekeeper(Housekeeper::Told), 300.0),
        ("a housekeeper that ends with its process", 2, housekeeper(Housekeeper::Killed), 300.0),
        ("the same while it waits for a CPU", 2, housekeeper(Housekeeper::KilledAwake), 300.0),
        ("looks whether another has ended", 2, lookout(), 304.0),
        ("has to sleep", 2, has_to_sleep(), 500.0),
        ("works between its looks", 2, works_between_looks(), 530.0),
    ]
}

#[test]
fn the_solo_time_of_every_shape_of_program_results() {
    for (name, cpus, tape, truth) in rows() {
        let (lasted, [least, likely, most]) = replayed(&tape, cpus);
        println!("{name}: took {lasted}, alone {least} {likely} {most}, truth {truth}");
        assert!((likely / truth - 1.0).abs() < 0.02, "{name}: {likely} for {truth}");
        assert!(
            least <= likely && likely <= most && most <= lasted * 1.001,
            "{name}: {least} {likely} {most} {lasted}"
        );
    }
}

#[test]
fn a_stretch_of_a_run_is_as_long_as_its_computing_whatever_thread_looks_around() {
    let log = housekeeper(Housekeeper::Told).log(2);
    let mut transcriber = Transcriber::default();
    let mut alone = 0.0;
    for part in 0..4u64 {
        let (start_ns, end_ns) = (part * 150 * MS, (part + 1) * 150 * MS);
        let is_over = part == 3;
        let of_part = log.events.iter().copied();
        let events = of_part.filter(|e| e.t_ns >= start_ns && (is_over || e.t_ns < end_ns)).collect();
        transcriber.push(&RunLog { start_ns, end_ns, events, ..log.clone() });
        alone += told(&transcriber.cut(is_over)).1[1];
    }
    assert!((alone / 300.0 - 1.0).abs() < 0.05, "{alone}");
}

#[test]
fn a_task_that_waits_with_a_time_limit_delays_no_stretch_in_which_another_computes() {
    // The thread that waits, and what it waits for; how long the stretch would have taken alone.
    for (what, truth) in [(For::Futex(64), 80.0), (For::Poll, 80.0), (For::Sleep, 150.0)] {
        let mut tape = Tape::new();
        tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
        tape.sleeps_until(0.02, 2, 5_000.0, false).waits(0.03, 2, what);
        beside_a_loop(&mut tape, 1);
        let log = tape.log(2);
        let events = log.events.iter().copied().filter(|e| e.t_ns < 150 * MS).collect();
        let mut transcriber = Transcriber::default();
        transcriber.push(&RunLog { end_ns: 150 * MS, events, ..log.clone() });
        let (_, [_, likely, _]) = told(&transcriber.so_far(false));
        assert!((likely - truth).abs() < 1.0, "{what:?}: {likely}");
    }
}

#[test]
fn a_paced_program_that_is_always_late_would_be_in_time() {
    let (lasted, [_, likely, _]) = replayed(&paced(true), 1);
    assert!(lasted > 215.0 && (likely - 200.0).abs() < 0.1, "{lasted} {likely}");
}

#[test]
fn a_timer_that_recurs_ends_a_wait_at_its_time_and_a_device_may_after_a_length() {
    let (lasted, [least, _, most]) = replayed(&paced_by_a_timer(Waker::Timer), 1);
    assert!((lasted - least).abs() < 3.0 && (lasted - most).abs() < 3.0, "{lasted}: {least} to {most}");
    let (lasted, [least, _, most]) = replayed(&paced_by_a_timer(Waker::Interrupt), 1);
    assert!(least < lasted - 30.0 && (lasted - most).abs() < 3.0, "{lasted}: {least} to {most}");
}

#[test]
fn of_a_script_all_children_that_sleep_show_whether_it_keeps_a_pace() {
    // Its work takes 4 ms, of which something is stolen, and `sleep` what is left of 10 ms, or 6 ms.
    let script = |keeps_pace: bool| {
        let mut tape = Tape::new();
        tape.runs(0.0, 1);
        let mut now = 0.0;
        for round in 0..20 {
            let (lost, child) = (1.0 + f64::from(round % 4), 10 + round as u32);
            tape.stolen(now + 1.0, now + 1.0 + lost, 1);
            now += 4.0 + lost;
            let until = if keeps_pace { 10.0 * f64::from(round + 1) } else { now + 6.0 };
            tape.born(now, child, 1, child).waits(now, 1, For::Child).runs(now, child);
            tape.sleeps_until(now, child, until, true).waits(now, child, For::Sleep).timed(until, child);
            tape.ends(until, child).woken(until, 1, child);
            now = until;
        }
        tape.ends(now, 1);
        replayed(&tape, 1)
    };
    // Sleeps of a length may also have been looks at what others do.
    let (_, [least, likely, most]) = script(false);
    assert!((least - 200.0).abs() < 3.0, "{least} {likely} {most}");
    let (lasted, [least, likely, most]) = script(true);
    assert!(
        [least, likely, most].iter().all(|alone| (alone - lasted).abs() < 3.0),
        "{least} {likely} {most}"
    );
}

#[test]
fn a_limit_is_not_ended_by_who_ends_the_next_wait_for_another_object() {
    // It waits for something for 1.5 s, tells a thread to stop, and waits for that.
    let ends_by = |first: For, then: For| {
        let mut tape = Tape::new();
        tape.runs(0.0, 1).born(0.0, 2, 1, 1);
        tape.sleeps_until(1.0, 1, 1_501.0, true).waits(1.0, 1, first).runs(1.0, 2).stolen(100.0, 850.0, 2);
        tape.timed(1_501.0, 1)
            .waits(1_501.05, 1, then)
            .woken(1_502.0, 1, 2)
            .ends(1_502.5, 2)
            .ends(1_503.0, 1);
        replayed(&tape, 2).1
    };
    for (first, then) in [(For::Poll, For::Futex(0x1000)), (For::Futex(0x5000), For::Futex(0x1000))] {
        let alone = ends_by(first, then);
        assert!(alone.iter().all(|alone| (alone - 1_503.0).abs() < 3.0), "{first:?} {then:?}: {alone:?}");
    }
    // A condition variable has two futexes: that is one object, whose limit the thread would have ended sooner.
    let [_, likely, _] = ends_by(For::Futex(0x1000), For::Futex(0x1004));
    assert!(likely < 800.0, "{likely}");
}

#[test]
fn a_timer_that_is_set_anew_each_time_ends_a_wait_after_its_length() {
    let tape = works_and_waits(|tape, now| {
        tape.waits(now, 1, For::Poll).timed(now + 6.0, 1);
    });
    let (_, [least, likely, most]) = replayed(&tape, 1);
    assert!([least, likely, most].iter().all(|alone| (alone - 200.0).abs() < 3.0), "{least} {likely} {most}");
}

#[test]
fn a_client_of_another_programs_server_lies_between_both_ends() {
    let mut tape = Tape::new();
    tape.runs(0.0, 1);
    for i in 0..10 {
        let at = 100.0 * f64::from(i);
        tape.stolen(at + 1.0, at + 6.0, 1).waits(at + 10.0, 1, For::Pipe).woken(at + 100.0, 1, 99);
    }
    tape.ends(1_000.0, 1);
    let (_, [least, likely, most]) = replayed(&tape, 1);
    assert_eq!((least, likely, most), (950.0, 975.0, 1_000.0));
}

#[test]
fn the_kernels_work_to_end_a_task_takes_its_time_whenever_it_happens() {
    let mut tape = Tape::new();
    tape.runs(0.0, 1);
    beside_a_loop(&mut tape, 1);
    tape.waits(600.0, 1, For::Futex(0)).woken(602.0, 1, 99).ends(602.0, 1);
    let (_, [least, likely, most]) = replayed(&tape, 1);
    assert_eq!((least, likely, most), (302.0, 302.0, 302.0));
}

#[test]
fn time_in_which_siblings_wanted_a_cpu_is_removed_as_far_as_it_was_spun() {
    // Two threads; one is off its CPU every other 10 ms, and the other spins meanwhile.
    let mut tape = Tape::new();
    tape.runs(0.0, 1).born(0.0, 2, 1, 1).runs(0.0, 2);
    for i in 0..10 {
        tape.stolen(10.0 + 20.0 * f64::from(i), 20.0 + 20.0 * f64::from(i), 2);
    }
    tape.ends(200.0, 2).ends(200.0, 1);
    let alone = |told: Option<(u64, u64)>| {
        let mut transcriber = Transcriber::default();
        transcriber.push(&tape.log(2));
        told.into_iter().for_each(|(spin_ns, ns)| transcriber.tell_spinning(TaskId(1), spin_ns, ns));
        let transcript = transcriber.cut(true);
        let alone = |spun| transcript.alone(&Conditions { spun, ..conditions() }).unwrap().likely_ns / MS;
        [Spinning::Least, Spinning::Likely, Spinning::Most].map(alone)
    };
    assert_eq!(alone(None), [200, 200, 100], "nobody told");
    assert_eq!(alone(Some((0, 10))), [200; 3], "it did not spin");
    // It computed for 50 ms, which may lie in the 100 ms in which only it ran. The other one computes for 100
    // ms.
    assert_eq!(alone(Some((15, 20))), [150, 100, 100]);
    assert_eq!(alone(Some((5, 20))), [200, 150, 150], "it may have waited for the other one to compute");
}
