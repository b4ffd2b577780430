//! The speed of this machine, measured at start-up, so that "1 ms of work" is 1 ms of solo CPU time anywhere.
//!
//! Method: about 15 tries of 2 ms each, with the kernel that the threads will run, including its memory. The thread's CPU clock times
//! them, and the fastest counts. Preemption does not affect the CPU clock. Other effects (a sibling hardware thread, a cold cache, a
//! hypervisor's hidden steal, a low clock) only make a try slower.
//!
//! Limits: one thread measures once, on the CPU that it happens to run on. If cores differ, or the machine is busy for all of the 35
//! ms, set the pace by hand (`--loops-per-ms`). An experiment should always do that: with the pace of its solo run, a co-run does
//! exactly the same work.

use crate::clock::thread_cpu_ns;
use crate::kernel::Kernel;
use crate::load_thread::Pace;
use serde::Serialize;

const TRIES: usize = 15;
const TRY_NS: u64 = 2_000_000;

/// The pace of a run, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Loops of the kernel per millisecond of solo CPU time.
    pub loops_per_ms: u64,
    /// The source of the number.
    pub source: Source,
    /// How much slower the median try was than the fastest, as a share; `None` if the pace was given. Above a few
    /// percent the machine was not quiet, or its clock was still rising.
    pub spread: Option<f64>,
}

/// The source of a pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Measured at start-up.
    Measured,
    /// Given by the user.
    Given,
}

impl Calibration {
    /// A pace that is already known; at least 1.
    pub fn given(loops_per_ms: u64) -> Calibration {
        Calibration { loops_per_ms: loops_per_ms.max(1), source: Source::Given, spread: None }
    }

    /// Measures the pace of `kernel` in the calling thread.
    pub fn measure(kernel: &mut Kernel) -> Calibration {
        // First find how many loops make a try, and warm everything up on the way.
        let mut loops = 64;
        let mut cpu_ns = time(kernel, loops);
        while cpu_ns < TRY_NS / 2 {
            loops *= 2;
            cpu_ns = time(kernel, loops);
        }
        let mut tries: Vec<u64> = (0..TRIES).map(|_| time(kernel, loops)).collect();
        tries.sort_unstable();
        let (fastest, median) = (tries[0], tries[TRIES / 2]);
        let pace = (u128::from(loops) * 1_000_000 / u128::from(fastest)) as u64;
        let spread = Some(median as f64 / fastest as f64 - 1.0);
        Calibration { loops_per_ms: pace.max(1), source: Source::Measured, spread }
    }

    /// The pace without its source.
    pub fn pace(self) -> Pace {
        Pace { loops_per_ms: self.loops_per_ms }
    }
}

/// CPU time of `loops` loops in nanoseconds, at least 1.
fn time(kernel: &mut Kernel, loops: u64) -> u64 {
    let begin_ns = thread_cpu_ns();
    kernel.run(loops);
    (thread_cpu_ns() - begin_ns).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::lines;
    use corun_model::workload::Sharing;

    #[test]
    fn a_millisecond_of_work_takes_a_millisecond_of_cpu_time() {
        let mut kernel = Kernel::registers();
        let pace = Calibration::measure(&mut kernel).pace();
        // The quietest of several, since others may slow this CPU down. A factor of two is wide enough for any machine.
        let best_ns = (0..20).map(|_| time(&mut kernel, pace.loops(1_000_000))).min().unwrap();
        assert!((500_000..2_000_000).contains(&best_ns), "{best_ns} ns");
    }

    #[test]
    fn walking_memory_is_part_of_the_work_so_it_takes_fewer_passes() {
        let bare = Calibration::measure(&mut Kernel::registers());
        let walking = Calibration::measure(&mut Kernel::new(lines(1 << 20), &[], Sharing::None, 0));
        assert!(walking.loops_per_ms < bare.loops_per_ms, "{walking:?} {bare:?}");
        assert_eq!(walking.source, Source::Measured);
    }
}
