//! How many files a watcher may hold open: a third of this process's limit. Sampling and counting may each
//! take as many, and parking a tenant needs one file to release it.

/// The kernel's default, if it does not say.
const USUAL: u64 = 1_024;

/// A third of the soft limit of open files.
pub fn third() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    usize::try_from(if known { limit.rlim_cur } else { USUAL } / 3).unwrap_or(usize::MAX)
}
