//! Worker threads: who runs, who is stolen from, and who had better do whose work.
//!
//! A worker **beats**: it adds one to a counter wherever it could stop. A beat that stands still while others' go on means that its thread is
//! off its CPU. What share of its time it waited for a CPU is what the kernel says of that thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The place of one worker; a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Seat {
    beat: AtomicU64,
    asleep: AtomicBool,
    schedstat: OnceLock<File>,
}

impl Seat {
    /// The calling thread is the worker of this seat from now on.
    ///
    /// # Errors
    /// The kernel does not tell how long this thread waits; beats work all the same.
    pub fn join(&self) -> io::Result<()> {
        let file = File::open("/proc/thread-self/schedstat")?;
        let _ = self.schedstat.set(file);
        Ok(())
    }

    /// Shows that the worker runs: one add, which nobody waits for.
    #[inline]
    pub fn beat(&self) {
        // Only the worker itself writes, so no read-modify-write is needed.
        self.beat.store(self.beat.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Says that the worker sleeps for want of work, or no longer does: who sleeps is not off its CPU against its will.
    pub fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, SeqCst);
        std::sync::atomic::fence(SeqCst);
    }

    /// Ends the worker's sleep if it sleeps. Returns whether it did: then whoever asks wakes the thread.
    #[inline]
    pub fn end_sleep(&self) -> bool {
        self.asleep.load(SeqCst) && self.asleep.swap(false, SeqCst)
    }

    /// How long the worker's thread ran and how long it waited for a CPU, since it began, in nanoseconds. `None` where it never joined or
    /// the kernel does not tell, also since it ended.
    pub fn run_and_wait_ns(&self) -> Option<(u64, u64)> {
        let mut buffer = [0; 64];
        let length = self.schedstat.get()?.read_at(&mut buffer, 0).ok()?;
        let mut numbers = std::str::from_utf8(&buffer[..length]).ok()?.split_ascii_whitespace();
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

/// The workers of a program.
#[derive(Debug)]
pub struct Crew {
    seats: Box<[Seat]>,
}

impl Crew {
    /// Seats for so many workers.
    pub fn new(workers: usize) -> Crew {
        Crew { seats: (0..workers).map(|_| Seat::default()).collect() }
    }

    /// The seats, one a worker.
    pub fn seats(&self) -> &[Seat] {
        &self.seats
    }
}

/// What one worker sees of the others.
#[derive(Debug)]
pub struct Lookout {
    stale_after: Duration,
    last: Instant,
    /// The last beat of each, and when it was new.
    seen: Box<[(u64, Instant)]>,
}

impl Lookout {
    /// Whoever shows no beat for longer than `stale_after` counts as off its CPU.
    pub fn new(workers: usize, stale_after: Duration) -> Lookout {
        let now = Instant::now();
        Lookout { stale_after, last: now, seen: vec![(0, now); workers].into() }
    }

    /// Looks at all seats. Who was off its own CPU since its last look knows nothing about the others and begins anew.
    pub fn look(&mut self, crew: &Crew) {
        self.look_at(crew, Instant::now());
    }

    fn look_at(&mut self, crew: &Crew, now: Instant) {
        let was_away = now - self.last > self.stale_after;
        self.last = now;
        for (seat, seen) in crew.seats.iter().zip(&mut self.seen) {
            let beat = seat.beat.load(Relaxed);
            if beat != seen.0 || was_away || seat.asleep.load(Relaxed) {
                *seen = (beat, now);
            }
        }
    }

    /// Whether a worker was off its CPU, as of the last look.
    pub fn is_stale(&self, worker: usize) -> bool {
        self.last - self.seen[worker].1 > self.stale_after
    }

    /// Workers that were not, at least 1.
    pub fn active(&self) -> usize {
        (0..self.seen.len()).filter(|worker| !self.is_stale(*worker)).count().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shows_no_beat_is_stale_unless_it_sleeps_or_the_lookout_was_away() {
        let crew = Crew::new(3);
        let step = Duration::from_micros(50);
        let mut lookout = Lookout::new(3, 2 * step);
        let begin = lookout.last;
        let at = |n: u32| begin + n * step;
        crew.seats()[2].set_asleep(true);
        for n in 1..=4 {
            crew.seats()[0].beat();
            lookout.look_at(&crew, at(n));
        }
        let stale = |lookout: &Lookout| (0..3).map(|worker| lookout.is_stale(worker)).collect::<Vec<_>>();
        assert_eq!(stale(&lookout), [false, true, false]);
        assert_eq!(lookout.active(), 2);
        // It runs again.
        crew.seats()[1].beat();
        crew.seats()[0].beat();
        lookout.look_at(&crew, at(5));
        assert_eq!(stale(&lookout), [false; 3]);
        // The lookout itself was preempted: nobody is stale for that.
        lookout.look_at(&crew, at(50));
        assert_eq!(stale(&lookout), [false; 3]);
        assert!(crew.seats()[2].end_sleep() && !crew.seats()[2].end_sleep());
    }

    #[test]
    fn the_kernel_tells_of_who_joined_and_of_nobody_else() {
        let crew = Crew::new(2);
        if crew.seats()[0].join().is_err() {
            println!("skipped: this kernel keeps no schedstat");
            return;
        }
        let before = crew.seats()[0].run_and_wait_ns().expect("it joined");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(20) {}
        let after = crew.seats()[0].run_and_wait_ns().expect("it joined");
        let (ran, waited) = (after.0 - before.0, after.1 - before.1);
        assert!(ran + waited > 10_000_000, "{ran} + {waited}");
        assert_eq!(crew.seats()[1].run_and_wait_ns(), None);
    }
}
