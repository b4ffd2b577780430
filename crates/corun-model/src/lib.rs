//! The vocabulary of corun: one word for one thing, and the two traits that separate the hosts from everything else.
//!
//! ```text
//!           observe()                     decide()                   apply()
//! Host ───────────────▶ Observation ───────────────▶ Decision(s) ───────────────▶ Host
//! ├ live (Linux)                          Policy       (actions)                  ├ live
//! └ sim  (modelled machine)                                                       └ sim
//! ```
//!
//! This crate is pure: it opens no file, reads no clock, starts no thread and never iterates in hash order.
//! Times are integer nanoseconds, the unit is the last part of a name (`wait_ns`).
//!
//! | module | holds |
//! | --- | --- |
//! | [`machine`] | sockets, LLC domains, cores, CPUs, NUMA nodes and the distances between them |
//! | [`linux`] | a release of Linux, and the peculiarities of its scheduler |
//! | [`tenant`] | tenants and their names; task ids |
//! | [`ledger`] | where every nanosecond of a task went; refuses to exist unless it sums |
//! | [`culprit`] | who held the CPU while a task waited; refuses to exist unless it sums |
//! | [`taken_by`] | whose that time was: a co-runner's, the task's own, the kernel's, nobody's |
//! | [`worker`] | the tasks that do a fair part of a program's work |
//! | [`events`] | yields, preemptions, wake-ups, migrations by distance |
//! | [`counters`], [`counter_source`] | hardware events of a task, where absent is not zero; their source |
//! | [`fairness`] | Jain's index |
//! | [`proportion`] | a share from a count, with its interval |
//! | [`spin`] | the result of a spin detector: a time with its interval |
//! | [`histogram`] | log2 histogram with an honest overflow bucket |
//! | [`observation`] | what a host saw in one window |
//! | [`noise_summary`] | the time that a machine took from programs that only compute |
//! | [`finding`] | what can be seen and done on a machine, and why not |
//! | [`unavailable`] | what cannot be seen or done here, and why |
//! | [`why`] | the reasons for that, with their sentences |
//! | [`limits`] | the CPUs that tasks may use, and the CPU time that tenants may use |
//! | [`recording`] | consecutive windows, summed and as a timeline |
//! | [`action`] | the five knobs, actions and their outcomes |
//! | [`advice`] | the number of threads that a program was advised to run, and the reason |
//! | [`reason`] | why a knob is changed, as a fact |
//! | [`refusal`] | why a knob was not changed, as a fact |
//! | [`host`], [`policy`] | the two traits |
//! | [`conformance`] | one suite that every host and every policy must pass |
//! | [`trace`] | who ran where, switch by switch: the data of timelines |
//! | [`waits`] | single waits for a CPU: the longest, with the holder in each part |
//! | [`run_log`] | the activity of one program's tasks, event by event: the data of a replay |
//! | [`workload`] | workload files: a program described once, run live or modelled |
//! | [`count`] | counts as people write them: "1,234 tasks" |
//! | [`duration`] | times and sizes as people write them: "10ms", "2s" |

pub mod action;
pub mod advice;
pub mod conformance;
pub mod count;
pub mod counter_source;
pub mod counters;
pub mod culprit;
pub mod dedicated;
pub mod duration;
pub mod energy;
pub mod events;
pub mod fairness;
pub mod finding;
pub mod histogram;
pub mod host;
pub mod ledger;
pub mod limits;
pub mod linux;
mod lost;
pub mod machine;
pub mod noise_summary;
pub mod notice;
pub mod observation;
pub mod policy;
pub mod proportion;
pub mod reason;
pub mod recording;
pub mod refusal;
pub mod run_log;
mod shared_sums;
pub mod spin;
pub mod taken_by;
pub mod tenant;
pub mod trace;
pub mod unavailable;
pub mod waits;
pub mod why;
pub mod worker;
pub mod workload;

pub use action::{Action, Knob, Outcome};
pub use counter_source::CounterSource;
pub use counters::{Counter, Counters};
pub use culprit::Culprits;
pub use energy::Energy;
pub use events::Events;
pub use histogram::Histogram;
pub use host::{Host, HostError};
pub use ledger::{Ledger, Parts};
pub use limits::Limits;
pub use linux::Linux;
pub use machine::{CpuId, Distance, Machine};
pub use notice::Notice;
pub use observation::Observation;
pub use policy::{Decision, Fate, Policy};
pub use reason::Reason;
pub use recording::Recording;
pub use refusal::Refusal;
pub use run_log::RunLog;
pub use spin::{SpinEstimate, SpinMethod};
pub use taken_by::{Taken, TakenBy};
pub use tenant::{TaskId, Tenant, TenantId, TenantKind};
pub use trace::Trace;
pub use unavailable::{Unavailable, What};
pub use why::Why;
