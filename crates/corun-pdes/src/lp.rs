//! A logical process during a run: its state, the events handled since the last commit, and rollbacks.
//!
//! The state is saved before every n-th event. A rollback restores the last state saved before the straggler and **coasts
//! forward**: it handles the events in between again, without sending, since their messages are still valid.

use crate::event::{Key, Message};
use crate::model::{watched, Context, Fault, Model};
use crate::rng::Rng;
use crate::trace::Trace;
use std::collections::VecDeque;

/// An event that was handled and may still be taken back.
#[derive(Debug)]
struct Handled<E> {
    key: Key,
    event: E,
    /// How many messages it sent.
    sends: u32,
}

/// The state before the event of index `before`.
#[derive(Debug)]
struct Saved<S> {
    before: u64,
    state: S,
    rng: Rng,
    serial: u64,
}

/// Settings that all logical processes of a run share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub lps: u32,
    pub until: u64,
    pub seed: u64,
    pub checkpoint_every: u32,
}

/// A logical process. Committed events have consecutive indices from 0.
pub(crate) struct Lp<M: Model> {
    id: u32,
    state: M::State,
    rng: Rng,
    /// How many messages it has sent.
    serial: u64,
    /// How many rollbacks it had. A rollback does not lower this number, so it tells an event from the one sent again in its place.
    instance: u32,
    /// The handled events, from index `first` on.
    handled: VecDeque<Handled<M::Event>>,
    /// The messages that these events sent.
    sent: VecDeque<(Key, u32)>,
    saved: VecDeque<Saved<M::State>>,
    first: u64,
    committed: u64,
    /// Events since the state was saved; at 0 the next event saves it.
    unsaved: u32,
    trace: Trace,
    faults: Vec<(Key, Fault)>,
}

impl<M: Model> Lp<M> {
    /// Starts a logical process at time 0, and adds its first messages to `out`.
    pub fn start(
        model: &M,
        id: u32,
        terms: &Terms,
        out: &mut Vec<Message<M::Event>>,
    ) -> Result<Lp<M>, Fault> {
        let (mut rng, mut serial) = (Rng::new(terms.seed, id), 0);
        let mut context = Context {
            lp: id,
            now: 0,
            lps: terms.lps,
            until: terms.until,
            rng: &mut rng,
            serial: &mut serial,
            instance: 0,
            sends: Some(out),
            fault: None,
        };
        let state = watched(&mut context, |context| model.start(context))?;
        Ok(Lp {
            id,
            state,
            rng,
            serial,
            instance: 0,
            handled: VecDeque::new(),
            sent: VecDeque::new(),
            saved: VecDeque::new(),
            first: 0,
            committed: 0,
            unsaved: 0,
            trace: Trace::default(),
            faults: Vec::new(),
        })
    }

    /// The last handled event that may still be taken back.
    #[inline]
    pub fn last(&self) -> Option<Key> {
        self.handled.back().map(|handled| handled.key)
    }

    /// Handles an event, and adds the messages that it sends to `out`.
    #[inline]
    pub fn handle(
        &mut self,
        model: &M,
        terms: &Terms,
        key: Key,
        event: M::Event,
        out: &mut Vec<Message<M::Event>>,
    ) {
        if self.unsaved == 0 {
            let before = self.first + self.handled.len() as u64;
            let (state, rng) = (self.state.clone(), self.rng.clone());
            self.saved.push_back(Saved { before, state, rng, serial: self.serial });
        }
        self.unsaved = if self.unsaved + 1 >= terms.checkpoint_every { 0 } else { self.unsaved + 1 };
        let already = out.len();
        if let Err(fault) = self.run(model, terms, key.time, &event, Some(out)) {
            self.faults.push((key, fault));
        }
        self.sent.extend(out[already..].iter().map(|message| (message.key, message.to)));
        self.handled.push_back(Handled { key, event, sends: (out.len() - already) as u32 });
    }

    fn run(
        &mut self,
        model: &M,
        terms: &Terms,
        now: u64,
        event: &M::Event,
        sends: Option<&mut Vec<Message<M::Event>>>,
    ) -> Result<(), Fault> {
        let mut context = Context {
            lp: self.id,
            now,
            lps: terms.lps,
            until: terms.until,
            rng: &mut self.rng,
            serial: &mut self.serial,
            instance: self.instance,
            sends,
            fault: None,
        };
        let state = &mut self.state;
        watched(&mut context, |context| model.handle(state, event, context))
    }

    /// Takes back every event from `from` on. The events go to `again`, and the anti-messages for their messages to `out`. Returns
    /// how many events were taken back, and how many were handled again to restore the state.
    pub fn roll_back(
        &mut self,
        model: &M,
        terms: &Terms,
        from: Key,
        mut again: impl FnMut(Message<M::Event>),
        out: &mut Vec<Message<M::Event>>,
    ) -> (u64, u64) {
        let length = self.handled.len();
        while self.last().is_some_and(|last| last >= from) {
            let undone = self.handled.pop_back().expect("there is a last one");
            let kept = self.sent.len() - undone.sends as usize;
            out.extend(self.sent.drain(kept..).map(|(key, to)| Message::anti(key, to)));
            again(Message { key: undone.key, to: self.id, event: Some(undone.event) });
        }
        let undone = length - self.handled.len();
        if undone == 0 {
            return (0, 0);
        }
        self.faults.retain(|(key, _)| *key < from);
        self.instance = self.instance.wrapping_add(1);
        let target = self.first + self.handled.len() as u64;
        while self.saved.back().is_some_and(|saved| saved.before > target) {
            self.saved.pop_back();
        }
        let saved = self.saved.pop_back().expect("the state before the first event kept is saved");
        let before = saved.before;
        (self.serial, self.rng) = (saved.serial, saved.rng.clone());
        if before == target {
            // The next event saves the state again.
            self.state = saved.state;
            self.unsaved = 0;
            return (undone as u64, 0);
        }
        self.state = saved.state.clone();
        self.saved.push_back(saved);
        let between = std::mem::take(&mut self.handled);
        for handled in between.range((before - self.first) as usize..) {
            // The fault was recorded when the event was handled first.
            let _ = self.run(model, terms, handled.key.time, &handled.event, None);
        }
        self.handled = between;
        let coasted = target - before;
        self.unsaved = (coasted % u64::from(terms.checkpoint_every)) as u32;
        (undone as u64, coasted)
    }

    /// Commits every event before `gvt`, and forgets the states that no rollback needs any more. Returns how many events.
    ///
    /// # Errors
    /// The virtual time of a committed event in which the model did something wrong, and the fault.
    pub fn commit(&mut self, gvt: u64) -> Result<u64, (u64, Fault)> {
        if let Some(at) = self.faults.iter().position(|(key, _)| key.time < gvt) {
            let (key, fault) = self.faults.swap_remove(at);
            return Err((key.time, fault));
        }
        let from = (self.committed - self.first) as usize;
        let mut count = 0;
        for handled in self.handled.range(from..) {
            if handled.key.time >= gvt {
                break;
            }
            self.trace.add(&handled.key, &handled.event);
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        self.committed += count;
        if self.committed == self.first + self.handled.len() as u64 {
            // No event can be taken back, so nothing has to be kept: the next event saves the state.
            self.handled.clear();
            self.sent.clear();
            self.saved.clear();
            self.first = self.committed;
            self.unsaved = 0;
            return Ok(count);
        }
        while self.saved.get(1).is_some_and(|next| next.before <= self.committed) {
            self.saved.pop_front();
        }
        let keep_from = self.saved.front().expect("the state before the first event kept is saved").before;
        for _ in self.first..keep_from {
            let handled = self.handled.pop_front().expect("the saved state is before an event");
            self.sent.drain(..handled.sends as usize);
        }
        self.first = keep_from;
        Ok(count)
    }

    /// The trace of all committed events and of the last state.
    pub fn trace(&self) -> u64 {
        self.trace.with(&self.state)
    }
}
