//! How many files whoever watches may hold open: a third of what this process may. Sampling and counting may each take as
//! many, and whoever parks somebody needs one to let it go.

/// What the kernel allows by default, should it not say.
const USUAL: u64 = 1_024;

/// A third of the soft limit of open files.
pub fn third() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    usize::try_from(if known { limit.rlim_cur } else { USUAL } / 3).unwrap_or(usize::MAX)
}
