//! Finds the function that a hook replaces.
//!
//! Without the hook, the dynamic linker would look in the libraries after this one, and then in those of the calling library. A library
//! loaded with `dlopen` sees its own dependencies, which no other library sees. So both are searched in this order.

use std::ffi::{c_int, c_void, CStr};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{
    fence, AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// The function with this name that code at `caller` would have called.
pub fn find(name: &CStr, caller: *const c_void) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return Some(next);
    }
    near(name, caller)
}

/// The function with this name in the library that contains `address`, or in a library that it needs.
pub fn near(name: &CStr, address: *const c_void) -> Option<*mut c_void> {
    let mut about = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr writes it, and leaves it zero if it fails.
    let about = unsafe {
        libc::dladdr(address, about.as_mut_ptr());
        about.assume_init()
    };
    if about.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name comes from the linker. The library is loaded already and stays so: the handle is never closed.
    let library = unsafe { libc::dlopen(about.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return None;
    }
    // SAFETY: the handle is open, and the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The addresses of the library that contains `address`; if there is none, only that address.
fn library_of(address: usize) -> Range<usize> {
    struct Search {
        address: usize,
        found: Range<usize>,
    }
    unsafe extern "C" fn visit(library: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr passes a library, and the argument that it was given.
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
    // SAFETY: the function gets the argument that it expects, and nobody else uses the search meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

/// The search result for a library.
struct Found {
    /// Odd while a thread writes; changed afterwards. So readers neither see a half-written entry nor wait.
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

    /// Does nothing while another thread writes. That only costs one more search.
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

/// The number of libraries whose results are kept.
const KEPT: usize = 16;

/// The search result for each library that asked. A search takes about ten microseconds, and a parallel region may be as short. One
/// library may start regions from hundreds of places, so results are kept by library, not by place.
pub struct Cache([Found; KEPT]);

impl Cache {
    pub const fn new() -> Cache {
        Cache([const { Found::none() }; KEPT])
    }

    /// Returns the kept result for the library that contains `address`, or searches. If more libraries ask than are kept, some are
    /// searched for again, but none gets the result of another.
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

/// Libraries begin at a page boundary.
const PAGE: usize = 4_096;

/// Kept if nothing was found, since later searches would find nothing either.
const NOTHING: *mut c_void = std::ptr::without_provenance_mut(1);

/// A function, under its possible names, that is asked for again and again near addresses of a few libraries.
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
