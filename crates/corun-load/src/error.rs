//! The errors of a load, each in one sentence with the remedy.

use corun_model::duration::human_bytes;
use std::io;
use thiserror::Error;

/// Why a load could not run.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The program asks for something that no program can have.
    #[error("{what}")]
    Program {
        /// The wrong setting, with its name in a workload file.
        key: &'static str,
        /// The error and the remedy.
        what: String,
    },
    /// A CPU that this process may not use.
    #[error("CPU {cpu} is not one this process may use; choose from {allowed}")]
    Cpu {
        /// The CPU asked for.
        cpu: u32,
        /// The allowed CPUs, as `0-3,6`.
        allowed: String,
    },
    /// More memory than the machine has left.
    #[error(
        "this load needs {} of memory and {} are available; use a smaller footprint or fewer threads",
        human_bytes(u64::try_from(*.needed_bytes).unwrap_or(u64::MAX)),
        human_bytes(*.available_bytes)
    )]
    Memory {
        /// The memory of all threads together, in bytes.
        needed_bytes: u128,
        /// The memory that the kernel can give without swapping, in bytes.
        available_bytes: u64,
    },
    /// The command does not exist, or is not a program.
    #[error("cannot start `{program}`: {error}; is it installed and in PATH?")]
    Command {
        /// The program, as in `argv`.
        program: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The kernel refuses another process.
    #[error("cannot start the command: {error}")]
    Process {
        /// The error of the system.
        error: io::Error,
    },
    /// The victim of calibrated interference can no longer be watched.
    #[error("{0}")]
    Sensor(String),
    /// The engine of a simulation gave up.
    #[error("the simulation cannot go on: {0}")]
    Pdes(corun_pdes::Error),
    /// The kernel does not read or set CPU affinity.
    #[error("cannot read or set the CPUs of a thread: {0}")]
    Affinity(io::Error),
    /// The kernel refuses another thread.
    #[error("{started} of {wanted} threads can be started: {error}; ask for fewer, or raise the limit on processes")]
    Thread {
        /// Threads started before.
        started: usize,
        /// Threads asked for.
        wanted: usize,
        /// The error of the system.
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

    /// Adds the cause to a refusal of a thread or a process, from `explained`.
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

    /// Whether the request is wrong. Otherwise the system refused it.
    pub fn is_usage(&self) -> bool {
        use LoadError::*;
        matches!(self, Program { .. } | Cpu { .. } | Memory { .. } | Command { .. })
    }
}
