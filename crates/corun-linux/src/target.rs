//! What a user names: a command, PIDs, a cgroup, a virtual machine, everything.
//!
//! A cgroup is found by its path, by the end of its path (`nginx.service`), or by its name in a report
//! (`docker 0123456789ab`, the start of a container's id, `pod shop/web-0`). The trees are searched in order:
//! v2, then systemd's, then the rest. Virtual machines have a file of their own (`target/vm.rs`).

use crate::cgroup::{self, Cgroups, Membership};
use crate::family::Family;
use crate::namespaces;
use crate::naming::{self, TenantName};
use crate::pods;
use crate::procfs;
use crate::program;
use crate::root::{ReadError, Root};
use corun_model::tenant::is_id_of;
use corun_model::TenantKind;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

mod vm;

pub use vm::is_vcpu;

/// What to watch. A host makes the tasks of a subject a tenant of their own, whatever cgroup they are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A command that corun started, followed from its first instruction, with all its descendants.
    Command {
        /// The child's PID.
        pid: u32,
        /// Its name: the command's name without its folder.
        name: String,
    },
    /// Processes that already run, with all their threads, and their descendants present and future.
    Processes {
        /// The PIDs (thread group leaders), at least one.
        roots: Vec<u32>,
        /// Their name: the comm of the first.
        name: String,
    },
    /// All tasks in a cgroup and in those below it, present and future.
    Cgroup {
        /// The mount point of the tree that it was found in: `/sys/fs/cgroup`.
        mount: PathBuf,
        /// Its path in that tree, with a leading slash.
        path: String,
        /// Its folder, for as long as it exists.
        folder: PathBuf,
        /// Its id in the v2 tree (the inode number of its folder), as `bpf_get_current_cgroup_id` returns it;
        /// `None` if the tree is a v1 hierarchy.
        v2_id: Option<u64>,
    },
    /// A virtual machine: its vCPUs are the subject, its other threads are a separate tenant.
    Vm {
        /// The process that runs it.
        pid: u32,
        /// Its name, or `vm <pid>` if it has none.
        name: String,
        /// Threads that run guest code.
        vcpus: Vec<u32>,
        /// Its other threads, and kernel threads that work for it (vhost).
        io: Vec<u32>,
    },
    /// Everybody: no tenant is the subject.
    All,
}

impl Subject {
    /// The subject's tenant; `None` for [`Subject::All`].
    pub fn tenant(&self) -> Option<TenantName> {
        let command = |pid: u32, name: &str| TenantName {
            kind: TenantKind::Command,
            key: format!("pid:{pid}"),
            name: name.to_owned(),
            detail: None,
        };
        match self {
            Subject::Command { pid, name } => Some(command(*pid, name)),
            Subject::Processes { roots, name } => Some(command(*roots.first()?, name)),
            Subject::Cgroup { path, .. } => Some(naming::of_cgroup(path).unwrap_or_else(|| TenantName {
                kind: TenantKind::Cgroup,
                key: format!("cgroup:{path}"),
                name: path.clone(),
                detail: None,
            })),
            Subject::Vm { name, .. } => Some(naming::of_vm(name)),
            Subject::All => None,
        }
    }

    /// The tenant of a virtual machine's I/O threads; `None` for any other subject.
    pub fn io_tenant(&self) -> Option<TenantName> {
        match self {
            Subject::Vm { name, .. } => Some(naming::of_vm_io(name)),
            _ => None,
        }
    }

    /// Whether a cgroup has been removed. A cgroup that is only empty is not over: a service may restart, and
    /// its new processes are the subject. For other subjects, their tasks decide.
    pub fn is_removed(&self, root: &Root) -> bool {
        let Subject::Cgroup { folder, .. } = self else { return false };
        std::fs::metadata(root.path(folder)).is_err_and(|e| e.kind() == ErrorKind::NotFound)
    }

    /// Whether it is a cgroup with a process in it or below it.
    pub fn has_process(&self, root: &Root, pid: u32) -> bool {
        let Subject::Cgroup { mount, path, .. } = self else { return false };
        let tree =
            Cgroups::discover(root).ok().and_then(|c| c.trees().iter().find(|t| t.mount == *mount).cloned());
        let membership = Membership::read(root, format!("/proc/{pid}")).ok();
        let at = membership.as_ref().zip(tree.as_ref()).and_then(|(m, tree)| m.in_tree(tree));
        at.is_some_and(|at| cgroup::is_within(at, path))
    }

    /// Whether it is an empty cgroup, as far as can be determined.
    pub fn is_deserted(&self, root: &Root) -> bool {
        let Subject::Cgroup { folder, .. } = self else { return false };
        if let Ok(events) = root.read(folder.join("cgroup.events")) {
            return events.lines().any(|line| line == "populated 0");
        }
        // Only the v2 tree has this information.
        self.in_cgroup(root).is_ok_and(|pids| pids.is_some_and(|pids| pids.is_empty()))
    }

    /// The processes in it and in those below it, by PID, if it is a cgroup; `None` if it is not, or its tree
    /// is not mounted any more.
    ///
    /// # Errors
    /// [`ReadError`] if there is no such cgroup.
    pub fn in_cgroup(&self, root: &Root) -> Result<Option<Vec<u32>>, ReadError> {
        let Subject::Cgroup { mount, path, .. } = self else { return Ok(None) };
        let cgroups = Cgroups::discover(root)?;
        let tree = cgroups.trees().iter().find(|t| t.mount == *mount);
        tree.map(|tree| cgroups.processes(tree, path)).transpose()
    }
}

/// The user named something that cannot be watched. Each says what would help.
#[derive(Debug, Error)]
pub enum TargetError {
    /// There is no such process.
    #[error("no process {pid}{}; `ps -e` lists them", if *has_own_pids { " in this PID namespace" } else { "" })]
    NoProcess {
        /// The PID given.
        pid: u32,
        /// Whether there are processes outside this PID namespace.
        has_own_pids: bool,
    },
    /// The number is a thread's.
    #[error("{tid} is a thread of process {pid}; give the process: {pid}")]
    IsThread {
        /// The TID given.
        tid: u32,
        /// Its process.
        pid: u32,
    },
    /// The process has ended and only waits to be collected by its parent.
    #[error("process {pid} ({comm}) has ended already")]
    Ended {
        /// The PID given.
        pid: u32,
        /// Its name.
        comm: String,
    },
    /// No cgroup tree is mounted.
    #[error("no cgroup tree is mounted here, so there is no cgroup `{name}`; watch processes by their PIDs")]
    NoTrees {
        /// The requested name.
        name: String,
    },
    /// There is no such cgroup.
    #[error("no cgroup `{name}`; {} lists them", listers.join(" or "))]
    NoCgroup {
        /// The requested name.
        name: String,
        /// Commands that list cgroups on this machine, the best first.
        listers: Vec<String>,
    },
    /// Several cgroups match.
    #[error("`{name}` could be any of {}; give the whole path", candidates.join(", "))]
    AmbiguousCgroup {
        /// The requested name.
        name: String,
        /// The paths that match, at most eight of them.
        candidates: Vec<String>,
    },
    /// The cgroup at the top of a tree.
    #[error("`{name}` is the root cgroup, which all processes here are in; watch everybody with --all, or name a cgroup below it")]
    RootCgroup {
        /// The requested name.
        name: String,
    },
    /// There is no such virtual machine.
    #[error("no virtual machine `{name}` runs here; {}", running_vms(running))]
    NoVm {
        /// The requested name.
        name: String,
        /// Those that run: name and PID.
        running: Vec<(String, u32)>,
    },
    /// Several virtual machines have the name.
    #[error("{} processes run a virtual machine `{name}`; give one of their PIDs: {}", pids.len(), list(pids))]
    AmbiguousVm {
        /// The requested name.
        name: String,
        /// Their PIDs.
        pids: Vec<u32>,
    },
    /// No thread of the process carries a vCPU's name.
    #[error(
        "process {pid} ({comm}) has no thread named as a vCPU (`CPU 0/KVM`); if it is QEMU, start it with `-name NAME,debug-threads=on`"
    )]
    NoVcpus {
        /// The process.
        pid: u32,
        /// Its name.
        comm: String,
    },
    /// `/proc` or a cgroup tree could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

fn running_vms(running: &[(String, u32)]) -> String {
    if running.is_empty() {
        return "no process here has threads named as vCPUs".to_owned();
    }
    let named: Vec<String> = running.iter().map(|(name, pid)| format!("{name} (PID {pid})")).collect();
    format!("running: {}", named.join(", "))
}

fn list(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

impl Subject {
    /// A command that corun started as `pid` from `program`, a name or a path.
    pub fn command(pid: u32, program: &str) -> Subject {
        let name = program.rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or(program);
        Subject::Command { pid, name: name.to_owned() }
    }

    /// Running processes, by PID.
    ///
    /// # Errors
    /// [`TargetError`] for the first that does not exist, has ended, or is a thread.
    pub fn processes(root: &Root, pids: &[u32]) -> Result<Subject, TargetError> {
        let mut first = None;
        let mut roots = Vec::new();
        for &pid in pids {
            let stat = live_process(root, pid)?;
            first.get_or_insert_with(|| {
                let run = program::wrapped_program(root, pid, |pid| program::children(root, pid));
                let (pid, comm) = run.unwrap_or((pid, stat.comm));
                program::name(root, pid, &comm)
            });
            if !roots.contains(&pid) {
                roots.push(pid);
            }
        }
        Ok(Subject::Processes { roots, name: first.unwrap_or_default() })
    }

    /// Processes with their current descendants. A process that has ended when its watcher is ready has left
    /// these behind.
    ///
    /// # Errors
    /// [`TargetError::Read`] when `/proc` cannot be read.
    pub fn with_family(self, root: &Root) -> Result<Subject, TargetError> {
        let Subject::Processes { mut roots, name } = self else { return Ok(self) };
        let family = Family::of(root, &roots)?;
        let descendants: Vec<u32> = family.pids().filter(|pid| !roots.contains(pid)).collect();
        roots.extend(descendants);
        Ok(Subject::Processes { roots, name })
    }

    /// A cgroup, by its path or the end of it, a unit, a container's or pod's id, or the name in a report.
    ///
    /// # Errors
    /// [`TargetError`] if there is none, or more than one.
    pub fn cgroup(root: &Root, name: &str) -> Result<Subject, TargetError> {
        let cgroups = Cgroups::discover(root)?;
        if cgroups.trees().is_empty() {
            return Err(TargetError::NoTrees { name: name.to_owned() });
        }
        let wanted = match name.trim_end_matches('/') {
            "" if !name.is_empty() => "/",
            trimmed => trimmed,
        };
        // As a tenant's key has it.
        let wanted = ["cgroup:", "unit:"].iter().find_map(|kind| wanted.strip_prefix(kind)).unwrap_or(wanted);
        let none = || TargetError::NoCgroup { name: name.to_owned(), listers: listers(root, &cgroups) };
        if wanted.is_empty() {
            // An unset variable, say: not everybody.
            return Err(none());
        }
        let root_cgroup = || TargetError::RootCgroup { name: name.to_owned() };
        // A folder may be named by any path that leads to it, such as `cpu` for `cpu,cpuacct`.
        let given = Path::new(wanted).is_absolute().then(|| file_id(root, Path::new(wanted))).flatten();
        let pods = pods::keys(root, wanted);
        let is_meant = |path: &str| is_called(path, wanted) || pods.iter().any(|key| is_called(path, key));
        // The same path may exist in several trees, and be empty in some.
        let mut empty = None;
        for tree in cgroups.by_telling() {
            let nodes = cgroups.walk(tree)?;
            let device = file_id(root, &tree.mount).map(|(device, _)| device);
            let is_given = |n: &cgroup::Node| given.is_some_and(|(of, id)| Some(of) == device && id == n.id);
            // A name that is not UTF-8 arrives with replacement characters, as a path has it.
            let shown = tree.path_of(Path::new(wanted));
            let exact =
                nodes.iter().find(|n| n.path == wanted || is_given(n) || shown.as_deref() == Some(&*n.path));
            let found = match exact {
                Some(node) => vec![node],
                None => topmost(nodes.iter().filter(|n| is_meant(&n.path)).collect()),
            };
            match found[..] {
                [] => {}
                [node] if node.path == "/" => return Err(root_cgroup()),
                [node] => {
                    let subject = Subject::Cgroup {
                        mount: tree.mount.clone(),
                        folder: tree.folder(&node.path).unwrap_or_else(|| tree.mount.clone()),
                        path: node.path.clone(),
                        v2_id: tree.is_v2().then_some(node.id),
                    };
                    if !subject.is_deserted(root) {
                        return Ok(subject);
                    }
                    empty.get_or_insert(subject);
                }
                _ if empty.is_some() => {}
                _ => {
                    let candidates = found.iter().take(8).map(|n| n.path.clone()).collect();
                    return Err(TargetError::AmbiguousCgroup { name: name.to_owned(), candidates });
                }
            }
        }
        if let Some(subject) = empty {
            return Ok(subject);
        }
        // If trees of version 1 are mounted, they are in one folder.
        let holds = |tree: &cgroup::Tree| !tree.is_v2() && tree.mount.parent() == Some(Path::new(wanted));
        Err(if wanted == "/" || cgroups.trees().iter().any(holds) { root_cgroup() } else { none() })
    }
}

/// The device and the number of a file.
fn file_id(root: &Root, path: &Path) -> Option<(u64, u64)> {
    let about = std::fs::metadata(root.path(path)).ok()?;
    Some((about.dev(), about.ino()))
}

/// Processes that become a tenant each, with their descendants. If one descends from another, the outer one
/// comes first, so that the inner one is separated from it. A process that has gone is no tenant.
pub fn families(root: &Root, pids: &[u32]) -> Vec<(u32, TenantName)> {
    let mut found: Vec<(usize, u32, TenantName)> = Vec::new();
    for &pid in pids {
        let Ok(Some(name)) = Subject::processes(root, &[pid]).map(|s| s.tenant()) else { continue };
        let line = procfs::line_of(root, pid);
        let above = pids.iter().filter(|other| line.iter().skip(1).any(|above| above == *other)).count();
        found.push((above, pid, name));
    }
    found.sort();
    found.dedup();
    found.into_iter().map(|(_, pid, name)| (pid, name)).collect()
}

/// The commands by which somebody finds a cgroup's name here.
fn listers(root: &Root, cgroups: &Cgroups) -> Vec<String> {
    let has_systemd = ["/usr/bin/systemd-cgls", "/bin/systemd-cgls"].iter().any(|p| root.path(p).exists());
    let systemd = has_systemd.then(|| "`systemd-cgls`".to_owned());
    let trees = cgroups.by_telling();
    let mounts: Vec<&Path> = trees.iter().map(|t| t.mount.as_path()).collect();
    // Of v1, a tree for each controller is mounted in one folder.
    let above = mounts.first().and_then(|first| {
        first
            .ancestors()
            .find(|above| mounts.iter().all(|m| m.starts_with(above)) && above.parent().is_some())
    });
    let find = above.or(mounts.first().copied()).map(|top| format!("`find {} -type d`", top.display()));
    systemd.into_iter().chain(find).collect()
}

fn live_process(root: &Root, pid: u32) -> Result<procfs::Stat, TargetError> {
    let stat = match procfs::process_stat(root, pid) {
        Ok(stat) => stat,
        Err(e) if e.is_gone() => {
            return Err(TargetError::NoProcess { pid, has_own_pids: namespaces::has_own_pids(root) })
        }
        Err(e) => return Err(e.into()),
    };
    // `/proc/TID` can be opened, too, though it is not listed. The process's own threads are listed.
    match procfs::process_of(root, pid)? {
        Some(leader) if leader != pid => Err(TargetError::IsThread { tid: pid, pid: leader }),
        _ if stat.has_ended() => Err(TargetError::Ended { pid, comm: stat.comm }),
        _ => Ok(stat),
    }
}

/// Whether `name` is the end of a cgroup's path, escaped or not, or the name of its tenant.
fn is_called(path: &str, name: &str) -> bool {
    let ends =
        |path: &str| path.strip_suffix(name).is_some_and(|rest| name.starts_with('/') || rest.ends_with('/'));
    let tenant = || naming::of_cgroup(path).filter(|t| t.kind != TenantKind::Cgroup);
    ends(path)
        || ends(&naming::unescape(path))
        || tenant()
            .is_some_and(|t| t.name == name || t.key == name || is_id_of(t.kind, &t.key, &t.name, name))
}

/// If cgroups are nested, only the outermost.
fn topmost(found: Vec<&cgroup::Node>) -> Vec<&cgroup::Node> {
    let is_below =
        |n: &cgroup::Node| found.iter().any(|o| o.path != n.path && cgroup::is_within(&n.path, &o.path));
    found.iter().copied().filter(|n| !is_below(n)).collect()
}

#[cfg(test)]
mod tests;
