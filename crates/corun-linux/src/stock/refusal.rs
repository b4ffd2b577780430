//! Why an action was not carried out, before it becomes an [`Outcome`].

use super::AS_ROOT;
use crate::root::in_words;
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
                format!("{whom} may not be changed by this user ({}); {AS_ROOT}", in_words(e))
            }
            Some(libc::ESRCH) => format!("{whom} has gone"),
            _ => format!("{whom}: {}", in_words(e)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_refused_is_said_without_its_number() {
        for errno in [libc::EPERM, libc::EACCES, libc::EINVAL] {
            let refusal = Refusal::by_kernel("task 7", &io::Error::from_raw_os_error(errno));
            let Refusal::Refused(why) = refusal else { panic!("{refusal:?}") };
            assert!(why.starts_with("task 7") && !why.contains("os error"), "{why}");
        }
    }
}
