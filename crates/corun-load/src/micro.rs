//! The micro-benchmarks of ATC'16 §5.1, with the inner loops described in §3.1.
//!
//! | name | what each thread does | bottleneck (table 1) |
//! | --- | --- | --- |
//! | `hubench` | increments a set of counters in turn with its partner: every increment waits for the line | data sharing |
//! | `lubench` | the same with 1 µs of private register work after each increment, which hides that wait | core (IPC), then data sharing |
//! | `membench` | streams through private memory larger than the last-level cache | memory bandwidth |
//! | `cpu` | register arithmetic only | core |
//!
//! A counter belongs to the first of a pair while it is even, and to the second while it is odd. Waiting is a bare spin on it. So
//! partners must be on the CPU at the same time, as in the paper. A set has 16 lines: it fits the cache closest to the core, and the
//! faster partner may be up to a set ahead. Spinning is not accounted for, since reading a clock would take longer than the wait.

use crate::crew::Crew;
use crate::kernel::Kernel;
use crate::load_thread::{LoadThread, Pace};
use crate::memory::{last_level_cache_bytes, lines, Line};
use crate::plan::{of_every_thread, threads, Plan};
use crate::watch::{Ended, Watch};
use crate::LoadError;
use corun_model::workload::{Length, Micro, MicroKind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const COUNTERS: u64 = 16;
const MIB: u64 = 1 << 20;

/// Private work per increment of LuBench: several times the latency of a line from another socket.
const PRIVATE_NS: u64 = 1_000;

/// The plan of `program`.
pub fn plan(program: &Micro) -> Plan {
    let (name, unit, works) = match program.name {
        MicroKind::Hubench => ("hubench", "sweep of 16 increments", false),
        MicroKind::Lubench => ("lubench", "sweep of 16 increments", true),
        MicroKind::Membench => ("membench", "MiB streamed", false),
        MicroKind::Cpu => ("cpu", "ms of work", true),
    };
    Plan {
        what: format!("{name}, {}", threads(program.threads)),
        unit,
        threads: Plan::alike(name, program.threads),
        cpus: program.cpus.clone(),
        length: of_every_thread(program.length(), program.threads),
        demand: None,
        waits: false,
        works,
    }
}

/// Memory that all threads of `program` touch together.
pub fn needed_bytes(program: &Micro) -> u128 {
    match program.name {
        MicroKind::Membench => u128::from(stream_bytes()) * u128::from(program.threads),
        _ => 0,
    }
}

/// The memory that each thread of membench streams through: twice the last-level cache, at least 64 MiB, in whole MiB.
fn stream_bytes() -> u64 {
    last_level_cache_bytes().map_or(0, |llc| 2 * llc).next_multiple_of(MIB).max(64 * MIB)
}

/// Runs `program`.
///
/// # Errors
/// As [`Crew::run`].
pub fn run(program: &Micro, pace: Pace, crew: &Crew, watch: &mut Watch) -> Result<Ended, LoadError> {
    let rounds = match program.length() {
        Length::Iterations(n) => n,
        _ => u64::MAX,
    };
    match program.name {
        MicroKind::Hubench | MicroKind::Lubench => {
            let private_ns = if program.name == MicroKind::Lubench { PRIVATE_NS } else { 0 };
            let sets: Vec<Vec<Line>> = (0..program.threads / 2).map(|_| lines(COUNTERS * 64)).collect();
            rounds_of(rounds, crew, watch, |number| {
                let mut hand = crew.load_thread(number, Kernel::registers(), pace);
                let set = &sets[number / 2];
                move |round| sweep(set, number as u64 % 2, round, private_ns, &mut hand)
            })
        }
        MicroKind::Membench => {
            let words = (stream_bytes() / 8) as usize;
            rounds_of(rounds, crew, watch, |_| {
                let mut memory = vec![1u64; words];
                move |round| stream(&mut memory, round, &crew.cut)
            })
        }
        MicroKind::Cpu => rounds_of(rounds, crew, watch, |number| {
            let mut hand = crew.load_thread(number, Kernel::registers(), pace);
            move |_| hand.work(1_000_000)
        }),
    }
}

/// Every thread does `rounds` rounds of the work that `prepare` makes for it, or as many as it can.
fn rounds_of<Round: FnMut(u64) -> bool>(
    rounds: u64,
    crew: &Crew,
    watch: &mut Watch,
    prepare: impl Fn(usize) -> Round + Sync,
) -> Result<Ended, LoadError> {
    crew.run(watch, |number| {
        let (mut round, iterations) = (prepare(number), &crew.tallies[number].iterations);
        move || {
            for index in 0..rounds {
                if !round(index) {
                    return;
                }
                iterations.add(1);
            }
        }
    })
}

/// Increments each counter of the set once, in this partner's turn. Returns false if cut short.
fn sweep(set: &[Line], me: u64, round: u64, private_ns: u64, hand: &mut LoadThread) -> bool {
    for counter in set {
        while counter.read(0) != 2 * round + me {
            if hand.is_cut() {
                return false;
            }
            std::hint::spin_loop();
        }
        counter.increment(0);
        if private_ns > 0 && !hand.work(private_ns) {
            return false;
        }
    }
    true
}

/// Reads and writes the next MiB; false if cut short.
fn stream(memory: &mut [u64], round: u64, cut: &AtomicBool) -> bool {
    const WORDS: usize = (MIB / 8) as usize;
    let begin = (round % (memory.len() / WORDS) as u64) as usize * WORDS;
    for word in &mut memory[begin..begin + WORDS] {
        *word = word.wrapping_add(1);
    }
    std::hint::black_box(memory);
    !cut.load(Relaxed)
}
