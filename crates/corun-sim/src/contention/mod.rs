//! Contention: the speed of every running task, given the others and their places, and its counters.
//!
//! The engine knows caches, buses and hyperthreads only through this module. It reports changes ([`System::set`]), asks once per
//! instant for the rates that changed ([`System::refresh`]), and moves the work of exactly those CPUs. A program without memory
//! character costs a constant.
//!
//! Contract with the engine:
//! - indices are dense: `cpu` is the place in [`Machine::cpus`](corun_model::Machine::cpus), `task` and `program`
//!   are the engine's own numbers;
//! - threads of one `program` number share memory with each other, equally, and with nobody else: a benchmark whose
//!   threads share in pairs has one number per pair;
//! - between two calls of `set` for one CPU its rate holds until `refresh` reports another one; `refresh` is called
//!   after the `set`s of an instant and again at [`System::next_ns`];
//! - all times are integer nanoseconds, all rates are fixed point ([`ONE`]); the same calls give the same
//!   answers on every machine: only `+ - * /` and square roots, which IEEE 754 rounds exactly.
//!
//! | module | models | source |
//! | --- | --- | --- |
//! | [`smt`] | hyperthreads share a core by IPC demand | ATC'16 §3.2 |
//! | [`llc`] | shares of the last-level cache, and refill after a switch | miss curve against occupied share |
//! | [`private`] | private caches and TLB after a switch or a migration, shared by hyperthreads | footprints |
//! | [`regions`] | data that threads share, once in each cache | |
//! | [`membw`] | queueing for a node's memory | M/D/1 |
//! | [`numa`] | local and remote DRAM, and the place of data | ATC'16 §2 |
//! | [`links`] | queueing for the link between nodes | M/D/1 |
//! | [`coherence`] | transfers between threads that compute at the same time at the same place of the program | PACT'16 §3.3 |
//! | [`hot_lines`] | queueing for a line that several threads want | M/D/1 |
//! | [`tolerance`] | the hidden part of a stall | ATC'16 §3.1 |
//! | [`energy`] | cores and packages by state | RAPL's domains |
//! | [`profile`] | the sum of the parts: the CPI stack | |
//! | [`tally`] | counters | |

pub mod coherence;
pub mod energy;
pub mod hot_lines;
pub mod links;
pub mod llc;
pub mod membw;
pub mod numa;
pub mod private;
pub mod profile;
pub mod regions;
pub mod smt;
mod system;
pub mod tally;
pub mod tolerance;

#[cfg(test)]
mod incremental;

pub use energy::Energy;
pub use system::System;

/// Progress of one nanosecond of solo work per nanosecond, as fixed point: 2^20.
pub const ONE: u32 = 1 << 20;

/// A character known to the system, by number: [`System::character`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CharacterId(pub u32);

/// The task on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The task whose counters this feeds.
    pub task: u32,
    /// The program it belongs to: threads of one program share memory.
    pub program: u32,
    /// How it uses core and memory now.
    pub character: CharacterId,
    /// It only waits: a tight loop that touches nothing beyond its own L1.
    pub spinning: bool,
}

/// A CPU whose rate changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRate {
    /// Which.
    pub cpu: u32,
    /// Its task's new progress: nanoseconds of solo work per nanosecond, fixed point ([`ONE`]); at least 1.
    pub progress: u32,
}
