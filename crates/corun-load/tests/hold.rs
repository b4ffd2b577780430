//! Calibrated interference with its real threads, and a sensor that gets the CPU time of these threads.
//!
//! The only test of this file has the process to itself, so the CPU time of the process is that of the interference.

use corun_load::{hold, Ended, Goal, Hold, Options, Sample, Sensor, Stop};
use corun_model::workload::{Interference, Pattern};
use std::time::{Duration, Instant};

/// A victim that loses exactly what the interference takes on the target CPUs, and dies at the end.
struct Mirror {
    cpus: u64,
    from: Instant,
    taken_ns: u64,
    windows_left: u32,
}

fn process_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Sensor for Mirror {
    fn source(&self) -> &'static str {
        "the CPU clock of the process"
    }

    fn window(&mut self, ns: u64) -> Result<Sample, String> {
        std::thread::sleep(Duration::from_nanos(ns));
        let (now, taken_ns) = (Instant::now(), process_cpu_ns());
        let window_ns = now.duration_since(self.from).as_nanos() as u64;
        let wait_ns = (taken_ns - self.taken_ns).min(window_ns * self.cpus);
        (self.from, self.taken_ns) = (now, taken_ns);
        self.windows_left -= 1;
        let run_ns = window_ns * self.cpus - wait_ns;
        Ok(Sample { window_ns, run_ns, spin_ns: None, wait_ns, alive: self.windows_left > 0 })
    }
}

#[test]
fn real_threads_are_steered_to_the_goal_until_the_victim_ends() {
    let cpus = corun_load::affinity::allowed_cpus().unwrap();
    let cpus = cpus[..cpus.len().min(2)].to_vec();
    let threads = cpus.len() as u32;
    let load = Interference { pattern: Pattern::Periodic, threads, cpus, ..Interference::default() };
    let what = Hold { goal: Goal::Steal(0.2), baseline_ns: 0, load };
    let mut told = 0;
    let mut victim = Mirror {
        cpus: u64::from(threads),
        from: Instant::now(),
        taken_ns: process_cpu_ns(),
        windows_left: 40,
    };
    let options = Options { progress_every_ns: Some(1), ..Options::default() };
    let report = hold::run(&what, &mut victim, &options, &Stop::new(), |progress| {
        assert!(progress.holding.is_some());
        told += 1;
    })
    .unwrap();
    let held = report.held.unwrap();
    assert_eq!(report.ended, Ended::VictimEnded);
    assert!((6..=8).contains(&told), "40 windows of 0.2 s are 8 s, the last of them unfinished: {told}");
    assert!(report.iterations > 100, "{} bursts", report.iterations);
    // Bursts are CPU time, so a busy machine delays them but does not take them away. If it leaves less than the goal, the report says
    // so.
    match &held.limit {
        Some(limit) => println!("skipped: this machine is too busy to judge ({limit})"),
        None => assert!(held.mean.is_some_and(|mean| (0.14..=0.26).contains(&mean)), "{held}"),
    }
}
