//! From the probe's groups to tenants that people know.
//!
//! The kernel side sorts tasks as finely as possible: process group × cgroups. Here several groups become one
//! tenant if cgroups say that they belong together (a container, a unit, a pod, a Slurm step, the subject).
//! Otherwise a tenant is a process group: what a shell made for a job, with everything that it runs. It is
//! named after its leader's script or program. A shell without a script is named after the program in it that
//! uses most CPU time.
//!
//! The cost is bounded: [`Tenancy::learn`] is called often, and looks up a limited number of cgroups and
//! programs each time. A group without a name is one of "others" until the next time.

use super::cgroup_owners::CgroupOwners;
use crate::naming::{self, TenantName};
use crate::procfs;
use crate::program;
use crate::root::Root;
use crate::target::Subject;
use crate::tenants::Tenants;
use corun_bpf::layout::{comm, group, GroupRec, Location};
use corun_model::observation::TaskObservation;
use corun_model::{Tenant, TenantId, TenantKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most cgroups that are looked up at a time, at some microseconds each.
const MOST_LOOKS: u64 = 1_000;
/// The most processes whose program is read at a time, at about ten microseconds each.
const MOST_ASKED: u64 = 64;
/// The most programs of a shell that are distinguished.
const MOST_PROGRAMS: usize = 32;
/// How often to check whether the leader of a job was told to run another of its programs.
const MOST_MET: usize = 4;

/// Tenants by the probe's group numbers.
pub(super) struct Tenancy {
    root: Root,
    owners: CgroupOwners,
    tenants: Tenants,
    /// The tenant of each known group.
    of_group: Vec<TenantId>,
    /// Numbers among them that may be reused, and have not been as far as is known.
    free: BTreeSet<u32>,
    /// Groups that user space made, with their names.
    assigned: BTreeMap<u32, TenantName>,
    /// Tenants that are process groups.
    jobs: BTreeMap<TenantId, Job>,
    /// Cgroups that identify tenants, not yet known to the probe.
    news: Vec<Location>,
    /// The number of processes whose program was read.
    asked: u64,
}

/// A tenant that is a process group.
struct Job {
    /// Its newest group, and the name of that group at the time.
    group: u32,
    comm: [u8; 16],
    /// For a shell without a script: how long each program used a CPU, in nanoseconds.
    programs: Option<BTreeMap<String, u64>>,
    /// Programs other than its leader that it was seen to run, while no program was known that it was told to
    /// run.
    met: Vec<Arc<str>>,
    is_told: bool,
    /// For a group that does not know what its leader executes: the leader's command at naming time, and
    /// whether the leader has had that name. Until a command begins, its process has corun's name.
    command: Vec<String>,
    has_begun: bool,
}

impl Job {
    /// A group that was just named, and of which nothing else is known.
    fn new(group: u32, comm: [u8; 16], programs: Option<BTreeMap<String, u64>>) -> Job {
        Job { group, comm, programs, met: Vec::new(), is_told: false, command: Vec::new(), has_begun: false }
    }

    /// Whether its leader, which now has this name, has executed its command (`nohup nice ./job`, `bash -c
    /// 'exec ./job'`).
    fn has_executed(&self, name: &str) -> bool {
        let before = comm(&self.comm);
        let is_shell = program::is_interpreter(&before) && !program::has_script(&self.command, &before);
        !self.command.is_empty() && (is_shell && self.has_begun || program::is_told(&self.command, name))
    }
}

/// Whether a name is this one. Most are, in the same bytes, so that nothing has to be copied.
fn is_called(known: &[u8; 16], name: &str) -> bool {
    let length = known.iter().position(|byte| *byte == 0).unwrap_or(known.len());
    known[..length] == *name.as_bytes() || *name == *comm(known)
}

/// A name in the form that the kernel keeps.
fn as_comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    let length = name.len().min(comm.len() - 1);
    comm[..length].copy_from_slice(&name.as_bytes()[..length]);
    comm
}

impl Tenancy {
    pub(super) fn new(root: &Root) -> Tenancy {
        let mut made = Tenancy {
            root: root.clone(),
            owners: CgroupOwners::new(root),
            tenants: Tenants::new(root),
            of_group: Vec::new(),
            free: BTreeSet::new(),
            assigned: BTreeMap::new(),
            jobs: BTreeMap::new(),
            news: Vec::new(),
            asked: 0,
        };
        let fixed = |kind, key: &str, name: &str| TenantName {
            kind,
            key: key.to_owned(),
            name: name.to_owned(),
            detail: None,
        };
        for name in [
            fixed(TenantKind::Others, "others", "others"),
            fixed(TenantKind::Idle, "idle", "idle CPU (wake-up latency)"),
            naming::of_kernel_thread("kthreadd"),
            naming::of_kernel_thread("ksoftirqd/0"),
            naming::of_kernel_thread("kworker/0"),
            naming::of_watcher(),
        ] {
            let id = made.tenants.number(name);
            made.of_group.push(id);
        }
        debug_assert_eq!(made.of_group.len(), group::FIRST as usize);
        made
    }

    /// Registers that user space made `group` for this tenant.
    pub(super) fn assign(&mut self, group: u32, name: TenantName) -> TenantId {
        self.assigned.insert(group, name.clone());
        let id = self.tenants.number(name);
        if let Some((tenant, leader)) = self.tenants.get(id).and_then(|t| Some((t, leader(t)?))) {
            // Its own group does not give its name. Until a command begins, its process has the group of
            // corun, which ends with it.
            let command = program::command(&self.root, leader);
            let job = Job::new(group::UNKNOWN, as_comm(&tenant.name), None);
            self.jobs.insert(id, Job { command, ..job });
        }
        id
    }

    /// Sets the subject to a cgroup.
    pub(super) fn watch_cgroup(&mut self, subject: &Subject) -> Option<TenantId> {
        let name = self.owners.watch(&self.root, subject)?.clone();
        Some(self.tenants.number(name))
    }

    /// The number of named groups, counted from number 0.
    pub(super) fn named(&self) -> usize {
        self.of_group.len()
    }

    /// The cost of naming so far: cgroups that were looked up, and processes that were read.
    pub(super) fn cost(&self) -> (u64, u64) {
        (self.owners.looks(), self.asked)
    }

    /// Names the groups after those that have a name. Returns whether there may be more.
    pub(super) fn learn(&mut self, groups: &[GroupRec]) -> bool {
        let (looks, asked) = self.cost();
        for rec in groups {
            if self.owners.looks() > looks + MOST_LOOKS || self.asked > asked + MOST_ASKED {
                return true;
            }
            let group = self.named() as u32;
            let id = match self.assigned.get(&group) {
                Some(name) => self.tenants.number(name.clone()),
                // The number is taken before the record is filled in; it will be filled in by the next call.
                None if rec.tid == 0 => return false,
                None => self.tenant_of(group, rec),
            };
            self.of_group.push(id);
        }
        false
    }

    /// The named groups that the probe made.
    pub(super) fn made_by_the_probe(&self) -> impl Iterator<Item = u32> + '_ {
        let is_its = |g: &u32| !self.free.contains(g) && !self.assigned.contains_key(g);
        (group::FIRST..self.of_group.len() as u32).filter(is_its)
    }

    /// Numbers that may be used again.
    pub(super) fn free(&self) -> &BTreeSet<u32> {
        &self.free
    }

    /// Forgets tenants that have no group any more.
    pub(super) fn forget_gone(&mut self) {
        let made = self.assigned.values().chain(self.owners.subject());
        let made: Vec<TenantId> = made.filter_map(|name| self.tenants.with_key(&name.key)).collect();
        let spoken_of: BTreeSet<TenantId> = self.of_group.iter().copied().chain(made).collect();
        self.tenants.forget(|id| spoken_of.contains(&id));
        self.jobs.retain(|id, _| spoken_of.contains(id));
    }

    /// Forgets a group, whose number may be reused.
    pub(super) fn forget(&mut self, group: u32) {
        self.of_group[group as usize] = self.others();
        self.free.insert(group);
    }

    /// Names groups with reused numbers.
    pub(super) fn learn_anew(&mut self, groups: &[(u32, GroupRec)]) {
        let (looks, asked) = self.cost();
        for (group, rec) in groups {
            if self.owners.looks() > looks + MOST_LOOKS || self.asked > asked + MOST_ASKED {
                return;
            }
            self.of_group[*group as usize] = self.tenant_of(*group, rec);
            self.free.remove(group);
        }
    }

    /// Cgroups that identify tenants, but that the probe does not know yet.
    pub(super) fn news(&mut self) -> Vec<Location> {
        std::mem::take(&mut self.news)
    }

    /// The tenant of a group that the probe made.
    fn tenant_of(&mut self, group: u32, rec: &GroupRec) -> TenantId {
        if let Some(name) = self.owners.tenant(rec) {
            if rec.key.pgid != 0 {
                self.news.push(rec.key.at);
            }
            return self.tenants.number(name);
        }
        let (name, is_named_by_use) = self.job(rec);
        let id = self.tenants.number(name);
        let programs = self.jobs.remove(&id).and_then(|job| job.programs).unwrap_or_default();
        let programs = is_named_by_use.then_some(programs);
        self.jobs.insert(id, Job::new(group, rec.comm, programs));
        id
    }

    /// The tenant of a process group, and whether a program that it runs would be a better name.
    fn job(&mut self, rec: &GroupRec) -> (TenantName, bool) {
        let pgid = if rec.key.pgid == 0 { rec.tgid } else { rec.key.pgid };
        let (mut pid, mut called) = (rec.tgid, comm(&rec.comm));
        if pid != pgid {
            self.asked += 1;
            if let Ok(leader) = procfs::process_stat(&self.root, pgid) {
                (pid, called) = (pgid, leader.comm);
            }
        }
        let is_shell = program::is_interpreter(&called);
        self.asked += u64::from(is_shell);
        let name = program::name(&self.root, pid, &called);
        let is_named_by_use = is_shell && name == called;
        (naming::of_process_group(pgid, &name), is_named_by_use)
    }

    /// Updates the names of process groups: after the program that their leader executes, or the one that has
    /// used most CPU time.
    pub(super) fn call_anew(&mut self, tasks: &[TaskObservation], comm_of: impl Fn(u32) -> [u8; 16]) {
        let is_its = |id: TenantId, group: u32| self.of_group.get(group as usize) == Some(&id);
        let is_new = |id: TenantId, job: &Job| is_its(id, job.group) && comm_of(job.group) != job.comm;
        let renamed: Vec<(TenantId, u32)> = self
            .jobs
            .iter()
            .filter(|(id, job)| is_new(**id, job))
            .map(|(id, job)| (*id, job.group))
            .collect();
        for (id, group) in renamed.into_iter().take(MOST_ASKED as usize) {
            let Some(pgid) = self.tenant(id).and_then(leader) else { continue };
            let mut rec = GroupRec::default();
            (rec.tid, rec.tgid, rec.comm, rec.key.pgid) = (pgid, pgid, comm_of(group), pgid);
            let (name, is_named_by_use) = self.job(&rec);
            self.tenants.number(name);
            let programs = is_named_by_use.then(BTreeMap::new);
            self.jobs.insert(id, Job::new(group, rec.comm, programs));
        }
        self.call_as_told(tasks);
        if !self.jobs.values().any(|job| job.programs.is_some()) {
            return;
        }
        let mut used = BTreeSet::new();
        for task in tasks {
            let ns = task.account.ledger.on_cpu_ns();
            let programs = self.jobs.get_mut(&task.tenant).and_then(|job| job.programs.as_mut());
            let Some(programs) = programs.filter(|_| ns > 0) else { continue };
            if programs.len() < MOST_PROGRAMS || programs.contains_key(&*task.name) {
                *programs.entry(task.name.to_string()).or_default() += ns;
                used.insert(task.tenant);
            }
        }
        for id in used {
            let programs = self.jobs.get(&id).and_then(|job| job.programs.as_ref());
            let busiest =
                programs.and_then(|p| p.iter().max_by_key(|(_, ns)| **ns)).map(|(name, _)| name.clone());
            let (Some(name), Some(tenant)) = (busiest, self.tenants.get(id)) else { continue };
            let name = TenantName { kind: tenant.kind, key: tenant.key.clone(), name, detail: None };
            self.tenants.number(name);
        }
    }

    /// Names jobs after the program that their leader was told to run, once that exists.
    fn call_as_told(&mut self, tasks: &[TaskObservation]) {
        let mut asked = 0;
        for task in tasks {
            let Some(job) = self.jobs.get_mut(&task.tenant) else { continue };
            let is_as_named = is_called(&job.comm, &task.name);
            job.has_begun |= is_as_named;
            let is_known = is_as_named || job.met.contains(&task.name);
            // An ended process cannot be read: a storm of short commands costs nothing here.
            if !task.alive || job.is_told || is_known || job.met.len() >= MOST_MET || asked >= MOST_ASKED {
                continue;
            }
            asked += 1;
            let Some(tenant) = self.tenants.get(task.tenant) else { continue };
            let Some(leader) = leader(tenant) else { continue };
            if task.id.0 == leader && job.has_executed(&task.name) {
                job.comm = as_comm(&task.name);
                let name = program::name(&self.root, leader, &task.name);
                let name = TenantName { kind: tenant.kind, key: tenant.key.clone(), name, detail: None };
                self.tenants.number(name);
                continue;
            }
            job.met.push(task.name.clone());
            let run = program::wrapped_program(&self.root, leader, |pid| program::children(&self.root, pid));
            let Some((pid, called)) = run else { continue };
            let name = program::name(&self.root, pid, &called);
            job.is_told = true;
            let is_named_by_use = program::is_interpreter(&called) && name == called;
            job.programs = is_named_by_use.then(BTreeMap::new);
            if let Some(tenant) = self.tenants.get(task.tenant) {
                let name = TenantName { kind: tenant.kind, key: tenant.key.clone(), name, detail: None };
                self.tenants.number(name);
            }
        }
        self.asked += asked;
    }

    /// The tenant of a group; "others" for one that has no name yet.
    pub(super) fn of(&self, group: u32) -> TenantId {
        self.of_group.get(group as usize).copied().unwrap_or(self.others())
    }

    /// The tenant that stands for several that were too many to distinguish.
    pub(super) fn others(&self) -> TenantId {
        self.of_group[group::UNKNOWN as usize]
    }

    /// A tenant that has a group, or had one recently.
    pub(super) fn tenant(&self, id: TenantId) -> Option<&Tenant> {
        self.tenants.get(id)
    }
}

/// The leader of a tenant that is a process group, or a process with its descendants.
fn leader(tenant: &Tenant) -> Option<u32> {
    let pid = ["pgid:", "pid:"].iter().find_map(|kind| tenant.key.strip_prefix(kind));
    pid?.parse().ok()
}

#[cfg(test)]
mod tests;
