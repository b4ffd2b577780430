//! The face that a kernel process shows to other workers: an inbox that never blocks, and what global virtual time is computed from.
//!
//! Three times stand at a mailbox. `floor` is a lower bound on everything that the process still has to handle; only who holds the process
//! writes it. `mail` is one on what is in the inbox. `arrived` is the least time that was brought down to here since a collector
//! last looked. Who sends holds its own `floor` down until the message has been posted. So one worker can compute global virtual time
//! by itself at any moment ([`collect`]), with nobody stopping for it and whoever may be preempted.
//!
//! Why `collect` is right: it forgets `arrived`, reads `mail` and `floor` of all mailboxes, then `arrived` of all. Think of work that is left at
//! the end, at time t, in the process of some mailbox. It was there when the mailbox was read: then the mailbox said t or less. Or it came later: then
//! `arrived` says t or less; or whoever brought it has not noted that yet, so its own mailbox still says t or less, and either the
//! collector read that, or that mailbox was brought down since, to which the same applies, one message further back.
//! `tests/model_check.rs` has loom try every order.

use crate::event::Message;
use crate::sync::{AtomicU64, Queue, Relaxed, Release, SeqCst};

/// Later than every event.
pub(crate) const NEVER: u64 = u64::MAX;

/// The mailbox of a kernel process.
pub(crate) struct Mailbox<E> {
    floor: AtomicU64,
    mail: AtomicU64,
    arrived: AtomicU64,
    inbox: Queue<Message<E>>,
}

impl<E> Mailbox<E> {
    /// A mailbox of a process that has nothing to handle before `floor`.
    pub fn new(floor: u64) -> Mailbox<E> {
        Mailbox {
            floor: AtomicU64::new(floor),
            mail: AtomicU64::new(NEVER),
            arrived: AtomicU64::new(NEVER),
            inbox: Queue::new(),
        }
    }

    /// When the next event is to be handled, as far as can be seen from outside.
    #[inline]
    pub fn next(&self) -> u64 {
        self.floor.load(Relaxed).min(self.mail.load(Relaxed))
    }

    /// Messages in the inbox.
    pub fn waiting(&self) -> usize {
        self.inbox.len()
    }

    /// Puts a message into the inbox. Whoever sends keeps its own floor at or below the message's time until this returns.
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

    /// Whether something is in the inbox; no answer is no for what the asking worker posted before. For who holds the process.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.mail.load(SeqCst) != NEVER
    }

    /// Empties the inbox into `take`. For who holds the process, which calls [`Mailbox::publish`] before it lets go.
    pub fn take_mail(&self, mut take: impl FnMut(Message<E>)) {
        let mut mail = self.mail.load(SeqCst);
        loop {
            // The floor takes over before the mail gives up, and collectors read the mail first.
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

    /// What the holder put in by itself is to be handled at `time`. Whoever it came from keeps its own floor until this returns.
    #[inline]
    pub fn bring_down(&self, time: u64) {
        if time < self.floor.load(Relaxed) {
            self.floor.swap(time, SeqCst);
            self.note(time);
        }
    }

    /// The next event that the holder has is at `floor`, and all that it sent has been posted.
    #[inline]
    pub fn publish(&self, floor: u64) {
        self.floor.store(floor, Release);
    }
}

/// Global virtual time: no event before it will ever be handled or taken back. One at a time may do this.
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
