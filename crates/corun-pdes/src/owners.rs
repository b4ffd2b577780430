//! The owner of each kernel process: a hint, never a promise. The lock of a kernel process keeps two workers apart, so its owner
//! may change at any moment.
//!
//! Each worker keeps a list of its own kernel processes, and makes it again when the number of changes is different. So a worker
//! counts a change after it has changed an owner, and reads the count before it makes its list. A list that misses a change is made
//! once more, and every kernel process is on some list. `tests/model_check.rs` has loom try every order.

use crate::sync::{Acquire, AtomicU32, AtomicU64, Relaxed, SeqCst};

/// The worker that owns each kernel process.
pub(crate) struct Owners {
    owners: Vec<AtomicU32>,
    workers: u32,
    changes: AtomicU64,
}

impl Owners {
    /// Gives each worker the same number of kernel processes, neighbors together.
    pub fn new(kps: u32, workers: u32) -> Owners {
        let owners = (0..kps).map(|kp| AtomicU32::new(home(kp, kps, workers))).collect();
        Owners { owners, workers, changes: AtomicU64::new(0) }
    }

    /// The owner of a kernel process.
    #[inline]
    pub fn of(&self, kp: u32) -> u32 {
        self.owners[kp as usize].load(Relaxed)
    }

    /// A number that grows with every change. A worker that has read it also sees the owners that it counts.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Writes the kernel processes of a worker into `list`, in order.
    pub fn list(&self, worker: u32, list: &mut Vec<u32>) {
        list.clear();
        list.extend((0..self.owners.len() as u32).filter(|kp| self.of(*kp) == worker));
    }

    /// Gives a kernel process to a worker.
    pub fn give(&self, kp: u32, worker: u32) {
        self.owners[kp as usize].store(worker, SeqCst);
        self.changes.fetch_add(1, SeqCst);
    }

    /// Moves at most `most` kernel processes of `from` to `to`. Returns how many moved.
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

    /// Gives a worker all kernel processes that it began with. Returns how many others had.
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

/// The worker that a kernel process begins with.
fn home(kp: u32, kps: u32, workers: u32) -> u32 {
    (u64::from(kp) * u64::from(workers) / u64::from(kps)) as u32
}

// With loom these types work only inside a model.
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_worker_begins_with_its_share_and_gets_it_back_from_any_other() {
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
