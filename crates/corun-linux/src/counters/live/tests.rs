//! The arithmetic of windows, and this machine's counters if it has any.

use super::*;
use crate::clock;
use crate::launch::Held;
use crate::sched::own_tid;
use corun_model::ledger::{Ledger, Parts};
use corun_model::observation::{Account, TaskObservation, TenantObservation};
use corun_model::{Tenant, TenantKind};
use proptest::prelude::*;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::JoinHandle;

const ME: TenantId = TenantId(0);

/// A window in which only these tasks ran (number, time on a CPU, whether still there).
fn window(tasks: &[(TaskId, u64, bool)]) -> Observation {
    let window_ns = 1_000_000_000.max(tasks.iter().map(|t| t.1).max().unwrap_or(0));
    let account = |on_cpu_ns| {
        let parts = Parts { compute_ns: on_cpu_ns, block_ns: window_ns - on_cpu_ns, ..Parts::default() };
        Account { ledger: Ledger::new(parts, window_ns).unwrap(), ..Account::default() }
    };
    let mut listed: Vec<TaskObservation> = tasks
        .iter()
        .map(|&(id, on_cpu_ns, alive)| TaskObservation {
            id,
            name: "t".into(),
            tenant: ME,
            born_ns: 0,
            alive,
            last_cpu: None,
            account: account(on_cpu_ns).into(),
        })
        .collect();
    listed.sort_by_key(|t| t.id);
    let sum = listed.iter().fold(Account::default(), |a, t| a.plus(&t.account));
    Observation {
        start_ns: 0,
        end_ns: window_ns,
        tenants: vec![Tenant { id: ME, kind: TenantKind::Command, key: "t".into(), name: "t".into() }],
        by_tenant: vec![TenantObservation { id: ME, tasks: listed.len() as u64, account: sum }],
        tasks: listed,
        ..Observation::default()
    }
}

/// A thread that computes this many steps on request, and returns their CPU time.
struct Worker {
    tid: TaskId,
    go: Sender<u64>,
    took: Receiver<u64>,
    thread: JoinHandle<()>,
}

/// Keeps the steps from being computed at compile time.
static SINK: AtomicU64 = AtomicU64::new(0);

impl Worker {
    fn start() -> Worker {
        let (tell, told) = channel();
        let (go, steps) = channel::<u64>();
        let (done, took) = channel();
        let thread = std::thread::spawn(move || {
            tell.send(TaskId(own_tid())).unwrap();
            for n in steps {
                let before_ns = clock::thread_cpu_ns();
                let mut x = n;
                for i in 0..n {
                    x = std::hint::black_box(x.wrapping_mul(31) ^ i);
                }
                SINK.fetch_add(x, Ordering::Relaxed);
                done.send(clock::thread_cpu_ns() - before_ns).unwrap();
            }
        });
        Worker { tid: told.recv().unwrap(), go, took, thread }
    }

    /// Computes, and says for how long.
    fn compute(&self, steps: u64) -> u64 {
        self.go.send(steps).unwrap();
        self.took.recv().unwrap()
    }

    fn end(self) {
        drop(self.go);
        self.thread.join().unwrap();
    }
}

/// This machine's counters; says why the test is skipped if there are none.
fn live(themes: &[Theme], grain: Grain) -> Option<LivePerf> {
    let options = Options { themes: themes.to_vec(), grain, ..Options::new(Some(ME)) };
    match LivePerf::start(options) {
        Ok(perf) => Some(perf),
        Err(refusal) => {
            println!("skipped: {refusal}");
            None
        }
    }
}

#[test]
fn a_threads_steps_are_counted_window_by_window() {
    let Some(mut perf) = live(&[Theme::Pace], Grain::Task) else { return };
    let worker = Worker::start();
    perf.follow(&[worker.tid]);
    let mut counted = Vec::new();
    for steps in [20_000_000, 40_000_000] {
        let mut seen = window(&[(worker.tid, worker.compute(steps), true)]);
        perf.read(&mut seen);
        let counters = seen.tasks[0].account.counters.expect("followed all the time");
        assert_eq!(seen.by_tenant[0].account.counters, Some(counters), "a tenant of one task");
        let instructions = counters.instructions.unwrap();
        assert!(instructions > steps, "a step is more than one instruction, not {instructions}");
        assert!(counters.branches.unwrap() >= steps / 2, "{counters:?}");
        assert!(counters.cycles.unwrap() > 0 && counters.branch_misses.unwrap() < steps / 10, "{counters:?}");
        assert_eq!(counters.llc_misses, None, "what was not asked for is unknown, not zero");
        counted.push(instructions as f64);
    }
    // Twice the steps; interrupts and waking the thread add little to tens of millions of instructions.
    let ratio = counted[1] / counted[0];
    assert!((1.8..2.2).contains(&ratio), "{counted:?}");
    worker.end();
}

/// A hypervisor that keeps a counter for itself does not say so: the last event of a full group never counts.
#[test]
fn cycles_and_instructions_are_counted_whatever_was_requested() {
    for themes in [&[Theme::Work][..], &[Theme::Pace, Theme::Work], &Theme::ALL] {
        let Some(mut perf) = live(themes, Grain::Task) else { return };
        let worker = Worker::start();
        perf.follow(&[worker.tid]);
        // Long enough for every group to get its turns.
        let steps = 200_000_000;
        let mut seen = window(&[(worker.tid, worker.compute(steps), true)]);
        perf.read(&mut seen);
        let counters = seen.tasks[0].account.counters.expect("followed all the time");
        // Sums of groups that take turns are estimates.
        let (cycles, instructions) = (counters.cycles.unwrap(), counters.instructions.unwrap());
        assert!(
            cycles > steps / 20 && instructions > steps / 2,
            "{themes:?}: {counters:?} {:?}",
            perf.plan()
        );
        worker.end();
    }
}

#[test]
fn a_thread_is_counted_from_the_window_after_it_first_ran() {
    let Some(mut perf) = live(&[Theme::Pace], Grain::Task) else { return };
    let worker = Worker::start();
    let mut first = window(&[(worker.tid, worker.compute(20_000_000), true)]);
    perf.read(&mut first);
    assert_eq!(first.tasks[0].account.counters, None);
    assert_eq!(first.by_tenant[0].account.counters, None);
    assert!(first.unavailable.iter().any(|u| u.what == What::CountersOfNewTasks));
    let mut second = window(&[(worker.tid, worker.compute(20_000_000), true)]);
    perf.read(&mut second);
    assert!(second.tasks[0].account.counters.is_some());
    let tid = worker.tid;
    worker.end();
    let mut third = window(&[(tid, 0, false)]);
    perf.read(&mut third);
    assert_eq!(perf.followed(), 0, "who has ended is not followed");
}

#[test]
fn everything_that_this_machine_counts_has_a_count_and_a_precision() {
    let Some(mut perf) = live(&Theme::ALL, Grain::Task) else { return };
    let worker = Worker::start();
    perf.follow(&[worker.tid]);
    let ns = worker.compute(100_000_000);
    let mut seen = window(&[(worker.tid, ns, true)]);
    perf.read(&mut seen);
    let counters = seen.tasks[0].account.counters.unwrap();
    let precision = perf.precision().unwrap();
    assert!((0.0..=1.0).contains(&precision.counted_share) && precision.relative_error <= 1.0);
    for &counter in perf.plan().counters.keys() {
        let groups_fit = precision.counted_share > 0.0;
        assert!(!groups_fit || counters.get(counter).is_some(), "{counter:?}");
    }
    let exact = seen.unavailable.iter().all(|u| u.what != What::ExactCounters);
    assert_eq!(exact, precision.counted_share >= 0.999, "taking turns is said");
    worker.end();
}

#[test]
fn no_more_files_are_opened_than_allowed_and_the_busiest_are_followed() {
    let Some(perf) = live(&[Theme::Pace], Grain::Task) else { return };
    let files_max = perf.plan().events() * 2;
    let themes = vec![Theme::Pace];
    let mut perf = LivePerf::start(Options { themes, files_max, ..Options::new(None) }).unwrap();
    let workers: Vec<Worker> = (0..3).map(|_| Worker::start()).collect();
    let tasks: Vec<_> = workers.iter().zip([5_000_000, 7_000_000, 6_000_000]).collect();
    let busy: Vec<_> = tasks.iter().map(|(w, ns)| (w.tid, *ns, true)).collect();
    perf.read(&mut window(&busy));
    assert_eq!(perf.followed(), 2);
    let mut second = window(&busy);
    perf.read(&mut second);
    assert!(!perf.followed.contains_key(&workers[0].tid), "the least busy is the one left out");
    let said = second.unavailable.iter().find(|u| u.what == What::CountersOfLessBusy).unwrap();
    assert!(matches!(&said.why, Why::NoFilesForCounters { error, .. } if error == "EMFILE"), "{}", said.why);
    workers.into_iter().for_each(Worker::end);
}

#[test]
fn a_command_is_counted_with_everything_that_it_starts() {
    let Some(mut perf) = live(&[Theme::Pace], Grain::Tree(ME)) else { return };
    let mut command = Command::new("sh");
    command.args(["-c", "for i in 1 2 3; do sh -c 'n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done'; done"]);
    let held = Held::start(command).unwrap();
    let tid = TaskId(held.pid());
    perf.follow(&[tid]);
    let running = held.release().unwrap();
    let status = running.wait().unwrap();
    assert!(status.success());
    // The kernel's enabled time replaces the ledger's: it covers the whole tree only if the children are
    // included.
    let sum = perf.read_all();
    let whole = &sum[&tid];
    let instructions = perf.plan.counters(&whole.read, perf.turn_ns).instructions.unwrap();
    assert!(instructions > 3 * 20_000 * 100, "three loops of 20,000 rounds in a shell, not {instructions}");
    assert!(whole.enabled_ns() > 0);
}

#[test]
fn a_task_that_may_not_be_inspected_is_not_followed_and_one_that_has_gone_is_no_error() {
    let Some(mut perf) = live(&[Theme::Pace], Grain::Task) else { return };
    perf.follow(&[TaskId(i32::MAX as u32 - 1)]);
    assert_eq!(perf.followed(), 0);
}

#[test]
fn counting_that_costs_too_much_is_reported_with_its_cost() {
    let Some(mut perf) = live(&[Theme::Pace], Grain::Task) else { return };
    perf.switch = Some(SwitchCost { bare_ns: 1_000, counted_ns: 34_000 });
    let worker = Worker::start();
    perf.follow(&[worker.tid]);
    let mut said = Vec::new();
    for switches in [1, 1_000_000] {
        let ns = worker.compute(20_000_000);
        let mut seen = window(&[(worker.tid, ns, true)]);
        let events = &mut seen.by_tenant[0].account.events;
        (events.blocked, events.preemptions) = (Some(switches), Some(0));
        perf.read(&mut seen);
        let cost = perf.own_cost().unwrap();
        assert!((cost / (switches as f64 * 33_000.0 / ns as f64) - 1.0).abs() < 0.01, "{cost}");
        said.push(seen.unavailable.iter().any(|u| {
            u.what == What::UndisturbedRun && matches!(u.why, Why::CountingIsDear { added_ns: 33_000, .. })
        }));
    }
    assert_eq!(said, [false, true]);
    worker.end();
}

#[test]
fn two_tasks_with_one_number_in_one_window_have_no_counters() {
    let Some(mut perf) = live(&[Theme::Pace], Grain::Task) else { return };
    let worker = Worker::start();
    perf.follow(&[worker.tid]);
    let ns = worker.compute(1_000_000).max(1);
    let mut seen = window(&[(worker.tid, ns, false), (worker.tid, ns, true)]);
    perf.read(&mut seen);
    assert!(seen.tasks.iter().all(|t| t.account.counters.is_none()));
    worker.end();
}

proptest! {
    #[test]
    fn a_part_of_nine_tenths_counts_as_the_whole_and_less_does_not(
        whole_ns in 1u64 << 30..1 << 40, part in 0.0..1.0, cycles in 0u64..1 << 50,
    ) {
        let part_ns = (whole_ns as f64 * part) as u64;
        let scaled = whole(Counters { cycles: Some(cycles), ..Counters::default() }, part_ns, whole_ns);
        prop_assert_eq!(scaled.is_some(), whole_ns - part_ns <= whole_ns / 10);
        if let Some(scaled) = scaled {
            let n = scaled.cycles.unwrap();
            prop_assert!(n >= cycles && n as f64 <= cycles as f64 * 1.12 + 1.0);
            prop_assert_eq!(scaled.llc_misses, None);
        }
    }

    #[test]
    fn a_task_that_was_followed_too_late_is_not_covered(on_cpu_ns in 0u64..1 << 40, late in 0.0..1.0) {
        let enabled_ns = (on_cpu_ns as f64 * (1.0 - late)) as u64;
        let window = Window { read: vec![vec![Reading { value: 0, enabled_ns, running_ns: 0 }]] };
        let missing = on_cpu_ns - enabled_ns;
        prop_assert_eq!(window.covers(on_cpu_ns), missing <= SLACK_NS || missing <= on_cpu_ns / 10);
    }
}
