//! The cgroup v2 freezer, and transient cgroups to freeze what has no cgroup of its own.
//!
//! Writing `cgroup.freeze` stops a cgroup with all that is below it and all that is born there; nobody but who looks
//! at `cgroup.events` can tell, parents and terminals included. When the write returns, every task of it has been sent
//! to the trap on its way to user space: those that run get there within tens of microseconds, those that wait or
//! sleep execute no user code before. `cgroup.events` says so later than it is so; nobody waits for it here.
//!
//! A **transient cgroup** is a child of the cgroup that its processes are in anyway. The v2 tree enables controllers
//! for the children of a cgroup, and a cgroup that has processes enables none (the root aside, which is checked), so
//! a transient cgroup has none: being in it changes nobody's CPU share, memory or limits, only that it can be
//! frozen. The first move of a process takes the kernel some 12 ms (an RCU grace period), each further one 10 µs.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the names of transient cgroups begin; [`crate::naming`] looks through them.
pub const TRANSIENT_PREFIX: &str = "corun-park.";

/// Writes to a control file, which must be there already.
///
/// # Errors
/// What the kernel says.
pub fn write_file(path: &Path, value: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

/// Whether a cgroup was itself told to freeze (not an ancestor of it).
///
/// # Errors
/// `NotFound` when there is no such cgroup, or it has no freezer (the root, Linux before 5.2).
pub fn is_frozen(folder: &Path) -> io::Result<bool> {
    Ok(fs::read_to_string(folder.join("cgroup.freeze"))?.trim() == "1")
}

/// Freezes or thaws a cgroup.
///
/// # Errors
/// What the kernel says: `EACCES` without the right to write there.
pub fn set_frozen(folder: &Path, frozen: bool) -> io::Result<()> {
    write_file(&folder.join("cgroup.freeze"), if frozen { "1" } else { "0" })
}

/// The processes of a cgroup itself, not of those below.
///
/// # Errors
/// What the kernel says: `EOPNOTSUPP` for a threaded cgroup.
pub fn processes_in(folder: &Path) -> io::Result<Vec<u32>> {
    Ok(fs::read_to_string(folder.join("cgroup.procs"))?.lines().filter_map(|l| l.parse().ok()).collect())
}

/// Moves a process with all its threads into a cgroup.
///
/// # Errors
/// What the kernel says: `ESRCH` when the process has gone.
pub fn move_into(folder: &Path, pid: u32) -> io::Result<()> {
    write_file(&folder.join("cgroup.procs"), &pid.to_string())
}

/// Whether a child of this cgroup would have the same controllers as the cgroup itself, and so change nothing.
pub fn may_have_transient_child(folder: &Path) -> bool {
    let none_for_children =
        fs::read_to_string(folder.join("cgroup.subtree_control")).is_ok_and(|c| c.trim().is_empty());
    // The root has no type: it is a domain.
    let is_domain = fs::read_to_string(folder.join("cgroup.type")).map_or(true, |t| t.trim() == "domain");
    none_for_children && is_domain
}

/// The name of this process's `number`th transient cgroup below `parent`.
pub fn transient_child(parent: &Path, number: u64) -> PathBuf {
    parent.join(format!("{TRANSIENT_PREFIX}{}.{number}", std::process::id()))
}

/// Whether a folder is a transient cgroup of corun's, whichever corun made it.
pub fn is_transient(folder: &Path) -> bool {
    folder.file_name().is_some_and(|n| n.to_string_lossy().starts_with(TRANSIENT_PREFIX))
}

/// Thaws a transient cgroup, gives its processes back to its parent and removes it. One that has gone is no error.
///
/// # Errors
/// The first thing that the kernel refuses.
pub fn dissolve(folder: &Path) -> io::Result<()> {
    let gone = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    match set_frozen(folder, false) {
        Err(e) if gone(&e) => return Ok(()),
        other => other?,
    }
    let Some(parent) = folder.parent().filter(|_| is_transient(folder)) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a transient cgroup of corun's"));
    };
    // Whoever forks while the list is read leaves a child behind, and whoever is just ending is in no list but still
    // in the cgroup for a moment: both are found by looking again.
    let mut refused = io::Error::from_raw_os_error(libc::EBUSY);
    for _ in 0..200 {
        for pid in processes_in(folder)? {
            match move_into(parent, pid) {
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                other => other?,
            }
        }
        match fs::remove_dir(folder) {
            Err(e) if gone(&e) => return Ok(()),
            Err(e) => refused = e,
            Ok(()) => return Ok(()),
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Err(refused)
}
