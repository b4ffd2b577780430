//! What a user names: a command, PIDs, a cgroup, a virtual machine, everything.

use crate::naming::{self, TenantName};
use corun_model::TenantKind;
use std::path::PathBuf;

/// Whom to watch. A host makes the tasks of a subject a tenant of their own, whatever cgroup they are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A command that corun started, followed from its first instruction with all its descendants.
    Command {
        /// The child's PID.
        pid: u32,
        /// What to call it: the command's name without its folder.
        name: String,
    },
    /// Processes that already run, with all their threads, and their descendants present and future.
    Processes {
        /// The PIDs (thread group leaders), at least one.
        roots: Vec<u32>,
        /// What to call them: the comm of the first.
        name: String,
    },
    /// All tasks in a cgroup and in those below it, present and future.
    Cgroup {
        /// Where the tree that it was found in is mounted: `/sys/fs/cgroup`.
        mount: PathBuf,
        /// Its path in that tree, with a leading slash.
        path: String,
        /// Its id in the v2 tree (the inode number of its folder), as `bpf_get_current_cgroup_id` gives it;
        /// `None` when the tree is a v1 hierarchy.
        v2_id: Option<u64>,
    },
    /// A virtual machine: its vCPUs are the subject, its other threads a tenant beside it.
    Vm {
        /// The process that runs it.
        pid: u32,
        /// Its name, or `vm <pid>` when it was given none.
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
}
