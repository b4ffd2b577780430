//! Optimistic parallel discrete-event simulation (Time Warp) in shared memory, for machines that are shared with others.
//!
//! A [`Model`] is a set of logical processes that send each other events in virtual time. [`run`] handles them on several threads.
//! It does not ask first whether an earlier event may still come: if one does, the engine takes back the events handled too early.
//! [`run_sequentially`] handles one event after the other. Both commit the same events in the same order; equal [`Outcome::traces`]
//! prove it.
//!
//! ```
//! use corun_pdes::{models::Phold, run, run_sequentially, Options};
//!
//! let model = Phold { lps: 64, ..Phold::default() };
//! let options = Options { until: 10_000, workers: 2, ..Options::default() };
//! let parallel = run(&model, &options)?;
//! assert_eq!(parallel.traces, run_sequentially(&model, &options)?.traces);
//! # Ok::<(), corun_pdes::Error>(())
//! ```
//!
//! # How it works
//!
//! - **Kernel processes** are groups of logical processes, and the unit that is mapped to workers ([`Mapping`]). Each has a heap of
//!   events and an inbox that never blocks. Nobody ever waits for the lock of a kernel process, so the mapping may change at any
//!   moment.
//! - A **rollback** concerns one logical process. Its state is saved before every n-th event. The events since then are handled
//!   again without sending (coast-forward). Anti-messages take back the messages that it sent. They wait in the heap right before
//!   their events.
//! - **Global virtual time** is computed by one worker at a time, and stops nobody. A preempted worker does not delay the
//!   computation. It holds back only the time of the one event that it is in.
//! - **Memory** is bounded. When it runs short, the engine narrows optimism and takes back the events that are furthest ahead.
//! - Ties are broken by time, then sender, then the count of the sender. So results depend only on the seed and the model.
//!
//! # Limits
//!
//! If [`Model::handle`] never returns, the run hangs, even if its state comes from events out of order: an event in progress cannot
//! be taken back. A panic in it is taken back like any event. It is an error only if it would also have happened sequentially. The
//! panic hook prints it in any case. Floats in a state are hashed by their bits.

mod collector;
mod disturbing;
mod engine;
mod error;
mod event;
mod kp;
mod lp;
mod mailbox;
mod model;
pub mod models;
mod options;
mod outcome;
mod owners;
mod pin;
mod rescue;
mod rng;
mod rounds;
mod sequential;
mod shared;
mod sync;
mod trace;
mod worker;

pub use engine::{run, Run};
pub use error::Error;
pub use model::{Context, Fault, Model};
pub use options::{Disturbance, Idle, Mapping, Options};
pub use outcome::{Outcome, WorkerOutcome};
pub use rng::Rng;
pub use sequential::run_sequentially;
pub use worker::STINT;
