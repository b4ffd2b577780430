//! Pinning a worker to a CPU.

use std::io;
use std::mem::size_of_val;

/// Room for 8,192 CPUs, the most that Linux can be built for.
type Mask = [u64; 128];

/// Pins the calling thread to the n-th CPU that it may use. After the last CPU it starts again from the first.
pub(crate) fn pin_to_nth(n: usize) -> io::Result<()> {
    let mut mask: Mask = [0; 128];
    // SAFETY: the kernel writes at most the size it is given.
    let rc = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    let allowed: Vec<usize> =
        (0..64 * mask.len()).filter(|cpu| mask[cpu / 64] >> (cpu % 64) & 1 == 1).collect();
    let cpu = allowed[n % allowed.len()];
    mask = [0; 128];
    mask[cpu / 64] = 1 << (cpu % 64);
    // SAFETY: the kernel only reads the mask.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
