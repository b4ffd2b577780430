//! The functions of `include/corun.h`, which documents them. They call `corun-adapt`.
//!
//! Every function checks its arguments and returns a code if one is wrong. None panics. Among bad pointers only null can be detected:
//! other pointers must be valid, as usual in C.

mod code;
mod handle;

pub use code::{text, CODES};
pub use handle::{Callback, Handle};

use code::{Code, HAS_CREW, NOBODY, NOT_KNOWN, NO_PAGE, NULL, OTHER_ABI};
use corun_adapt::{cpus, Crew, Mode, Peer, State};
use std::ffi::{c_char, c_int, c_void};
use std::io::Write;
use std::time::Duration;

/// The version of the interface, `CORUN_ABI`.
pub const ABI: u32 = 1;
/// The default patience of a crew.
const PATIENCE_NS: u64 = 1_000_000;

/// The result of `corun_peer`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Published {
    /// The least threads that the program runs.
    pub least: u32,
    /// The most threads that it runs.
    pub most: u32,
    /// Units of work done.
    pub progress: u64,
}

fn code(result: Result<c_int, Code>) -> c_int {
    result.unwrap_or_else(|Code(code)| code)
}

fn number(value: Option<u32>) -> Result<c_int, Code> {
    value.and_then(|value| c_int::try_from(value).ok()).ok_or(Code(NOT_KNOWN))
}

/// See `corun.h`.
#[no_mangle]
pub extern "C" fn corun_abi() -> u32 {
    ABI
}

/// See `corun.h`.
#[no_mangle]
pub extern "C" fn corun_text(code: c_int) -> *const c_char {
    text(code).as_ptr()
}

/// See `corun.h`.
#[no_mangle]
pub extern "C" fn corun_cpus() -> c_int {
    let Ok(handle) = Handle::of_process() else { return cpus() as c_int };
    handle.refresh();
    handle.width.threads() as c_int
}

/// See `corun.h`.
///
/// # Safety
/// `opened` is null or can be written.
#[no_mangle]
pub unsafe extern "C" fn corun_open(abi: u32, least: u32, most: u32, opened: *mut *mut Handle) -> c_int {
    if opened.is_null() {
        return NULL;
    }
    if abi != ABI {
        return OTHER_ABI;
    }
    code(Handle::open(least, most).map(|handle| {
        // SAFETY: it is not null, and the caller promises the rest.
        unsafe { *opened = handle };
        0
    }))
}

/// See `corun.h`.
///
/// # Safety
/// `c` is null or was opened, is not closed, and nobody uses it.
#[no_mangle]
pub unsafe extern "C" fn corun_close(c: *mut Handle) {
    if !c.is_null() {
        // SAFETY: it was made with the layout of a handle, and the caller promises the rest.
        drop(unsafe { Box::from_raw(c) });
    }
}

/// Defines functions of an open handle, which is checked first.
macro_rules! of_handle {
    ($($name:ident($handle:ident: $pointer:ty $(, $given:ident: $kind:ty)*) $body:block)*) => {$(
        /// See `corun.h`.
        ///
        /// # Safety
        /// `c` is null or was opened and is not closed; other pointers are null or can be used as `corun.h` says.
        #[no_mangle]
        pub unsafe extern "C" fn $name(c: $pointer $(, $given: $kind)*) -> c_int {
            // SAFETY: as the caller promises.
            code(unsafe { Handle::from(c) }.and_then(|$handle| $body))
        }
    )*};
}

of_handle! {
    corun_refresh(handle: *mut Handle) {
        Ok(handle.refresh().into())
    }

    corun_guaranteed(handle: *const Handle) {
        number(handle.width.answer().guaranteed)
    }

    corun_available(handle: *const Handle) {
        number(handle.width.answer().available)
    }

    corun_threads(handle: *const Handle) {
        number(Some(handle.width.threads()))
    }

    corun_reason(handle: *const Handle, text: *mut c_char, size: usize) {
        if text.is_null() && size > 0 {
            return Err(Code(NULL));
        }
        let mut sentence = [0; 512];
        let room = sentence.len();
        let mut rest = &mut sentence[..];
        // A sentence that does not fit is cut.
        let _ = write!(rest, "{}", handle.width.answer());
        let length = room - rest.len();
        if size > 0 {
            let copied = length.min(size - 1);
            // SAFETY: the caller promises `size` bytes. This fills `copied` of them and one more.
            unsafe {
                std::ptr::copy_nonoverlapping(sentence.as_ptr().cast(), text, copied);
                *text.add(copied) = 0;
            }
        }
        Ok(length as c_int)
    }

    corun_set_mode(handle: *mut Handle, mode: c_int) {
        handle.width.set_mode(match mode {
            0 => Mode::Off,
            1 => Mode::Observe,
            2 => Mode::On,
            _ => return Err(Code(code::BAD_MODE)),
        });
        Ok(0)
    }

    corun_on_change(handle: *mut Handle, callback: Option<Callback>, given: *mut c_void) {
        handle.listen(callback, given);
        Ok(0)
    }

    corun_workers(handle: *mut Handle, workers: u32, patience_ns: u64) {
        if handle.crew.get().is_some() {
            return Err(Code(HAS_CREW));
        }
        let patience = if patience_ns == 0 { PATIENCE_NS } else { patience_ns };
        let crew = Crew::new(workers as usize, Duration::from_nanos(patience))?;
        handle.crew.set(crew).map(|()| 0).map_err(|_| Code(HAS_CREW))
    }

    corun_join(handle: *mut Handle, worker: u32) {
        let (crew, worker) = handle.worker(worker)?;
        crew.join(worker)?;
        Ok(0)
    }

    corun_leave(handle: *mut Handle, worker: u32) {
        let (crew, worker) = handle.joined(worker)?;
        crew.slots()[worker].leave();
        Ok(0)
    }

    corun_beat(handle: *const Handle, worker: u32) {
        let (crew, worker) = handle.joined(worker)?;
        crew.slots()[worker].beat_here();
        Ok(0)
    }

    corun_stolen(handle: *const Handle, worker: u32) {
        let (crew, worker) = handle.joined(worker)?;
        number(crew.slots()[worker].stolen())
    }

    corun_on_cpu(handle: *const Handle, worker: u32) {
        let (crew, worker) = handle.joined(worker)?;
        match crew.state(worker) {
            State::Runs => Ok(1),
            State::Off | State::Sleeps | State::Parked => Ok(0),
            _ => Err(Code(NOT_KNOWN)),
        }
    }

    corun_heir(handle: *const Handle, worker: u32) {
        let (crew, worker) = handle.worker(worker)?;
        crew.heir(worker).map(|heir| heir as c_int).ok_or(Code(NOBODY))
    }

    corun_is_wanted(handle: *const Handle, worker: u32) {
        let (crew, worker) = handle.joined(worker)?;
        Ok(crew.is_wanted(worker).into())
    }

    corun_park(handle: *mut Handle, worker: u32, most_ns: u64) {
        let (crew, worker) = handle.joined(worker)?;
        let is_wanted = crew.park(worker, Duration::from_nanos(most_ns), &handle.width);
        handle.tell();
        Ok(is_wanted.into())
    }

    corun_wake(handle: *mut Handle, worker: u32) {
        let (crew, worker) = handle.joined(worker)?;
        crew.wake(worker);
        Ok(0)
    }

    corun_publish(handle: *mut Handle) {
        handle.width.publish()?;
        Ok(0)
    }

    corun_progress(handle: *const Handle, units: u64) {
        handle.width.page().ok_or(Code(NO_PAGE))?.progress(units);
        Ok(0)
    }
}

/// See `corun.h`.
///
/// # Safety
/// `published` is null or can be written.
#[no_mangle]
pub unsafe extern "C" fn corun_peer(process: u32, published: *mut Published) -> c_int {
    if published.is_null() {
        return NULL;
    }
    let read = || {
        let peer = Peer::find(process)?.ok_or(Code(NO_PAGE))?;
        let read = peer.read().ok_or(Code(NO_PAGE))?;
        let read = Published { least: read.least, most: read.most, progress: read.progress };
        // SAFETY: it is not null, and the caller promises the rest.
        unsafe { *published = read };
        Ok(0)
    };
    code(read())
}
