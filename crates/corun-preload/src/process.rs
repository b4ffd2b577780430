//! The width of this process, and its messages.

use corun_adapt::{cpus, say, Mode, Width};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

/// Whether any hook was called.
static REACHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread is inside a hook, so that calls of the hook itself are not hooked.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a hook, unless another hook calls it or the program does not adapt. Returns its result if it ran.
pub fn hook<T>(run: impl FnOnce(&Width) -> T) -> Option<T> {
    // This variable no longer exists in a thread that is ending.
    if INSIDE.try_with(|inside| inside.replace(true)) != Ok(false) {
        return None;
    }
    REACHED.store(true, Relaxed);
    let done = width().map(|width| {
        width.refresh();
        run(width)
    });
    let _ = INSIDE.try_with(|inside| inside.set(false));
    done
}

/// Whether the process should run fewer threads than it wants.
pub fn is_narrow(width: &Width) -> bool {
    width.threads() < width.most()
}

/// How many of `most` threads to run.
pub fn limit(width: &Width, most: u32) -> u32 {
    match is_narrow(width) {
        true => most.min(width.threads()),
        false => most,
    }
}

/// Prints something once in observe mode.
pub fn observe(width: &Width, said: &AtomicBool, what: fmt::Arguments<'_>) {
    if width.mode() == Mode::Observe && !said.swap(true, Relaxed) {
        say(what);
    }
}

/// The width of this process; a forked child opens its own. `None` if the process does not adapt, or cannot.
fn width() -> Option<&'static Width> {
    static OPENED: AtomicPtr<Width> = AtomicPtr::new(std::ptr::null_mut());
    /// The process that opened it, or tried to.
    static OPENER: AtomicU32 = AtomicU32::new(0);
    let this = std::process::id();
    // One thread opens it. Meanwhile the other threads do not adapt.
    if OPENER.load(SeqCst) != this && OPENER.swap(this, SeqCst) != this {
        let new = open().map_or(std::ptr::null_mut(), |width| Box::into_raw(Box::new(width)));
        OPENED.store(new, SeqCst);
    }
    // SAFETY: the width is never freed, since other threads may use it.
    unsafe { OPENED.load(SeqCst).as_ref() }
}

fn open() -> Option<Width> {
    let mode = match Mode::from_environment() {
        Ok(Mode::Off) => return None,
        Ok(mode) => mode,
        Err(error) => {
            say(format_args!("{error}; this program does not adapt"));
            return None;
        }
    };
    match Width::new(mode, 1, cpus()) {
        Ok(width) => {
            // Without a page no controller can advise, but the process adapts all the same.
            let _ = width.publish();
            Some(width)
        }
        Err(error) => {
            say(format_args!("{error}; this program does not adapt"));
            None
        }
    }
}

/// In observe mode, a program that no hook could help prints that when it ends.
extern "C" fn at_start() {
    extern "C" fn at_end() {
        if !REACHED.load(Relaxed) {
            say(format_args!(
                "there was no parallel region of OpenMP and no call of OpenBLAS, so nothing would adapt"
            ));
        }
    }
    if Mode::from_environment() == Ok(Mode::Observe) {
        // SAFETY: the function stays loaded as long as the process lives.
        unsafe { libc::atexit(at_end) };
    }
}

#[used]
#[link_section = ".init_array"]
static AT_START: extern "C" fn() = at_start;
