//! A lock around a value: mutual exclusion with the wait policy of the program.
//!
//! It is unfair, like most locks: the first to try after a release gets it, and a woken sleeper has to try again. This shows
//! lock-holder preemption: while the holder is off the CPU, all others wait, each in its way.

use crate::eventcount::EventCount;
use crate::waiting::Waiter;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A value that one thread at a time may use.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Lock<T> {
    held: AtomicBool,
    released: EventCount,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through `Held`, of which one exists at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The right to use the value, given back on drop.
#[derive(Debug)]
pub struct Held<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    /// A free lock around `value`.
    pub fn new(value: T) -> Lock<T> {
        Lock { held: AtomicBool::new(false), released: EventCount::default(), value: UnsafeCell::new(value) }
    }

    /// Waits until the lock is free and takes it.
    pub fn acquire(&self, waiter: &Waiter) -> Held<'_, T> {
        loop {
            let releases = self.released.read();
            if !self.held.load(Relaxed) && !self.held.swap(true, Acquire) {
                return Held(self);
            }
            self.released.wait_past(releases, waiter);
        }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.0.held.store(false, Release);
        self.0.released.advance_one();
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so nobody else has a reference.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, so nobody else has a reference.
        unsafe { &mut *self.0.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::WaitTally;
    use crate::waiting::Policy;

    #[test]
    fn one_thread_at_a_time_is_inside_and_everyone_gets_in() {
        const THREADS: u64 = 4;
        for (policy, rounds) in
            [(Policy::Spin, 2_000), (Policy::Block, 20_000), (Policy::SpinThenBlock(2_000), 5_000)]
        {
            let lock = Lock::new(0u64);
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        let tally = WaitTally::default();
                        for round in 0..rounds {
                            let mut value = lock.acquire(&Waiter::new(policy, &tally));
                            // Two steps that a second thread inside would tear apart.
                            let before = *value;
                            if round % 64 == 0 {
                                std::thread::yield_now();
                            }
                            *value = std::hint::black_box(before) + 1;
                        }
                    });
                }
            });
            let tally = WaitTally::default();
            assert_eq!(*lock.acquire(&Waiter::new(policy, &tally)), THREADS * rounds);
            assert_eq!(tally.waits.get(), 0, "a free lock is taken without waiting");
        }
    }
}
