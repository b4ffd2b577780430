//! Cgroups: the mounted trees, the cgroups of a task, and the ids of the v2 tree.
//!
//! Method: `/proc/self/mountinfo` lists the mounts. So v2 alone, v1 alone and a hybrid of both are read
//! alike. (On a hybrid machine the v2 tree is somewhere below `/sys/fs/cgroup`, without controllers.) A
//! cgroup's id is the inode number of its folder in the v2 tree, which is what `bpf_get_current_cgroup_id`
//! returns.
//!
//! Limits: in a cgroup namespace only the mounted part of a tree is visible. Paths from `/proc/PID/cgroup`
//! that lie outside it have no folder here.

pub mod cpuset;
pub mod paths;
pub mod quota;

use crate::naming::{self, TenantName};
use crate::root::{ReadError, Root};
use corun_model::TenantKind;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The generation of a tree, which also determines the names of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy of several; its controllers, or `name=systemd` for one without.
    V1 {
        /// `["cpu", "cpuacct"]`.
        controllers: Vec<String>,
    },
    /// The unified hierarchy, with its controllers (often none on a hybrid machine).
    V2 {
        /// `["cpu", "io", "memory"]`.
        controllers: Vec<String>,
    },
}

/// One mounted cgroup hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Its generation and controllers.
    pub version: Version,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The cgroup that is mounted there: `/`, unless a container sees only its own.
    pub mounted: String,
}

impl Tree {
    /// Whether this is the v2 tree.
    pub fn is_v2(&self) -> bool {
        matches!(self.version, Version::V2 { .. })
    }

    /// Whether the tree has a controller, such as `cpu` or `freezer`.
    pub fn has_controller(&self, name: &str) -> bool {
        let (Version::V1 { controllers } | Version::V2 { controllers }) = &self.version;
        controllers.iter().any(|c| c == name)
    }

    /// The path of a cgroup as in `/proc/PID/cgroup`, given its folder; `None` if that is not in this tree. If a
    /// name is not UTF-8, the path has replacement characters.
    pub fn path_of(&self, folder: &Path) -> Option<String> {
        let below = folder.strip_prefix(&self.mount).ok()?.to_string_lossy();
        Some(match (self.mounted.as_str(), &*below) {
            (mounted, "") => mounted.to_owned(),
            ("/", below) => format!("/{below}"),
            (mounted, below) => format!("{mounted}/{below}"),
        })
    }

    /// The folder of a cgroup, given its path as in `/proc/PID/cgroup`; `None` if it lies outside the mounted
    /// part. If a name is not UTF-8, its path has replacement characters. The folder is then the one whose
    /// displayed name matches.
    pub fn folder(&self, path: &str) -> Option<PathBuf> {
        let below = match self.mounted.as_str() {
            "/" => path,
            mounted => path.strip_prefix(mounted).filter(|b| b.is_empty() || b.starts_with('/'))?,
        };
        let names = below.trim_start_matches('/').split('/');
        Some(names.fold(
            self.mount.clone(),
            |folder, name| match name.contains(char::REPLACEMENT_CHARACTER) {
                true => shown_as(&folder, name).unwrap_or_else(|| folder.join(name)),
                false => folder.join(name),
            },
        ))
    }
}

/// The entry of a folder that is displayed as `name`.
fn shown_as(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(folder).ok()?.flatten();
    entries.find(|entry| entry.file_name().to_string_lossy() == name).map(|entry| entry.path())
}

/// A cgroup of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its path with a leading slash; the root is `/`.
    pub path: String,
    /// The inode number of its folder: on the v2 tree, its id.
    pub id: u64,
}

/// The cgroup trees of this machine.
#[derive(Clone, Debug)]
pub struct Cgroups {
    root: Root,
    trees: Vec<Tree>,
}

impl Cgroups {
    /// Finds the mounted trees. On a machine without cgroups the result is empty; that is no error.
    ///
    /// # Errors
    /// [`ReadError`] when `/proc/self/mountinfo` cannot be read.
    pub fn discover(root: &Root) -> Result<Cgroups, ReadError> {
        let mountinfo = root.read("/proc/self/mountinfo")?;
        let mut trees: Vec<Tree> = Vec::new();
        for mut tree in mountinfo.lines().filter_map(tree_of_mount) {
            if let Version::V2 { controllers } = &mut tree.version {
                let available = root.read_if_there(tree.mount.join("cgroup.controllers"))?;
                *controllers = available.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
            }
            // A tree that is mounted twice (for a container, say) counts once: the mount that shows all of it
            // counts.
            match trees.iter_mut().find(|t| t.version == tree.version) {
                Some(known) if known.mounted.len() > tree.mounted.len() => *known = tree,
                Some(_) => {}
                None => trees.push(tree),
            }
        }
        Ok(Cgroups { root: root.clone(), trees })
    }

    /// All trees, in the order of their mounts.
    pub fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// The v2 tree, if it is mounted.
    pub fn v2(&self) -> Option<&Tree> {
        self.trees.iter().find(|t| t.is_v2())
    }

    /// The tree that has a controller.
    pub fn with_controller(&self, name: &str) -> Option<&Tree> {
        self.trees.iter().find(|t| t.has_controller(name))
    }

    /// The trees in the order in which their paths identify tenants: v2, then systemd's, then the CPU
    /// controller's, then the rest.
    pub fn by_telling(&self) -> Vec<&Tree> {
        let rank = |t: &Tree| match &t.version {
            Version::V2 { .. } => 0,
            Version::V1 { controllers } => rank(controllers),
        };
        let mut trees: Vec<&Tree> = self.trees.iter().collect();
        trees.sort_by_key(|t| rank(t));
        trees
    }

    /// The id of a cgroup: the inode number of its folder.
    ///
    /// # Errors
    /// [`ReadError`] if there is no such cgroup, or it lies outside the mounted part.
    pub fn id(&self, tree: &Tree, path: &str) -> Result<u64, ReadError> {
        let outside = || ReadError::Io { path: PathBuf::from(path), source: ErrorKind::NotFound.into() };
        let folder = self.root.path(tree.folder(path).ok_or_else(outside)?);
        match std::fs::metadata(&folder) {
            Ok(m) => Ok(m.ino()),
            Err(source) => Err(ReadError::Io { path: folder, source }),
        }
    }

    /// Every cgroup of a tree, parents before children, siblings by name. Cgroups that vanish meanwhile are
    /// left out.
    ///
    /// # Errors
    /// [`ReadError`] if the tree's mount itself cannot be read.
    pub fn walk(&self, tree: &Tree) -> Result<Vec<Node>, ReadError> {
        self.walk_at_most(tree, usize::MAX)
    }

    /// The same, but at most this many cgroups, those near the root first.
    ///
    /// # Errors
    /// As [`walk`](Cgroups::walk).
    pub fn walk_at_most(&self, tree: &Tree, most: usize) -> Result<Vec<Node>, ReadError> {
        let top = self.root.path(&tree.mount);
        let id = std::fs::metadata(&top).map_err(|source| ReadError::Io { path: top.clone(), source })?.ino();
        let mut found = vec![Node { path: tree.mounted.clone(), id }];
        let mut to_visit = VecDeque::from([(top, tree.mounted.clone())]);
        while let Some((folder, path)) = to_visit.pop_front().filter(|_| found.len() < most) {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = format!("{}/{name}", path.trim_end_matches('/'));
                found.push(Node { path: path.clone(), id: entry.ino() });
                to_visit.push_back((entry.path(), path));
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// The processes in a cgroup and in those below it, by PID.
    ///
    /// # Errors
    /// [`ReadError`] if there is no such cgroup.
    pub fn processes(&self, tree: &Tree, path: &str) -> Result<Vec<u32>, ReadError> {
        self.id(tree, path)?;
        let below = Tree {
            mount: tree.folder(path).unwrap_or_else(|| tree.mount.clone()),
            mounted: path.to_owned(),
            ..tree.clone()
        };
        let mut pids = Vec::new();
        for node in self.walk(&below)? {
            let Some(folder) = tree.folder(&node.path) else { continue };
            // A threaded cgroup has no list of processes; its parent lists its threads.
            let Ok(listed) = self.root.read(folder.join("cgroup.procs")) else { continue };
            pids.extend(listed.lines().filter_map(|l| l.trim().parse::<u32>().ok()).filter(|&p| p != 0));
        }
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }
}

/// Reads one line of mountinfo; `None` for anything but a cgroup mount.
fn tree_of_mount(line: &str) -> Option<Tree> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (mounted, mount) = (unescape_octal(before.next()?), unescape_octal(before.next()?));
    let mut after = after.split(' ');
    let (kind, _source, options) = (after.next()?, after.next()?, after.next().unwrap_or_default());
    let version = match kind {
        "cgroup2" => Version::V2 { controllers: Vec::new() },
        "cgroup" => {
            let no_controller = [
                "rw",
                "ro",
                "xattr",
                "noprefix",
                "clone_children",
                "cpuset_v2_mode",
                "none",
                "seclabel",
                "sync",
                "dirsync",
                "mand",
                "lazytime",
            ];
            let controllers = options
                .split(',')
                .filter(|o| !no_controller.contains(o) && (!o.contains('=') || o.starts_with("name=")))
                .map(str::to_owned)
                .collect();
            Version::V1 { controllers }
        }
        _ => return None,
    };
    Some(Tree { version, mount: PathBuf::from(mount), mounted })
}

/// Undoes the `\040` escapes of mountinfo.
fn unescape_octal(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = if first == b'\\' { tail.get(..3) } else { None };
        match digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The cgroup of a task in every tree, from `/proc/PID/cgroup`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Controllers (empty for v2) and path.
    paths: Vec<(Vec<String>, String)>,
}

impl Membership {
    /// Reads a task's membership; `of` is its folder under `/proc`, such as `/proc/12` or `/proc/12/task/13`.
    ///
    /// # Errors
    /// [`ReadError`] when the task has gone.
    pub fn read(root: &Root, of: impl AsRef<Path>) -> Result<Membership, ReadError> {
        Ok(Membership::parse(&root.read(of.as_ref().join("cgroup"))?))
    }

    /// Reads the lines `<number>:<controllers>:<path>`.
    pub fn parse(text: &str) -> Membership {
        let line = |line: &str| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let controllers = controllers.split(',').filter(|c| !c.is_empty()).map(str::to_owned).collect();
            Some((controllers, path.trim_end_matches(" (deleted)").to_owned()))
        };
        Membership { paths: text.lines().filter_map(line).collect() }
    }

    /// A membership from another source: controllers (none: the v2 tree) and path in every hierarchy.
    pub fn of(paths: Vec<(Vec<String>, String)>) -> Membership {
        Membership { paths }
    }

    /// The path in the v2 tree.
    pub fn v2(&self) -> Option<&str> {
        self.paths.iter().find(|(controllers, _)| controllers.is_empty()).map(|(_, path)| path.as_str())
    }

    /// The path in the v1 hierarchy of a controller.
    pub fn v1(&self, controller: &str) -> Option<&str> {
        let has = |controllers: &[String]| controllers.iter().any(|c| c == controller);
        self.paths.iter().find(|(controllers, _)| has(controllers)).map(|(_, path)| path.as_str())
    }

    /// The path in a tree.
    pub fn in_tree(&self, tree: &Tree) -> Option<&str> {
        match &tree.version {
            Version::V2 { .. } => self.v2(),
            Version::V1 { controllers } => controllers.iter().find_map(|c| self.v1(c)),
        }
    }

    /// The tenant that the cgroups identify, or `None`. The most specific one counts. If several are equally
    /// specific, the first in this order counts: the v2 tree, systemd's, the CPU controller's, the others. If
    /// v1 and v2 are both mounted, a container runtime makes cgroups in v1 alone, and in v2 all containers
    /// are in the daemon's unit. A plain cgroup counts as the tenant of whatever lies furthest below it in
    /// any hierarchy.
    pub fn tenant(&self) -> Option<TenantName> {
        self.tenant_seen_from(&Membership::default())
    }

    /// The same, as seen by a process that is a member of `own`. The plain cgroup that this process is in
    /// says nothing: it surrounds everybody here.
    pub fn tenant_seen_from(&self, own: &Membership) -> Option<TenantName> {
        let mut lines: Vec<&(Vec<String>, String)> = self.paths.iter().collect();
        lines.sort_by_key(|(controllers, _)| rank(controllers));
        let told = lines.into_iter().filter_map(|line| {
            let name = naming::of_cgroup(&line.1)?;
            (name.kind != TenantKind::Cgroup || !own.paths.contains(line)).then_some(name)
        });
        let told: Vec<TenantName> = told.collect();
        let best = told.iter().min_by_key(|name| naming::vagueness(name))?;
        let is_below =
            |name: &&TenantName| name.kind == TenantKind::Cgroup && is_within(&name.key, &best.key);
        let furthest = told.iter().filter(is_below).max_by_key(|name| name.key.len());
        Some(furthest.filter(|_| best.kind == TenantKind::Cgroup).unwrap_or(best).clone())
    }
}

/// The order in which hierarchies are considered, by their controllers.
fn rank(controllers: &[String]) -> usize {
    const FIRST: [&str; 6] = ["name=systemd", "cpu", "cpuset", "pids", "freezer", "memory"];
    match controllers {
        [] => 0,
        all => FIRST.iter().position(|name| all.iter().any(|c| c == name)).unwrap_or(FIRST.len()) + 1,
    }
}

/// A cgroup's path and those above it, except the root, which has no quota.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |p| p.rsplit_once('/').map(|(above, _)| above)).filter(|p| p.len() > 1)
}

/// Whether `path` is `ancestor` or lies below it.
pub fn is_within(path: &str, ancestor: &str) -> bool {
    ancestor == "/"
        || path.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
