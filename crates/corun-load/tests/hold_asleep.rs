//! Calibrated interference with its real threads and a sleeping victim.
//!
//! The only test of this file has the process to itself, so the CPU time of the process is that of the interference.

use corun_load::{hold, Goal, Hold, Options, Sample, Sensor, Stop};
use corun_model::workload::{Interference, Pattern};
use std::time::Duration;

/// Wants no CPU, and remembers the CPU time of the interference in each window.
#[derive(Default)]
struct Sleeper {
    taken_ns: Vec<u64>,
    until_now_ns: u64,
}

const WINDOWS: usize = 16;

fn process_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Sensor for Sleeper {
    fn source(&self) -> &'static str {
        "nothing"
    }

    fn window(&mut self, ns: u64) -> Result<Sample, String> {
        std::thread::sleep(Duration::from_nanos(ns));
        let now_ns = process_cpu_ns();
        self.taken_ns.push(now_ns - std::mem::replace(&mut self.until_now_ns, now_ns));
        Ok(Sample { window_ns: ns, alive: self.taken_ns.len() < WINDOWS, ..Sample::default() })
    }
}

#[test]
fn no_cpu_time_is_used_next_to_a_sleeping_victim() {
    let cpus = corun_load::affinity::allowed_cpus().unwrap()[..1].to_vec();
    let load = Interference { pattern: Pattern::Periodic, threads: 1, cpus, ..Interference::default() };
    let what = Hold { goal: Goal::Steal(0.5), baseline_ns: 0, load };
    let mut victim = Sleeper::default();
    let options = Options { loops_per_ms: Some(100_000), ..Options::default() };
    let report = hold::run(&what, &mut victim, &options, &Stop::new(), |_| {}).unwrap();
    assert_eq!(report.held.unwrap().asleep, Some(1.0));
    // The first window has no length, and contains the time before.
    let sum = |from: usize| victim.taken_ns[from..from + 5].iter().sum::<u64>();
    let (before, after) = (sum(1), sum(WINDOWS - 5));
    assert!(before > 4 * after, "{:?}", victim.taken_ns);
}
