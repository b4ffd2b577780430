//! The function that a hook stands in for.
//!
//! The dynamic linker would have found it among the libraries after this one, or else among those of the library that calls it: one that was
//! loaded with `dlopen` sees its own, which nobody else does. Both are searched in this order.

use std::ffi::{c_void, CStr};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Release};

/// The function of that name which code at `caller` would have called.
pub fn find(name: &CStr, caller: *const c_void) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return Some(next);
    }
    near(name, caller)
}

/// The function of that name in the library that has `address`, or in one that this library needs.
pub fn near(name: &CStr, address: *const c_void) -> Option<*mut c_void> {
    let mut about = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: it is written by dladdr, and stays zero where that fails.
    let about = unsafe {
        libc::dladdr(address, about.as_mut_ptr());
        about.assume_init()
    };
    if about.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name is the linker's own. It is loaded already, and what is loaded stays: the handle is never closed.
    let library = unsafe { libc::dlopen(about.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return None;
    }
    // SAFETY: the handle is open, and the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// What was found for a call from one place, so that it need not be searched again.
pub struct Found {
    /// Somebody writes.
    is_busy: AtomicBool,
    caller: AtomicUsize,
    function: AtomicPtr<c_void>,
}

impl Found {
    pub const fn none() -> Found {
        Found {
            is_busy: AtomicBool::new(false),
            caller: AtomicUsize::new(0),
            function: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// The function of that name, for that caller. Two callers that take turns cost a search each, and are never mixed up.
    pub fn of(&self, name: &CStr, caller: *const c_void) -> Option<*mut c_void> {
        let function = self.function.load(Acquire);
        if !function.is_null() && self.caller.load(Acquire) == caller as usize {
            // Whoever replaces the pair takes the function away first.
            if self.function.load(Acquire) == function {
                return Some(function);
            }
        }
        let function = find(name, caller)?;
        if !self.is_busy.swap(true, Acquire) {
            self.function.store(std::ptr::null_mut(), Release);
            self.caller.store(caller as usize, Release);
            self.function.store(function, Release);
            self.is_busy.store(false, Release);
        }
        Some(function)
    }
}
