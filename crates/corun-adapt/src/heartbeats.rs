//! Who is off its CPU, by beats that stand still.

use crate::takeover::State;
use crate::worker::WorkerSlot;
use std::time::{Duration, Instant};

/// What one observer sees of the workers.
#[derive(Debug)]
pub struct Heartbeats {
    stale_after: Duration,
    last: Instant,
    was_away: bool,
    seen: Box<[Seen]>,
}

/// The last beat of a worker, when it was new, and whether it still was at the last look.
#[derive(Clone, Copy, Debug)]
struct Seen {
    beat: u64,
    at: Instant,
    is_new: bool,
}

impl Heartbeats {
    /// Whoever shows no beat for longer than `stale_after` counts as off its CPU.
    pub fn new(workers: usize, stale_after: Duration) -> Heartbeats {
        let now = Instant::now();
        let seen = Seen { beat: 0, at: now, is_new: false };
        Heartbeats { stale_after, last: now, was_away: true, seen: vec![seen; workers].into() }
    }

    /// Looks at all slots. Who was off its own CPU since its last look knows nothing about the others and begins anew.
    pub fn look(&mut self, slots: &[WorkerSlot]) {
        self.look_at(slots, Instant::now());
    }

    fn look_at(&mut self, slots: &[WorkerSlot], now: Instant) {
        self.was_away = now - self.last > self.stale_after;
        self.last = now;
        for (slot, seen) in slots.iter().zip(&mut self.seen) {
            let beat = slot.beats();
            let is_new = beat != seen.beat;
            let at = if is_new || self.was_away || slot.is_asleep() { now } else { seen.at };
            *seen = Seen { beat, at, is_new };
        }
    }

    /// Whether a worker was off its CPU, as of the last look.
    pub fn is_stale(&self, worker: usize) -> bool {
        self.last - self.seen[worker].at > self.stale_after
    }

    /// What a worker does, as of the last look.
    pub fn state(&self, worker: usize, slots: &[WorkerSlot]) -> State {
        let (slot, seen) = (&slots[worker], &self.seen[worker]);
        match slot.rests() {
            Some(state) => state,
            None if seen.is_new => State::Runs,
            None if self.is_stale(worker) || slot.is_displaced() => State::Off,
            None if self.was_away => State::Unknown,
            None => State::Runs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shows_no_beat_is_stale_unless_it_sleeps_or_the_lookout_was_away() {
        let slots: Vec<WorkerSlot> = (0..3).map(|_| WorkerSlot::default()).collect();
        let step = Duration::from_micros(50);
        let mut heartbeats = Heartbeats::new(3, 2 * step);
        let begin = heartbeats.last;
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
        // The observer itself was preempted: nobody is stale for that.
        heartbeats.look_at(&slots, at(50));
        assert_eq!(stale(&heartbeats), [false; 3]);
        assert!(slots[2].end_sleep() && !slots[2].end_sleep());
    }

    #[test]
    fn the_state_of_a_worker_is_what_two_looks_in_time_tell() {
        let slots: Vec<WorkerSlot> = (0..3).map(|_| WorkerSlot::default()).collect();
        slots[0].join().unwrap();
        slots[1].join().unwrap();
        // Where this thread itself is cannot be held against them: it is both.
        let step = Duration::from_micros(50);
        let mut heartbeats = Heartbeats::new(3, 2 * step);
        let at = |n: u32| heartbeats.last + n * step;
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
