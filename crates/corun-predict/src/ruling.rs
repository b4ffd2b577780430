//! The possible rulings on a run, or on a part of one, and how fine a ruling can be.

use serde::Serialize;

/// How much an idle machine's background may take from a run at once, in nanoseconds.
pub const MOMENT_NS: u64 = crate::calibrated::MOMENT_NS;
/// Definition: the resolution of the shortest run. A disturbance of 5 % is to be found in every run.
pub const COARSEST: f64 = 0.035;

/// The least disturbance that can be told from an idle machine's background in a run of this length, 0..1.
pub fn resolution(wall_ns: u64) -> f64 {
    if wall_ns == 0 {
        return COARSEST;
    }
    (MOMENT_NS as f64 / wall_ns as f64).min(COARSEST)
}

/// Clean, disturbed, or neither for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ruling {
    /// Disturbed by no more than was allowed.
    Clean,
    /// Perhaps disturbed by more than was allowed. [`Doubt`] says why nobody can tell.
    Unclear,
    /// Disturbed by more.
    Disturbed,
}

/// Why a verdict is unclear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Doubt {
    /// The run is too short to tell a disturbance from an idle machine's background.
    Short,
    /// The theft may have come out of its sleep, or out of time in which its own CPU budget would have stopped it. Or a replay says that it
    /// lost too much by no more than the replay's error.
    Spare,
    /// Somebody stopped or froze it for longer than was allowed.
    Held,
    /// A signal, such as that of a time limit, or a timer of its own ended something in it, and by then more had been taken from that than
    /// was allowed. The run took no longer for it, but got less far.
    Cut,
    /// Others kept somebody outside of it from a CPU for longer than was allowed while it waited for that one.
    Served,
    /// The hypervisor took CPUs, and nobody knows what that cost.
    Hypervisor,
    /// Nothing of its computing was seen, or less than was missed.
    Unseen,
    /// Tasks that lived too short for anybody to look at them had much of its CPU time, and nobody knows how long they waited.
    Hasty,
    /// It is likely clean, but nothing bounds its loss.
    Unbounded,
}
