//! The cost of a window when most tasks sleep: observing N threads that do nothing, and two that run.
//!
//! `cargo run --release -p corun-linux --example window-cost`, as root; half a minute.
//!
//! Method: windows of 25 ms, like those of a controller. The program measures the CPU time of the observing
//! thread from one window to the next. Between two windows it sleeps, so that others use the caches. It
//! prints the median of 100 windows. The difference to a run with fewer threads gives the cost of one more
//! sleeping thread.

use corun_linux::probe::{LiveHost, LiveOptions};
use corun_linux::target::Subject;
use corun_linux::{clock, Root};
use corun_model::Host;
use std::sync::mpsc::{channel, Sender};

const WINDOWS: usize = 100;
const WINDOW_NS: u64 = 25_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let busy = [0, 1].map(|_| std::thread::spawn(|| spin_for(25)));
    let mut sleepers: Vec<Sleeper> = Vec::new();
    let mut before: Option<(usize, u64)> = None;
    println!("{:>8}{:>12}{:>20}", "tasks", "us/window", "ns/task more");
    for wanted in [0, 500, 2_000, 8_000] {
        while sleepers.len() < wanted {
            sleepers.push(Sleeper::start()?);
        }
        let (tasks, ns) = median_window()?;
        let more = before.map_or(String::new(), |(t, n)| {
            format!("{:.0}", (ns as f64 - n as f64) / (tasks as f64 - t as f64))
        });
        println!("{tasks:>8}{:>12.0}{more:>20}", ns as f64 / 1e3);
        before = Some((tasks, ns));
    }
    drop(sleepers);
    busy.into_iter().for_each(|thread| thread.join().expect("a loop does not panic"));
    Ok(())
}

/// The number of tasks, and the CPU time of a window in nanoseconds.
fn median_window() -> Result<(usize, u64), Box<dyn std::error::Error>> {
    let mut host = LiveHost::start(&Root::new("/"), LiveOptions::new(Subject::All))?;
    let (mut costs, mut tasks) = (Vec::new(), 0);
    for _ in 0..WINDOWS {
        let start_ns = clock::thread_cpu_ns();
        host.advance(WINDOW_NS)?;
        let seen = host.observe()?;
        tasks = seen.tasks.len();
        drop(seen);
        costs.push(clock::thread_cpu_ns() - start_ns);
    }
    costs.sort_unstable();
    Ok((tasks, costs[WINDOWS / 2]))
}

/// A thread that sleeps until this is dropped.
struct Sleeper {
    _wake: Sender<()>,
}

impl Sleeper {
    fn start() -> std::io::Result<Sleeper> {
        let (wake, sleep) = channel::<()>();
        std::thread::Builder::new().stack_size(64 << 10).spawn(move || sleep.recv().ok())?;
        Ok(Sleeper { _wake: wake })
    }
}

fn spin_for(seconds: u64) {
    let end_ns = clock::now_ns() + seconds * 1_000_000_000;
    while clock::now_ns() < end_ns {
        std::hint::spin_loop();
    }
}
