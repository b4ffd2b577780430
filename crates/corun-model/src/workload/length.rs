//! How a program ends.

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// After this many iterations of every thread.
    Iterations(u64),
    /// After this many nanoseconds.
    DurationNs(u64),
    /// When it is told to.
    Endless,
}

impl Length {
    /// That of a program with these two keys: iterations count where there are any, then the time; where both are 0, neither.
    pub(super) fn of(iterations: u64, duration_ns: u64) -> Length {
        match (iterations, duration_ns) {
            (0, 0) => Length::Endless,
            (0, ns) => Length::DurationNs(ns),
            (n, _) => Length::Iterations(n),
        }
    }
}
