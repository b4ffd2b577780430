//! Asking a run to stop: from another thread, or by Ctrl-C or SIGTERM.

use crate::futex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// A request to stop, and a bell that wakes the thread that watches a run.
#[derive(Debug, Default)]
pub struct Stop {
    requested: AtomicBool,
    bell: AtomicU32,
}

impl Stop {
    /// Nobody has asked yet.
    pub const fn new() -> Stop {
        Stop { requested: AtomicBool::new(false), bell: AtomicU32::new(0) }
    }

    /// Asks the run to stop. Its threads end their work within a millisecond, or at their next wake-up (at most a tenth of a second
    /// later), and the run returns its report. May be called from a signal handler.
    pub fn request(&self) {
        self.requested.store(true, SeqCst);
        self.ring();
    }

    /// Whether a stop was requested.
    pub fn is_requested(&self) -> bool {
        self.requested.load(SeqCst)
    }

    /// A request that SIGINT and SIGTERM make from now on. The second signal of a kind kills the process, as usual.
    pub fn on_signals() -> &'static Stop {
        static STOP: Stop = Stop::new();
        extern "C" fn handle(_: libc::c_int) {
            STOP.request();
        }
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: all-zero is a valid `sigaction`: no flags, an empty mask.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
            // SAFETY: the handler stores to atomics and makes one system call: both are allowed in a handler.
            unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
        }
        &STOP
    }

    /// Wakes the thread that watches.
    pub(crate) fn ring(&self) {
        self.bell.fetch_add(1, SeqCst);
        futex::wake(&self.bell, i32::MAX);
    }

    /// The number of rings so far. Read it, check what happened, then [`Stop::listen`] for the next.
    pub(crate) fn rings(&self) -> u32 {
        self.bell.load(SeqCst)
    }

    /// Sleeps until there have been more than `heard` rings, or for `timeout_ns`.
    pub(crate) fn listen(&self, heard: u32, timeout_ns: Option<u64>) {
        futex::wait(&self.bell, heard, timeout_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_the_wait_for_it() {
        let stop = Stop::new();
        std::thread::scope(|scope| {
            scope.spawn(|| stop.request());
            while !stop.is_requested() {
                let heard = stop.rings();
                if !stop.is_requested() {
                    stop.listen(heard, None);
                }
            }
        });
    }
}
