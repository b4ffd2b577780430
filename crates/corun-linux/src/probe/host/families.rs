//! The processes that the user named: the subject, and tenants that are a process with all its descendants.
//! Their tasks are put into groups of their own, which their children inherit.

use super::{LiveError, LiveHost};
use crate::family::Family;
use crate::naming::TenantName;
use crate::procfs;
use crate::root::{ReadError, Root};
use crate::target::{self, Subject};
use corun_bpf::layout::group;
use corun_bpf::Births;

/// The families that the user named.
pub(super) struct Families {
    subject: Option<Family>,
    /// Which process has started which since before the families were scanned. `None` if no family can change, or the kernel does not tell.
    births: Option<Births>,
    tenants: Vec<(Family, TenantName)>,
}

impl Families {
    /// The subject's family, and the families of these processes. From now on, children of a process that ends stay known.
    pub(super) fn of(root: &Root, subject: &Subject, tenants: &[u32]) -> Result<Families, ReadError> {
        let is_alive = matches!(subject, Subject::Processes { .. }) || !tenants.is_empty();
        let births = is_alive.then(Births::watch).flatten();
        let subject = match subject {
            Subject::Command { pid, .. } => Some(Family::of(root, &[*pid])?),
            Subject::Processes { roots, .. } => Some(Family::of(root, roots)?),
            Subject::Vm { .. } | Subject::Cgroup { .. } | Subject::All => None,
        };
        let tenants = target::families(root, tenants).into_iter();
        let tenants = tenants.map(|(pid, name)| Family::of(root, &[pid]).map(|family| (family, name)));
        Ok(Families { subject, births, tenants: tenants.collect::<Result<_, _>>()? })
    }
}

impl LiveHost {
    /// Whether every task of the subject has ended; for a cgroup, whether it has been removed, or only this
    /// process is left in it.
    pub fn subject_ended(&self) -> bool {
        match (&self.subject, self.group_of_subject, self.subject_tenant) {
            (Subject::Cgroup { .. }, _, Some(tenant)) => {
                self.subject.is_removed(&self.root)
                    || self.is_in_subject && !self.probe.any(|group| self.tenancy.of(group) == tenant)
            }
            (_, Some(group), _) => !self.probe.any(|its| its == group),
            _ => false,
        }
    }

    /// Puts the tasks of families into their groups, and those of the subject into its group, including
    /// everything that they start from now on. Returns how many births nobody saw: members may be missing.
    pub(super) fn assign(&mut self, families: Families) -> Result<u64, LiveError> {
        // The outer ones first: a task in two families belongs to the inner one.
        for (family, name) in families.tenants {
            let group = self.probe.new_group().ok_or(LiveError::NoGroup)?;
            self.tenancy.assign(group, name);
            self.assign_family(family, families.births.as_ref(), group)?;
        }
        let births_lost = families.births.as_ref().map_or(0, Births::lost);
        let Some(group) = self.group_of_subject else { return Ok(births_lost) };
        if let Some(family) = families.subject {
            self.assign_family(family, families.births.as_ref(), group)?;
        }
        if let Subject::Vm { vcpus, io, .. } = self.subject.clone() {
            if let Some(io_name) = self.subject.io_tenant() {
                let io_group = self.probe.new_group().ok_or(LiveError::NoGroup)?;
                self.tenancy.assign(io_group, io_name);
                for (tids, group) in [(vcpus, group), (io, io_group)] {
                    for tid in tids {
                        self.probe.assign(tid, group);
                    }
                }
            }
        }
        Ok(births_lost)
    }

    /// Puts a family into a group, with those that were born since it was looked at. It repeats until a pass finds no
    /// new task, since a task may fork between being listed and being assigned.
    fn assign_family(
        &self,
        mut family: Family,
        births: Option<&Births>,
        group: u32,
    ) -> Result<(), LiveError> {
        let mut known = 0;
        for tid in family.tasks_in_between() {
            self.probe.assign_heirs(tid, group);
        }
        for _ in 0..5 {
            births.iter().for_each(|births| family.adopt(&births.so_far()));
            family.look()?;
            let tids = family.tasks();
            for &tid in &tids {
                self.probe.assign(tid, group);
            }
            if tids.len() == known {
                break;
            }
            known = tids.len();
        }
        Ok(())
    }

    /// Counts another process as part of the one that watches, if that is separate.
    pub fn count_as_watcher(&mut self, pid: u32) {
        if self.watcher_apart {
            for tid in procfs::tasks(&self.root, pid).unwrap_or_default() {
                self.probe.assign(tid, group::WATCHER);
            }
        }
    }
}
