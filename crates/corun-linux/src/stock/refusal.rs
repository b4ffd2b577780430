//! Why an action was not carried out, before it becomes an [`Outcome`].

use crate::supervisor::SuperviseError;
use corun_model::Outcome;
use std::io;

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It cannot be done here at all.
    Unsupported(String),
    /// It can, but not to this target or with this value.
    Refused(String),
}

impl Refusal {
    /// The kernel refused what was tried on `whom`.
    pub(super) fn by_kernel(whom: &str, e: &io::Error) -> Refusal {
        Refusal::Refused(match e.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                format!("{whom} may not be changed by this user ({e}); run as root")
            }
            Some(libc::ESRCH) => format!("{whom} has gone"),
            _ => format!("{whom}: {e}"),
        })
    }
}

impl From<SuperviseError> for Refusal {
    fn from(e: SuperviseError) -> Refusal {
        Refusal::Refused(e.to_string())
    }
}

impl From<Refusal> for Outcome {
    fn from(r: Refusal) -> Outcome {
        match r {
            Refusal::Unsupported(why) => Outcome::Unsupported { why },
            Refusal::Refused(why) => Outcome::Refused { why },
        }
    }
}
