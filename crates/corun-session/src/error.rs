//! Why a session cannot begin, or cannot go on.

use corun_linux::launch::LaunchError;
use corun_linux::root::ReadError;
use corun_linux::target::TargetError;
use corun_linux::watcher::WatchError;
use corun_model::duration::human_ns;
use corun_model::refusal::Protected;
use corun_model::why::NoSchedExt;
use corun_model::{HostError, Unavailable, Why};
use thiserror::Error;

/// Why a session cannot begin, or cannot go on. Changes are undone when the session is dropped.
#[derive(Debug, Error)]
pub enum Error {
    /// The caller asked for something impossible: one sentence with the remedy.
    #[error("{0}")]
    Usage(String),
    /// A policy may not do what the caller requested.
    #[error("{what}: {why}")]
    Refused {
        /// The requested name.
        what: Named,
        /// Why not, and the remedy.
        why: String,
    },
    /// No tenant matches the caller's name; a profile of everybody lists all.
    #[error("{what}: {why}")]
    Absent {
        /// The requested name.
        what: Named,
        /// The missing thing.
        why: String,
    },
    /// The policy decides by hardware events that cannot be counted here.
    #[error("{policy} decides by hardware counters, and this machine lacks {}: {}", lacks.what, lacks.why)]
    NoCounters {
        /// The policy's name.
        policy: &'static str,
        /// The missing counter, and why.
        lacks: Unavailable,
    },
    /// A policy may not touch a tenant that the caller named.
    #[error("tenant {tenant} is protected; name another one")]
    Protected {
        /// As it was named.
        tenant: String,
        /// What protects it.
        why: Protected,
    },
    /// A stop was requested before the command began; it never runs.
    #[error("stopped before it began")]
    Stopped {
        /// The signal that requested it, if one did.
        signal: Option<i32>,
    },
    /// A trace was requested, and eBPF is not available.
    #[error("a trace needs eBPF: {why}; go without one")]
    NoTrace {
        /// Why not.
        why: Why,
    },
    /// The sched_ext scheduler was requested by name and is not available.
    #[error("{why}")]
    NoSchedExt {
        /// Why not.
        why: NoSchedExt,
    },
    /// The command could not be started, although it could be executed.
    #[error(transparent)]
    Launch(LaunchError),
    /// `/proc` or a cgroup tree could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The machine cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The machine can no longer be watched or steered.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// The names that a caller passes to a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A tenant that it may touch.
    Tenant(String),
    /// The tenant for which it works.
    Subject(String),
    /// Everybody.
    Everybody,
    /// The time between two decisions, in nanoseconds.
    Epoch(u64),
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Named::Tenant(name) => write!(f, "tenant {name}"),
            Named::Subject(name) => write!(f, "subject {name}"),
            Named::Everybody => f.write_str("everybody"),
            Named::Epoch(ns) => write!(f, "an epoch of {}", human_ns(*ns)),
        }
    }
}

impl Error {
    /// Whether the caller asked for something impossible, as opposed to a failure of the machine.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Error::Usage(_)
                | Error::Refused { .. }
                | Error::Absent { .. }
                | Error::NoCounters { .. }
                | Error::Protected { .. }
                | Error::NoTrace { .. }
                | Error::NoSchedExt { .. }
        )
    }
}

impl From<TargetError> for Error {
    fn from(error: TargetError) -> Error {
        match error {
            TargetError::Read(error) => Error::Read(error),
            error => Error::Usage(error.to_string()),
        }
    }
}

impl From<LaunchError> for Error {
    fn from(error: LaunchError) -> Error {
        match error.is_usage() {
            true => Error::Usage(error.to_string()),
            false => Error::Launch(error),
        }
    }
}
