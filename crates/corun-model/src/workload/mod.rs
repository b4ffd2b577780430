//! Workload files: a program described once, which the live host runs as a real process and the modelled host
//! as a modelled one.
//!
//! ```toml
//! schema = "corun.workload/1"
//! name   = "fine-barrier"
//! about  = "two threads that meet every millisecond"
//!
//! [program]
//! kind    = "parallel"
//! threads = 2
//! sync    = "barrier"
//! wait    = "block"
//! grain   = "1ms"
//! iterations = 2000
//! ```
//!
//! `kind` is `interference` ([`Interference`], PACT'16 §2.4), `parallel` ([`Parallel`]), `micro` ([`Micro`],
//! ATC'16 §5.1), `pdes` ([`Pdes`], Time Warp) or `command` ([`Command`], a real program). `[character]` ([`Character`]) says how the program
//! uses the memory system; only the modelled machine reads it. `[[phase]]` ([`Phase`]) gives characters that follow each
//! other, `[[on]]` ([`OnMachine`]) another size for a named machine.

mod bad_key;
mod character;
mod check;
pub mod draw;
mod file;
mod flow;
mod length;
mod lines;
mod memory;
mod pdes;
mod program;
mod variation;
mod words;

pub use bad_key::{BadKey, Given};
pub use character::Character;
pub use file::{BadWorkload, Workload};
pub use flow::Flow;
pub use length::Length;
pub use lines::line_of;
pub use memory::{MemoryUse, Placed};
pub use pdes::{Idle, Mapping, Pdes};
pub use program::{
    BusyBy, Command, Interference, Micro, MicroKind, Parallel, Pattern, Program, Sharing, Stage, Sync, Wait,
};
pub use variation::{OnMachine, Phase};
pub use words::{read_file, read_toml};
