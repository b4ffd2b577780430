//! The members of a tenant, from the last observation to the processes that live now.
//!
//! An observation names a tenant's tasks at its end. Between then and an action, tasks end, numbers are
//! reused and processes fork. So a task that is younger than the observation is not the observed one. A
//! process that nobody has seen yet belongs to its parent's tenant under a condition. If the tenant is a
//! process with its descendants, there is none. If it is a process group, the process must be in it.
//! Otherwise it must be in the same cgroups. A process in a process group is a member whatever its parent is
//! now.

use crate::cgroup::Membership;
use crate::clock;
use crate::procfs::{self, Stat, TICK_NS};
use crate::root::Root;
use crate::supervisor::undo::Task;
use corun_model::{Observation, TaskId, Tenant, TenantId};
use std::collections::{BTreeMap, BTreeSet};

/// A process of a tenant.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) task: Task,
    /// A live thread of it: its cgroup is that of the process, and moving it moves the process. The cgroup of
    /// a first thread that has ended stays as it was then.
    pub(super) through: u32,
    pub(super) comm: String,
    /// Whether somebody else's signal has stopped it.
    pub(super) stopped: bool,
}

impl Process {
    fn new(root: &Root, pid: u32, stat: &Stat) -> Process {
        let lives =
            |tid: u32| Some((tid, procfs::task_stat(root, pid, tid).ok().filter(|s| !s.is_dead())?.state));
        let others = || procfs::tasks(root, pid).ok()?.into_iter().find_map(lives);
        let living = if stat.is_dead() { others() } else { None };
        let (through, state) = living.unwrap_or((pid, stat.state));
        Process {
            task: Task { tid: pid, start_ns: stat.start_ns, pid, pgid: stat.pgid },
            through,
            comm: stat.comm.clone(),
            stopped: matches!(state, 'T' | 't'),
        }
    }
}

/// Tenants and tasks of the last observation.
#[derive(Debug)]
pub(super) struct Members {
    root: Root,
    tenants: BTreeMap<TenantId, Tenant>,
    /// In the order of ids, as in observations.
    tasks: Vec<(TaskId, TenantId)>,
    /// When they were learnt, after boot.
    learnt_ns: u64,
    /// The process of each task, as far as it was needed.
    process_of: BTreeMap<u32, u32>,
}

impl Members {
    pub(super) fn new(root: &Root) -> Members {
        Members {
            root: root.clone(),
            tenants: BTreeMap::new(),
            tasks: Vec::new(),
            learnt_ns: 0,
            process_of: BTreeMap::new(),
        }
    }

    /// Takes in an observation and returns the tenants with tasks that the previous one did not have.
    pub(super) fn learn(&mut self, seen: &Observation) -> BTreeSet<TenantId> {
        self.tenants = seen.tenants.iter().map(|t| (t.id, t.clone())).collect();
        let before = std::mem::take(&mut self.tasks);
        self.tasks = seen.tasks.iter().filter(|t| t.alive).map(|t| (t.id, t.tenant)).collect();
        self.learnt_ns = clock::now_ns() + clock::boot_ahead_ns();
        let mut process_of = std::mem::take(&mut self.process_of);
        process_of.retain(|tid, _| self.tenant_of(TaskId(*tid)).is_some());
        self.process_of = process_of;
        let mut before = before.into_iter().peekable();
        let is_new = |task: &&(TaskId, TenantId)| {
            while before.next_if(|(id, _)| *id < task.0).is_some() {}
            before.peek() != Some(task)
        };
        self.tasks.iter().filter(is_new).map(|(_, of)| *of).collect()
    }

    pub(super) fn tenant(&self, id: TenantId) -> Option<&Tenant> {
        self.tenants.get(&id)
    }

    /// Tenants that have tasks.
    pub(super) fn living(&self) -> BTreeSet<TenantId> {
        self.tasks.iter().map(|(_, of)| *of).collect()
    }

    pub(super) fn tenant_of(&self, task: TaskId) -> Option<TenantId> {
        let at = self.tasks.binary_search_by_key(&task, |(id, _)| *id).ok()?;
        Some(self.tasks[at].1)
    }

    /// The tasks of a tenant, by TID.
    pub(super) fn tasks_of(&self, tenant: TenantId) -> impl Iterator<Item = u32> + '_ {
        self.tasks.iter().filter(move |(_, of)| *of == tenant).map(|(id, _)| id.0)
    }

    /// A task that was seen and is alive.
    pub(super) fn task(&mut self, tid: u32) -> Option<Task> {
        let pid = self.process(tid)?;
        let stat = procfs::process_stat(&self.root, tid).ok().filter(|s| !s.is_dead())?;
        (stat.start_ns <= self.learnt_ns + TICK_NS).then_some(Task {
            tid,
            start_ns: stat.start_ns,
            pid,
            pgid: stat.pgid,
        })
    }

    fn process(&mut self, tid: u32) -> Option<u32> {
        if let Some(pid) = self.process_of.get(&tid) {
            return Some(*pid);
        }
        let pid = procfs::process_of(&self.root, tid).ok()??;
        self.process_of.insert(tid, pid);
        Some(pid)
    }

    /// The processes of a tenant that were observed.
    pub(super) fn observed_of(&mut self, tenant: TenantId) -> BTreeSet<u32> {
        let tids: Vec<u32> = self.tasks_of(tenant).collect();
        tids.into_iter().filter_map(|tid| self.process(tid)).collect()
    }

    /// The live processes of a tenant, including forks since the last observation.
    pub(super) fn processes_of(&mut self, tenant: TenantId) -> Vec<Process> {
        let pids = self.observed_of(tenant);
        let live = |pid: u32| procfs::process_stat(&self.root, pid).ok().filter(|s| !s.has_ended());
        let mut found: BTreeMap<u32, Process> = pids
            .into_iter()
            .filter_map(|pid| live(pid).map(|s| (pid, Process::new(&self.root, pid, &s))))
            .filter(|(_, p)| p.task.start_ns <= self.learnt_ns + TICK_NS)
            .collect();
        let unseen: Vec<(u32, Stat)> = procfs::processes(&self.root)
            .unwrap_or_default()
            .into_iter()
            .filter(|pid| !found.contains_key(pid) && self.tenant_of(TaskId(*pid)).is_none())
            .filter_map(|pid| live(pid).map(|s| (pid, s)))
            .collect();
        let key = self.tenants.get(&tenant).map(|t| t.key.clone()).unwrap_or_default();
        let pgid: Option<u32> = key.strip_prefix("pgid:").and_then(|pgid| pgid.parse().ok());
        let is_family = key.starts_with("pid:");
        // A child may have a lower PID than its parent, so repeat until nobody joins any more.
        loop {
            let before = found.len();
            for (pid, stat) in unseen.iter().filter(|(_, stat)| !stat.is_kernel) {
                let is_its = match pgid {
                    Some(pgid) => stat.pgid == pgid,
                    None => found.contains_key(&stat.ppid) && (is_family || self.is_where(*pid, stat.ppid)),
                };
                if is_its {
                    found.entry(*pid).or_insert_with(|| Process::new(&self.root, *pid, stat));
                }
            }
            if found.len() == before {
                return found.into_values().collect();
            }
        }
    }

    /// Whether two processes are in the same cgroups, as far as can be determined.
    fn is_where(&self, pid: u32, other: u32) -> bool {
        let [a, b] = [pid, other].map(|pid| Membership::read(&self.root, format!("/proc/{pid}")).ok());
        a.is_some() && a == b
    }

    /// Another tenant that this process has tasks of; `None` if none is known.
    pub(super) fn other_tenant_of(&mut self, pid: u32, tenant: TenantId) -> Option<&Tenant> {
        let tids = procfs::tasks(&self.root, pid).ok()?;
        let mine = self.tenants.get(&tenant)?;
        let other = tids.iter().filter_map(|tid| self.tenant_of(TaskId(*tid))).find(|of| {
            // A virtual machine's vCPUs and its I/O threads are two tenants in one process.
            *of != tenant && !self.tenants.get(of).is_some_and(|t| t.is_of_vm(mine))
        })?;
        self.tenants.get(&other)
    }
}
