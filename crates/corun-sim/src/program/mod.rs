//! Programs: what each thread of a workload does next, as a sequence of steps that the engine carries out.
//!
//! A [`Plan`] is a workload made ready for the model: its phases, the synchronisation objects they use and the
//! characters their work has. A [`Cursor`] is one thread's place in the plan; [`Cursor::next`] says its next
//! [`Step`]. The programs are those of `corun load`, step for step: the same grains from the same draws
//! ([`corun_model::workload::draw`]), the same order of waiting and waking, the same way to end.
//!
//! Limits: the queue's own lock and the clock reads between steps take no time; `hubench` and `lubench`, whose
//! partners take turns every few hundred nanoseconds, take turns once a chunk of [`CHUNK_NS`].

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

/// What a thread does while it waits.
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
