//! Optimistic parallel discrete-event simulation (Time Warp) in shared memory, for machines that are shared with others.
//!
//! A [`Model`] is a set of logical processes that send each other events in virtual time. [`run`] handles them on several threads without
//! asking first whether an earlier one may still come: when one does, what came too early is taken back. [`run_sequentially`] handles one
//! after the other. Both commit the same events in the same order, which [`Outcome::traces`] proves.
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
//! - Logical processes are grouped into **kernel processes**, the unit that is mapped to workers ([`Mapping`]), each with its heap of events
//!   and an inbox that never blocks. A kernel process is held by a lock that nobody ever waits for, so the mapping may change at any moment.
//! - **Rollback** is of one logical process: state is saved before every n-th event, and the events since are handled again without sending
//!   (coast-forward). Anti-messages take back what it sent; they wait in the heap right before what they take back.
//! - **Global virtual time** is computed by one worker, whoever's turn it is, and stops nobody: a preempted worker does not hold up the
//!   computation, only the time of the one event that it is in.
//! - **Memory** is bounded. When it runs short, optimism is narrowed, and what is furthest ahead is taken back.
//! - Ties are broken by (time, sender, count of the sender), so results depend on seed and model alone.
//!
//! # Limits
//!
//! A [`Model::handle`] that never returns, in a state that should not be, hangs the run: there is no way to take back an event that is being
//! handled. A panic there is taken back like anything else, and is an error only where it would have happened sequentially too; the panic
//! hook prints it all the same. Floats that are part of a state are hashed by their bits.

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
