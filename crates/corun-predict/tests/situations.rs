//! Programs whose slowdown does not follow from sums of time: scripts that sleep, paced loops, threads with time to spare, threads
//! that share one CPU, threads that hand over to each other. Each runs on the modelled machine, alone and next to loops, so the truth
//! is known. What `predict` says of the whole run is within 5 %, and its interval holds the truth.

mod rig;

use corun_model::run_log::CpuMask;
use corun_model::Host;
use corun_predict::{Label, Options, Predictor};
use corun_sim::engine::Completion;
use corun_sim::replay::modelled::run_log;
use corun_sim::replay::script::{Ends, Op, Outside, Script, ScriptedProgram};
use corun_sim::replay::{Alone, Loops, Recorded};
use corun_sim::scenario::{Participants, Scenario};
use rig::SUBJECT;

const MS: u64 = 1_000_000;
const CPUS: usize = 2;

/// What a task does, in milliseconds.
#[derive(Clone, Copy)]
enum Does {
    Computes(f64),
    SleepsFor(f64),
    SleepsUntil(f64),
    /// Waits until the other task has got as far: its wait of this number.
    Waits(u32),
    /// Ends that wait of that task.
    Wakes(usize, u32),
}

use Does::{Computes, SleepsFor, SleepsUntil, Waits, Wakes};

fn op(does: Does) -> Op {
    let ns = |ms: f64| (ms * MS as f64) as u64;
    let sleep =
        |lasted_ns, until_ns, ends| Op::Outside(Outside { ends, ..Outside::sleep(lasted_ns, until_ns) });
    match does {
        Computes(ms) => Op::Compute { ns: ns(ms), beside_ns: 0, queued_ns: 0 },
        SleepsFor(ms) => sleep(ns(ms), 0, Ends::AfterItsLength),
        SleepsUntil(ms) => sleep(0, ns(ms), Ends::AtItsTime),
        Waits(wait) => Op::Wait(wait),
        Wakes(task, wait) => Op::Wake(task, wait),
    }
}

/// How near the truth an answer is, as a logarithm, where structure decides; and where threads hand over to each other all the time, so
/// that queueing on each CPU decides, too.
const STRUCTURE: f64 = 0.05;
const HAND_OVER: f64 = 0.12;

/// A situation: the tasks of a program with the CPUs that each may use (0: both), and a loop on each of these CPUs.
struct Situation {
    name: &'static str,
    tasks: Vec<(u128, Vec<Does>)>,
    loops: &'static [usize],
    within: f64,
}

impl Situation {
    fn scenario(&self) -> Scenario {
        let scripts = self.tasks.iter().enumerate().map(|(ix, (may, does))| Script {
            process: 1,
            leads: ix == 0,
            may: CpuMask(*may),
            ops: does.iter().copied().map(op).collect(),
            ..Script::default()
        });
        let scripts: Vec<Script> = scripts.collect();
        let first = (0..scripts.len()).collect();
        let program =
            ScriptedProgram { scripts, first, cpus: CpuMask::first(CPUS), ..ScriptedProgram::default() };
        let one = |n| Loops { name: format!("loop {n}"), tasks: 1, demand: 1.0 };
        let recorded = Recorded {
            command: self.name.into(),
            program,
            took_ns: 0,
            alone: Alone::default(),
            may_have_spun: false,
            events: 0,
            left_out_ns: 0,
            co_runners: self.loops.iter().map(one).collect(),
        };
        let mut scenario = Scenario::of_recording("it", "subject", &recorded, None).unwrap();
        for (tenant, &cpu) in scenario.tenants[1..].iter_mut().zip(self.loops) {
            tenant.pins = vec![cpu];
        }
        scenario
    }

    /// The slowdown of the whole run, and what is said of it: the slowdown and its interval.
    fn told(&self) -> (f64, f64, [f64; 2]) {
        let scenario = self.scenario();
        let run_of = |cast| {
            let mut engine = scenario.engine(1, cast, 0).unwrap();
            assert!(engine.run_to_end(1_000_000 * MS).unwrap());
            engine.progress()[0].completions.first.unwrap()
        };
        let (run, alone) = (run_of(Participants::All), run_of(Participants::Solo(0)));
        let mut engine = scenario.engine(1, Participants::All, 1 << 22).unwrap();
        let mut predictor = Predictor::new(SUBJECT, Options::default());
        while engine.now_ns() < run.end_ns {
            // The last window ends with the program, as it does live.
            engine.advance((run.end_ns - engine.now_ns()).min(200 * MS)).unwrap();
            predictor.push(&Host::observe(&mut engine).unwrap(), Label::Shared);
        }
        let may: Vec<CpuMask> =
            self.tasks.iter().map(|(may, _)| if *may == 0 { CpuMask::ALL } else { CpuMask(*may) }).collect();
        let log = run_log(engine.trace().unwrap(), SUBJECT, CPUS, run.end_ns, &may);
        rig::replayed(&log, 20_000, &[]).into_iter().for_each(|e| predictor.push_evidence(e));
        let length_ns = |run: Completion| (run.end_ns - run.start_ns) as f64;
        let truth = length_ns(run) / length_ns(alone);
        let told = predictor.so_far().unwrap();
        (truth, told.slowdown, told.interval)
    }
}

/// The same steps so many times.
fn again(times: u32, steps: impl Fn(u32) -> Vec<Does>) -> Vec<Does> {
    (0..times).flat_map(steps).collect()
}

fn situations() -> Vec<Situation> {
    let both = &[0, 1];
    let situation = |name, tasks, loops| Situation { name, tasks, loops, within: STRUCTURE };
    let hands_over = |name, tasks| Situation { within: HAND_OVER, ..situation(name, tasks, both) };
    let script = |computes, sleeps| move |_| vec![Computes(computes), SleepsFor(sleeps)];
    let paced = |computes| move |i: u32| vec![Computes(computes), SleepsUntil(10.0 * f64::from(i + 1))];
    // Row by row: the second thread begins a row when the first has done it, and the first is at most one row ahead.
    let rows = |rows: u32, ms: f64| {
        let first = again(rows, |i| match i {
            0 => vec![Computes(ms), Wakes(1, i)],
            _ => vec![Computes(ms), Wakes(1, i), Waits(i - 1)],
        });
        let second = again(rows, |i| vec![Waits(i), Computes(ms), Wakes(0, i)]);
        vec![(0, first), (0, second)]
    };
    vec![
        situation(
            "a script computes 0.3 s and sleeps 3 s",
            vec![(0, again(1, script(300.0, 3_000.0)))],
            both,
        ),
        situation(
            "a script computes 30 ms and sleeps 0.3 s, ten times",
            vec![(0, again(10, script(30.0, 300.0)))],
            both,
        ),
        situation(
            "a script sleeps 1 s and computes 1 s",
            vec![(0, vec![SleepsFor(1_000.0), Computes(1_000.0)])],
            both,
        ),
        situation("a paced loop computes 4 ms of every 10", vec![(0, again(300, paced(4.0)))], both),
        situation("a paced loop computes 1 ms of every 10", vec![(0, again(300, paced(1.0)))], both),
        situation("two paced loops", vec![(0, again(300, paced(3.0))), (0, again(300, paced(3.0)))], both),
        situation(
            "a short thread is slowed, the long one is not",
            vec![(1, vec![Computes(3_000.0)]), (2, vec![Computes(300.0)])],
            &[1],
        ),
        situation(
            "a short thread is slowed half as long as the long one runs",
            vec![(1, vec![Computes(3_000.0)]), (2, vec![Computes(700.0)])],
            &[1],
        ),
        situation(
            "the long thread is slowed, the short one is not",
            vec![(1, vec![Computes(2_000.0)]), (2, vec![Computes(300.0)])],
            &[0],
        ),
        situation("four threads on one CPU", (0..4).map(|_| (1, vec![Computes(600.0)])).collect(), &[0]),
        situation(
            "three threads of unlike length on one CPU",
            vec![(1, vec![Computes(900.0)]), (1, vec![Computes(600.0)]), (1, vec![Computes(300.0)])],
            &[0],
        ),
        hands_over("two threads hand over row by row", rows(800, 2.0)),
        hands_over("two threads hand over rows of 10 ms", rows(150, 10.0)),
    ]
}

#[test]
fn a_slowdown_that_sums_cannot_tell_is_told_by_structure_and_its_interval_holds_the_truth() {
    let mut wrong = Vec::new();
    for s in situations() {
        let (truth, told, [low, high]) = s.told();
        println!("{}: {truth:.3}, said {told:.3} ({low:.2} to {high:.2})", s.name);
        if (told / truth).ln().abs() > s.within || !(low..=high).contains(&truth) {
            wrong.push(s.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
