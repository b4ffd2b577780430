//! The trace of a run as it grows, of bounded size.

use corun_model::trace::Trace;

/// Most events that are kept: some 300 MB, minutes of a busy machine. Later ones are counted as lost.
const MOST_EVENTS: usize = 8_000_000;

/// What was traced so far.
#[derive(Debug, Default)]
pub struct KeptTrace {
    trace: Trace,
    unkept: u64,
}

impl KeptTrace {
    /// Takes what a host has traced since the last call, with what it has lost in all.
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
