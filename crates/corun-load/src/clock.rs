//! The two clocks of a load: wall time, and the CPU time of a thread.
//!
//! CPU time is the time that the kernel charged to the thread. It stands still while the thread is preempted or asleep. It goes on
//! while a hypervisor takes the CPU without reporting it. Reading it is a system call (0.1 to 0.4 µs). Reading the wall clock is not,
//! if the kernel offers its time source to user space.

use std::mem::MaybeUninit;

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC).expect("Linux always has CLOCK_MONOTONIC")
}

/// Nanoseconds of CPU time that the calling thread has used.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).expect("Linux always has CLOCK_THREAD_CPUTIME_ID")
}

/// The CPU clock of one thread, which other threads of the process can read too.
#[derive(Clone, Copy, Debug)]
pub struct CpuClock(libc::clockid_t);

impl CpuClock {
    /// The clock of the calling thread.
    pub fn of_this_thread() -> CpuClock {
        let mut id = MaybeUninit::uninit();
        // SAFETY: the thread is this one, so it exists, and `id` has room for the answer.
        let rc = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), id.as_mut_ptr()) };
        assert_eq!(rc, 0, "a running thread has a CPU clock");
        // SAFETY: the call succeeded, so it has written `id`.
        CpuClock(unsafe { id.assume_init() })
    }

    /// CPU time of the thread in nanoseconds; `None` once it has ended.
    pub fn read_ns(self) -> Option<u64> {
        read(self.0)
    }
}

fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` has room for the answer, and an unknown clock is an error, not a fault.
    let rc = unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
    // SAFETY: on success the kernel has written `time`.
    (rc == 0)
        .then(|| unsafe { time.assume_init() })
        .map(|t| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// A duration as the kernel wants it.
pub fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// Sleeps until [`now_ns`] reads `deadline_ns` or a signal arrives.
pub fn sleep_until(deadline_ns: u64) {
    let deadline = timespec(deadline_ns);
    // SAFETY: `deadline` outlives the call, and no remainder is asked for.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &deadline, std::ptr::null_mut())
    };
}

/// Lets the calling thread's timers fire as exactly as the kernel can, instead of up to 50 µs late so that they
/// can be served together. A busy-idle cycle of 10 ms would otherwise be half a percent too long.
pub fn want_exact_timers() {
    // SAFETY: sets a number of the calling thread, touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_runs_and_cpu_time_stands_still_during_a_sleep() {
        let (wall, cpu) = (now_ns(), thread_cpu_ns());
        sleep_until(wall + 20_000_000);
        let (wall, cpu) = (now_ns() - wall, thread_cpu_ns() - cpu);
        assert!(wall >= 20_000_000);
        assert!(cpu < wall / 2, "{cpu} ns of CPU time in {wall} ns of sleep");
    }

    #[test]
    fn one_thread_can_read_the_clock_of_another_while_it_lives() {
        let (send, receive) = std::sync::mpsc::channel();
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(CpuClock::of_this_thread()).unwrap();
            finished.recv().unwrap_err();
        });
        let clock = receive.recv().unwrap();
        assert!(clock.read_ns().is_some());
        drop(finish);
        thread.join().unwrap();
    }
}
