//! What can be wrong with a run: one sentence each, with the remedy.

use crate::model::Fault;

/// Why there is no [`crate::Outcome`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `workers` is zero.
    #[error("workers is 0: name at least one")]
    NoWorkers,
    /// There are more workers than the engine starts.
    #[error("workers is {workers}: name at most {most}, and no more than there are CPUs")]
    TooManyWorkers {
        /// The option `workers`.
        workers: usize,
        /// The most.
        most: usize,
    },
    /// The model has no logical process.
    #[error("the model has no logical processes: `lps` must return at least 1")]
    NoLps,
    /// `kps` is zero.
    #[error("kps is 0: name at least one kernel process, or None")]
    NoKps,
    /// There are more kernel processes than logical processes to group.
    #[error("{kps} kernel processes for {lps} logical processes: name at most {lps}")]
    MoreKpsThanLps {
        /// The option `kps`.
        kps: u32,
        /// What the model says.
        lps: u32,
    },
    /// Some worker would never have a kernel process.
    #[error(
        "{workers} workers for {kps} kernel processes: name at most {kps} workers, or more kernel processes"
    )]
    MoreWorkersThanKps {
        /// The option `workers`.
        workers: usize,
        /// Kernel processes that there are.
        kps: u32,
    },
    /// An interval that is counted in events is zero.
    #[error("{option} is 0: name at least 1 event")]
    NoInterval {
        /// The option: `checkpoint_every` or `gvt_every`.
        option: &'static str,
    },
    /// What the model starts with exceeds the bound on memory.
    #[error("memory is {limit} events, but the model starts with {events}: raise `memory` above that")]
    NoMemory {
        /// The option `memory`, in events.
        limit: usize,
        /// Events that the model starts with.
        events: usize,
    },
    /// More events wait than the bound on memory has room for, and taking back what was handled ahead did not help.
    #[error("out of memory at time {at}: {events} events wait, and memory is {limit}: raise `memory`, or let the model send less")]
    OutOfMemory {
        /// The option `memory`, in events.
        limit: usize,
        /// Events that wait.
        events: usize,
        /// Virtual time, in ticks.
        at: u64,
    },
    /// The model did wrong in an event that no rollback takes back.
    #[error("logical process {lp} at time {at}: {fault}")]
    Model {
        /// The logical process.
        lp: u32,
        /// Virtual time of the event, in ticks.
        at: u64,
        /// What it did.
        fault: Fault,
    },
    /// A thread could not be started.
    #[error("worker {worker} of {workers} cannot be started: {source}; name fewer workers")]
    Start {
        /// The worker.
        worker: usize,
        /// The option `workers`.
        workers: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// A thread works as a worker that there is not.
    #[error("there is no worker {worker}: they are numbered from 0, and there are {workers}")]
    NoSuchWorker {
        /// The number that it gave.
        worker: usize,
        /// The option `workers`.
        workers: usize,
    },
    /// A second thread works as this worker, or the same thread once more.
    #[error("worker {worker} works twice: give each thread a number of its own, and call `work` once")]
    WorksTwice {
        /// The worker.
        worker: usize,
    },
    /// The run ended before its time, and this worker's thread never joined it.
    #[error("worker {worker} of {workers} never worked: call `work` for each, on a thread of its own")]
    NeverWorked {
        /// The worker.
        worker: usize,
        /// The option `workers`.
        workers: usize,
    },
    /// A worker could not be pinned.
    #[error("worker {worker} cannot be pinned: {source}; use `Mapping::Fixed {{ pin: false }}`")]
    Pin {
        /// The worker.
        worker: usize,
        /// What the system said.
        source: std::io::Error,
    },
}
