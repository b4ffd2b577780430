//! The type behind `corun *`.

use crate::code::{Code, BAD_MODE, FORKED, NOT_JOINED, NO_CREW, NO_MEMORY, NO_SUCH_WORKER, NULL};
use corun_adapt::{cpus, Crew, Mode, Width};
use std::alloc::{alloc, Layout};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, Once, OnceLock};

/// A function of the program.
pub type Callback = unsafe extern "C" fn(*mut c_void, c_int);

/// Forks between the first process that opened a handle and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn count_fork() {
    FORKS.fetch_add(1, Relaxed);
}

/// The function to call when the number of threads changes.
#[derive(Clone, Copy)]
struct Listener {
    callback: Callback,
    given: *mut c_void,
}

// SAFETY: the pointer is only handed back to the program, which has said that any thread may call it.
unsafe impl Send for Listener {}

/// A handle that a program opened.
pub struct Handle {
    forks: u32,
    pub(crate) width: Width,
    pub(crate) crew: OnceLock<Crew>,
    listener: Mutex<Option<Listener>>,
    /// The number that the listener last got.
    heard: AtomicU32,
}

impl Handle {
    /// Opens a handle in its own allocation.
    pub(crate) fn open(least: u32, most: u32) -> Result<*mut Handle, Code> {
        static LISTENS: Once = Once::new();
        // SAFETY: the function only adds to a number.
        LISTENS.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(count_fork));
        });
        let mode = Mode::from_environment().map_err(|_| Code(BAD_MODE))?;
        let width = Width::new(mode, least, if most == 0 { cpus().max(least) } else { most })?;
        let handle = Handle {
            forks: FORKS.load(Relaxed),
            heard: AtomicU32::new(width.threads()),
            width,
            crew: OnceLock::new(),
            listener: Mutex::new(None),
        };
        // SAFETY: the size of a handle is not zero.
        let place: *mut Handle = unsafe { alloc(Layout::new::<Handle>()).cast() };
        if place.is_null() {
            return Err(Code(NO_MEMORY));
        }
        // SAFETY: the allocation was just made for a handle.
        unsafe { place.write(handle) };
        Ok(place)
    }

    /// The handle of the process itself. The first caller opens it, and a forked child opens its own.
    pub(crate) fn of_process() -> Result<&'static Handle, Code> {
        static OPENED: AtomicPtr<Handle> = AtomicPtr::new(std::ptr::null_mut());
        let before = OPENED.load(SeqCst);
        // SAFETY: this handle is never closed.
        if let Some(handle) = unsafe { before.as_ref() }.filter(|handle| !handle.is_forked()) {
            return Ok(handle);
        }
        let new = Handle::open(1, 0)?;
        match OPENED.compare_exchange(before, new, SeqCst, SeqCst) {
            // SAFETY: this handle is never closed from now on.
            Ok(_) => Ok(unsafe { &*new }),
            Err(theirs) => {
                // SAFETY: no other thread has seen this handle.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: this handle is never closed.
                Ok(unsafe { &*theirs })
            }
        }
    }

    /// The handle that the program passed.
    ///
    /// # Errors
    /// The pointer is null, or the handle belongs to the parent of this process.
    ///
    /// # Safety
    /// The pointer is null or comes from [`Handle::open`] and was not closed.
    pub(crate) unsafe fn from<'h>(pointer: *const Handle) -> Result<&'h Handle, Code> {
        // SAFETY: as the caller promises.
        let handle = unsafe { pointer.as_ref() }.ok_or(Code(NULL))?;
        if handle.is_forked() {
            return Err(Code(FORKED));
        }
        Ok(handle)
    }

    fn is_forked(&self) -> bool {
        self.forks != FORKS.load(Relaxed)
    }

    pub(crate) fn crew(&self) -> Result<&Crew, Code> {
        self.crew.get().ok_or(Code(NO_CREW))
    }

    /// Returns the crew and the worker's number, if there is such a worker.
    pub(crate) fn worker(&self, worker: u32) -> Result<(&Crew, usize), Code> {
        let (crew, worker) = (self.crew()?, worker as usize);
        if worker >= crew.slots().len() {
            return Err(Code(NO_SUCH_WORKER));
        }
        Ok((crew, worker))
    }

    /// The same, if a thread has joined as that worker.
    pub(crate) fn joined(&self, worker: u32) -> Result<(&Crew, usize), Code> {
        let (crew, worker) = self.worker(worker)?;
        if !crew.slots()[worker].is_taken() {
            return Err(Code(NOT_JOINED));
        }
        Ok((crew, worker))
    }

    /// Renews an old answer, and calls the listener on a change. Returns whether it renewed anything.
    pub(crate) fn refresh(&self) -> bool {
        let is_renewed = match self.crew.get() {
            Some(crew) => crew.refresh(&self.width),
            None => self.width.refresh(),
        };
        self.tell();
        is_renewed
    }

    /// Calls the listener if the number of threads differs from the one that it last got.
    pub(crate) fn tell(&self) {
        let threads = self.width.threads();
        if self.heard.load(Relaxed) == threads || self.heard.swap(threads, Relaxed) == threads {
            return;
        }
        // A thread that is replacing the listener gets the next change. Called without the lock, since the listener may call any
        // function here.
        let listener = self.listener.try_lock().ok().and_then(|listener| *listener);
        if let Some(Listener { callback, given }) = listener {
            // SAFETY: the program passed both for this purpose.
            unsafe { callback(given, threads as c_int) };
        }
    }

    pub(crate) fn listen(&self, callback: Option<Callback>, given: *mut c_void) {
        let listener = callback.map(|callback| Listener { callback, given });
        *self.listener.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = listener;
    }
}
