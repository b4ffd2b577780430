//! Injects a [`Disturbance`]: pauses between events, and kernel processes that change their worker for no reason.

use crate::options::Disturbance;
use crate::owners::Owners;
use crate::rng::Rng;

/// Injects the disturbance of one worker.
pub(crate) struct Disturber {
    what: Disturbance,
    rng: Rng,
}

impl Disturber {
    pub fn new(what: Disturbance, worker: u32) -> Disturber {
        Disturber { what, rng: Rng::new(what.seed, worker) }
    }

    /// Call this after an event, while its kernel process is held.
    pub fn strike(&mut self, owners: &Owners, kps: usize, workers: usize) {
        if self.is_one_in(self.what.pause_every) {
            let pause = self.rng.below(self.what.pause.as_nanos() as u64);
            match pause {
                0 => std::thread::yield_now(),
                nanos => std::thread::sleep(std::time::Duration::from_nanos(nanos)),
            }
        }
        if self.is_one_in(self.what.remap_every) {
            let (kp, worker) = (self.rng.below(kps as u64), self.rng.below(workers as u64));
            owners.give(kp as u32, worker as u32);
        }
    }

    fn is_one_in(&mut self, every: u32) -> bool {
        every > 0 && self.rng.below(u64::from(every)) == 0
    }
}
