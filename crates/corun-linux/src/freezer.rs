//! The cgroup freezer, and transient cgroups for processes that have no cgroup of their own.
//!
//! The v2 tree has a freezer in every cgroup except the root (`cgroup.freeze`). If only v1 is mounted, its
//! freezer hierarchy does the same (`freezer.state`), but its frozen tasks cannot even be killed before they
//! are thawed.
//!
//! Writing to it stops a cgroup with all that is below it and all that is created there. Parents and
//! terminals do not notice; only a reader of `cgroup.events` does. When the write returns, the kernel has
//! redirected every task to a trap on its way to user space. Running tasks get there within tens of
//! microseconds. Waiting and sleeping tasks execute no user code before it. `cgroup.events` reports the
//! freeze late; nobody waits for it here.
//!
//! A **transient cgroup** is a child of the cgroup that its processes are in already. A cgroup that has
//! processes enables no controllers for its children in v2 (except the root, which is checked). So a
//! transient cgroup has no controllers. Being in it changes nobody's CPU share, memory or limits; it only
//! makes freezing possible. Moving the first process takes the kernel about 12 ms (an RCU grace period); each
//! further one takes 10 µs.

use crate::cgroup::{Cgroups, Tree};
use crate::naming::TRANSIENT_PREFIX;
use crate::procfs;
use crate::root::Root;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// The tree whose cgroups can be frozen, v2 before v1.
pub fn tree(cgroups: &Cgroups) -> Option<&Tree> {
    cgroups.v2().or_else(|| cgroups.with_controller("freezer"))
}

/// Writes to a control file, which must exist.
///
/// # Errors
/// What the kernel says.
pub fn write_file(path: &Path, value: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

/// Whether a cgroup itself was told to freeze (not an ancestor of it).
///
/// # Errors
/// `NotFound` if there is no such cgroup, or it has no freezer (the root, Linux before 5.2).
pub fn is_frozen(folder: &Path) -> io::Result<bool> {
    let state = match fs::read_to_string(folder.join("cgroup.freeze")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            fs::read_to_string(folder.join("freezer.self_freezing"))?
        }
        other => other?,
    };
    Ok(state.trim() == "1")
}

/// Freezes or thaws a cgroup.
///
/// # Errors
/// The kernel's error: `EACCES` without the right to write there.
pub fn set_frozen(folder: &Path, frozen: bool) -> io::Result<()> {
    match write_file(&folder.join("cgroup.freeze"), if frozen { "1" } else { "0" }) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            write_file(&folder.join("freezer.state"), if frozen { "FROZEN" } else { "THAWED" })
        }
        other => other,
    }
}

/// The processes of a cgroup itself, not of those below.
///
/// # Errors
/// The kernel's error: `EOPNOTSUPP` for a threaded cgroup.
pub fn processes_in(folder: &Path) -> io::Result<Vec<u32>> {
    listed_in(&folder.join("cgroup.procs"))
}

/// The threads of a cgroup itself.
fn threads_in(folder: &Path) -> io::Result<Vec<u32>> {
    match listed_in(&folder.join("cgroup.threads")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => listed_in(&folder.join("tasks")),
        other => other,
    }
}

fn listed_in(file: &Path) -> io::Result<Vec<u32>> {
    Ok(fs::read_to_string(file)?.lines().filter_map(|l| l.parse().ok()).collect())
}

/// Moves a process with all its threads into a cgroup; one of the threads is given.
///
/// # Errors
/// The kernel's error: `ESRCH` if the process has gone.
pub fn move_into(folder: &Path, thread: u32) -> io::Result<()> {
    write_file(&folder.join("cgroup.procs"), &thread.to_string())
}

/// Whether a child of this cgroup would have the same controllers, so that moving into it changes nothing.
pub fn may_have_transient_child(folder: &Path) -> bool {
    // Each v1 hierarchy has its controllers everywhere, and that of the freezer has no others.
    let is_v1 = !folder.join("cgroup.controllers").exists() && folder.join("tasks").exists();
    let none_for_children =
        fs::read_to_string(folder.join("cgroup.subtree_control")).is_ok_and(|c| c.trim().is_empty());
    // The root has no type: it is a domain.
    let is_domain = fs::read_to_string(folder.join("cgroup.type")).map_or(true, |t| t.trim() == "domain");
    is_v1 || none_for_children && is_domain
}

/// The name of this process's `number`th transient cgroup below `parent`. It names its creator by PID and
/// start time, since somebody else may get the PID later.
pub fn transient_child(parent: &Path, number: u64) -> PathBuf {
    static START_NS: OnceLock<u64> = OnceLock::new();
    let pid = std::process::id();
    let start_ns =
        START_NS.get_or_init(|| procfs::process_stat(&Root::new("/"), pid).map_or(0, |s| s.start_ns));
    parent.join(format!("{TRANSIENT_PREFIX}{pid}.{start_ns}.{number}"))
}

/// Whether the creator of a transient cgroup is alive. If that cannot be determined, the answer is yes.
pub fn maker_lives(root: &Root, folder: &Path) -> bool {
    let name = folder.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    let mut numbers = name.strip_prefix(TRANSIENT_PREFIX).into_iter().flat_map(|n| n.split('.'));
    let mut number = || numbers.next()?.parse::<u64>().ok();
    let (Some(pid), Some(start_ns)) = (number().and_then(|pid| u32::try_from(pid).ok()), number()) else {
        return false;
    };
    procfs::lives(root, pid, start_ns).unwrap_or(true)
}

/// Whether a folder is a transient cgroup of any corun.
pub fn is_transient(folder: &Path) -> bool {
    folder.file_name().is_some_and(|n| n.to_string_lossy().starts_with(TRANSIENT_PREFIX))
}

/// Thaws a transient cgroup, returns its processes to its parent and removes it. A cgroup that has gone is no
/// error.
///
/// # Errors
/// The first refusal of the kernel.
pub fn dissolve(folder: &Path) -> io::Result<()> {
    let gone = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    let Some(parent) = folder.parent().filter(|_| is_transient(folder)) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a transient cgroup of corun's"));
    };
    match set_frozen(folder, false) {
        Err(e) if gone(&e) => return Ok(()),
        other => other?,
    }
    // A process that forks while the list is read leaves a child behind. A process that is just ending is in
    // no list but still in the cgroup for a moment. A second look finds both.
    let mut refused = io::Error::from_raw_os_error(libc::EBUSY);
    for _ in 0..200 {
        let mut listed = processes_in(folder)?;
        if listed.is_empty() {
            // A process that came after its first thread had ended is not among the processes.
            listed = threads_in(folder)?;
        }
        for thread in listed {
            match move_into(parent, thread) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn may_freeze(folder: &Path) -> bool {
        std::fs::create_dir(folder).and_then(|()| std::fs::remove_dir(folder)).is_ok()
    }

    #[test]
    fn either_generation_freezes_a_process_in_a_transient_cgroup_and_gives_it_back() {
        let cgroups = Cgroups::discover(&Root::new("/")).unwrap();
        let mounts = [cgroups.v2(), cgroups.with_controller("freezer")];
        for mount in mounts.into_iter().flatten().map(|t| t.mount.clone()) {
            let folder = transient_child(&mount, 1_000_000);
            if !may_have_transient_child(&mount) || !may_freeze(&folder) {
                println!("skipped: no transient cgroup can be made below {}", mount.display());
                continue;
            }
            std::fs::create_dir(&folder).unwrap();
            let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            move_into(&folder, sleeper.id()).unwrap();
            set_frozen(&folder, true).unwrap();
            assert!(is_frozen(&folder).unwrap());
            assert_eq!(processes_in(&folder).unwrap(), [sleeper.id()]);
            dissolve(&folder).unwrap();
            assert!(!folder.exists());
            assert!(processes_in(&mount).unwrap().contains(&sleeper.id()));
            sleeper.kill().unwrap();
            sleeper.wait().unwrap();
        }
    }

    #[test]
    fn a_process_that_reuses_the_number_of_a_transient_cgroups_creator_is_not_its_creator() {
        let root = Root::new("/");
        let own = transient_child(Path::new("/x"), 1);
        assert!(maker_lives(&root, &own));
        let (pid, start_ns) =
            (std::process::id(), procfs::process_stat(&root, std::process::id()).unwrap().start_ns);
        let named = |pid, start_ns| PathBuf::from(format!("/x/{TRANSIENT_PREFIX}{pid}.{start_ns}.1"));
        assert_eq!(named(pid, start_ns), own);
        assert!(!maker_lives(&root, &named(pid, start_ns + procfs::TICK_NS)));
        assert!(!maker_lives(&root, &named(u32::MAX, start_ns)));
        let dir = tempfile::tempdir().unwrap();
        // A folder can be opened, but not read as a file.
        fs::create_dir_all(dir.path().join(format!("proc/{pid}/stat"))).unwrap();
        assert!(maker_lives(&Root::new(dir.path()), &own), "nobody can tell");
    }

    #[test]
    fn only_a_transient_cgroup_is_dissolved() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("cgroup.freeze"), "1").unwrap();
        let e = dissolve(dir.path()).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::InvalidInput);
        assert!(dir.path().exists());
    }
}
