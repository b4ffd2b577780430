//! A run on several workers: sets up kernel processes, has the workers work, and gathers what they leave.

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

/// Runs a model on [`Options::workers`] threads, optimistically: Time Warp.
///
/// What it commits is what [`crate::run_sequentially`] does, whatever the mapping, the number of workers and what else the machine does.
///
/// # Errors
/// An option that makes no sense, memory that is not enough, a thread that cannot be started or pinned, or what the model did wrong.
pub fn run<M: Model>(model: &M, options: &Options) -> Result<Outcome, Error> {
    let run = Run::new(model, options)?;
    run.on_own_threads();
    run.finish()
}

/// A run whose workers are the caller's own threads, and which may be ended early; [`run`] is the way that suits most.
pub struct Run<'m, M: Model> {
    shared: Shared<'m, M>,
    /// Events that the model starts with.
    sent_first: u64,
    begin: Instant,
    workers: Mutex<Vec<WorkerOutcome>>,
}

impl<'m, M: Model> Run<'m, M> {
    /// A run at virtual time 0.
    ///
    /// # Errors
    /// An option that makes no sense, memory that is not enough, or what the model did wrong at its start.
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

    /// Is worker number `worker` until the run ends; every worker below [`Options::workers`] has to work, each on a thread of its own.
    ///
    /// `goes_on` is asked again and again, at least once in 64 events. It hears how many events this worker has committed since it was
    /// asked last, and its `false` ends the run for all. So does a number that is no worker's, or another thread's: [`Run::finish`] says so.
    pub fn work(&self, worker: usize, goes_on: impl FnMut(u64) -> bool) {
        let shared = &self.shared;
        let Some(thread) = shared.threads.get(worker) else {
            return shared.fail(Error::NoSuchWorker { worker, workers: shared.threads.len() });
        };
        if thread.set(thread::current()).is_err() {
            return shared.fail(Error::WorksTwice { worker });
        }
        let outcome = Worker::new(&self.shared, worker as u32).run(goes_on);
        self.workers.lock().expect("no worker panics while it holds this")[worker] = outcome;
    }

    /// What came of it, once all workers have worked. Of a run that was ended early, what global virtual time has passed is committed.
    ///
    /// # Errors
    /// Memory that was not enough, a thread that could not be started or pinned, that took a number which is not its own or that never
    /// worked, or what the model did wrong.
    pub fn finish(self) -> Result<Outcome, Error> {
        // Where nothing is left to handle this is past every event.
        let gvt = self.shared.progress.gvt.load(SeqCst);
        let workers = self.shared.threads.len();
        let absent = self.shared.threads.iter().position(|thread| thread.get().is_none());
        let (mut kps, collector) = self.shared.into_parts()?;
        // Others may have done all of its work.
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

    /// Runs all workers to their end, on threads of the engine's.
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
                // What fails for other reasons is in `shared`; a panic here is the engine's own fault.
                thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        });
    }
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
