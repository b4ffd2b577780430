//! How LADM reacts to a preempted worker: running workers take over its kernel processes, nearby workers first.
//!
//! [`corun_adapt::Heartbeats`] finds workers that are off their CPU. [`corun_adapt::inherited`] decides how much each running
//! worker takes over. A kernel process in the middle of an event stays with the preempted worker.

use crate::owners::Owners;
use corun_adapt::{inherited, Crew, Heartbeats, State};
use std::time::Duration;

/// What one worker knows of the others.
pub(crate) struct Rescue {
    me: u32,
    heartbeats: Heartbeats,
}

impl Rescue {
    pub fn new(me: u32, workers: usize, stale_after: Duration) -> Rescue {
        Rescue { me, heartbeats: Heartbeats::new(workers, stale_after) }
    }

    /// Counts a stint. Returns whether it is time to look.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.heartbeats.stepped()
    }

    /// Takes over kernel processes of workers that show no sign of life. Returns how many.
    pub fn look(&mut self, crew: &Crew, owners: &Owners) -> u64 {
        let slots = crew.slots();
        slots[self.me as usize].beat_here();
        self.heartbeats.look(slots);
        let view = |worker: usize| {
            crew.view(worker, if self.heartbeats.is_stale(worker) { State::Off } else { State::Runs })
        };
        let mut came = 0;
        for worker in (0..slots.len()).filter(|worker| self.heartbeats.is_stale(*worker)) {
            let mut theirs = Vec::new();
            owners.list(worker as u32, &mut theirs);
            match inherited(worker, self.me as usize, theirs.len(), slots.len(), &view) {
                0 => {}
                most => came += owners.take(worker as u32, self.me, most),
            }
        }
        came
    }
}
