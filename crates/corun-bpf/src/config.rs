//! The settings of the probe: how large its tables are, and what it watches.

use crate::layout::{Place, SYSCALLS};

/// How large the probe's tables are and what it watches.
#[derive(Clone, Debug)]
pub struct Config {
    /// The largest thread id of this kernel.
    pub tid_max: u32,
    /// Tasks that can be followed at a time.
    pub max_tasks: u32,
    /// Process groups in cgroups that can be distinguished at a time.
    pub max_groups: u32,
    /// Pairs of groups (who took from whom) that can be distinguished at a time, beyond those in the tasks'
    /// records.
    pub max_pairs: u32,
    /// Bytes of the ring of switches and wake-ups, a power of two of at least a page; 0: no trace.
    pub trace_bytes: u32,
    /// Whether the trace contains single waits, too.
    pub waits: bool,
    /// Bytes of the ring of the run log, likewise; 0: none is kept.
    pub record_bytes: u32,
    /// Bytes of the ring of ended tasks, likewise.
    pub ended_bytes: u32,
    /// A process whose threads are a group of their own, [`WATCHER`](crate::layout::group::WATCHER), without
    /// its children: the watching process, if it is to be separate from its co-runners.
    pub watcher: Option<u32>,
    /// The block state of each system call, `RUN` for `sched_yield`, 0 for "other"; from [`SYSCALLS`] on those of 32-bit
    /// programs.
    pub block_state_of_syscall: [u8; 2 * SYSCALLS],
    /// The places of `sched_setaffinity` in that table, for both kinds of programs.
    pub places_of_setaffinity: [u32; 2],
    /// Where each CPU sits, by CPU number.
    pub places: Vec<Place>,
}

impl Config {
    /// CPUs that exist or may come; at least one.
    pub(crate) fn cpu_count(&self) -> usize {
        self.places.len().max(1)
    }
}
