//! Ctrl-C and friends: noted, so that a verb can print what it has and undo what it did before it ends.
//!
//! The first SIGINT, SIGTERM or SIGHUP sets a flag; the second ends the process as if nothing had been installed, so
//! a verb that hangs can still be stopped. A signal that was ignored when corun started (`nohup`, a background job)
//! stays ignored. Commands that corun starts get the default actions back when they are executed.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The signal that came, 0 before one did. A handler may touch nothing but this.
static CAME: AtomicI32 = AtomicI32::new(0);

/// Proof that the handlers are installed; asks whether a signal came.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt(());

impl Interrupt {
    /// Installs the handlers. Once is enough; twice does no harm.
    ///
    /// # Errors
    /// What the kernel says; with these signals it has no reason to.
    pub fn install() -> io::Result<Interrupt> {
        for signal in SIGNALS {
            // SAFETY: a zeroed sigaction is valid, both structures outlive the calls, and the handler only stores
            // to an atomic, which is async-signal-safe.
            let done = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                let mut before: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = note as extern "C" fn(i32) as usize;
                // No SA_RESTART: whoever sleeps or waits wakes up and can look at the flag.
                action.sa_flags = libc::SA_RESETHAND;
                libc::sigemptyset(&mut action.sa_mask);
                if libc::sigaction(signal, std::ptr::null(), &mut before) != 0 {
                    -1
                } else if before.sa_sigaction == libc::SIG_IGN {
                    0
                } else {
                    libc::sigaction(signal, &action, std::ptr::null_mut())
                }
            };
            if done != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Interrupt(()))
    }

    /// The signal that came, or `None`.
    pub fn signal(&self) -> Option<i32> {
        match CAME.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal),
        }
    }

    /// What a shell says of who ended by the signal that came: 128 and its number.
    pub fn exit_status(&self) -> u8 {
        128 + self.signal().unwrap_or(libc::SIGINT) as u8
    }

    /// Whether a signal came.
    pub fn came(&self) -> bool {
        self.signal().is_some()
    }
}

extern "C" fn note(signal: i32) {
    CAME.store(signal, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_is_noted_and_kills_nobody() {
        let interrupt = Interrupt::install().unwrap();
        assert_eq!(interrupt.signal(), None);
        // SAFETY: raise has no preconditions; the handler was just installed.
        assert_eq!(unsafe { libc::raise(libc::SIGTERM) }, 0);
        assert_eq!(interrupt.signal(), Some(libc::SIGTERM));
    }
}
