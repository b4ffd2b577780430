//! The options of a run, and a check of their values.

use crate::error::Error;
use corun_adapt::Width;
use std::sync::Arc;
use std::time::Duration;

/// No machine has more CPUs. Far more threads would exhaust the system's limits while they start, which ends the process.
const MOST_WORKERS: usize = 4_096;

/// Who handles which kernel process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mapping {
    /// FM: each worker keeps its kernel processes for the whole run. Right if nobody else uses the CPUs.
    Fixed {
        /// Whether worker i is pinned to the i-th CPU that this process may use.
        pin: bool,
    },
    /// A work pool: an idle worker takes the kernel process that is furthest behind.
    Pool,
    /// LADM: each worker has its own kernel processes. When a worker gets no CPU, others take over its kernel processes. It takes
    /// them back when it runs again, for locality.
    Ladm {
        /// A worker counts as preempted after this time without a sign of life.
        stale_after: Duration,
    },
}

impl Mapping {
    /// LADM with a patience of 200 µs. That is a tenth of a time slice of Linux's scheduler, and enough for many events.
    pub fn ladm() -> Mapping {
        Mapping::Ladm { stale_after: Duration::from_micros(200) }
    }
}

/// What a worker does when it has nothing to handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Idle {
    /// It looks again at once.
    Spin,
    /// It looks again when the scheduler lets it.
    Yield,
    /// It looks again some times, then sleeps until something happens.
    Block,
}

/// Injected disturbance, to test that results do not depend on it: workers pause at bad moments, and kernel processes change their
/// worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// Seed of the disturbance.
    pub seed: u64,
    /// On average one event in `pause_every` is followed by a pause while the kernel process is held; 0 for never.
    pub pause_every: u32,
    /// The longest pause; with zero the worker only yields.
    pub pause: Duration,
    /// On average one event in `remap_every` moves a random kernel process to a random worker; 0 for never. In a work pool kernel
    /// processes have no owner, so this changes nothing.
    pub remap_every: u32,
}

/// The options of a run. [`Options::default`] suits most models; `docs/pdes.md` in corun's repository explains when to change
/// which.
#[derive(Clone, Debug)]
pub struct Options {
    /// The end of the run, in ticks. Events at this time or later are not handled. `u64::MAX` runs until no event is left.
    pub until: u64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of worker threads, 1 to 4,096.
    pub workers: usize,
    /// Number of kernel processes. `None` means 16 for each worker, but at most one for each logical process.
    pub kps: Option<u32>,
    /// Who handles which kernel process.
    pub mapping: Mapping,
    /// What a worker does when it has nothing to handle.
    pub idle: Idle,
    /// The state of a logical process is saved before every n-th of its events, at least 1.
    pub checkpoint_every: u32,
    /// A worker computes global virtual time after every n-th of its events, at least 1.
    pub gvt_every: u32,
    /// How far beyond global virtual time events may be handled, in ticks. With `None` only `memory` limits optimism.
    pub window: Option<u64>,
    /// The most events that may wait, or be kept for rollbacks, over all logical processes. A run may exceed it by the messages of
    /// one event for each worker, and by `checkpoint_every` events for each logical process (for coasting forward).
    pub memory: usize,
    /// How many of the workers go on: the others park, and under LADM the workers that go on take over their
    /// kernel processes. `None` keeps all workers. The other mappings ignore it, since no worker could take
    /// over.
    pub width: Option<Arc<Width>>,
    /// Injected disturbance, for tests.
    pub disturbance: Option<Disturbance>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            until: u64::MAX,
            seed: 0,
            workers: std::thread::available_parallelism().map_or(1, |n| n.get()),
            kps: None,
            mapping: Mapping::ladm(),
            idle: Idle::Yield,
            checkpoint_every: 4,
            gvt_every: 4_096,
            window: None,
            memory: 4_000_000,
            width: None,
            disturbance: None,
        }
    }
}

impl Options {
    /// Checks the options. Returns the number of kernel processes for `lps` logical processes.
    ///
    /// # Errors
    /// The first invalid option.
    pub(crate) fn checked(&self, lps: u32) -> Result<u32, Error> {
        if lps == 0 {
            return Err(Error::NoLps);
        }
        if self.workers == 0 {
            return Err(Error::NoWorkers);
        }
        if self.workers > MOST_WORKERS {
            return Err(Error::TooManyWorkers { workers: self.workers, most: MOST_WORKERS });
        }
        let kps = self.kps.unwrap_or_else(|| (self.workers as u64 * 16).min(u64::from(lps)) as u32);
        if kps == 0 {
            return Err(Error::NoKps);
        }
        if kps > lps {
            return Err(Error::MoreKpsThanLps { kps, lps });
        }
        if self.workers > kps as usize {
            return Err(Error::MoreWorkersThanKps { workers: self.workers, kps });
        }
        for (option, value) in [("checkpoint_every", self.checkpoint_every), ("gvt_every", self.gvt_every)] {
            if value == 0 {
                return Err(Error::NoInterval { option });
            }
        }
        Ok(kps)
    }
}
