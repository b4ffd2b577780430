//! A part of a run is judged by what happened in it: tables of windows, and what is said of spans in them.

use corun_model::culprit::Share;
use corun_model::ledger::BlockReasons;
use corun_model::limits::{CpuQuota, Limits};
use corun_model::observation::{Account, CpuTime, TaskObservation, TenantObservation, HOST_STEAL_TICK_NS};
use corun_model::run_log::{CpuMask, Event, For, Left, RunLog, Waker, What};
use corun_model::{CpuId, Culprits, Ledger, Observation, Parts, TaskId, Tenant, TenantId, TenantKind};
use corun_predict::spans::{Cause, Judged, Span, Unsure};
use corun_predict::{Judge, Ruling, MAX_DISTURBANCE};

pub(super) const MS: u64 = 1_000_000;
pub(super) const SUBJECT: TenantId = TenantId(0);
const OTHER: TenantId = TenantId(1);
/// The length of a window.
pub(super) const WINDOW: u64 = 100 * MS;
/// The host's clock when the run begins.
pub(super) const BEGIN: u64 = 5_000 * MS;

/// What one task does in a window, in milliseconds; the rest of it sleeps.
#[derive(Clone, Copy, Default)]
pub(super) struct Does {
    computes: u64,
    /// Waits for a CPU that another program holds.
    stolen: u64,
    /// Waits for a CPU that another task of its own program holds.
    queued: u64,
    throttled: u64,
}

pub(super) const COMPUTES: Does = Does { computes: 100, stolen: 0, queued: 0, throttled: 0 };
pub(super) const STARVES: Does = Does { computes: 20, stolen: 80, queued: 0, throttled: 0 };
const SLEEPS: Does = Does { computes: 0, stolen: 0, queued: 0, throttled: 0 };

fn account(parts: Parts, culprits: Culprits) -> Account {
    Account { ledger: Ledger::new(parts, WINDOW).unwrap(), culprits, ..Account::default() }
}

pub(super) fn window(n: usize, does: Does, quota: Option<CpuQuota>) -> Observation {
    let Does { computes, stolen, queued, throttled } = does;
    let steal_ns = (stolen + queued) * MS;
    let parts = Parts {
        compute_ns: computes * MS,
        steal_ns,
        throttled_ns: throttled * MS,
        block_ns: WINDOW - (computes + throttled) * MS - steal_ns,
        ..Parts::default()
    };
    let share = |tenant, ms| Share { tenant, steal_ns: ms * MS };
    let culprits = Culprits::new([share(OTHER, stolen), share(SUBJECT, queued)], 0, steal_ns).unwrap();
    let own = account(parts, culprits);
    let others_ns = stolen * MS;
    let idle = Parts { compute_ns: others_ns, block_ns: WINDOW - others_ns, ..Parts::default() };
    let start_ns = BEGIN + n as u64 * WINDOW;
    let busy_ns = (computes + stolen) * MS;
    let tenant = |id: TenantId, name: &str| Tenant {
        id,
        kind: TenantKind::Command,
        key: name.into(),
        name: name.into(),
    };
    let of = |id, account| TenantObservation { id, tasks: 1, account };
    Observation {
        start_ns,
        end_ns: start_ns + WINDOW,
        tenants: vec![tenant(SUBJECT, "tests"), tenant(OTHER, "make -j8")],
        cpus: vec![CpuTime {
            cpu: CpuId(0),
            idle_ns: WINDOW - busy_ns,
            busy_ns,
            unknown_ns: 0,
            host_steal_ns: Some(0),
        }],
        tasks: vec![TaskObservation {
            id: TaskId(7),
            name: "tests".into(),
            tenant: SUBJECT,
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: own.clone().into(),
        }],
        by_tenant: vec![of(SUBJECT, own), of(OTHER, account(idle, Culprits::default()))],
        limits: Limits { quotas: quota.into_iter().collect(), ..Limits::default() },
        ..Observation::default()
    }
}

fn judge_of(windows: &[Does], quota: Option<CpuQuota>) -> Judge {
    let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE).of_parts();
    windows.iter().enumerate().for_each(|(n, does)| judge.push(&window(n, *does, quota)));
    judge
}

/// A stretch that begins so late in the run, perhaps as much later, and is so long, in milliseconds.
fn span(at: u64, open: u64, length: u64) -> Span {
    let earliest_ns = BEGIN + at * MS;
    Span { earliest_ns, latest_ns: earliest_ns + open * MS, length_ns: length * MS }
}

fn judged(judge: &Judge, span: Span) -> Judged {
    judge.parts().unwrap().judge(&span)
}

fn cause(judge: &Judge, span: Span) -> Cause {
    judge.parts().unwrap().judge_test(&span).cause
}

/// Ten windows, of which these do something else.
fn but(usual: Does, at: std::ops::Range<usize>, other: Does) -> Vec<Does> {
    (0..10).map(|n| if at.contains(&n) { other } else { usual }).collect()
}

#[test]
fn of_tests_that_ran_at_a_time_none_was_starved_where_all_together_lost_less_than_one_may() {
    let nobody = |judge: &Judge, at, length| judge.parts().unwrap().starved_nobody(&span(at, 0, length));
    let a_little = Does { computes: 94, stolen: 6, ..SLEEPS };
    let judge = judge_of(&but(COMPUTES, 3..4, a_little), None);
    assert!(nobody(&judge, 0, 250) && nobody(&judge, 250, 200), "6 ms of 200");
    assert!(!nobody(&judge, 390, 50), "6 ms of 50, should all of them have been in its last 10");
    assert!(!nobody(&judge_of(&[STARVES; 10], None), 0, 900));
    let queues = Does { computes: 70, queued: 30, ..SLEEPS };
    assert!(!nobody(&judge_of(&[queues; 10], None), 0, 900), "tests crowd each other");
    let throttled = Does { computes: 50, throttled: 50, ..SLEEPS };
    assert!(!nobody(&judge_of(&[throttled; 10], None), 0, 900));
}

#[test]
fn an_iteration_is_judged_by_its_own_span_and_not_by_the_whole_run() {
    let judge = judge_of(&but(COMPUTES, 3..5, STARVES), None);
    let of = |at, length| judged(&judge, span(at, 0, length));
    assert_eq!(judge.verdict(None).verdict, Ruling::Disturbed);
    assert_eq!((of(0, 300).verdict, of(500, 500).verdict), (Ruling::Clean, Ruling::Clean));
    let disturbed = of(300, 200);
    assert_eq!((disturbed.verdict, disturbed.culprit), (Ruling::Disturbed, Some(OTHER)));
    assert!((disturbed.lost[1] - 0.8).abs() < 1e-9, "{disturbed:?}");
    assert_eq!((disturbed.stolen_ns.round(), disturbed.waited_ns.round()), (160e6, 160e6));
    assert_eq!(judge.name_of(OTHER), Some("make -j8"));
}

#[test]
fn what_a_window_lost_beyond_an_iteration_is_not_blamed_on_it_nor_forgiven() {
    let judge = judge_of(&but(COMPUTES, 3..4, STARVES), None);
    // A tenth of the window that lost four fifths: it may have lost nothing of it, or all.
    let edge = judged(&judge, span(390, 0, 100));
    assert_eq!((edge.verdict, edge.unsure), (Ruling::Unclear, Some(Unsure::Place)));
    assert!((edge.lost[0], edge.lost[2]) == (0.0, 0.1), "{edge:?}");
    // Of nine tenths, seven at least.
    let most = judged(&judge, span(310, 0, 90));
    assert_eq!(most.verdict, Ruling::Disturbed);
    assert!((most.lost[0] - 70.0 / 90.0).abs() < 1e-9, "{most:?}");
}

#[test]
fn where_a_tool_does_not_say_when_it_began_only_what_holds_of_every_place_is_said() {
    let judge = judge_of(&but(COMPUTES, 4..10, STARVES), None);
    let of = |at, open, length| judged(&judge, span(at, open, length));
    assert_eq!(of(0, 200, 200).verdict, Ruling::Clean, "wherever it was, nothing was lost there");
    assert_eq!(of(500, 200, 300).verdict, Ruling::Disturbed, "wherever it was, something was");
    assert_eq!(of(100, 500, 300).unsure, Some(Unsure::Place));
}

#[test]
fn a_short_iteration_is_disturbed_if_it_was_at_every_place_at_which_it_can_have_been() {
    let judge = judge_of(&[STARVES; 10], None);
    let found = judged(&judge, span(0, 500, 50));
    assert_eq!(found.verdict, Ruling::Disturbed, "{found:?}");
    // Astride of two windows it may have missed all but a tenth.
    assert!(found.lost[0] > 0.1 && found.lost[2] <= 1.0, "{found:?}");
    let judge = judge_of(&but(STARVES, 5..6, COMPUTES), None);
    assert_eq!(
        judged(&judge, span(0, 900, 50)).unsure,
        Some(Unsure::Place),
        "it may have been in the calm window"
    );
}

/// The log of a run whose task waits for a CPU in these milliseconds, of a thousand.
fn log(waits: &[(u64, u64)]) -> RunLog {
    let event = |ms: u64, what| Event { t_ns: BEGIN + ms * MS, task: TaskId(7), what };
    let runs = What::Runs { cpu: CpuId(0), may: CpuMask::ALL };
    let of_wait =
        |&(from, until): &(u64, u64)| [event(from, What::Leaves(Left::Preempted)), event(until, runs)];
    let events = [event(0, runs)].into_iter().chain(waits.iter().flat_map(of_wait)).collect();
    RunLog { start_ns: BEGIN, end_ns: BEGIN + 1_000 * MS, events, ..RunLog::default() }
}

#[test]
fn what_a_window_lost_was_lost_where_its_tasks_waited() {
    let mut judge = judge_of(&but(COMPUTES, 3..4, STARVES), None);
    let of = |judge: &Judge, at, open, length| judged(judge, span(at, open, length));
    assert_eq!(of(&judge, 382, 0, 18).unsure, Some(Unsure::Place), "it may have been there");
    judge.push_log(&log(&[(300, 380)]));
    assert_eq!(of(&judge, 382, 0, 18).verdict, Ruling::Clean);
    assert_eq!(of(&judge, 382, 10, 60).verdict, Ruling::Clean, "wherever it began");
    let inside = of(&judge, 320, 10, 40);
    assert!(
        inside.verdict == Ruling::Disturbed && inside.lost[0] > 0.9,
        "it waited all the time: {inside:?}"
    );
    assert_eq!(inside.stolen_ns.round(), 40e6);
    assert_eq!(of(&judge, 370, 0, 20).lost.map(|x| (x * 100.0).round()), [50.0; 3]);
}

#[test]
fn waits_for_others_than_co_runners_leave_open_which_of_them_were_stolen() {
    let does = Does { computes: 60, stolen: 40, ..Does::default() };
    let mut judge = judge_of(&but(COMPUTES, 3..4, does), None);
    // Twice as long as was stolen.
    judge.push_log(&log(&[(300, 340), (350, 390)]));
    let first = judged(&judge, span(300, 0, 40));
    assert_eq!((first.lost[0], first.unsure), (0.0, Some(Unsure::Place)), "{first:?}");
    assert!(first.lost[2] > 0.9, "{first:?}");
    assert_eq!(judged(&judge, span(390, 0, 50)).verdict, Ruling::Clean, "nobody waited then");
}

#[test]
fn a_test_that_failed_is_told_what_kept_it_from_its_cpus() {
    let quota = CpuQuota { tenant: SUBJECT, cpus: 0.3, period_ns: 100 * MS };
    let throttled = Does { computes: 30, throttled: 70, ..Does::default() };
    let queued = Does { computes: 40, queued: 60, ..Does::default() };
    let little = Does { computes: 95, stolen: 5, ..Does::default() };
    let table = [
        ("it computed all the time", COMPUTES, None, Cause::NotStarved),
        ("it slept until its time was up", SLEEPS, None, Cause::NotStarved),
        ("a compiler held its CPU", STARVES, None, Cause::Starved),
        ("its quota was used up", throttled, Some(quota), Cause::Throttled),
        ("other tests held its CPU", queued, None, Cause::CannotTell(Unsure::Siblings)),
        ("a twentieth was taken", little, None, Cause::NotStarved),
    ];
    for (what, does, quota, wanted) in table {
        let judge = judge_of(&[does; 10], quota);
        assert_eq!(cause(&judge, span(100, 0, 700)), wanted, "{what}");
    }
}

/// The same window with a test runner in it, which sleeps until a time-out and is stolen from whenever it wakes up.
fn with_runner(mut seen: Observation) -> Observation {
    let parts = Parts { compute_ns: MS, steal_ns: 5 * MS, block_ns: WINDOW - 6 * MS, ..Parts::default() };
    let culprits = Culprits::new([Share { tenant: OTHER, steal_ns: 5 * MS }], 0, 5 * MS).unwrap();
    let block = BlockReasons { poll_ns: parts.block_ns, ..BlockReasons::default() };
    let runner = Account { block: Some(block), ..account(parts, culprits) };
    let own = &mut seen.by_tenant[0];
    let asleep = BlockReasons { futex_ns: own.account.ledger.parts().block_ns, ..BlockReasons::default() };
    own.account.block = Some(asleep);
    std::sync::Arc::make_mut(&mut seen.tasks[0].account).block = Some(asleep);
    own.account.add(&runner);
    own.tasks = 2;
    seen.tasks.push(TaskObservation { id: TaskId(8), account: runner.into(), ..seen.tasks[0].clone() });
    seen
}

/// A window of a shell that starts one short process after another: each computes for 5 ms, and then it waits for a CPU as long. It computes
/// next to nothing itself.
pub(super) fn of_shell(n: usize) -> Observation {
    let mut seen = window(n, Does { stolen: 50, ..Does::default() }, None);
    for child in 0..10 {
        let parts = Parts { compute_ns: 5 * MS, ..Parts::default() };
        let account = Account { ledger: Ledger::new(parts, 5 * MS).unwrap(), ..Account::default() };
        let own = &mut seen.by_tenant[0];
        own.account.add(&account);
        own.tasks += 1;
        let id = TaskId(100 + 10 * n as u32 + child);
        seen.tasks.push(TaskObservation { id, account: account.into(), ..seen.tasks[0].clone() });
    }
    seen
}

/// What it does in ten windows, and one that runs all the time, or not.
fn log_of_shell(another_runs: bool) -> RunLog {
    let runs = What::Runs { cpu: CpuId(0), may: CpuMask::ALL };
    let mut events = Vec::new();
    let mut event =
        |ms: u64, task, what| events.push(Event { t_ns: BEGIN + ms * MS, task: TaskId(task), what });
    if another_runs {
        event(0, 9, runs);
    }
    for n in 0..100 {
        let (at, child) = (10 * n, 100 + n as u32);
        event(at, child, runs);
        event(at, 7, What::Leaves(Left::Waits(For::Child)));
        event(at + 5, child, What::Leaves(Left::Ended));
        event(at + 5, 7, What::Woken(Waker::Task(TaskId(child))));
        event(at + 10, 7, runs);
    }
    RunLog { start_ns: BEGIN, end_ns: BEGIN + 1_000 * MS, events, ..RunLog::default() }
}

#[test]
fn a_test_that_stands_still_while_its_shell_waits_for_a_cpu_is_starved() {
    let judged = |log: Option<RunLog>| {
        let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE).of_parts();
        (0..10).for_each(|n| judge.push(&with_runner(of_shell(n))));
        log.iter().for_each(|log| judge.push_log(log));
        judge.parts().unwrap().judge_test(&span(105, 0, 300))
    };
    // What the runner waits for says nothing of the test.
    let still = judged(Some(log_of_shell(false)));
    assert!(still.cause == Cause::Starved && (0.4..=0.5).contains(&still.lost[0]), "{still:?}");
    for log in [None, Some(log_of_shell(true))] {
        let found = judged(log);
        assert!(matches!(found.cause, Cause::CannotTell(_)), "whether it mattered is not known: {found:?}");
    }
}

#[test]
fn a_switch_that_nobody_told_of_starves_no_test() {
    let little = Does { computes: 99, stolen: 1, ..Does::default() };
    let judged = |judge: &mut Judge, events: Vec<Event>| {
        judge.push_log(&RunLog { start_ns: BEGIN, end_ns: BEGIN + 1_000 * MS, events, ..RunLog::default() });
        judge.parts().unwrap().judge_test(&span(105, 0, 300))
    };
    let event = |ms: u64, what| Event { t_ns: BEGIN + ms * MS, task: TaskId(7), what };
    let runs = What::Runs { cpu: CpuId(0), may: CpuMask::ALL };
    let left = What::Leaves(Left::Preempted);
    // It leaves its CPU for 1 ms in every 100. Nobody tells that it came back.
    let untold = (0..10)
        .flat_map(|n| [event(100 * n + 10, left), event(100 * n + 90, left), event(100 * n + 91, runs)]);
    let found =
        judged(&mut judge_of(&[little; 10], None), [event(0, runs)].into_iter().chain(untold).collect());
    assert!(found.cause == Cause::NotStarved && found.lost[2] <= 0.02, "its ledger says 1 %: {found:?}");
    // The same log, of a task whose ledger agrees.
    let told = (0..10).flat_map(|n| [event(100 * n + 10, left), event(100 * n + 90, runs)]);
    let found =
        judged(&mut judge_of(&[STARVES; 10], None), [event(0, runs)].into_iter().chain(told).collect());
    assert_eq!(found.cause, Cause::Starved, "{found:?}");
}

#[test]
fn a_test_that_a_time_out_ended_was_starved_although_its_runner_slept_as_long_as_it_would_have() {
    for (does, wanted) in [(STARVES, Cause::Starved), (COMPUTES, Cause::NotStarved)] {
        let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE).of_parts();
        (0..10).for_each(|n| judge.push(&with_runner(window(n, does, None))));
        assert_eq!(cause(&judge, span(100, 0, 700)), wanted);
    }
}

#[test]
fn a_throttled_program_is_not_disturbed_by_a_neighbour_that_costs_it_nothing() {
    // Half a CPU for a minute, all of it used. What the neighbour takes, the quota would have taken.
    let quota = CpuQuota { tenant: SUBJECT, cpus: 0.5, period_ns: 100 * MS };
    let does = Does { computes: 50, stolen: 20, throttled: 30, ..Does::default() };
    let judge = judge_of(&[does; 600], Some(quota));
    assert_eq!(judge.verdict(None).verdict, Ruling::Clean);
    let test = judged(&judge, span(10_000, 0, 2_000));
    assert_eq!((test.verdict, cause(&judge, span(10_000, 0, 2_000))), (Ruling::Clean, Cause::Throttled));
    assert_eq!(test.throttled_ns.round(), 600e6);
}

/// A run whose task computes, and from whose CPU the hypervisor took so many ticks of 10 ms in each window, as they were told.
fn under_hypervisor(ticks: &[u64], does: Does) -> Judge {
    let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE).of_parts();
    for (n, ticks) in ticks.iter().enumerate() {
        let mut seen = window(n, does, None);
        seen.cpus[0].host_steal_ns = Some(ticks * HOST_STEAL_TICK_NS);
        judge.push(&seen);
    }
    judge
}

#[test]
fn what_the_hypervisor_took_is_held_against_the_whole_stretch_and_the_limits_of_all_else() {
    let cannot = |why| Cause::CannotTell(why);
    let sleeps = Does { computes: 10, ..Does::default() };
    let table = [
        ("a tick in a second", [0, 0, 0, 0, 1, 0, 0, 0, 0, 0], COMPUTES, Ruling::Clean, Cause::NotStarved),
        (
            "a twentieth of the test",
            [0, 1, 0, 1, 0, 1, 0, 1, 0, 0],
            COMPUTES,
            Ruling::Unclear,
            Cause::NotStarved,
        ),
        ("a fifth of it", [2; 10], COMPUTES, Ruling::Unclear, cannot(Unsure::Hypervisor)),
        (
            "a burst in it",
            [0, 0, 0, 9, 9, 0, 0, 0, 0, 0],
            COMPUTES,
            Ruling::Unclear,
            cannot(Unsure::Hypervisor),
        ),
        ("a burst after it", [0, 0, 0, 0, 0, 0, 0, 0, 9, 9], COMPUTES, Ruling::Clean, Cause::NotStarved),
        (
            "all of what it computed, a hundredth of it",
            [0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
            sleeps,
            Ruling::Clean,
            Cause::NotStarved,
        ),
    ];
    for (what, ticks, does, ruling, wanted) in table {
        let judge = under_hypervisor(&ticks, does);
        let found = judge.parts().unwrap().judge_test(&span(50, 0, 700));
        assert_eq!((found.verdict, found.cause), (ruling, wanted), "{what}");
    }
    let judge = under_hypervisor(&[0, 0, 0, 9, 9, 0, 0, 0, 0, 0], COMPUTES);
    assert_eq!(cause(&judge, span(0, 250, 200)), cannot(Unsure::Hypervisor), "it may have been there");
    assert_eq!(cause(&judge, span(500, 200, 200)), Cause::NotStarved, "wherever it was");
    let judge = under_hypervisor(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1], COMPUTES);
    assert_eq!(cause(&judge, span(900, 0, 60)), Cause::NotStarved, "the tick was a second in the filling");
    let judge = under_hypervisor(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 2], COMPUTES);
    assert_eq!(cause(&judge, span(900, 0, 60)), cannot(Unsure::Hypervisor), "a sixth, wherever it was taken");
}

#[test]
fn what_was_not_watched_is_not_judged() {
    let judge = judge_of(&[COMPUTES; 10], None);
    for outside in
        [span(800, 0, 400), span(2_000, 0, 100), Span { earliest_ns: 0, latest_ns: 0, length_ns: MS }]
    {
        let found = judged(&judge, outside);
        assert_eq!(
            (found.verdict, found.cause),
            (Ruling::Unclear, Cause::CannotTell(Unsure::Unwatched)),
            "{outside:?}"
        );
    }
    let mut forgets = Judge::new(SUBJECT, MAX_DISTURBANCE);
    forgets.push(&window(0, COMPUTES, None));
    assert!(forgets.parts().is_none());
}
