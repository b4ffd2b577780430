//! A round computes global virtual time and the memory that each worker may use. One worker at a time does it, for all, and nobody
//! stops.
//!
//! **Memory** is bounded by `Options::memory`. After every round each worker may add its share of the memory that is left. A worker
//! that has used its share handles only events at global virtual time, which frees memory. When memory is nearly full, the round
//! narrows optimism: it takes back events beyond a horizon (cancelback: their messages are annihilated). Each time it halves the
//! distance of the horizon, down to the events that a sequential run would keep. If even those are too many, the run ends with an
//! error.

use crate::error::Error;
use crate::mailbox::{self, NEVER};
use crate::model::Model;
use crate::rounds::Collector;
use crate::shared::Shared;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

impl Collector {
    /// Computes global virtual time, bounds memory, and wakes the workers.
    pub fn round<M: Model>(&mut self, shared: &Shared<'_, M>) {
        let known = shared.progress.gvt.load(Relaxed);
        let gvt = known.max(mailbox::collect(shared.places.iter().map(|place| &place.mailbox)));
        let mut held = held(shared);
        self.peak = self.peak.max(held);
        self.rounds += 1;
        if held > self.limit / 8 * 7 {
            self.recalls += 1;
            held = self.recall(gvt, held, shared);
        } else if held < self.limit / 2 {
            self.window = self.window.max(1).saturating_mul(2).min(self.widest);
        }
        let progress = &shared.progress;
        let left = self.limit.saturating_sub(held) / shared.options.workers;
        progress.allowance.store(left.min(i64::MAX as usize) as i64, Relaxed);
        progress.horizon.store(gvt.saturating_add(self.window), Relaxed);
        progress.gvt.store(gvt, SeqCst);
        progress.rounds.store(self.rounds, SeqCst);
        if gvt == NEVER {
            shared.end();
        } else {
            shared.wake_all();
        }
    }

    /// Takes back the events that are furthest ahead until three quarters of the memory are enough. Returns how many events are
    /// held then.
    ///
    /// A recall adds work that no mailbox shows. So nobody may compute global virtual time meanwhile. The caller holds the
    /// collector's lock, so nobody does.
    fn recall<M: Model>(&mut self, gvt: u64, held_before: usize, shared: &Shared<'_, M>) -> usize {
        let ahead = shared.places.iter().map(|place| place.mailbox.next()).filter(|next| *next != NEVER);
        let spread = ahead.max().map_or(0, |furthest| furthest.saturating_sub(gvt));
        self.window = self.window.min(spread);
        let (mut held, mut narrowest) = (held_before, 0);
        while held > self.limit / 4 * 3 && narrowest < 2 {
            // The narrowest window has two passes, so that anti-messages of the first meet their events in the second.
            narrowest += u32::from(self.window == 0);
            self.window /= 2;
            let horizon = gvt.saturating_add(self.window);
            shared.progress.horizon.store(horizon, SeqCst);
            let mut waiting = 0;
            for number in 0..shared.places.len() as u32 {
                waiting += recall_one(number, gvt, horizon, shared);
            }
            held = self::held(shared);
            if narrowest == 2 && waiting > self.limit {
                shared.fail(Error::OutOfMemory { limit: self.limit, events: waiting, at: gvt });
            }
        }
        held
    }
}

fn held<M: Model>(shared: &Shared<'_, M>) -> usize {
    shared.places.iter().map(|place| place.held.load(Relaxed) + place.mailbox.waiting()).sum()
}

/// Returns how many messages wait in this kernel process.
fn recall_one<M: Model>(number: u32, gvt: u64, horizon: u64, shared: &Shared<'_, M>) -> usize {
    let place = &shared.places[number as usize];
    let Ok(mut kp) = place.kp.lock() else { return 0 };
    let mut out = Vec::new();
    place.mailbox.take_mail(|message| kp.push(message));
    // This commit is final, so it reports a fault of the model.
    if let Err((lp, at, fault)) = kp.commit(gvt) {
        shared.fail(Error::Model { lp, at, fault });
        return 0;
    }
    kp.recall(horizon, shared.model, &shared.terms, &mut out);
    place.mailbox.bring_down(kp.next());
    for message in out {
        let to = shared.homes[message.to as usize];
        if to == number {
            kp.push(message);
        } else {
            shared.places[to as usize].mailbox.post(message);
        }
    }
    place.mailbox.publish(kp.next());
    place.held.store(kp.held(), Relaxed);
    kp.waiting()
}
