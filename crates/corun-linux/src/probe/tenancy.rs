//! From the probe's groups to tenants as people know them.
//!
//! The kernel side sorts tasks as finely as can be told there: command × process group × cgroup. Here several of
//! those become one tenant where a name says that they belong together (a container, a unit, a pod, a Slurm step,
//! the subject). A group is named while its first member still lives, so [`Tenancy::learn`] is called often.

use crate::cgroup::{is_within, Cgroups, Membership};
use crate::naming::{self, TenantName};
use crate::root::Root;
use crate::target::Subject;
use crate::tenants::Tenants;
use corun_bpf::layout::{comm, group, GroupRec};
use corun_model::{Tenant, TenantId, TenantKind};
use std::collections::{BTreeMap, BTreeSet};

/// Tenants by the probe's group numbers.
pub(super) struct Tenancy {
    root: Root,
    cgroups: Option<Cgroups>,
    tenants: Tenants,
    /// Tenant of each group met so far.
    of_group: Vec<TenantId>,
    /// Numbers among them that may be used again, and have not been so far as is known.
    free: BTreeSet<u32>,
    /// Groups that user space made, with their names.
    assigned: BTreeMap<u32, TenantName>,
    /// The subject's cgroup in the v2 tree: groups in it or below it are the subject.
    subject_cgroup: Option<(String, TenantName)>,
}

impl Tenancy {
    pub(super) fn new(root: &Root) -> Tenancy {
        let mut made = Tenancy {
            root: root.clone(),
            cgroups: Cgroups::discover(root).ok(),
            tenants: Tenants::default(),
            of_group: Vec::new(),
            free: BTreeSet::new(),
            assigned: BTreeMap::new(),
            subject_cgroup: None,
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

    /// Says that `group` was made by user space for this tenant.
    pub(super) fn assign(&mut self, group: u32, name: TenantName) -> TenantId {
        self.assigned.insert(group, name.clone());
        self.tenants.number(name)
    }

    /// Says that the subject is a cgroup of the v2 tree.
    pub(super) fn watch_cgroup(&mut self, subject: &Subject) -> Option<TenantId> {
        let (Subject::Cgroup { path, v2_id: Some(_), .. }, Some(name)) = (subject, subject.tenant()) else {
            return None;
        };
        self.subject_cgroup = Some((path.clone(), name.clone()));
        Some(self.tenants.number(name))
    }

    /// How many groups have a name, from number 0 on.
    pub(super) fn named(&self) -> usize {
        self.of_group.len()
    }

    /// Names the groups that follow those that have a name.
    pub(super) fn learn(&mut self, groups: &[GroupRec]) {
        for rec in groups {
            let name = match self.assigned.get(&(self.named() as u32)) {
                Some(name) => name.clone(),
                // The number is taken before the record is filled in; it will be, by the next call.
                None if rec.tid == 0 => return,
                None => self.name(rec),
            };
            let id = self.tenants.number(name);
            self.of_group.push(id);
        }
    }

    /// The groups that have a name and were made by the probe.
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
        let subject = self.subject_cgroup.as_ref().map(|(_, name)| name);
        let made = self.assigned.values().chain(subject).filter_map(|name| self.tenants.with_key(&name.key));
        let spoken_of: BTreeSet<TenantId> = self.of_group.iter().copied().chain(made).collect();
        self.tenants.forget(|id| spoken_of.contains(&id));
    }

    /// Forgets a group, whose number may be used again.
    pub(super) fn forget(&mut self, group: u32) {
        self.of_group[group as usize] = self.others();
        self.free.insert(group);
    }

    /// Names groups whose numbers have been used before.
    pub(super) fn learn_anew(&mut self, groups: &[(u32, GroupRec)]) {
        for (group, rec) in groups {
            let name = self.name(rec);
            self.of_group[*group as usize] = self.tenants.number(name);
            self.free.remove(group);
        }
    }

    fn name(&self, rec: &GroupRec) -> TenantName {
        let membership = Membership::read(&self.root, format!("/proc/{}", rec.tid))
            .or_else(|_| Membership::read(&self.root, format!("/proc/{}", rec.key.pgid)))
            .ok();
        let path = match &membership {
            Some(m) => m.v2().map(str::to_owned),
            None => self.path_of(rec.key.cgroup),
        };
        if let (Some((subject, name)), Some(path)) = (&self.subject_cgroup, &path) {
            if is_within(path, subject) {
                return name.clone();
            }
        }
        let told = match &membership {
            Some(m) => m.tenant(),
            None => path.as_deref().and_then(naming::of_cgroup),
        };
        told.unwrap_or_else(|| {
            let command = comm(&rec.key.comm);
            let mut name = naming::of_process_group(rec.key.pgid, &command);
            name.key = format!("{}:{command}", name.key);
            name
        })
    }

    /// The path of a cgroup of the v2 tree by its id, for groups whose members have all ended.
    fn path_of(&self, id: u64) -> Option<String> {
        let cgroups = self.cgroups.as_ref()?;
        let nodes = cgroups.walk(cgroups.v2()?).ok()?;
        nodes.into_iter().find(|n| n.id == id).map(|n| n.path)
    }

    /// The tenant of a group; "others" for one that has no name yet.
    pub(super) fn of(&self, group: u32) -> TenantId {
        self.of_group.get(group as usize).copied().unwrap_or(self.others())
    }

    /// The tenant that stands for several that were too many to be told apart.
    pub(super) fn others(&self) -> TenantId {
        self.of_group[group::UNKNOWN as usize]
    }

    /// A tenant that has a group, or had one not long ago.
    pub(super) fn tenant(&self, id: TenantId) -> Option<&Tenant> {
        self.tenants.get(id)
    }
}
