//! Namespaces in which the data of eBPF mean something else.
//!
//! eBPF names tasks by their numbers on the machine, and times by the machine's clock. In a container with
//! its own PIDs the same numbers are other tasks, or none. A named process would seem to have no tasks, and
//! corun would steer somebody else. The kernel's first PID namespace has a well-known number. A separate
//! clock shows in its offset.

use crate::root::Root;
use std::io;
use std::path::{Path, PathBuf};

/// The first PID namespace (`PROC_PID_INIT_INO`).
const FIRST_PIDS: &str = "pid:[4026531836]";

/// Why this process cannot use the data of eBPF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceMismatch {
    /// As a clause.
    pub why: &'static str,
    /// What would help.
    pub remedy: &'static str,
}

/// Whether the PIDs that this process sees belong to a namespace of its own, so that processes outside it are
/// invisible.
pub fn has_own_pids(root: &Root) -> bool {
    let pids = std::fs::read_link(root.path("/proc/self/ns/pid")).ok();
    pids.is_some_and(|pids| pids != Path::new(FIRST_PIDS))
}

/// Whether this process is separated from what eBPF reports; `None` if it is not, as far as can be
/// determined.
pub fn mismatch(root: &Root) -> Option<NamespaceMismatch> {
    if has_own_pids(root) {
        return Some(NamespaceMismatch {
            why: "this is a PID namespace of its own, in which tasks have other numbers than in eBPF",
            remedy: "give the container the host's PIDs (`--pid=host`)",
        });
    }
    let offsets = root.read("/proc/self/timens_offsets").unwrap_or_default();
    let monotonic = offsets.lines().find_map(|line| line.strip_prefix("monotonic"));
    let is_ahead = monotonic.is_some_and(|of| of.split_ascii_whitespace().any(|number| number != "0"));
    is_ahead.then_some(NamespaceMismatch {
        why: "this is a time namespace of its own, whose clock differs from eBPF's",
        remedy: "start corun outside of it",
    })
}

/// Why `/proc` does not show the processes that this one sees; `None` if it does, as far as can be
/// determined.
pub fn no_own_proc(root: &Root) -> Option<NamespaceMismatch> {
    why_no_own_proc(std::fs::read_link(root.path("/proc/self")), std::process::id(), root.has("/proc/stat"))
}

fn why_no_own_proc(own: io::Result<PathBuf>, pid: u32, is_mounted: bool) -> Option<NamespaceMismatch> {
    match own {
        Ok(own) if own != Path::new(&pid.to_string()) => Some(NamespaceMismatch {
            why: "/proc shows the processes of another PID namespace than corun is in",
            remedy: "mount its own (`mount -t proc proc /proc`, or `unshare --mount-proc`)",
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound && !is_mounted => Some(NamespaceMismatch {
            why: "/proc is not mounted here",
            remedy: "mount it (`mount -t proc proc /proc`)",
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(pids: &str, offsets: Option<&str>) -> Option<&'static str> {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("proc/self");
        std::fs::create_dir_all(own.join("ns")).unwrap();
        std::os::unix::fs::symlink(pids, own.join("ns/pid")).unwrap();
        if let Some(offsets) = offsets {
            std::fs::write(own.join("timens_offsets"), offsets).unwrap();
        }
        mismatch(&Root::new(dir.path())).map(|mismatch| mismatch.why)
    }

    #[test]
    fn the_entry_of_this_process_shows_whose_proc_it_is() {
        let why = |own, is_mounted| why_no_own_proc(own, 12, is_mounted).map(|mismatch| mismatch.why);
        assert_eq!(why(Ok("12".into()), true), None);
        assert!(why(Ok("4711".into()), true).is_some_and(|why| why.contains("another PID namespace")));
        let nothing = || Err(io::ErrorKind::NotFound.into());
        assert_eq!(why(nothing(), true), None);
        assert!(why(nothing(), false).is_some_and(|why| why.contains("not mounted")));
        assert_eq!(no_own_proc(&Root::new("/")), None, "of this test");
    }

    #[test]
    fn a_container_with_its_own_pids_or_clock_is_recognized() {
        let none = Some("monotonic           0         0\nboottime            0         0\n");
        let some = Some("monotonic      -86400         0\nboottime            0         0\n");
        assert_eq!((why(FIRST_PIDS, none), why(FIRST_PIDS, None)), (None, None));
        assert!(why("pid:[4026532201]", none).is_some_and(|why| why.contains("PID namespace")));
        assert!(why(FIRST_PIDS, some).is_some_and(|why| why.contains("time namespace")));
        assert_eq!(mismatch(&Root::new("/nowhere")), None);
    }
}
