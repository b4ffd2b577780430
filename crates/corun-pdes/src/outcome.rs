//! What a run did.

use crate::rng::mixed;
use std::time::Duration;

/// What came of a run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// One number a logical process over the events that it committed, in order, and the state in which it ended. The same for every
    /// engine, mapping and width.
    pub traces: Vec<u64>,
    /// Events that count: those of the sequential engine.
    pub committed: u64,
    /// Events that were handled, with those that were taken back later.
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
    /// Rounds that took events back for want of memory.
    pub recalls: u64,
    /// The most events that a round found held: waiting, or kept since they might be taken back.
    pub peak_held: usize,
    /// How long it took.
    pub wall: Duration,
    /// What each worker did.
    pub workers: Vec<WorkerOutcome>,
}

/// What a worker did.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct WorkerOutcome {
    /// Messages that it handled: events and anti-messages.
    pub handled: u64,
    /// Messages that it put into inboxes of others.
    pub posted: u64,
    /// Kernel processes that it took over from preempted workers.
    pub took_over: u64,
    /// Kernel processes that it took back.
    pub came_home: u64,
}

impl Outcome {
    /// One number over all traces.
    pub fn digest(&self) -> u64 {
        self.traces.iter().fold(0, |digest, trace| mixed(digest ^ trace))
    }

    /// Of the events handled, the share that counts; 1 where none was handled.
    pub fn efficiency(&self) -> f64 {
        if self.handled == 0 {
            return 1.0;
        }
        self.committed as f64 / self.handled as f64
    }

    /// Committed events a second.
    pub fn rate(&self) -> f64 {
        self.committed as f64 / self.wall.as_secs_f64()
    }
}
