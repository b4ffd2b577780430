//! What is simulated: a model's logical processes, their events, and what handling an event may do.

use crate::event::{Key, Message};
use crate::rng::Rng;
use std::any::Any;
use std::fmt;
use std::hash::Hash;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// A model: logical processes, numbered from 0, that send each other events.
///
/// An engine may handle an event too early, find out, restore the state from before and handle it again. So handling depends on nothing
/// but state, event, time and the random numbers of the [`Context`], and does nothing but change the state and send.
pub trait Model: Sync {
    /// State of a logical process. It is cloned whenever it is saved, so it had better be small.
    type State: Clone + Send + Hash;
    /// What an event carries.
    type Event: Clone + Send + Hash;

    /// How many logical processes there are.
    fn lps(&self) -> u32;

    /// The state that the logical process of `context` begins with, at time 0; it may send.
    fn start(&self, context: &mut Context<'_, Self::Event>) -> Self::State;

    /// Handles an event.
    fn handle(&self, state: &mut Self::State, event: &Self::Event, context: &mut Context<'_, Self::Event>);
}

/// What a model did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It sent with a delay of 0, which leaves the order of events open.
    NoDelay,
    /// It sent to a logical process that is not there.
    NoSuchLp {
        /// To whom.
        to: u32,
        /// How many there are.
        lps: u32,
    },
    /// It panicked, and said so.
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

/// Where and when an event is handled, its random numbers, and how to send.
#[derive(Debug)]
pub struct Context<'a, E> {
    pub(crate) lp: u32,
    pub(crate) now: u64,
    pub(crate) lps: u32,
    pub(crate) until: u64,
    pub(crate) rng: &'a mut Rng,
    pub(crate) serial: &'a mut u64,
    pub(crate) instance: u32,
    /// Where messages go; none while a state is restored, since they were sent long ago.
    pub(crate) sends: Option<&'a mut Vec<Message<E>>>,
    pub(crate) fault: Option<Fault>,
}

impl<E> Context<'_, E> {
    /// The logical process.
    pub fn lp(&self) -> u32 {
        self.lp
    }

    /// How many logical processes there are.
    pub fn lps(&self) -> u32 {
        self.lps
    }

    /// Virtual time, in ticks.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Random numbers of this logical process.
    pub fn rng(&mut self) -> &mut Rng {
        self.rng
    }

    /// Sends `event` to `to`, to be handled `delay` ticks from now, 1 at least. What would come at the end of the run or after is dropped.
    ///
    /// A delay of 0 or a `to` that is not there ends the run with [`crate::Error::Model`], unless a rollback takes the sender back.
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

/// Runs `work` of a model and tells what it did wrong; a panic is a fault like others, since a rollback may take it back.
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
