//! Runs every program for real, and compares its report with its definition.
//!
//! Nothing here asserts a time, since other programs run on the machine too. Counts, sums and orderings hold at any speed.

use corun_load::report::ThreadReport;
use corun_load::{run, Ended, Options, Report, Stop};
use corun_model::workload::{
    Flow, Idle, Interference, Mapping, Micro, MicroKind, Parallel, Pattern, Pdes, Program, Sharing, Stage,
    Sync, Wait, Workload,
};

const MS: u64 = 1_000_000;

/// A pace far below that of any machine. So a "millisecond" of work takes about 20 µs, and tests are quick.
const QUICK: Options = Options { loops_per_ms: Some(1_000), limit_ns: None, progress_every_ns: None };

fn quick(program: &Program) -> Report {
    run(program, &QUICK, &Stop::new(), |_| {}).unwrap()
}

fn parallel(sync: Sync, wait: Wait) -> Parallel {
    Parallel { sync, wait, imbalance: 0.5, spin: 2_000, ..Parallel::default() }
}

const WAITS: [Wait; 3] = [Wait::Spin, Wait::Block, Wait::SpinThenBlock];

/// The work that loops of [`QUICK`] can represent: whole microseconds, rounded.
fn as_worked(ns: u64) -> u64 {
    (ns + 500) / 1_000 * 1_000
}

fn work(threads: &[ThreadReport]) -> u64 {
    threads.iter().map(|t| t.work_ns.unwrap()).sum()
}

#[test]
fn a_barrier_program_does_its_rounds_and_exactly_its_work() {
    for wait in WAITS {
        let program = Parallel { threads: 3, iterations: 60, ..parallel(Sync::Barrier, wait) };
        let report = quick(&Program::Parallel(program.clone()));
        assert_eq!((report.ended, report.iterations, report.unit), (Ended::Completed, 60, "round"));
        for (lane, thread) in report.threads.iter().enumerate() {
            let expected = (0..60).map(|i| as_worked(program.grain_ns(lane as u32, i))).sum::<u64>();
            assert_eq!((thread.iterations, thread.work_ns), (60, Some(expected)), "{wait:?}");
        }
    }
}

#[test]
fn the_cost_of_waiting_is_reported_by_policy() {
    for wait in WAITS {
        let program = Parallel { threads: 3, iterations: 60, ..parallel(Sync::Barrier, wait) };
        let report = quick(&Program::Parallel(program));
        let waiting = report.waiting.unwrap();
        assert!(waiting.waits > 0 && waiting.wait_ns >= waiting.spin_ns + waiting.block_ns, "{waiting:?}");
        assert_eq!(waiting.spin_ns > 0, wait != Wait::Block, "{wait:?} {waiting:?}");
        assert!(waiting.sleeps == 0 || wait != Wait::Spin, "{wait:?} {waiting:?}");
        assert!(report.threads.iter().all(|t| t.waiting.unwrap().spin_ns <= t.cpu_ns));
        assert_eq!(report.threads.iter().map(|t| t.waiting.unwrap().waits).sum::<u64>(), waiting.waits);
    }
}

#[test]
fn every_thread_of_a_lock_program_gets_all_its_turns() {
    for (wait, locks) in WAITS.into_iter().zip([1, 1, 2]) {
        let program =
            Parallel { threads: 3, iterations: 80, critical: 0.5, locks, ..parallel(Sync::Lock, wait) };
        let report = quick(&Program::Parallel(program));
        assert_eq!((report.iterations, report.unit), (240, "grain"));
        assert!(report.threads.iter().all(|t| t.iterations == 80));
    }
}

#[test]
fn every_item_passes_every_stage_of_a_pipeline_exactly_once() {
    for wait in WAITS {
        let program = Parallel { threads: 5, stages: 3, iterations: 100, ..parallel(Sync::Pipeline, wait) };
        let report = quick(&Program::Parallel(program.clone()));
        assert_eq!((report.iterations, report.unit), (100, "item"));
        for stage in 0..3 {
            let threads: Vec<_> = report.threads.iter().skip(stage).step_by(3).cloned().collect();
            assert!(threads.iter().all(|t| t.name.starts_with(&format!("stage{stage}-"))));
            assert_eq!(threads.iter().map(|t| t.iterations).sum::<u64>(), 100);
            // All grains differ, so only the right items give the right sum.
            let expected = (0..100).map(|i| as_worked(program.grain_ns(stage as u32, i))).sum::<u64>();
            assert_eq!(work(&threads), expected, "{wait:?}, stage {stage}");
        }
    }
}

#[test]
fn the_items_of_a_branching_pipeline_follow_its_flow_and_each_ends_once() {
    let stage = |name: &str, feeds: &[&str]| Stage {
        name: name.into(),
        feeds: feeds.iter().map(ToString::to_string).collect(),
    };
    let stages = vec![stage("read", &["hash", "write"]), stage("hash", &["write"]), stage("write", &[])];
    for wait in WAITS {
        let program =
            Parallel { threads: 5, stage: stages.clone(), iterations: 100, ..parallel(Sync::Pipeline, wait) };
        let report = quick(&Program::Parallel(program.clone()));
        assert_eq!((report.iterations, report.unit), (100, "item"));
        let flow = Flow::of(&program).unwrap();
        let hashed: Vec<u64> = (0..100).filter(|&item| flow.next(0, item) == Some(1)).collect();
        assert!((20..80).contains(&hashed.len()), "{hashed:?}");
        let hashers: Vec<_> =
            report.threads.iter().filter(|t| t.name.starts_with("hash-")).cloned().collect();
        assert_eq!(hashers.iter().map(|t| t.iterations).sum::<u64>(), hashed.len() as u64);
        let expected = hashed.iter().map(|&item| as_worked(program.grain_ns(1, item))).sum::<u64>();
        assert_eq!(work(&hashers), expected, "{wait:?}");
    }
}

#[test]
fn every_grain_of_a_queue_is_taken_exactly_once_by_any_thread() {
    for wait in WAITS {
        for sync in [Sync::Queue, Sync::Steal] {
            let program = Parallel { threads: 3, iterations: 150, ..parallel(sync, wait) };
            let report = quick(&Program::Parallel(program.clone()));
            let expected = (0..150).map(|i| as_worked(program.grain_ns(0, i))).sum::<u64>();
            assert_eq!((report.iterations, work(&report.threads)), (150, expected));
        }
    }
}

#[test]
fn a_grain_that_waits_for_a_device_and_sleeps_does_so_every_time() {
    for sync in [Sync::Barrier, Sync::Lock, Sync::Pipeline, Sync::Queue, Sync::Steal, Sync::None] {
        let idle =
            Parallel { threads: 2, iterations: 6, io: 2 * MS, sleep: MS, ..parallel(sync, Wait::Block) };
        let report = quick(&Program::Parallel(idle));
        // At most two threads share the six grains, so one of them idled at least three times.
        assert!(report.wall_ns >= 9 * MS, "{sync:?}: {} ns", report.wall_ns);
    }
}

#[test]
fn independent_threads_keep_no_account_of_waiting() {
    let program = Parallel { iterations: 20, ..parallel(Sync::None, Wait::Block) };
    let report = quick(&Program::Parallel(program));
    assert_eq!((report.iterations, report.waiting), (40, None));
}

const MAPPINGS: [Mapping; 3] = [Mapping::Fm, Mapping::Pool, Mapping::Ladm];

fn pdes(mapping: Mapping) -> Pdes {
    Pdes { mapping, lps: 64, grain: 2 * MS / 1_000, ..Pdes::default() }
}

#[test]
fn a_simulation_commits_the_same_events_with_any_mapping_and_counts_its_work() {
    let mut committed = Vec::new();
    for mapping in MAPPINGS {
        for idle in [Idle::Spin, Idle::Yield, Idle::Block] {
            let program = Pdes { iterations: 20_000, idle, ..pdes(mapping) };
            let report = quick(&Program::Pdes(program));
            assert_eq!((report.ended, report.unit), (Ended::Completed, "event"), "{mapping:?} {idle:?}");
            assert_eq!(report.threads.iter().map(|t| t.iterations).sum::<u64>(), report.iterations);
            // Every committed event is 2 µs of work. Events that were taken back also took work.
            assert!(work(&report.threads) >= report.iterations * 2_000, "{report:?}");
            let pinned = report.threads.iter().filter(|t| t.cpu.is_some()).count();
            assert_eq!(pinned, if mapping == Mapping::Fm { 2 } else { 0 }, "{mapping:?}");
            committed.push(report.iterations);
        }
    }
    assert!(committed.iter().all(|events| *events == committed[0]), "{committed:?}");
    assert!((19_000..21_000).contains(&committed[0]), "{committed:?}");
}

#[test]
fn a_stop_ends_every_program_and_leaves_no_thread_waiting() {
    let syncs = [Sync::Barrier, Sync::Lock, Sync::Pipeline, Sync::Queue, Sync::Steal, Sync::None];
    let parallel = syncs.into_iter().flat_map(|sync| {
        WAITS.into_iter().map(move |wait| Program::Parallel(Parallel { threads: 4, ..parallel(sync, wait) }))
    });
    let micro = [MicroKind::Hubench, MicroKind::Lubench, MicroKind::Cpu]
        .into_iter()
        .map(|name| Program::Micro(Micro { name, threads: 2, iterations: 0, duration: 0, cpus: Vec::new() }));
    let interference = [Pattern::Persistent, Pattern::Periodic, Pattern::Intermittent]
        .into_iter()
        .map(|pattern| Program::Interference(Interference { pattern, ..Interference::default() }));
    let pdes = MAPPINGS.into_iter().map(|mapping| Program::Pdes(pdes(mapping)));
    for program in parallel.chain(micro).chain(interference).chain(pdes) {
        let options = Options { limit_ns: Some(30 * MS), ..QUICK };
        let report = run(&program, &options, &Stop::new(), |_| {}).unwrap();
        assert_eq!(report.ended, Ended::TimeUp, "{program:?}");
        assert!(report.threads.iter().all(|t| t.wall_ns <= report.wall_ns));
    }
}

#[test]
fn a_stop_cuts_even_a_very_long_grain_short() {
    let program = Parallel { grain: 3_600_000 * MS, ..parallel(Sync::Barrier, Wait::Block) };
    let report = run(
        &Program::Parallel(program),
        &Options { limit_ns: Some(20 * MS), ..Options::default() },
        &Stop::new(),
        |_| {},
    );
    let report = report.unwrap();
    assert_eq!((report.ended, report.iterations), (Ended::TimeUp, 0));
}

#[test]
fn a_run_that_is_asked_to_stop_reports_that() {
    let stop = Stop::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            stop.request();
        });
        let report = run(&Program::Interference(Interference::default()), &QUICK, &stop, |_| {}).unwrap();
        assert_eq!(report.ended, Ended::Stopped);
    });
}

#[test]
fn bursts_are_cpu_time_so_other_programs_do_not_change_their_length() {
    let load =
        Interference { pattern: Pattern::Periodic, busy: 2 * MS, threads: 3, ..Interference::default() };
    let options = Options { limit_ns: Some(200 * MS), ..Options::default() };
    let report = run(&Program::Interference(load), &options, &Stop::new(), |_| {}).unwrap();
    for thread in &report.threads {
        // The last burst may have been cut short. System calls and wake-ups are added.
        let bursts = thread.iterations as f64;
        let busy = thread.cpu_ns as f64 / (2 * MS) as f64;
        assert!(busy >= bursts * 0.99 && busy <= (bursts + 1.0) * 1.25, "{busy} in {bursts} bursts");
    }
    assert_eq!((report.demand_asked, report.waiting), (Some(0.5), None));
}

#[test]
fn the_requested_demand_changes_the_idle_interval_and_the_achieved_demand() {
    let achieved = |demand| {
        let load =
            Interference { pattern: Pattern::Periodic, busy: 2 * MS, demand, ..Interference::default() };
        let options = Options { limit_ns: Some(300 * MS), ..Options::default() };
        run(&Program::Interference(load), &options, &Stop::new(), |_| {}).unwrap().demand
    };
    let (low, high) = (achieved(0.1), achieved(0.9));
    assert!(low < 0.2, "{low}");
    assert!(high > low, "{high} of 90 % and {low} of 10 %");
}

#[test]
fn pairs_increment_in_turn_and_do_equally_many_rounds() {
    for (name, options) in [(MicroKind::Hubench, QUICK), (MicroKind::Lubench, QUICK)] {
        let micro = Micro { name, threads: 4, iterations: 5, duration: 0, cpus: Vec::new() };
        let report = run(&Program::Micro(micro), &options, &Stop::new(), |_| {}).unwrap();
        assert_eq!((report.iterations, report.ended), (20, Ended::Completed), "{name:?}");
        assert_eq!(report.calibration.is_some(), name == MicroKind::Lubench, "hubench has no work to count");
    }
}

#[test]
fn membench_streams_as_much_as_it_counts() {
    let micro =
        Micro { name: MicroKind::Membench, threads: 1, iterations: 70, duration: 0, cpus: Vec::new() };
    let report = quick(&Program::Micro(micro));
    assert_eq!((report.iterations, report.unit), (70, "MiB streamed"));
}

#[test]
fn memory_is_walked_and_shared_in_every_way() {
    for sharing in [Sharing::None, Sharing::Read, Sharing::Write, Sharing::False] {
        let program = Parallel {
            footprint: 64 << 10,
            shared: 4096,
            sharing,
            iterations: 10,
            ..parallel(Sync::Barrier, Wait::Block)
        };
        assert_eq!(quick(&Program::Parallel(program)).iterations, 10, "{sharing:?}");
    }
}

#[test]
fn progress_is_reported_during_the_run() {
    let program = Parallel { iterations: 4000, ..parallel(Sync::Barrier, Wait::Block) };
    let mut seen = Vec::new();
    let options = Options { progress_every_ns: Some(MS), ..QUICK };
    let report = run(&Program::Parallel(program), &options, &Stop::new(), |p| seen.push(p.clone())).unwrap();
    assert_eq!(report.iterations, 4000);
    assert!(!seen.is_empty(), "4000 rounds take more than a millisecond");
    assert!(seen.windows(2).all(|w| w[0].wall_ns < w[1].wall_ns && w[0].iterations <= w[1].iterations));
    assert!(seen.iter().all(|p| p.threads.len() == 2 && p.done.is_some_and(|d| (0.0..=1.0).contains(&d))));
}

#[test]
fn the_same_seed_and_pace_are_the_same_work_again() {
    let work_of = |seed| {
        let program = Parallel { iterations: 50, seed, ..parallel(Sync::Barrier, Wait::Block) };
        work(&quick(&Program::Parallel(program)).threads)
    };
    assert_eq!(work_of(1), work_of(1));
    assert_ne!(work_of(1), work_of(2));
}

#[test]
fn impossible_values_are_refused_in_one_sentence() {
    let refusal = |program: Parallel| {
        let error = run(&Program::Parallel(program), &QUICK, &Stop::new(), |_| {}).unwrap_err();
        assert!(error.is_usage());
        error.to_string()
    };
    let none = Parallel { threads: 0, ..Parallel::default() };
    assert_eq!(refusal(none), "threads is 0; a program needs at least 1");
    let elsewhere = Parallel { cpus: vec![8191], ..Parallel::default() };
    assert!(refusal(elsewhere).starts_with("CPU 8191 is not one this process may use; choose from"));
    let huge = Parallel { footprint: 1 << 60, ..Parallel::default() };
    assert!(refusal(huge).starts_with("this load needs 2.00 EiB of memory and"));
}

#[test]
fn the_json_report_keeps_its_names() {
    let program = Parallel { iterations: 5, ..parallel(Sync::Barrier, Wait::Spin) };
    let json = serde_json::to_value(quick(&Program::Parallel(program))).unwrap();
    let keys =
        |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(json["schema"], "corun.load/1");
    assert_eq!((&json["ended"], &json["calibration"]["source"]), (&"completed".into(), &"given".into()));
    assert_eq!(
        keys(&json),
        "calibration command cpu_ns demand demand_asked ended held iterations per_second schema threads unit waiting wall_ns what"
    );
    assert_eq!(
        keys(&json["threads"][0]),
        "cpu cpu_ns demand iterations name per_second preemptions tid waiting wall_ns work_ns yields"
    );
    assert_eq!(keys(&json["waiting"]), "block_ns sleeps spin_ns wait_ns waits");
}

#[test]
fn every_example_workload_is_read_and_has_a_description() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads");
    let mut kinds = [0; 5];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let workload = Workload::parse(&path.display().to_string(), &text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            path.file_stem().unwrap().to_str().unwrap(),
            workload.name,
            "a file is named as its workload"
        );
        assert!(!workload.about.is_empty(), "{} does not say what it stands for", path.display());
        kinds[match workload.program {
            Program::Interference(_) => 0,
            Program::Parallel(_) => 1,
            Program::Micro(_) => 2,
            Program::Command(_) => 3,
            Program::Pdes(_) => 4,
        }] += 1;
    }
    assert!(kinds >= [3, 8, 4, 4, 2], "{kinds:?}");
}
