//! Logs and windows whose truth is known, and what is said of them.

use super::*;
use corun_model::culprit::Share;
use corun_model::ledger::Held;
use corun_model::observation::{Account, TaskObservation};
use corun_model::run_log::For;
use corun_model::{CpuId, Culprits, Ledger, Parts, Tenant};
use std::sync::Arc;

const MS: u64 = 1_000_000;
const SUBJECT: TenantId = TenantId(0);
const DATABASE: TenantId = TenantId(1);
const LOOP: TenantId = TenantId(2);
const IDLE: TenantId = TenantId(3);
const CLIENT: TaskId = TaskId(10);
const BACKEND: TaskId = TaskId(20);

/// Where 100 ms of a task went, in milliseconds: queued for the loop, throttled, stopped, on a CPU; the rest it was blocked.
fn task(id: TaskId, tenant: TenantId, [queued, throttled, stopped, ran]: [u64; 4]) -> TaskObservation {
    let parts = Parts {
        compute_ns: ran * MS,
        steal_ns: queued * MS,
        throttled_ns: throttled * MS,
        held: Some(Held { stopped_ns: stopped * MS, frozen_ns: 0 }),
        block_ns: (100 - queued - throttled - stopped - ran) * MS,
        ..Parts::default()
    };
    let share = Share { tenant: LOOP, steal_ns: queued * MS };
    let account = Account {
        ledger: Ledger::new(parts, 100 * MS).unwrap(),
        culprits: Culprits::new([share], 0, queued * MS).unwrap(),
        ..Account::default()
    };
    let (name, last_cpu) = ("task".into(), Some(CpuId(0)));
    TaskObservation { id, name, tenant, born_ns: 0, alive: true, last_cpu, account: Arc::new(account) }
}

/// The window of that number, 100 ms long.
fn window(n: u64, tasks: &[TaskObservation]) -> Observation {
    let tenant = |id, name: &str, kind| Tenant { id, kind, key: name.into(), name: name.into() };
    Observation {
        start_ns: n * 100 * MS,
        end_ns: (n + 1) * 100 * MS,
        tenants: vec![
            tenant(SUBJECT, "client", TenantKind::Command),
            tenant(DATABASE, "database", TenantKind::Unit),
            tenant(LOOP, "loop", TenantKind::Command),
            tenant(IDLE, "idle", TenantKind::Idle),
        ],
        tasks: tasks.to_vec(),
        ..Observation::default()
    }
}

fn log(from_ms: u64, to_ms: u64, events: &[(u64, TaskId, What)]) -> RunLog {
    let event = |&(ms, task, what): &(u64, TaskId, What)| Event { t_ns: ms * MS, task, what };
    let events = events.iter().map(event).collect();
    RunLog { start_ns: from_ms * MS, end_ns: to_ms * MS, events, ..RunLog::default() }
}

const SLEEPS: What = What::Leaves(Left::Waits(For::Pipe));

fn woken_by(task: TaskId) -> What {
    What::Woken(Waker::Task(task))
}

/// What is said of a client that waits for the database from 10 to 90 ms of a window in which that was kept from a CPU like this.
fn of(queued: u64, throttled: u64, stopped: u64) -> Server {
    let mut servers = Servers::default();
    let tasks =
        [task(CLIENT, SUBJECT, [0, 0, 0, 20]), task(BACKEND, DATABASE, [queued, throttled, stopped, 5])];
    let waits = [(10, CLIENT, SLEEPS), (90, CLIENT, woken_by(BACKEND))];
    servers.push(&log(0, 100, &waits), &window(0, &tasks), SUBJECT);
    let [found] = &servers.found().unwrap()[..] else { panic!("one server") };
    found.clone()
}

#[test]
fn what_a_server_lost_is_bounded_by_the_wait_for_it_and_by_what_it_lost_in_the_window() {
    for (queued, throttled, stopped, bounds) in [
        (0, 0, 0, [[0, 0]; 3]),
        (15, 0, 0, [[0, 15], [0, 0], [0, 0]]),
        (50, 0, 0, [[30, 50], [0, 0], [0, 0]]),
        (90, 0, 0, [[70, 80], [0, 0], [0, 0]]),
        (0, 60, 0, [[0, 0], [40, 60], [0, 0]]),
        (0, 0, 95, [[0, 0], [0, 0], [75, 80]]),
        (40, 40, 10, [[20, 40], [20, 40], [0, 10]]),
    ] {
        let found = of(queued, throttled, stopped);
        assert_eq!((&*found.tenant, found.waited_ns), ("database", 80 * MS));
        let said = [found.queued_ns, found.throttled_ns, found.held_ns];
        assert_eq!(said, bounds.map(|b| b.map(|ms: u64| ms * MS)), "{queued} {throttled} {stopped}");
        let charged: u64 = found.culprits.iter().map(|c| c.steal_ns).sum();
        assert_eq!(charged + found.unattributed_ns, found.queued_ns[1]);
    }
}

#[test]
fn what_the_program_itself_the_servers_own_tasks_and_an_idle_cpu_took_is_as_it_would_be_alone() {
    for (holder, taken_ms) in [(LOOP, 50), (SUBJECT, 0), (DATABASE, 0), (IDLE, 0)] {
        let mut backend = task(BACKEND, DATABASE, [50, 0, 0, 5]);
        let share = Share { tenant: holder, steal_ns: 50 * MS };
        Arc::make_mut(&mut backend.account).culprits = Culprits::new([share], 0, 50 * MS).unwrap();
        let mut servers = Servers::default();
        let waits = [(0, CLIENT, SLEEPS), (100, CLIENT, woken_by(BACKEND))];
        servers.push(&log(0, 100, &waits), &window(0, &[backend]), SUBJECT);
        assert_eq!(servers.found().unwrap()[0].queued_ns, [taken_ms * MS; 2], "{holder:?}");
    }
}

#[test]
fn only_a_task_outside_that_ended_a_rest_is_a_server() {
    let (own, second) = (TaskId(11), What::Leaves(Left::Preempted));
    let runs = What::Runs { cpu: CpuId(0), may: Default::default() };
    for (facts, events, waited_ms) in [
        ("the database answers", vec![(10, CLIENT, SLEEPS), (90, CLIENT, woken_by(BACKEND))], 80),
        ("a timer", vec![(10, CLIENT, SLEEPS), (90, CLIENT, What::Woken(Waker::Interrupt))], 0),
        ("nobody has yet", vec![(10, CLIENT, SLEEPS)], 0),
        ("somebody who did not run", vec![(10, CLIENT, SLEEPS), (90, CLIENT, woken_by(TaskId(77)))], 0),
        ("it was asleep before", vec![(90, CLIENT, woken_by(BACKEND))], 90),
        (
            "it ran, unseen so far",
            vec![(50, CLIENT, second), (60, CLIENT, SLEEPS), (90, CLIENT, woken_by(BACKEND))],
            30,
        ),
        (
            "the answer came before it slept",
            vec![(5, CLIENT, runs), (9, CLIENT, woken_by(BACKEND)), (10, CLIENT, SLEEPS), (40, CLIENT, runs)],
            30,
        ),
        (
            "its own task ended the wait",
            vec![(5, own, runs), (10, CLIENT, SLEEPS), (20, own, SLEEPS), (90, CLIENT, woken_by(own))],
            0,
        ),
        (
            "another task of it runs until then",
            vec![(5, own, runs), (10, CLIENT, SLEEPS), (60, own, SLEEPS), (90, CLIENT, woken_by(BACKEND))],
            30,
        ),
        (
            "another task of it has ended by then",
            vec![
                (5, own, runs),
                (10, CLIENT, SLEEPS),
                (60, own, What::Leaves(Left::Ended)),
                (90, CLIENT, woken_by(BACKEND)),
            ],
            30,
        ),
        (
            "it is started by somebody",
            vec![(20, CLIENT, What::Born { parent: BACKEND, process: 10 }), (30, CLIENT, SLEEPS)],
            0,
        ),
    ] {
        let mut servers = Servers::default();
        let tasks = [task(BACKEND, DATABASE, [50, 0, 0, 5])];
        servers.push(&log(0, 100, &events), &window(0, &tasks), SUBJECT);
        let found = servers.found().unwrap();
        let waited_ns: u64 = found.iter().map(|server| server.waited_ns).sum();
        assert_eq!(waited_ns, waited_ms * MS, "{facts}: {found:?}");
    }
}

#[test]
fn who_is_stopped_does_not_wait_for_the_one_who_lets_it_go_on() {
    let mut servers = Servers::default();
    let tasks = [task(CLIENT, SUBJECT, [0, 0, 80, 20]), task(BACKEND, DATABASE, [50, 0, 0, 5])];
    let waits = [(10, CLIENT, SLEEPS), (90, CLIENT, woken_by(BACKEND))];
    servers.push(&log(0, 100, &waits), &window(0, &tasks), SUBJECT);
    assert_eq!(servers.found(), Some(vec![]));
}

#[test]
fn a_wait_over_many_windows_is_joined_with_each_of_them_once_it_is_known_who_ended_it() {
    for windows in [2, 10, 1_000] {
        let mut servers = Servers::default();
        let last = (windows - 1) * 100 + 50;
        for n in 0..windows {
            let events = match n {
                0 => vec![(50, CLIENT, SLEEPS)],
                n if n + 1 == windows => vec![(last, CLIENT, woken_by(BACKEND))],
                _ => vec![],
            };
            let tasks = [task(BACKEND, DATABASE, [20, 0, 0, 5])];
            let part = log(n * 100 + 1, n * 100 + 101, &events);
            servers.push(&part, &window(n, &tasks), SUBJECT);
            assert!(servers.windows.len() <= MOST_WINDOWS + 1);
        }
        let [found] = &servers.found().unwrap()[..] else { panic!("one server") };
        assert_eq!(found.waited_ns, (windows - 1) * 100 * MS);
        let [least, most] = found.queued_ns;
        let truth = (windows - 2) * 20 * MS;
        assert!(least <= truth && truth <= most && most <= windows * 20 * MS, "{windows}: {found:?}");
        assert_eq!(most, found.culprits.iter().map(|c| c.steal_ns).sum::<u64>() + found.unattributed_ns);
    }
}

#[test]
fn a_log_that_lost_events_says_nothing_any_more() {
    let mut servers = Servers::default();
    servers.push(&log(0, 100, &[]), &window(0, &[]), SUBJECT);
    assert_eq!(servers.found(), Some(vec![]));
    servers.push(&RunLog { lost: 1, ..log(100, 200, &[]) }, &window(1, &[]), SUBJECT);
    servers.push(&log(200, 300, &[]), &window(2, &[]), SUBJECT);
    assert_eq!(servers.found(), None);
}

mod bounds {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever a window has, the bounds are in order and within the wait, which is within the window, and every
        /// nanosecond of the most has a holder or none that is known.
        #[test]
        fn nothing_is_said_twice(waits in proptest::collection::vec((0u64..100, 0u64..100), 0..8),
                                 queued in 0u64..40, throttled in 0u64..30, stopped in 0u64..20) {
            let mut servers = Servers::default();
            let mut events = vec![];
            let mut now = 0;
            for (after, lasts) in waits {
                events.push((now + after, CLIENT, SLEEPS));
                now += after + lasts;
                events.push((now, CLIENT, woken_by(BACKEND)));
            }
            let end = 100 * (now / 100 + 1);
            for n in 0..end / 100 {
                let mine = |e: &&(u64, TaskId, What)| e.0 / 100 == n;
                let part: Vec<_> = events.iter().filter(mine).copied().collect();
                let tasks = [task(BACKEND, DATABASE, [queued, throttled, stopped, 5])];
                servers.push(&log(n * 100, (n + 1) * 100, &part), &window(n, &tasks), SUBJECT);
            }
            for found in servers.found().unwrap() {
                prop_assert!(found.waited_ns <= end * MS);
                for [least, most] in [found.queued_ns, found.throttled_ns, found.held_ns] {
                    prop_assert!(least <= most && most <= found.waited_ns, "{found:?}");
                }
                let charged: u64 = found.culprits.iter().map(|c| c.steal_ns).sum();
                prop_assert_eq!(charged + found.unattributed_ns, found.queued_ns[1]);
            }
        }
    }
}
