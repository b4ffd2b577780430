//! Who is off its CPU, by beats that stand still.

use crate::seat::Seat;
use crate::sight::State;
use std::time::{Duration, Instant};

/// What one observer sees of the workers.
#[derive(Debug)]
pub struct Lookout {
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

impl Lookout {
    /// Whoever shows no beat for longer than `stale_after` counts as off its CPU.
    pub fn new(workers: usize, stale_after: Duration) -> Lookout {
        let now = Instant::now();
        let seen = Seen { beat: 0, at: now, is_new: false };
        Lookout { stale_after, last: now, was_away: true, seen: vec![seen; workers].into() }
    }

    /// Looks at all seats. Who was off its own CPU since its last look knows nothing about the others and begins anew.
    pub fn look(&mut self, seats: &[Seat]) {
        self.look_at(seats, Instant::now());
    }

    fn look_at(&mut self, seats: &[Seat], now: Instant) {
        self.was_away = now - self.last > self.stale_after;
        self.last = now;
        for (seat, seen) in seats.iter().zip(&mut self.seen) {
            let beat = seat.beats();
            let is_new = beat != seen.beat;
            let at = if is_new || self.was_away || seat.is_asleep() { now } else { seen.at };
            *seen = Seen { beat, at, is_new };
        }
    }

    /// Whether a worker was off its CPU, as of the last look.
    pub fn is_stale(&self, worker: usize) -> bool {
        self.last - self.seen[worker].at > self.stale_after
    }

    /// What a worker does, as of the last look.
    pub fn state(&self, worker: usize, seats: &[Seat]) -> State {
        let (seat, seen) = (&seats[worker], &self.seen[worker]);
        match seat.rests() {
            Some(state) => state,
            None if seen.is_new => State::Runs,
            None if self.is_stale(worker) || seat.is_displaced() => State::Off,
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
        let seats: Vec<Seat> = (0..3).map(|_| Seat::default()).collect();
        let step = Duration::from_micros(50);
        let mut lookout = Lookout::new(3, 2 * step);
        let begin = lookout.last;
        let at = |n: u32| begin + n * step;
        seats[2].set_asleep(true);
        for n in 1..=4 {
            seats[0].beat();
            lookout.look_at(&seats, at(n));
        }
        let stale = |lookout: &Lookout| (0..3).map(|worker| lookout.is_stale(worker)).collect::<Vec<_>>();
        assert_eq!(stale(&lookout), [false, true, false]);
        // It runs again.
        seats[1].beat();
        seats[0].beat();
        lookout.look_at(&seats, at(5));
        assert_eq!(stale(&lookout), [false; 3]);
        // The lookout itself was preempted: nobody is stale for that.
        lookout.look_at(&seats, at(50));
        assert_eq!(stale(&lookout), [false; 3]);
        assert!(seats[2].end_sleep() && !seats[2].end_sleep());
    }

    #[test]
    fn the_state_of_a_worker_is_what_two_looks_in_time_tell() {
        let seats: Vec<Seat> = (0..3).map(|_| Seat::default()).collect();
        seats[0].join().unwrap();
        seats[1].join().unwrap();
        // Where this thread itself is cannot be held against them: it is both.
        let step = Duration::from_micros(50);
        let mut lookout = Lookout::new(3, 2 * step);
        let at = |n: u32| lookout.last + n * step;
        let times: Vec<Instant> = (0..60).map(at).collect();
        lookout.look_at(&seats, times[1]);
        let state = |lookout: &Lookout, worker| lookout.state(worker, &seats);
        assert_eq!(state(&lookout, 0), State::Runs, "it joined since");
        lookout.look_at(&seats, times[40]);
        assert_eq!(state(&lookout, 0), State::Unknown, "the last look was long ago");
        seats[0].beat();
        for time in &times[41..45] {
            lookout.look_at(&seats, *time);
        }
        assert_eq!(state(&lookout, 0), State::Off);
        assert_eq!(state(&lookout, 2), State::Absent);
        seats[1].set_asleep(true);
        seats[0].beat();
        lookout.look_at(&seats, times[45]);
        assert_eq!((state(&lookout, 0), state(&lookout, 1)), (State::Runs, State::Sleeps));
    }
}
