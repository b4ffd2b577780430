//! A refusal by the kernel or the supervisor, as a [`Refusal`].

use crate::root::in_words;
use crate::supervisor::SuperviseError;
use corun_model::Refusal;
use std::io;

/// The kernel refused an operation on `whom`.
pub(super) fn by_kernel(whom: &str, e: &io::Error) -> Refusal {
    let (whom, error) = (whom.to_owned(), in_words(e));
    match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Refusal::NotPermitted { whom, error },
        Some(libc::ESRCH) => Refusal::HasGone { whom },
        _ => Refusal::Kernel { whom, error },
    }
}

impl From<SuperviseError> for Refusal {
    fn from(e: SuperviseError) -> Refusal {
        Refusal::Controller(e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_by_the_kernel_keeps_its_number_and_is_shown_without_it() {
        let of = |errno| by_kernel("task 7", &io::Error::from_raw_os_error(errno));
        let whom = || "task 7".to_owned();
        assert_eq!(of(libc::ESRCH), Refusal::HasGone { whom: whom() });
        for errno in [libc::EPERM, libc::EACCES] {
            assert!(of(errno).wants_root(), "{:?}", of(errno));
        }
        let invalid = Refusal::Kernel { whom: whom(), error: "Invalid argument".into() };
        assert_eq!(of(libc::EINVAL), invalid);
    }
}
