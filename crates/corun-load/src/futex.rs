//! The two calls with which a thread sleeps in the kernel until a word in memory changes: `futex(2)`, private to the process. All
//! blocking here uses [`wait`].

use crate::clock::timespec;
use std::sync::atomic::AtomicU32;

/// Sleeps while `word` holds `expected`, until woken or until `timeout_ns` has passed. The kernel compares and goes to sleep in one
/// step. So a change of the word followed by a [`wake`] cannot be missed. It may return early (a signal), so check the word again.
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) {
    let timeout = timeout_ns.map(timespec);
    let timeout = timeout.as_ref().map_or(std::ptr::null(), |t| t as *const libc::timespec);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: `word` and `timeout` outlive the call, which only reads them.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, timeout) };
}

/// Wakes at most `sleepers` threads that sleep on `word`. Safe to call from a signal handler.
pub fn wake(word: &AtomicU32, sleepers: i32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: `word` is only used as an address to look sleepers up by.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, sleepers) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn waiting_for_a_word_that_has_already_changed_returns_at_once() {
        wait(&AtomicU32::new(1), 0, None);
    }

    #[test]
    fn a_wait_ends_by_its_timeout() {
        let start = crate::clock::now_ns();
        wait(&AtomicU32::new(0), 0, Some(5_000_000));
        assert!(crate::clock::now_ns() - start >= 5_000_000);
    }

    #[test]
    fn a_sleeper_is_woken_after_a_change() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(SeqCst) == 0 {
                    wait(&word, 0, None);
                }
            });
            word.store(1, SeqCst);
            wake(&word, i32::MAX);
        });
    }
}
