//! A barrier: a round is over when every party has arrived.
//!
//! Stopping: the last to arrive decides for all whether there is another round. So all threads leave after the same round, and none
//! waits for one that has gone.

use crate::eventcount::EventCount;
use crate::waiting::Waiter;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// A meeting point for a fixed number of threads.
#[derive(Debug)]
pub struct Barrier {
    parties: u32,
    arrived: AtomicU32,
    round: EventCount,
    over: AtomicBool,
}

impl Barrier {
    /// A barrier for `parties` threads, at least 1.
    pub fn new(parties: u32) -> Barrier {
        assert!(parties > 0, "a barrier without parties never opens");
        Barrier {
            parties,
            arrived: AtomicU32::new(0),
            round: EventCount::default(),
            over: AtomicBool::new(false),
        }
    }

    /// Waits for all parties. Only the last to arrive calls `over`, which says whether this was the last round. Returns the same to
    /// every party: true if there is another round.
    pub fn wait(&self, waiter: &Waiter, over: impl FnOnce() -> bool) -> bool {
        let round = self.round.read();
        if self.arrived.fetch_add(1, AcqRel) + 1 == self.parties {
            // Nobody arrives for the next round before the count advances, and nobody decides on it before
            // all parties have read this round's decision: both stores are ordered by `advance_all`.
            self.arrived.store(0, Relaxed);
            self.over.store(over(), Relaxed);
            self.round.advance_all();
        } else {
            self.round.wait_past(round, waiter);
        }
        !self.over.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::WaitTally;
    use crate::waiting::Policy;
    use std::sync::atomic::Ordering::Acquire;

    #[test]
    fn no_party_passes_before_all_have_arrived_and_all_leave_after_the_same_round() {
        const PARTIES: u32 = 3;
        for (policy, rounds) in
            [(Policy::Spin, 20), (Policy::Block, 2_000), (Policy::SpinThenBlock(2_000), 500)]
        {
            let barrier = Barrier::new(PARTIES);
            let arrivals = AtomicU32::new(0);
            let party = || {
                let tally = WaitTally::default();
                let waiter = Waiter::new(policy, &tally);
                for round in 1.. {
                    arrivals.fetch_add(1, AcqRel);
                    let go_on = barrier.wait(&waiter, || round == rounds);
                    let seen = arrivals.load(Acquire);
                    assert!((round * PARTIES..=(round + 1) * PARTIES).contains(&seen), "{seen} in {round}");
                    if !go_on {
                        return round;
                    }
                }
                unreachable!("the barrier says when it is over")
            };
            let left_after: Vec<u32> = std::thread::scope(|scope| {
                let parties: Vec<_> = (0..PARTIES).map(|_| scope.spawn(party)).collect();
                parties.into_iter().map(|p| p.join().unwrap()).collect()
            });
            assert_eq!(left_after, [rounds; PARTIES as usize]);
        }
    }

    #[test]
    fn a_lone_party_never_waits() {
        let tally = WaitTally::default();
        let barrier = Barrier::new(1);
        for _ in 0..10 {
            assert!(barrier.wait(&Waiter::new(Policy::Block, &tally), || false));
        }
        assert_eq!(tally.waits.get(), 0);
    }
}
