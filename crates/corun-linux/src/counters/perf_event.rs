//! The system call behind the counters: opening, reading and closing groups of events of one task.
//!
//! A group is counted together or not at all, so events that are compared belong into one group. It is opened
//! disabled and then enabled as a whole, so that its events count over the same time. Reading takes one
//! system call per group.

use super::reading::Reading;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What to count: the part of `perf_event_attr` that distinguishes hardware events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// The number of the PMU.
    pub kind: u32,
    /// The event; the PMU's `format` describes the layout of its bits.
    pub config: u64,
    /// More of the same, for events that need it.
    pub config1: u64,
    /// Yet more.
    pub config2: u64,
}

/// How to count, for all events of a source alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountOptions {
    /// Whether the kernel's share of the task's work counts, too.
    pub kernel: bool,
    /// Whether tasks that the task creates from now on count as the task itself.
    pub inherit: bool,
}

/// Whose events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The calling thread's.
    Mine,
    /// Another thread's.
    Task(u32),
    /// Everybody on the socket of this CPU: for a PMU that counts sockets.
    Cpu(u32),
}

/// Events of one task that are counted together. Dropping it stops the counting.
#[derive(Debug)]
pub struct Group {
    fds: Vec<OwnedFd>,
}

/// `struct perf_event_attr` up to `config2`, which every kernel since 2.6.33 accepts.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
}

const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// Times enabled and running, and the values of the whole group.
const READ_FORMAT: u64 = 1 | 1 << 1 | 1 << 3;
const CLOSE_ON_EXEC: u64 = 1 << 3;
const IOC_ENABLE: libc::c_ulong = 0x2400;

impl Group {
    /// Starts counting `events` of one task, on whichever CPU it runs.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn open(events: &[Event], whose: Whose, manner: CountOptions) -> Result<Group, i32> {
        let mut fds: Vec<OwnedFd> = Vec::with_capacity(events.len());
        for event in events {
            let leader = fds.first().map(AsRawFd::as_raw_fd);
            fds.push(open(event, whose, manner, leader)?);
        }
        if let Some(leader) = fds.first() {
            // SAFETY: enabling an open event touches no memory of ours.
            if unsafe { libc::ioctl(leader.as_raw_fd(), IOC_ENABLE, 0) } < 0 {
                return Err(errno());
            }
        }
        Ok(Group { fds })
    }

    /// The count of each event since it was opened; a task that has ended keeps its last values.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn read(&self) -> io::Result<Vec<Reading>> {
        let Some(leader) = self.fds.first() else { return Ok(Vec::new()) };
        let mut words = vec![0u64; 3 + self.fds.len()];
        let bytes = std::mem::size_of_val(words.as_slice());
        // SAFETY: the buffer is valid for writes of the size that is passed.
        let got = unsafe { libc::read(leader.as_raw_fd(), words.as_mut_ptr().cast(), bytes) };
        match usize::try_from(got) {
            Ok(got) if got == bytes && words[0] == self.fds.len() as u64 => {
                let reading = |&value| Reading { value, enabled_ns: words[1], running_ns: words[2] };
                Ok(words[3..].iter().map(reading).collect())
            }
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

fn open(event: &Event, whose: Whose, manner: CountOptions, leader: Option<RawFd>) -> Result<OwnedFd, i32> {
    let (pid, cpu) = match whose {
        Whose::Mine => (0, -1),
        Whose::Task(tid) => (tid as libc::pid_t, -1),
        Whose::Cpu(cpu) => (-1, cpu as libc::c_int),
    };
    // A socket's PMU cannot leave anybody out, and refuses such a request.
    let mut flags = if cpu < 0 { EXCLUDE_HYPERVISOR } else { 0 };
    flags |= if manner.kernel { 0 } else { EXCLUDE_KERNEL };
    flags |= if manner.inherit { INHERIT } else { 0 };
    flags |= if leader.is_none() { DISABLED } else { 0 };
    let attr = PerfEventAttr {
        kind: event.kind,
        size: size_of::<PerfEventAttr>() as u32,
        config: event.config,
        config1: event.config1,
        config2: event.config2,
        read_format: READ_FORMAT,
        flags,
        ..PerfEventAttr::default()
    };
    let leader = leader.unwrap_or(-1);
    // SAFETY: attr is a valid structure of the size that it states.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &attr, pid, cpu, leader, CLOSE_ON_EXEC) };
    match RawFd::try_from(fd) {
        // SAFETY: the descriptor was just opened and is nobody else's.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(errno()),
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::own_tid;

    /// Software events need no PMU: the clock of the task, in nanoseconds, and its page faults.
    const TASK_CLOCK: Event = Event { kind: 1, config: 1, config1: 0, config2: 0 };
    const PAGE_FAULTS: Event = Event { kind: 1, config: 2, config1: 0, config2: 0 };
    const USER: CountOptions = CountOptions { kernel: false, inherit: false };

    #[test]
    fn a_group_counts_its_events_over_the_same_time() {
        let group = match Group::open(&[TASK_CLOCK, PAGE_FAULTS], Whose::Mine, USER) {
            Ok(group) => group,
            Err(errno) => return println!("skipped: perf_event_open says {errno}"),
        };
        let pages = vec![1u8; 4 << 20];
        std::hint::black_box(&pages);
        let read = group.read().unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].enabled_ns, read[0].running_ns), (read[1].enabled_ns, read[1].running_ns));
        assert!(read[0].value > 0 && read[1].value > 0, "{read:?}");
        let later = group.read().unwrap();
        assert!(later[0].value > read[0].value, "the clock goes on");
    }

    #[test]
    fn an_ended_thread_keeps_its_last_values() {
        let (begin, begun) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            begin.send(own_tid()).unwrap();
            gone.recv().unwrap();
            std::hint::black_box(vec![1u8; 4 << 20]);
        });
        let tid = begun.recv().unwrap();
        let group = match Group::open(&[TASK_CLOCK, PAGE_FAULTS], Whose::Task(tid), USER) {
            Ok(group) => group,
            Err(errno) => {
                go.send(()).unwrap();
                return println!("skipped: perf_event_open says {errno}");
            }
        };
        go.send(()).unwrap();
        thread.join().unwrap();
        let read = group.read().unwrap();
        assert!(read[0].value > 0 && read[1].value > 0, "{read:?}");
    }

    #[test]
    fn a_missing_task_is_an_error_with_a_number() {
        let nobody = Whose::Task(i32::MAX as u32 - 1);
        let errno = Group::open(&[TASK_CLOCK], nobody, USER).unwrap_err();
        assert!([libc::ESRCH, libc::EACCES, libc::EPERM].contains(&errno), "{errno}");
    }
}
