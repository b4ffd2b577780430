//! What a machine took from programs that did nothing but compute: how much, how evenly, and who took it.
//!
//! Shares are of the time that a program's threads were measured, 0..1. What is taken from a thread is the sum of its gaps; who took it
//! comes from its ledger and from the kernel's own counters, which see the same time by other means. So the takers' shares sum to
//! what was taken only nearly.

use serde::Serialize;

/// A program that did nothing but compute.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Program {
    /// How long it was measured, in nanoseconds.
    pub length_ns: u64,
    /// Share of its time that was taken.
    pub taken: f64,
    /// What benchmarks of several lengths would lose, the shortest first; only lengths that fit in.
    pub benchmarks: Vec<Benchmark>,
    /// Who took it, who took most first.
    pub takers: Vec<Taker>,
    /// Its threads, each on a CPU of its own; a single one may have gone where it liked.
    pub threads: Vec<Thread>,
}

/// What a benchmark of some length would lose on one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Benchmark {
    /// Its length, in nanoseconds.
    pub length_ns: u64,
    /// How many stretches of this length were disturbed, of all threads.
    pub disturbed: usize,
    /// How many there were.
    pub of: usize,
}

/// What took time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Who {
    /// Other programs: a tenant's name.
    Program(String),
    /// Several other programs, too many to be told apart.
    Programs,
    /// The kernel's own threads.
    Kernel,
    /// Corun itself, which watched.
    Corun,
    /// An idle CPU that had not noticed yet.
    Idle,
    /// Its own CPU quota.
    Quota,
    /// Somebody stopped or froze it.
    Stopped,
    /// The hypervisor, as far as it says so.
    Hypervisor,
    /// Interrupts and firmware, where the hypervisor tells what it took, or there is none.
    Interrupts,
    /// The same where it does not tell, or not of this CPU.
    InterruptsOrHypervisor,
    /// Something else was scheduled, and it is not known what.
    Unknown,
}

/// Who took how much.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Taker {
    /// Who.
    #[serde(flatten)]
    pub who: Who,
    /// Share of the program's time.
    pub share: f64,
}

/// What was taken from one thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Thread {
    /// The CPU that it was kept on; `None`: it went where it liked.
    pub cpu: Option<u32>,
    /// Share of its time that was taken.
    pub taken: f64,
    /// The part of that in which something else was scheduled, or a quota or somebody stopped it.
    pub off_cpu: f64,
    /// The part in which it still had the CPU: interrupts, firmware, the hypervisor.
    pub on_cpu: f64,
    /// How often anything was taken, a second.
    pub gaps_per_s: f64,
    /// The longest time that was taken at once, in nanoseconds.
    pub longest_ns: u64,
    /// Whether it still had the CPU then.
    pub longest_is_on_cpu: bool,
}
