//! How a program ends.

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// After this many iterations of every thread.
    Iterations(u64),
    /// After this many nanoseconds.
    DurationNs(u64),
    /// When it is asked to.
    Endless,
}

impl Length {
    /// The length of a program with these two keys. Iterations come first, then the time; without both it is endless.
    pub(super) fn of(iterations: u64, duration_ns: u64) -> Length {
        match (iterations, duration_ns) {
            (0, 0) => Length::Endless,
            (0, ns) => Length::DurationNs(ns),
            (n, _) => Length::Iterations(n),
        }
    }
}
