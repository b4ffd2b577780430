//! The sampled tasks: the requested ones, and all their children.

use super::event::Ring;
use std::collections::BTreeSet;

/// What came of following.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// Tasks that are sampled now, descendants included.
    pub sampled: usize,
    /// Tasks that the kernel does not allow to be watched.
    pub forbidden: usize,
    /// Tasks that wait for their turn.
    pub waiting: usize,
}

/// The tasks that are sampled, in one of the two ways. `rings` are one for each CPU.
pub trait Followed: Send {
    /// Whether a task is sampled.
    fn covers(&self, tid: u32) -> bool;

    /// Samples `tasks` from now on. A task that is already sampled, but not among them, stays sampled while
    /// it lives, according to `lives`.
    fn follow(
        &mut self,
        tasks: &BTreeSet<u32>,
        rings: &[(u32, Ring)],
        lives: &dyn Fn(u32) -> bool,
    ) -> Attached;

    /// A record says that `parent` started a task.
    fn born(&mut self, parent: u32, tid: u32);

    /// A task ended.
    fn end(&mut self, tid: u32);

    /// Changes the sampling period.
    fn change_period(&mut self, period_ns: u64, rings: &[(u32, Ring)]);

    /// Whether that is cheap enough for a short time.
    fn may_be_denser(&self) -> bool {
        false
    }
}
