//! Words that are a number: each is defined once, for the whole crate.
//!
//! They were not fitted to runs. Another choice would be another meaning. Who is a worker is defined in [`corun_model::worker`].

/// Definition: of a time, a share that is as good as none.
pub(crate) const NEGLIGIBLE: f64 = 0.01;

/// Definition: a program spins if it does so for more than this share of its time on CPUs. Samples of a program that does not were seen to say
/// up to one in a hundred.
pub(crate) const SPINS: f64 = 0.02;

/// Definition: of a whole, a share that counts but is small.
pub(crate) const SMALL: f64 = 0.1;

/// Definition: of a whole, nearly all.
pub(crate) const NEARLY_ALL: f64 = 0.9;

/// Definition: how often an interval or a test holds, where nobody says otherwise.
pub(crate) const CONFIDENCE: f64 = 0.95;
