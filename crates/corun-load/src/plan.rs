//! The outside of a program: its threads, its unit of iteration, and its end. Every program makes one; the crew, the progress and the
//! report read it.

use corun_model::workload::Length;

/// The outside of a program.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program in one line.
    pub what: String,
    /// The unit of iteration: "round", "grain", "item", ….
    pub unit: &'static str,
    /// The threads, in order.
    pub threads: Vec<Thread>,
    /// CPUs to pin them to, round robin; empty: not pinned.
    pub cpus: Vec<u32>,
    /// Its end. The iterations are those of the whole program.
    pub length: Length,
    /// The share of a CPU that each thread asks for, if it is fixed.
    pub demand: Option<f64>,
    /// Its threads wait for each other, and keep an account of it.
    pub waits: bool,
    /// Its work is counted in loops of the kernel.
    pub works: bool,
}

/// A thread of a plan.
#[derive(Clone, Debug)]
pub struct Thread {
    /// The name, as `top -H` and a profile show it. The kernel keeps 15 bytes of it.
    pub name: String,
    /// Whether its iterations count as the program's. Those of a barrier's other threads do not, since they repeat the count of the
    /// first. Those of a pipeline's earlier stages do not either.
    pub counts: bool,
}

impl Plan {
    /// `n` threads named `name-0`, `name-1`, … that all count.
    pub fn alike(name: &str, n: u32) -> Vec<Thread> {
        (0..n).map(|i| Thread { name: format!("{name}-{i}"), counts: true }).collect()
    }

    /// The CPU that thread number `thread` is pinned to.
    pub fn cpu(&self, thread: usize) -> Option<u32> {
        (!self.cpus.is_empty()).then(|| self.cpus[thread % self.cpus.len()])
    }
}

/// The length of a program whose every thread does `iterations`.
pub fn of_every_thread(length: Length, threads: u32) -> Length {
    match length {
        Length::Iterations(n) => Length::Iterations(n.saturating_mul(u64::from(threads))),
        other => other,
    }
}

/// "1 thread", "2 threads".
pub fn threads(n: u32) -> String {
    format!("{n} thread{}", if n == 1 { "" } else { "s" })
}
