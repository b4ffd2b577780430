//! A run whose workers are the caller's threads, and which may be ended early.

use corun_pdes::models::Phold;
use corun_pdes::{run_sequentially, Options, Run};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

fn options(until: u64) -> Options {
    Options { until, workers: 2, gvt_every: 64, ..Options::default() }
}

#[test]
fn threads_of_the_callers_commit_what_the_sequential_engine_does() {
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
fn a_run_without_end_ends_when_one_worker_is_told_so_and_commits_what_is_certain() {
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
