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
    /// The command is not there, or is no program.
    #[error("cannot start `{program}`: {error}; is it installed and in PATH?")]
    Command {
        /// The program, as in `argv`.
        program: String,
        /// What the system said.
        error: io::Error,
    },
    /// The kernel refuses another process.
    #[error("cannot start the command: {error}")]
    Process {
        /// What the system said.
        error: io::Error,
    },
    /// The victim of calibrated interference cannot be watched any more.
    #[error("{0}")]
    Sensor(String),
    /// The engine of a simulation gave up.
    #[error("the simulation cannot go on: {0}")]
    Pdes(corun_pdes::Error),
    /// The kernel will not tell or set CPU affinity.
    #[error("cannot read or set the CPUs of a thread: {0}")]
    Affinity(io::Error),
    /// The kernel refuses another thread.
    #[error("{started} of {wanted} threads can be started: {error}; ask for fewer, or raise the limit on processes")]
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
    /// Why a command did not start.
    pub fn of_command(program: &str, error: io::Error) -> LoadError {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOMEM) => LoadError::Process { error },
            _ => LoadError::Command { program: program.to_owned(), error },
        }
    }

    /// The same with what `explained` knows of why the system refused a thread or a process.
    #[must_use]
    pub fn with_cause(self, explained: impl FnOnce(io::Error) -> io::Error) -> LoadError {
        match self {
            LoadError::Thread { started, wanted, error } => {
                LoadError::Thread { started, wanted, error: explained(error) }
            }
            LoadError::Process { error } => LoadError::Process { error: explained(error) },
            other => other,
        }
    }

    /// True if what was asked for is at fault, false if the system refused.
    pub fn is_usage(&self) -> bool {
        use LoadError::*;
        matches!(self, Program { .. } | Cpu { .. } | Memory { .. } | Command { .. })
    }
}
