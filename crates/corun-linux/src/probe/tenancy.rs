//! From the probe's groups to tenants as people know them.
//!
//! The kernel side sorts tasks as finely as can be told there: command × process group × cgroup. Here several of
//! those become one tenant where a name says that they belong together (a container, a unit, a pod, a Slurm step,
//! the subject). A group is named while its first member still lives, so [`Tenancy::learn`] is called often.

use crate::cgroup::{is_within, Cgroups, Membership};
use crate::freezer;
use crate::naming::{self, TenantName};
use crate::procfs;
use crate::root::Root;
use crate::target::Subject;
use crate::tenants::Tenants;
use corun_bpf::layout::{comm, group, GroupRec};
use corun_model::{Tenant, TenantId, TenantKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

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
        let (membership, path) = self.whereabouts(rec);
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
            let called = procfs::program_name(&self.root, rec.tid, &command);
            let mut name = naming::of_process_group(rec.key.pgid, &called);
            name.key = format!("{}:{command}", name.key);
            name
        })
    }

    /// In which cgroups a group is, as a process of it tells, and where in the v2 tree. Its first member tells while that
    /// lives, else whoever leads its process group; either only when it is in the group's own cgroup, where a leader may never
    /// have been and who was moved is no more. Otherwise the cgroup's id tells; and when that has gone, they do after all.
    fn whereabouts(&self, rec: &GroupRec) -> (Option<Membership>, Option<String>) {
        let read = |pid| Membership::read(&self.root, format!("/proc/{pid}")).ok();
        let mut told: Vec<Membership> = [rec.tid, rec.key.pgid].into_iter().filter_map(read).collect();
        let there = told.iter().position(|m| self.may_be_in(m, rec.key.cgroup));
        let path = if there.is_none() { self.path_of(rec.key.cgroup) } else { None };
        if path.is_some() || told.is_empty() {
            return (None, path);
        }
        let membership = told.swap_remove(there.unwrap_or(0));
        let path = membership.v2().map(str::to_owned);
        (Some(membership), path)
    }

    /// Whether a membership is of the cgroup of the v2 tree with this id, or of one made below it to be parked in, as far as
    /// can be told.
    fn may_be_in(&self, membership: &Membership, id: u64) -> bool {
        let Some((cgroups, tree)) = self.cgroups.as_ref().and_then(|c| Some((c, c.v2()?))) else {
            return true;
        };
        let Some(path) = membership.v2().map(Path::new) else { return true };
        let above = path.parent().filter(|_| freezer::is_transient(path));
        let ids =
            [Some(path), above].into_iter().flatten().filter_map(|p| cgroups.id(tree, p.to_str()?).ok());
        let ids: Vec<u64> = ids.collect();
        ids.is_empty() || ids.contains(&id)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_short_lived_command_belongs_to_its_own_cgroup_and_not_to_that_of_its_process_group() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let put = |file: &str, text: &str| {
            let path = root.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        for cgroup in ["/build", "/shell"] {
            fs::create_dir_all(root.path(format!("/sys/fs/cgroup{cgroup}"))).unwrap();
        }
        // The leader lives, and the command has ended.
        put("/proc/70/cgroup", "0::/shell\n");
        let tenancy = Tenancy::new(&root);
        let cgroups = Cgroups::discover(&root).unwrap();
        let of = |cgroup: &str, tid| {
            let mut rec = GroupRec { tid, ..GroupRec::default() };
            rec.key.cgroup = cgroups.id(cgroups.v2().unwrap(), cgroup).unwrap();
            rec.key.pgid = 70;
            tenancy.name(&rec).key
        };
        assert_eq!(of("/build", 71), "cgroup:/build");
        assert_eq!(of("/shell", 71), "cgroup:/shell");
        // Who was moved since is no witness of where it was, unless it was parked there.
        put("/proc/72/cgroup", "0::/shell\n");
        assert_eq!(of("/build", 72), "cgroup:/build");
        let parked = format!("/build/{}1.2.3", freezer::TRANSIENT_PREFIX);
        fs::create_dir_all(root.path(format!("/sys/fs/cgroup{parked}"))).unwrap();
        put("/proc/73/cgroup", &format!("1:cpu:/docker/{}\n0::{parked}\n", "a".repeat(64)));
        assert!(of("/build", 73).contains("aaaa"), "the container is told by v1 alone");
        // Of a cgroup that has gone, who was in it tells more than nothing.
        let mut gone = GroupRec { tid: 72, ..GroupRec::default() };
        gone.key.cgroup = u64::MAX;
        assert_eq!(tenancy.name(&gone).key, "cgroup:/shell");
    }
}
