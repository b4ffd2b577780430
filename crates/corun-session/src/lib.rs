//! corun as a library: pick a target on this machine, then see, verify, predict or control it, window by window.
//!
//! | to | use | it yields |
//! | --- | --- | --- |
//! | see where a target's time went, and who took it | [`Profile`] | an observation per window |
//! | say how much slower a target is than alone | [`Predict`] | a window, and whether an estimate is due |
//! | watch everybody for as long as one likes | [`Watch`] | an observation per window; nothing is summed up |
//! | judge how much of its time others cost a command | [`Verify`] | an observation per window, a verdict at the end |
//! | keep a target's run, so that it can be replayed | [`Record`] | a window of what its tasks did |
//! | let a policy schedule tenants | [`Plan`], then [`Control`] | an epoch with its decisions |
//! | say what this machine takes from a program that computes | [`Noise`] | a measurement |
//! | measure one process, over and over | [`ProcessMeter`] | what it ran, spun and waited |
//!
//! A **session** is an iterator over windows of time on this machine. It ends by itself when the command, the
//! subject or the time ends, or when a [`Stop`] asks for it from another thread. `finish` sums up and returns
//! a command. A session that is dropped early leaves nothing behind: nobody stays parked, and nothing stays
//! in the kernel. A command goes on.
//!
//! ```no_run
//! use corun_session::{Profile, ProfileOptions, Stop, Target};
//!
//! let target = Target::command(["make", "-j4"]);
//! let mut profile = Profile::start(&target, &ProfileOptions::default(), &Stop::new())?;
//! for window in &mut profile {
//!     println!("{} tasks", window?.tasks.len());
//! }
//! let seen = profile.finish()?;
//! println!("{} ms in all", seen.whole.window_ns() / 1_000_000);
//! # Ok::<(), corun_session::Error>(())
//! ```
//!
//! Three examples of some thirty lines run as they are. `watch`, with the PID of one of two loops on a CPU, printed first
//!
//! ```text
//! in 5.1 s of process 25137:
//!   2686.2 ms were taken by sh
//! ```
//!
//! and then everybody who took less. `predict`, with a loop as its command next to two others on the same CPU, printed
//!
//! ```text
//! now 4.80 times as long as alone
//! now 4.35 times as long as alone
//! now 4.24 times as long as alone
//! the run took 4.45 times as long as alone (3.67 to 5.40)
//! ```
//!
//! `control` lets a policy schedule the named tenants, and says whether it helps.
//!
//! Observations have the types of `corun-model`. If eBPF is allowed (root, or CAP_BPF and CAP_PERFMON),
//! ledgers and culprits are exact. Otherwise the kernel's own sums are read, and [`Observation::unavailable`]
//! lists what cannot be seen, with its reason. Errors are for people, too: [`Error::is_usage`] says whether
//! the caller asked for something impossible.
//!
//! Nothing here prints, and nothing needs a terminal. Signals are left alone unless [`Stop::on_signals`] is
//! used. A program that controls tenants is started once more as its own supervisor, so it calls
//! [`supervise_if_asked`] first in `main`.
//!
//! [`Observation::unavailable`]: corun_model::Observation::unavailable

#![deny(missing_docs)]

pub mod control;
pub mod counting;
pub mod end;
pub mod error;
pub mod kept_trace;
pub mod local_host;
pub mod noise;
pub mod observing_cost;
pub mod predict;
pub mod process_meter;
pub mod profile;
pub mod record;
mod replay;
pub mod stop;
pub mod subject_watch;
mod supervise;
pub mod target;
pub mod verify;
pub mod watch;

pub use control::{Control, ControlOptions, Plan};
pub use error::Error;
pub use noise::Noise;
pub use predict::{Predict, PredictOptions};
pub use process_meter::ProcessMeter;
pub use profile::{Profile, ProfileOptions};
pub use record::{Record, RecordOptions, RecordedWindow};
pub use stop::Stop;
pub use supervise::supervise_if_asked;
pub use target::Target;
pub use verify::{Verify, VerifyOptions};
pub use watch::{Watch, WatchOptions};
