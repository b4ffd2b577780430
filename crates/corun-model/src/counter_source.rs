//! The source of the counters of tasks, next to a host.

use crate::observation::Observation;
use crate::tenant::TaskId;

/// The source of the counters of tasks: those of the live machine, or a recording of them.
///
/// Call [`read`](CounterSource::read) once for each window, right after the host's `observe`. Higher layers see an observation with or
/// without counters, and cannot tell the source.
pub trait CounterSource {
    /// Counts these tasks from now on. `read` itself finds tasks that appear in a window. This is for tasks that are known earlier,
    /// such as a command that has not yet executed its first instruction.
    fn follow(&mut self, tasks: &[TaskId]);

    /// Fills in the counters of the window that has just ended, for tasks and tenants. Adds to `unavailable` what cannot be counted,
    /// and why. Unknown counters stay `None`.
    fn read(&mut self, seen: &mut Observation);
}

/// The source for a host that fills in counters itself, as the modelled machine does. Adds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FromHost;

impl CounterSource for FromHost {
    fn follow(&mut self, _tasks: &[TaskId]) {}

    fn read(&mut self, _seen: &mut Observation) {}
}
