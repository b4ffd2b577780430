//! How much slower a program is than it would be alone, while it runs.
//!
//! ```text
//! Observation ──▶ useful_work ──┬─ dedicated windows: useful work alone / shared ──┐
//! (per window)    (the useful   │                                                  ├─▶ Estimate: slowdown, interval,
//!                  part of it)  └─ shared windows only: the ledger alone ──────────┘   parts, culprits, baselines
//! RunLog ────────▶ replayed ──── the run repeated alone; weighed against the ledger
//!
//! each way: Evidence { log_slowdown, standard_error, degrees_of_freedom, bias, parts } ──▶ combine ──▶ Estimate
//! ```
//!
//! This crate is pure: it opens no file, reads no clock, starts no thread, draws no random number and never iterates in
//! hash order. It sees only observations and run logs, so it cannot tell a live machine from a modelled one.
//!
//! | module | content |
//! | --- | --- |
//! | [`predictor`] | windows in, an [`Estimate`] out, or the reason why there is none yet |
//! | [`useful_work`] | the time of a window, sorted by whether it would remain alone |
//! | [`switch_cost`] | the cost of a context switch, inferred |
//! | [`yardstick`] | the unit of useful work |
//! | [`counted`] | sums of hardware events, and the time in which they were counted |
//! | [`reach`] | the CPUs that its tasks may use |
//! | `placement` | on how many CPUs they were, and whether that decides the speed |
//! | `steps` | whether it goes from one meeting of its tasks to the next |
//! | `wake_ups` | how long its tasks' wake-ups would take alone |
//! | [`recorded`] | a window in the format of `corun predict --record` |
//! | `sound` | whether a window from a file can have been measured |
//! | [`schedule`] | when to open dedicated windows, which of them count, when to give up |
//! | [`dedicated`], [`alone`] | the two ways to a slowdown |
//! | [`bounds`] | the most that can have been lost, whatever the program does |
//! | [`loss`] | how much of its wall time a run lost: the one definition |
//! | [`hypervisor`] | what the hypervisor took from its CPUs |
//! | `displaced` | siblings that queue or wait because of co-runners |
//! | `crowded` | what steal costs a program that wants more CPUs than there are |
//! | `unseen` | tasks too short for anybody to look at them |
//! | `stretch`, `stretch_estimate` | estimates from windows of one behavior, and from several stretches of a run together |
//! | [`combine`] | the answers of estimators, and the one rule that weighs them |
//! | `calibrated` | the numbers that were set by looking at runs, ten at most |
//! | `definitions` | words that are a number, such as from which share of the work on a task is a worker |
//! | [`interval`] | how certain it is: the jackknife over batches of windows |
//! | [`baselines`] | simpler predictors, for comparison |
//! | `beginning`, [`phases`] | when a program had begun, and when its behavior changed |
//! | [`spin`] | spinning separated from computing by hardware counters |
//! | [`spinning`] | how long the subject spun, in all and per task, whatever the source |
//! | [`verdict`], [`ruling`] | whether a run was disturbed: how much, when, by whom; the possible rulings |
//! | `over_time` | what a run lost and when, slot by slot |
//! | [`cut_short`] | what a signal ended within a run |
//! | [`spans`] | whether a part of a run was disturbed, and whether a test in it was starved |
//! | `waits` | when in a run its tasks waited for CPUs |
//! | [`counterfactual`] | what is known about a run alone by better means than sums |
//! | [`servers`] | the tenants outside of it that a program waited for, and how long those were kept from a CPU meanwhile |
//! | [`replayed`] | such evidence from a replay: the run repeated without its co-runners |
//! | [`estimate`] | the answers, as plain data that serializes |

pub mod alone;
pub mod baselines;
mod beginning;
pub mod bounds;
mod calibrated;
pub mod combine;
pub mod counted;
pub mod counterfactual;
mod crowded;
pub mod cut_short;
pub mod dedicated;
mod definitions;
mod displaced;
pub mod estimate;
pub mod hypervisor;
pub mod interval;
pub mod loss;
mod over_time;
pub mod phases;
mod placement;
pub mod predictor;
pub mod reach;
pub mod recorded;
pub mod replayed;
pub mod ruling;
pub mod schedule;
pub mod servers;
mod sound;
pub mod spans;
pub mod spin;
pub mod spinning;
mod steps;
mod stretch;
mod stretch_estimate;
pub mod switch_cost;
mod unseen;
pub mod useful_work;
pub mod verdict;
mod waits;
mod wake_ups;
pub mod yardstick;

pub use combine::Evidence;
pub use counterfactual::{AloneTime, Counterfactual};
pub use estimate::{Assignment, CannotTell, Estimate, Label, Method, Way};
pub use phases::{Feature, PhaseChange};
pub use predictor::{Options, Predictor, WantsDedicated};
pub use recorded::Recorded;
pub use replayed::{NoReplay, Replayer};
pub use schedule::Schedule;
pub use servers::{Server, Servers};
pub use verdict::{Judge, Pace, Ruling, Verdict, MAX_DISTURBANCE};
