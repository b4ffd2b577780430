//! A BPF array map seen as memory: reading 10,000 records takes no system call.
//!
//! The kernel maps all pages at once, and a page that is mapped counts as memory of the process. Tables have room for the worst case,
//! and are used from the beginning on. So only their beginning is mapped, and more of it when somebody asks for a value behind it.

use std::alloc::{handle_alloc_error, Layout};
use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{fence, AtomicU32, Ordering};

/// How much of a map is mapped first, in bytes; then twice as much each time.
const FIRST: usize = 64 << 10;

/// The values of an array map, shared with the kernel.
pub(crate) struct Mapping<T> {
    map: OwnedFd,
    /// Addresses for all of it.
    base: NonNull<u8>,
    bytes: usize,
    /// How much is mapped, from the beginning on.
    mapped: Cell<usize>,
    stride: usize,
    len: usize,
    of: PhantomData<T>,
}

// SAFETY: a `Mapping` is plain memory that stays mapped until it is dropped; every access below is a volatile or
// atomic one, made for memory that the kernel writes at the same time.
unsafe impl<T> Send for Mapping<T> {}

impl<T: Copy> Mapping<T> {
    /// The `len` values of an array map made with `BPF_F_MMAPABLE`.
    pub(crate) fn new(map: BorrowedFd<'_>, len: usize) -> io::Result<Mapping<T>> {
        let stride = size_of::<T>().next_multiple_of(8);
        let bytes = (stride * len).next_multiple_of(page());
        let map = map.try_clone_to_owned()?;
        // SAFETY: addresses that nobody has, and nothing behind them; the result is checked.
        let base = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("mmap does not map page 0");
        let mapping = Mapping { map, base, bytes, mapped: Cell::new(0), stride, len, of: PhantomData };
        mapping.grow(FIRST)?;
        Ok(mapping)
    }

    /// Maps so much of it, from the beginning on, or twice as much as now.
    fn grow(&self, least: usize) -> io::Result<()> {
        let mapped = self.mapped.get();
        let wanted = least.max(2 * mapped).next_multiple_of(page()).min(self.bytes);
        // SAFETY: in place of addresses of our own behind which there is nothing so far, as they end at `bytes`.
        let added = unsafe {
            let (both, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
            let from = self.base.as_ptr().add(mapped).cast();
            libc::mmap(from, wanted - mapped, both, flags, self.map.as_raw_fd(), mapped as libc::off_t)
        };
        if added == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.mapped.set(wanted);
        Ok(())
    }

    /// A pointer to value `i`.
    pub(crate) fn at(&self, i: usize) -> *mut T {
        assert!(i < self.len, "value {i} of {}", self.len);
        let end = (i + 1) * self.stride;
        if end > self.mapped.get() && self.grow(end).is_err() {
            // Its addresses are there, so what is missing is memory.
            handle_alloc_error(Layout::new::<T>());
        }
        // SAFETY: the value ends before what is mapped does.
        unsafe { self.base.as_ptr().add(i * self.stride).cast() }
    }

    /// A copy of the present value `i`; a writer may be halfway through.
    pub(crate) fn read(&self, i: usize) -> T {
        // SAFETY: `at` points into the mapping; `T` is plain data for which every bit pattern is a value.
        unsafe { self.at(i).read_volatile() }
    }

    /// A copy of the beginning of value `i` (or all of it) that no writer touched meanwhile. The value must
    /// begin with a `u32` that is odd during a write and grows with every write. A writer holds it for under
    /// a microsecond, so the wait is bounded in practice; after many tries the last copy is returned.
    pub(crate) fn read_settled<P: Copy>(&self, i: usize) -> P {
        const { assert!(size_of::<P>() <= size_of::<T>()) };
        // SAFETY: `P` is a prefix of the value, plain data like it.
        let read = || unsafe { self.at(i).cast::<P>().read_volatile() };
        // SAFETY: the first field is an aligned `u32` inside the mapping, written by the kernel side only.
        let seq = unsafe { AtomicU32::from_ptr(self.at(i).cast()) };
        let mut copy = read();
        for _ in 0..10_000 {
            let before = seq.load(Ordering::Acquire);
            copy = read();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && seq.load(Ordering::Relaxed) == before {
                break;
            }
            std::hint::spin_loop();
        }
        copy
    }

    /// A copy of the field at byte `offset` of the present value `i`.
    ///
    /// `F` must be plain data for which every bit pattern is valid, like `T`.
    pub(crate) fn field<F: Copy>(&self, i: usize, offset: usize) -> F {
        assert!(offset.is_multiple_of(align_of::<F>()) && offset + size_of::<F>() <= size_of::<T>());
        // SAFETY: aligned and inside value `i`, by the assertions here and in `at`.
        unsafe { self.at(i).cast::<u8>().add(offset).cast::<F>().read_volatile() }
    }

    /// The `u32` field at byte `offset` of value `i`.
    pub(crate) fn word(&self, i: usize, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= size_of::<T>());
        // SAFETY: aligned and inside value `i`, by the assertions here and in `at`.
        unsafe { AtomicU32::from_ptr(self.at(i).cast::<u8>().add(offset).cast()) }
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and nothing borrowed from it can outlive `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Bytes of a page of memory.
fn page() -> usize {
    // SAFETY: takes a number, and there are pages everywhere.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}
