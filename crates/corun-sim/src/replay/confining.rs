//! Who confines tasks to other CPUs.
//!
//! A log shows it where a task of the program asked for that and somebody had to leave a CPU. A program that was seen to do so once
//! is taken to do it always. Where none did, and a task had to leave its CPU, it was somebody else: of the program, that would have
//! been seen. Limit: a task that was queued when another of the program confined it.

use super::script::By;
use corun_model::run_log::CpuMask;

/// What the log has shown of it so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Confining {
    is_own: bool,
}

impl Confining {
    /// One of the tasks asks for other CPUs.
    pub(super) fn happens(&mut self) {
        self.is_own = true;
    }

    /// Who has confined a task that was last on this CPU to these; `None`: it may have been anybody.
    pub(super) fn by(self, last: Option<usize>, may: CpuMask) -> Option<By> {
        match last {
            _ if self.is_own => Some(By::Itself),
            Some(cpu) if !may.has(cpu) => Some(By::Others),
            _ => None,
        }
    }
}
