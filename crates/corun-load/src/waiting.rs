//! The behavior of a waiting thread, and its account.
//!
//! `spin` executes PAUSE until the wait is over, and never enters the kernel in between. `block` sleeps in the kernel (futex) at once.
//! `spin-then-block` spins for a given time, then sleeps. No library adds its own heuristics, so the behavior is exactly that of the
//! workload file.
//!
//! The account is the ground truth for a spin detector: the CPU time between the beginning and the end of spinning. It is not wall
//! time, since a preempted spinner does not spin. Its limit: each wait that spins reads the CPU clock twice, about 0.3 µs before and
//! after, and half of that counts as spinning.

use crate::clock::{now_ns, thread_cpu_ns};
use crate::futex;
use crate::tally::WaitTally;
use std::sync::atomic::{AtomicU32, Ordering::Acquire};

/// The policy for waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Stay on the CPU until the wait is over.
    Spin,
    /// Sleep at once.
    Block,
    /// Spin for this many nanoseconds of wall time, then sleep.
    SpinThenBlock(u64),
}

/// PAUSEs between two looks at the clock in a bounded spin: well under 10 µs on any CPU.
const PAUSES_PER_LOOK: u32 = 32;

/// One thread's way to wait, and its account.
#[derive(Clone, Copy, Debug)]
pub struct Waiter<'a> {
    policy: Policy,
    tally: &'a WaitTally,
}

impl<'a> Waiter<'a> {
    /// A waiter that follows `policy` and writes to `tally`.
    pub fn new(policy: Policy, tally: &'a WaitTally) -> Waiter<'a> {
        Waiter { policy, tally }
    }

    /// Returns once `word` no longer holds `seen`. Before each sleep it adds itself to `sleepers`, so that the thread that changes the
    /// word knows whether to wake one.
    pub fn wait_while(&self, word: &AtomicU32, seen: u32, sleepers: &AtomicU32) {
        let over = || word.load(Acquire) != seen;
        if over() {
            return;
        }
        let begin_ns = now_ns();
        match self.policy {
            Policy::Spin => self.spin(over, || true),
            Policy::Block => self.block(word, seen, sleepers),
            Policy::SpinThenBlock(limit_ns) => {
                self.spin(over, || now_ns() - begin_ns < limit_ns);
                self.block(word, seen, sleepers);
            }
        }
        self.tally.waits.add(1);
        self.tally.wait_ns.add(now_ns() - begin_ns);
    }

    fn spin(&self, over: impl Fn() -> bool, go_on: impl Fn() -> bool) {
        let begin_ns = thread_cpu_ns();
        while !over() && go_on() {
            for _ in 0..PAUSES_PER_LOOK {
                if over() {
                    break;
                }
                std::hint::spin_loop();
            }
        }
        self.tally.spin_ns.add(thread_cpu_ns() - begin_ns);
    }

    fn block(&self, word: &AtomicU32, seen: u32, sleepers: &AtomicU32) {
        use std::sync::atomic::Ordering::SeqCst;
        while word.load(Acquire) == seen {
            let begin_ns = now_ns();
            sleepers.fetch_add(1, SeqCst);
            futex::wait(word, seen, None);
            sleepers.fetch_sub(1, SeqCst);
            self.tally.sleeps.add(1);
            self.tally.block_ns.add(now_ns() - begin_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Release;

    /// Waits under `policy` for a word that another thread changes after 30 ms.
    fn account_of(policy: Policy) -> WaitTally {
        let (word, sleepers, tally) = (AtomicU32::new(0), AtomicU32::new(0), WaitTally::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                crate::clock::sleep_until(now_ns() + 30_000_000);
                word.store(1, Release);
                futex::wake(&word, i32::MAX);
            });
            Waiter::new(policy, &tally).wait_while(&word, 0, &sleepers);
        });
        assert_eq!(sleepers.into_inner(), 0);
        tally
    }

    #[test]
    fn a_spinner_never_sleeps() {
        let t = account_of(Policy::Spin);
        assert_eq!((t.waits.get(), t.sleeps.get(), t.block_ns.get()), (1, 0, 0));
        assert!(t.spin_ns.get() > 0 && t.spin_ns.get() <= t.wait_ns.get());
    }

    #[test]
    fn a_blocker_never_spins() {
        let t = account_of(Policy::Block);
        assert_eq!((t.waits.get(), t.spin_ns.get()), (1, 0));
        assert!(t.sleeps.get() >= 1 && t.block_ns.get() <= t.wait_ns.get());
    }

    #[test]
    fn spin_then_block_does_one_after_the_other() {
        let t = account_of(Policy::SpinThenBlock(1_000_000));
        assert_eq!(t.waits.get(), 1);
        assert!(t.sleeps.get() >= 1 && t.spin_ns.get() > 0);
        assert!(t.spin_ns.get() + t.block_ns.get() <= t.wait_ns.get());
    }

    #[test]
    fn a_wait_that_is_over_before_it_begins_costs_and_counts_nothing() {
        let tally = WaitTally::default();
        Waiter::new(Policy::Block, &tally).wait_while(&AtomicU32::new(1), 0, &AtomicU32::new(0));
        assert_eq!((tally.waits.get(), tally.wait_ns.get()), (0, 0));
    }
}
