//! A tenant of a study as its own cgroup. Everything that its programs start stays in it. `corun control` gets its name before the
//! programs run, the kernel counts its CPU time, and it is removed at the end.
//!
//! The cgroups are at the top of the v2 tree. If that tree has the CPU controller, each is a scheduling group of the default weight. If
//! the controller is in a v1 tree, sessions are the groups (autogroup), and the cgroup only names and holds. [`layout`] returns which.
//! Needs root, or the right to make cgroups there.

use corun_linux::cgroup::Cgroups;
use corun_linux::{freezer, sched, Root};
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Prefix of the cgroup names.
const PREFIX: &str = "corun-study-";
/// The time that killed processes have to disappear.
const GOING: Duration = Duration::from_secs(5);

/// A tenant's cgroup. Dropping it ends its processes and removes it.
#[derive(Debug)]
pub struct TenantCgroup {
    name: String,
    folder: PathBuf,
}

impl TenantCgroup {
    /// Makes the cgroup of the tenant `name`.
    ///
    /// # Errors
    /// One sentence: there is no v2 tree, this user may not make cgroups, or another study runs.
    pub fn new(root: &Root, name: &str) -> Result<TenantCgroup, String> {
        let cgroups = Cgroups::discover(root).map_err(|e| e.to_string())?;
        let tree = cgroups
            .v2()
            .ok_or("no cgroup v2 tree is mounted, which the study needs to separate its tenants")?;
        let cgroup = TenantCgroup {
            name: format!("{PREFIX}{name}"),
            folder: root.path(tree.mount.join(format!("{PREFIX}{name}"))),
        };
        match fs::create_dir(&cgroup.folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                let folder = cgroup.folder.display().to_string();
                std::mem::forget(cgroup);
                Err(format!("cannot make the cgroup {folder}: {e}; run the study as root"))
            }
            made => {
                let others = freezer::processes_in(&cgroup.folder).unwrap_or_default();
                if made.is_err() && !others.is_empty() {
                    let why = format!("another study runs: {} has processes", cgroup.folder.display());
                    // Its processes belong to another study, so do not end them.
                    std::mem::forget(cgroup);
                    return Err(why);
                }
                Ok(cgroup)
            }
        }
    }

    /// Its name for `corun control --tenant`.
    pub fn key(&self) -> String {
        format!("cgroup:/{}", self.name)
    }

    /// Makes `command` join the cgroup before it executes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn hold(&self, command: &mut Command) -> io::Result<()> {
        let file = fs::OpenOptions::new().write(true).open(self.folder.join("cgroup.procs"))?;
        // SAFETY: between fork and exec the closure makes one system call, on a descriptor that it owns.
        unsafe {
            command.pre_exec(move || match libc::write(file.as_raw_fd(), c"0".as_ptr().cast(), 1) {
                1 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            })
        };
        Ok(())
    }

    /// CPU time of all processes that are or were in it, in nanoseconds.
    pub fn cpu_ns(&self) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join("cpu.stat")).ok()?;
        let us = text.lines().find_map(|l| l.strip_prefix("usage_usec "))?.trim().parse::<u64>().ok()?;
        Some(us * 1000)
    }

    /// Whether it, or a cgroup below it, is still frozen.
    pub fn is_frozen(&self) -> bool {
        let below = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|e| e.path());
        let mut all = below.filter(|p| p.is_dir()).chain([self.folder.clone()]);
        all.any(|folder| freezer::is_frozen(&folder).unwrap_or(false))
    }

    /// Ends all its processes and waits until they are gone.
    fn end(&self) {
        let begin = Instant::now();
        let _ = freezer::write_file(&self.folder.join("cgroup.kill"), "1");
        while freezer::processes_in(&self.folder).is_ok_and(|p| !p.is_empty()) && begin.elapsed() < GOING {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for TenantCgroup {
    fn drop(&mut self) {
        self.end();
        // A cgroup stays busy for a moment after its last process has gone.
        let begin = Instant::now();
        while fs::remove_dir(&self.folder).is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY))
            && begin.elapsed() < GOING
        {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// How the kernel shares the CPUs, in words.
pub fn layout(root: &Root) -> String {
    let cpu_for_cgroups = Cgroups::discover(root)
        .ok()
        .is_some_and(|cgroups| cgroups.v2().is_some_and(|tree| controls_cpu(&root.path(&tree.mount))));
    let groups = if cpu_for_cgroups {
        "every tenant is a cgroup of the default weight, and so one scheduling group"
    } else if sched::autogroups_are_on(root) {
        "every tenant is a cgroup without CPU controller; each of its programs, and each busy loop, is in a session of \
         its own, and so one scheduling group (autogroup)"
    } else {
        "every tenant is a cgroup without CPU controller and there are no autogroups: all tasks share alike"
    };
    groups.to_owned()
}

fn controls_cpu(mount: &Path) -> bool {
    fs::read_to_string(mount.join("cgroup.subtree_control"))
        .is_ok_and(|c| c.split(' ').any(|c| c.trim() == "cpu"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;

    #[test]
    fn a_tenant_holds_what_its_programs_start_and_leaves_nothing() {
        let root = Root::new("/");
        let tenant = match TenantCgroup::new(&root, "test") {
            Ok(tenant) => tenant,
            Err(why) => return println!("skipped: {why}"),
        };
        let folder = tenant.folder.clone();
        let mut command = Command::new("sh");
        // A grandchild in another session would outlive its parent's process group.
        command.args(["-c", "setsid sleep 600 & sleep 600"]);
        tenant.hold(&mut command).unwrap();
        let session = Session::start(command).unwrap();
        while freezer::processes_in(&folder).unwrap().len() < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(TenantCgroup::new(&root, "test").unwrap_err().contains("another study runs"));
        assert!(!tenant.is_frozen() && tenant.cpu_ns().is_some());
        freezer::set_frozen(&folder, true).unwrap();
        assert!(tenant.is_frozen());
        let pids = freezer::processes_in(&folder).unwrap();
        drop(tenant);
        drop(session);
        assert!(!folder.exists());
        let lives = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|s| s.contains("(sleep)") && !s.contains(") Z"))
        };
        assert!(!pids.iter().any(lives), "somebody outlived the tenant");
    }
}
