//! From a cgroup's number to its path, with the kernel's own numbers.
//!
//! Method: the kernel opens a cgroup by its number (`open_by_handle_at`, the way an NFS server opens files),
//! and the path of the opened folder is the cgroup's path. That takes a few microseconds however many cgroups
//! there are. If it is not allowed (without CAP_DAC_READ_SEARCH), the tree is walked instead: rarely, and
//! with a limit.
//!
//! Numbers are never reused, so a result stays valid. A cgroup that has been removed has no path any more.

use super::{Cgroups, Tree};
use crate::root::Root;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// This many paths are remembered; beyond that, all are looked up again.
const MOST_KNOWN: usize = 1 << 16;
/// A walk visits at most this many cgroups.
pub const MOST_WALKED: usize = 1 << 15;
/// After a walk, the next one waits this long for every cgroup that it found, and at least [`REST`].
const REST_PER_CGROUP: Duration = Duration::from_micros(500);
const REST: Duration = Duration::from_secs(1);

/// The v2 tree, among the numbers of hierarchies.
pub const V2: u32 = 0;

/// Paths by number.
#[derive(Debug)]
pub struct Paths {
    root: Root,
    cgroups: Cgroups,
    /// The trees by the kernel's numbers of hierarchies, each with its mount once it was needed.
    trees: Vec<(u32, Tree, Option<File>)>,
    known: HashMap<(u32, u64), Option<String>>,
    /// Whether the kernel opens cgroups by their numbers.
    opens: bool,
    walk_due: Instant,
    /// How often a cgroup was looked up: the cost of [`Paths`].
    looks: u64,
}

impl Paths {
    /// Knows no path yet.
    pub fn new(root: &Root, cgroups: &Cgroups) -> Paths {
        // `4:memory:/a`; the v2 tree, which has no controllers there, is number 0.
        let own = root.read("/proc/self/cgroup").unwrap_or_default();
        let numbered = |line: &str| {
            let (number, rest) = line.split_once(':')?;
            Some((number.parse::<u32>().ok()?, rest.split_once(':')?.0.to_owned()))
        };
        let numbers: Vec<(u32, String)> = own.lines().filter_map(numbered).collect();
        let number_of = |tree: &Tree| {
            let has = |controllers: &str| controllers.split(',').any(|c| tree.has_controller(c));
            if tree.is_v2() {
                return Some(V2);
            }
            numbers.iter().find(|(number, controllers)| *number != V2 && has(controllers)).map(|(n, _)| *n)
        };
        let trees = cgroups.trees().iter().filter_map(|t| Some((number_of(t)?, t.clone(), None))).collect();
        Paths {
            root: root.clone(),
            cgroups: cgroups.clone(),
            trees,
            known: HashMap::new(),
            opens: root.path("/") == Path::new("/"),
            walk_due: Instant::now(),
            looks: 0,
        }
    }

    /// The tree of a hierarchy, if it is mounted.
    pub fn tree(&self, hierarchy: u32) -> Option<&Tree> {
        self.trees.iter().find(|(number, ..)| *number == hierarchy).map(|(_, tree, _)| tree)
    }

    /// How often an unknown cgroup was looked up.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// The path of a cgroup, as in `/proc/PID/cgroup`; `None` if it has gone, lies outside what is mounted
    /// here, or cannot be looked up now.
    pub fn path(&mut self, hierarchy: u32, id: u64) -> Option<String> {
        if let Some(known) = self.known.get(&(hierarchy, id)) {
            return known.clone();
        }
        self.looks += 1;
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        if self.opens {
            match self.open(hierarchy, id) {
                Ok(path) => {
                    self.known.insert((hierarchy, id), path.clone());
                    return path;
                }
                Err(e) if is_refused(&e) => self.opens = false,
                // Out of descriptors, say: another time.
                Err(_) => return None,
            }
        }
        self.walk(hierarchy);
        self.known.get(&(hierarchy, id)).cloned().flatten()
    }

    /// Asks the kernel.
    fn open(&mut self, hierarchy: u32, id: u64) -> io::Result<Option<String>> {
        let Some((_, tree, mount)) = self.trees.iter_mut().find(|(number, ..)| *number == hierarchy) else {
            return Ok(None);
        };
        let top = match mount {
            Some(top) => top,
            None => mount.insert(File::open(&tree.mount)?),
        };
        let opened = match open_by_number(top, id) {
            Ok(opened) => opened,
            Err(e) if matches!(e.raw_os_error(), Some(libc::ESTALE | libc::ENOENT)) => return Ok(None),
            Err(e) => return Err(e),
        };
        let found = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()))?;
        Ok(tree.path_of(&found))
    }

    fn walk(&mut self, hierarchy: u32) {
        let now = Instant::now();
        let Some(tree) = self.tree(hierarchy).filter(|_| now >= self.walk_due).cloned() else { return };
        let nodes = self.cgroups.walk_at_most(&tree, MOST_WALKED).unwrap_or_default();
        // In a folder of fixtures nothing is too expensive.
        if self.root.path("/") == Path::new("/") {
            self.walk_due = now + REST.max(REST_PER_CGROUP * nodes.len() as u32);
        }
        self.known.extend(nodes.into_iter().map(|node| ((hierarchy, node.id), Some(node.path))));
    }
}

/// Whether the kernel opens nothing by number here, now or later.
fn is_refused(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::EOVERFLOW)
    )
}

/// Opens a folder of a cgroup tree by its number.
fn open_by_number(mount: &File, id: u64) -> io::Result<OwnedFd> {
    /// As the kernel names cgroups (`FILEID_KERNFS`).
    const KERNFS: libc::c_int = 0xfe;
    #[repr(C)]
    struct Handle {
        bytes: libc::c_uint,
        kind: libc::c_int,
        id: [u8; 8],
    }
    let mut handle = Handle { bytes: 8, kind: KERNFS, id: id.to_ne_bytes() };
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the handle says how long it is, and outlives the call; on success the descriptor is open and nobody else's.
    unsafe {
        match libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut handle).cast(), flags) {
            -1 => Err(io::Error::last_os_error()),
            opened => Ok(OwnedFd::from_raw_fd(opened)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_found_by_its_number_in_every_tree_of_this_machine_unless_it_has_gone() {
        let root = Root::new("/");
        let Ok(cgroups) = Cgroups::discover(&root) else { return println!("skipped: no cgroups") };
        let mut paths = Paths::new(&root, &cgroups);
        let mut tried = 0;
        for (number, tree, _) in paths.trees.iter().map(|(n, t, _)| (*n, t.clone(), ())).collect::<Vec<_>>() {
            let name = format!("corun-paths-{}", std::process::id());
            let folder = tree.mount.join(&name);
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let id = cgroups.id(&tree, &format!("{}/{name}", tree.mounted.trim_end_matches('/')));
            let found = id.as_ref().ok().and_then(|id| paths.path(number, *id));
            std::fs::remove_dir(&folder).unwrap();
            assert!(found.is_some_and(|path| path.ends_with(&name)), "{tree:?}");
            let gone = Paths::new(&root, &cgroups).path(number, id.unwrap());
            assert_eq!(gone, None);
            tried += 1;
        }
        if tried == 0 {
            println!("skipped: no cgroup can be made here");
        }
    }

    #[test]
    fn a_known_path_is_not_looked_up_again() {
        let root = Root::new("/");
        let Ok(cgroups) = Cgroups::discover(&root) else { return println!("skipped: no cgroups") };
        let mut paths = Paths::new(&root, &cgroups);
        for _ in 0..1_000 {
            paths.path(V2, 1);
            paths.path(V2, u64::MAX >> 9);
        }
        assert!(paths.looks() <= 2 || !paths.opens, "{}", paths.looks());
    }
}
