//! Runs on the caller's own threads, which may be ended early.

use corun_pdes::models::Phold;
use corun_pdes::{run_sequentially, Mapping, Options, Run};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

fn options(until: u64) -> Options {
    Options { until, workers: 2, gvt_every: 64, ..Options::default() }
}

#[test]
fn the_callers_threads_commit_what_the_sequential_engine_commits() {
    let (model, options) = (Phold { lps: 64, ..Phold::default() }, options(20_000));
    let run = Run::new(&model, &options).unwrap();
    let told = AtomicU64::new(0);
    thread::scope(|scope| {
        for worker in 0..2 {
            let (run, told) = (&run, &told);
            scope.spawn(move || {
                run.work(worker, |committed| {
                    told.fetch_add(committed, Relaxed);
                    true
                });
            });
        }
    });
    let outcome = run.finish().unwrap();
    assert_eq!(outcome.traces, run_sequentially(&model, &options).unwrap().traces);
    let told = told.into_inner();
    assert!(told > 0 && told <= outcome.committed, "{told} of {} were told", outcome.committed);
}

#[test]
fn an_endless_run_ends_when_one_worker_says_so_and_commits_certain_events() {
    let (model, options) = (Phold { lps: 64, ..Phold::default() }, options(u64::MAX));
    let run = Run::new(&model, &options).unwrap();
    thread::scope(|scope| {
        for worker in 0..2 {
            let run = &run;
            let mut own = 0;
            scope.spawn(move || {
                run.work(worker, |committed| {
                    own += committed;
                    own < 10_000
                });
            });
        }
    });
    let outcome = run.finish().unwrap();
    assert!(outcome.committed >= 10_000 && outcome.committed <= outcome.handled, "{outcome:?}");
}

/// The result of a run of two workers. Their threads work under these numbers, each until `goes_on` was
/// called this many times.
fn said(mapping: Mapping, numbers: &[usize]) -> String {
    let model = Phold { lps: 64, ..Phold::default() };
    let options = Options { mapping, ..options(u64::MAX) };
    let run = Run::new(&model, &options).unwrap();
    thread::scope(|scope| {
        for &number in numbers {
            let (run, mut asked) = (&run, 0);
            scope.spawn(move || {
                run.work(number, |_| {
                    asked += 1;
                    asked < 500
                });
            });
        }
    });
    run.finish().expect_err("it is refused").to_string()
}

#[test]
fn a_wrong_a_repeated_and_a_missing_thread_are_one_error_each() {
    for mapping in [Mapping::Fixed { pin: false }, Mapping::Pool, Mapping::ladm()] {
        let table: [(&[usize], &str); 5] = [
            (&[0, 2], "there is no worker 2: they are numbered from 0, and there are 2"),
            (&[7], "there is no worker 7: they are numbered from 0, and there are 2"),
            (&[1, 1, 0], "worker 1 works twice: give each thread its own number, and call `work` once"),
            (&[0], "worker 1 of 2 never worked: call `work` for each, on a thread of its own"),
            (&[], "worker 0 of 2 never worked: call `work` for each, on a thread of its own"),
        ];
        for (numbers, sentence) in table {
            assert_eq!(said(mapping, numbers), sentence, "{mapping:?}, {numbers:?}");
        }
    }
}

#[test]
fn under_ladm_others_do_the_work_of_a_thread_that_never_joins() {
    let (model, options) = (Phold { lps: 64, ..Phold::default() }, options(20_000));
    let run = Run::new(&model, &options).unwrap();
    run.work(1, |_| true);
    assert_eq!(run.finish().unwrap().traces, run_sequentially(&model, &options).unwrap().traces);
}
