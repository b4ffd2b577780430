//! What a thread of a load counts about itself while it runs. Each thread writes its own tally and the thread
//! that reports reads them all: plain loads and stores, on lines of their own, so that counting disturbs nothing.

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

/// What waiting has cost a thread.
#[derive(Debug, Default)]
pub struct WaitTally {
    /// Waits that were not over before they began.
    pub waits: Counter,
    /// Wall time inside them.
    pub wait_ns: Counter,
    /// CPU time spent spinning in them: what a spin detector should find.
    pub spin_ns: Counter,
    /// Times the thread went to sleep in the kernel.
    pub sleeps: Counter,
    /// Wall time from going to sleep until running again, the wait for a CPU after the wake-up included.
    pub block_ns: Counter,
}

/// Everything one thread counts.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Tally {
    /// Finished iterations.
    pub iterations: Counter,
    /// Loops of the work kernel.
    pub loops: Counter,
    /// What waiting cost.
    pub wait: WaitTally,
    /// When the thread was let go, and by which clocks its time is told; unset before that.
    pub start: OnceLock<Start>,
    /// What the thread used in the end, once it has ended.
    pub used: OnceLock<Used>,
}

/// Where a thread began.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The wall clock then.
    pub wall_ns: u64,
    /// The thread's CPU clock then.
    pub cpu_ns: u64,
    /// That clock.
    pub clock: CpuClock,
    /// The kernel's name for the thread.
    pub tid: i32,
}

/// What a thread has used from start to end.
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
    /// Wall and CPU time of the thread so far, in nanoseconds; both 0 before it has been let go.
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
