//! A bounded queue between two stages of a pipeline. Producers wait while it is full, consumers while it is empty. It ends when the
//! last producer has left and it is empty.

use crate::eventcount::EventCount;
use crate::lock::Lock;
use crate::waiting::Waiter;
use std::collections::VecDeque;

/// A first-in, first-out queue with room for a fixed number of items.
#[derive(Debug)]
pub struct Queue<T> {
    depth: usize,
    state: Lock<State<T>>,
    filled: EventCount,
    freed: EventCount,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    producers: u32,
}

impl<T> Queue<T> {
    /// An empty queue with room for `depth` items, at least 1, that `producers` threads will fill.
    pub fn new(depth: usize, producers: u32) -> Queue<T> {
        assert!(depth > 0, "a queue without room never moves");
        let state = State { items: VecDeque::with_capacity(depth.min(1 << 16)), producers };
        Queue { depth, state: Lock::new(state), filled: EventCount::default(), freed: EventCount::default() }
    }

    /// Waits for room and puts `item` at the end.
    pub fn push(&self, item: T, waiter: &Waiter) {
        loop {
            let freed = self.freed.read();
            let mut state = self.state.acquire(waiter);
            if state.items.len() < self.depth {
                state.items.push_back(item);
                drop(state);
                return self.filled.advance_one();
            }
            drop(state);
            self.freed.wait_past(freed, waiter);
        }
    }

    /// Waits for an item and takes it from the front; `None` when there will be no more.
    pub fn pop(&self, waiter: &Waiter) -> Option<T> {
        loop {
            let filled = self.filled.read();
            let mut state = self.state.acquire(waiter);
            if let Some(item) = state.items.pop_front() {
                drop(state);
                self.freed.advance_one();
                return Some(item);
            }
            if state.producers == 0 {
                return None;
            }
            drop(state);
            self.filled.wait_past(filled, waiter);
        }
    }

    /// Says that a producer has left for good.
    pub fn producer_leaves(&self, waiter: &Waiter) {
        self.state.acquire(waiter).producers -= 1;
        self.filled.advance_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::WaitTally;
    use crate::waiting::Policy;

    #[test]
    fn every_item_comes_out_once_and_in_each_producers_order() {
        const PRODUCERS: u32 = 2;
        const CONSUMERS: usize = 3;
        for (policy, items) in
            [(Policy::Spin, 100), (Policy::Block, 10_000), (Policy::SpinThenBlock(2_000), 3_000)]
        {
            let queue = Queue::new(3, PRODUCERS);
            let consume = || {
                let tally = WaitTally::default();
                let waiter = Waiter::new(policy, &tally);
                std::iter::from_fn(|| queue.pop(&waiter)).collect::<Vec<(u32, u32)>>()
            };
            let got: Vec<Vec<(u32, u32)>> = std::thread::scope(|scope| {
                let consumers: Vec<_> = (0..CONSUMERS).map(|_| scope.spawn(consume)).collect();
                for producer in 0..PRODUCERS {
                    let queue = &queue;
                    scope.spawn(move || {
                        let tally = WaitTally::default();
                        let waiter = Waiter::new(policy, &tally);
                        (0..items).for_each(|n| queue.push((producer, n), &waiter));
                        queue.producer_leaves(&waiter);
                    });
                }
                consumers.into_iter().map(|c| c.join().unwrap()).collect()
            });
            for (producer, taken) in (0..PRODUCERS).flat_map(|p| got.iter().map(move |g| (p, g))) {
                let numbers: Vec<u32> =
                    taken.iter().filter(|(p, _)| *p == producer).map(|(_, n)| *n).collect();
                assert!(numbers.is_sorted(), "one consumer saw one producer's items out of order");
            }
            let mut all = got.concat();
            all.sort_unstable();
            let expected: Vec<_> = (0..PRODUCERS).flat_map(|p| (0..items).map(move |n| (p, n))).collect();
            assert_eq!(all, expected);
        }
    }

    #[test]
    fn it_never_holds_more_than_its_depth() {
        let (queue, tally) = (Queue::new(2, 1), WaitTally::default());
        let waiter = Waiter::new(Policy::Block, &tally);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let tally = WaitTally::default();
                let waiter = Waiter::new(Policy::Block, &tally);
                (0..500).for_each(|n| queue.push(n, &waiter));
                queue.producer_leaves(&waiter);
            });
            let mut taken = 0;
            while let Some(n) = queue.pop(&waiter) {
                assert_eq!(n, taken);
                taken += 1;
                assert!(queue.state.acquire(&waiter).items.len() <= 2);
            }
            assert_eq!(taken, 500);
        });
    }
}
