//! What can keep a load from running, each in one sentence with the remedy.

use corun_model::duration::human_bytes;
use std::io;
use thiserror::Error;

/// Why a load could not run.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The program asks for something that no program can have.
    #[error("{what}")]
    Program {
        /// The setting at fault, as it is called in a workload file.
        key: &'static str,
        /// What is wrong and what to do.
        what: String,
    },
    /// A CPU that this process may not use.
    #[error("CPU {cpu} is not one this process may use; choose from {allowed}")]
    Cpu {
        /// The CPU asked for.
        cpu: u32,
        /// Those allowed, as `0-3,6`.
        allowed: String,
    },
    /// More memory than the machine has left.
    #[error(
        "this load needs {} of memory and {} are available; use a smaller footprint or fewer threads",
        human_bytes(u64::try_from(*.needed_bytes).unwrap_or(u64::MAX)),
        human_bytes(*.available_bytes)
    )]
    Memory {
        /// What all threads together would touch.
        needed_bytes: u128,
        /// What the kernel says it can give without swapping.
        available_bytes: u64,
    },
    /// The command does not start.
    #[error("cannot start `{program}`: {error}; is it installed and in PATH?")]
    Command {
        /// The program, as in `argv`.
        program: String,
        /// What the system said.
        error: io::Error,
    },
    /// The victim of calibrated interference cannot be watched any more.
    #[error("{0}")]
    Sensor(String),
    /// The kernel will not tell or set CPU affinity.
    #[error("cannot read or set the CPUs of a thread: {0}")]
    Affinity(io::Error),
    /// The kernel refuses another thread.
    #[error(
        "cannot start thread {started} of {wanted}: {error}; ask for fewer threads or raise `ulimit -u`"
    )]
    Thread {
        /// Threads started before.
        started: usize,
        /// Threads asked for.
        wanted: usize,
        /// What the system said.
        error: io::Error,
    },
}

impl LoadError {
    /// True if what was asked for is at fault, false if the system refused.
    pub fn is_usage(&self) -> bool {
        use LoadError::*;
        matches!(self, Program { .. } | Cpu { .. } | Memory { .. } | Command { .. })
    }
}
