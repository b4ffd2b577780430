//! How many CPUs this program can get right now, given its neighbors, and which of its threads wait for a CPU.
//!
//! There are two numbers, never mixed: the CPUs **guaranteed** while everybody competes, and the CPUs **available** while neighbors
//! leave some. Both obey the affinity and the quota of the process. Either may be unknown; then the answer says why.
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
//! It needs no privilege, no daemon and no thread, and allocates nothing after [`Adapt::new`]. The decisions are pure ([`decide`],
//! [`Steady`], [`Beats`], [`heir`], [`inherited`], [`next_change`]) and apart from the readers of Linux. A [`Width`] is the number of
//! threads to run, within bounds of the program and in a [`Mode`] that its user chooses. A [`Crew`] knows which worker threads are off
//! their CPU, how much is stolen from each, and who should take over their work. A [`Page`] is memory that a program shares with a
//! controller.

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
