//! The part of a kernel process that other workers see: an inbox that never blocks, and the times for global virtual time.
//!
//! A mailbox has three times. `floor` is a lower bound on everything that the process still has to handle; only the worker that
//! holds the process writes it. `mail` is a lower bound on the messages in the inbox. `arrived` is the least time that was written
//! to the mailbox since a collector last looked. A sender keeps its own `floor` down until the message is posted. So one worker can
//! compute global virtual time at any moment ([`collect`]). No worker has to stop for it, and any of them may be preempted.
//!
//! Why `collect` is right: it clears all `arrived`, reads `mail` and `floor` of all mailboxes, then reads all `arrived`. Let work
//! at time t be left at the end in the process of a mailbox. If it was there when the collector read the mailbox, then the mailbox
//! said t or less. If it came later, there are two cases. The worker that brought it had noted it: then `arrived` says t or less.
//! Or it had not noted it yet: then its own mailbox still says t or less. The collector read that, or that mailbox was brought down
//! since, and the same argument holds one message further back. `tests/model_check.rs` has loom try every order.

use crate::event::Message;
use crate::sync::{AtomicU64, Queue, Relaxed, Release, SeqCst};

/// A time later than every event.
pub(crate) const NEVER: u64 = u64::MAX;

/// The mailbox of a kernel process.
pub(crate) struct Mailbox<E> {
    floor: AtomicU64,
    mail: AtomicU64,
    arrived: AtomicU64,
    inbox: Queue<Message<E>>,
}

impl<E> Mailbox<E> {
    /// Makes the mailbox of a process that has nothing to handle before `floor`.
    pub fn new(floor: u64) -> Mailbox<E> {
        Mailbox {
            floor: AtomicU64::new(floor),
            mail: AtomicU64::new(NEVER),
            arrived: AtomicU64::new(NEVER),
            inbox: Queue::new(),
        }
    }

    /// The time of the next event, as seen from outside.
    #[inline]
    pub fn next(&self) -> u64 {
        self.floor.load(Relaxed).min(self.mail.load(Relaxed))
    }

    /// How many messages are in the inbox.
    pub fn waiting(&self) -> usize {
        self.inbox.len()
    }

    /// Puts a message into the inbox. The sender keeps its own floor at or below the message's time until this returns.
    pub fn post(&self, message: Message<E>) {
        let time = message.key.time;
        self.inbox.push(message);
        self.mail.fetch_min(time, SeqCst);
        self.note(time);
    }

    fn note(&self, time: u64) {
        if self.arrived.load(SeqCst) > time {
            self.arrived.fetch_min(time, SeqCst);
        }
    }

    /// Whether the inbox has messages. `false` is certain for messages that the calling worker posted before. Only for the worker
    /// that holds the process.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.mail.load(SeqCst) != NEVER
    }

    /// Empties the inbox into `take`. Only for the worker that holds the process. It calls [`Mailbox::publish`] before it lets go.
    pub fn take_mail(&self, mut take: impl FnMut(Message<E>)) {
        let mut mail = self.mail.load(SeqCst);
        loop {
            // Lower the floor before the mail is cleared, since collectors read the mail first.
            if mail < self.floor.load(Relaxed) {
                self.floor.swap(mail, SeqCst);
            }
            match self.mail.compare_exchange(mail, NEVER, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(lower) => mail = lower,
            }
        }
        while let Some(message) = self.inbox.pop() {
            take(message);
        }
    }

    /// Says that the holder itself put in a message for `time`. The sender keeps its own floor until this returns.
    #[inline]
    pub fn bring_down(&self, time: u64) {
        if time < self.floor.load(Relaxed) {
            self.floor.swap(time, SeqCst);
            self.note(time);
        }
    }

    /// Says that the holder's next event is at `floor`, and that it has posted all its messages.
    #[inline]
    pub fn publish(&self, floor: u64) {
        self.floor.store(floor, Release);
    }
}

/// Computes global virtual time: no event before it will ever be handled or taken back. Only one worker at a time may call this.
pub(crate) fn collect<'a, E: 'a>(mailboxes: impl Iterator<Item = &'a Mailbox<E>> + Clone) -> u64 {
    for mailbox in mailboxes.clone() {
        mailbox.arrived.swap(NEVER, SeqCst);
    }
    let mut least = NEVER;
    for mailbox in mailboxes.clone() {
        least = least.min(mailbox.mail.load(SeqCst));
        least = least.min(mailbox.floor.load(SeqCst));
    }
    mailboxes.fold(least, |least, mailbox| least.min(mailbox.arrived.load(SeqCst)))
}
