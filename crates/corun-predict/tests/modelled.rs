//! The predictor on the modelled machine, where the truth is known.

mod rig;

use corun_model::What;
use corun_model::{Action, Host, TenantId};
use corun_predict::spin::SpinByCounters;
use corun_predict::{
    CannotTell, Feature, Judge, Label, Method, Options, Predictor, Ruling, WantsDedicated, MAX_DISTURBANCE,
};
use corun_sim::scenario::Participants;
use rayon::prelude::*;
use rig::{
    interferers, observe, outcome, pact16, predict_by_windows, programs, scenario, synthetic, time_ns,
    Outcome, Sampling, CORUNNER, SUBJECT,
};

const MS: u64 = 1_000_000;
const DEDICATED: Sampling = Sampling { dedicated: true, replay: false, wake_up_ns: 0 };
const SHARED: Sampling = Sampling { dedicated: false, replay: false, wake_up_ns: 0 };

fn mape(outcomes: &[Outcome]) -> f64 {
    outcomes.iter().map(Outcome::error).sum::<f64>() / outcomes.len() as f64
}

#[test]
fn useful_work_is_closer_than_cpi_and_mpki_beside_each_interferer_of_the_paper() {
    // PACT'16 figure 8: spinning, blocking, stealing and independent programs.
    let mut sums = [0.0; 3];
    for program in ["lu", "streamcluster", "raytrace", "blackscholes"] {
        for (loops, threads) in [(true, 1), (true, 4), (false, 1), (false, 4)] {
            let o = outcome(&pact16(program, loops, threads), 1, DEDICATED);
            assert_eq!(o.estimate.method, Method::Dedicated);
            let b = &o.estimate.baselines;
            let error =
                |x: Option<f64>| (x.expect("the modelled machine has counters") / o.truth - 1.0).abs();
            let (cpi, mpki, pact16) = (error(b.cpi), error(b.mpki), error(b.pact16));
            for (sum, error) in sums.iter_mut().zip([pact16, cpi, mpki]) {
                *sum += error / 16.0;
            }
            assert!(
                o.error() < cpi && o.error() < mpki,
                "{program} {loops} {threads}: {} {cpi} {mpki}",
                o.error()
            );
        }
    }
    let [pact16, cpi, mpki] = sums;
    assert!(pact16 < cpi && pact16 < mpki, "{pact16} {cpi} {mpki}");
}

/// What comes of every seventh of the programs of so many threads on two CPUs, by their ledger alone.
fn by_ledger(threads: u32) -> Vec<Outcome> {
    let cases: Vec<(String, String)> = programs(threads)
        .into_iter()
        .flat_map(|(_, program)| interferers(2).into_iter().map(move |i| (program.clone(), i)))
        .step_by(7)
        .collect();
    let found: Vec<Outcome> =
        cases.par_iter().map(|(p, i)| outcome(&synthetic(2, p, i), 1, SHARED)).collect();
    assert!(found.len() > 70 && found.iter().all(|o| o.estimate.method == Method::Ledger));
    found
}

#[test]
fn without_dedicated_windows_the_error_stays_below_eight_percent_on_average() {
    let found = by_ledger(2);
    assert!(mape(&found) < 0.08, "{}", mape(&found));
    // A predictor that always says "undisturbed" is far off, so the cases are not trivial.
    let idle = found.iter().map(|o| 1.0 - 1.0 / o.truth).sum::<f64>() / found.len() as f64;
    assert!(idle > 0.3, "{idle}");
}

#[test]
fn it_stays_there_for_programs_with_more_threads_than_there_are_cpus() {
    let found = by_ledger(4);
    assert!(mape(&found) < 0.08, "{}", mape(&found));
}

#[test]
fn of_programs_that_spin_a_replay_tells_more_than_sums_and_intervals_hold_the_outcome() {
    let cases: Vec<(String, String, String)> = programs(2)
        .into_iter()
        .filter(|(name, _)| name.contains("/ spin /"))
        .flat_map(|(name, program)| {
            interferers(2).into_iter().map(move |i| (name.clone(), program.clone(), i))
        })
        .step_by(5)
        .collect();
    let run = |how| -> Vec<Outcome> {
        cases.par_iter().map(|(_, p, i)| outcome(&synthetic(2, p, i), 1, how)).collect()
    };
    let (by_sums, replayed) = (run(SHARED), run(Sampling { replay: true, ..SHARED }));
    for ((name, _, beside), (sums, replay)) in cases.iter().zip(by_sums.iter().zip(&replayed)) {
        let said = |o: &Outcome| {
            format!("{:.2} {:.2?} {:?}", o.estimate.slowdown, o.estimate.interval, o.estimate.method)
        };
        println!(
            "{name} beside {beside}: {:.2}, by sums {}, with a replay {}",
            sums.truth,
            said(sums),
            said(replay)
        );
    }
    println!("{} {}", mape(&by_sums), mape(&replayed));
    let covered = |of: &[Outcome]| of.iter().filter(|o| o.is_covered()).count() as f64 / of.len() as f64;
    assert!(
        covered(&by_sums) >= 0.9 && covered(&replayed) >= 0.9,
        "{} {}",
        covered(&by_sums),
        covered(&replayed)
    );
    assert!(mape(&replayed) < 0.1, "{}", mape(&replayed));
}

#[test]
fn threads_that_meet_all_the_time_are_foretold_where_it_is_known_what_a_wake_up_takes() {
    const WAKE_UP_NS: u64 = 20_000;
    let meets = "threads = 2, grain = \"30us\", imbalance = 0.3, iterations = 60000";
    let found = |wake_up_ns| -> Vec<Outcome> {
        let of = |interferer: &String| {
            let mut scenario = synthetic(2, meets, interferer);
            scenario.machine.costs.idle_exit_ns = WAKE_UP_NS;
            outcome(&scenario, 1, Sampling { wake_up_ns, ..SHARED })
        };
        interferers(2).iter().map(of).collect()
    };
    let (known, unknown) = (found(WAKE_UP_NS), found(0));
    assert!(mape(&known) < 0.10, "{known:?}");
    assert!(mape(&unknown) > 2.0 * mape(&known), "{} {}", mape(&known), mape(&unknown));
}

#[test]
fn intervals_hold_the_outcome_about_as_often_as_they_say() {
    let cases: Vec<(String, String)> = programs(4)
        .into_iter()
        .flat_map(|(_, program)| interferers(4).into_iter().map(move |i| (program.clone(), i)))
        .step_by(9)
        .collect();
    let run = |(p, i): &(String, String)| outcome(&synthetic(4, p, i), 2, DEDICATED);
    let found: Vec<Outcome> = cases.par_iter().map(run).collect();
    let covered = found.iter().filter(|o| o.is_covered()).count() as f64 / found.len() as f64;
    assert!(covered >= 0.85, "{covered} of {}", found.len());
    // Who says that the windows cannot tell may be as wide as it likes, but that is seldom.
    let is_plain = |o: &&Outcome| o.estimate.unavailable.iter().all(|u| u.what != What::SteadySpeed);
    let plain: Vec<&Outcome> = found.iter().filter(is_plain).collect();
    assert!(plain.len() * 10 >= found.len() * 8, "only {} of {} are sure", plain.len(), found.len());
    let widths = plain.iter().map(|o| o.estimate.interval[1] / o.estimate.interval[0] - 1.0);
    let width = widths.sum::<f64>() / plain.len() as f64;
    assert!(width < 0.5, "intervals that are {width} wide would hold anything");
}

#[test]
fn beside_somebody_who_cannot_be_parked_windows_are_given_up_and_the_ledger_still_tells() {
    let beside = |demand: f64| {
        let program = "kind = \"parallel\", threads = 2, sync = \"barrier\", wait = \"block\", grain = \"3ms\", iterations = 4000";
        let s = scenario(
            2,
            &format!(
                "[[tenant]]\nname = \"subject\"\nprogram = {{ {program} }}\n\
                 [[tenant]]\nname = \"noise\"\nprogram = {{ kind = \"interference\", threads = 2 }}\n\
                 [[tenant]]\nname = \"protected\"\nprogram = {{ kind = \"interference\", pattern = \"periodic\", \
                 busy = \"2ms\", demand = {demand} }}\n"
            ),
        );
        let (co_ns, alone_ns) = (time_ns(&s, 1, Participants::All), time_ns(&s, 1, Participants::Solo(0)));
        let (estimate, found) = predict_by_windows(&s, 1, co_ns, DEDICATED);
        (Outcome { truth: co_ns as f64 / alone_ns as f64, estimate: estimate.unwrap() }, found)
    };
    // Who wants a fifth of a CPU has a tenth of the machine, and is in the way of every window.
    let (by_ledger, found) = beside(0.2);
    assert!(found.given_up && found.counted == 0 && found.skipped > 0, "{found:?}");
    assert_eq!(by_ledger.estimate.method, Method::Ledger);
    assert!(by_ledger.error() < 0.15, "{by_ledger:?}");
    // Who wants next to nothing is in nobody's way.
    let (by_windows, found) = beside(0.02);
    assert!(!found.given_up && found.counted >= 3, "{found:?}");
    assert_eq!(by_windows.estimate.method, Method::Dedicated);
    assert!(by_windows.error() < 0.15, "{by_windows:?}");
}

#[test]
fn the_parts_of_a_slowdown_sum_to_it() {
    for how in [DEDICATED, SHARED] {
        let o = outcome(&pact16("sp", true, 4), 1, how);
        let p = &o.estimate.parts;
        let sum = 1.0 + p.steal + p.sync + p.memory.unwrap_or(0.0) + p.other;
        assert!((sum - o.estimate.slowdown).abs() < 1e-9, "{p:?}");
        assert_eq!(o.estimate.culprits[0].tenant.as_deref(), Some("co-runner"));
    }
}

#[test]
fn the_same_windows_give_the_same_bytes() {
    let json = || {
        let o = outcome(&pact16("canneal", false, 4), 3, DEDICATED);
        serde_json::to_string(&o.estimate).unwrap()
    };
    let first = json();
    assert_eq!(first, json());
    for key in
        ["slowdown", "interval", "confidence", "parts", "culprits", "baselines", "windows", "unavailable"]
    {
        assert!(first.contains(&format!("\"{key}\":")), "{key}");
    }
}

#[test]
fn what_cannot_be_told_yet_is_said_with_the_reason() {
    let mut engine = pact16("lu", true, 4).engine(1, Participants::All, 0).unwrap();
    let mut nobody = Predictor::new(TenantId(77), Options::default());
    let mut early = Predictor::new(SUBJECT, Options::default());
    let why = |p: &Predictor| p.estimate().unwrap_err();
    assert_eq!(why(&early), CannotTell::NoTask);
    let seen = observe(&mut engine, 100 * MS);
    let _ = (nobody.push(&seen, Label::Shared), early.push(&seen, Label::Shared));
    assert_eq!(why(&nobody), CannotTell::NoTask);
    assert_eq!(why(&early), CannotTell::TooShort { least_ns: 500 * MS });
    for _ in 0..10 {
        let _ = early.push(&observe(&mut engine, 100 * MS), Label::Shared);
    }
    let estimate = early.estimate().unwrap();
    assert_eq!(estimate.method, Method::Ledger);
    assert!(
        estimate.unavailable.iter().any(|u| u.what == What::DedicatedWindows),
        "{:?}",
        estimate.unavailable
    );
    assert_eq!(estimate.baselines.cpi, None, "CPI alone is not known without a dedicated window");
}

#[test]
fn a_change_of_phase_asks_for_a_new_dedicated_window_and_a_steady_program_does_not() {
    let program = |phases: &str| {
        scenario(
            2,
            &format!(
                "[[tenant]]\nname = \"subject\"\n{phases}\n[[tenant]]\nname = \"noise\"\n\
                 program = {{ kind = \"interference\", pattern = \"intermittent\", threads = 2 }}\n"
            ),
        )
    };
    let changes = |phases: &str| {
        let mut engine = program(phases).engine(1, Participants::All, 0).unwrap();
        let mut predictor = Predictor::new(SUBJECT, Options::default());
        engine.apply(&Action::Park { tenant: CORUNNER });
        for _ in 0..5 {
            assert!(predictor.push(&observe(&mut engine, 100 * MS), Label::Dedicated).is_none());
        }
        engine.apply(&Action::Unpark { tenant: CORUNNER });
        let found: Vec<_> = (0..200)
            .filter_map(|_| predictor.push(&observe(&mut engine, 100 * MS), Label::Shared))
            .map(|c| c.what)
            .collect();
        (found, predictor.wants_dedicated())
    };
    let parallel = |grain: &str| {
        format!("program = {{ kind = \"parallel\", threads = 2, grain = \"{grain}\", iterations = 100000 }}")
    };
    assert_eq!(changes(&parallel("5ms")), (vec![], None));
    // The same work, blocking fifty times as often from some time on.
    let two = "program = { kind = \"command\", argv = [\"x\"], model = [ \
               { threads = 2, grain = \"25ms\", iterations = 200 }, \
               { threads = 2, grain = \"500us\", iterations = 100000 } ] }";
    let (found, wants) = changes(two);
    assert_eq!(found, [Feature::Blockings]);
    assert_eq!(wants, Some(WantsDedicated::BehaviourChanged));
}

/// Of a program's time on CPUs beside four loops, the parts that it spun and that counters find it spinning.
fn spinning(program: &str) -> (f64, f64) {
    let mut engine = pact16(program, true, 4).engine(1, Participants::All, 0).unwrap();
    let mut detector = SpinByCounters::new(SUBJECT);
    let (mut told_ns, mut found_ns, mut on_cpu_ns) = (0, 0, 0);
    for _ in 0..2_000 {
        let seen = observe(&mut engine, 5 * MS);
        let found = detector.estimate(&seen).expect("the modelled machine has counters");
        for task in seen.tasks.iter().filter(|t| t.tenant == SUBJECT) {
            told_ns += task.account.ledger.parts().spin_ns.expect("the modelled machine tells");
            on_cpu_ns += task.account.ledger.on_cpu_ns();
            found_ns += found.get(&task.id).map_or(0, |e| e.spin_ns);
        }
    }
    let share = |ns: u64| ns as f64 / on_cpu_ns as f64;
    (share(told_ns), share(found_ns))
}

/// docs/negative-results.md has the figures. Four of the nine spin for less than five points, of which little is found; threads of lu,
/// which follow each other, all spin alike in nearly every window.
#[test]
fn counters_tell_spinning_within_five_points_of_all_spinners_but_lu_and_never_where_nobody_spins() {
    for program in ["streamcluster", "swaptions"] {
        let (told, found) = spinning(program);
        assert!(told == 0.0 && found < 0.01, "{program}: {found}");
    }
    for program in ["bt", "cg", "ep", "ft", "is", "lu", "mg", "sp", "ua"] {
        let (told, found) = spinning(program);
        println!("{program}: spins {:.1} %, found {:.1} %", 100.0 * told, 100.0 * found);
        assert!(told > 0.0, "{program} waits on its CPU");
        match program {
            "lu" => assert!(told > 0.5 && found < 0.5 * told, "lu: {found} of {told}"),
            "cg" | "mg" | "sp" | "ua" => {
                assert!((found / told - 1.0).abs() < 0.05, "{program}: {found} of {told}")
            }
            _ => assert!(told < 0.05 && found <= told, "{program}: {found} of {told}"),
        }
    }
}

/// The verdict on a run of a program beside something.
fn verdict(program: &str, noise: &str) -> corun_predict::Verdict {
    let s = scenario(
        2,
        &format!(
            "[[tenant]]\nname = \"subject\"\nprogram = {{ kind = \"parallel\", {program} }}\n\
             [[tenant]]\nname = \"noise\"\nprogram = {{ kind = \"interference\", {noise} }}\n"
        ),
    );
    let mut engine = s.engine(1, Participants::All, 0).unwrap();
    let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE);
    while engine.progress()[0].completions.count == 0 {
        judge.push(&observe(&mut engine, 10 * MS));
    }
    let run = engine.progress()[0].completions.first.unwrap();
    judge.verdict(Some(run.end_ns - run.start_ns))
}

const BARRIERS: &str = "threads = 2, grain = \"2ms\", imbalance = 0.2, iterations = 1000";

#[test]
fn a_run_is_clean_beside_the_background_of_an_idle_machine_however_often_it_wakes() {
    for (busy_ms, demand) in [("100us", 0.01), ("1ms", 0.01), ("50us", 0.002)] {
        let noise = format!("pattern = \"periodic\", busy = \"{busy_ms}\", demand = {demand}");
        let v = verdict(BARRIERS, &noise);
        assert_eq!(v.verdict, Ruling::Clean, "{busy_ms} {demand}: {v:?}");
    }
}

#[test]
fn a_disturbed_run_is_caught_with_culprit_time_and_extent() {
    for (noise, at_least) in [
        ("pattern = \"persistent\", threads = 1", 0.3),
        ("pattern = \"periodic\", threads = 2, busy = \"10ms\", demand = 0.2", 0.1),
    ] {
        let v = verdict(BARRIERS, noise);
        assert_eq!(v.verdict, Ruling::Disturbed, "{noise}");
        assert!(v.disturbance > at_least, "{noise}: {}", v.disturbance);
        assert_eq!(v.culprits[0].tenant.as_deref(), Some("noise"));
        assert!(!v.intervals.is_empty() && v.intervals[0].culprit.as_deref() == Some("noise"));
        assert!(v.undisturbed_ns < v.wall_ns);
    }
}

#[test]
fn the_undisturbed_time_is_about_what_the_program_takes_alone() {
    let noise = "pattern = \"intermittent\", threads = 2";
    let v = verdict(BARRIERS, noise);
    let alone_ns = rig::time_ns(&synthetic(2, BARRIERS, noise), 1, Participants::Solo(0)) as f64;
    let off = v.undisturbed_ns as f64 / alone_ns - 1.0;
    assert!(off.abs() < 0.15, "{off}");
}
