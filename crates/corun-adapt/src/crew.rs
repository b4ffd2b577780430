//! Worker threads: which of them run, how much is stolen from each, which should take over whose work, and
//! which stop when fewer are wanted.
//!
//! A worker **beats**: it adds one to a counter wherever it could stop. If its beat stands still while those
//! of others go on, its thread is off its CPU. The kernel says for each thread how much of its time it waited
//! for a CPU. `takeover.rs` decides from both.

use crate::caches::Caches;
use crate::heartbeats::Heartbeats;
use crate::sources::now_ns;
use crate::takeover::{heir, next_change, Change, State, WorkerView};
use crate::width::{Mode, Width};
use crate::worker::{Taken, WorkerSlot};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// No machine has more CPUs.
const MOST_WORKERS: usize = 4_096;
/// How often stolen shares are renewed. The kernel counts a wait when it ends, and few waits are longer.
const OLD: Duration = Duration::from_millis(50);
/// How often a parked worker checks whether it is wanted, in case all others are too busy to wake it.
const GLANCE: Duration = Duration::from_millis(100);

/// Why [`Crew::new`] fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CrewError {
    /// Zero workers.
    #[error("workers is 0: name at least one")]
    NoWorkers,
    /// More workers than any machine has CPUs.
    #[error("workers is more than {MOST_WORKERS}: name no more than there are CPUs")]
    TooManyWorkers,
    /// The system has no memory for them.
    #[error("there is not enough memory for this many workers: name fewer")]
    NoMemory,
}

/// The workers of a program.
#[derive(Debug)]
pub struct Crew {
    slots: Box<[WorkerSlot]>,
    caches: Caches,
    /// When the stolen shares get old.
    old_at_ns: AtomicU64,
    /// The beats as seen by a caller of [`Crew::state`].
    heartbeats: Mutex<Heartbeats>,
}

impl Crew {
    /// Makes seats for this many workers. A worker without a beat for longer than `patience` counts as off its CPU.
    ///
    /// # Errors
    /// `workers` is 0 or too large, or there is no memory for them.
    pub fn new(workers: usize, patience: Duration) -> Result<Crew, CrewError> {
        if workers == 0 {
            return Err(CrewError::NoWorkers);
        }
        if workers > MOST_WORKERS {
            return Err(CrewError::TooManyWorkers);
        }
        let mut slots = Vec::new();
        slots.try_reserve_exact(workers).map_err(|_| CrewError::NoMemory)?;
        slots.resize_with(workers, WorkerSlot::default);
        let heartbeats = Heartbeats::try_new(workers, patience).map_err(|_| CrewError::NoMemory)?;
        Ok(Crew {
            slots: slots.into(),
            caches: Caches::read(Path::new("/")),
            old_at_ns: AtomicU64::new(0),
            heartbeats: Mutex::new(heartbeats),
        })
    }

    /// The slots, one for each worker.
    pub fn slots(&self) -> &[WorkerSlot] {
        &self.slots
    }

    /// Makes the calling thread this worker.
    ///
    /// # Errors
    /// Another living thread is this worker.
    pub fn join(&self, worker: usize) -> Result<(), Taken> {
        self.slots[worker].join()
    }

    /// The facts about a worker. The caller finds its `state` with its own [`Heartbeats`].
    pub fn view(&self, worker: usize, state: State) -> WorkerView {
        let slot = &self.slots[worker];
        WorkerView { state, stolen: slot.stolen(), cache: slot.cpu().and_then(|cpu| self.caches.of(cpu)) }
    }

    /// What a worker does now. Ask twice within the patience. This never waits: while another thread is finding out, it returns the
    /// last known state.
    pub fn state(&self, worker: usize) -> State {
        match self.slots[worker].rests() {
            Some(state) => state,
            None => match self.heartbeats.try_lock() {
                Ok(mut heartbeats) => {
                    heartbeats.look(&self.slots);
                    let state = heartbeats.state(worker, &self.slots);
                    self.slots[worker].set_seen(state);
                    state
                }
                Err(_) => self.slots[worker].seen(),
            },
        }
    }

    /// The worker that should take over the work of worker `of`: see [`heir`].
    pub fn heir(&self, of: usize) -> Option<usize> {
        heir(of, self.slots.len(), &|worker| self.view(worker, self.state(worker)))
    }

    /// Whether this worker is to go on. Costs one load. If not, it gives its work to its [`Crew::heir`] and calls [`Crew::park`].
    #[inline]
    pub fn is_wanted(&self, worker: usize) -> bool {
        self.slots[worker].is_wanted()
    }

    /// Renews the width. After 50 ms it also renews the stolen shares and decides which workers are wanted. Returns whether it read
    /// anything.
    pub fn refresh(&self, width: &Width) -> bool {
        let is_renewed = width.refresh();
        let Some(now) = now_ns() else { return is_renewed };
        let old_at = self.old_at_ns.load(Relaxed);
        let next = now + OLD.as_nanos() as u64;
        if now < old_at || self.old_at_ns.compare_exchange(old_at, next, Relaxed, Relaxed).is_err() {
            return is_renewed;
        }
        for slot in &self.slots {
            slot.measure();
        }
        // A program that does not adapt keeps all its workers.
        self.want(if width.mode() == Mode::On { width.threads() as usize } else { self.slots.len() });
        true
    }

    /// Stops or wakes workers until `width` of them are wanted.
    fn want(&self, width: usize) {
        let view = |worker: usize| {
            let state = if self.slots[worker].is_taken() { State::Unknown } else { State::Absent };
            self.view(worker, state)
        };
        // Others may join meanwhile, so the number of steps is limited to that of workers.
        for _ in 0..self.slots.len() {
            match next_change(width, self.slots.len(), &view, &|worker| self.is_wanted(worker)) {
                Some(Change::Stop(worker)) => self.slots[worker].set_wanted(false),
                Some(Change::Go(worker)) => self.slots[worker].set_wanted(true),
                None => return,
            }
        }
    }

    /// Makes a worker go on, at any width.
    pub fn wake(&self, worker: usize) {
        self.slots[worker].set_wanted(true);
    }

    /// Sleeps until the calling worker is wanted, or for `most`. Returns whether it is wanted.
    pub fn park(&self, worker: usize, most: Duration, width: &Width) -> bool {
        let begin = Instant::now();
        loop {
            let left = most.saturating_sub(begin.elapsed());
            if self.slots[worker].sleep_until_wanted(left.min(GLANCE)) {
                return true;
            }
            if left <= GLANCE {
                return self.is_wanted(worker);
            }
            self.refresh(width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn a_crew_of_none_or_of_far_too_many_is_refused() {
        for (workers, error) in [(0, CrewError::NoWorkers), (usize::MAX, CrewError::TooManyWorkers)] {
            assert_eq!(Crew::new(workers, GLANCE).err(), Some(error));
        }
    }

    #[test]
    fn when_fewer_are_wanted_the_others_park_and_continue_when_they_are_wanted_again() {
        let crew = Crew::new(3, Duration::from_millis(1)).unwrap();
        let width = Width::new(Mode::Off, 1, 3).unwrap();
        let (joined, woke) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let (crew, width, joined, woke) = (&crew, &width, &joined, &woke);
                scope.spawn(move || {
                    crew.join(worker).unwrap();
                    joined.fetch_add(1, SeqCst);
                    while joined.load(SeqCst) < 4 {
                        std::thread::yield_now();
                    }
                    if crew.is_wanted(worker) {
                        return;
                    }
                    // With the width switched off only this test decides.
                    while !crew.slots[worker].sleep_until_wanted(GLANCE) {}
                    assert!(crew.park(worker, Duration::MAX, width));
                    woke.fetch_add(1, SeqCst);
                });
            }
            while joined.load(SeqCst) < 3 {
                std::thread::yield_now();
            }
            crew.want(1);
            let wanted = (0..3).filter(|worker| crew.is_wanted(*worker)).count();
            assert_eq!(wanted, 1, "one stays");
            joined.fetch_add(1, SeqCst);
            let parked = || (0..3).filter(|worker| crew.state(*worker) == State::Parked).count();
            while parked() < 2 {
                std::thread::yield_now();
            }
            crew.want(3);
        });
        assert_eq!(woke.load(SeqCst), 2);
    }

    #[test]
    fn an_unwanted_worker_parks_no_longer_than_requested() {
        let crew = Crew::new(2, Duration::from_millis(1)).unwrap();
        crew.join(0).unwrap();
        crew.slots[0].set_wanted(false);
        let width = Width::new(Mode::Off, 1, 1).unwrap();
        crew.old_at_ns.store(u64::MAX, Relaxed);
        assert!(!crew.park(0, Duration::from_millis(1), &width), "nobody wanted it");
    }
}
