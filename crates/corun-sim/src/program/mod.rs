//! Programs: the next action of each thread of a workload, as a sequence of steps for the engine.
//!
//! A [`Plan`] is a workload prepared for the model: its phases, its synchronization objects and the characters of its work. A
//! [`Cursor`] is one thread's place in the plan; [`Cursor::next`] returns its next [`Step`]. The programs are those of `corun load`,
//! step for step: the same grains from the same draws ([`corun_model::workload::draw`]), the same order of waiting and waking, the same
//! end.
//!
//! Limits: the queue's own lock and the clock reads between steps take no time. The partners of `hubench` and `lubench` take turns
//! every few hundred nanoseconds; here they take turns once in a chunk of [`CHUNK_NS`].

mod cursor;
mod least;
mod plan;
mod shared;
mod time_warp;

pub use cursor::{Cursor, Step};
pub use least::Least;
pub use plan::{Activity, Object, Phase, Plan, CHUNK_NS};
pub use shared::{Here, Shared};
pub use time_warp::TimeWarp;

/// The behavior of a waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Stays on the CPU.
    Spin,
    /// Sleeps at once.
    Block,
    /// Spins for this many nanoseconds of wall time, then sleeps.
    SpinThenBlock(u64),
}

impl Waiting {
    /// How a parallel program waits.
    pub fn of(p: &corun_model::workload::Parallel) -> Waiting {
        match p.wait {
            corun_model::workload::Wait::Spin => Waiting::Spin,
            corun_model::workload::Wait::Block => Waiting::Block,
            corun_model::workload::Wait::SpinThenBlock => Waiting::SpinThenBlock(p.spin),
        }
    }
}
