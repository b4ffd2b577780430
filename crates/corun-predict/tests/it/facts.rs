//! Facts of a run and what was lost in it: which CPUs, quotas, sleeps and neighbours, as a table. The truth of each row is what
//! the scheduler would do alone, worked out by hand; `verify` and `predict` are asked for the same run and must agree.

use corun_model::culprit::Share;
use corun_model::ledger::{BlockReasons, Held};
use corun_model::limits::{CpuQuota, Limits, TaskLimits};
use corun_model::observation::{Account, CpuTime, TaskObservation, TenantObservation};
use corun_model::{
    CpuId, Culprits, Events, Ledger, Observation, Parts, TaskId, Tenant, TenantId, TenantKind,
};
use corun_predict::bounds::Bounds;
use corun_predict::loss::{self, Loss, Losses};
use corun_predict::useful_work::Window;
use corun_predict::{Counterfactual, Judge, Label, Options, Predictor, Verdict};
use proptest::prelude::*;
use std::sync::Arc;

pub const MS: u64 = 1_000_000;
pub const SUBJECT: TenantId = TenantId(0);
const NEIGHBOUR: TenantId = TenantId(1);
pub const WINDOW_MS: u64 = 250;

/// A task in a window, in milliseconds; the rest of its life it sleeps.
#[derive(Clone, Debug, Default)]
pub struct Did {
    pub process: u32,
    pub cpus: Vec<u32>,
    pub computed: u64,
    pub stolen: u64,
    pub queued: u64,
    pub futex: u64,
    pub throttled: u64,
    pub stopped: u64,
    /// How long it lived; 0: all the time.
    pub lived: u64,
    pub yields: bool,
    /// Whether the source does not tell why it blocked.
    pub untold: bool,
}

/// A window of some tasks on two CPUs, on which a neighbour ran for so long.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub tasks: Vec<Did>,
    pub neighbour: [u64; 2],
    /// CPU time of tasks that nobody looked at, on the CPUs that the neighbour leaves; what others wait for is nobody's then.
    pub unseen: u64,
    pub quota: Option<f64>,
    pub off: Option<u32>,
}

fn account(did: &Did) -> Account {
    let lived = if did.lived > 0 { did.lived } else { WINDOW_MS };
    let steal = did.stolen + did.queued;
    let sleep = lived - did.computed - steal - did.futex - did.throttled - did.stopped;
    let parts = Parts {
        compute_ns: did.computed * MS,
        spin_ns: Some(0),
        block_ns: (sleep + did.futex) * MS,
        steal_ns: steal * MS,
        throttled_ns: did.throttled * MS,
        held: Some(Held { stopped_ns: did.stopped * MS, frozen_ns: 0 }),
        ..Parts::default()
    };
    let shares = [(NEIGHBOUR, did.stolen), (SUBJECT, did.queued)];
    let shares = shares.map(|(tenant, ms)| Share { tenant, steal_ns: ms * MS });
    Account {
        ledger: Ledger::new(parts, lived * MS).unwrap(),
        block: (!did.untold).then(|| BlockReasons {
            futex_ns: did.futex * MS,
            sleep_ns: sleep * MS,
            ..BlockReasons::default()
        }),
        events: Events { yielded: Some(if did.yields { 1_000 } else { 0 }), ..Events::none() },
        culprits: Culprits::new(shares, 0, steal * MS).unwrap(),
        ..Account::default()
    }
}

pub fn observation(at: u64, facts: &Facts) -> Observation {
    let start_ns = at * WINDOW_MS * MS;
    let tenant =
        |id, name: &str| Tenant { id, kind: TenantKind::Command, key: name.into(), name: name.into() };
    let of_task = |did: &Did| match (facts.unseen, account(did)) {
        (0, account) => account,
        (_, account) => Account { culprits: Culprits::unknown(account.ledger.parts().steal_ns), ..account },
    };
    let task = |(n, did): (usize, &Did)| TaskObservation {
        id: TaskId(n as u32 + 1),
        name: "t".into(),
        tenant: SUBJECT,
        born_ns: start_ns,
        alive: did.lived == 0,
        last_cpu: None,
        account: of_task(did).into(),
    };
    let limits = |(n, did): (usize, &Did)| TaskLimits {
        task: TaskId(n as u32 + 1),
        process: TaskId(did.process),
        cpus: (!did.cpus.is_empty()).then(|| Arc::new(did.cpus.iter().map(|c| CpuId(*c)).collect())),
        is_isolated: false,
    };
    let mut own = facts.tasks.iter().map(of_task).fold(Account::default(), |sum, a| sum.plus(&a));
    let unseen = Parts { compute_ns: facts.unseen * MS, spin_ns: Some(0), ..Parts::default() };
    own.ledger = own.ledger.plus(&Ledger::new(unseen, facts.unseen * MS).unwrap());
    let ran = Parts { compute_ns: facts.neighbour.iter().sum::<u64>() * MS, ..Parts::default() };
    let neighbour = Account { ledger: Ledger::new(ran, ran.compute_ns).unwrap(), ..Account::default() };
    let of = |id, account, tasks| TenantObservation { id, tasks, account };
    // The subject's computing is laid on CPU 0 first.
    let computed: u64 = facts.unseen + facts.tasks.iter().map(|d| d.computed).sum::<u64>();
    let on_first = computed.min(WINDOW_MS - facts.neighbour[0]);
    let busy = [facts.neighbour[0] + on_first, (facts.neighbour[1] + computed - on_first).min(WINDOW_MS)];
    let cpu = |n: u32| {
        let (busy_ns, is_off) = (busy[n as usize] * MS, facts.off == Some(n));
        let rest_ns = WINDOW_MS * MS - busy_ns;
        let (idle_ns, unknown_ns) = if is_off { (0, rest_ns) } else { (rest_ns, 0) };
        CpuTime { cpu: CpuId(n), idle_ns, busy_ns, unknown_ns, host_steal_ns: Some(0) }
    };
    Observation {
        start_ns,
        end_ns: start_ns + WINDOW_MS * MS,
        tenants: vec![tenant(SUBJECT, "job"), tenant(NEIGHBOUR, "neighbour")],
        tasks: facts.tasks.iter().enumerate().map(task).collect(),
        by_tenant: vec![of(SUBJECT, own, facts.tasks.len() as u64), of(NEIGHBOUR, neighbour, 1)],
        limits: Limits {
            tasks: facts.tasks.iter().enumerate().map(limits).collect(),
            quotas: facts
                .quota
                .map(|cpus| CpuQuota { tenant: SUBJECT, cpus, period_ns: 100 * MS })
                .into_iter()
                .collect(),
        },
        cpus: vec![cpu(0), cpu(1)],
        loss: corun_model::observation::Loss { unseen_ns: facts.unseen * MS, ..Default::default() },
        ..Observation::default()
    }
}

fn verdict(course: &[Facts]) -> Verdict {
    let mut judge = Judge::new(SUBJECT, 0.02);
    course.iter().enumerate().for_each(|(at, facts)| judge.push(&observation(at as u64, facts)));
    judge.verdict(None)
}

/// `n` tasks that did the same.
fn alike(n: usize, did: Did) -> Vec<Did> {
    vec![did; n]
}

fn did(cpus: &[u32], computed: u64, stolen: u64, queued: u64) -> Did {
    Did {
        process: 1,
        cpus: cpus.to_vec(),
        computed,
        stolen,
        queued,
        futex: WINDOW_MS - computed - stolen - queued,
        ..Did::default()
    }
}

/// The same situation for five seconds.
fn steady(tasks: Vec<Did>, neighbour: [u64; 2]) -> Vec<Facts> {
    vec![Facts { tasks, neighbour, ..Facts::default() }; 20]
}

/// Situation, course and the share of the wall time that was lost, to be met within a hundredth.
fn table() -> Vec<(&'static str, Vec<Facts>, f64)> {
    let both = &[0, 1][..];
    let in_process = |process, did: Did| Did { process, ..did };
    let with = |quota, course: Vec<Facts>| -> Vec<Facts> {
        course.into_iter().map(|facts| Facts { quota: Some(quota), ..facts }).collect()
    };
    let limited = |computed, stolen| Did {
        throttled: WINDOW_MS - computed - stolen,
        futex: 0,
        ..did(both, computed, stolen, 0)
    };
    let mut script =
        steady(vec![did(&[], 0, 0, 0), Did { futex: 0, ..in_process(2, did(both, 0, 0, 0)) }], [250, 250]);
    for facts in &mut script[..4] {
        facts.tasks[1] = in_process(2, did(both, 125, 125, 0));
    }
    let mut short_one = steady(vec![in_process(1, did(&[0], 250, 0, 0))], [0, 250]);
    for facts in &mut short_one[..12] {
        facts.tasks.push(in_process(2, did(&[1], 125, 125, 0)));
    }
    let mut starved = steady(vec![Did { futex: 0, ..did(&[0], 0, 250, 0) }], [250, 0]);
    for facts in starved.iter_mut().skip(5).step_by(10) {
        *facts = Facts { tasks: vec![did(&[0], 250, 0, 0)], ..Facts::default() };
    }
    vec![
        ("starved for seconds by a loop of a higher class", starved, 0.9),
        ("alone on its CPU", steady(vec![did(both, 250, 0, 0)], [0, 0]), 0.0),
        ("half of its CPU is a loop's", steady(vec![did(&[0], 125, 125, 0)], [125, 0]), 0.5),
        ("a loop on a CPU that it may not use", steady(vec![did(&[0], 250, 0, 0)], [0, 250]), 0.0),
        ("four threads on one CPU, a loop on it", steady(alike(4, did(&[0], 31, 125, 94)), [126, 0]), 0.5),
        ("four threads on one CPU, a loop elsewhere", steady(alike(4, did(&[0], 62, 0, 188)), [0, 250]), 0.0),
        ("four threads on two CPUs, a loop on one", steady(alike(4, did(both, 62, 63, 125)), [250, 0]), 0.5),
        ("four threads on two CPUs, nobody else", steady(alike(4, did(both, 125, 0, 125)), [0, 0]), 0.0),
        (
            "two processes on a CPU each, a loop on one: the other decides",
            steady(
                vec![in_process(1, did(&[0], 250, 0, 0)), in_process(2, did(&[1], 125, 125, 0))],
                [0, 125],
            ),
            0.0,
        ),
        ("a short process beside a long one, a loop on its CPU", short_one, 0.0),
        ("at its quota, a loop in the way", with(0.2, steady(vec![limited(50, 50)], [150, 0])), 0.0),
        ("below its quota because of a loop", with(0.8, steady(vec![limited(125, 125)], [125, 0])), 0.375),
        (
            "a quota that the loop keeps it from reaching",
            with(0.5, steady(vec![limited(125, 125)], [125, 0])),
            0.0,
        ),
        ("computes for a moment, then waits for long", script, 0.1),
        (
            "sleeps, and loses a tenth of what it wants",
            steady(vec![Did { futex: 0, ..did(both, 20, 2, 0) }], [25, 25]),
            0.008,
        ),
        (
            "waits for a child that is stolen from",
            steady(vec![did(both, 0, 0, 0), in_process(2, did(both, 125, 125, 0))], [125, 0]),
            0.5,
        ),
    ]
}

#[test]
fn what_was_lost_follows_from_the_facts_and_verify_and_predict_say_the_same() {
    let mut wrong = Vec::new();
    for (situation, course, truth) in table() {
        let verdict = verdict(&course);
        // A quota may be full when a run begins: that is a period that the bound cannot exclude.
        let period = if course[0].quota.is_some() { 0.1 / 5.0 } else { 0.0 };
        if (verdict.disturbance - truth).abs() > 0.01 + period {
            wrong.push(format!("{situation}: {:.3} lost, truth {truth}", verdict.disturbance));
        }
        let mut predictor = Predictor::new(SUBJECT, Options::default());
        for (at, facts) in course.iter().enumerate() {
            let _ = predictor.push(&observation(at as u64, facts), Label::Shared);
        }
        let so_far = predictor.so_far().unwrap_or_else(|e| panic!("{situation}: {e}"));
        let lost = 1.0 - 1.0 / so_far.slowdown;
        if (lost - verdict.disturbance).abs() > 0.02 {
            wrong.push(format!("{situation}: verify says {:.3}, predict {lost:.3}", verdict.disturbance));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A shell that runs short commands: what it waits for CPUs is nobody's, since no one sees who had them, and it waits for its children.
fn shell(cpus: &[u32], computed: u64, waited: u64, unseen: u64, neighbour: [u64; 2]) -> Vec<Facts> {
    vec![Facts { unseen, tasks: vec![did(cpus, computed, waited, 0)], neighbour, ..Facts::default() }; 20]
}

#[test]
fn what_waits_for_its_own_short_commands_is_not_stolen_from_and_what_those_waited_is_not_known() {
    let unclear = Some(corun_predict::verdict::Doubt::Hasty);
    for (situation, course, most, doubt) in [
        ("pinned, nobody there", shell(&[0], 50, 100, 200, [0, 0]), 0.0, None),
        // Nothing was taken; but computing may have been slower, as far as the ledger is off.
        ("pinned, a loop on the other CPU", shell(&[0], 50, 100, 200, [0, 250]), 0.16, None),
        ("pinned, a loop on its CPU", shell(&[0], 25, 50, 100, [125, 0]), 0.5, unclear),
        (
            "pinned, a loop on its CPU, the shell waits for nothing",
            shell(&[0], 25, 0, 100, [125, 0]),
            0.5,
            unclear,
        ),
        ("anywhere, nobody there", shell(&[0, 1], 50, 50, 200, [0, 0]), 0.0, None),
        ("anywhere, a loop on one CPU", shell(&[0, 1], 50, 50, 200, [0, 250]), 0.5, unclear),
    ] {
        let found = verdict(&course);
        let [least, at_most] = found.disturbance_range;
        assert_eq!(found.doubt, doubt, "{situation}: {found:?}");
        assert!(least < 0.01 && (at_most - most).abs() < 0.02, "{situation}: {found:?}");
        assert_eq!(found.unseen_ns, course.iter().map(|facts| facts.unseen * MS).sum::<u64>());
    }
    // The shell alone waited for longer than its children had CPUs.
    let robbed = verdict(&shell(&[0], 50, 150, 25, [175, 0]));
    assert_eq!(robbed.verdict, corun_predict::Ruling::Disturbed, "{robbed:?}");
}

#[test]
fn what_may_have_come_out_of_a_sleep_is_an_interval_from_nothing() {
    for untold in [false, true] {
        let paced = steady(vec![Did { futex: 0, untold, ..did(&[0], 100, 100, 0) }], [150, 0]);
        let found = verdict(&paced);
        let [least, most] = found.disturbance_range;
        assert!(
            least == 0.0 && (0.39..0.41).contains(&found.disturbance) && most >= found.disturbance,
            "{found:?}"
        );
        assert_eq!(found.verdict, corun_predict::Ruling::Unclear, "the sums do not tell");
    }
    // Who never blocks has nothing that theft could come out of, whatever the source tells.
    let busy = steady(vec![Did { untold: true, ..did(&[0], 125, 125, 0) }], [125, 0]);
    assert_eq!(verdict(&busy).verdict, corun_predict::Ruling::Disturbed);
}

#[test]
fn the_interval_of_a_prediction_reaches_to_where_a_sleep_absorbed_the_theft_unless_a_replay_knows_better() {
    let paced = steady(vec![Did { futex: 0, ..did(&[0], 100, 100, 0) }], [150, 0]);
    let window_ns = WINDOW_MS * MS;
    let predicted = |alone: Option<f64>| {
        let mut predictor = Predictor::new(SUBJECT, Options::default());
        for (at, facts) in paced.iter().enumerate() {
            let at = at as u64;
            if let Some(alone) = alone {
                let (start_ns, end_ns) = (at * window_ns, (at + 1) * window_ns);
                let alone_ns = [0.99 * alone, alone, 1.01 * alone].map(|x| x * window_ns as f64);
                predictor.push_evidence(corun_predict::AloneTime {
                    start_ns,
                    end_ns,
                    alone_ns,
                    tells_spinning: false,
                    looked_ns: 0.0,
                });
            }
            let _ = predictor.push(&observation(at, facts), Label::Shared);
        }
        predictor.so_far().unwrap()
    };
    let by_sums = predicted(None);
    assert!(by_sums.slowdown > 1.5 && by_sums.interval[0] <= 1.0, "{by_sums:?}");
    let absorbed = predicted(Some(1.0));
    // A replay itself is some percent off.
    assert!(absorbed.slowdown < 1.01 && absorbed.interval[1] < 1.2, "{absorbed:?}");
    let mattered = predicted(Some(0.6));
    assert!(mattered.slowdown > 1.5 && mattered.interval[0] > 1.3, "{mattered:?}");
}

#[test]
fn evidence_decides_where_sums_do_not() {
    let paced = steady(vec![Did { futex: 0, ..did(&[0], 100, 100, 0) }], [150, 0]);
    let window_ns = WINDOW_MS * MS;
    let evidence = |at: u64| corun_predict::AloneTime {
        start_ns: at * window_ns,
        end_ns: (at + 1) * window_ns,
        alone_ns: [0.98, 1.0, 1.0].map(|x| x * window_ns as f64),
        tells_spinning: false,
        looked_ns: 0.0,
    };
    let mut judge = Judge::new(SUBJECT, 0.05);
    let mut predictor = Predictor::new(SUBJECT, Options::default());
    for (at, facts) in paced.iter().enumerate() {
        judge.push_evidence(evidence(at as u64));
        predictor.push_evidence(evidence(at as u64));
        judge.push(&observation(at as u64, facts));
        let _ = predictor.push(&observation(at as u64, facts), Label::Shared);
    }
    let verdict = judge.verdict(None);
    assert_eq!(verdict.verdict, corun_predict::Ruling::Clean);
    assert!(verdict.disturbance < 0.01, "{verdict:?}");
    // What the evidence leaves open, and how far off a replay is besides.
    assert!(verdict.disturbance_range[1] > 0.02 && verdict.disturbance_range[1] < 0.15, "{verdict:?}");
    assert!((predictor.so_far().unwrap().slowdown - 1.0).abs() < 0.01);
}

#[test]
fn who_was_not_seen_is_not_called_clean() {
    let nothing = verdict(&[]);
    let asleep = verdict(&steady(vec![Did { futex: 0, ..did(&[], 0, 0, 0) }], [0, 0]));
    for found in [nothing, asleep] {
        let unclear = (corun_predict::Ruling::Unclear, Some(corun_predict::verdict::Doubt::Unseen));
        assert_eq!((found.verdict, found.doubt), unclear);
    }
}

/// What is said of a run of which evidence says that each window would have taken these shares of its time alone.
fn verdict_with(course: &[Facts], alone: [f64; 3]) -> Verdict {
    let window_ns = WINDOW_MS * MS;
    let mut judge = Judge::new(SUBJECT, 0.02);
    for (at, facts) in (0..).zip(course) {
        judge.push_evidence(corun_predict::AloneTime {
            start_ns: at * window_ns,
            end_ns: (at + 1) * window_ns,
            alone_ns: alone.map(|share| share * window_ns as f64),
            tells_spinning: false,
            looked_ns: 0.0,
        });
        judge.push(&observation(at, facts));
    }
    judge.verdict(None)
}

#[test]
fn who_may_have_lost_more_than_was_allowed_is_not_called_clean() {
    let paced = steady(vec![Did { futex: 0, ..did(&[0], 100, 100, 0) }], [150, 0]);
    for (least, doubt) in [(0.99, None), (0.92, Some(corun_predict::verdict::Doubt::Unbounded))] {
        let found = verdict_with(&paced, [least, 1.0, 1.0]);
        assert!(found.disturbance < 0.02, "{found:?}");
        assert_eq!(found.doubt, doubt, "{least}: {found:?}");
    }
}

#[test]
fn what_the_evidence_leaves_open_stays_open_whatever_sums_say() {
    // Sums say that much was lost; by the log it may be nothing or most of it.
    let halved = steady(vec![did(&[0], 125, 125, 0)], [125, 0]);
    let found = verdict_with(&halved, [0.5, 1.0, 1.0]);
    assert!(found.disturbance_range[0] < 0.01, "{found:?}");
    assert_eq!(found.verdict, corun_predict::Ruling::Unclear, "{found:?}");
}

#[test]
fn no_evidence_overrules_a_bound() {
    let limited = Did { throttled: 150, futex: 0, ..did(&[0], 50, 50, 0) };
    let facts = Facts { tasks: vec![limited], neighbour: [200, 0], quota: Some(0.2), ..Facts::default() };
    let found = verdict_with(&vec![facts; 40], [0.2; 3]);
    assert!(found.disturbance <= 0.1 / 10.0 + 1e-9, "a quota allows no more than it does: {found:?}");
}

#[test]
fn a_cpu_that_is_off_bounds_nobody_and_one_that_is_on_does() {
    let crowded = |off| {
        let neighbour = [125, if off == Some(1) { 0 } else { 250 }];
        let tasks = alike(2, did(&[0, 1], 62, 63, 125));
        verdict(&vec![Facts { tasks, neighbour, off, ..Facts::default() }; 20]).disturbance
    };
    assert!((crowded(Some(1)) - 0.5).abs() < 0.01, "one CPU, half of which a loop has: {}", crowded(Some(1)));
    assert!(crowded(None) > 0.5, "alone they would have two: {}", crowded(None));
}

/// Situation, course, and the share of the wall time that was lost, where a limit changes half-way: if the program changed it itself,
/// and if somebody else did.
fn changing() -> Vec<(&'static str, Vec<Facts>, [f64; 2])> {
    let both = &[0, 1][..];
    let half = |tasks: Vec<Did>, neighbour, quota, off| {
        vec![Facts { tasks, neighbour, quota, off, ..Facts::default() }; 10]
    };
    let then = |first: Vec<Facts>, second: Vec<Facts>| [first, second].concat();
    // For 2.5 s it loses nine tenths, and does little.
    let starved = |cpus: &[u32], off| half(vec![did(cpus, 25, 225, 0)], [225, 0], None, off);
    // For 2.5 s two threads lose half on two CPUs.
    let halved = || half(alike(2, did(both, 125, 125, 0)), [125, 125], None, None);
    let free = |cpus: &[u32]| half(alike(2, did(cpus, 250, 0, 0)), [0, 0], None, None);
    let crowded = |cpus: &[u32], off| half(alike(2, did(cpus, 125, 0, 125)), [0, 0], None, off);
    let limited = |computed, quota, neighbour| {
        let did = Did { throttled: WINDOW_MS - computed, futex: 0, ..did(both, computed, 0, 0) };
        half(vec![did], [neighbour, 0], quota, None)
    };
    vec![
        ("a CPU comes", then(starved(both, Some(1)), free(both)), [0.45, 0.45]),
        ("a CPU goes", then(halved(), crowded(both, Some(1))), [0.25, 0.5]),
        ("an affinity becomes wider", then(starved(&[0], None), free(both)), [0.45, 0.45]),
        ("an affinity becomes narrower", then(halved(), crowded(&[0], None)), [0.25, 0.5]),
        ("a quota comes", then(starved(both, None), limited(50, Some(0.2), 0)), [0.45, 0.85]),
        (
            "a quota goes",
            then(limited(50, Some(0.2), 0), half(vec![did(&[0], 125, 125, 0)], [125, 0], None, None)),
            [0.25, 0.25],
        ),
    ]
}

#[test]
fn who_polls_for_a_worker_that_is_stolen_from_does_not_bound_what_was_lost() {
    let both = &[0, 1][..];
    // An event loop that blocks in polls of its own all the time, and a worker in another process that loses half.
    let event_loop = Did { futex: 0, ..did(both, 0, 0, 0) };
    let worker = Did { process: 2, ..did(both, 125, 125, 0) };
    let course = steady(vec![event_loop, worker], [125, 0]);
    let windows = course.iter().enumerate().map(|(at, f)| Window::of(&observation(at as u64, f), SUBJECT));
    let whole = Window::sum(&windows.collect::<Vec<_>>());
    let most = Bounds::of(&whole).most_lost_ns / whole.wall_ns;
    assert!((most - 0.5).abs() < 0.01, "at most {most} lost, truth 0.5");
}

#[test]
fn where_a_limit_changes_the_bounds_allow_what_was_lost_whoever_changed_it() {
    let mut wrong = Vec::new();
    for (situation, course, [by_itself, by_others]) in changing() {
        let windows =
            course.iter().enumerate().map(|(at, f)| Window::of(&observation(at as u64, f), SUBJECT));
        let whole = Window::sum(&windows.collect::<Vec<_>>());
        let most = Bounds::of(&whole).certain_ns / whole.wall_ns;
        if most < by_others - 0.001 {
            wrong.push(format!("{situation}: at most {most:.3} lost, truth {by_others}"));
        }
        let found = verdict(&course).disturbance;
        if found < by_itself - 0.03 || found > by_others + 0.03 {
            wrong.push(format!("{situation}: {found:.3} lost, truth {by_itself} or {by_others}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn some_did() -> impl Strategy<Value = Did> {
    let cpus = prop_oneof![Just(vec![0]), Just(vec![1]), Just(vec![0, 1]), Just(vec![])];
    (1u32..3, cpus, [0u64..50, 0u64..50, 0u64..50, 0u64..50, 0u64..50], any::<bool>()).prop_map(
        |(process, cpus, [computed, stolen, queued, futex, throttled], yields)| Did {
            process,
            cpus,
            computed,
            stolen,
            queued,
            futex,
            throttled,
            untold: false,
            stopped: 0,
            lived: 0,
            yields,
        },
    )
}

fn some_facts() -> impl Strategy<Value = Facts> {
    let tasks = proptest::collection::vec(some_did(), 1..5);
    (tasks, [0u64..120, 0u64..120], proptest::option::of(0.1..2.0f64))
        .prop_map(|(tasks, neighbour, quota)| Facts { tasks, neighbour, quota, ..Facts::default() })
}

proptest! {
    #[test]
    fn no_answer_exceeds_a_bound_and_intervals_sum_to_the_headline(course in proptest::collection::vec(some_facts(), 3..9)) {
        let windows: Vec<Window> =
            course.iter().enumerate().map(|(at, f)| Window::of(&observation(at as u64, f), SUBJECT)).collect();
        let whole = Window::sum(&windows);
        let wall_ns = whole.wall_ns;
        let loss = loss::of(&windows, corun_predict::alone::Hints::default(), &Counterfactual::default());
        let [least, likely, most] = loss.lost_ns;
        prop_assert!(least <= likely + 1e-3 && likely <= most + 1e-3 && most <= wall_ns + 1e-3, "{loss:?}");
        prop_assert!(loss.steal_ns <= likely.max(0.0) + 1.0, "{loss:?}");

        // Each bound by its definition, from the facts.
        let sum = |get: fn(&Did) -> u64| course.iter().flat_map(|f| &f.tasks).map(get).sum::<u64>() as f64 * MS as f64;
        let computed = sum(|d| d.computed);
        let neighbour = course.iter().flat_map(|f| f.neighbour).sum::<u64>() as f64 * MS as f64;
        prop_assert!(likely <= sum(|d| d.stolen + d.queued) + 1.0, "more than was stolen and queued");
        prop_assert!(likely <= neighbour + 1.0, "more than the neighbour had");
        prop_assert!(wall_ns - likely >= computed / 2.0 - 1.0, "faster than two CPUs");
        if course.iter().all(|f| f.quota.is_some()) {
            // No quota lets a program use more than it gives; where the facts say that one did, the window's own length is all they tell.
            let used = |f: &Facts| f.tasks.iter().map(|d| d.computed).sum::<u64>() as f64 / f.quota.unwrap();
            let used: f64 = course.iter().map(|f| used(f).min(WINDOW_MS as f64)).sum();
            prop_assert!(wall_ns - likely >= (used - 100.0) * MS as f64 - 1.0 || wall_ns < (used - 100.0) * MS as f64, "faster than its quota");
        }
        prop_assert!(likely <= Bounds::of(&whole).most_lost_ns + 1.0);

        let found = verdict(&course);
        prop_assert!((found.disturbance - (likely / wall_ns).max(0.0)).abs() < 1e-6, "verify {} and loss {}", found.disturbance, likely / wall_ns);
        let of_intervals: f64 = found.intervals.iter().map(|i| i.lost_ns()).sum();
        let elsewhere = found.disturbance * wall_ns - of_intervals;
        prop_assert!(elsewhere >= -1e3, "intervals lost more than the run: {found:?}");
        let outside_ns = wall_ns - found.intervals.iter().map(|i| (i.end_ns - i.start_ns) as f64).sum::<f64>();
        let allowed = 0.02f64.max(corun_predict::verdict::resolution(WINDOW_MS * MS));
        prop_assert!(elsewhere <= allowed * outside_ns + 1e3, "and the rest lost more than is allowed: {found:?}");
    }

    #[test]
    fn slots_add_up_whatever_they_are(course in proptest::collection::vec(some_facts(), 1..6)) {
        let windows: Vec<Window> =
            course.iter().enumerate().map(|(at, f)| Window::of(&observation(at as u64, f), SUBJECT)).collect();
        let mut losses = Losses::default();
        let each: Vec<Loss> = windows
            .iter()
            .map(|w| {
                let loss = Loss::of(w, corun_predict::alone::Hints::default());
                losses.push(w, &loss);
                loss
            })
            .collect();
        let (total, kept) = losses.total(&Counterfactual::default());
        let sum: f64 = each.iter().map(|l| l.lost_ns[1]).sum();
        prop_assert!((sum * kept - total.lost_ns[1]).abs() < 1.0 && (0.0..=1.0).contains(&kept));
    }
}
