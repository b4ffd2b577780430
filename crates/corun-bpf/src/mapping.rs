//! A BPF array map seen as memory: reading 10,000 records takes no system call.

use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{fence, AtomicU32, Ordering};

/// The values of an array map, shared with the kernel.
pub(crate) struct Mapping<T> {
    base: NonNull<u8>,
    bytes: usize,
    stride: usize,
    len: usize,
    of: PhantomData<T>,
}

// SAFETY: a `Mapping` is plain memory that stays mapped until it is dropped; every access below is a volatile or
// atomic one, made for memory that the kernel writes at the same time.
unsafe impl<T> Send for Mapping<T> {}

impl<T: Copy> Mapping<T> {
    /// Maps the `len` values of an array map made with `BPF_F_MMAPABLE`.
    pub(crate) fn new(map: BorrowedFd<'_>, len: usize) -> io::Result<Mapping<T>> {
        let stride = size_of::<T>().next_multiple_of(8);
        let bytes = stride * len;
        // SAFETY: a fresh shared mapping of a file descriptor we hold; the result is checked.
        let base = unsafe {
            let both = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, both, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("mmap does not map page 0");
        Ok(Mapping { base, bytes, stride, len, of: PhantomData })
    }

    /// A pointer to value `i`.
    pub(crate) fn at(&self, i: usize) -> *mut T {
        assert!(i < self.len, "value {i} of {}", self.len);
        // SAFETY: `i` is below `len`, so the offset stays inside the mapping.
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
