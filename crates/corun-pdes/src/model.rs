//! The interface of a model: its logical processes, their events, and what the handling of an event may do.

use crate::event::{Key, Message};
use crate::rng::Rng;
use std::any::Any;
use std::fmt;
use std::hash::Hash;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// A model: logical processes, numbered from 0, that send each other events.
///
/// An engine may handle an event too early. Then it restores the state from before and handles the event again. So `handle` may
/// depend only on the state, the event, the time and the random numbers of the [`Context`]. It may only change the state and send.
pub trait Model: Sync {
    /// The state of a logical process. The engine clones it whenever it saves it, so keep it small.
    type State: Clone + Send + Hash;
    /// The data that an event carries.
    type Event: Clone + Send + Hash;

    /// The number of logical processes, at least 1.
    fn lps(&self) -> u32;

    /// Returns the state of the logical process of `context` at time 0. It may send.
    fn start(&self, context: &mut Context<'_, Self::Event>) -> Self::State;

    /// Handles an event: changes the state, and may send.
    fn handle(&self, state: &mut Self::State, event: &Self::Event, context: &mut Context<'_, Self::Event>);
}

/// What a model did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It sent with a delay of 0, so the order of events would be undefined.
    NoDelay,
    /// It sent to a logical process that does not exist.
    NoSuchLp {
        /// The number that it sent to.
        to: u32,
        /// The number of logical processes.
        lps: u32,
    },
    /// It panicked, with this message.
    Panicked(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoDelay => f.write_str("the model sent an event with a delay of 0; the least is 1 tick"),
            Fault::NoSuchLp { to, lps } => {
                write!(f, "the model sent an event to logical process {to}; they are 0 to {}", lps - 1)
            }
            Fault::Panicked(said) => write!(f, "the model panicked: {said}"),
        }
    }
}

/// The place and time of an event, its random numbers, and how to send.
#[derive(Debug)]
pub struct Context<'a, E> {
    pub(crate) lp: u32,
    pub(crate) now: u64,
    pub(crate) lps: u32,
    pub(crate) until: u64,
    pub(crate) rng: &'a mut Rng,
    pub(crate) serial: &'a mut u64,
    pub(crate) instance: u32,
    /// The list for new messages. `None` while a state is restored, since the messages were sent before.
    pub(crate) sends: Option<&'a mut Vec<Message<E>>>,
    pub(crate) fault: Option<Fault>,
}

impl<E> Context<'_, E> {
    /// The number of the logical process, from 0.
    pub fn lp(&self) -> u32 {
        self.lp
    }

    /// The number of logical processes.
    pub fn lps(&self) -> u32 {
        self.lps
    }

    /// Virtual time, in ticks.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The random numbers of this logical process.
    pub fn rng(&mut self) -> &mut Rng {
        self.rng
    }

    /// Sends `event` to logical process `to`. It is handled `delay` ticks from now; `delay` is at least 1. Messages for the end of
    /// the run or later are dropped.
    ///
    /// A delay of 0, or a `to` that does not exist, ends the run with [`crate::Error::Model`], unless a rollback takes the sender
    /// back.
    pub fn send(&mut self, to: u32, delay: u64, event: E) {
        if delay == 0 || to >= self.lps {
            let fault = if delay == 0 { Fault::NoDelay } else { Fault::NoSuchLp { to, lps: self.lps } };
            self.fault.get_or_insert(fault);
            return;
        }
        let (time, serial) = (self.now.saturating_add(delay), *self.serial);
        *self.serial += 1;
        if let Some(sends) = self.sends.as_deref_mut().filter(|_| time < self.until) {
            let key = Key { time, sender: self.lp, serial, instance: self.instance };
            sends.push(Message { key, to, event: Some(event) });
        }
    }
}

/// Runs `work` of a model and returns its fault, if any. A panic is a fault too, since a rollback may take it back.
pub(crate) fn watched<E, T>(
    context: &mut Context<'_, E>,
    work: impl FnOnce(&mut Context<'_, E>) -> T,
) -> Result<T, Fault> {
    let result = catch_unwind(AssertUnwindSafe(|| work(context)));
    match (result, context.fault.take()) {
        (Ok(value), None) => Ok(value),
        (Ok(_), Some(fault)) => Err(fault),
        (Err(panic), _) => Err(Fault::Panicked(said(&*panic))),
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
