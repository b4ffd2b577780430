//! The clocks of the live machine.

use std::time::{SystemTime, UNIX_EPOCH};

/// The live host's clock: `CLOCK_MONOTONIC`, which `bpf_ktime_get_ns` reads too, in nanoseconds.
pub fn now_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// The wall clock, in nanoseconds since 1970; 0 if it is set to an earlier time.
pub fn now_unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// By how much [`now_unix_ns`] is ahead of [`now_ns`]. A thread that loses its CPU between two clock readings
/// sees them too far apart. So the tightest of several pairs counts.
pub fn unix_ahead_ns() -> i64 {
    const LOOKS: usize = 8;
    let look = || {
        let (before_ns, unix_ns, after_ns) = (now_ns(), now_unix_ns(), now_ns());
        (after_ns - before_ns, unix_ns as i64 - before_ns.midpoint(after_ns) as i64)
    };
    (0..LOOKS).map(|_| look()).min().map_or(0, |(_, ahead_ns)| ahead_ns)
}

/// By how much a time after boot (`/proc/PID/stat`, which counts suspended time) is ahead of [`now_ns`].
pub fn boot_ahead_ns() -> u64 {
    read_ns(libc::CLOCK_BOOTTIME).saturating_sub(now_ns())
}

/// CPU time of the calling thread, in nanoseconds: the cost of its own work, whoever else runs.
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of this process, including ended threads, in nanoseconds: the cost of corun itself.
pub fn process_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime fills the structure in; these clocks exist on every kernel, so it cannot fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back_and_time_since_boot_is_not_behind_it() {
        let first = now_ns();
        assert!(now_ns() >= first);
        assert!(read_ns(libc::CLOCK_BOOTTIME) >= first);
        assert!(process_cpu_ns() >= thread_cpu_ns() / 2);
    }
}
