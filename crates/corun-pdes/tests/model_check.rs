//! The protocols of mailboxes and owners under loom, which tries every order of the threads: `make test-races`.
//!
//! This test compiles the sources itself, since the library is built with the atomics of the standard library. Kernel processes are
//! reduced to the part that the protocol sees: the times at which work is left.
#![cfg(loom)]
#![allow(dead_code)]

#[path = "../src/event.rs"]
mod event;
#[path = "../src/mailbox.rs"]
mod mailbox;
#[path = "../src/owners.rs"]
mod owners;
#[path = "../src/sync.rs"]
mod sync;

use event::{Key, Message};
use loom::sync::{Arc, Mutex};
use loom::thread;
use mailbox::{collect, Mailbox, NEVER};
use owners::Owners;

struct Place {
    mailbox: Mailbox<()>,
    times: Mutex<Vec<u64>>,
}

fn place(times: &[u64]) -> Place {
    let first = times.iter().min().copied().unwrap_or(NEVER);
    Place { mailbox: Mailbox::new(first), times: Mutex::new(times.to_vec()) }
}

/// Handles one event of `from`. It sends one event to `to`, `delay` later, through the inbox.
fn handle(from: &Place, to: Option<(&Place, u64)>) {
    let mut times = from.times.lock().unwrap();
    if from.mailbox.has_mail() {
        from.mailbox.take_mail(|message| times.push(message.key.time));
    }
    times.sort_unstable();
    from.mailbox.publish(times.first().copied().unwrap_or(NEVER));
    if times.is_empty() {
        return;
    }
    let now = times.remove(0);
    if let Some((to, delay)) = to {
        to.mailbox.post(Message { key: Key::at(now + delay), to: 0, event: Some(()) });
    }
    from.mailbox.publish(times.first().copied().unwrap_or(NEVER));
}

/// The same, but the holder puts the message in itself.
fn handle_directly(from: &Place, to: &Place, delay: u64) {
    let mut times = from.times.lock().unwrap();
    times.sort_unstable();
    let now = times.remove(0);
    let mut theirs = to.times.lock().unwrap();
    theirs.push(now + delay);
    to.mailbox.bring_down(now + delay);
    drop(theirs);
    from.mailbox.publish(times.first().copied().unwrap_or(NEVER));
}

/// The least time at which work is left: global virtual time must not be later.
fn least_left(places: &[Place]) -> u64 {
    let left = places.iter().map(|place| {
        let mut times = place.times.lock().unwrap();
        place.mailbox.take_mail(|message| times.push(message.key.time));
        times.iter().min().copied().unwrap_or(NEVER)
    });
    left.min().unwrap()
}

/// A time that is computed while `work` runs on another thread is not later than any work left at the end.
fn no_order_computes_too_late_a_time(places: fn() -> Vec<Place>, work: fn(&[Place])) {
    loom::model(move || {
        let places = Arc::new(places());
        let theirs = places.clone();
        let worker = thread::spawn(move || work(&theirs));
        let gvt = collect(places.iter().map(|place| &place.mailbox));
        worker.join().unwrap();
        let left = least_left(&places);
        assert!(gvt <= left, "{gvt} was computed, and {left} is left");
    });
}

#[test]
fn a_message_that_overtakes_the_collector_is_seen() {
    // The collector looks at the receiver first, at 10; then 5 sends it a message at 7.
    no_order_computes_too_late_a_time(
        || vec![place(&[10]), place(&[5, 20])],
        |places| handle(&places[1], Some((&places[0], 2))),
    );
}

#[test]
fn a_message_that_is_passed_on_twice_is_seen() {
    no_order_computes_too_late_a_time(
        || vec![place(&[10]), place(&[5, 20])],
        |places| {
            handle(&places[1], Some((&places[0], 2)));
            handle(&places[0], Some((&places[1], 1)));
        },
    );
}

#[test]
fn a_message_that_the_holder_puts_in_is_seen() {
    no_order_computes_too_late_a_time(
        || vec![place(&[10]), place(&[5, 20])],
        |places| handle_directly(&places[1], &places[0], 2),
    );
}

#[test]
fn two_workers_and_a_collector_agree() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let places = Arc::new(vec![place(&[10]), place(&[5, 20])]);
        let (a, b) = (places.clone(), places.clone());
        let sender = thread::spawn(move || handle(&a[1], Some((&a[0], 2))));
        let receiver = thread::spawn(move || handle(&b[0], None));
        let gvt = collect(places.iter().map(|place| &place.mailbox));
        sender.join().unwrap();
        receiver.join().unwrap();
        let left = least_left(&places);
        assert!(gvt <= left, "{gvt} was computed, and {left} is left");
    });
}

#[test]
fn an_inbox_keeps_the_order_of_each_sender_and_loses_nothing_when_its_owner_changes() {
    loom::model(|| {
        let place = Arc::new(place(&[]));
        let sender = {
            let place = place.clone();
            thread::spawn(move || {
                for time in [3, 4] {
                    place.mailbox.post(Message { key: Key::at(time), to: 0, event: Some(()) });
                }
            })
        };
        // Two owners, one after the other, as the lock has it.
        let mut got = Vec::new();
        for _ in 0..2 {
            if place.mailbox.has_mail() {
                place.mailbox.take_mail(|message| got.push(message.key.time));
            }
        }
        sender.join().unwrap();
        place.mailbox.take_mail(|message| got.push(message.key.time));
        assert_eq!(got, [3, 4]);
    });
}

#[test]
fn a_message_put_in_directly_never_overtakes_those_of_the_same_sender() {
    loom::model(|| {
        let place = Arc::new(place(&[]));
        let sender = {
            let place = place.clone();
            thread::spawn(move || {
                place.mailbox.post(Message { key: Key::at(3), to: 0, event: Some(()) });
                // A worker delivers like this to a kernel process that has become its own.
                let held = place.times.try_lock().ok().filter(|_| !place.mailbox.has_mail());
                match held {
                    Some(mut times) => times.push(4),
                    None => place.mailbox.post(Message { key: Key::at(4), to: 0, event: Some(()) }),
                }
            })
        };
        let take = || {
            let mut times = place.times.lock().unwrap();
            if place.mailbox.has_mail() {
                place.mailbox.take_mail(|message| times.push(message.key.time));
            }
            times.clone()
        };
        take();
        sender.join().unwrap();
        assert_eq!(take(), [3, 4]);
    });
}

/// The kernel processes that a worker knows as its own, and the count of changes then.
struct Known {
    changes: u64,
    list: Vec<u32>,
}

impl Known {
    fn new(owners: &Owners, worker: u32) -> Known {
        let mut known = Known { changes: owners.changes(), list: Vec::new() };
        owners.list(worker, &mut known.list);
        known
    }

    /// A worker does this when it looks around.
    fn look(&mut self, owners: &Owners, worker: u32) {
        if self.changes != owners.changes() {
            *self = Known::new(owners, worker);
        }
    }
}

/// Only `give` makes changes here. loom keeps only the last access to a value. So it does not try every order of a thread that
/// reads a value before it changes it, as `take` does.
#[test]
fn every_kernel_process_has_a_worker_in_any_order_of_changes_and_looks() {
    loom::model(|| {
        // Worker 0 begins with two, worker 1 with one.
        let owners = Arc::new(Owners::new(3, 2));
        let theirs = owners.clone();
        let mover = thread::spawn(move || {
            theirs.give(0, 1);
            theirs.give(2, 0);
        });
        let mut known = [0, 1].map(|worker| Known::new(&owners, worker));
        mover.join().unwrap();
        let mut all: Vec<u32> = Vec::new();
        for (worker, known) in known.iter_mut().enumerate() {
            known.look(&owners, worker as u32);
            all.extend(&known.list);
        }
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2], "what both believe to have");
    });
}
