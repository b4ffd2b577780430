//! The memory of a load: cache lines, and their limit.

use crate::LoadError;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Words in a line. Lines are 64 bytes, as on x86 and most of Arm. If they are longer, two neighbors share one.
pub const WORDS: usize = 8;

/// One cache line of counters.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Line([AtomicU64; WORDS]);

impl Line {
    /// Adds 1 to a word with a plain read, add and write, like ordinary programs: no locked instruction.
    pub fn increment(&self, word: usize) {
        self.0[word].store(self.0[word].load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Reads a word.
    pub fn read(&self, word: usize) -> u64 {
        self.0[word].load(Relaxed)
    }
}

/// New lines with at least `bytes` bytes. The calling thread writes them first, so that on a NUMA machine they are on its node.
pub fn lines(bytes: u64) -> Vec<Line> {
    (0..bytes.div_ceil(size_of::<Line>() as u64)).map(|_| Line::default()).collect()
}

/// Refuses a need for more memory than the machine has left, before it starts to swap or kill.
///
/// # Errors
/// [`LoadError::Memory`].
pub fn check(needed_bytes: u128) -> Result<(), LoadError> {
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_bytes(&text));
    match available {
        Some(available_bytes) if needed_bytes > u128::from(available_bytes) => {
            Err(LoadError::Memory { needed_bytes, available_bytes })
        }
        // Unknown does not mean too little: without the figure the kernel decides.
        _ => Ok(()),
    }
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Size of the largest cache of CPU 0 in bytes, from the kernel. `None` if it does not report it.
pub fn last_level_cache_bytes() -> Option<u64> {
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let size = |e: std::fs::DirEntry| std::fs::read_to_string(e.path().join("size")).ok();
    caches.flatten().filter_map(size).filter_map(|text| cache_bytes(&text)).max()
}

fn cache_bytes(size: &str) -> Option<u64> {
    let size = size.trim();
    let scale = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];
    let (digits, scale) = scale.iter().find_map(|(u, s)| Some((size.strip_suffix(u)?, *s)))?;
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_cache_line_and_bytes_are_rounded_up_to_lines() {
        assert_eq!((size_of::<Line>(), align_of::<Line>()), (64, 64));
        assert_eq!((lines(0).len(), lines(1).len(), lines(65).len()), (0, 1, 2));
    }

    #[test]
    fn a_need_for_more_memory_than_exists_is_refused() {
        assert!(check(1 << 100).is_err());
        assert!(check(1 << 20).is_ok());
    }

    #[test]
    fn the_kernels_sizes_are_read() {
        assert_eq!(available_bytes("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available_bytes("MemTotal: 9 kB\n"), None);
        assert_eq!(
            (cache_bytes("32768K\n"), cache_bytes("1M"), cache_bytes("?")),
            (Some(32 << 20), Some(1 << 20), None)
        );
    }
}
