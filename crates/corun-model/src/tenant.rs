//! Tenants (tasks that belong together) and task ids.

use crate::taken_by::TakenBy;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A schedulable thread, by its kernel thread id; on the modelled machine, by a number of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId(pub u32);

/// A tenant, as an index into the tenant table of its [`Observation`](crate::Observation). A host keeps a tenant's id as long as it
/// reports it and long after, and never gives it to another tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TenantId(pub u32);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The kind of a tenant. It decides its name, and what may be done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TenantKind {
    /// A command: a process group outside any meaningful cgroup.
    Command,
    /// A systemd service, scope or slice.
    Unit,
    /// A container (docker, podman, containerd, cri-o).
    Container,
    /// A Kubernetes pod.
    Pod,
    /// A step of a Slurm job.
    SlurmStep,
    /// Any other cgroup.
    Cgroup,
    /// A virtual machine's vCPUs.
    Vm,
    /// A virtual machine's I/O and management threads.
    VmIo,
    /// Kernel threads (softirq and workqueue threads have tenants of their own).
    Kernel,
    /// Nobody: the CPU was idle while a task was already runnable on it (wake-up latency).
    Idle,
    /// Corun itself while it watches, if it is separate from the co-runners.
    Watcher,
    /// Several tenants, counted together because there were too many.
    Others,
}

impl TenantKind {
    /// All kinds.
    pub const ALL: [TenantKind; 12] = [
        TenantKind::Command,
        TenantKind::Unit,
        TenantKind::Container,
        TenantKind::Pod,
        TenantKind::SlurmStep,
        TenantKind::Cgroup,
        TenantKind::Vm,
        TenantKind::VmIo,
        TenantKind::Kernel,
        TenantKind::Idle,
        TenantKind::Watcher,
        TenantKind::Others,
    ];

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<TenantKind> {
        TenantKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name used in JSON and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TenantKind::Command => "command",
            TenantKind::Unit => "unit",
            TenantKind::Container => "container",
            TenantKind::Pod => "pod",
            TenantKind::SlurmStep => "slurm-step",
            TenantKind::Cgroup => "cgroup",
            TenantKind::Vm => "vm",
            TenantKind::VmIo => "vm-io",
            TenantKind::Kernel => "kernel",
            TenantKind::Idle => "idle",
            TenantKind::Watcher => "watcher",
            TenantKind::Others => "others",
        }
    }

    /// Whose time it is when a tenant of this kind runs, for an unrelated subject.
    pub fn taken_by(self) -> TakenBy {
        match self {
            TenantKind::Kernel => TakenBy::Kernel,
            TenantKind::Idle => TakenBy::Idle,
            TenantKind::Watcher => TakenBy::Watcher,
            TenantKind::Command
            | TenantKind::Unit
            | TenantKind::Container
            | TenantKind::Pod
            | TenantKind::SlurmStep
            | TenantKind::Cgroup
            | TenantKind::Vm
            | TenantKind::VmIo
            | TenantKind::Others => TakenBy::CoRunner,
        }
    }

    /// Whether its CPU time is taken from others. The kernel's own threads, idle CPUs and corun itself do not depend on who else runs.
    pub fn is_co_runner(self) -> bool {
        self.taken_by() == TakenBy::CoRunner
    }

    /// Whether tasks of this tenant may ever be parked, pinned or re-weighted: the kernel, idle and corun itself may not.
    pub fn is_controllable(self) -> bool {
        self.is_co_runner() && self != TenantKind::Others
    }
}

/// A tenant as people know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its number in this observation.
    pub id: TenantId,
    /// Its kind.
    pub kind: TenantKind,
    /// A stable key: the cgroup path, container id, process group and so on. Unique among tenants.
    pub key: String,
    /// Its name for people: `postgres`, `nginx.service`, `pod web-0`.
    pub name: String,
}

impl Tenant {
    /// The name of the virtual machine, if these are its vCPUs or I/O threads.
    pub fn vm(&self) -> Option<&str> {
        match self.kind {
            TenantKind::Vm => self.key.strip_prefix("vm:"),
            TenantKind::VmIo => self.key.strip_prefix("vm-io:"),
            _ => None,
        }
    }

    /// Whether both are vCPUs or I/O threads of the same virtual machine.
    pub fn is_of_vm(&self, other: &Tenant) -> bool {
        self.vm().is_some_and(|name| other.vm() == Some(name))
    }

    /// Whether a user means this tenant with `wanted`. It may be its name, its name with the addition in reports (`bash (pgid 4711)`),
    /// its key or the start of it up to a colon, the PID that it was given by, or its id ([`is_id_of`]).
    pub fn is_called(&self, wanted: &str) -> bool {
        let key =
            || self.key.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
        let told_apart = || {
            let apart = wanted.strip_prefix(&*self.name)?.strip_prefix(" (")?.strip_suffix(')')?;
            Some(apart == what_tells(&self.key))
        };
        let pid = || self.key.strip_prefix("pid:") == Some(wanted);
        let id = || is_id_of(self.kind, &self.key, &self.name, wanted);
        self.name == wanted || key() || pid() || told_apart() == Some(true) || id()
    }
}

/// The fewest characters of an id that identify it.
const FEWEST_OF_ID: usize = 6;

/// Whether `wanted` is the id of a container, pod or Slurm step, or its first characters, at least six. A report's prefix is allowed
/// (`docker 0123456789ab`).
pub fn is_id_of(kind: TenantKind, key: &str, name: &str, wanted: &str) -> bool {
    let has_id = matches!(kind, TenantKind::Container | TenantKind::Pod | TenantKind::SlurmStep);
    let Some((_, id)) = key.split_once(':').filter(|_| has_id) else { return false };
    let after_sort = name.split_once(' ').and_then(|(sort, _)| wanted.strip_prefix(sort)?.strip_prefix(' '));
    let wanted = after_sort.unwrap_or(wanted);
    id == wanted || wanted.len() >= FEWEST_OF_ID && id.starts_with(wanted)
}

/// The part of a key that tells tenants apart: for `pgid:4711` the process group, for `cgroup:/a/b` the cgroup.
pub fn what_tells(key: &str) -> String {
    match key.split_once(':') {
        Some((what, which)) => format!("{what} {which}"),
        None => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_called_as_reports_call_it_and_by_its_key() {
        let tenant = |kind, key: &str, name: &str| Tenant {
            id: TenantId(1),
            kind,
            key: key.into(),
            name: name.into(),
        };
        let job = tenant(TenantKind::Command, "pgid:4711", "build.sh");
        let given = tenant(TenantKind::Command, "pid:99", "build.sh");
        let docker = tenant(TenantKind::Container, "container:aabb", "docker aa");
        let longer = tenant(TenantKind::Container, "container:0123456789abcdef", "docker 0123456789ab");
        for (tenant, wanted, is_meant) in [
            (&job, "build.sh", true),
            (&job, "pgid:4711", true),
            (&job, "build.sh (pgid 4711)", true),
            (&job, "build.sh (pgid 4712)", false),
            (&job, "pgid:471", false),
            (&job, "4711", false),
            (&given, "99", true),
            (&given, "pid:99", true),
            (&given, "build.sh (pid 99)", true),
            (&given, "9", false),
            (&docker, "docker aa", true),
            (&docker, "docker aa (container aabb)", true),
            (&docker, "docker", false),
            (&docker, "aabb", true),
            (&docker, "aab", false),
            (&longer, "0123456789ab", true),
            (&longer, "012345", true),
            (&longer, "docker 0123456789abcd", true),
            (&longer, "01234", false),
            (&longer, "podman 0123456789ab", false),
            (&longer, "123456", false),
        ] {
            assert_eq!(tenant.is_called(wanted), is_meant, "{} by `{wanted}`", tenant.key);
        }
    }
}
