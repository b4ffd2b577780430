//! Finds workers that are off their CPU, by the beats of their slots.

use crate::beats::Beats;
use crate::takeover::State;
use crate::worker::WorkerSlot;
use std::collections::TryReserveError;
use std::time::{Duration, Instant};

/// What one observer sees of the workers.
#[derive(Debug)]
pub struct Heartbeats {
    begin: Instant,
    beats: Beats,
}

impl Heartbeats {
    /// Makes an observer. A worker without a beat for longer than `stale_after` counts as off its CPU.
    pub fn new(workers: usize, stale_after: Duration) -> Heartbeats {
        Heartbeats { begin: Instant::now(), beats: Beats::new(workers, nanos(stale_after), 0) }
    }

    /// Like `new`, but fails if there is no memory for this many workers.
    pub(crate) fn try_new(workers: usize, stale_after: Duration) -> Result<Heartbeats, TryReserveError> {
        Ok(Heartbeats { begin: Instant::now(), beats: Beats::try_new(workers, nanos(stale_after), 0)? })
    }

    /// Counts a step of the observer. Returns whether it is time to look.
    #[inline]
    pub fn stepped(&mut self) -> bool {
        self.beats.stepped()
    }

    /// Looks at all slots. An observer that was off its own CPU since its last look knows nothing about the others, and begins again.
    pub fn look(&mut self, slots: &[WorkerSlot]) {
        self.look_at(slots, Instant::now());
    }

    fn look_at(&mut self, slots: &[WorkerSlot], now: Instant) {
        self.beats.look(nanos(now - self.begin), |worker| (slots[worker].beats(), slots[worker].is_asleep()));
    }

    /// Whether a worker was off its CPU at the last look.
    pub fn is_stale(&self, worker: usize) -> bool {
        self.beats.is_stale(worker)
    }

    /// What a worker did at the last look.
    pub fn state(&self, worker: usize, slots: &[WorkerSlot]) -> State {
        let slot = &slots[worker];
        match slot.rests() {
            Some(state) => state,
            None if self.beats.is_new(worker) => State::Runs,
            None if self.is_stale(worker) || slot.is_displaced() => State::Off,
            None if self.beats.was_away() => State::Unknown,
            None => State::Runs,
        }
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos().min(u64::MAX.into()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_without_a_beat_is_stale_unless_it_sleeps_or_the_observer_was_away() {
        let slots: Vec<WorkerSlot> = (0..3).map(|_| WorkerSlot::default()).collect();
        let step = Duration::from_micros(50);
        let mut heartbeats = Heartbeats::new(3, 2 * step);
        let begin = heartbeats.begin;
        let at = |n: u32| begin + n * step;
        slots[2].set_asleep(true);
        for n in 1..=4 {
            slots[0].beat();
            heartbeats.look_at(&slots, at(n));
        }
        let stale =
            |heartbeats: &Heartbeats| (0..3).map(|worker| heartbeats.is_stale(worker)).collect::<Vec<_>>();
        assert_eq!(stale(&heartbeats), [false, true, false]);
        // It runs again.
        slots[1].beat();
        slots[0].beat();
        heartbeats.look_at(&slots, at(5));
        assert_eq!(stale(&heartbeats), [false; 3]);
        // The observer itself was preempted, so no other worker is stale.
        heartbeats.look_at(&slots, at(50));
        assert_eq!(stale(&heartbeats), [false; 3]);
        assert!(slots[2].end_sleep() && !slots[2].end_sleep());
    }

    #[test]
    fn two_looks_in_time_show_the_state_of_a_worker() {
        let slots: Vec<WorkerSlot> = (0..3).map(|_| WorkerSlot::default()).collect();
        slots[0].join().unwrap();
        slots[1].join().unwrap();
        // This thread is both workers, so the time that it is itself off its CPU does not count against them.
        let step = Duration::from_micros(50);
        let mut heartbeats = Heartbeats::new(3, 2 * step);
        let at = |n: u32| heartbeats.begin + n * step;
        let times: Vec<Instant> = (0..60).map(at).collect();
        heartbeats.look_at(&slots, times[1]);
        let state = |heartbeats: &Heartbeats, worker| heartbeats.state(worker, &slots);
        assert_eq!(state(&heartbeats, 0), State::Runs, "it joined since");
        heartbeats.look_at(&slots, times[40]);
        assert_eq!(state(&heartbeats, 0), State::Unknown, "the last look was long ago");
        slots[0].beat();
        for time in &times[41..45] {
            heartbeats.look_at(&slots, *time);
        }
        assert_eq!(state(&heartbeats, 0), State::Off);
        assert_eq!(state(&heartbeats, 2), State::Absent);
        slots[1].set_asleep(true);
        slots[0].beat();
        heartbeats.look_at(&slots, times[45]);
        assert_eq!((state(&heartbeats, 0), state(&heartbeats, 1)), (State::Runs, State::Sleeps));
    }
}
