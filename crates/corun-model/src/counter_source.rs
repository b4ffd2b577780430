//! Where the counters of tasks come from, beside a host.

use crate::observation::Observation;
use crate::tenant::TaskId;

/// Where the counters of tasks come from, beside the host: the live machine's, or a recording of them.
///
/// One window of a host, one [`read`](CounterSource::read), right after the host's `observe`. Who stands above sees an
/// observation with or without counters and cannot tell the source.
pub trait CounterSource {
    /// Counts these tasks from now on. Tasks that show up in a window are found by `read` itself; this is for those
    /// known earlier, such as a command that has not yet executed its first instruction.
    fn follow(&mut self, tasks: &[TaskId]);

    /// Fills in the counters of the window that has just ended, for tasks and tenants, and says in `unavailable` what
    /// cannot be counted and why. What is unknown stays `None`.
    fn read(&mut self, seen: &mut Observation);
}

/// The source of a host that fills in the counters itself, as the modelled machine does: adds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FromHost;

impl CounterSource for FromHost {
    fn follow(&mut self, _tasks: &[TaskId]) {}

    fn read(&mut self, _seen: &mut Observation) {}
}
