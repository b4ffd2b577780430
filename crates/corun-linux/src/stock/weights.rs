//! Weights: a tenant's share of contended CPU time.
//!
//! If the tenant is a cgroup of its own in the tree with the CPU controller, the cgroup's weight is set:
//! `cpu.weight` (v2), or `cpu.shares` (v1; 1024 corresponds to 100 in v2). Otherwise nice is used, 25 % per
//! step as in the kernel's table, relative to each task's own value. Nice compares only tasks of the same
//! group. With autogroups, every session is a group. Then the nice value of the autogroup is set, for a
//! tenant that has its sessions to itself. A tenant that shares a session is refused, since its nice value
//! would mean nothing to other sessions.

use super::members::Process;
use super::parking::Means;
use super::refusal::by_kernel;
use super::tasks::Tasks;
use crate::cgroup::{Cgroups, Membership};
use crate::freezer::write_file;
use crate::naming;
use crate::procfs;
use crate::root::Root;
use crate::sched;
use crate::supervisor::journal::Entry;
use crate::supervisor::undo::Undo;
use crate::supervisor::Supervised;
use corun_model::{Refusal, TenantId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The share of a weight relative to the default, as a step of nice.
pub(super) fn nice_of(weight: u32) -> i32 {
    // Each step of nice is a factor of 1.25.
    ((100.0 / f64::from(weight)).ln() / 1.25f64.ln()).round() as i32
}

/// A change: its line in the journal, and its undo.
pub(super) type Changed = BTreeMap<Place, (Entry, Undo)>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A control file.
    File(PathBuf),
    /// The autogroup with this number.
    Autogroup(u64),
}

/// Forgets cgroups and sessions that have gone.
pub(super) fn forget_gone(changed: &mut Changed, root: &Root, supervised: &mut Supervised) {
    changed.retain(|_, (entry, undo)| !undo.is_over(root) || supervised.undone(*entry).is_err());
}

/// Sets a tenant's weight.
pub(super) fn set(
    tenant: TenantId,
    weight: u32,
    tasks: &mut Tasks,
    changed: &mut Changed,
    means: &mut Means,
) -> Result<(), Refusal> {
    if !(1..=10_000).contains(&weight) {
        return Err(Refusal::Weight(weight));
    }
    let processes = means.members.processes_of(tenant);
    if processes.is_empty() {
        return Err(Refusal::NobodyLeft);
    }
    if let Some(protected) = processes.iter().find_map(|p| means.protection.of_process(p.task.pid)) {
        return Err(Refusal::Protected(protected));
    }
    let mut left = Vec::new();
    for process in processes {
        match own_file(tenant, &process, weight, means) {
            Some((path, value)) => set_file(path, &value, changed, means)?,
            None => left.push(process),
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    let in_autogroup = |p: &Process| means.root.has(format!("/proc/{}/autogroup", p.task.pid));
    if sched::autogroups_are_on(means.root) && left.iter().any(in_autogroup) {
        return set_autogroups(&left, weight, changed, means);
    }
    let by = nice_of(weight);
    for process in &left {
        for tid in procfs::tasks(means.root, process.task.pid).unwrap_or_default() {
            if let Some(task) = means.members.task(tid) {
                tasks.nice(means.root, means.supervised, &task, by)?;
            }
        }
    }
    Ok(())
}

/// The file that holds the weight of the tenant's own cgroup, and what to write to it.
fn own_file(
    tenant: TenantId,
    process: &Process,
    weight: u32,
    means: &mut Means,
) -> Option<(PathBuf, String)> {
    let cgroups = Cgroups::discover(means.root).ok()?;
    let tree = cgroups.with_controller("cpu")?;
    let membership = Membership::read(means.root, format!("/proc/{}", process.task.pid)).ok()?;
    let path = membership.in_tree(tree)?;
    let key = means.members.tenant(tenant)?.key.clone();
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
    let is_own = |path: &&str| naming::of_cgroup(path).is_some_and(|t| t.key == key);
    let own = ends.map(|end| &path[..end]).find(is_own)?;
    let pids = cgroups.processes(tree, own).ok()?;
    if pids.iter().any(|pid| means.members.other_tenant_of(*pid, tenant).is_some()) {
        return None;
    }
    let folder = tree.folder(own)?;
    let (file, value) = match tree.is_v2() {
        true => ("cpu.weight", u64::from(weight)),
        false => ("cpu.shares", (u64::from(weight) * 1024 / 100).clamp(2, 262_144)),
    };
    let file = folder.join(file);
    file.exists().then(|| (file, value.to_string()))
}

fn set_file(path: PathBuf, value: &str, changed: &mut Changed, means: &mut Means) -> Result<(), Refusal> {
    let undo = || {
        let was = std::fs::read_to_string(&path)?.trim().to_owned();
        Ok(Undo::File { path: path.clone(), was })
    };
    write(Place::File(path.clone()), &path, value, undo, changed, means)
}

/// Writes a weight to `path`; `undo` returns the undo if nothing was written to `place` yet.
fn write(
    place: Place,
    path: &Path,
    value: &str,
    undo: impl FnOnce() -> std::io::Result<Undo>,
    changed: &mut Changed,
    means: &mut Means,
) -> Result<(), Refusal> {
    let whom = path.display().to_string();
    let refused = |e: &std::io::Error| by_kernel(&whom, e);
    let (known, undo) = match changed.get(&place) {
        Some((entry, undo)) => (Some(*entry), undo.clone()),
        None => (None, undo().map_err(|e| refused(&e))?),
    };
    let make = || write_file(path, value);
    let (entry, ()) = means.supervised.change(means.root, known, &undo, make)?.map_err(|e| refused(&e))?;
    changed.insert(place, (entry, undo));
    Ok(())
}

/// Sets the nice value of the sessions that the processes are in, if nobody else is in them.
fn set_autogroups(
    processes: &[Process],
    weight: u32,
    changed: &mut Changed,
    means: &mut Means,
) -> Result<(), Refusal> {
    let sid = |pid: u32| procfs::process_stat(means.root, pid).ok().map(|s| s.sid);
    let mine: BTreeSet<u32> = processes.iter().map(|p| p.task.pid).collect();
    let sessions: BTreeMap<u32, u32> = mine.iter().filter_map(|&pid| Some((sid(pid)?, pid))).collect();
    for pid in procfs::processes(means.root).unwrap_or_default() {
        let Ok(stat) = procfs::process_stat(means.root, pid) else { continue };
        if sessions.contains_key(&stat.sid) && !mine.contains(&pid) && !stat.has_ended() {
            return Err(Refusal::SharesSession { with: stat.comm, pid });
        }
    }
    let value = nice_of(weight).clamp(-20, 19).to_string();
    for pid in sessions.values() {
        let group = procfs::autogroup(means.root, *pid).map_err(|e| Refusal::Controller(e.to_string()))?;
        let Some(group) = group else { continue };
        let undo = || Ok(Undo::Autogroup { id: group.id, was: group.nice });
        let path = means.root.path(format!("/proc/{pid}/autogroup"));
        write(Place::Autogroup(group.id), &path, &value, undo, changed, means)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::nice_of;

    #[test]
    fn a_step_of_nice_is_a_quarter_of_the_share() {
        assert_eq!([100, 125, 80, 1, 10_000].map(nice_of), [0, -1, 1, 21, -21]);
        assert_eq!((1..=10_000).map(nice_of).max(), Some(21));
    }
}
