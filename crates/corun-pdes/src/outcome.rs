//! The result of a run.

use crate::rng::mixed;
use std::time::Duration;

/// The result of a run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// One number for each logical process: a hash of its committed events, in order, and of its last state. It is the same for
    /// every engine, mapping and number of workers.
    pub traces: Vec<u64>,
    /// Committed events: the events of the sequential engine.
    pub committed: u64,
    /// Events that were handled, including those that were taken back later.
    pub handled: u64,
    /// Events that were taken back.
    pub undone: u64,
    /// Rollbacks of a logical process.
    pub rollbacks: u64,
    /// Events that were handled again, without sending, to restore a state.
    pub coasted: u64,
    /// Events that were sent.
    pub sent: u64,
    /// Anti-messages that were sent.
    pub anti: u64,
    /// Events that an anti-message took back before they were handled (again).
    pub annihilated: u64,
    /// Rounds of global virtual time.
    pub rounds: u64,
    /// Rounds that took events back because memory was short.
    pub recalls: u64,
    /// The most events that any round found held: events that wait, or are kept for rollbacks.
    pub peak_held: usize,
    /// Duration of the run.
    pub wall: Duration,
    /// The result of each worker, in order.
    pub workers: Vec<WorkerOutcome>,
}

/// What one worker did.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct WorkerOutcome {
    /// Messages that it handled: events and anti-messages.
    pub handled: u64,
    /// Messages that it put into the inboxes of others.
    pub posted: u64,
    /// Kernel processes that it took over from preempted workers.
    pub took_over: u64,
    /// Kernel processes that it took back.
    pub came_home: u64,
    /// How often it parked because fewer workers were wanted.
    pub parked: u64,
}

impl Outcome {
    /// One number over all traces.
    pub fn digest(&self) -> u64 {
        self.traces.iter().fold(0, |digest, trace| mixed(digest ^ trace))
    }

    /// Committed events divided by handled events; 1 if none was handled.
    pub fn efficiency(&self) -> f64 {
        if self.handled == 0 {
            return 1.0;
        }
        self.committed as f64 / self.handled as f64
    }

    /// Committed events per second.
    pub fn rate(&self) -> f64 {
        self.committed as f64 / self.wall.as_secs_f64()
    }
}
