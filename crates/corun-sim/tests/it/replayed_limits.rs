//! Replays of runs whose limits change while they run: CPUs come and go; affinities, cpusets and quotas
//! change. If it matters who changed a limit, there are two truths: the program did, when it had done this
//! much, or somebody else did, at that time. The range of the replay must contain both.

use crate::replayed::{told, Tape};
use corun_model::run_log::{CpuMask, For, Left, RunLog, What};
use corun_model::CpuId;
use corun_sim::replay::{Transcriber, Transcript};

const MS: u64 = 1_000_000;
/// How often the recorder checks which CPUs are switched on, in milliseconds.
const LOOK_MS: u64 = 100;
const BOTH: u128 = 0b11;

/// The events, and the CPUs that are on from which time on, in milliseconds.
struct Run {
    tape: Tape,
    cpus: Vec<(u64, u128)>,
}

impl Run {
    fn on(cpus: &[(u64, u128)]) -> Run {
        Run { tape: Tape::new(), cpus: cpus.to_vec() }
    }

    fn runs(&mut self, ms: f64, task: u32, cpu: u32, may: u128) -> &mut Run {
        self.tape.add(ms, task, What::Runs { cpu: CpuId(cpu), may: CpuMask(may) });
        self
    }

    /// It computes for `on` of every `round` milliseconds in [from, to), and is off its CPU otherwise.
    fn shares(&mut self, task: u32, [from, to]: [f64; 2], [on, round]: [f64; 2], cpu: u32, may: u128) {
        let rounds = ((to - from) / round).round() as u32;
        for i in 0..rounds {
            let at = from + f64::from(i) * round;
            self.runs(at, task, cpu, may);
            self.tape.add(at + on, task, What::Leaves(Left::Preempted));
        }
    }

    fn ends(&mut self, ms: f64, task: u32, cpu: u32, may: u128) {
        self.runs(ms, task, cpu, may);
        self.tape.ends(ms, task);
    }

    /// The transcript, made in parts as during the run.
    fn transcript(&self) -> Transcript {
        let whole = self.tape.log(1);
        let mut transcriber = Transcriber::default();
        let mut events = whole.events.iter().copied().peekable();
        let parts = whole.end_ns / (LOOK_MS * MS) + 1;
        // Before the program begins.
        transcriber.push(&RunLog { cpus: CpuMask(self.cpus[0].1), ..RunLog::default() });
        for part in 0..parts {
            let (start_ns, end_ns) = (part * LOOK_MS * MS, (part + 1) * LOOK_MS * MS);
            let mut of_part = Vec::new();
            while let Some(e) = events.next_if(|e| e.t_ns < end_ns) {
                of_part.push(e);
            }
            let now = self.cpus.iter().rev().find(|(ms, _)| ms * MS <= end_ns).unwrap();
            transcriber.push(&RunLog {
                cpus: CpuMask(now.1),
                start_ns,
                end_ns,
                events: of_part,
                ..RunLog::default()
            });
        }
        transcriber.cut(true)
    }
}

/// It sleeps on the only CPU. When a second one has come, it may use both, and starts two processes.
fn widens_for_a_cpu_that_has_come() -> Run {
    let mut run = Run::on(&[(0, 1), (650, BOTH)]);
    run.runs(0.0, 1, 0, 1);
    run.tape.sleeps_until(0.0, 1, 1_000.0, true).waits(0.0, 1, For::Sleep);
    run.tape.may = BOTH;
    run.tape.fires(1_000.0, 1).born(1_000.0, 2, 1, 2).born(1_000.0, 3, 1, 3).waits(1_000.0, 1, For::Child);
    for task in [2, 3] {
        run.shares(task, [1_000.0, 5_000.0], [10.0, 20.0], task - 2, BOTH);
    }
    run.runs(5_000.0, 2, 0, BOTH);
    run.tape.ends(5_000.0, 2);
    run.runs(5_000.0, 3, 1, BOTH);
    run.tape.woken(5_000.0, 1, 3).ends(5_000.0, 3).ends(5_000.0, 1);
    run
}

/// Two processes that compute for 1,000 ms each next to a loop on the only CPU; at 1,050 ms another CPU
/// comes.
fn a_cpu_comes() -> Run {
    let mut run = Run::on(&[(0, 1), (1_050, BOTH)]);
    run.shares(1, [0.0, 1_050.0], [5.0, 15.0], 0, BOTH);
    run.shares(2, [5.0, 1_055.0], [5.0, 15.0], 0, BOTH);
    run.runs(1_055.0, 2, 1, BOTH).tape.ends(1_705.0, 2);
    run.shares(1, [1_055.0, 1_705.0], [5.0, 10.0], 0, BOTH);
    run.runs(1_705.0, 1, 1, BOTH).tape.ends(2_030.0, 1);
    run
}

/// Two processes that compute for 1,200 ms each, on a CPU each next to a loop; at 1,050 ms one of the CPUs
/// goes.
fn a_cpu_goes() -> Run {
    let mut run = Run::on(&[(0, BOTH), (1_050, 1)]);
    for task in [1, 2] {
        run.shares(task, [0.0, 1_050.0], [5.0, 10.0], task - 1, BOTH);
        let from = 1_050.0 + 5.0 * f64::from(task);
        run.shares(task, [from, from + 2_025.0], [5.0, 15.0], 0, BOTH);
        run.ends(from + 2_025.0, task, 0, BOTH);
    }
    run
}

/// Two processes that compute for 900 ms each next to a loop on the CPU that they may use; at 1,000 ms they
/// may use another.
fn an_affinity_becomes_wider() -> Run {
    let mut run = Run::on(&[(0, BOTH)]);
    run.shares(1, [0.0, 1_000.0], [3.0, 10.0], 0, 1);
    run.shares(2, [3.0, 1_003.0], [3.0, 10.0], 0, 1);
    run.runs(1_003.0, 2, 1, BOTH).tape.ends(1_603.0, 2);
    run.shares(1, [1_003.0, 1_603.0], [5.0, 10.0], 0, BOTH);
    run.runs(1_603.0, 1, 1, BOTH).tape.ends(1_903.0, 1);
    run
}

/// Two processes that compute for 800 ms each, on a CPU each next to a loop. At 1,000 ms they may use only
/// one: they or somebody else set that.
fn an_affinity_becomes_narrower(by_itself: bool) -> Run {
    let mut run = Run::on(&[(0, BOTH)]);
    for task in [1, 2] {
        run.shares(task, [0.0, 1_000.0], [5.0, 10.0], task - 1, BOTH);
        let from = 1_000.0 + 5.0 * f64::from(task);
        run.shares(task, [from, from + 900.0], [5.0, 15.0], 0, 1);
        run.ends(from + 900.0, task, 0, 1);
    }
    for task in [1, 2].into_iter().filter(|_| by_itself) {
        run.tape.add(994.0, task, What::Confines);
    }
    run
}

/// A budget of the only group that has one; 0: none.
fn budget(quota_ns: u64, period_ns: u64) -> What {
    What::Budget { quota_ns, period_ns, filled_ns: None, more: false }
}

/// Computes for 700 ms next to a loop; at 1,000 ms it gets a budget of a fifth of a CPU.
fn a_quota_comes() -> Run {
    let mut run = Run::on(&[(0, 1)]);
    run.tape.add(0.0, 1, budget(0, 0));
    run.shares(1, [0.0, 1_000.0], [5.0, 10.0], 0, 1);
    for period in 0..10u32 {
        let at = 1_000.0 + 100.0 * f64::from(period);
        if period == 1 {
            run.tape.add(at, 1, budget(20 * MS, 100 * MS));
        }
        run.runs(at, 1, 0, 1).tape.add(at + 20.0, 1, What::Leaves(Left::Preempted));
    }
    run.ends(1_920.0, 1, 0, 1);
    run
}

/// Computes for 700 ms, at first with a budget of a fifth of a CPU, and from 1,000 ms on without one, next to
/// a loop.
fn a_quota_goes() -> Run {
    let mut run = Run::on(&[(0, 1)]);
    run.tape.add(0.0, 1, budget(20 * MS, 100 * MS));
    run.shares(1, [0.0, 1_000.0], [20.0, 100.0], 0, 1);
    run.tape.add(1_000.0, 1, budget(0, 100 * MS));
    run.shares(1, [1_000.0, 2_000.0], [5.0, 10.0], 0, 1);
    run.ends(2_000.0, 1, 0, 1);
    run
}

/// The same, but the budget stops it for the last time at 1,000 ms, and is removed while it stops nobody. The
/// log does not show that.
fn a_quota_goes_untold() -> Run {
    let mut run = Run::on(&[(0, 1)]);
    run.tape.add(0.0, 1, budget(20 * MS, 100 * MS));
    for period in 0..10 {
        let at = 100.0 * f64::from(period);
        run.runs(at, 1, 0, 1).tape.add(at + 20.0, 1, What::Leaves(Left::Preempted));
        run.tape.add(at + 100.0, 1, budget(20 * MS, 100 * MS));
    }
    run.shares(1, [1_000.0, 2_000.0], [5.0, 10.0], 0, 1);
    run.ends(2_000.0, 1, 0, 1);
    run
}

/// Computes for 199 ms next to a loop, with a budget of 20 of every 100 ms that is refilled at 70 ms, 170 ms
/// and so on.
fn a_quota_whose_periods_began_before() -> Run {
    let mut run = Run::on(&[(0, 1)]);
    for period in 0..10u32 {
        let at = if period == 0 { 0.0 } else { 100.0 * f64::from(period) - 30.0 };
        let turns = if period < 9 { 40.0 } else { 30.0 };
        let (quota_ns, period_ns) = (20 * MS, 100 * MS);
        run.tape.add(at, 1, What::Budget { quota_ns, period_ns, filled_ns: Some(70 * MS), more: false });
        run.shares(1, [at, at + turns], [5.0, 10.0], 0, 1);
    }
    run.runs(900.0, 1, 0, 1).tape.ends(904.0, 1);
    run
}

/// Computes for 210 ms next to a loop, with a budget of 10 of every 20 ms inside one of 30 of every 100.
fn a_quota_in_another() -> Run {
    let mut run = Run::on(&[(0, 1)]);
    for period in 0..7u32 {
        let at = 100.0 * f64::from(period);
        let inner = What::Budget { quota_ns: 10 * MS, period_ns: 20 * MS, filled_ns: Some(0), more: true };
        run.tape.add(at, 1, inner);
        run.tape.add(at, 1, budget(30 * MS, 100 * MS));
        let turns = if period < 6 { 60.0 } else { 50.0 };
        run.shares(1, [at, at + turns], [5.0, 10.0], 0, 1);
    }
    run.runs(650.0, 1, 0, 1).tape.ends(655.0, 1);
    run
}

/// Two processes in a cpuset of one CPU, which has a loop. One computes for 800 ms. The other sleeps for
/// 1,200 ms and computes for 300. At 1,000 ms the cpuset becomes wider.
fn a_cpuset_becomes_wider() -> Run {
    let mut run = Run::on(&[(0, BOTH)]);
    run.runs(0.0, 2, 1, 0b10);
    run.tape.sleeps_until(0.0, 2, 1_200.0, true).waits(0.0, 2, For::Sleep);
    run.shares(1, [0.0, 1_000.0], [5.0, 10.0], 1, 0b10);
    run.runs(1_000.0, 1, 0, BOTH).tape.ends(1_300.0, 1);
    run.tape.may = BOTH;
    run.tape.fires(1_200.0, 2).add(1_200.0, 2, What::Leaves(Left::Preempted));
    run.shares(2, [1_200.0, 1_800.0], [5.0, 10.0], 1, BOTH);
    run.ends(1_800.0, 2, 1, BOTH);
    run
}

/// Two processes that could use a CPU that never comes.
fn a_cpu_that_never_comes() -> Run {
    let mut run = Run::on(&[(0, 1)]);
    for task in [1, 2] {
        let from = 5.0 * f64::from(task - 1);
        run.shares(task, [from, from + 1_500.0], [5.0, 15.0], 0, BOTH);
        run.ends(from + 1_500.0, task, 0, BOTH);
    }
    run
}

/// Two processes on two CPUs, in a container that is shown one.
fn a_cpu_that_is_not_shown() -> Run {
    let mut run = Run::on(&[(0, 1)]);
    for task in [1, 2] {
        run.shares(task, [0.0, 1_000.0], [5.0, 10.0], task - 1, BOTH);
        run.ends(1_000.0, task, task - 1, BOTH);
    }
    run
}

/// Each case, and the duration of its solo run: the least and the most, depending on who made the change and
/// when it came between two looks.
fn table() -> Vec<(&'static str, Run, [f64; 2])> {
    vec![
        ("widens for a CPU that has come", widens_for_a_cpu_that_has_come(), [3_000.0, 3_000.0]),
        ("a CPU comes", a_cpu_comes(), [1_525.0, 1_525.0]),
        ("a CPU goes", a_cpu_goes(), [1_350.0, 1_350.0]),
        ("an affinity becomes wider", an_affinity_becomes_wider(), [1_200.0, 1_400.0]),
        (
            "an affinity becomes narrower, by somebody else",
            an_affinity_becomes_narrower(false),
            [800.0, 800.0],
        ),
        (
            "an affinity becomes narrower, by the program",
            an_affinity_becomes_narrower(true),
            [1_100.0, 1_100.0],
        ),
        // If the program did it: it has computed for 520 ms when the quota is first seen.
        ("a quota comes", a_quota_comes(), [700.0, 1_320.0]),
        ("a quota whose periods began before", a_quota_whose_periods_began_before(), [889.0, 889.0]),
        ("a quota in another", a_quota_in_another(), [650.0, 650.0]),
        ("a quota goes", a_quota_goes(), [1_500.0, 1_500.0]),
        ("a quota goes untold", a_quota_goes_untold(), [1_500.0, 1_500.0]),
        (
            "a cpuset becomes wider while one of its processes sleeps",
            a_cpuset_becomes_wider(),
            [1_500.0, 1_500.0],
        ),
        ("a CPU that never comes", a_cpu_that_never_comes(), [1_000.0, 1_000.0]),
        ("a CPU that is not shown", a_cpu_that_is_not_shown(), [500.0, 500.0]),
    ]
}

#[test]
fn the_replay_of_a_run_whose_limits_change_contains_the_solo_time_whoever_changed_them() {
    let mut wrong = Vec::new();
    for (situation, run, [soonest, latest]) in table() {
        let (lasted, [least, likely, most]) = told(&run.transcript());
        println!("{situation}: took {lasted}, alone {least} {likely} {most}, truth {soonest} to {latest}");
        // A turn of the queue, and half of the 100 ms within which a change is known.
        let off = 0.02 * latest;
        let holds = least <= soonest + off && latest - off <= most;
        let is_tight = least >= soonest - 60.0 - off && most <= latest + 60.0 + off;
        if !holds || !is_tight || !(soonest - off..=latest + off).contains(&likely) {
            wrong.push(format!("{situation}: {least} {likely} {most}, truth {soonest} to {latest}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_stretch_begins_with_the_limits_at_the_end_of_the_one_before() {
    let run = an_affinity_becomes_wider();
    let whole = run.tape.log(2);
    let mut transcriber = Transcriber::default();
    let mut alone = 0.0;
    for part in 0..20u64 {
        let (start_ns, end_ns) = (part * LOOK_MS * MS, (part + 1) * LOOK_MS * MS);
        let events = whole.events.iter().copied().filter(|e| (start_ns..end_ns).contains(&e.t_ns)).collect();
        transcriber.push(&RunLog { cpus: CpuMask(BOTH), start_ns, end_ns, events, ..RunLog::default() });
        alone += told(&transcriber.cut(part == 19)).1[1];
    }
    // Stretches do not overlap: 600 ms on one CPU, 600 on two, and 300 until the later one ends.
    assert!((alone / 1_500.0 - 1.0).abs() < 0.03, "{alone}");
}
