//! Recorded runs on the modelled machine, which also recorded them. The program itself shows the truth: its
//! time in a solo run, with its co-runners and under a policy.

use crate::rig;
use corun_model::run_log::file::{read, write, CoRunner, RunFile, RunWindow};
use corun_model::run_log::RunLog;
use corun_model::TenantId;
use corun_sim::experiment::{perform, Options};
use corun_sim::replay::{modelled, Recorded};
use corun_sim::scenario::{Participants, PolicySpec, Scenario};

const MS: u64 = 1_000_000;
/// Length of a recorded window.
const WINDOW_NS: u64 = 250 * MS;

/// A program next to two busy loops.
fn original(program: &str) -> Scenario {
    rig::scenario(&format!(
        "[[tenant]]\nname = \"subject\"\nprogram = {{ kind = \"parallel\", {program} }}\n\
         [[tenant]]\nname = \"loops\"\nprogram = {{ kind = \"interference\", threads = 2 }}\n"
    ))
}

/// The record that `corun record` would have written, read back from its bytes.
fn recorded(scenario: &Scenario) -> Recorded {
    let mut engine = scenario.engine(1, Participants::All, 1 << 22).unwrap();
    assert!(engine.run_to_end(1_000_000 * MS).unwrap());
    let end_ns = engine.progress()[0].completions.first.unwrap().end_ns;
    let whole = modelled::run_log(engine.trace().unwrap(), TenantId(0), 2, end_ns, &[]);
    let windows = (0..end_ns.div_ceil(WINDOW_NS)).map(|n| {
        let (start_ns, end_ns) = (n * WINDOW_NS, end_ns.min((n + 1) * WINDOW_NS));
        // The last window has its end.
        let is_in = |t_ns: u64| start_ns <= t_ns && (t_ns < end_ns || end_ns == whole.end_ns);
        let events = whole.events.iter().filter(|e| is_in(e.t_ns)).copied().collect();
        let log = RunLog { start_ns, end_ns, events, ..whole.clone() };
        let wanted_ns = 2 * (end_ns - start_ns);
        let ran_ns = wanted_ns / 2;
        let loops = CoRunner { name: "loops".into(), tasks: 2, ran_ns, waited_ns: wanted_ns - ran_ns };
        RunWindow { log, co_runners: vec![loops] }
    });
    let file = RunFile { command: "subject".into(), windows: windows.collect() };
    Recorded::of(&read(&write(&file)).unwrap()).unwrap()
}

/// How long the first tenant takes alone and with the others, in nanoseconds.
pub fn times(scenario: &Scenario) -> [f64; 2] {
    let outcome = perform(scenario, &Options::default(), &|| {}).unwrap();
    let of = &outcome.tenants[0];
    [of.solo_ns.unwrap().mean, of.time_ns.unwrap().mean]
}

#[test]
fn a_recorded_program_takes_as_long_as_the_program_alone_with_loops_and_under_a_policy() {
    let mut worst = [0.0f64; 3];
    for (name, program) in [
        ("independent", "threads = 2, sync = \"none\""),
        ("barrier", "threads = 2, sync = \"barrier\""),
        ("barrier, uneven, sleeping", "threads = 2, sync = \"barrier\", imbalance = 0.3, sleep = \"3ms\""),
        ("lock", "threads = 2, sync = \"lock\", critical = 0.4"),
        ("pipeline", "threads = 2, sync = \"pipeline\", stages = 2"),
        ("four threads", "threads = 4, sync = \"barrier\""),
    ] {
        let original = original(&format!("{program}, wait = \"block\", grain = \"3ms\", iterations = 300"));
        let replayed = Scenario::of_recording("it.rec", "subject", &recorded(&original), None).unwrap();
        let gang = |scenario: &Scenario| {
            let mut scenario = scenario.clone();
            scenario.policy = Some(PolicySpec::new("gang", corun_policy::Options::new()).unwrap());
            times(&scenario)[1]
        };
        let ([alone, here], under) = (times(&original), gang(&original));
        let ([alone_again, here_again], under_again) = (times(&replayed), gang(&replayed));
        let errors =
            [(alone_again, alone), (here_again, here), (under_again, under)].map(|(a, b)| (a / b).ln());
        println!(
            "{name}: alone {:.2} s {:+.1} %, next to loops {:.2} s {:+.1} %, under gang {:.2} s {:+.1} %",
            alone / 1e9,
            100.0 * errors[0],
            here / 1e9,
            100.0 * errors[1],
            under / 1e9,
            100.0 * errors[2]
        );
        (0..3).for_each(|i| worst[i] = worst[i].max(errors[i].abs()));
    }
    println!("worst {worst:.3?}");
    assert!(worst.iter().all(|w| *w < 0.15), "{worst:?}");
}

#[test]
fn with_more_cpus_the_threads_of_a_recorded_program_stop_waiting_for_a_cpu() {
    let original =
        original("threads = 4, sync = \"none\", wait = \"block\", grain = \"3ms\", iterations = 100");
    let recorded = recorded(&original);
    let of = |machine| {
        let machine =
            corun_sim::machine_file::MachineModel::of(corun_model::Machine::synthetic(1, 1, machine, 1));
        times(&Scenario::of_recording("it.rec", "subject", &recorded, Some(machine)).unwrap())[0]
    };
    let (two, four) = (of(2), of(4));
    assert!((two / four - 2.0).abs() < 0.1, "{two} {four}");
}

#[test]
fn a_recording_ends_at_its_first_lost_event() {
    let scenario =
        original("threads = 2, sync = \"barrier\", wait = \"block\", grain = \"3ms\", iterations = 300");
    let mut engine = scenario.engine(1, Participants::All, 1 << 22).unwrap();
    engine.run_until(500 * MS).unwrap();
    let whole = modelled::run_log(engine.trace().unwrap(), TenantId(0), 2, 500 * MS, &[]);
    let window = |start_ns: u64, end_ns: u64, lost| {
        let events = whole.events.iter().filter(|e| (start_ns..end_ns).contains(&e.t_ns)).copied().collect();
        RunWindow { log: RunLog { start_ns, end_ns, lost, events, ..whole.clone() }, co_runners: Vec::new() }
    };
    let of = |lost: [u64; 2]| {
        let windows = vec![window(0, 250 * MS, lost[0]), window(250 * MS, 500 * MS, lost[1])];
        Recorded::of(&RunFile { command: "subject".into(), windows })
    };
    let (all, half) = (of([0, 0]).unwrap(), of([0, 3]).unwrap());
    assert_eq!((all.left_out_ns, half.left_out_ns), (0, 250 * MS));
    assert!(half.took_ns <= 250 * MS && all.took_ns > 400 * MS, "{} {}", half.took_ns, all.took_ns);
    assert!(of([1, 0]).is_err());
}
