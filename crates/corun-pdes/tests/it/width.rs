//! Workers park when fewer are wanted. This test plays the controller that says how many.

use corun_adapt::{Mode, Peer, Width};
use corun_pdes::models::Phold;
use corun_pdes::{run_sequentially, Mapping, Options, Outcome, Run};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The width is read twenty times a second, so it is read several times in this.
const LENGTH: Duration = Duration::from_millis(600);

fn model() -> Phold {
    Phold { lps: 64, ..Phold::default() }
}

/// A controller finds one page in a process. So runs take turns.
static ONE_PAGE: Mutex<()> = Mutex::new(());

/// The outcome of a run of two workers up to this virtual time, if it gets that far. A controller advises
/// this number of threads.
fn advised(threads: impl Fn() -> u32 + Sync, mapping: Mapping, until: u64) -> Outcome {
    let _one_page = ONE_PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let width = Width::new(Mode::On, 1, 2).unwrap();
    width.publish().unwrap();
    let controller = Peer::find(std::process::id()).unwrap().expect("the page was just published");
    let options = Options { workers: 2, mapping, until, width: Some(Arc::new(width)), ..Options::default() };
    let model = model();
    let run = Run::new(&model, &options).unwrap();
    let begin = Instant::now();
    thread::scope(|scope| {
        for worker in 0..2 {
            let (run, controller, threads) = (&run, &controller, &threads);
            scope.spawn(move || {
                run.work(worker, |_| {
                    controller.advise(threads());
                    until < u64::MAX || begin.elapsed() < LENGTH
                });
            });
        }
    });
    run.finish().unwrap()
}

fn parked(outcome: &Outcome) -> u64 {
    outcome.workers.iter().map(|worker| worker.parked).sum()
}

#[test]
fn under_ladm_a_worker_parks_while_one_is_wanted_and_the_other_takes_over() {
    let outcome = advised(|| 1, Mapping::ladm(), u64::MAX);
    let [one, other] = &outcome.workers[..] else { panic!("{outcome:?}") };
    assert!((one.parked > 0) != (other.parked > 0), "{outcome:?}");
    let stays = if one.parked > 0 { other } else { one };
    assert!(stays.took_over > 0 && outcome.committed > 0, "{outcome:?}");
}

#[test]
fn no_worker_parks_while_all_are_wanted_or_if_none_could_take_over() {
    for (threads, mapping) in [(2, Mapping::ladm()), (1, Mapping::Fixed { pin: false }), (1, Mapping::Pool)] {
        assert_eq!(parked(&advised(|| threads, mapping, u64::MAX)), 0, "{mapping:?}");
    }
}

#[test]
fn with_any_advice_the_trace_is_that_of_the_sequential_engine() {
    let until = 1_000_000;
    let calls = AtomicU32::new(0);
    // One worker and two alternate.
    let in_turn = || 1 + calls.fetch_add(1, Relaxed) / 1_000 % 2;
    let outcome = advised(in_turn, Mapping::ladm(), until);
    let options = Options { until, ..Options::default() };
    assert_eq!(outcome.traces, run_sequentially(&model(), &options).unwrap().traces);
    let is_long = outcome.wall > LENGTH / 2;
    assert!(parked(&outcome) > 0 || !is_long, "the advice was followed: {outcome:?}");
}
