//! The programs of a workload file. Every field has the same default as on the command line.

use super::length::Length;
use super::pdes::Pdes;
use crate::duration::{written_bytes, written_ns};
use serde::{Deserialize, Deserializer};

/// What a workload runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Program {
    /// Synthetic interference.
    Interference(Interference),
    /// A synthetic parallel program.
    Parallel(Parallel),
    /// A micro-benchmark of ATC'16.
    Micro(Micro),
    /// A parallel discrete-event simulation.
    Pdes(Pdes),
    /// A real command, with an optional description for the modelled machine.
    Command(Command),
}

/// When interference is busy (PACT'16 §2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Always: a `while(1)` loop.
    Persistent,
    /// Fixed busy and idle intervals.
    Periodic,
    /// Random busy intervals, each followed by a matching idle one.
    Intermittent,
}

/// The clock that measures a busy interval. PACT'16 §2.4 leaves it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BusyBy {
    /// The thread's CPU time: a preempted burst still computes for its whole length.
    Cpu,
    /// The wall clock: a burst loses the time that is stolen from it.
    Wall,
}

/// Synthetic interference with zero memory footprint.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Interference {
    /// When it is busy.
    pub pattern: Pattern,
    /// Periodic: length of a busy interval in nanoseconds (10 ms).
    #[serde(deserialize_with = "written_ns")]
    pub busy: u64,
    /// Intermittent: shortest busy interval (1 ms).
    #[serde(deserialize_with = "written_ns")]
    pub busy_min: u64,
    /// Intermittent: longest busy interval (40 ms).
    #[serde(deserialize_with = "written_ns")]
    pub busy_max: u64,
    /// The clock of busy intervals (CPU time). Persistent interference ignores it.
    pub busy_by: BusyBy,
    /// Share of a CPU that each thread asks for, 0..=1 (0.5). Persistent interference ignores it.
    pub demand: f64,
    /// Threads (1).
    pub threads: u32,
    /// CPUs to pin the threads to, round robin; empty: not pinned.
    pub cpus: Vec<u32>,
    /// Seed of the intermittent lengths.
    pub seed: u64,
    /// How long to run. 0: until asked to stop.
    #[serde(deserialize_with = "written_ns")]
    pub duration: u64,
}

impl Default for Interference {
    fn default() -> Self {
        Interference {
            pattern: Pattern::Persistent,
            busy: 10_000_000,
            busy_min: 1_000_000,
            busy_max: 40_000_000,
            busy_by: BusyBy::Cpu,
            demand: 0.5,
            threads: 1,
            cpus: Vec::new(),
            seed: 1,
            duration: 0,
        }
    }
}

/// How the threads of a parallel program depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// All threads meet after every grain.
    Barrier,
    /// Each grain has a critical section under one of `locks` locks.
    Lock,
    /// Items flow through `stages` stages, each with its own threads, over bounded queues.
    Pipeline,
    /// Threads take grains from a shared queue; all are done when the queue is empty.
    Queue,
    /// Each thread has its own queue with an equal part of the grains. A thread without grains steals the last grain of the fullest
    /// queue (work stealing, PACT'16 §3.3 on raytrace and bodytrack).
    Steal,
    /// Threads are independent.
    None,
}

/// What a thread does while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// Stays on the CPU until the wait is over.
    Spin,
    /// Sleeps in the kernel (futex) at once.
    Block,
    /// Spins for `spin`, then sleeps.
    SpinThenBlock,
}

/// How threads touch the shared footprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// They do not.
    None,
    /// All read it.
    Read,
    /// All write it: true sharing.
    Write,
    /// Each writes its own word of common cache lines: false sharing.
    False,
}

/// A named stage, as written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// The stages that it passes its items to. Empty: its items are done.
    #[serde(default)]
    pub feeds: Vec<String>,
}

/// A synthetic parallel program with known behavior.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Parallel {
    /// Threads (2).
    pub threads: u32,
    /// How they depend on each other (barrier).
    pub sync: Sync,
    /// What they do while they wait (block).
    pub wait: Wait,
    /// Spin-then-block: how long to spin first (50 µs).
    #[serde(deserialize_with = "written_ns")]
    pub spin: u64,
    /// Work between two synchronizations, as solo run time on an idle CPU (1 ms). Pipeline: per item and stage.
    #[serde(deserialize_with = "written_ns")]
    pub grain: u64,
    /// Spread of the grains: each is drawn uniformly from grain × [1-imbalance, 1+imbalance], 0..=1 (0).
    pub imbalance: f64,
    /// The factor of each thread's grains, or of each stage's in a pipeline; constant (none: 1). `imbalance` in contrast varies from
    /// grain to grain.
    pub shares: Vec<f64>,
    /// How long each grain waits for a device, blocked, after its work and outside any lock (0). The modelled machine counts it as I/O.
    /// A live run uses a timed sleep, since no device has a fixed latency.
    #[serde(deserialize_with = "written_ns")]
    pub io: u64,
    /// How long the thread sleeps after each grain, after `io` and outside any lock (0).
    #[serde(deserialize_with = "written_ns")]
    pub sleep: u64,
    /// Lock: share of each grain that is inside the critical section, 0..=1 (0.1).
    pub critical: f64,
    /// Lock: number of locks, taken in turn by iteration number and thread (1).
    pub locks: u32,
    /// Pipeline: number of stages, each of which feeds the next. `threads` are assigned to them round robin (2).
    pub stages: u32,
    /// Pipeline: its stages by name, with the stages that each feeds, instead of `stages` (none). See [`Flow`](super::Flow).
    pub stage: Vec<Stage>,
    /// Pipeline: items that fit between two stages (4).
    pub queue_depth: u32,
    /// Iterations of every thread (barrier, lock, none), items (pipeline) or grains in all (queue,
    /// steal). 0: use `duration`.
    pub iterations: u64,
    /// How long to run if `iterations` is 0. Both 0: until asked to stop.
    #[serde(deserialize_with = "written_ns")]
    pub duration: u64,
    /// Private memory each thread walks through in every grain, in bytes (0).
    #[serde(deserialize_with = "written_bytes")]
    pub footprint: u64,
    /// Memory all threads share, in bytes (0).
    #[serde(deserialize_with = "written_bytes")]
    pub shared: u64,
    /// How threads access the shared memory (none).
    pub sharing: Sharing,
    /// CPUs to pin the threads to, round robin; empty: not pinned.
    pub cpus: Vec<u32>,
    /// Seed of the imbalance.
    pub seed: u64,
}

impl Default for Parallel {
    fn default() -> Self {
        Parallel {
            threads: 2,
            sync: Sync::Barrier,
            wait: Wait::Block,
            spin: 50_000,
            grain: 1_000_000,
            imbalance: 0.0,
            shares: Vec::new(),
            io: 0,
            sleep: 0,
            critical: 0.1,
            locks: 1,
            stages: 2,
            stage: Vec::new(),
            queue_depth: 4,
            iterations: 0,
            duration: 0,
            footprint: 0,
            shared: 0,
            sharing: Sharing::None,
            cpus: Vec::new(),
            seed: 1,
        }
    }
}

impl Parallel {
    /// Steal: the grains in a thread's own queue at the start, by their index among all. Without a number of iterations no queue ever
    /// gets empty.
    pub fn own_grains(&self, thread: u32) -> std::ops::Range<u64> {
        let all = if self.iterations == 0 { u64::MAX } else { self.iterations };
        let from = |t: u32| (u128::from(all) * u128::from(t) / u128::from(self.threads.max(1))) as u64;
        from(thread)..from(thread + 1)
    }

    /// How the program ends.
    pub fn length(&self) -> Length {
        Length::of(self.iterations, self.duration)
    }
}

/// The micro-benchmarks of ATC'16 §5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MicroKind {
    /// Pairs of threads that increment shared counters in turn: very sensitive to the latency of sharing.
    Hubench,
    /// The same with enough private computation to hide that latency.
    Lubench,
    /// Threads that stream through private memory and saturate a node's bandwidth.
    Membench,
    /// Register arithmetic only.
    Cpu,
}

/// A micro-benchmark of ATC'16.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Micro {
    /// The benchmark.
    pub name: MicroKind,
    /// Threads; HuBench and LuBench need an even number (2).
    #[serde(default = "two")]
    pub threads: u32,
    /// Rounds of every thread; 0: use `duration`.
    #[serde(default)]
    pub iterations: u64,
    /// How long to run if `iterations` is 0. Both 0: until asked to stop.
    #[serde(default, deserialize_with = "written_ns")]
    pub duration: u64,
    /// CPUs to pin the threads to, round robin; empty: not pinned.
    #[serde(default)]
    pub cpus: Vec<u32>,
}

impl Micro {
    /// How the program ends.
    pub fn length(&self) -> Length {
        Length::of(self.iterations, self.duration)
    }
}

/// A real command.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Command {
    /// Program and arguments; no shell.
    pub argv: Vec<String>,
    /// Environment added to the caller's.
    #[serde(default)]
    pub env: std::collections::BTreeMap<String, String>,
    /// A model for the modelled machine: the activity of its threads, phase after phase. At the end of a phase all threads meet, and
    /// wait in the way of that phase.
    #[serde(default)]
    pub model: Vec<Parallel>,
    /// How often the modelled machine goes through the phases (1). 0: until asked to stop. Random draws continue from one round to the
    /// next.
    #[serde(default = "one")]
    pub iterations: u64,
}

impl Command {
    /// Whether the modelled machine never reaches its end: it repeats the phases forever, or one of them is endless.
    pub fn is_endless(&self) -> bool {
        self.iterations == 0 || self.model.iter().any(|p| p.length() == Length::Endless)
    }
}

fn two() -> u32 {
    2
}

fn one() -> u64 {
    1
}

pub(super) fn parse_ns_some<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    written_ns(d).map(Some)
}
