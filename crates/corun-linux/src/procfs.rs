//! Processes and threads, from `/proc`.
//!
//! Small parsers of our own, since a poll reads these files for every task every few milliseconds. A file
//! takes one `open`, one `read` into a buffer on the stack, and one `close`; only the fields that are used
//! are parsed.
//!
//! Limits: `starttime` and the CPU times of `stat` come in clock ticks (10 ms). `schedstat` counts a wait
//! when it ends, and a running task's time at the scheduler's tick. So both lag by whatever is in progress.

use crate::root::{ReadError, Root};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A clock tick of `/proc`: `USER_HZ` is 100 on every architecture that corun runs on.
pub const TICK_NS: u64 = 10_000_000;

/// The kernel's flag of its own threads (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The content of `/proc/PID/stat` or `/proc/PID/task/TID/stat` for a process or thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its name: at most 15 bytes of the name that the process chose.
    pub comm: String,
    /// `R` running or runnable, `S` and `D` asleep, `T` stopped, `Z` and `X` dead.
    pub state: char,
    /// Parent process; 0 when it has none.
    pub ppid: u32,
    /// Process group.
    pub pgid: u32,
    /// Session.
    pub sid: u32,
    /// Whether it is a thread of the kernel.
    pub is_kernel: bool,
    /// CPU time of the process, including ended threads (in a thread's file: of the thread), to a tick.
    pub cpu_ns: u64,
    /// CPU time of its children that ended and were collected, and of their children, to a tick.
    pub children_cpu_ns: u64,
    /// Its nice value, −20 to 19.
    pub nice: i32,
    /// Threads of the process that have not been collected: itself, and live ones.
    pub threads: u32,
    /// When it started, since boot (suspended time included), to a tick.
    pub start_ns: u64,
    /// The CPU it last ran on.
    pub last_cpu: u32,
}

impl Stat {
    /// Whether this thread (for a process, its first) has ended and only waits to be collected.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Whether the process has ended. The first thread of a process may have ended while others go on.
    pub fn has_ended(&self) -> bool {
        self.is_dead() && self.threads <= 1
    }

    /// Reads the one line of a `stat` file; `None` if it is not one, or has an impossible time. The name may
    /// hold anything, even `) R 1`.
    pub fn parse(text: &str) -> Option<Stat> {
        let (before, after) = (text.find('(')?, text.rfind(')')?);
        let comm = text.get(before + 1..after)?.to_owned();
        let fields: Vec<&str> = text.get(after + 1..)?.split_ascii_whitespace().collect();
        // proc(5) numbers the fields from 1; the state, field 3, is the first after the name.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        // Groups and sessions of another PID namespace are 0, a missing parent is -1.
        let id = |field: usize| fields.get(field - 3)?.parse::<i64>().ok().map(|n| n.max(0) as u32);
        // Children's times are signed in the kernel's format.
        let ticks = |field: usize| fields.get(field - 3)?.parse::<i64>().ok().map(|n| n.max(0) as u64);
        Some(Stat {
            comm,
            state: fields.first()?.chars().next()?,
            ppid: id(4)?,
            pgid: id(5)?,
            sid: id(6)?,
            is_kernel: number(9)? & KERNEL_THREAD != 0,
            cpu_ns: number(14)?.checked_add(number(15)?)?.checked_mul(TICK_NS)?,
            children_cpu_ns: ticks(16)?.checked_add(ticks(17)?)?.checked_mul(TICK_NS)?,
            nice: fields.get(19 - 3)?.parse().ok()?,
            threads: number(20)? as u32,
            start_ns: number(22)?.checked_mul(TICK_NS)?,
            last_cpu: number(39)? as u32,
        })
    }
}

/// The process that a thread belongs to, from its `Tgid`; `None` if it has gone.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn process_of(root: &Root, tid: u32) -> Result<Option<u32>, ReadError> {
    let status = root.read_if_there(format!("/proc/{tid}/status"))?.unwrap_or_default();
    Ok(status.lines().find_map(|l| l.strip_prefix("Tgid:")?.trim().parse().ok()))
}

/// A thread's time on a CPU and its time waiting for one, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Time on a CPU, in nanoseconds.
    pub run_ns: u64,
    /// Time runnable but not running, in nanoseconds.
    pub wait_ns: u64,
    /// How often it was put on a CPU.
    pub slices: u64,
}

/// A thread's context switches since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// It blocked.
    pub voluntary: u64,
    /// The CPU was taken from it, or it called `sched_yield` and another task ran.
    pub involuntary: u64,
}

/// CPU time of a child of this process that has ended and was not collected yet, and of the children that it collected, to the
/// microsecond; `None`: it is no such child.
pub fn used_by_ended_child_ns(pid: u32) -> Option<u64> {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel fills both zeroed structures in; by WNOWAIT it leaves the child as it is. What libc wraps has no place for
    // the second.
    let usage = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let mut usage: libc::rusage = std::mem::zeroed();
        let asked = libc::syscall(libc::SYS_waitid, libc::P_PID, pid, &raw mut info, flags, &raw mut usage);
        (asked == 0 && info.si_pid() == pid as i32).then_some(usage)?
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    Some(ns(usage.ru_utime) + ns(usage.ru_stime))
}

/// A process's `stat`.
///
/// # Errors
/// [`ReadError`] when the process has gone.
pub fn process_stat(root: &Root, pid: u32) -> Result<Stat, ReadError> {
    stat(root, &format!("/proc/{pid}/stat"))
}

/// A thread's `stat`.
///
/// # Errors
/// [`ReadError`] when the thread has gone.
pub fn task_stat(root: &Root, pid: u32, tid: u32) -> Result<Stat, ReadError> {
    stat(root, &format!("/proc/{pid}/task/{tid}/stat"))
}

fn stat(root: &Root, file: &str) -> Result<Stat, ReadError> {
    read_small(root, file, |text| {
        Stat::parse(text).ok_or_else(|| root.unexpected(file, text, "a process's stat line"))
    })
}

/// A thread's `schedstat`; all zeros on a kernel that does not count (see [`schedstat_counts`]).
///
/// # Errors
/// [`ReadError`] if the thread has gone or the kernel has no `schedstat`.
pub fn schedstat(root: &Root, pid: u32, tid: u32) -> Result<Schedstat, ReadError> {
    let file = format!("/proc/{pid}/task/{tid}/schedstat");
    read_small(root, &file, |text| {
        let mut numbers = text.split_ascii_whitespace().map_while(|n| n.parse::<u64>().ok());
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(run_ns), Some(wait_ns), Some(slices)) => Ok(Schedstat { run_ns, wait_ns, slices }),
            _ => Err(root.unexpected(&file, text, "a time on the CPU, a time waiting and a count")),
        }
    })
}

/// Whether this kernel fills in `schedstat`: with `kernel.task_delayacct=0` it shows zeros, unless it was
/// built with `CONFIG_SCHEDSTATS`. `None` if there is no such file at all.
///
/// # Errors
/// [`ReadError`] if it exists and cannot be read.
pub fn schedstat_counts(root: &Root) -> Result<Option<bool>, ReadError> {
    let text = root.read_if_there("/proc/self/schedstat")?;
    Ok(text.map(|text| text.split_ascii_whitespace().any(|n| n != "0")))
}

/// A thread's context switches.
///
/// # Errors
/// [`ReadError`] when the thread has gone.
pub fn switches(root: &Root, pid: u32, tid: u32) -> Result<Switches, ReadError> {
    let file = format!("/proc/{pid}/task/{tid}/status");
    read_small(root, &file, |text| {
        // They are the last two lines; a process's name cannot contain a line break there, since it is
        // escaped.
        let field = |name: &str| text.rsplit_once(name)?.1.split_ascii_whitespace().next()?.parse().ok();
        match (field("\nvoluntary_ctxt_switches:"), field("\nnonvoluntary_ctxt_switches:")) {
            (Some(voluntary), Some(involuntary)) => Ok(Switches { voluntary, involuntary }),
            _ => Err(root.unexpected(&file, text, "a task's status")),
        }
    })
}

/// Whether the task that started at this time is alive, or others of its process are. By now another task may
/// have its number.
///
/// # Errors
/// [`ReadError`] if that cannot be determined: its entry in `/proc` exists and cannot be read.
pub fn lives(root: &Root, tid: u32, start_ns: u64) -> Result<bool, ReadError> {
    match process_stat(root, tid) {
        Ok(stat) => Ok(stat.start_ns == start_ns && !stat.has_ended()),
        Err(e) if e.is_gone() => Ok(false),
        Err(e) => Err(e),
    }
}

/// The scheduling group of a session, if the kernel makes one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autogroup {
    /// Its number, which is never reused until the next boot.
    pub id: u64,
    /// Its nice value.
    pub nice: i32,
}

/// The autogroup of a process; `None` if it has none.
///
/// # Errors
/// [`ReadError`] if the process has gone or the kernel has no autogroups.
pub fn autogroup(root: &Root, pid: u32) -> Result<Option<Autogroup>, ReadError> {
    read_small(root, &format!("/proc/{pid}/autogroup"), |text| {
        let mut words = text.split_ascii_whitespace();
        let mut read = || {
            let id = words.next()?.strip_prefix("/autogroup-")?.parse().ok()?;
            Some(Autogroup { id, nice: words.nth(1)?.parse().ok()? })
        };
        Ok(read())
    })
}

/// All processes visible here, by PID.
///
/// # Errors
/// [`ReadError`] when `/proc` cannot be read.
pub fn processes(root: &Root) -> Result<Vec<u32>, ReadError> {
    numbers_in(root, "/proc")
}

/// The threads of a process, by TID.
///
/// # Errors
/// [`ReadError`] when the process has gone.
pub fn tasks(root: &Root, pid: u32) -> Result<Vec<u32>, ReadError> {
    numbers_in(root, &format!("/proc/{pid}/task"))
}

fn numbers_in(root: &Root, folder: &str) -> Result<Vec<u32>, ReadError> {
    let path = root.path(folder);
    let entries = match std::fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(source) => return Err(ReadError::Io { path, source }),
    };
    let number = |e: std::fs::DirEntry| e.file_name().to_str()?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = entries.flatten().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The ancestors of a process, itself first.
pub fn line_of(root: &Root, pid: u32) -> Vec<u32> {
    let parent = |pid: &u32| process_stat(root, *pid).ok().map(|s| s.ppid).filter(|ppid| *ppid != 0);
    // Numbers are reused, so the chain may seem to be a ring.
    std::iter::successors(Some(pid), parent).take(1_000).collect()
}

/// A process and its ancestors up to the first of `roots`, which is excluded. If none of the roots is an
/// ancestor, only the process.
pub fn between(root: &Root, pid: u32, roots: &[u32]) -> Vec<u32> {
    let line = line_of(root, pid);
    let end = line.iter().position(|above| roots.contains(above)).unwrap_or(1).max(1);
    line.into_iter().take(end).collect()
}

/// `roots` and all their descendants that live now, by PID. Roots that have gone are left out.
///
/// # Errors
/// [`ReadError`] when `/proc` cannot be read.
pub fn with_descendants(root: &Root, roots: &[u32]) -> Result<Vec<u32>, ReadError> {
    with_descendants_except(root, roots, &[])
}

/// The same for a watcher; `watching` is the result of [`between`]. The watcher's own process and its
/// descendants are excluded, and so are its ancestors that are not roots. Other descendants of these
/// ancestors are included.
///
/// # Errors
/// [`ReadError`] when `/proc` cannot be read.
pub fn with_descendants_except(root: &Root, roots: &[u32], watching: &[u32]) -> Result<Vec<u32>, ReadError> {
    let own = watching.first();
    let parent_of: Vec<(u32, u32)> = processes(root)?
        .into_iter()
        .filter(|pid| roots.contains(pid) || Some(pid) != own)
        .filter_map(|pid| process_stat(root, pid).ok().map(|s| (pid, s.ppid)))
        .collect();
    let mut found: std::collections::BTreeSet<u32> =
        parent_of.iter().map(|(pid, _)| *pid).filter(|pid| roots.contains(pid)).collect();
    loop {
        let before = found.len();
        for (pid, ppid) in &parent_of {
            if found.contains(ppid) {
                found.insert(*pid);
            }
        }
        if found.len() == before {
            found.retain(|pid| roots.contains(pid) || !watching.contains(pid));
            return Ok(found.into_iter().collect());
        }
    }
}

/// A process's command line; empty for kernel threads and zombies.
///
/// # Errors
/// [`ReadError`] when the process has gone.
pub fn command_line(root: &Root, pid: u32) -> Result<Vec<String>, ReadError> {
    let text = root.read(format!("/proc/{pid}/cmdline"))?;
    Ok(text.split_terminator('\0').map(str::to_owned).collect())
}

/// Reads a file of at most 8 KiB with one `read` and returns its text.
fn read_small<T>(
    root: &Root,
    file: &str,
    parse: impl FnOnce(&str) -> Result<T, ReadError>,
) -> Result<T, ReadError> {
    let path = root.path(Path::new(file));
    let mut buffer = [0u8; 8192];
    let length = File::open(&path).and_then(|mut f| f.read(&mut buffer));
    match length {
        Ok(length) => match std::str::from_utf8(&buffer[..length]) {
            Ok(text) => parse(text),
            Err(_) => parse(&String::from_utf8_lossy(&buffer[..length])),
        },
        Err(source) => Err(ReadError::Io { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str =
        "1234 (cc1) R 1200 1100 1000 34816 1100 4194304 9 0 0 0 250 50 300 -1 20 0 3 0 6149 2887680 234 \
                        18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 5 0 0 0 0 0 0 0 0 0 0 0 0 0";

    #[test]
    fn a_stat_line_is_read_by_its_field_numbers() {
        let s = Stat::parse(STAT).unwrap();
        assert_eq!((s.comm.as_str(), s.state, s.ppid, s.pgid, s.sid), ("cc1", 'R', 1200, 1100, 1000));
        assert_eq!((s.cpu_ns, s.children_cpu_ns), (3_000_000_000, 3_000_000_000));
        assert_eq!((s.start_ns, s.last_cpu, s.is_kernel), (61_490_000_000, 5, false));
    }

    proptest! {
        #[test]
        fn a_name_cannot_upset_the_fields(name in "[ -~\\n]{0,15}") {
            let s = Stat::parse(&STAT.replace("cc1", &name)).unwrap();
            prop_assert_eq!((s.comm, s.ppid, s.last_cpu), (name, 1200, 5));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
            let _ = Stat::parse(&text);
        }
    }

    fn fixture() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let process = |pid: u32, ppid: u32| {
            std::fs::create_dir_all(root.path(format!("/proc/{pid}/task/{pid}"))).unwrap();
            let text = STAT.replace("1200", &ppid.to_string());
            std::fs::write(root.path(format!("/proc/{pid}/stat")), &text).unwrap();
        };
        for (pid, ppid) in [(1, 0), (9, 30), (10, 1), (20, 10), (30, 20), (40, 1)] {
            process(pid, ppid);
        }
        dir
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_in_any_order_of_pids() {
        let dir = fixture();
        let root = Root::new(dir.path());
        assert_eq!(with_descendants(&root, &[10]).unwrap(), [9, 10, 20, 30]);
        assert_eq!(with_descendants(&root, &[40, 77]).unwrap(), [40]);
    }

    #[test]
    fn cousins_of_a_watcher_descend_from_its_ancestor_but_its_children_and_parents_do_not() {
        let dir = fixture();
        let root = Root::new(dir.path());
        for (pid, ppid) in [(50, 10), (51, 50), (52, 51), (53, 50)] {
            std::fs::create_dir_all(root.path(format!("/proc/{pid}"))).unwrap();
            let stat = STAT.replace("1200", &ppid.to_string());
            std::fs::write(root.path(format!("/proc/{pid}/stat")), stat).unwrap();
        }
        let watching = between(&root, 51, &[10]);
        assert_eq!(watching, [51, 50]);
        assert_eq!(with_descendants_except(&root, &[10], &watching).unwrap(), [9, 10, 20, 30, 53]);
        // A parent that was named is watched, whatever it has started.
        let watching = between(&root, 51, &[10, 50]);
        assert_eq!(with_descendants_except(&root, &[10, 50], &watching).unwrap(), [9, 10, 20, 30, 50, 53]);
    }

    #[test]
    fn an_error_about_a_missing_field_names_the_file() {
        let dir = fixture();
        let root = Root::new(dir.path());
        std::fs::write(root.path("/proc/10/task/10/schedstat"), "12 x 3\n").unwrap();
        let e = schedstat(&root, 10, 10).unwrap_err().to_string();
        assert!(
            e.ends_with("holds `12 x 3`, which is not a time on the CPU, a time waiting and a count"),
            "{e}"
        );
        assert!(schedstat(&root, 10, 11).unwrap_err().is_gone());
    }

    #[test]
    fn switches_are_the_last_two_lines_of_status() {
        let dir = fixture();
        let root = Root::new(dir.path());
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n";
        std::fs::write(root.path("/proc/10/task/10/status"), status).unwrap();
        assert_eq!(switches(&root, 10, 10).unwrap(), Switches { voluntary: 7, involuntary: 3 });
    }

    #[test]
    fn this_process_can_be_read() {
        let root = Root::new("/");
        let pid = std::process::id();
        let me = process_stat(&root, pid).unwrap();
        assert!(!me.is_kernel && !me.is_dead() && me.ppid > 0);
        for tid in tasks(&root, pid).unwrap() {
            task_stat(&root, pid, tid).unwrap();
            switches(&root, pid, tid).unwrap();
        }
        assert!(processes(&root).unwrap().contains(&pid));
        assert!(!command_line(&root, pid).unwrap().is_empty());
    }
}
