//! The growing trace of a run, of bounded size.

use corun_model::trace::Trace;

/// Most events that are kept: about 300 MB, minutes of a busy machine. Later ones are counted as lost.
const MOST_EVENTS: usize = 8_000_000;

/// The trace so far.
#[derive(Debug, Default)]
pub struct KeptTrace {
    trace: Trace,
    unkept: u64,
}

impl KeptTrace {
    /// Adds a host's trace since the last call, with its total losses.
    pub fn take(&mut self, more: Trace) {
        let room = MOST_EVENTS - self.trace.events.len();
        self.unkept += more.events.len().saturating_sub(room) as u64;
        self.trace.events.extend(more.events.into_iter().take(room));
        self.trace.tasks.extend(more.tasks);
        self.trace.lost = more.lost + self.unkept;
    }

    /// All of it, as far as it was kept.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}
