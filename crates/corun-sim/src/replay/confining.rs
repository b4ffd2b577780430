//! Who restricts tasks to other CPUs.
//!
//! A log shows it if a task of the program asked for a new affinity and a task then had to leave its CPU. If
//! the program did so once, all changes count as its own. If a task had to leave its CPU and no task of the
//! program had asked, somebody else did it: the log would show a request of the program. Limit: a task that
//! was queued when another task of the program restricted it.

use super::script::By;
use corun_model::run_log::CpuMask;

/// What the log has shown so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Confining {
    is_own: bool,
}

impl Confining {
    /// One of the tasks asks for other CPUs.
    pub(super) fn happens(&mut self) {
        self.is_own = true;
    }

    /// Who has restricted to these CPUs a task that was last on this CPU; `None`: not known.
    pub(super) fn by(self, last: Option<usize>, may: CpuMask) -> Option<By> {
        match last {
            _ if self.is_own => Some(By::Itself),
            Some(cpu) if !may.has(cpu) => Some(By::Others),
            _ => None,
        }
    }
}
