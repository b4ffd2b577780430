//! LADM's reaction to a preempted worker: those that run take over its kernel processes, those nearby first.
//!
//! Who is off its CPU is what [`corun_adapt::Heartbeats`] tells by beats; who takes over is what [`corun_adapt::heirs`] decides; each of them
//! takes an equal share. Only the kernel process in the middle of an event stays with the preempted worker.

use crate::owners::Owners;
use corun_adapt::{heirs, Crew, Heartbeats, State};
use std::time::Duration;

/// Stints between two looks at the others.
const LOOK_EVERY: u32 = 128;

/// What a worker has seen of the others.
pub(crate) struct Rescue {
    me: u32,
    heartbeats: Heartbeats,
    stints: u32,
}

impl Rescue {
    pub fn new(me: u32, workers: usize, stale_after: Duration) -> Rescue {
        Rescue { me, heartbeats: Heartbeats::new(workers, stale_after), stints: 0 }
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
        let slots = crew.slots();
        slots[self.me as usize].beat_here();
        self.heartbeats.look(slots);
        let view = |worker: usize| {
            crew.view(worker, if self.heartbeats.is_stale(worker) { State::Off } else { State::Runs })
        };
        let mut came = 0;
        for worker in (0..slots.len()).filter(|worker| self.heartbeats.is_stale(*worker)) {
            let heirs = || heirs(worker, slots.len(), &view);
            if heirs().any(|heir| heir == self.me as usize) {
                let mut theirs = Vec::new();
                owners.list(worker as u32, &mut theirs);
                came += owners.take(worker as u32, self.me, theirs.len().div_ceil(heirs().count()));
            }
        }
        came
    }
}
