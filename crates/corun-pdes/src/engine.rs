//! A run on several workers: sets up kernel processes, runs the workers, and gathers their results.

use crate::error::Error;
use crate::kp::{Counts, Kp};
use crate::lp::{Lp, Terms};
use crate::mailbox::NEVER;
use crate::model::Model;
use crate::options::Options;
use crate::outcome::{Outcome, WorkerOutcome};
use crate::shared::Shared;
use crate::worker::Worker;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// Runs a model on [`Options::workers`] threads, optimistically (Time Warp).
///
/// It commits the same events as [`crate::run_sequentially`], for every mapping, every number of workers and every load of the
/// machine.
///
/// # Errors
/// An option makes no sense, memory is not enough, a thread cannot be started or pinned, or the model did something wrong.
pub fn run<M: Model>(model: &M, options: &Options) -> Result<Outcome, Error> {
    let run = Run::new(model, options)?;
    run.on_own_threads();
    run.finish()
}

/// A run on the caller's own threads, which the caller may end early. For most programs [`run`] is simpler.
pub struct Run<'m, M: Model> {
    shared: Shared<'m, M>,
    /// Events that the model starts with.
    sent_first: u64,
    begin: Instant,
    workers: Mutex<Vec<WorkerOutcome>>,
}

impl<'m, M: Model> Run<'m, M> {
    /// Prepares a run at virtual time 0.
    ///
    /// # Errors
    /// An option makes no sense, memory is not enough, or the model did something wrong at its start.
    pub fn new(model: &'m M, options: &'m Options) -> Result<Run<'m, M>, Error> {
        let lps = model.lps();
        let kps = options.checked(lps)?;
        let begin = Instant::now();
        let terms = Terms {
            lps,
            until: options.until,
            seed: options.seed,
            checkpoint_every: options.checkpoint_every,
        };
        let homes: Vec<u32> =
            (0..lps).map(|lp| (u64::from(lp) * u64::from(kps) / u64::from(lps)) as u32).collect();
        let (kps, sent_first) = start(model, &terms, kps, &homes, options.memory)?;
        let shared = Shared::new(model, options, terms, homes, kps);
        let workers = Mutex::new(vec![WorkerOutcome::default(); options.workers]);
        Ok(Run { shared, sent_first, begin, workers })
    }

    /// Works as worker number `worker` until the run ends. Every worker below [`Options::workers`] has to work, each on its own
    /// thread.
    ///
    /// `goes_on` is called at least once in 64 events, and ten times a second while the worker is parked ([`Options::width`]). It
    /// gets the number of events that this worker committed since the last call. If
    /// it returns `false`, the run ends for all workers. The run also ends if no worker has this number, or another thread works
    /// under it: [`Run::finish`] returns that error.
    pub fn work(&self, worker: usize, goes_on: impl FnMut(u64) -> bool) {
        let shared = &self.shared;
        let Some(thread) = shared.threads.get(worker) else {
            return shared.fail(Error::NoSuchWorker { worker, workers: shared.threads.len() });
        };
        if thread.set(thread::current()).is_err() {
            return shared.fail(Error::WorksTwice { worker });
        }
        // Only a worker that has joined can be parked.
        if shared.options.width.is_some() && shared.crew.join(worker).is_err() {
            return shared.fail(Error::WorksTwice { worker });
        }
        let outcome = Worker::new(&self.shared, worker as u32).run(goes_on);
        self.workers.lock().expect("no worker panics while it holds this")[worker] = outcome;
    }

    /// Returns the outcome once all workers have worked. If the run was ended early, only events before global virtual time are
    /// committed.
    ///
    /// # Errors
    /// Memory was not enough, the model did something wrong, or a thread failed: it could not be started or pinned, it took a wrong
    /// number, or it never worked.
    pub fn finish(self) -> Result<Outcome, Error> {
        // With nothing left to handle, this is later than every event.
        let gvt = self.shared.progress.gvt.load(SeqCst);
        let workers = self.shared.threads.len();
        let absent = self.shared.threads.iter().position(|thread| thread.get().is_none());
        let (mut kps, collector) = self.shared.into_parts()?;
        // Other workers may have done all of its work.
        if let Some(worker) = absent.filter(|_| gvt != NEVER) {
            return Err(Error::NeverWorked { worker, workers });
        }
        let mut outcome = Outcome {
            sent: self.sent_first,
            rounds: collector.rounds,
            recalls: collector.recalls,
            peak_held: collector.peak,
            workers: self.workers.into_inner().expect("no worker panics while it holds this"),
            ..Outcome::default()
        };
        for kp in &mut kps {
            kp.commit(gvt).map_err(|(lp, at, fault)| Error::Model { lp, at, fault })?;
            add(&mut outcome, &kp.counts);
            outcome.traces.extend(kp.traces());
        }
        outcome.wall = self.begin.elapsed();
        Ok(outcome)
    }

    /// Runs all workers on the engine's own threads until they end.
    fn on_own_threads(&self) {
        let workers = self.shared.options.workers;
        thread::scope(|scope| {
            let mut threads = Vec::with_capacity(workers);
            for worker in 0..workers {
                let name = thread::Builder::new().name(format!("pdes-{worker}"));
                match name.spawn_scoped(scope, move || self.work(worker, |_| true)) {
                    Ok(thread) => threads.push(thread),
                    Err(source) => {
                        self.shared.fail(Error::Start { worker, workers, source });
                        break;
                    }
                }
            }
            for thread in threads {
                // `shared` holds all other failures. So a panic here is a fault of the engine.
                thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        });
    }
}

/// Returns all kernel processes at time 0, and how many events they start with.
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
