//! Parking: stopping a tenant so that none of it runs, and nobody else notices.
//!
//! There are three ways; the best that its processes allow is used:
//! 1. **Its own cgroup** is frozen, if the tenant is a cgroup in the freezer's tree (a container, unit, pod,
//!    Slurm step) and nobody else is in it. One write; forks are born frozen.
//! 2. **A transient cgroup** below its processes' present one (for a command among others in a session, or a
//!    subject given by PIDs) is made for it, frozen, and dissolved in the end. It is better than signals
//!    because nobody notices that a process is frozen. A stopped process sends its parent SIGCHLD, a shell
//!    takes the terminal away from it, `sudo` stops itself, launchers report it. And a signal per process
//!    races with forks. Processes are moved once, at the first park, not at each. New children of the tenant
//!    are born into the transient cgroup and are parked with it, even if they become a command with another
//!    name. But a protected process is released as soon as it is seen.
//! 3. **SIGSTOP and SIGCONT** to each process, if no cgroup can be made: there is no tree, no permission, or
//!    the children of the cgroup would have controllers of their own. The processes are scanned again until
//!    no new one is found. This is refused for the foreground job of a terminal, because its shell would
//!    consider it suspended.
//!
//! A cgroup that was already frozen, and a process that was already stopped, are left as they are.
//!
//! What the kernel does with the share of a parked task: a frozen task goes to sleep, and sleep earns no
//! credit. Since Linux 6.6 (EEVDF), a task that leaves the run queue keeps its **lag**: the time that it was
//! owed or had too much, bounded by about two slices. It is placed with that lag when it comes back. Before
//! (CFS), it was placed at most half a scheduling period back. So after a window everybody competes as
//! before, and nobody makes up for the parked time. The tasks that ran meanwhile have gained it for good,
//! which is what the budget of dedicated windows bounds. PACT'16 §2.3 achieves the same by not debiting
//! credits in its dedicated mode. The test
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

/// The most scans of a tenant's processes, in case it forks faster than it is moved. The next observation
/// finds the rest.
const LOOKS: usize = 10;

/// Whether a tenant is stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing of it is.
    #[default]
    Running,
    /// It is parked, and new members are to be parked, too.
    Parked,
    /// It should run, but could not be released.
    Held,
}

/// How a tenant is stopped, or can be.
#[derive(Debug, Default)]
struct Parking {
    state: State,
    /// Whether its processes have to be scanned before the next park.
    stale: bool,
    /// Whether somebody else has entered a cgroup that was its own.
    has_company: bool,
    /// Its own cgroups; one without an entry was frozen by somebody else.
    own: BTreeMap<PathBuf, Option<Entry>>,
    /// Its transient cgroups, by their parents.
    transient: BTreeMap<PathBuf, (PathBuf, Entry)>,
    /// Processes to be stopped by signal, and whether corun has stopped them.
    signalled: BTreeMap<Task, Option<Entry>>,
}

/// What parking needs of its backend.
pub(super) struct Means<'a> {
    pub(super) root: &'a Root,
    pub(super) members: &'a mut Members,
    pub(super) protection: &'a Protection,
    pub(super) supervised: &'a mut Supervised,
}

/// Every tenant that was ever parked.
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

    /// The cgroup of a process in the freezer's tree; `None` if the process has gone or is in none.
    fn folder_of(&self, pid: u32, root: &Root) -> Option<PathBuf> {
        let membership = Membership::read(root, format!("/proc/{pid}")).ok()?;
        let tree = self.tree()?;
        tree.folder(membership.in_tree(tree)?)
    }

    /// The stopped tenants, intended or not.
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

    /// Whether a tenant was parked or prepared for it: only then can any of it be stopped.
    pub(super) fn knows(&self, tenant: TenantId) -> bool {
        self.tenants.contains_key(&tenant)
    }

    /// Tenants that are stopped by signals, which have to be repeated for forked processes.
    pub(super) fn by_signals(&self) -> Vec<TenantId> {
        let signals = |p: &&Parking| p.state == State::Parked && !p.signalled.is_empty();
        self.tenants.iter().filter(|(_, p)| signals(p)).map(|(id, _)| *id).collect()
    }

    /// Notes that a tenant has new tasks.
    pub(super) fn has_grown(&mut self, tenant: TenantId) {
        if let Some(p) = self.tenants.get_mut(&tenant) {
            p.stale = true;
        }
    }

    /// Notes that a tenant has a new process: a cgroup that belonged to one tenant alone may not any more.
    pub(super) fn has_company(&mut self, pid: u32, root: &Root) {
        let Some(folder) = self.folder_of(pid, root) else { return };
        for parking in self.tenants.values_mut() {
            parking.has_company |= parking.own.keys().any(|own| folder.starts_with(own));
        }
    }

    /// Returns a process to the cgroup that it would be in without corun, if it was born into a transient
    /// one. For a process that has gone, nothing remains to do.
    pub(super) fn set_free(&self, pid: u32, root: &Root) {
        let Some(folder) = self.folder_of(pid, root) else { return };
        let made = |folder: &Path| {
            self.tenants.values().flat_map(|p| p.transient.values()).any(|(t, _)| t == folder)
        };
        if let Some(parent) = folder.ancestors().find(|f| made(f)).and_then(Path::parent) {
            let _ = freezer::move_into(parent, pid);
        }
    }

    /// Whether any tenant has a cgroup of its own, or a transient one.
    pub(super) fn has_cgroups(&self) -> bool {
        self.tenants.values().any(|p| !p.own.is_empty() || !p.transient.is_empty())
    }

    /// Forgets everybody, all having been restored.
    pub(super) fn clear(&mut self) {
        self.tenants.clear();
    }

    /// Forgets tenants that have ended, and removes the transient cgroups that were made for them.
    pub(super) fn forget_gone(&mut self, living: &BTreeSet<TenantId>, supervised: &mut Supervised) {
        self.tenants.retain(|tenant, parking| {
            if parking.state != State::Running || living.contains(tenant) {
                return true;
            }
            // A cgroup with a process that nobody has seen yet cannot be removed.
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

    /// Prepares to stop a tenant without stopping it: the slow part (milliseconds) is done here.
    pub(super) fn prepare(&mut self, tenant: TenantId, means: &mut Means) -> Result<(), Refusal> {
        let is_ready = |p: &Parking| !p.stale && !p.has_company && p.signalled.is_empty();
        if self.tenants.get(&tenant).is_some_and(is_ready) {
            return Ok(());
        }
        let mut parking = self.tenants.remove(&tenant).unwrap_or_default();
        if parking.has_company {
            // Finds out again which cgroups are its own; frozen ones stay as long as they are frozen.
            parking.own.retain(|_, entry| entry.is_some());
            parking.has_company = !parking.own.is_empty();
        }
        let done = self.hold_all(tenant, &mut parking, means);
        parking.stale = done.is_err();
        self.tenants.insert(tenant, parking);
        done
    }

    /// Finds the way to stop every process of a tenant. A process that forks before it is moved leaves a
    /// child behind, so they are scanned again until no new one is found.
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

    /// Finds the way to stop one process of a tenant; returns whether it had none yet.
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
        // A process in another tenant's transient cgroup goes next to that, not into it.
        let transient = folder.ancestors().find(|f| freezer::is_transient(f)).and_then(Path::parent);
        let parent = transient.unwrap_or(&folder).to_owned();
        match self.enclose(&parent, process.through, parking, means)? {
            Ok(()) => Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(false),
            Err(_) => by_signal(process, parking, means.root),
        }
    }

    /// The outermost cgroup that is the tenant's, if nobody else has a process in it.
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

    /// Moves a process, given by a live thread, into the tenant's transient cgroup below `parent`. The inner
    /// error is the kernel's.
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

    /// Stops a tenant. If that is refused, the tenant may be partly stopped.
    pub(super) fn park(&mut self, tenant: TenantId, means: &mut Means) -> Result<(), Refusal> {
        // Signals reach the processes that existed; a second look finds those that forked meanwhile.
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

    /// Lets a tenant run. Processes that could not be released are still in the journal; another call tries
    /// again.
    pub(super) fn unpark(&mut self, tenant: TenantId, means: &mut Means) -> Result<(), Refusal> {
        let Some(parking) = self.tenants.get_mut(&tenant) else { return Ok(()) };
        let mut failed = None;
        // Whether it is done; for a process that has gone, nothing remains to do.
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

/// Stops a tenant's running processes; returns how many were stopped by signals.
fn stop(parking: &mut Parking, means: &mut Means) -> Result<usize, Refusal> {
    for (folder, _) in parking.transient.values() {
        means.supervised.beat()?;
        freezer::set_frozen(folder, true).map_err(|e| by_kernel(&folder.display().to_string(), &e))?;
        // Its line in the journal is in force as long as the cgroup exists. The supervisor may have gone by
        // now: then the refusal thaws the cgroup.
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

/// Notes a process to be stopped by signals, unless it is stopped already or a shell would misunderstand;
/// returns whether it is new.
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
