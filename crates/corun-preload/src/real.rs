//! The function that a hook stands in for.
//!
//! The dynamic linker would have found it among the libraries after this one, or else among those of the library that calls it: one that was
//! loaded with `dlopen` sees its own, which nobody else does. Both are searched in this order.

use std::ffi::{c_int, c_void, CStr};
use std::mem::MaybeUninit;
use std::ops::Range;
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

/// The addresses of the library that has `address`; of what no library has, that address alone.
fn library_of(address: usize) -> Range<usize> {
    struct Search {
        address: usize,
        found: Range<usize>,
    }
    unsafe extern "C" fn visit(library: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr gives a library, and what it was called with.
        let (library, search) = unsafe { (&*library, &mut *search.cast::<Search>()) };
        // SAFETY: the linker says how many headers there are.
        let headers = unsafe { std::slice::from_raw_parts(library.dlpi_phdr, library.dlpi_phnum.into()) };
        let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let ranges = loaded.map(|header| {
            let begin = (library.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            begin..begin.wrapping_add(header.p_memsz as usize)
        });
        let whole = ranges.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end));
        match whole {
            Some(whole) if whole.contains(&search.address) => {
                search.found = whole;
                1
            }
            _ => 0,
        }
    }
    let mut search = Search { address, found: address..address + 1 };
    // SAFETY: the function gets what it takes, and nothing else has the search meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

/// What was found for a library, so that it need not be searched again.
struct Found {
    /// Odd while somebody writes, and another number after that: who reads neither sees half of it nor waits.
    version: AtomicUsize,
    begin: AtomicUsize,
    end: AtomicUsize,
    function: AtomicPtr<c_void>,
}

impl Found {
    const fn none() -> Found {
        Found {
            version: AtomicUsize::new(0),
            begin: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            function: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn get(&self, address: usize) -> Option<*mut c_void> {
        let version = self.version.load(Acquire);
        let library = self.begin.load(Relaxed)..self.end.load(Relaxed);
        let function = self.function.load(Relaxed);
        fence(Acquire);
        let is_whole = version.is_multiple_of(2) && self.version.load(Relaxed) == version;
        (is_whole && library.contains(&address) && !function.is_null()).then_some(function)
    }

    fn is_free(&self) -> bool {
        self.version.load(Relaxed) == 0
    }

    /// Does nothing while somebody else writes: a search more is all that costs.
    fn put(&self, library: Range<usize>, function: *mut c_void) {
        let version = self.version.load(Relaxed) & !1;
        if self.version.compare_exchange(version, version + 1, Acquire, Relaxed).is_ok() {
            fence(Release);
            self.begin.store(library.start, Relaxed);
            self.end.store(library.end, Relaxed);
            self.function.store(function, Relaxed);
            self.version.store(version.wrapping_add(2), Release);
        }
    }
}

/// How many libraries what was found is kept for.
const KEPT: usize = 16;

/// What was found for each library that asked. A search takes some ten microseconds, and a parallel region may be as short. One library may
/// start regions from hundreds of places, so it is the library that counts and not the place.
pub struct Cache([Found; KEPT]);

impl Cache {
    pub const fn new() -> Cache {
        Cache([const { Found::none() }; KEPT])
    }

    /// What is kept for the library that has this address, or what the search finds. Where more libraries ask than are kept, those that take
    /// turns cost a search each, and are never mixed up.
    pub fn get(
        &self,
        address: *const c_void,
        search: impl FnOnce() -> Option<*mut c_void>,
    ) -> Option<*mut c_void> {
        let address = address as usize;
        self.0.iter().find_map(|found| found.get(address)).or_else(|| {
            let function = search()?;
            let library = library_of(address);
            let free = self.0.iter().find(|found| found.is_free());
            free.unwrap_or(&self.0[library.start / PAGE % KEPT]).put(library, function);
            Some(function)
        })
    }
}

/// Libraries begin at one.
const PAGE: usize = 4_096;

/// Kept where nothing was found, which no later call will find either.
const NOTHING: *mut c_void = std::ptr::without_provenance_mut(1);

/// A function, under the names that it may have, that is asked for again and again near addresses of some few libraries.
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
