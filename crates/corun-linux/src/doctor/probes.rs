//! System calls that ask the kernel what it would do. They close everything that they open; nothing is
//! changed.

use crate::counters::live::accepted;
use crate::counters::perf_event::{CountOptions, Event};
use crate::limits;
use crate::probe;
use crate::root::Root;
use crate::sched;
use std::io;

/// The kernel's answer; an error is its number (`ENOENT`…).
#[derive(Clone, Copy, Debug)]
pub struct Probes {
    /// Creates a BPF map of one entry, and removes it at once.
    pub bpf: Result<(), i32>,
    /// Loads the probe, and removes it at once; on failure, why.
    pub probe: fn(&Root) -> Result<(), String>,
    /// Opens these events together on this thread, and closes them at once.
    pub counting: fn(&[Event], CountOptions) -> Result<(), i32>,
    /// Opens the software clock on this process, user mode only.
    pub software_clock: Result<(), i32>,
    /// The slice of this task in nanoseconds, from `sched_getattr`; 0 on kernels without slices per task.
    pub slice_ns: Result<u64, i32>,
    /// The highest real-time priority that `RLIMIT_RTPRIO` allows.
    pub rt_priority_max: u64,
    /// The length of the scheduler's tick in nanoseconds: the resolution of the coarse clock.
    pub tick_ns: u64,
}

impl Probes {
    /// Asks this machine's kernel.
    pub fn ask() -> Probes {
        Probes {
            bpf: bpf_map(),
            probe: |root| probe::try_loading(root).map_err(|e| limits::of_probe(root, &e.to_string())),
            counting: accepted,
            software_clock: accepted(&[CPU_CLOCK], CountOptions { kernel: false, inherit: false }),
            slice_ns: slice_ns(),
            rt_priority_max: rt_priority_max(),
            tick_ns: sched::tick_ns(),
        }
    }
}

/// Whether this process may write a file, according to its permissions alone.
pub(super) fn may_write(root: &Root, file: &std::path::Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(root.path(file).as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is a C string that outlives the call; access opens nothing.
    unsafe { libc::access(path.as_ptr(), libc::W_OK) == 0 }
}

/// `PERF_COUNT_SW_CPU_CLOCK` of `PERF_TYPE_SOFTWARE`.
const CPU_CLOCK: Event = Event { kind: 1, config: 0, config1: 0, config2: 0 };

/// The part of `union bpf_attr` that creates a map.
#[repr(C)]
struct BpfMapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

fn bpf_map() -> Result<(), i32> {
    const BPF_MAP_CREATE: i32 = 0;
    const BPF_MAP_TYPE_ARRAY: u32 = 2;
    let attr = BpfMapCreate {
        map_type: BPF_MAP_TYPE_ARRAY,
        key_size: 4,
        value_size: 8,
        max_entries: 1,
        map_flags: 0,
    };
    // SAFETY: attr is a valid prefix of the union, of the size that is stated.
    closed(unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, &attr, size_of::<BpfMapCreate>()) })
}

/// Closes the result of a system call, or keeps its error.
fn closed(fd: i64) -> Result<(), i32> {
    if fd < 0 {
        return Err(errno());
    }
    // SAFETY: the descriptor was just opened and is nobody else's.
    unsafe { libc::close(fd as i32) };
    Ok(())
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

fn slice_ns() -> Result<u64, i32> {
    sched::attributes(0).map(|a| a.slice_ns).map_err(|e| e.raw_os_error().unwrap_or(libc::EINVAL))
}

fn rt_priority_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit fills the structure in.
    unsafe { libc::getrlimit(libc::RLIMIT_RTPRIO, &mut limit) };
    limit.rlim_cur
}
