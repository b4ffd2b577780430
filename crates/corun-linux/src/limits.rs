//! Why this machine lets nothing more be started: the kernel only returns a number, so its cause is looked up
//! and reported with a remedy.
//!
//! `EAGAIN`, `ENOMEM`, `EINVAL` and `EPERM` of `clone` each have several causes, and the standard library
//! distinguishes none of them. Code that starts a thread or a process does it here, or passes the error to
//! [`explained`]. So the same cause always has the same sentence. `corun doctor` reports the same limits in
//! advance.
//!
//! Method: the kernel checks the cgroups' `pids.max`, the user's `RLIMIT_NPROC`, the machine's `threads-max`
//! and the PID namespace in turn, and does not say which of them refused. So all are read, and the exhausted
//! one is named. Limits: tasks may have ended meanwhile, so a limit with at most [`NEARLY`] free places
//! counts as reached. If there is none, the sentence lists all candidates. A limit in a cgroup above a
//! container's own cannot be seen from within.

use crate::cgroup::{Cgroups, Membership};
use crate::procfs;
use crate::root::{in_words, Root};
use corun_model::why::NoRealTime;
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::{Builder, JoinHandle};

/// This few free places count as none: corun's own may have become free since the refusal.
const NEARLY: u64 = 2;

/// How many processes and threads a limit allows, together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Whose processes and threads they are.
    pub of: String,
    /// The setting.
    pub setting: &'static str,
    /// How many it allows.
    pub most: u64,
    /// How many there are.
    pub used: u64,
    /// What would give more room.
    pub remedy: &'static str,
}

impl Allowance {
    /// How many more it allows.
    pub fn free(&self) -> u64 {
        self.most.saturating_sub(self.used)
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Allowance { of, setting, most, used, .. } = self;
        write!(f, "processes and threads {of} are limited to {most} ({setting}; in use: {used})")
    }
}

/// Starts a thread.
///
/// # Errors
/// Why the kernel refuses it, with the remedy.
pub fn start_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).spawn(body).map_err(explained)
}

/// Starts a process.
///
/// # Errors
/// Why the kernel refuses it, with the remedy. If the program itself is at fault, the kernel's message is
/// kept.
pub fn start_process(command: &mut Command) -> io::Result<Child> {
    command.spawn().map_err(explained)
}

/// The same error with its cause and the remedy, if the kernel refused a thread or a process and the cause is
/// known.
pub fn explained(e: io::Error) -> io::Error {
    match cause(&Root::new("/"), &e) {
        Some(why) => io::Error::new(e.kind(), why),
        None => e,
    }
}

/// Why the kernel refused a thread or a process, and the remedy, as one clause; `None` if the number says it
/// all.
pub fn cause(root: &Root, e: &io::Error) -> Option<String> {
    let errno = e.raw_os_error()?;
    if matches!(errno, libc::EINVAL | libc::ENOMEM | libc::EAGAIN) {
        if let Some(why) = without_init(root) {
            return Some(why.to_string());
        }
    }
    match errno {
        libc::EAGAIN => Some(of_many(root)),
        libc::ENOMEM => {
            Some(of_memory(root).unwrap_or_else(|| "there is not enough memory; free some".into()))
        }
        libc::EPERM | libc::EACCES | libc::ENOSYS if is_filtered(root) => Some(format!(
            "a seccomp filter forbids it ({}); start corun outside of this container or sandbox",
            in_words(e)
        )),
        _ => None,
    }
}

/// Whether processes can be held by descriptors; a supervisor watches its controller through one.
///
/// # Errors
/// Why not.
pub fn has_pidfds() -> io::Result<()> {
    // SAFETY: takes two numbers, and returns a descriptor that is closed again.
    unsafe {
        match libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) as i32 {
            fd if fd >= 0 => {
                libc::close(fd);
                Ok(())
            }
            _ => Err(explained(io::Error::last_os_error())),
        }
    }
}

/// What a limit does not leave room for, as a clause, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// What, as a clause.
    pub why: String,
    /// What would help.
    pub remedy: &'static str,
}

impl std::fmt::Display for Shortage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.why, self.remedy)
    }
}

/// Why no thread can be started, and why no new process would have a PID that corun knows: the next child
/// would be in another PID namespace than this process. `None` if it is in the same one, as far as can be
/// determined.
pub fn without_init(root: &Root) -> Option<Shortage> {
    let link = |name: &str| std::fs::read_link(root.path(format!("/proc/self/ns/{name}")));
    let own = link("pid").ok()?;
    match link("pid_for_children") {
        Ok(theirs) if theirs == own => None,
        // It can be listed but not read while it has no first process.
        Err(_) if std::fs::symlink_metadata(root.path("/proc/self/ns/pid_for_children")).is_err() => None,
        _ => Some(Shortage {
            why: "corun was started in one PID namespace for children in another (`unshare --pid` without `--fork`), where \
                  Linux lets no thread be started"
                .into(),
            remedy: "add `--fork`",
        }),
    }
}

/// The message for a probe that the kernel refused, with the cause and the remedy in place of the kernel's
/// number. Libbpf gives that number only in its text.
pub fn of_probe(root: &Root, said: &str) -> String {
    let Some((what, rest)) = said.split_once(" (os error ") else { return said.to_owned() };
    let (number, after) = rest.split_once(')').unwrap_or((rest, ""));
    let errno: i32 = number.parse().unwrap_or(0);
    let lockdown = root.read("/sys/kernel/security/lockdown").unwrap_or_default();
    let cause = match errno {
        _ if !root.has("/sys/kernel/btf/vmlinux") => {
            ": the kernel's types (BTF) are not there or hidden (/sys/kernel/btf/vmlinux); show them to this container, or use a \
             kernel with CONFIG_DEBUG_INFO_BTF"
        }
        libc::EMFILE => "; raise `ulimit -n`",
        libc::EPERM | libc::EACCES if lockdown.contains("[confidentiality]") => {
            ": kernel lockdown is at confidentiality; boot with lockdown=integrity"
        }
        libc::EPERM | libc::EACCES | libc::ENOSYS if is_filtered(root) => {
            ": a seccomp filter may forbid it; start corun outside of this container or sandbox"
        }
        libc::EPERM | libc::EACCES => "; run as root",
        _ => "",
    };
    format!("{what}{cause}{after}")
}

/// Why a thread of corun's may not be real-time.
pub fn of_real_time(root: &Root, e: &io::Error) -> NoRealTime {
    no_real_time_budget(root).unwrap_or_else(|| match e.raw_os_error() {
        Some(libc::EPERM) if is_filtered(root) && status_field(root, "Uid:").is_some_and(|u| is_root(&u)) => {
            NoRealTime::Filtered
        }
        Some(libc::EPERM) => NoRealTime::UserMayNot,
        _ => NoRealTime::Other { error: in_words(e) },
    })
}

/// The budget that leaves no time for real-time tasks of this process's cgroup; `None` if they have some, or
/// this kernel has no such budgets.
pub fn no_real_time_budget(root: &Root) -> Option<NoRealTime> {
    let none = |file: &Path| root.value::<i64>(file, "a time").ok() == Some(0);
    if none(Path::new("/proc/sys/kernel/sched_rt_runtime_us")) {
        return Some(NoRealTime::KernelGivesNone);
    }
    let (_, folders) = own_folders(root, "cpu")?;
    let folder = folders.first().filter(|folder| none(&folder.join("cpu.rt_runtime_us")))?;
    Some(NoRealTime::CgroupGivesNone { folder: folder.display().to_string() })
}

/// Whether the user ids of this process begin with root's.
fn is_root(uids: &str) -> bool {
    uids.split_whitespace().next() == Some("0")
}

/// This process's cgroup in the tree of a controller and those above it, as folders, with the mount point of
/// the tree.
fn own_folders(root: &Root, controller: &str) -> Option<(PathBuf, Vec<PathBuf>)> {
    let cgroups = Cgroups::discover(root).ok()?;
    let tree = cgroups.with_controller(controller)?;
    let membership = Membership::read(root, "/proc/self").ok()?;
    let folder = tree.folder(membership.in_tree(tree)?)?;
    let up = folder.ancestors().take_while(|folder| folder.starts_with(&tree.mount));
    Some((tree.mount.clone(), up.map(Path::to_owned).collect()))
}

/// The known limits on processes and threads, the tightest first.
pub fn allowances(root: &Root) -> Vec<Allowance> {
    let mut all: Vec<Allowance> =
        of_cgroups(root).into_iter().chain(of_user(root)).chain(of_machine(root)).collect();
    all.sort_by_key(Allowance::free);
    all
}

/// Too many processes and threads, or no memory: the C library returns the same error for both.
fn of_many(root: &Root) -> String {
    match allowances(root).first().filter(|tightest| tightest.free() <= NEARLY) {
        Some(a) => format!("{a}; {}", a.remedy),
        None => of_memory(root).unwrap_or_else(|| {
            "a limit of processes or threads is reached (`pids.max` of the cgroup, `ulimit -u`, kernel.threads-max), or \
             memory is; raise it, or end what is not needed"
                .into()
        }),
    }
}

/// Why there is no memory for a thread's stack or another process, if a limit is the cause.
fn of_memory(root: &Root) -> Option<String> {
    let status = root.read("/proc/self/limits").unwrap_or_default();
    let address_space = status.lines().find_map(|l| l.strip_prefix("Max address space"));
    if let Some(most) = address_space.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()) {
        return Some(format!(
            "this session allows a process {} MiB of memory; raise `ulimit -v`",
            most >> 20
        ));
    }
    let mode: u32 = root.value("/proc/sys/vm/overcommit_memory", "a mode").ok()?;
    let (limit, promised) = committed(root)?;
    (mode == 2).then(|| {
        format!(
            "memory is promised up to a limit only (vm.overcommit_memory is 2), and {} of {} MiB are; raise \
             vm.overcommit_ratio, or end what is not needed",
            promised >> 10,
            limit >> 10
        )
    })
}

/// How much memory may be committed and how much is, in KiB.
pub fn committed(root: &Root) -> Option<(u64, u64)> {
    let text = root.read("/proc/meminfo").ok()?;
    let of = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some((of("CommitLimit:")?, of("Committed_AS:")?))
}

/// Whether system calls of this process are filtered.
pub fn is_filtered(root: &Root) -> bool {
    status_field(root, "Seccomp:").is_some_and(|mode| mode.trim() != "0")
}

fn status_field(root: &Root, name: &str) -> Option<String> {
    let status = root.read("/proc/self/status").ok()?;
    status.lines().find_map(|l| l.strip_prefix(name)).map(str::to_owned)
}

/// The tightest `pids.max` on the way up from this process's cgroup.
fn of_cgroups(root: &Root) -> Option<Allowance> {
    let (mount, folders) = own_folders(root, "pids")?;
    let of = |folder: &Path| {
        let number = |file: &str| root.value::<u64>(folder.join(file), "a number").ok();
        // `max` is no number.
        let (most, used) = (number("pids.max")?, number("pids.current")?);
        let below = folder.strip_prefix(&mount).unwrap_or(folder);
        Some(Allowance {
            of: format!("in the cgroup {}", PathBuf::from("/").join(below).display()),
            setting: "pids.max",
            most,
            used,
            remedy: "raise its pids.max, or start corun in another cgroup",
        })
    };
    folders.iter().filter_map(|folder| of(folder)).min_by_key(Allowance::free)
}

/// This user's limit, if one applies. None applies to root, nor to a process with one of two capabilities.
fn of_user(root: &Root) -> Option<Allowance> {
    const SYS_ADMIN: u64 = 1 << 21;
    const SYS_RESOURCE: u64 = 1 << 24;
    let limits = root.read("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|l| l.strip_prefix("Max processes"))?;
    let most = line.split_whitespace().next()?.parse().ok()?;
    let uid: u32 = status_field(root, "Uid:")?.split_whitespace().next()?.parse().ok()?;
    let capabilities = u64::from_str_radix(status_field(root, "CapEff:")?.trim(), 16).unwrap_or(0);
    if uid == 0 || capabilities & (SYS_ADMIN | SYS_RESOURCE) != 0 {
        return None;
    }
    let is_own =
        |pid: &u32| std::fs::metadata(root.path(format!("/proc/{pid}"))).is_ok_and(|m| m.uid() == uid);
    let own = procfs::processes(root).ok()?.into_iter().filter(is_own);
    let used = own.map(|pid| procfs::tasks(root, pid).map_or(1, |tasks| tasks.len() as u64)).sum();
    Some(Allowance {
        of: "of this user".into(),
        setting: "`ulimit -u`",
        most,
        used,
        remedy: "raise it, or end what is not needed",
    })
}

/// The limit of the machine as a whole.
fn of_machine(root: &Root) -> Option<Allowance> {
    let of = |file: &str| root.value::<u64>(format!("/proc/sys/kernel/{file}"), "a number").ok();
    let most = of("threads-max")?.min(of("pid_max").unwrap_or(u64::MAX));
    let load = root.read("/proc/loadavg").ok()?;
    let used = load.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()?;
    Some(Allowance {
        of: "of this machine".into(),
        setting: "kernel.threads-max, kernel.pid_max",
        most,
        used,
        remedy: "raise these, or end what is not needed",
    })
}

#[cfg(test)]
mod tests;
