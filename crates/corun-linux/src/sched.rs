//! The scheduler's system calls: a task's policy, nice and slice, its CPUs, and real-time for this thread.
//!
//! Method: `sched_getattr`/`sched_setattr`, for which neither libc nor other crates have wrappers, and the
//! affinity calls with masks as long as the kernel's own. A slice is the `runtime` of a SCHED_OTHER or
//! SCHED_BATCH task (since Linux 6.12; before, it reads 0 and is ignored).

use crate::root::Root;
use corun_model::CpuId;
use std::io;

/// The shortest and the longest slice that the kernel accepts: it rounds others to these.
pub use corun_decisions::{LEAST_SLICE_NS, MOST_SLICE_NS};

/// Bits of the longest possible affinity mask (`CONFIG_NR_CPUS` is 8192 at most).
const MASK_WORDS: usize = 128;

/// How a task is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// `SCHED_OTHER`, `SCHED_BATCH`, `SCHED_FIFO`…
    pub policy: u32,
    /// `SCHED_FLAG_RESET_ON_FORK` and the like.
    pub flags: u64,
    /// -20 to 19.
    pub nice: i32,
    /// For a real-time task, 1 to 99.
    pub priority: u32,
    /// For a fair task its slice in nanoseconds; 0 if the kernel has no slices per task.
    pub slice_ns: u64,
}

impl Attributes {
    /// Whether the fair scheduler has it.
    pub fn is_fair(&self) -> bool {
        [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE].contains(&(self.policy as i32))
    }
}

/// A task's attributes; `tid` 0 is this thread.
///
/// # Errors
/// The kernel's error: `ESRCH` if the task has gone.
pub fn attributes(tid: u32) -> io::Result<Attributes> {
    // SAFETY: all-zero is a valid sched_attr, and the kernel fills in at most the size that is stated.
    let (done, attr) = unsafe {
        let mut attr: libc::sched_attr = std::mem::zeroed();
        let size = size_of::<libc::sched_attr>();
        (libc::syscall(libc::SYS_sched_getattr, tid, &mut attr, size, 0), attr)
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Attributes {
        policy: attr.sched_policy,
        flags: attr.sched_flags,
        nice: attr.sched_nice,
        priority: attr.sched_priority,
        slice_ns: attr.sched_runtime,
    })
}

/// Sets a task's attributes; `tid` 0 is this thread, a slice of 0 is the kernel's default.
///
/// # Errors
/// The kernel's error: `ESRCH` if the task has gone, `EPERM` if it belongs to somebody else.
pub fn set_attributes(tid: u32, a: &Attributes) -> io::Result<()> {
    // SAFETY: all-zero is a valid sched_attr, which the kernel only reads.
    let done = unsafe {
        let mut attr: libc::sched_attr = std::mem::zeroed();
        attr.size = size_of::<libc::sched_attr>() as u32;
        attr.sched_policy = a.policy;
        attr.sched_flags = a.flags & libc::SCHED_FLAG_RESET_ON_FORK as u64;
        attr.sched_nice = a.nice;
        attr.sched_priority = a.priority;
        attr.sched_runtime = a.slice_ns;
        libc::syscall(libc::SYS_sched_setattr, tid, &attr, 0)
    };
    ok(done)
}

/// Sets only a task's nice value; `tid` 0 is this thread.
///
/// # Errors
/// The kernel's error: `ESRCH` if the task has gone, `EACCES` if this user may not lower it.
pub fn set_nice(tid: u32, nice: i32) -> io::Result<()> {
    // SAFETY: setpriority takes integers. Of a "process" the kernel means a thread.
    ok(unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, nice) }.into())
}

/// The CPUs that a task may run on, in ascending order: its affinity within its cpuset, limited to CPUs that
/// are switched on.
///
/// # Errors
/// The kernel's error: `ESRCH` if the task has gone.
pub fn affinity(tid: u32) -> io::Result<Vec<CpuId>> {
    let mut mask = [0u64; MASK_WORDS];
    // SAFETY: the kernel fills in at most the size that is stated.
    let bytes = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, size_of_val(&mask), &mut mask) };
    if bytes < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut cpus = Vec::new();
    for (at, mut word) in mask.into_iter().enumerate() {
        while word != 0 {
            cpus.push(CpuId(64 * at as u32 + word.trailing_zeros()));
            word &= word - 1;
        }
    }
    Ok(cpus)
}

/// Confines a task to some CPUs. `None`: to none in particular, including CPUs that are plugged in later.
///
/// # Errors
/// The kernel's error: `EINVAL` if none of the CPUs exists or is allowed by the task's cpuset.
pub fn set_affinity(tid: u32, cpus: Option<&[CpuId]>) -> io::Result<()> {
    let mut mask = [if cpus.is_none() { u64::MAX } else { 0 }; MASK_WORDS];
    for cpu in cpus.unwrap_or_default() {
        let word = mask.get_mut(cpu.0 as usize / 64).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (cpu.0 % 64);
    }
    // SAFETY: the kernel reads as much as is stated.
    ok(unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, size_of_val(&mask), &mask) })
}

/// The number of the calling thread.
pub fn own_tid() -> u32 {
    // SAFETY: gettid has no preconditions and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// The length of the scheduler's tick in nanoseconds: the resolution of the coarse clock.
pub fn tick_ns() -> u64 {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_getres fills the structure in.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) };
    resolution.tv_sec as u64 * 1_000_000_000 + resolution.tv_nsec as u64
}

/// Makes this thread real-time, so that no task that it wakes or thaws can keep it waiting. Its children do
/// not inherit that.
///
/// # Errors
/// The kernel's error: `EPERM` without CAP_SYS_NICE and RLIMIT_RTPRIO.
pub fn become_fifo(priority: u32) -> io::Result<()> {
    let flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
    set_attributes(0, &Attributes { policy: libc::SCHED_FIFO as u32, flags, nice: 0, priority, slice_ns: 0 })
}

/// Locks this process's memory as it is used: a page fault might have to wait for a parked task.
///
/// # Errors
/// `EPERM` if locked memory is limited: allocations beyond the limit would fail later.
pub fn lock_memory() -> io::Result<()> {
    const CAP_IPC_LOCK: u32 = 14;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let effective =
        status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("CapEff:")?.trim(), 16).ok());
    if effective.unwrap_or(0) >> CAP_IPC_LOCK & 1 == 0 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    // SAFETY: mlockall takes flags only. On-fault: what is mapped and not used stays unpopulated.
    ok(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) }.into())
}

fn ok(done: i64) -> io::Result<()> {
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether each session is a scheduling group of its own; `None` if this kernel has no such switch.
pub fn autogroups(root: &Root) -> Option<bool> {
    root.value::<u32>("/proc/sys/kernel/sched_autogroup_enabled", "a switch").ok().map(|on| on != 0)
}

/// Whether each session is a scheduling group of its own.
pub fn autogroups_are_on(root: &Root) -> bool {
    autogroups(root).unwrap_or(false)
}

/// Names this thread; the kernel keeps 15 bytes. For a process's first thread, this is the name of the
/// process.
pub fn call_thread(name: &std::ffi::CStr) {
    // SAFETY: the name is a C string that outlives the call, which reads it.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs on a thread of its own, so its changes end with that thread.
    fn aside<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(test).join().unwrap()
    }

    #[test]
    fn attributes_are_read_back_as_they_were_set() {
        aside(|| {
            let before = attributes(0).unwrap();
            assert!(before.is_fair(), "{before:?}");
            let batch = Attributes { policy: libc::SCHED_BATCH as u32, slice_ns: 3_000_000, ..before };
            set_attributes(0, &batch).unwrap();
            let after = attributes(0).unwrap();
            assert_eq!((after.policy, after.nice), (libc::SCHED_BATCH as u32, before.nice));
            if before.slice_ns == 0 {
                println!("skipped: this kernel has no slice per task");
                return;
            }
            assert_eq!(after.slice_ns, 3_000_000);
            set_attributes(0, &Attributes { slice_ns: 0, ..before }).unwrap();
            assert_eq!(attributes(0).unwrap(), before, "0 is the default");
        });
    }

    #[test]
    fn an_affinity_is_read_back_as_it_was_set_and_none_means_all() {
        aside(|| {
            let before = affinity(0).unwrap();
            let last = before[before.len() - 1];
            set_affinity(0, Some(&[last])).unwrap();
            assert_eq!(affinity(0).unwrap(), [last]);
            set_affinity(0, None).unwrap();
            assert!(affinity(0).unwrap().len() >= before.len());
            assert!(set_affinity(0, Some(&[])).is_err());
            assert!(set_affinity(0, Some(&[CpuId(1 << 20)])).is_err());
        });
    }

    #[test]
    fn a_task_that_is_not_there_is_said_to_be_gone() {
        assert_eq!(attributes(u32::MAX >> 2).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert_eq!(affinity(u32::MAX >> 2).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn a_real_time_thread_starts_fair_ones() {
        aside(|| match become_fifo(1) {
            Err(e) => println!("skipped: no real-time here: {e}"),
            Ok(()) => {
                assert_eq!(attributes(0).unwrap().policy, libc::SCHED_FIFO as u32);
                assert!(aside(|| attributes(0).unwrap().is_fair()));
            }
        });
    }
}
