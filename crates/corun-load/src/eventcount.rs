//! An eventcount (Reed and Kanodia, "Synchronization with eventcounts and sequencers", CACM 1979): a counter of events that threads
//! read, advance and wait on. Barrier, lock and queue use only this, so all of them wait in the same known way.
//!
//! There is one rule for its use: read the count, then check whether to wait, then wait for the count to move past the value read. An
//! event between the check and the wait then ends the wait at once. Limit: a waiter that is off the CPU for exactly 2^32 events would
//! miss them.

use crate::futex;
use crate::waiting::Waiter;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, SeqCst};

/// A counter of events.
#[derive(Debug, Default)]
pub struct EventCount {
    count: AtomicU32,
    sleepers: AtomicU32,
}

impl EventCount {
    /// The present count. Everything before that event is visible to the caller.
    pub fn read(&self) -> u32 {
        self.count.load(Acquire)
    }

    /// One event, which wakes one sleeper and every spinner.
    pub fn advance_one(&self) {
        self.advance(1);
    }

    /// One event, which wakes all.
    pub fn advance_all(&self) {
        self.advance(i32::MAX);
    }

    /// Waits until the count is no longer `seen`.
    pub fn wait_past(&self, seen: u32, waiter: &Waiter) {
        waiter.wait_while(&self.count, seen, &self.sleepers);
    }

    // A sleeper first says that it sleeps, and then lets the kernel compare the count. This first changes the count, and then checks
    // for sleepers. In any order of the four steps one of the two sees the other.
    fn advance(&self, wake: i32) {
        self.count.fetch_add(1, SeqCst);
        if self.sleepers.load(SeqCst) > 0 {
            futex::wake(&self.count, wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::WaitTally;
    use crate::waiting::Policy;

    #[test]
    fn no_event_is_lost_between_two_threads_that_take_turns() {
        for policy in [Policy::Spin, Policy::Block, Policy::SpinThenBlock(2_000)] {
            let rounds = if policy == Policy::Spin { 50 } else { 5_000 };
            let (ping, pong) = (EventCount::default(), EventCount::default());
            let play = |mine: &EventCount, theirs: &EventCount, first: bool| {
                let tally = WaitTally::default();
                let waiter = Waiter::new(policy, &tally);
                for round in 0..rounds {
                    if first {
                        mine.advance_one();
                    }
                    theirs.wait_past(round, &waiter);
                    if !first {
                        mine.advance_one();
                    }
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(|| play(&ping, &pong, true));
                scope.spawn(|| play(&pong, &ping, false));
            });
            assert_eq!((ping.read(), pong.read()), (rounds, rounds));
        }
    }
}
