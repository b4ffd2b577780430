//! Whom the user named: the subject, and tenants that are a process with all that descends from it. Their tasks are put into groups
//! of their own, which whatever they start inherits.

use super::{LiveError, LiveHost};
use crate::procfs;
use crate::target::{self, Subject};
use corun_bpf::layout::group;

impl LiveHost {
    /// Whether every task of the subject has ended; of a cgroup, whether it has been removed, or only this process is left in it.
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

    /// Puts the subject's tasks into their group, with all that they start from now on.
    pub(super) fn assign_subject(&mut self) -> Result<(), LiveError> {
        let Some(group) = self.group_of_subject else { return Ok(()) };
        match self.subject.clone() {
            Subject::Vm { vcpus, io, .. } => {
                if let Some(io_name) = self.subject.io_tenant() {
                    let io_group = self.probe.new_group().ok_or(LiveError::NoGroup)?;
                    self.tenancy.assign(io_group, io_name);
                    for (tids, group) in [(vcpus, group), (io, io_group)] {
                        for tid in tids {
                            self.probe.assign(tid, group);
                        }
                    }
                }
                Ok(())
            }
            Subject::Command { pid, .. } => self.assign_family(&[pid], group),
            Subject::Processes { roots, .. } => self.assign_family(&roots, group),
            Subject::Cgroup { .. } | Subject::All => Ok(()),
        }
    }

    /// Makes each of these processes a tenant, with its threads and descendants.
    pub(super) fn assign_families(&mut self, pids: &[u32]) -> Result<(), LiveError> {
        for (pid, name) in target::families(&self.root, pids) {
            let group = self.probe.new_group().ok_or(LiveError::NoGroup)?;
            self.tenancy.assign(group, name);
            self.assign_family(&[pid], group)?;
        }
        Ok(())
    }

    /// Puts processes and all that descends from them into a group. Repeated until a pass finds nobody new, since a task may fork
    /// between being listed and being assigned. This process watches and is nobody's, and so is what it was started by on
    /// the way from one of them: that only waits for it.
    fn assign_family(&self, roots: &[u32], group: u32) -> Result<(), LiveError> {
        let watching = procfs::between(&self.root, std::process::id(), roots);
        let mut known = 0;
        for _ in 0..5 {
            let pids = procfs::with_descendants_except(&self.root, roots, &watching)?;
            let tids: Vec<u32> =
                pids.iter().flat_map(|&pid| procfs::tasks(&self.root, pid).unwrap_or_default()).collect();
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

    /// Counts another process as part of the one that watches, where that is told apart.
    pub fn count_as_watcher(&mut self, pid: u32) {
        if self.watcher_apart {
            for tid in procfs::tasks(&self.root, pid).unwrap_or_default() {
                self.probe.assign(tid, group::WATCHER);
            }
        }
    }
}
