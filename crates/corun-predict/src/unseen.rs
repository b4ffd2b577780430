//! Tasks that lived too short for anybody to look at them, if `/proc` is polled: a shell's commands, a build's compilers.
//!
//! Their CPU time is known from their parents' accounts, so it counts as the program's own. Nobody knows how long they waited, nor who had
//! a CPU while another task of the program waited for one. So `stolen` bounds nothing, and a task may have waited for them. One bound still
//! holds: co-runners took no more CPU time than others than the program had on the CPUs that it may use.

use crate::definitions::NEGLIGIBLE;
use crate::useful_work::Window;

impl Window {
    /// Whether they had so much of it that its waits are not known.
    pub(crate) fn is_half_seen(&self) -> bool {
        self.unseen_ns > NEGLIGIBLE * self.wall_ns
    }

    /// How long the other tasks waited for CPUs that these may have had, at most, in nanoseconds.
    pub(crate) fn waited_for_unseen_ns(&self) -> f64 {
        self.all().map(|s| s.stolen_ns.min(self.unseen_ns)).sum()
    }
}
