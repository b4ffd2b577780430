//! The function that a hook stands in for.
//!
//! The dynamic linker would have found it among the libraries after this one, or else among those of the library that calls it: one that was
//! loaded with `dlopen` sees its own, which nobody else does. Both are searched in this order.

use std::ffi::{c_void, CStr};
use std::mem::MaybeUninit;
use std::sync::atomic::{
    fence, AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

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

/// What was found for an address, so that it need not be searched again.
struct Found {
    /// Odd while somebody writes, and another number after that: who reads neither sees half of it nor waits.
    version: AtomicUsize,
    address: AtomicUsize,
    function: AtomicPtr<c_void>,
}

impl Found {
    const fn none() -> Found {
        Found {
            version: AtomicUsize::new(0),
            address: AtomicUsize::new(0),
            function: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn get(&self, address: usize) -> Option<*mut c_void> {
        let version = self.version.load(Acquire);
        let (whose, function) = (self.address.load(Relaxed), self.function.load(Relaxed));
        fence(Acquire);
        let is_whole = version.is_multiple_of(2) && self.version.load(Relaxed) == version;
        (is_whole && whose == address && !function.is_null()).then_some(function)
    }

    /// Does nothing while somebody else writes: a search more is all that costs.
    fn put(&self, address: usize, function: *mut c_void) {
        let version = self.version.load(Relaxed) & !1;
        if self.version.compare_exchange(version, version + 1, Acquire, Relaxed).is_ok() {
            fence(Release);
            self.address.store(address, Relaxed);
            self.function.store(function, Relaxed);
            self.version.store(version.wrapping_add(2), Release);
        }
    }
}

/// How many addresses what was found is kept for.
const KEPT: usize = 16;

/// What was found for the addresses that asked: a search takes microseconds, and a parallel region may be as short.
pub struct Cache([Found; KEPT]);

impl Cache {
    pub const fn new() -> Cache {
        Cache([const { Found::none() }; KEPT])
    }

    /// What is kept for this address, or what the search finds. Two addresses in one place that take turns cost a search each, and are
    /// never mixed up.
    pub fn get(
        &self,
        address: *const c_void,
        search: impl FnOnce() -> Option<*mut c_void>,
    ) -> Option<*mut c_void> {
        let address = address as usize;
        let found = &self.0[address / 16 % KEPT];
        found.get(address).or_else(|| {
            let function = search()?;
            found.put(address, function);
            Some(function)
        })
    }
}

/// Kept where nothing was found, which no later call will find either.
const NOTHING: *mut c_void = std::ptr::without_provenance_mut(1);

/// A function, under the names that it may have, that is asked for again and again near some few addresses.
pub struct Near {
    names: &'static [&'static CStr],
    cache: Cache,
}

impl Near {
    pub const fn new(names: &'static [&'static CStr]) -> Near {
        Near { names, cache: Cache::new() }
    }

    /// See [`near`].
    pub fn of(&self, address: *const c_void) -> Option<*mut c_void> {
        let search = || self.names.iter().find_map(|name| near(name, address));
        self.cache.get(address, || Some(search().unwrap_or(NOTHING))).filter(|found| *found != NOTHING)
    }
}
