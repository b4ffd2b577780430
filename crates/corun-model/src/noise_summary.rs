//! The time that a machine took from programs that only compute: how much, how evenly, and who took it.
//!
//! Shares are of the measured time of a program's threads, 0 to 1. The time taken from a thread is the sum of its gaps. The takers come
//! from its ledger and from the kernel's counters, which measure the same time in other ways. So the takers' shares sum only
//! approximately to the time taken.

use serde::Serialize;

/// A program that only computes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Program {
    /// How long it was measured, in nanoseconds.
    pub length_ns: u64,
    /// Share of its time that was taken, 0 to 1.
    pub taken: f64,
    /// The loss of benchmarks of several lengths, the shortest first. Only lengths that fit are included.
    pub benchmarks: Vec<Benchmark>,
    /// The takers, the largest share first.
    pub takers: Vec<Taker>,
    /// Its threads, each on its own CPU. A single one may have moved freely.
    pub threads: Vec<Thread>,
}

/// The loss of a benchmark of some length on one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Benchmark {
    /// Its length, in nanoseconds.
    pub length_ns: u64,
    /// How many stretches of this length were disturbed, over all threads.
    pub disturbed: usize,
    /// How many stretches there were.
    pub of: usize,
}

/// A cause of lost time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Who {
    /// Another program: the name of its tenant.
    Program(String),
    /// Several other programs, too many to list.
    Programs,
    /// The kernel's own threads.
    Kernel,
    /// Corun itself, while it watched.
    Corun,
    /// An idle CPU that had not yet noticed.
    Idle,
    /// Its own CPU quota.
    Quota,
    /// It was stopped or frozen.
    Stopped,
    /// The hypervisor, as far as it reports.
    Hypervisor,
    /// Interrupts and firmware, if the hypervisor reports its time or there is none.
    Interrupts,
    /// The same, if the hypervisor does not report its time, or not for this CPU.
    InterruptsOrHypervisor,
    /// Something unknown was scheduled.
    Unknown,
}

/// A taker and its share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Taker {
    /// The taker.
    #[serde(flatten)]
    pub who: Who,
    /// Share of the program's time.
    pub share: f64,
}

/// The time taken from one thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Thread {
    /// The CPU that it was pinned to. `None` if it moved freely.
    pub cpu: Option<u32>,
    /// Share of its time that was taken, 0 to 1.
    pub taken: f64,
    /// The part of that in which something else was scheduled, or a quota, signal or freezer stopped it.
    pub off_cpu: f64,
    /// The part in which it still had the CPU: interrupts, firmware, the hypervisor.
    pub on_cpu: f64,
    /// Gaps per second.
    pub gaps_per_s: f64,
    /// The longest gap, in nanoseconds.
    pub longest_ns: u64,
    /// Whether it still had the CPU then.
    pub longest_is_on_cpu: bool,
}
