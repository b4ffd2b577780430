//! The errors of a run. Each is one sentence with the remedy.

use crate::model::Fault;

/// Why a run returns no [`crate::Outcome`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `workers` is zero.
    #[error("workers is 0: name at least one")]
    NoWorkers,
    /// There are more workers than the engine can start.
    #[error("workers is {workers}: name at most {most}, and no more than there are CPUs")]
    TooManyWorkers {
        /// The option `workers`.
        workers: usize,
        /// The most workers that the engine starts.
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
        /// The number of logical processes that the model names.
        lps: u32,
    },
    /// There are more workers than kernel processes, so some worker would never have one.
    #[error(
        "{workers} workers for {kps} kernel processes: name at most {kps} workers, or more kernel processes"
    )]
    MoreWorkersThanKps {
        /// The option `workers`.
        workers: usize,
        /// The number of kernel processes.
        kps: u32,
    },
    /// An interval in events is zero.
    #[error("{option} is 0: name at least 1 event")]
    NoInterval {
        /// The option: `checkpoint_every` or `gvt_every`.
        option: &'static str,
    },
    /// The model starts with more events than the bound on memory.
    #[error("memory is {limit} events, but the model starts with {events}: raise `memory` above that")]
    NoMemory {
        /// The option `memory`, in events.
        limit: usize,
        /// Events that the model starts with.
        events: usize,
    },
    /// More events wait than memory has room for, and taking back events did not help.
    #[error("out of memory at time {at}: {events} events wait, and memory is {limit}: raise `memory`, or let the model send less")]
    OutOfMemory {
        /// The option `memory`, in events.
        limit: usize,
        /// Events that wait.
        events: usize,
        /// Virtual time, in ticks.
        at: u64,
    },
    /// The model did something wrong in an event that no rollback can take back.
    #[error("logical process {lp} at time {at}: {fault}")]
    Model {
        /// The number of the logical process.
        lp: u32,
        /// Virtual time of the event, in ticks.
        at: u64,
        /// The fault.
        fault: Fault,
    },
    /// A thread could not be started.
    #[error("worker {worker} of {workers} cannot be started: {source}; name fewer workers")]
    Start {
        /// The number of the worker.
        worker: usize,
        /// The option `workers`.
        workers: usize,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A thread works under a number that no worker has.
    #[error("there is no worker {worker}: they are numbered from 0, and there are {workers}")]
    NoSuchWorker {
        /// The number that the thread gave.
        worker: usize,
        /// The option `workers`.
        workers: usize,
    },
    /// A second thread works as this worker, or the same thread works twice.
    #[error("worker {worker} works twice: give each thread its own number, and call `work` once")]
    WorksTwice {
        /// The number of the worker.
        worker: usize,
    },
    /// The run ended before its time, and the thread of this worker never joined.
    #[error("worker {worker} of {workers} never worked: call `work` for each, on a thread of its own")]
    NeverWorked {
        /// The number of the worker.
        worker: usize,
        /// The option `workers`.
        workers: usize,
    },
    /// A worker could not be pinned.
    #[error("worker {worker} cannot be pinned: {source}; use `Mapping::Fixed {{ pin: false }}`")]
    Pin {
        /// The number of the worker.
        worker: usize,
        /// The error of the system.
        source: std::io::Error,
    },
}
