//! The sequential engine: one heap, one event after the other. It is right by construction, so tests compare the parallel engine
//! with it.

use crate::error::Error;
use crate::event::Message;
use crate::model::{watched, Context, Fault, Model};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::rng::Rng;
use crate::trace::Trace;
use std::collections::BinaryHeap;
use std::time::Instant;

struct Process<S> {
    state: S,
    rng: Rng,
    serial: u64,
    trace: Trace,
}

/// Runs a model on the calling thread, one event after the other. Of the options it uses [`Options::until`], [`Options::seed`] and
/// [`Options::memory`].
///
/// # Errors
/// The model has no logical processes, memory is not enough, or the model did something wrong.
pub fn run_sequentially<M: Model>(model: &M, options: &Options) -> Result<Outcome, Error> {
    let (lps, limit, begin) = (model.lps(), options.memory, Instant::now());
    if lps == 0 {
        return Err(Error::NoLps);
    }
    let wrong = |lp, at| move |fault: Fault| Error::Model { lp, at, fault };
    let mut out: Vec<Message<M::Event>> = Vec::new();
    let mut processes = Vec::with_capacity(lps as usize);
    for lp in 0..lps {
        let (mut rng, mut serial) = (Rng::new(options.seed, lp), 0);
        let mut context = context(lp, 0, lps, options, &mut rng, &mut serial, &mut out);
        let state = watched(&mut context, |context| model.start(context)).map_err(wrong(lp, 0))?;
        processes.push(Process { state, rng, serial, trace: Trace::default() });
    }
    if out.len() > limit {
        return Err(Error::NoMemory { limit, events: out.len() });
    }
    let mut outcome = Outcome { sent: out.len() as u64, ..Outcome::default() };
    let mut heap: BinaryHeap<Message<M::Event>> = out.drain(..).collect();
    while let Some(Message { key, to, event }) = heap.pop() {
        let event = event.expect("nothing is taken back here");
        let Process { state, rng, serial, trace } = &mut processes[to as usize];
        let mut context = context(to, key.time, lps, options, rng, serial, &mut out);
        watched(&mut context, |context| model.handle(state, &event, context)).map_err(wrong(to, key.time))?;
        trace.add(&key, &event);
        outcome.committed += 1;
        outcome.sent += out.len() as u64;
        heap.extend(out.drain(..));
        outcome.peak_held = outcome.peak_held.max(heap.len());
        if heap.len() > limit {
            return Err(Error::OutOfMemory { limit, events: heap.len(), at: key.time });
        }
    }
    outcome.handled = outcome.committed;
    outcome.traces = processes.iter().map(|process| process.trace.with(&process.state)).collect();
    outcome.wall = begin.elapsed();
    Ok(outcome)
}

fn context<'a, E>(
    lp: u32,
    now: u64,
    lps: u32,
    options: &Options,
    rng: &'a mut Rng,
    serial: &'a mut u64,
    out: &'a mut Vec<Message<E>>,
) -> Context<'a, E> {
    Context { lp, now, lps, until: options.until, rng, serial, instance: 0, sends: Some(out), fault: None }
}
