//! The state that the workers of a run share.

use crate::error::Error;
use crate::kp::Kp;
use crate::lp::Terms;
use crate::mailbox::Mailbox;
use crate::model::Model;
use crate::options::Options;
use crate::owners::Owners;
use crate::rounds::Collector;
use corun_adapt::Crew;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// Nobody uses this patience: each worker finds preempted workers itself, with its own patience.
const PATIENCE: Duration = Duration::from_millis(1);

/// A kernel process, with the part that other workers see.
pub(crate) struct Place<M: Model> {
    pub mailbox: Mailbox<M::Event>,
    pub kp: Mutex<Kp<M>>,
    /// The events that it held when a worker last let go of it.
    pub held: AtomicUsize,
}

/// A run, as its workers see it.
pub(crate) struct Shared<'m, M: Model> {
    pub model: &'m M,
    pub options: &'m Options,
    pub terms: Terms,
    /// The kernel process of each logical process.
    pub homes: Vec<u32>,
    pub places: Vec<CachePadded<Place<M>>>,
    /// What the others see of each worker, with its thread once it runs.
    pub crew: Crew,
    pub threads: Vec<OnceLock<Thread>>,
    pub owners: Owners,
    /// All workers read this; one worker writes it, once a round.
    pub progress: CachePadded<Progress>,
    pub collector: Mutex<Collector>,
    pub stop: AtomicBool,
    failure: Mutex<Option<Error>>,
}

/// How far a run is.
#[derive(Default)]
pub(crate) struct Progress {
    /// Rounds of global virtual time so far.
    pub rounds: AtomicU64,
    /// Global virtual time: no event before it is ever taken back.
    pub gvt: AtomicU64,
    /// No event after this time may be handled yet.
    pub horizon: AtomicU64,
    /// How many events each worker may add before the next round.
    pub allowance: AtomicI64,
}

impl<'m, M: Model> Shared<'m, M> {
    pub fn new(
        model: &'m M,
        options: &'m Options,
        terms: Terms,
        homes: Vec<u32>,
        kps: Vec<Kp<M>>,
    ) -> Shared<'m, M> {
        let place = |kp: Kp<M>| {
            let (mailbox, held) = (Mailbox::new(kp.next()), AtomicUsize::new(kp.held()));
            CachePadded::new(Place { mailbox, kp: Mutex::new(kp), held })
        };
        let shared = Shared {
            model,
            options,
            terms,
            owners: Owners::new(kps.len() as u32, options.workers as u32),
            homes,
            places: kps.into_iter().map(place).collect(),
            crew: Crew::new(options.workers, PATIENCE).expect("the options were checked"),
            threads: (0..options.workers).map(|_| OnceLock::new()).collect(),
            progress: CachePadded::default(),
            collector: Mutex::new(Collector::new(options)),
            stop: AtomicBool::new(false),
            failure: Mutex::new(None),
        };
        shared.collector.lock().expect("nobody else has it yet").round(&shared);
        shared
    }

    /// Ends the run. The first failure is the one reported.
    pub fn fail(&self, error: Error) {
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(error);
        }
        self.end();
    }

    /// Ends the run.
    pub fn end(&self) {
        self.stop.store(true, SeqCst);
        self.wake_all();
        // Those that are parked too.
        (0..self.threads.len()).for_each(|worker| self.crew.wake(worker));
    }

    /// Wakes all sleeping workers.
    pub fn wake_all(&self) {
        (0..self.threads.len() as u32).for_each(|worker| self.wake(worker));
    }

    /// Wakes a worker if it sleeps.
    #[inline]
    pub fn wake(&self, worker: u32) {
        if self.crew.slots()[worker as usize].end_sleep() {
            if let Some(thread) = self.threads[worker as usize].get() {
                thread.unpark();
            }
        }
    }

    /// Returns the failure, or the kernel processes and the collector.
    pub fn into_parts(self) -> Result<(Vec<Kp<M>>, Collector), Error> {
        if let Some(error) = self.failure.into_inner().expect("no worker panicked") {
            return Err(error);
        }
        let kps = self.places.into_iter().map(|place| place.into_inner().kp);
        let kps = kps.map(|kp| kp.into_inner().expect("no worker panicked")).collect();
        Ok((kps, self.collector.into_inner().expect("no worker panicked")))
    }
}
