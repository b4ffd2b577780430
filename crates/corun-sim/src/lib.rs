//! The modelled machine: the same programs, ledger and observations as on a live machine, deterministic and
//! fast.
//!
//! | module | holds |
//! | --- | --- |
//! | [`scenario`] | scenario files: machine, scheduler, tenants, seeds |
//! | [`experiment`], [`metrics`] | a scenario's runs over seeds, solo runs and baseline; their metrics |
//! | [`control`] | a run under a policy: epochs of observing, deciding, applying |
//! | [`engine`] | time, CPUs, tasks, and everything that happens to them |
//! | [`program`] | the activity of threads |
//! | [`sched`] | the schedulers under it, one file each |
//! | [`contention`] | the speed of each running task, and its counters |
//! | [`machine_file`] | machine files: shape, sizes, latencies, costs, power |
//! | [`replay`] | the solo time of a live program, from its run log |
//! | [`checker`] | invariants at any instant |
//! | [`streams`] | named seeded generators |

pub mod checker;
pub mod contention;
pub mod control;
pub mod cpu_set;
pub mod engine;
pub mod experiment;
pub mod machine_file;
pub mod metrics;
pub mod program;
pub mod replay;
pub mod scenario;
pub mod sched;
pub mod streams;
