//! Passes signals on that only a command can act on.
//!
//! Many programs write a checkpoint on SIGUSR1, or print their stacks on SIGQUIT. Batch systems and users send such a signal to the
//! process that they started, which is corun. By default it would end corun, and the command would go on unwatched.

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

/// Replaces the default action of a signal. One that is ignored stays so, and a handler of the program that uses this crate stays.
fn install(signal: i32) {
    // SAFETY: a zeroed sigaction is valid and both structures outlive the calls. The handler touches only an atomic, and calls kill,
    // signal and raise, which are async-signal-safe.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut before) == 0 && before.sa_sigaction == libc::SIG_DFL
        {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction =
                pass_on as extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

extern "C" fn pass_on(signal: i32, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    let command = COMMAND.load(Ordering::SeqCst);
    // SAFETY: the kernel passes a filled structure to a handler that was installed with SA_SIGINFO. The command was not collected, so
    // the PID is its own.
    unsafe {
        let is_by_terminal = (*info).si_code > 0;
        if command == 0 {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        } else if !is_by_terminal {
            // In a terminal, the command itself receives the signal.
            libc::kill(command, signal);
        }
    }
}
