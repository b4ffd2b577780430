//! What the rounds of a run remember: see `collector.rs`.

use crate::mailbox::NEVER;
use crate::options::Options;

/// What rounds remember.
#[derive(Debug)]
pub(crate) struct Collector {
    pub limit: usize,
    pub widest: u64,
    /// Ticks beyond global virtual time that may be handled.
    pub window: u64,
    pub rounds: u64,
    /// Rounds that took events back for want of memory.
    pub recalls: u64,
    /// The most events that a round found held.
    pub peak: usize,
}

impl Collector {
    pub fn new(options: &Options) -> Collector {
        let widest = options.window.unwrap_or(NEVER);
        Collector { limit: options.memory, widest, window: widest, rounds: 0, recalls: 0, peak: 0 }
    }
}
