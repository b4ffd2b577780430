//! The cost of counting: following and reading N tasks, and a context switch between two tasks that are
//! followed.
//!
//! `cargo run --release -p corun-linux --example counter-cost`, on a quiet machine. It takes less than a
//! minute.
//!
//! Method: two threads wake each other ([`ping_pong`]). Rounds without counting alternate with rounds of each
//! kind of counting, in rotating order. The program compares each round with its neighbor without counting.
//! It prints the median of these ratios and their middle half.

use corun_linux::counters::cost::{ping_pong, Who};
use corun_linux::counters::{Grain, LivePerf, Options, Theme};
use corun_linux::{clock, Root};
use corun_model::{CounterSource, Observation, TaskId, TenantId};
use std::sync::mpsc::{channel, Sender};

const TURNS: u64 = 10_000;
const ROUNDS: usize = 21;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plan = open(&Theme::ALL, Grain::Task)?;
    println!(
        "{:?}, {} events in {} groups",
        plan.plan().table,
        plan.plan().events(),
        plan.plan().groups.len()
    );
    for tasks in [1, 10, 100, 1000] {
        following(tasks)?;
    }
    switching()
}

fn open(themes: &[Theme], grain: Grain) -> Result<LivePerf, String> {
    let files_max = 1 << 20;
    let options = Options { root: Root::new("/"), of: None, themes: themes.to_vec(), grain, files_max };
    LivePerf::start(options).map_err(|r| format!("{r}; {}", r.optional_remedy()))
}

/// Following and reading this many sleeping threads.
fn following(tasks: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (tell, told) = channel();
    let sleepers: Vec<(Sender<()>, std::thread::JoinHandle<()>)> = (0..tasks)
        .map(|_| {
            let (wake, sleep) = channel::<()>();
            let tell = tell.clone();
            let thread = std::thread::spawn(move || {
                tell.send(TaskId(tid())).ok();
                sleep.recv().ok();
            });
            (wake, thread)
        })
        .collect();
    let ids: Vec<TaskId> = told.iter().take(tasks).collect();
    for (themes, name) in [(&Theme::ALL[..1], "pace"), (&Theme::ALL[..], "all")] {
        let mut perf = open(themes, Grain::Task)?;
        let start_ns = clock::thread_cpu_ns();
        perf.follow(&ids);
        let follow_ns = clock::thread_cpu_ns() - start_ns;
        perf.read(&mut Observation::default());
        let start_ns = clock::thread_cpu_ns();
        perf.read(&mut Observation::default());
        let read_ns = clock::thread_cpu_ns() - start_ns;
        let followed = perf.followed().max(1) as u64;
        println!(
            "{name:>5}: {followed:>5} tasks followed, {:>6.1} µs each; read in {:>5.2} µs each",
            follow_ns as f64 / followed as f64 / 1e3,
            read_ns as f64 / followed as f64 / 1e3
        );
    }
    for (wake, thread) in sleepers {
        drop(wake);
        thread.join().map_err(|_| "a thread panicked")?;
    }
    Ok(())
}

/// A way of counting: its name, what is counted, and whether the threads are counted as a whole.
type Way = (&'static str, &'static [Theme], bool);

const WAYS: [Way; 4] = [
    ("pace, by task", &[Theme::Pace], false),
    ("everything, by task", &Theme::ALL, false),
    ("pace, as a whole", &[Theme::Pace], true),
    ("everything, as a whole", &Theme::ALL, true),
];

fn switching() -> Result<(), Box<dyn std::error::Error>> {
    let base = round(None)?;
    println!("a switch takes {base:.0} ns without counting");
    let mut ratios = vec![Vec::new(); WAYS.len()];
    for n in 0..ROUNDS {
        for k in 0..WAYS.len() {
            let way = (n + k) % WAYS.len();
            let (before, counted, after) = (round(None)?, round(Some(WAYS[way]))?, round(None)?);
            let near = (before + after) / 2.0;
            ratios[way].push((counted / near, counted - near));
        }
    }
    for ((name, ..), mut all) in WAYS.into_iter().zip(ratios) {
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at = |q: usize| all[all.len() * q / 4];
        println!(
            "{name:>24}: × {:.2} ({:.2}-{:.2}), + {:.0} ns a switch",
            at(2).0,
            at(1).0,
            at(3).0,
            at(2).1
        );
    }
    Ok(())
}

/// One round of two threads that wake each other, in nanoseconds a switch. If they are counted as a whole,
/// their creator is followed.
fn round(way: Option<Way>) -> Result<f64, Box<dyn std::error::Error>> {
    let mut perf = match way {
        Some((_, themes, true)) => Some((open(themes, Grain::Tree(TenantId(0)))?, true)),
        Some((_, themes, false)) => Some((open(themes, Grain::Task)?, false)),
        None => None,
    };
    let ns = ping_pong(TURNS, |who| {
        match (who, &mut perf) {
            (Who::Creator(creator), Some((perf, true))) => perf.follow(&[creator]),
            (Who::Players(players), Some((perf, false))) => perf.follow(&players),
            _ => {}
        }
        Ok(())
    })?;
    match perf {
        Some((perf, whole)) if perf.followed() != if whole { 1 } else { 2 } => {
            Err("the threads cannot be followed".into())
        }
        _ => Ok(ns as f64),
    }
}

fn tid() -> u32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() as u32 }
}
