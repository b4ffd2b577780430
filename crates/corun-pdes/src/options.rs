//! How a run is to go, and what of it is refused.

use crate::error::Error;
use std::time::Duration;

/// More threads than any machine has CPUs; far more would exhaust what the system has for threads while they start, which ends a process.
const MOST_WORKERS: usize = 4_096;

/// Who handles which kernel process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mapping {
    /// FM: each worker has its own, for the whole run, and with `pin` a CPU. Right where nobody else uses the CPUs.
    Fixed {
        /// Whether worker i is pinned to the i-th CPU that this process may use.
        pin: bool,
    },
    /// A work pool: whoever is free takes the kernel process that is behind.
    Pool,
    /// LADM: each worker has its own. When a worker gets no CPU, others take its kernel processes, and it takes them back when it runs
    /// again: locality first.
    Ladm {
        /// How long a worker may show no sign of life before it counts as preempted.
        stale_after: Duration,
    },
}

impl Mapping {
    /// LADM with a patience of 200 µs: a tenth of a slice of Linux' scheduler, and many events.
    pub fn ladm() -> Mapping {
        Mapping::Ladm { stale_after: Duration::from_micros(200) }
    }
}

/// What a worker does that has nothing to handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Idle {
    /// It looks again at once.
    Spin,
    /// It looks again when the scheduler lets it.
    Yield,
    /// It looks again some times, then sleeps until there is news.
    Block,
}

/// Injected disturbance, to test that results do not depend on it: workers that stop at the worst moment, kernel processes that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// Seed of what happens when.
    pub seed: u64,
    /// On average one event in so many is followed by a pause while the kernel process is held; 0 for never.
    pub pause_every: u32,
    /// How long a pause is at most; zero only yields.
    pub pause: Duration,
    /// On average one event in so many is followed by a random kernel process going to a random worker; 0 for never. A work pool has no
    /// owners to change.
    pub remap_every: u32,
}

/// How a run is to go. [`Options::default`] suits most models; `docs/pdes.md` in corun's repository says when to change what.
#[derive(Clone, Debug)]
pub struct Options {
    /// Events at this time or later are not handled, in ticks; `u64::MAX` runs until no event is left.
    pub until: u64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Worker threads, 1 to 4,096.
    pub workers: usize,
    /// Kernel processes, or `None` for 16 a worker, as far as there are logical processes.
    pub kps: Option<u32>,
    /// Who handles which kernel process.
    pub mapping: Mapping,
    /// What a worker does that has nothing to handle.
    pub idle: Idle,
    /// A state is saved before every so many events of a logical process.
    pub checkpoint_every: u32,
    /// Global virtual time is computed after every so many events of a worker.
    pub gvt_every: u32,
    /// No event later than global virtual time plus so many ticks is handled; `None` leaves optimism to `memory`.
    pub window: Option<u64>,
    /// The most events that may wait or be kept to be taken back, over all. It is exceeded by what one event sends at most, times
    /// workers, and by the events kept for coasting forward: `checkpoint_every` a logical process.
    pub memory: usize,
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
            disturbance: None,
        }
    }
}

impl Options {
    /// How many kernel processes `lps` logical processes are grouped into.
    ///
    /// # Errors
    /// The first option that makes no sense.
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
