//! The counters of a load's thread while it runs. Each thread writes its own tally, and the thread that reports reads them all. They
//! use plain loads and stores, on separate lines, so counting disturbs nothing.

use crate::clock::{now_ns, CpuClock};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

/// A number that one thread adds to and others may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the thread that owns the counter may do so: it is a load and a store, not one step.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets the number.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The number so far.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The cost of waiting for a thread.
#[derive(Debug, Default)]
pub struct WaitTally {
    /// Waits that were not over before they began.
    pub waits: Counter,
    /// Wall time inside them.
    pub wait_ns: Counter,
    /// CPU time spent spinning in them: a spin detector should find this.
    pub spin_ns: Counter,
    /// Times the thread went to sleep in the kernel.
    pub sleeps: Counter,
    /// Wall time from going to sleep until running again, the wait for a CPU after the wake-up included.
    pub block_ns: Counter,
}

/// All counters of one thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Tally {
    /// Finished iterations.
    pub iterations: Counter,
    /// Loops of the work kernel.
    pub loops: Counter,
    /// The cost of waiting.
    pub wait: WaitTally,
    /// The start of the thread, and its clocks; unset before that.
    pub start: OnceLock<Start>,
    /// The resource usage of the thread, once it has ended.
    pub used: OnceLock<Used>,
}

/// The start of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The wall clock then.
    pub wall_ns: u64,
    /// The thread's CPU clock then.
    pub cpu_ns: u64,
    /// That clock.
    pub clock: CpuClock,
    /// Its thread id in the kernel.
    pub tid: i32,
}

/// The resource usage of a thread from start to end.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// Wall time.
    pub wall_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// Voluntary context switches.
    pub yields: u64,
    /// Involuntary context switches.
    pub preemptions: u64,
}

impl Tally {
    /// Wall and CPU time of the thread so far, in nanoseconds. Both are 0 before it starts.
    pub fn time_ns(&self) -> (u64, u64) {
        match (self.used.get(), self.start.get()) {
            (Some(used), _) => (used.wall_ns, used.cpu_ns),
            (None, Some(start)) => {
                let cpu_ns = start.clock.read_ns().map_or(0, |now| now.saturating_sub(start.cpu_ns));
                (now_ns().saturating_sub(start.wall_ns), cpu_ns)
            }
            (None, None) => (0, 0),
        }
    }
}
