//! How much slower a program is than it would be alone, while it runs.
//!
//! ```text
//! Observation ──▶ useful_work ──┬─ dedicated windows: useful work alone / beside ──┐
//! (per window)    (what of it   │                                                  ├─▶ Estimate: slowdown, interval,
//!                  was useful)  └─ shared windows only: the ledger alone ──────────┘   parts, culprits, baselines
//! RunLog ────────▶ replayed ──── the run made again alone; weighed with the ledger
//!
//! each way: Evidence { log_slowdown, standard_error, degrees_of_freedom, bias, parts } ──▶ combine ──▶ Estimate
//! ```
//!
//! This crate is pure: it opens no file, reads no clock, starts no thread, draws no random number and never iterates in
//! hash order. It sees only observations and run logs, so it cannot tell a live machine from a modelled one.
//!
//! | module | holds |
//! | --- | --- |
//! | [`predictor`] | windows in, an [`Estimate`] out, or why there is none yet |
//! | [`useful_work`] | a window's time, sorted by what would become of it alone |
//! | [`switch_cost`] | what a context switch costs, inferred |
//! | [`yardstick`] | what useful work is measured in |
//! | [`counted`] | sums of hardware events, and of how much time |
//! | [`reach`] | which CPUs its tasks may use |
//! | `placement` | on how many they were, and whether that decides how fast it is |
//! | `steps` | whether it goes from one meeting of its tasks to the next |
//! | `wake_ups` | what waking each other up would take alone |
//! | [`recorded`] | a window as `corun predict --record` keeps it |
//! | `sound` | whether a window that was read from a file can have been measured |
//! | [`schedule`] | when to open dedicated windows, which count, when to give up |
//! | [`dedicated`], [`alone`] | the two ways to a slowdown |
//! | [`bounds`] | what can have been lost at most, whatever the program does |
//! | [`loss`] | how much of its wall time a run lost: the one definition |
//! | [`hypervisor`] | what the hypervisor took from its CPUs |
//! | `displaced` | siblings that queue or wait because of co-runners |
//! | `crowded` | what steal costs a program that wants more CPUs than there are |
//! | `stretch`, `stretch_estimate` | what windows of one behaviour tell, and what stretches of a run tell together |
//! | [`combine`] | what each way says, and how several are weighed: the one rule |
//! | `calibrated` | the numbers that were set by looking at runs, ten at most |
//! | `definitions` | words that are a number, such as from which share of the work on a task is a worker |
//! | [`interval`] | how sure it is: the jackknife over batches of windows |
//! | [`baselines`] | simpler predictors, to be compared with |
//! | `beginning`, [`phases`] | when a program had begun, and when its behaviour changed |
//! | [`spin`] | spinning told from computing by hardware counters |
//! | [`spinning`] | how long the subject spun, in all and by task, by whatever told |
//! | [`verdict`], [`ruling`] | was a run disturbed? by how much, when, by whom; what can be ruled |
//! | `over_time` | what a run lost and when, slot by slot |
//! | [`cut_short`] | what a signal ended within a run |
//! | [`spans`] | was a part of a run disturbed, and was a test in it starved? |
//! | `waits` | when in a run its tasks waited for CPUs |
//! | [`counterfactual`] | what is known of a run alone by better means than sums |
//! | [`servers`] | whom outside of it a program waited for, and how long those were kept from a CPU meanwhile |
//! | [`replayed`] | such evidence by replay: the run made again without its co-runners |
//! | [`estimate`] | the answers, as plain data that serialises |

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
