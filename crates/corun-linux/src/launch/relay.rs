//! Passes signals on that only a command can act on.
//!
//! Many programs write a checkpoint on SIGUSR1, or print their stacks on SIGQUIT. Batch systems and users send such a signal to the
//! process that they started, which is corun. By default it would end corun, and the command would go on unwatched.

use crate::interrupt::{die, handle, was_sent};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Once;

const SIGNALS: [i32; 3] = [libc::SIGUSR1, libc::SIGUSR2, libc::SIGQUIT];

/// The PID of the command, 0 without one. A handler may touch nothing else.
static COMMAND: AtomicI32 = AtomicI32::new(0);

/// As long as it lives, signals are passed on to its command. The last command that was started gets them.
#[derive(Debug)]
pub(super) struct Relay(i32);

impl Relay {
    /// Starts to pass signals on to a child that has not been collected.
    pub(super) fn to(pid: u32) -> Relay {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| SIGNALS.into_iter().for_each(install));
        COMMAND.store(pid as i32, Ordering::SeqCst);
        Relay(pid as i32)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = COMMAND.compare_exchange(self.0, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Replaces the default action of a signal. A signal that is ignored stays ignored, and a handler of the program that uses this crate stays.
fn install(signal: i32) {
    // With these signals the kernel has no reason to refuse.
    let _ = handle(signal, pass_on, libc::SA_RESTART, |before| before == libc::SIG_DFL);
}

extern "C" fn pass_on(signal: i32, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    let command = COMMAND.load(Ordering::SeqCst);
    if command == 0 {
        die(signal);
    // SAFETY: the kernel passes a filled structure to a handler. A terminal tells the command itself.
    } else if unsafe { was_sent(info) } {
        // SAFETY: kill is async-signal-safe. The command was not collected, so the PID is its own.
        unsafe { libc::kill(command, signal) };
    }
}
