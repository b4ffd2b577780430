//! Parking: stopping a tenant so that nothing of it runs, and nobody but it can tell.
//!
//! Three ways, the best that its processes allow:
//! 1. **Its own cgroup** is frozen, where the tenant is one of the freezer's tree (a container, unit, pod, Slurm step) and
//!    nobody else is in it. One write; forks are born frozen.
//! 2. **A transient cgroup** below the one that its processes are in (a command among others in a session, a subject
//!    given by PIDs), made for it, frozen, and dissolved in the end. Chosen over signals because a frozen process
//!    tells nobody: a stopped one sends its parent SIGCHLD, a shell takes the terminal away from it, `sudo` stops
//!    itself, launchers report it; and a signal per process races with forks. Processes are moved once, at the first
//!    park, not at each. What the tenant starts from then on is born into the transient cgroup and is parked with it,
//!    also when it becomes a command of another name; but who is protected is set free as soon as it is seen.
//! 3. **SIGSTOP and SIGCONT** to each process, where no cgroup can be made: no tree, no permission, or the children
//!    of the cgroup would have controllers of their own. Looked through again until nobody new is found. Refused for
//!    the foreground job of a terminal, which its shell would take for suspended.
//!
//! A cgroup that was frozen before, and a process that was stopped before, are left as they are.
//!
//! What the kernel does with the share of who was parked: a frozen task goes to sleep, and sleep earns no credit. Since
//! Linux 6.6 (EEVDF) a task that leaves the run queue keeps its **lag**, what it was owed or had too much, bounded by
//! about two slices, and is placed with it when it comes back; before (CFS), it was placed no further back than half a
//! scheduling period. So after a window everybody competes as before it, and nobody makes up for the time parked: those
//! that ran meanwhile have gained it once and for all, which is what the budget of dedicated windows bounds. PACT'16 §2.3
//! gets the same by not debiting credits in its dedicated mode. The test
//! `after_windows_the_parked_have_the_fair_share_that_they_had_before` measures it.

use super::members::{Members, Process};
use super::refusal::by_kernel;
use crate::cgroup::{Cgroups, Membership, Tree};
use crate::freezer;
use crate::naming;
use crate::protected::Protection;
use crate::root::Root;
use crate::supervisor::journal::Entry;
use crate::supervisor::undo::{send, Task, Undo};
use crate::supervisor::Supervised;
use corun_model::{Refusal, TenantId};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// How often a tenant's processes are looked through at most, should it fork faster than it is moved. Who is left then is
/// found by the next observation.
const LOOKS: usize = 10;

/// Whether a tenant is stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing of it is.
    #[default]
    Running,
    /// It is, and so shall be whoever joins it.
    Parked,
    /// It should not be any more, but could not be let go.
    Held,
}

/// How a tenant is, or can be, stopped.
#[derive(Debug, Default)]
struct Parking {
    state: State,
    /// Whether its processes have to be looked through before the next park.
    stale: bool,
    /// Whether somebody else has come to a cgroup that was its own.
    has_company: bool,
    /// Its own cgroups; without an entry, one that somebody else has frozen.
    own: BTreeMap<PathBuf, Option<Entry>>,
    /// Its transient cgroups, by the cgroup they are in.
    transient: BTreeMap<PathBuf, (PathBuf, Entry)>,
    /// Processes to be stopped by signal: whether they are, by us.
    signalled: BTreeMap<Task, Option<Entry>>,
}

/// What parking needs of its backend.
pub(super) struct Means<'a> {
    pub(super) root: &'a Root,
    pub(super) members: &'a mut Members,
    pub(super) protection: &'a Protection,
    pub(super) supervised: &'a mut Supervised,
}

/// Everybody who was ever parked.
#[derive(Debug, Default)]
pub(super) struct Parkings {
    tenants: BTreeMap<TenantId, Parking>,
    /// Transient cgroups made so far.
    made: u64,
    cgroups: Option<Cgroups>,
}

impl Parkings {
    pub(super) fn new(root: &Root) -> Parkings {
        Parkings { cgroups: Cgroups::discover(root).ok(), ..Parkings::default() }
    }

    fn tree(&self) -> Option<&Tree> {
        freezer::tree(self.cgroups.as_ref()?)
    }

    /// The cgroup of a process in the freezer's tree; `None` when it has gone or is in none.
    fn folder_of(&self, pid: u32, root: &Root) -> Option<PathBuf> {
        let membership = Membership::read(root, format!("/proc/{pid}")).ok()?;
        let tree = self.tree()?;
        tree.folder(membership.in_tree(tree)?)
    }

    /// Who is stopped, wanted so or not.
    pub(super) fn stopped(&self) -> impl Iterator<Item = TenantId> + '_ {
        self.tenants.iter().filter(|(_, p)| p.state != State::Running).map(|(id, _)| *id)
    }

    /// Who could not be let go.
    pub(super) fn held(&self) -> Vec<TenantId> {
        self.tenants.iter().filter(|(_, p)| p.state == State::Held).map(|(id, _)| *id).collect()
    }

    pub(super) fn is_parked(&self, tenant: TenantId) -> bool {
        self.tenants.get(&tenant).is_some_and(|p| p.state == State::Parked)
    }

    /// Whether a tenant was parked or made ready for it: only then can anything of it be stopped.
    pub(super) fn knows(&self, tenant: TenantId) -> bool {
        self.tenants.contains_key(&tenant)
    }

    /// Tenants whose stopping is by signals and so has to be repeated for what forked.
    pub(super) fn by_signals(&self) -> Vec<TenantId> {
        let signals = |p: &&Parking| p.state == State::Parked && !p.signalled.is_empty();
        self.tenants.iter().filter(|(_, p)| signals(p)).map(|(id, _)| *id).collect()
    }

    /// Says that a tenant has tasks that were not there before.
    pub(super) fn has_grown(&mut self, tenant: TenantId) {
        if let Some(p) = self.tenants.get_mut(&tenant) {
            p.stale = true;
        }
    }

    /// Says that a process of a tenant came that was not there before: what was another's cgroup alone may not be any more.
    pub(super) fn has_company(&mut self, pid: u32, root: &Root) {
        let Some(folder) = self.folder_of(pid, root) else { return };
        for parking in self.tenants.values_mut() {
            parking.has_company |= parking.own.keys().any(|own| folder.starts_with(own));
        }
    }

    /// Gives a process back to the cgroup that it would be in without us, should it have been born into a transient one. Of who
    /// has gone nothing is left to do.
    pub(super) fn set_free(&self, pid: u32, root: &Root) {
        let Some(folder) = self.folder_of(pid, root) else { return };
        let made = |folder: &Path| {
            self.tenants.values().flat_map(|p| p.transient.values()).any(|(t, _)| t == folder)
        };
        if let Some(parent) = folder.ancestors().find(|f| made(f)).and_then(Path::parent) {
            let _ = freezer::move_into(parent, pid);
        }
    }

    /// Whether anybody has a cgroup of its own, or a transient one.
    pub(super) fn has_cgroups(&self) -> bool {
        self.tenants.values().any(|p| !p.own.is_empty() || !p.transient.is_empty())
    }

    /// Forgets everybody, all having been restored.
    pub(super) fn clear(&mut self) {
        self.tenants.clear();
    }

    /// Forgets who has ended, and takes away the transient cgroups that were made for them.
    pub(super) fn forget_gone(&mut self, living: &BTreeSet<TenantId>, supervised: &mut Supervised) {
        self.tenants.retain(|tenant, parking| {
            if parking.state != State::Running || living.contains(tenant) {
                return true;
            }
            // With a process in it that nobody has seen yet, a cgroup cannot be removed.
            parking.transient.retain(|_, (folder, entry)| {
                let is_gone = match std::fs::remove_dir(folder) {
                    Ok(()) => true,
                    Err(e) => e.kind() == io::ErrorKind::NotFound,
                };
                !is_gone || supervised.undone(*entry).is_err()
            });
            let in_force = |entry: &Option<Entry>| entry.is_some();
            !parking.transient.is_empty()
                || parking.own.values().any(in_force)
                || parking.signalled.values().any(in_force)
        });
    }

    /// Makes ready to stop a tenant without stopping it: what takes milliseconds is done here.
    pub(super) fn prepare(&mut self, tenant: TenantId, means: &mut Means) -> Result<(), Refusal> {
        let is_ready = |p: &Parking| !p.stale && !p.has_company && p.signalled.is_empty();
        if self.tenants.get(&tenant).is_some_and(is_ready) {
            return Ok(());
        }
        let mut parking = self.tenants.remove(&tenant).unwrap_or_default();
        if parking.has_company {
            // Which cgroups are its own is found out anew; those that are frozen stay as long as they are.
            parking.own.retain(|_, entry| entry.is_some());
            parking.has_company = !parking.own.is_empty();
        }
        let done = self.hold_all(tenant, &mut parking, means);
        parking.stale = done.is_err();
        self.tenants.insert(tenant, parking);
        done
    }

    /// Finds the way to stop every process of a tenant. Whoever forks before it is moved leaves a child behind: they are
    /// looked through again until nobody new is found.
    fn hold_all(
        &mut self,
        tenant: TenantId,
        parking: &mut Parking,
        means: &mut Means,
    ) -> Result<(), Refusal> {
        for look in 0..LOOKS {
            let processes = means.members.processes_of(tenant);
            if processes.is_empty() && look == 0 {
                return Err(Refusal::NobodyLeft);
            }
            if let Some(protected) = processes.iter().find_map(|p| means.protection.of_process(p.task.pid)) {
                return Err(Refusal::Protected(protected));
            }
            parking.signalled.retain(|task, stopped| {
                stopped.is_some() || processes.iter().any(|p| p.task == *task && !p.stopped)
            });
            let mut found = false;
            for process in &processes {
                found |= self.hold(tenant, process, parking, means)?;
            }
            if !found {
                break;
            }
        }
        Ok(())
    }

    /// Finds the way to stop one process of a tenant; whether it had none yet.
    fn hold(
        &mut self,
        tenant: TenantId,
        process: &Process,
        parking: &mut Parking,
        means: &mut Means,
    ) -> Result<bool, Refusal> {
        let membership = match Membership::read(means.root, format!("/proc/{}", process.through)) {
            Ok(membership) => membership,
            Err(e) if e.is_gone() => return Ok(false),
            Err(e) => return Err(Refusal::Controller(e.to_string())),
        };
        let path = self.tree().and_then(|tree| membership.in_tree(tree));
        let folder = self.tree().zip(path).and_then(|(tree, path)| tree.folder(path));
        let Some(folder) = folder else { return by_signal(process, parking, means.root) };
        let held = |parking: &Parking| {
            parking.signalled.contains_key(&process.task)
                || parking.own.keys().any(|own| folder.starts_with(own))
                || parking.transient.values().any(|(t, _)| folder.starts_with(t))
        };
        if held(parking) {
            return Ok(false);
        }
        let key = means.members.tenant(tenant).map(|t| t.key.clone()).unwrap_or_default();
        if let Some(own) = self.own_cgroup(tenant, &key, path.unwrap_or("/"), means) {
            parking.own.insert(own, None);
            return Ok(true);
        }
        // One that is in another tenant's transient cgroup goes beside that, not into it.
        let transient = folder.ancestors().find(|f| freezer::is_transient(f)).and_then(Path::parent);
        let parent = transient.unwrap_or(&folder).to_owned();
        match self.enclose(&parent, process.through, parking, means)? {
            Ok(()) => Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(false),
            Err(_) => by_signal(process, parking, means.root),
        }
    }

    /// The outermost cgroup that is the tenant's, when nobody else has a process in it.
    fn own_cgroup(&self, tenant: TenantId, key: &str, path: &str, means: &mut Means) -> Option<PathBuf> {
        let (cgroups, tree) = (self.cgroups.as_ref()?, self.tree()?);
        let own = naming::own_part(path, key)?;
        let pids = cgroups.processes(tree, own).ok()?;
        let is_alien = |pid: &u32| {
            means.protection.of_process(*pid).is_some()
                || means.members.other_tenant_of(*pid, tenant).is_some()
        };
        let folder = tree.folder(own)?;
        (!pids.iter().any(is_alien) && freezer::is_frozen(&folder).is_ok()).then_some(folder)
    }

    /// Moves a process, given by a thread that lives, into the tenant's transient cgroup below `parent`. The inner error is
    /// the kernel's.
    fn enclose(
        &mut self,
        parent: &Path,
        thread: u32,
        parking: &mut Parking,
        means: &mut Means,
    ) -> Result<io::Result<()>, Refusal> {
        if let Some((folder, _)) = parking.transient.get(parent) {
            return Ok(freezer::move_into(folder, thread));
        }
        if !freezer::may_have_transient_child(parent) {
            return Ok(Err(io::ErrorKind::Unsupported.into()));
        }
        self.made += 1;
        let folder = freezer::transient_child(parent, self.made);
        let undo = Undo::Dissolve(folder.clone());
        let make = || {
            std::fs::create_dir(&folder)?;
            freezer::move_into(&folder, thread).inspect_err(|_| {
                let _ = std::fs::remove_dir(&folder);
            })
        };
        match means.supervised.change(means.root, None, &undo, make)? {
            Ok((entry, ())) => {
                parking.transient.insert(parent.to_owned(), (folder, entry));
                Ok(Ok(()))
            }
            Err(e) => Ok(Err(e)),
        }
    }

    /// Stops a tenant. Refused, it may be stopped in part.
    pub(super) fn park(&mut self, tenant: TenantId, means: &mut Means) -> Result<(), Refusal> {
        // Signals reach who was there; who forked meanwhile is found by looking again.
        for _ in 0..LOOKS {
            self.prepare(tenant, means)?;
            let Some(parking) = self.tenants.get_mut(&tenant) else { return Ok(()) };
            parking.state = State::Parked;
            if stop(parking, means)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Lets a tenant run. What could not be let go is still in the journal, and is tried again when this is called again.
    pub(super) fn unpark(&mut self, tenant: TenantId, means: &mut Means) -> Result<(), Refusal> {
        let Some(parking) = self.tenants.get_mut(&tenant) else { return Ok(()) };
        let mut failed = None;
        // Whether it is done; of who has gone nothing is left to do.
        let mut note = |done: io::Result<()>, whom: &str| match done {
            Err(e) if !matches!(e.raw_os_error(), Some(libc::ESRCH | libc::ENOENT | libc::ENODEV)) => {
                failed.get_or_insert(by_kernel(whom, &e));
                false
            }
            _ => true,
        };
        for (folder, _) in parking.transient.values() {
            note(freezer::set_frozen(folder, false), &folder.display().to_string());
        }
        for (folder, entry) in &mut parking.own {
            let Some(known) = *entry else { continue };
            if note(freezer::set_frozen(folder, false), &folder.display().to_string()) {
                *entry = None;
                note(means.supervised.undone(known), "the journal");
            }
        }
        for (task, entry) in &mut parking.signalled {
            let Some(known) = *entry else { continue };
            if note(send(means.root, task, libc::SIGCONT), &format!("process {}", task.pid)) {
                *entry = None;
                note(means.supervised.undone(known), "the journal");
            }
        }
        parking.state = if failed.is_none() { State::Running } else { State::Held };
        failed.map_or(Ok(()), Err)
    }
}

/// Stops what runs of a tenant; returns how many processes were stopped by signals.
fn stop(parking: &mut Parking, means: &mut Means) -> Result<usize, Refusal> {
    for (folder, _) in parking.transient.values() {
        means.supervised.beat()?;
        freezer::set_frozen(folder, true).map_err(|e| by_kernel(&folder.display().to_string(), &e))?;
        // Its line in the journal is in force as long as the cgroup is there. Nobody may watch any more by now: then the
        // refusal has it thawed.
        means.supervised.beat()?;
    }
    for (folder, entry) in parking.own.iter_mut().filter(|(_, entry)| entry.is_none()) {
        if freezer::is_frozen(folder).unwrap_or(true) {
            continue;
        }
        let undo = Undo::Thaw(folder.clone());
        let make = || freezer::set_frozen(folder, true);
        let made = means.supervised.change(means.root, None, &undo, make)?;
        let (made, ()) = made.map_err(|e| by_kernel(&folder.display().to_string(), &e))?;
        *entry = Some(made);
    }
    let mut stopped = 0;
    for (task, entry) in parking.signalled.iter_mut().filter(|(_, entry)| entry.is_none()) {
        let undo = Undo::Continue(*task);
        let make = || send(means.root, task, libc::SIGSTOP);
        match means.supervised.change(means.root, None, &undo, make)? {
            Ok((made, ())) => {
                *entry = Some(made);
                stopped += 1;
            }
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
            Err(e) => return Err(by_kernel(&format!("process {}", task.pid), &e)),
        }
    }
    parking.signalled.retain(|_, entry| entry.is_some());
    Ok(stopped)
}

/// Notes a process to be stopped by signals, unless it is stopped already or a shell would misunderstand; whether it was
/// not noted yet.
fn by_signal(process: &Process, parking: &mut Parking, root: &Root) -> Result<bool, Refusal> {
    if process.stopped || parking.signalled.contains_key(&process.task) {
        return Ok(false);
    }
    if is_in_foreground(root, &process.task) {
        return Err(Refusal::ForegroundJob { name: process.comm.clone(), pid: process.task.pid });
    }
    parking.signalled.insert(process.task, None);
    Ok(true)
}

/// Whether a process is in the foreground process group of its terminal.
fn is_in_foreground(root: &Root, task: &Task) -> bool {
    let stat = root.read(format!("/proc/{}/stat", task.pid)).unwrap_or_default();
    // proc(5): fields 7 and 8 are the terminal and its foreground process group; the state is field 3.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, after)| after).split_ascii_whitespace().skip(4);
    let terminal = fields.next().is_some_and(|tty| tty != "0");
    terminal && fields.next() == Some(&task.pgid.to_string())
}
