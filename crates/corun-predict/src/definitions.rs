//! Words that are a number: each is defined once, for the whole crate.
//!
//! They were not fitted to runs. Another choice would be another meaning. [`corun_model::worker`] defines which task is a worker.

/// Definition: a share of a time that is as good as none.
pub(crate) const NEGLIGIBLE: f64 = 0.01;

/// Definition: a program spins if it does so for more than this share of its time on CPUs. Samples of programs that do not spin said up to
/// one in a hundred.
pub(crate) const SPINS: f64 = 0.02;

/// Definition: a share of a whole that counts but is small.
pub(crate) const SMALL: f64 = 0.1;

/// Definition: a share of a whole that is nearly all.
pub(crate) const NEARLY_ALL: f64 = 0.9;

/// Definition: how often an interval or a test holds, unless somebody says otherwise.
pub(crate) const CONFIDENCE: f64 = 0.95;
