//! Hardware counters of tasks.
//!
//! | module | is about |
//! | --- | --- |
//! | [`identity`], [`table`] | which CPU this is, and which events count what on it |
//! | [`mod@format`] | how its kernel wants an event encoded |
//! | [`perf_event`], [`reading`] | the system call; groups that take turns |
//! | [`room`] | how many events are really counted at once |
//! | [`plan`], [`refusal`] | what will be counted here, and why not the rest |
//! | [`live`] | this machine's tasks as a [`CounterSource`](corun_model::CounterSource) |
//! | [`cost`] | what a context switch costs more |
//! | [`recorded`] | the same, written down and read back |
//!
//! The modelled machine needs no source: it puts counters into its observations itself
//! ([`FromHost`](corun_model::counter_source::FromHost)). Counting is off unless requested. The kernel has to
//! save and restore the counters of a followed task at every switch, which is expensive in a virtual machine;
//! `docs/counters.md` has numbers.

pub mod cost;
pub mod format;
pub mod identity;
pub mod live;
pub mod perf_event;
pub mod plan;
pub mod reading;
pub mod recorded;
pub mod refusal;
pub mod room;
pub mod table;

#[cfg(test)]
mod fixture;

pub use cost::SwitchCost;
pub use live::{Grain, LivePerf, Options, Precision};
pub use plan::{Plan, Theme};
pub use recorded::{Recorder, Recording};
pub use refusal::Refusal;
