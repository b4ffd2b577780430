//! Checkers: invariants of the engine at any instant, one file each. They see numbers, not the engine's internals, and report
//! violations. The engine stops with a [`Fault`] and the seed that leads there.

mod affinity;
mod conservation;
mod progress;

pub use affinity::affinity;
pub use conservation::{conservation_of_cpu, conservation_of_machine, conservation_of_task, queued_once};
pub use progress::{progress, STARVED_NS};

use crate::engine::Fault;

/// A checker's finding.
pub fn bug(checker: &'static str, what: String) -> Fault {
    Fault::Bug { checker, what }
}
