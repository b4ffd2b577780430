//! The owner of a group according to its cgroups: looked up once for all groups in the same cgroups.
//!
//! The probe gives a group's location as numbers, in the v2 tree and in every hierarchy of v1, and numbers
//! have paths ([`Paths`]). So even a group whose tasks have all ended gets its name, and no process is read.
//! Only if a path is not found, a live process of the group is read.

use crate::cgroup::paths::{Paths, V2};
use crate::cgroup::{is_within, Cgroups, Membership, Tree, Version};
use crate::naming::TenantName;
use crate::root::Root;
use crate::target::Subject;
use corun_bpf::layout::{GroupRec, Location};
use std::collections::HashMap;

/// This many locations are remembered; beyond that, all are looked up again.
const MOST_KNOWN: usize = 1 << 16;
/// The number of a hierarchy's root.
const ROOT_CGROUP: u64 = 1;

/// The owners according to cgroups.
pub(super) struct CgroupOwners {
    root: Root,
    paths: Option<Paths>,
    own: Membership,
    /// The subject's cgroup, in its tree: all tasks in it or below it belong to the subject.
    subject: Option<(Tree, String, TenantName)>,
    known: HashMap<Location, Option<TenantName>>,
}

impl CgroupOwners {
    pub(super) fn new(root: &Root) -> CgroupOwners {
        CgroupOwners {
            root: root.clone(),
            paths: Cgroups::discover(root).ok().map(|cgroups| Paths::new(root, &cgroups)),
            own: Membership::read(root, "/proc/self").unwrap_or_default(),
            subject: None,
            known: HashMap::new(),
        }
    }

    /// Sets the subject to a cgroup; its tenant.
    pub(super) fn watch(&mut self, root: &Root, subject: &Subject) -> Option<&TenantName> {
        let (Subject::Cgroup { mount, path, .. }, Some(name)) = (subject, subject.tenant()) else {
            return None;
        };
        let cgroups = Cgroups::discover(root).ok()?;
        let tree = cgroups.trees().iter().find(|t| t.mount == *mount)?.clone();
        self.subject = Some((tree, path.clone(), name));
        self.subject()
    }

    /// The subject's tenant, if it is a cgroup.
    pub(super) fn subject(&self) -> Option<&TenantName> {
        self.subject.as_ref().map(|(.., name)| name)
    }

    /// How often something unknown was looked up: the cost of naming.
    pub(super) fn looks(&self) -> u64 {
        self.paths.as_ref().map_or(0, Paths::looks)
    }

    /// The tenant according to a group's cgroups; `None` if they name none, and its process group does.
    pub(super) fn tenant(&mut self, rec: &GroupRec) -> Option<TenantName> {
        if let Some(known) = self.known.get(&rec.key.at) {
            return known.clone();
        }
        let (membership, is_whole) = self.membership(rec);
        let of_subject = self
            .subject
            .as_ref()
            .filter(|(tree, path, _)| membership.in_tree(tree).is_some_and(|its| is_within(its, path)));
        let told = match of_subject {
            Some((.., name)) => Some(name.clone()),
            None => membership.tenant_seen_from(&self.own),
        };
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        if is_whole {
            self.known.insert(rec.key.at, told.clone());
        }
        told
    }

    /// The location of a group, and whether it is known in all trees.
    fn membership(&mut self, rec: &GroupRec) -> (Membership, bool) {
        let Some(paths) = &mut self.paths else { return (Membership::default(), true) };
        let v1 = rec
            .v1
            .iter()
            .take_while(|packed| **packed != 0)
            .map(|packed| ((packed >> 56) as u32, packed << 8 >> 8));
        let v2 = Some((V2, rec.key.at.cgroup)).filter(|(_, id)| *id != ROOT_CGROUP);
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for (hierarchy, id) in v2.into_iter().chain(v1) {
            let Some(tree) = paths.tree(hierarchy) else { continue };
            let controllers = match &tree.version {
                Version::V2 { .. } => Vec::new(),
                Version::V1 { controllers } => controllers.clone(),
            };
            match paths.path(hierarchy, id) {
                Some(path) => found.push((controllers, path)),
                None => missing.push(controllers),
            }
        }
        if missing.is_empty() {
            return (Membership::of(found), true);
        }
        // The cgroup has gone or cannot be looked up: a task that was in it may know where it was.
        let read = |pid| Membership::read(&self.root, format!("/proc/{pid}")).ok();
        let witness = [rec.tid, rec.key.pgid].into_iter().find_map(read);
        let is_told = witness.is_some();
        for controllers in missing {
            let path = witness.as_ref().and_then(|m| match controllers.first() {
                None => m.v2(),
                Some(first) => m.v1(first),
            });
            found.extend(path.map(|path| (controllers, path.to_owned())));
        }
        (Membership::of(found), is_told)
    }
}
