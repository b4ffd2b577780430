//! The scheduler's knobs, on a kernel that has sched_ext: run in the test guest by `scripts/test-guest`.
//!
//! Nobody should load a scheduler for the whole machine by accident, so outside the guest every test here
//! only says so. The tests judge the counts of the guest's kernel (CPU time, stretches), as proportions and
//! numbers, never as seconds. The guest is emulated, and its own machine may take its CPUs away at any time.

mod cost;
mod hog;
mod knobs;
mod leaving;
mod serving;
mod shares;

use corun_bpf::{Scheduler, SchedulerConfig, TaskKnobs};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// One scheduler at a time; returns the lock. `None`, with a message, outside the guest.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    if std::env::var_os("CORUN_GUEST").is_none() {
        println!("not here: the scheduler is tested in the test guest (make test-guest)");
        return None;
    }
    Some(ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn config() -> SchedulerConfig {
    let cpus = std::thread::available_parallelism().expect("the guest tells its CPUs").get();
    SchedulerConfig::new(vec![0; cpus])
}

/// The scheduler with its lease held for the next minutes.
fn started(config: &SchedulerConfig) -> Scheduler {
    let scheduler = Scheduler::start(config).unwrap_or_else(|e| panic!("{e}"));
    scheduler.renew_lease(u64::MAX / 2);
    scheduler
}

/// A cell of its own under the root, with these tasks in it.
fn cell_of(scheduler: &Scheduler, weight: u32, tids: &[u32]) -> u32 {
    let cell = scheduler.new_cell(corun_bpf::ROOT_CELL, weight).expect("there is a free cell");
    for &tid in tids {
        scheduler
            .set_task(tid, &TaskKnobs { cell: Some(cell), ..TaskKnobs::default() })
            .expect("there is room");
    }
    scheduler.announce();
    cell
}

/// How long a cell's tasks have run so far, in nanoseconds.
fn ran_ns(scheduler: &Scheduler, cell: u32) -> u64 {
    scheduler.cells().iter().find(|c| c.id == cell).expect("the cell is in use").ran_ns
}

pub(crate) fn wait_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// The kernel's state of sched_ext: `enabled`, `disabled`.
fn state() -> String {
    std::fs::read_to_string("/sys/kernel/sched_ext/state").expect("the guest has sched_ext").trim().to_owned()
}

fn near(what: &str, is: f64, should_be: f64, by: f64) -> Result<(), String> {
    println!("{what}: {is:.3} (should be {should_be:.3})");
    if (is - should_be).abs() <= by {
        return Ok(());
    }
    Err(format!("{what}: {is:.3}, not {should_be:.3} ± {by}"))
}

/// Judges a result that depends on time: the best of three tries. The machine that emulates the guest may
/// take its CPUs away, and the guest's kernel counts that as time of its tasks. If that happened, and no try
/// succeeded, the test is skipped.
fn judge(mut attempt: impl FnMut() -> Result<(), String>) {
    let mut worst = 0.0_f64;
    let mut last = String::new();
    for _ in 0..3 {
        match attempt() {
            Ok(()) if last.is_empty() => return,
            Ok(()) => return println!("tried again: {last}"),
            Err(why) => last = why,
        }
        worst = worst.max(taken_away());
        println!("again, since {last}; of the time {:.1} % was taken away", worst * 100.0);
    }
    if worst > 0.02 {
        println!("skipped: the guest's CPUs were taken away for {:.0} % of the time: {last}", worst * 100.0);
        return;
    }
    panic!("three runs disagree: {last}");
}

/// The part of the next 200 ms in which a computing thread stands still for over a millisecond at a time.
fn taken_away() -> f64 {
    let began = Instant::now();
    let (mut last, mut still) = (began, Duration::ZERO);
    while began.elapsed() < Duration::from_millis(200) {
        let now = Instant::now();
        if now - last > Duration::from_millis(1) {
            still += now - last;
        }
        last = now;
    }
    still.as_secs_f64() / began.elapsed().as_secs_f64()
}
