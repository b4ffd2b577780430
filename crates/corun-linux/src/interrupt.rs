//! Ctrl-C and similar signals are noted, so that a verb can print its results and undo its changes before it
//! ends.
//!
//! The first SIGINT, SIGTERM or SIGHUP sets a flag. The second sets another, so that a verb stops waiting for
//! anything before it ends. The third ends the process as if no handler were installed, so even a verb that
//! hangs can be stopped. A signal that was ignored when corun started (`nohup`, a background job) stays
//! ignored. Commands that corun starts get the default actions back at exec.
//!
//! While there is nothing to print or to undo yet, the first signal ends the process at once
//! ([`Interrupt::at_once`]). What corun waits for then, such as the kernel's check of a probe, may take
//! seconds on a crowded machine.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The first signal that came; 0 before. A handler may touch nothing but this and the next four.
static CAME: AtomicI32 = AtomicI32::new(0);
/// How many came.
static TIMES: AtomicU32 = AtomicU32::new(0);
/// Whether a process sent one of them, to this process or to its group. A terminal's signals come from the
/// kernel.
static SENT: AtomicBool = AtomicBool::new(false);
/// Whether there is nothing yet to print or undo.
static AT_ONCE: AtomicU32 = AtomicU32::new(0);
/// The signals that have the handler, one bit each.
static HANDLED: AtomicU32 = AtomicU32::new(0);

/// Proof that the handlers are installed; also reports whether a signal came.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt(());

impl Interrupt {
    /// Installs the handlers. Installing twice does no harm.
    ///
    /// # Errors
    /// The kernel's error; for these signals it has no reason to fail.
    pub fn install() -> io::Result<Interrupt> {
        for signal in SIGNALS {
            // No SA_RESTART: a sleeping or waiting thread wakes up and can check the flag.
            handle(signal, note, 0, |before| {
                let may = before != libc::SIG_IGN;
                if may {
                    HANDLED.fetch_or(bit(signal), Ordering::Relaxed);
                }
                may
            })?;
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

    /// Whether a process sent the signal. Other processes on the same terminal have not received it then,
    /// unlike Ctrl-C.
    pub fn was_sent(&self) -> bool {
        SENT.load(Ordering::Relaxed)
    }

    /// Whether another signal came: stop waiting for anything.
    pub fn came_again(&self) -> bool {
        TIMES.load(Ordering::Relaxed) > 1
    }

    /// The exit code that a shell reports for a process ended by the signal that came: 128 and its number.
    pub fn exit_status(&self) -> u8 {
        128 + self.signal().unwrap_or(libc::SIGINT) as u8
    }

    /// From now until the returned value is dropped, a signal ends the process as if no handler were
    /// installed. A signal that has already come does so, too.
    #[must_use]
    pub fn at_once(&self) -> AtOnce {
        AT_ONCE.fetch_add(1, Ordering::SeqCst);
        if let Some(signal) = self.signal() {
            die(signal);
        }
        AtOnce(())
    }

    /// Whether a signal came.
    pub fn came(&self) -> bool {
        self.signal().is_some()
    }
}

/// While this value lives, a signal ends the process at once.
#[derive(Debug)]
pub struct AtOnce(());

impl Drop for AtOnce {
    fn drop(&mut self) {
        AT_ONCE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends the process by a signal: in its handler, after the handler returns.
pub(crate) fn die(signal: i32) {
    // SAFETY: both calls are async-signal-safe and have no preconditions.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// What is called when a signal comes. It may only do what is async-signal-safe.
pub(crate) type Handler = extern "C" fn(i32, *const libc::siginfo_t, *const libc::c_void);

/// Installs a handler if it `may` replace the one before, and says whether it did.
///
/// # Errors
/// What the kernel says; of signals that can be handled it has nothing to say.
pub(crate) fn handle(
    signal: i32,
    handler: Handler,
    flags: i32,
    may: impl Fn(libc::sighandler_t) -> bool,
) -> io::Result<bool> {
    // SAFETY: a zeroed sigaction is valid, and both structures outlive the calls. A [`Handler`] is async-signal-safe.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        if !may(before.sa_sigaction) {
            return Ok(false);
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | flags;
        libc::sigemptyset(&mut action.sa_mask);
        match libc::sigaction(signal, &action, std::ptr::null_mut()) {
            0 => Ok(true),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Whether a process sent a signal: a terminal sends as the kernel does.
///
/// # Safety
/// The kernel filled it in, as it does for a [`Handler`].
pub(crate) unsafe fn was_sent(info: *const libc::siginfo_t) -> bool {
    // SAFETY: the caller's.
    unsafe { (*info).si_code <= 0 }
}

fn bit(signal: i32) -> u32 {
    1 << signal
}

extern "C" fn note(signal: i32, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    // SAFETY: the kernel passes a filled structure to a handler that was installed with SA_SIGINFO.
    if unsafe { was_sent(info) } {
        SENT.store(true, Ordering::Relaxed);
    }
    if AT_ONCE.load(Ordering::SeqCst) > 0 {
        die(signal);
    }
    let _ = CAME.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
    if TIMES.fetch_add(1, Ordering::Relaxed) > 0 {
        let handled = HANDLED.load(Ordering::Relaxed);
        for signal in SIGNALS.into_iter().filter(|s| handled & bit(*s) != 0) {
            // SAFETY: signal() is async-signal-safe and has no preconditions; a signal that was ignored before, which
            // `install` gave no handler and no bit, is not touched.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a child ended that installed the handlers and then did this; if no signal ended it, its status is
    /// 7.
    fn ended(act: fn(Interrupt)) -> std::process::ExitStatus {
        use std::os::unix::process::ExitStatusExt;
        // SAFETY: the child of fork only touches atomics and makes system calls, and ends without returning.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: as above.
            unsafe { libc::signal(libc::SIGTERM, libc::SIG_DFL) };
            // Signals that came to other tests of this process.
            CAME.store(0, Ordering::SeqCst);
            if let Ok(interrupt) = Interrupt::install() {
                act(interrupt);
            }
            // SAFETY: as above.
            unsafe { libc::_exit(7) };
        }
        let mut status = 0;
        // SAFETY: the status outlives the call, and the child is ours.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        std::process::ExitStatus::from_raw(status)
    }

    fn raise_term() {
        // SAFETY: raise has no preconditions.
        unsafe { libc::raise(libc::SIGTERM) };
    }

    #[test]
    fn while_there_is_nothing_to_undo_a_signal_ends_the_process_even_if_it_came_before() {
        use std::os::unix::process::ExitStatusExt;
        let comes = ended(|interrupt| {
            let _at_once = interrupt.at_once();
            raise_term();
        });
        assert_eq!(comes.signal(), Some(libc::SIGTERM));
        let has_come = ended(|interrupt| {
            raise_term();
            let _at_once = interrupt.at_once();
        });
        assert_eq!(has_come.signal(), Some(libc::SIGTERM));
        let later = ended(|interrupt| {
            drop(interrupt.at_once());
            raise_term();
        });
        assert_eq!(later.code(), Some(7), "it is noted again");
    }

    #[test]
    fn the_first_two_signals_are_noted_and_kill_nothing_and_ignored_ones_stay_ignored() {
        // SAFETY: as below; who is started by nohup finds the one so, who is started in the background by a script the other.
        unsafe { (libc::signal(libc::SIGHUP, libc::SIG_IGN), libc::signal(libc::SIGINT, libc::SIG_DFL)) };
        let interrupt = Interrupt::install().unwrap();
        assert_eq!((interrupt.signal(), interrupt.was_sent()), (None, false));
        // SAFETY: raise has no preconditions; the handler was just installed.
        let raise = |signal| assert_eq!(unsafe { libc::raise(signal) }, 0);
        raise(libc::SIGTERM);
        assert_eq!((interrupt.signal(), interrupt.came_again()), (Some(libc::SIGTERM), false));
        assert!(interrupt.was_sent(), "by this process");
        raise(libc::SIGINT);
        assert_eq!((interrupt.signal(), interrupt.came_again()), (Some(libc::SIGTERM), true));
        // SAFETY: sets and returns actions of this process, which ends with this test.
        let left = SIGNALS.map(|signal| unsafe { libc::signal(signal, libc::SIG_DFL) });
        let wanted = [libc::SIG_DFL, libc::SIG_DFL, libc::SIG_IGN];
        assert_eq!(left, wanted, "the third would kill, and what was ignored still is");
    }
}
