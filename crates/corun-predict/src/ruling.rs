//! What can be ruled of a run, or of a part of one, and how fine a ruling can be.

use serde::Serialize;

/// What an idle machine's background may take of a run at once, in nanoseconds.
pub const MOMENT_NS: u64 = crate::calibrated::MOMENT_NS;
/// Definition: however short the run, what it can be judged to: a disturbance of 5 % is to be found in every one.
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
    /// Not disturbed by more than was allowed.
    Clean,
    /// Perhaps disturbed by more than was allowed: by co-runners or only by an idle machine's background, which a run too short
    /// does not tell; unless what was taken came out of its sleep; or by the hypervisor, which shows only that it took CPUs.
    /// Or somebody stopped or froze it for more than was allowed, or something in it was cut short, or somebody that it waited for lost more, or
    /// it was not seen, wholly or in part.
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
    /// What was stolen may have come out of its sleep, or of time in which its own CPU budget would have stopped it.
    Spare,
    /// Somebody stopped or froze it for longer than was allowed.
    Held,
    /// A signal, such as a time limit's, or a timer of its own ended something in it, from which more was taken by then than was allowed: the
    /// run took no longer for that, but got less far.
    Cut,
    /// Others kept somebody outside of it from a CPU for longer than was allowed while it waited for that one.
    Served,
    /// The hypervisor took CPUs, and what that cost is not known.
    Hypervisor,
    /// Nothing that it computed was seen, or less than was missed.
    Unseen,
    /// Tasks that lived too short for anybody to look at them had much of its CPU time, and how long they waited is not known.
    Hasty,
    /// It is likely clean, but what is known of it does not bound what it lost.
    Unbounded,
}
