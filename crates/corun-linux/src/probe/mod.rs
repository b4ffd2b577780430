//! The live host: this machine, seen through eBPF.
//!
//! `corun-bpf` delivers raw records; here they become observations.
//!
//! | file | does |
//! | --- | --- |
//! | `accounts` | a record and a window edge → exact sums; two sums → an [`Account`](corun_model::observation::Account). Pure. |
//! | `bases` | what is remembered of every task from the last edge, and who has kept still since |
//! | `config` | what the probe is told before it is loaded |
//! | `cpus` | what every CPU did |
//! | `ended` | the tasks that ended since the last edge: most one by one, in a storm the short-lived together |
//! | `occupants` | the log of a CPU and a wait → who held it, for the waits still open at an edge. Pure. |
//! | `options` | what the host is told |
//! | `logs` | the CPUs' logs, read as far back as an open wait |
//! | `window` | an observation under construction |
//! | `recycling` | which groups' numbers may be used again |
//! | `tenancy` | groups of the probe → tenants as people know them |
//! | `told` | the cgroups of a group → the tenant that they tell |
//! | `syscalls` | which system call means which kind of blocking |
//! | `run_log` | what the subject did, event by event → a [`RunLog`](corun_model::RunLog) |
//! | `traces` | the probe's events → a [`Trace`](corun_model::Trace) |
//! | `host` | [`LiveHost`]: windows, whom the user named, [`Host`](corun_model::Host) |

mod accounts;
mod bases;
mod cgroup_owners;
mod config;
mod cpus;
mod ended;
mod host;
mod logs;
mod machine_reader;
mod occupants;
mod options;
mod recycling;
mod run_log;
mod syscalls;
mod tenancy;
mod traces;
mod trial;
mod window;

pub use host::LiveHost;
pub use options::{LiveError, LiveOptions};
pub use trial::try_loading;
