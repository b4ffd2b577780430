//! Why a scheduler left the kernel, in plain words.

use std::fmt;

/// Why the kernel's own scheduler has taken over again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerExit {
    /// What sort of end it was.
    pub why: Ending,
    /// The kernel's reason: "runnable task stall".
    pub reason: String,
    /// The kernel's details: which task stalled, and for how long. May be empty.
    pub message: String,
}

/// The ways in which a scheduler can end; the numbers are the kernel's (`enum scx_exit_kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its loader removed it.
    Unloaded,
    /// The kernel removed it: a CPU came or went, or the scheduler above it ended.
    TakenOut,
    /// An administrator asked for the kernel's own scheduler (SysRq-S).
    SysRq,
    /// It broke a rule of the interface.
    Error,
    /// It reported an error itself.
    OwnError,
    /// A runnable task was not run for longer than the watchdog allows.
    Stall,
}

impl SchedulerExit {
    /// From the kernel's data about a scheduler that leaves.
    pub(crate) fn new(kind: u32, reason: &[u8], message: &[u8]) -> SchedulerExit {
        let why = match kind {
            0..=65 => Ending::Unloaded,
            66 | 68..=1023 => Ending::TakenOut,
            67 => Ending::SysRq,
            1025 => Ending::OwnError,
            1026 => Ending::Stall,
            _ => Ending::Error,
        };
        let text = |b: &[u8]| String::from_utf8_lossy(b).trim().to_owned();
        SchedulerExit { why, reason: text(reason), message: text(message) }
    }

    /// Whether something went wrong, as opposed to a requested end.
    pub fn is_failure(&self) -> bool {
        matches!(self.why, Ending::Error | Ending::OwnError | Ending::Stall)
    }
}

impl fmt::Display for SchedulerExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.why {
            Ending::Unloaded => "corun's scheduler was unloaded",
            Ending::TakenOut => "the kernel took corun's scheduler out",
            Ending::SysRq => "an administrator switched back to the kernel's scheduler (SysRq-S)",
            Ending::Error => "the kernel threw corun's scheduler out: it broke a rule of sched_ext",
            Ending::OwnError => "corun's scheduler gave up by itself",
            Ending::Stall => {
                "the kernel threw corun's scheduler out: a runnable task was kept waiting for too long"
            }
        })?;
        // The kernel's own words say which task or rule it was.
        let details: Vec<&str> =
            [self.reason.as_str(), self.message.as_str()].into_iter().filter(|s| !s.is_empty()).collect();
        match details.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", details.join(": ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_names_the_task_that_the_kernel_named() {
        let stall = SchedulerExit::new(1026, b"runnable task stall", b"hog[77] failed to run for 1.2s");
        assert!(stall.is_failure());
        assert_eq!(
            stall.to_string(),
            "the kernel threw corun's scheduler out: a runnable task was kept waiting for too long (runnable task \
             stall: hog[77] failed to run for 1.2s)"
        );
    }

    #[test]
    fn being_asked_to_leave_is_no_failure() {
        for kind in [64, 65, 66, 67, 68] {
            assert!(!SchedulerExit::new(kind, b"", b"").is_failure(), "{kind}");
        }
        assert_eq!(SchedulerExit::new(64, b"", b"").to_string(), "corun's scheduler was unloaded");
    }

    #[test]
    fn an_error_of_an_unknown_kind_is_an_error() {
        assert_eq!(SchedulerExit::new(1999, b"", b"").why, Ending::Error);
    }
}
