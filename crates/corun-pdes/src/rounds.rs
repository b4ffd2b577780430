//! What a run remembers from round to round: see `collector.rs`.

use crate::mailbox::NEVER;
use crate::options::Options;

/// What a run remembers from round to round.
#[derive(Debug)]
pub(crate) struct Collector {
    pub limit: usize,
    pub widest: u64,
    /// How far beyond global virtual time events may be handled, in ticks.
    pub window: u64,
    pub rounds: u64,
    /// Rounds that took events back because memory was short.
    pub recalls: u64,
    /// The most events that any round found held.
    pub peak: usize,
}

impl Collector {
    pub fn new(options: &Options) -> Collector {
        let widest = options.window.unwrap_or(NEVER);
        Collector { limit: options.memory, widest, window: widest, rounds: 0, recalls: 0, peak: 0 }
    }
}
