//! How many CPUs can this program get right now, counting its neighbours, and which of its threads is being stolen from.
//!
//! Two numbers, never mixed up: what is **guaranteed** when everybody wants everything, and what is **available** while neighbours leave
//! some of it. Both obey the CPUs that the process may use and its quota. Either may be unknown, and then the answer says why.
//!
//! ```
//! use corun_adapt::Adapt;
//!
//! let adapt = Adapt::new()?;
//! // At a safe point, every now and then: reads files when 50 ms have passed, and returns at once otherwise.
//! adapt.refresh();
//! // Anywhere, as often as you like: one load.
//! let answer = adapt.answer();
//! println!("{answer}");
//! # Ok::<(), corun_adapt::Error>(())
//! ```
//!
//! No privilege, no daemon, no thread, and no allocation after [`Adapt::new`]. What decides is pure ([`decide`] and [`Steady`]); what reads
//! Linux is apart. A [`Crew`] says of worker threads who is off its CPU, who is stolen from, and who had better do its work.

mod adapt;
mod cgroup;
mod crew;
mod decision;
mod sources;
mod steady;

pub use adapt::{Adapt, Error};
pub use crew::{Crew, Lookout, Seat};
pub use decision::{decide, Answer, Quota, Reading, Reason};
pub use steady::Steady;
