//! The seat of one worker: its beat, its thread, and its sleep.

use crate::takeover::State;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An unknown share or CPU.
const UNKNOWN: u32 = u32::MAX;

/// The seat of one worker, on its own cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerSlot {
    beat: AtomicU64,
    /// The CPU that it ran on when it last reported.
    cpu: AtomicU32,
    asleep: AtomicBool,
    is_taken: AtomicBool,
    is_unwanted: AtomicBool,
    /// The last known state.
    seen: AtomicU8,
    /// Stolen share in thousandths.
    stolen: AtomicU32,
    thread: Mutex<Option<Thread>>,
    sleeping: Mutex<()>,
    news: Condvar,
}

/// The thread of a slot.
#[derive(Debug)]
struct Thread {
    number: i32,
    /// How long it ran and waited, if the kernel says so. The file is readable while the thread lives, and never shows a later thread
    /// with the same number.
    schedstat: Option<File>,
    /// The last reading of `schedstat`.
    last: Option<(u64, u64)>,
}

/// Another living thread has this slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another thread is this worker: give each thread its own number")]
pub struct Taken;

impl Default for WorkerSlot {
    fn default() -> WorkerSlot {
        WorkerSlot {
            beat: AtomicU64::new(0),
            cpu: AtomicU32::new(UNKNOWN),
            asleep: AtomicBool::new(false),
            is_taken: AtomicBool::new(false),
            is_unwanted: AtomicBool::new(false),
            seen: AtomicU8::new(0),
            stolen: AtomicU32::new(UNKNOWN),
            thread: Mutex::new(None),
            sleeping: Mutex::new(()),
            news: Condvar::new(),
        }
    }
}

/// A panic elsewhere leaves valid data: nothing here is half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn this_thread() -> i32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() }
}

/// The CPU of the calling thread. With a recent C library this is one load from the kernel's per-thread area (rseq).
#[inline]
fn this_cpu() -> Option<u32> {
    // SAFETY: sched_getcpu has no preconditions.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

impl WorkerSlot {
    /// Makes the calling thread the worker of this slot.
    ///
    /// # Errors
    /// Another living thread has this slot.
    pub fn join(&self) -> Result<(), Taken> {
        let mut thread = lock(&self.thread);
        if thread.as_ref().is_some_and(|thread| thread.number != this_thread() && thread.lives()) {
            return Err(Taken);
        }
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let mut joined = Thread { number: this_thread(), schedstat, last: None };
        joined.last = joined.run_and_wait_ns();
        *thread = Some(joined);
        self.stolen.store(UNKNOWN, Relaxed);
        self.set_wanted(true);
        self.beat_here();
        self.is_taken.store(true, SeqCst);
        Ok(())
    }

    /// Frees the slot of its thread.
    pub fn leave(&self) {
        *lock(&self.thread) = None;
        self.stolen.store(UNKNOWN, Relaxed);
        self.is_taken.store(false, SeqCst);
    }

    /// Whether a thread joined and did not leave.
    #[inline]
    pub fn is_taken(&self) -> bool {
        self.is_taken.load(Relaxed)
    }

    /// Shows that the worker runs. Costs one add, without waiting.
    #[inline]
    pub fn beat(&self) {
        // Only the worker itself writes, so no read-modify-write is needed.
        self.beat.store(self.beat.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Shows that the worker runs, and on which CPU.
    #[inline]
    pub fn beat_here(&self) {
        self.cpu.store(this_cpu().unwrap_or(UNKNOWN), Relaxed);
        self.beat();
    }

    #[inline]
    pub(crate) fn beats(&self) -> u64 {
        self.beat.load(Relaxed)
    }

    /// The CPU that it last reported.
    pub fn cpu(&self) -> Option<u32> {
        Some(self.cpu.load(Relaxed)).filter(|cpu| *cpu != UNKNOWN)
    }

    /// Whether the calling thread is on the CPU that this worker last reported. Then the worker does not run.
    pub(crate) fn is_displaced(&self) -> bool {
        let is_here = self.cpu().is_some() && self.cpu() == this_cpu();
        is_here
            && self
                .thread
                .try_lock()
                .is_ok_and(|thread| thread.as_ref().is_some_and(|thread| thread.number != this_thread()))
    }

    /// Says whether the worker sleeps because it has no work. A sleeping worker does not count as off its CPU.
    pub fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, SeqCst);
        std::sync::atomic::fence(SeqCst);
    }

    #[inline]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Relaxed)
    }

    /// Ends the worker's sleep, if it sleeps. Returns whether it did; then the caller wakes the thread.
    #[inline]
    pub fn end_sleep(&self) -> bool {
        self.asleep.load(SeqCst) && self.asleep.swap(false, SeqCst)
    }

    /// Its state, if that is known without its beats.
    pub(crate) fn rests(&self) -> Option<State> {
        match (self.is_taken(), self.is_asleep(), self.is_wanted()) {
            (false, ..) => Some(State::Absent),
            (true, true, true) => Some(State::Sleeps),
            (true, true, false) => Some(State::Parked),
            (true, false, _) => None,
        }
    }

    pub(crate) fn seen(&self) -> State {
        match self.seen.load(Relaxed) {
            1 => State::Runs,
            2 => State::Off,
            _ => State::Unknown,
        }
    }

    pub(crate) fn set_seen(&self, state: State) {
        let state = match state {
            State::Runs => 1,
            State::Off => 2,
            _ => 0,
        };
        self.seen.store(state, Relaxed);
    }

    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        !self.is_unwanted.load(Relaxed)
    }

    pub(crate) fn set_wanted(&self, wanted: bool) {
        let was_wanted = !self.is_unwanted.swap(!wanted, SeqCst);
        if wanted && !was_wanted {
            // With the lock, so that a wake-up between the check and the sleep is not missed.
            let _sleeping = lock(&self.sleeping);
            self.news.notify_all();
        }
    }

    /// Sleeps until it is wanted, or for `most`. Returns whether it is wanted.
    pub(crate) fn sleep_until_wanted(&self, most: Duration) -> bool {
        let sleeping = lock(&self.sleeping);
        self.set_asleep(true);
        let slept = self.news.wait_timeout_while(sleeping, most, |()| self.is_unwanted.load(SeqCst));
        drop(slept);
        self.set_asleep(false);
        self.beat_here();
        self.is_wanted()
    }

    /// How long the worker's thread ran and how long it waited for a CPU since it began, in nanoseconds. `None` if no thread joined, if
    /// it ended, or if the kernel does not say.
    pub fn run_and_wait_ns(&self) -> Option<(u64, u64)> {
        lock(&self.thread).as_ref()?.run_and_wait_ns()
    }

    /// Time waited for a CPU over time run plus time waited, as last measured, in thousandths. `None` if it neither ran nor waited.
    pub fn stolen(&self) -> Option<u32> {
        Some(self.stolen.load(Relaxed)).filter(|stolen| *stolen != UNKNOWN)
    }

    /// Measures the stolen share since the last measurement.
    pub(crate) fn measure(&self) {
        let Ok(mut thread) = self.thread.try_lock() else { return };
        let Some(thread) = thread.as_mut() else { return };
        let now = thread.run_and_wait_ns();
        let share = thread.last.zip(now).and_then(|(before, now)| share(before, now));
        thread.last = now;
        self.stolen.store(share.unwrap_or(UNKNOWN), Relaxed);
    }
}

/// Waiting over waiting plus running between two readings, in thousandths.
fn share(before: (u64, u64), now: (u64, u64)) -> Option<u32> {
    let ran = now.0.checked_sub(before.0)?;
    let waited = now.1.checked_sub(before.1)?;
    u32::try_from(u128::from(waited) * 1_000 / u128::from(ran + waited).max(1))
        .ok()
        .filter(|_| ran + waited > 0)
}

impl Thread {
    fn run_and_wait_ns(&self) -> Option<(u64, u64)> {
        let mut buffer = [0; 64];
        let length = self.schedstat.as_ref()?.read_at(&mut buffer, 0).ok()?;
        let mut numbers = std::str::from_utf8(&buffer[..length]).ok()?.split_ascii_whitespace();
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// Without schedstat this cannot be known, so a thread counts as living.
    fn lives(&self) -> bool {
        self.schedstat.is_none() || self.run_and_wait_ns().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_stolen_share_is_unknown_for_a_thread_that_neither_ran_nor_waited() {
        let table = [
            ((0, 0), (30, 10), Some(250)),
            ((5, 5), (5, 25), Some(1_000)),
            ((5, 5), (10, 5), Some(0)),
            ((5, 5), (5, 5), None),
            ((5, 5), (4, 9), None),
        ];
        for (before, now, stolen) in table {
            assert_eq!(share(before, now), stolen, "{before:?} {now:?}");
        }
    }

    #[test]
    fn only_a_thread_that_joined_has_times_from_the_kernel() {
        let (slot, empty) = (WorkerSlot::default(), WorkerSlot::default());
        slot.join().unwrap();
        let Some(before) = slot.run_and_wait_ns() else {
            println!("skipped: this kernel keeps no schedstat");
            return;
        };
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(20) {}
        let after = slot.run_and_wait_ns().expect("it joined");
        let (ran, waited) = (after.0 - before.0, after.1 - before.1);
        assert!(ran + waited > 10_000_000, "{ran} + {waited}");
        slot.measure();
        assert!(slot.stolen().is_some_and(|stolen| stolen <= 1_000));
        assert_eq!(empty.run_and_wait_ns(), None);
        empty.measure();
        assert_eq!(empty.stolen(), None);
        slot.leave();
        assert_eq!((slot.stolen(), slot.rests()), (None, Some(State::Absent)));
    }

    #[test]
    fn a_seat_is_taken_while_its_thread_lives_and_free_when_it_has_ended() {
        let slot = WorkerSlot::default();
        slot.join().unwrap();
        assert_eq!(slot.join(), Ok(()), "the same thread again");
        std::thread::scope(|scope| {
            assert_eq!(scope.spawn(|| slot.join()).join().unwrap(), Err(Taken));
        });
        if slot.run_and_wait_ns().is_none() {
            println!("skipped: this kernel keeps no schedstat");
            return;
        }
        let of_another = WorkerSlot::default();
        std::thread::scope(|scope| scope.spawn(|| of_another.join()).join().unwrap()).unwrap();
        // The kernel may take a moment to free a thread after it was joined.
        while of_another.run_and_wait_ns().is_some() {
            std::thread::yield_now();
        }
        assert_eq!(of_another.join(), Ok(()), "it ended without a word");
    }
}
