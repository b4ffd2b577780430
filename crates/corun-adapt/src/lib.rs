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
//! No privilege, no daemon, no thread, and no allocation after [`Adapt::new`]. What decides is pure ([`decide`], [`Steady`], [`Beats`],
//! [`heir`], [`inherited`], [`next_change`]); what reads Linux is apart. A [`Width`] is how many threads to run, within bounds that the program sets and in a [`Mode`]
//! that its user chooses. A [`Crew`] says of worker threads who is off its CPU, who is stolen from, and who had better do its work. A [`Page`]
//! is what a program shares with a controller.

mod adapt;
mod beats;
mod caches;
mod cgroup;
mod crew;
mod decision;
mod heartbeats;
mod page;
#[cfg(feature = "rayon")]
mod pool;
mod sources;
mod steady;
mod takeover;
mod width;
mod worker;

pub use adapt::{Adapt, Error};
pub use beats::Beats;
pub use crew::{Crew, CrewError};
pub use decision::{decide, Answer, Quota, Reading, Reason};
pub use heartbeats::Heartbeats;
pub use page::{Page, PageError, Peer, Published, PAGE_VERSION};
#[cfg(feature = "rayon")]
pub use pool::Pool;
pub use steady::Steady;
pub use takeover::{heir, heirs, inherited, next_change, Change, State, WorkerView};
pub use width::{cpus, say, Mode, NoMode, Width, VARIABLE};
pub use worker::{Taken, WorkerSlot};
