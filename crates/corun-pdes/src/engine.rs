//! A run on several workers: sets up kernel processes, starts the workers, and gathers what they leave.

use crate::error::Error;
use crate::kp::{Counts, Kp};
use crate::lp::{Lp, Terms};
use crate::model::Model;
use crate::options::Options;
use crate::outcome::{Outcome, WorkerOutcome};
use crate::shared::Shared;
use crate::worker::Worker;
use std::panic::resume_unwind;
use std::thread;
use std::time::Instant;

/// Runs a model on [`Options::workers`] threads, optimistically: Time Warp.
///
/// What it commits is what [`crate::run_sequentially`] does, whatever the mapping, the number of workers and what else the machine does.
///
/// # Errors
/// An option that makes no sense, memory that is not enough, a thread that cannot be started or pinned, or what the model did wrong.
pub fn run<M: Model>(model: &M, options: &Options) -> Result<Outcome, Error> {
    let lps = model.lps();
    let kps = options.checked(lps)?;
    let begin = Instant::now();
    let terms =
        Terms { lps, until: options.until, seed: options.seed, checkpoint_every: options.checkpoint_every };
    let homes: Vec<u32> =
        (0..lps).map(|lp| (u64::from(lp) * u64::from(kps) / u64::from(lps)) as u32).collect();
    let (kps, sent_first) = start(model, &terms, kps, &homes, options.memory)?;
    let shared = Shared::new(model, options, terms, homes, kps);
    let workers = crew(&shared)?;
    let (mut kps, collector) = shared.into_parts()?;

    let mut outcome = Outcome {
        sent: sent_first,
        rounds: collector.rounds,
        recalls: collector.recalls,
        peak_held: collector.peak,
        workers,
        ..Outcome::default()
    };
    for kp in &mut kps {
        kp.commit(u64::MAX).map_err(|(lp, at, fault)| Error::Model { lp, at, fault })?;
        add(&mut outcome, &kp.counts);
        outcome.traces.extend(kp.traces());
    }
    outcome.wall = begin.elapsed();
    Ok(outcome)
}

/// All kernel processes at time 0, and how many events they start with.
fn start<M: Model>(
    model: &M,
    terms: &Terms,
    kps: u32,
    homes: &[u32],
    memory: usize,
) -> Result<(Vec<Kp<M>>, u64), Error> {
    let mut groups: Vec<Vec<Lp<M>>> = (0..kps).map(|_| Vec::new()).collect();
    let mut first = Vec::new();
    for lp in 0..terms.lps {
        let started = Lp::start(model, lp, terms, &mut first);
        let started = started.map_err(|fault| Error::Model { lp, at: 0, fault })?;
        groups[homes[lp as usize] as usize].push(started);
    }
    if first.len() > memory {
        return Err(Error::NoMemory { limit: memory, events: first.len() });
    }
    let sent = first.len() as u64;
    let mut number = 0;
    let mut made: Vec<Kp<M>> = Vec::with_capacity(groups.len());
    for group in groups {
        let size = group.len() as u32;
        made.push(Kp::new(number, group));
        number += size;
    }
    for message in first {
        made[homes[message.to as usize] as usize].push(message);
    }
    Ok((made, sent))
}

/// Runs all workers to their end.
fn crew<M: Model>(shared: &Shared<'_, M>) -> Result<Vec<WorkerOutcome>, Error> {
    let workers = shared.options.workers;
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(workers);
        for worker in 0..workers {
            let name = thread::Builder::new().name(format!("pdes-{worker}"));
            match name.spawn_scoped(scope, move || Worker::new(shared, worker as u32).run()) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    shared.fail(Error::Start { worker, workers, source });
                    break;
                }
            }
        }
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        // What fails for other reasons is in `shared`; a panic here is the engine's own fault.
        Ok(results.into_iter().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))).collect())
    })
}

fn add(outcome: &mut Outcome, counts: &Counts) {
    outcome.committed += counts.committed;
    outcome.handled += counts.handled;
    outcome.undone += counts.undone;
    outcome.rollbacks += counts.rollbacks;
    outcome.coasted += counts.coasted;
    outcome.sent += counts.sent;
    outcome.anti += counts.anti;
    outcome.annihilated += counts.annihilated;
}
