//! Who handles which kernel process: a hint, never a promise. What keeps two workers apart is the lock of the kernel process, so that it
//! may change at any moment.
//!
//! A worker keeps a list of its own and makes it anew when the number of changes is another than before. So whoever changes an owner counts
//! that afterwards, and whoever lists looks at the count first: a list that misses a change is made once more, and no kernel process is
//! left to nobody. `tests/model_check.rs` has loom try every order.

use crate::sync::{Acquire, AtomicU32, AtomicU64, Relaxed, SeqCst};

/// The owner of each kernel process, a worker.
pub(crate) struct Owners {
    owners: Vec<AtomicU32>,
    workers: u32,
    changes: AtomicU64,
}

impl Owners {
    /// Each worker has as many as any other, neighbours together.
    pub fn new(kps: u32, workers: u32) -> Owners {
        let owners = (0..kps).map(|kp| AtomicU32::new(home(kp, kps, workers))).collect();
        Owners { owners, workers, changes: AtomicU64::new(0) }
    }

    /// Who handles this one.
    #[inline]
    pub fn of(&self, kp: u32) -> u32 {
        self.owners[kp as usize].load(Relaxed)
    }

    /// A number that grows with every change. Who has seen it sees the owners that it counts.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Those of a worker, in order.
    pub fn list(&self, worker: u32, list: &mut Vec<u32>) {
        list.clear();
        list.extend((0..self.owners.len() as u32).filter(|kp| self.of(*kp) == worker));
    }

    /// Gives one to a worker.
    pub fn give(&self, kp: u32, worker: u32) {
        self.owners[kp as usize].store(worker, SeqCst);
        self.changes.fetch_add(1, SeqCst);
    }

    /// Gives `most` of those that `from` has to `to`. Returns how many went.
    pub fn take(&self, from: u32, to: u32, most: usize) -> u64 {
        let theirs = self.owners.iter().filter(|owner| owner.load(Relaxed) == from);
        let taken = theirs
            .filter(|owner| owner.compare_exchange(from, to, SeqCst, Relaxed).is_ok())
            .take(most)
            .count() as u64;
        if taken > 0 {
            self.changes.fetch_add(1, SeqCst);
        }
        taken
    }

    /// Gives a worker all that it began with. Returns how many were elsewhere.
    pub fn take_home(&self, worker: u32) -> u64 {
        let kps = self.owners.len() as u32;
        let away = (0..kps).filter(|kp| home(*kp, kps, self.workers) == worker && self.of(*kp) != worker);
        let mut came = 0;
        for kp in away {
            self.owners[kp as usize].store(worker, SeqCst);
            came += 1;
        }
        if came > 0 {
            self.changes.fetch_add(1, SeqCst);
        }
        came
    }
}

/// The worker that begins with this kernel process.
fn home(kp: u32, kps: u32, workers: u32) -> u32 {
    (u64::from(kp) * u64::from(workers) / u64::from(kps)) as u32
}

// Under loom nothing here works outside of a model.
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_worker_begins_with_its_share_and_gets_it_back_whoever_took_it() {
        for (kps, workers) in [(1, 1), (7, 3), (16, 16), (33, 2)] {
            let owners = Owners::new(kps, workers);
            let mut list = Vec::new();
            let mut seen = 0;
            for worker in 0..workers {
                owners.list(worker, &mut list);
                assert!((kps / workers..=kps.div_ceil(workers)).contains(&(list.len() as u32)));
                seen += list.len();
            }
            assert_eq!(seen, kps as usize);
            owners.list(0, &mut list);
            let last = workers - 1;
            let taken = owners.take(0, last, usize::MAX);
            assert_eq!(taken, if last == 0 { taken } else { list.len() as u64 });
            owners.take_home(0);
            let mut back = Vec::new();
            owners.list(0, &mut back);
            assert_eq!(back, list, "{kps} kernel processes, {workers} workers");
        }
    }
}
