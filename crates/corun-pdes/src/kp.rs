//! A kernel process: a group of logical processes that one worker handles together, with the events that wait for them.
//!
//! Stragglers and anti-messages wait in the heap like all messages. They are earlier than the events handled so far, so they are at
//! its top next. Then only the logical process that they concern is rolled back.

use crate::event::{Key, Message};
use crate::lp::{Lp, Terms};
use crate::model::{Fault, Model};
use std::collections::BinaryHeap;

/// How often a kernel process did each of these.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub handled: u64,
    pub committed: u64,
    pub undone: u64,
    pub rollbacks: u64,
    pub coasted: u64,
    pub sent: u64,
    pub anti: u64,
    pub annihilated: u64,
}

/// A kernel process.
pub(crate) struct Kp<M: Model> {
    first: u32,
    lps: Vec<Lp<M>>,
    heap: BinaryHeap<Message<M::Event>>,
    /// Events that were handled and are not committed.
    pub uncommitted: usize,
    pub counts: Counts,
}

impl<M: Model> Kp<M> {
    /// Makes a kernel process of these logical processes. `first` is the number of the first one.
    pub fn new(first: u32, lps: Vec<Lp<M>>) -> Kp<M> {
        Kp { first, lps, heap: BinaryHeap::new(), uncommitted: 0, counts: Counts::default() }
    }

    /// The time of the next event; [`crate::mailbox::NEVER`] if none waits.
    #[inline]
    pub fn next(&self) -> u64 {
        self.heap.peek().map_or(crate::mailbox::NEVER, |message| message.key.time)
    }

    /// Adds a message for one of its logical processes.
    #[inline]
    pub fn push(&mut self, message: Message<M::Event>) {
        self.heap.push(message);
    }

    /// How much memory is in use: messages that wait, and handled events that may still be taken back.
    pub fn held(&self) -> usize {
        self.heap.len() + self.uncommitted
    }

    /// How many messages wait.
    pub fn waiting(&self) -> usize {
        self.heap.len()
    }

    /// Handles the next message, and adds the messages that this sends to `out`.
    #[inline]
    pub fn step(&mut self, model: &M, terms: &Terms, out: &mut Vec<Message<M::Event>>) {
        let Some(message) = self.heap.pop() else { return };
        let lp = (message.to - self.first) as usize;
        if self.lps[lp].last().is_some_and(|last| last >= message.key) {
            self.roll_back(lp, message.key, model, terms, out);
        }
        match message.event {
            Some(event) => {
                let already = out.len();
                self.lps[lp].handle(model, terms, message.key, event, out);
                self.uncommitted += 1;
                self.counts.handled += 1;
                self.counts.sent += (out.len() - already) as u64;
            }
            None => self.annihilate(message.key),
        }
    }

    /// Drops the event with the key of an anti-message. The event was sent first and inboxes keep the order, so it is here.
    fn annihilate(&mut self, key: Key) {
        let event = self.heap.pop();
        assert!(event.is_some_and(|m| m.key == key && m.event.is_some()), "nothing to take back at {key:?}");
        self.counts.annihilated += 1;
    }

    fn roll_back(
        &mut self,
        lp: usize,
        from: Key,
        model: &M,
        terms: &Terms,
        out: &mut Vec<Message<M::Event>>,
    ) {
        let (heap, already) = (&mut self.heap, out.len());
        let (undone, coasted) = self.lps[lp].roll_back(model, terms, from, |message| heap.push(message), out);
        self.uncommitted -= undone as usize;
        self.counts.undone += undone;
        self.counts.rollbacks += u64::from(undone > 0);
        self.counts.coasted += coasted;
        self.counts.anti += (out.len() - already) as u64;
    }

    /// Takes back every event after `horizon`, which frees the memory of the events that they sent. Drops events that meet their
    /// anti-message.
    pub fn recall(&mut self, horizon: u64, model: &M, terms: &Terms, out: &mut Vec<Message<M::Event>>) {
        let from = Key::at(horizon.saturating_add(1));
        for lp in 0..self.lps.len() {
            if self.lps[lp].last().is_some_and(|last| last >= from) {
                self.roll_back(lp, from, model, terms, out);
            }
        }
        let mut kept: Vec<Message<M::Event>> = Vec::with_capacity(self.heap.len());
        // An anti-message stays if its event was handled before the horizon.
        for message in std::mem::take(&mut self.heap).into_sorted_vec().into_iter().rev() {
            let meets = kept.last().is_some_and(|anti| anti.event.is_none() && anti.key == message.key);
            if meets {
                kept.pop();
                self.counts.annihilated += 1;
            } else {
                kept.push(message);
            }
        }
        self.heap = kept.into();
    }

    /// Commits every event before `gvt`. Returns how many.
    ///
    /// # Errors
    /// The logical process that did something wrong, the virtual time, and the fault.
    pub fn commit(&mut self, gvt: u64) -> Result<u64, (u32, u64, Fault)> {
        if self.uncommitted == 0 {
            return Ok(0);
        }
        let before = self.counts.committed;
        for (lp, number) in self.lps.iter_mut().zip(self.first..) {
            let committed = lp.commit(gvt).map_err(|(at, fault)| (number, at, fault))?;
            self.counts.committed += committed;
            self.uncommitted -= committed as usize;
        }
        Ok(self.counts.committed - before)
    }

    /// Returns the traces of its logical processes, in order.
    pub fn traces(&self) -> impl Iterator<Item = u64> + '_ {
        self.lps.iter().map(Lp::trace)
    }
}
