//! Rust programs for `bench/adapt.py`, which measures the gain from adapting. Each prints its work per second.
//!
//! ```sh
//! kernels rayon|engine|widths THREADS|adaptive SECONDS
//! ```
//!
//! `widths` prints the number of threads instead, whenever it changes: nanoseconds since 1970, and the number.

use corun_adapt::{cpus, Mode, Pool, Width};
use corun_pdes::models::Phold;
use corun_pdes::{Idle, Mapping, Options, Run};
use rayon::prelude::*;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kernel, threads, seconds] = &words[..] else { return usage() };
    let threads = match threads.as_str() {
        "adaptive" => Some(None),
        number => number.parse().ok().map(Some),
    };
    let length = seconds.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let (Some(threads), Some(length)) = (threads, length) else { return usage() };
    match kernel.as_str() {
        "rayon" => println!("{}", with_rayon(threads, length)),
        "widths" => print_widths(threads, length),
        "engine" => println!("{}", with_engine(threads, length)),
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

/// Excluded from the measurement, since nothing is known in the first moments of a program. `widths` measures how soon it adapts.
const WARM_UP: Duration = Duration::from_millis(300);

fn usage() -> ExitCode {
    eprintln!("usage: kernels rayon|engine|widths THREADS|adaptive SECONDS");
    ExitCode::from(2)
}

fn width_of(threads: Option<u32>) -> Width {
    let mode = if threads.is_some() { Mode::Off } else { Mode::On };
    Width::new(mode, 1, threads.unwrap_or(cpus())).expect("/proc is mounted")
}

/// Some tens of microseconds of work.
fn part(n: u32) -> f64 {
    (0..5_000).fold(f64::from(n), |x, _| std::hint::black_box(x) * 0.999 + 0.5)
}

/// A loop of parallel steps of about 2 ms, whose threads wait for each other after each step.
fn print_widths(threads: Option<u32>, length: Duration) {
    let (begin, mut last) = (Instant::now(), 0);
    let width = width_of(threads);
    while begin.elapsed() < length {
        width.refresh();
        let now = width.threads();
        std::thread::scope(|scope| {
            for _ in 0..now {
                scope.spawn(move || std::hint::black_box((0..200 / now).map(part).sum::<f64>()));
            }
        });
        if std::mem::replace(&mut last, now) != now {
            let at = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
            println!("{} {now}", at.as_nanos());
        }
    }
}

/// Steps per second of a loop of parallel steps of about 2 ms. Without `threads` the loop adapts.
fn with_rayon(threads: Option<u32>, length: Duration) -> f64 {
    let pool = Pool::new(width_of(threads)).expect("threads can be started");
    let rate_over = |length| {
        let (begin, mut steps) = (Instant::now(), 0.0);
        while begin.elapsed() < length {
            std::hint::black_box(pool.install(|| (0..200u32).into_par_iter().map(part).sum::<f64>()));
            steps += 1.0;
        }
        steps / begin.elapsed().as_secs_f64()
    };
    rate_over(WARM_UP);
    rate_over(length)
}

/// Committed events per second of one run: with fixed mapping and this many workers, or with LADM and as many as get CPUs.
fn with_engine(threads: Option<u32>, length: Duration) -> f64 {
    let model = Phold::default();
    let workers = threads.unwrap_or(cpus());
    let width = || Arc::new(Width::new(Mode::On, 1, workers).expect("/proc is mounted"));
    let options = Options {
        workers: workers as usize,
        width: threads.is_none().then(width),
        mapping: if threads.is_some() { Mapping::Fixed { pin: false } } else { Mapping::ladm() },
        idle: if threads.is_some() { Idle::Spin } else { Idle::Block },
        ..Options::default()
    };
    let run = Run::new(&model, &options).expect("the options make sense");
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for worker in 0..options.workers {
            let run = &run;
            scope.spawn(move || run.work(worker, |_| begin.elapsed() < length));
        }
    });
    let took = begin.elapsed();
    run.finish().expect("it was only ended early").committed as f64 / took.as_secs_f64()
}
