//! Spin detection without hardware counters: samples of the user's instruction pointer, and the code they fall into.
//!
//! The kernel shows a task that spins as running (PACT'16 §2.1). Corun interrupts whichever task runs every
//! 1.6 ms. A sample spins if the code around it is a loop that only waits, and the registers do not show that
//! it is about to leave. The share of such samples is the share of time.
//!
//! | file | does |
//! | --- | --- |
//! | `event` | perf events, one ring per CPU |
//! | `record`, `sample` | what the kernel writes there. Pure. |
//! | `followed` | which tasks are sampled: those asked for and what they start |
//! | `by_cpu`, `by_task` | the two ways to do so |
//! | `memory` | code of a running process |
//! | `step`, `frame`, `flow` | instructions, the stack, the graph of ways on from a sample. Pure. |
//! | `chains`, `wait_loop`, `outcome` | is it a loop that only waits, and does this sample stay in it? Pure. |
//! | `message_passing` | waits inside MPI, whose engines are more than a loop |
//! | `judge` | one sample's verdict, remembered |
//! | `sample_cost` | what a sample costs whom it interrupts |
//! | `tally` | verdicts → [`SpinEstimate`]. Pure. |
//! | `sampler` | [`SpinSampler`]: all of it, in a thread of its own |
//! | `pause_exits` | virtual CPUs that spin, by their exits at PAUSE |
//!
//! Limits: x86-64 programs of 64 bits. Code that `wait_loop` and `flow` cannot follow counts as useful, so
//! spinning is missed rather than invented. Guests are not examined; `pause_exits` covers them.
//!
//! [`SpinEstimate`]: corun_model::spin::SpinEstimate

mod by_cpu;
mod by_task;
mod chains;
mod event;
mod flow;
mod followed;
mod frame;
mod judge;
mod memory;
mod message_passing;
mod outcome;
pub mod pause_exits;
mod record;
mod sample;
mod sample_cost;
mod sampler;
mod step;
mod tally;
mod wait_loop;

#[cfg(all(test, target_arch = "x86_64"))]
mod examples;

pub use sampler::{SpinCost, SpinError, SpinOptions, SpinSampler};
