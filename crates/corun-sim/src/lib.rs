//! The modelled machine: the same programs, ledger and observations as on a live one, deterministic and fast.
//!
//! | module | holds |
//! | --- | --- |
//! | [`machine_file`] | machine files: shape, sizes, latencies, costs, power |
//! | [`contention`] | how fast each running task progresses, and its counters |
//! | [`sched`] | the schedulers under it, one file each |
//! | [`streams`] | named seeded generators |

pub mod contention;
mod cpu_set;
pub mod machine_file;
pub mod program;
pub mod sched;
pub mod streams;
