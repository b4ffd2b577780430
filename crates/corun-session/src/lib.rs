//! corun as a library: pick a target on this machine, then see, verify, predict or control it, window by window.

#![deny(missing_docs)]

pub mod control;
pub mod counting;
pub mod end;
pub mod error;
pub mod kept_trace;
pub mod local_host;
pub mod observing_cost;
pub mod profile;
pub mod stop;
pub mod subject_watch;
pub mod target;
pub mod verify;

pub use control::{Control, ControlOptions, Plan};
pub use error::Error;
pub use profile::{Profile, ProfileOptions};
pub use stop::Stop;
pub use target::Target;
pub use verify::{Verify, VerifyOptions};
