//! LADM's reaction to a preempted worker: those that run take over its kernel processes.
//!
//! A worker beats as long as it runs. One whose beat has stood still for longer than `stale_after`, and that does not sleep for want of work,
//! is off its CPU: what it has is shared among those that run. Only the kernel process in the middle of an event stays with it.

use crate::owners::Owners;
use crate::shared::Desk;
use crossbeam_utils::CachePadded;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Stints between two looks at the others.
const LOOK_EVERY: u32 = 128;

/// What a worker has seen of the others.
pub(crate) struct Rescue {
    me: u32,
    stale_after: Duration,
    /// The last beat of each, and when it was new.
    seen: Vec<(u64, Instant)>,
    stints: u32,
    last: Instant,
}

impl Rescue {
    pub fn new(me: u32, workers: usize, stale_after: Duration) -> Rescue {
        let now = Instant::now();
        Rescue { me, stale_after, seen: vec![(0, now); workers], stints: 0, last: now }
    }

    /// Counts a stint; whether it is time to look.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.stints += 1;
        self.stints >= LOOK_EVERY
    }

    /// Takes over what those have who show no sign of life. Returns how many kernel processes came.
    pub fn look(&mut self, desks: &[CachePadded<Desk>], owners: &Owners) -> u64 {
        self.stints = 0;
        let now = Instant::now();
        // Who was off its own CPU knows nothing about the others.
        let was_away = now - self.last > self.stale_after;
        self.last = now;
        for (desk, seen) in desks.iter().zip(&mut self.seen) {
            let beat = desk.beat.load(Relaxed);
            if beat != seen.0 || was_away || desk.is_asleep() {
                *seen = (beat, now);
            }
        }
        let is_stale = |worker: usize| now - self.seen[worker].1 > self.stale_after;
        let active = (0..desks.len()).filter(|worker| !is_stale(*worker)).count().max(1);
        let mut came = 0;
        for worker in (0..desks.len()).filter(|worker| *worker != self.me as usize && is_stale(*worker)) {
            let mut theirs = Vec::new();
            owners.list(worker as u32, &mut theirs);
            came += owners.take(worker as u32, self.me, theirs.len().div_ceil(active));
        }
        came
    }
}
