//! The modelled machine: the same programs, ledger and observations as on a live one, deterministic and fast.
//!
//! | module | holds |
//! | --- | --- |
//! | [`machine_file`] | machine files: shape, sizes, latencies, costs, power |
//! | [`contention`] | how fast each running task progresses, and its counters |

pub mod contention;
pub mod machine_file;
