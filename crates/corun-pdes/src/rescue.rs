//! LADM's reaction to a preempted worker: those that run take over its kernel processes.
//!
//! Who is off its CPU is what [`corun_adapt::Lookout`] tells by beats; what such a worker has is shared among those that run. Only the
//! kernel process in the middle of an event stays with it.

use crate::owners::Owners;
use corun_adapt::{Crew, Lookout};
use std::time::Duration;

/// Stints between two looks at the others.
const LOOK_EVERY: u32 = 128;

/// What a worker has seen of the others.
pub(crate) struct Rescue {
    me: u32,
    lookout: Lookout,
    stints: u32,
}

impl Rescue {
    pub fn new(me: u32, workers: usize, stale_after: Duration) -> Rescue {
        Rescue { me, lookout: Lookout::new(workers, stale_after), stints: 0 }
    }

    /// Counts a stint; whether it is time to look.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.stints += 1;
        self.stints >= LOOK_EVERY
    }

    /// Takes over what those have who show no sign of life. Returns how many kernel processes came.
    pub fn look(&mut self, crew: &Crew, owners: &Owners) -> u64 {
        self.stints = 0;
        self.lookout.look(crew);
        let active = self.lookout.active();
        let mut came = 0;
        for worker in (0..crew.seats().len()).filter(|worker| *worker != self.me as usize) {
            if self.lookout.is_stale(worker) {
                let mut theirs = Vec::new();
                owners.list(worker as u32, &mut theirs);
                came += owners.take(worker as u32, self.me, theirs.len().div_ceil(active));
            }
        }
        came
    }
}
