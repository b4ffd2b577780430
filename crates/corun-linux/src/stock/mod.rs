//! The stock backend: the five knobs with what every kernel has since 5.15. No sched_ext, no module, no BPF.
//!
//! | file | does |
//! | --- | --- |
//! | `members` | who belongs to a tenant now |
//! | `parking` | park, unpark: the freezer, transient cgroups, signals |
//! | `tasks` | slice, preempt_delay, cpus, nice |
//! | `weights` | cpu.weight, cpu.shares, autogroups, nice |
//! | `refusal` | why not |
//! | here | [`StockBackend`]: which action goes where, who is protected, undo |
//!
//! The backend sets nothing before a supervisor watches over it ([`crate::supervisor`]), which it starts with
//! its first action. While anything is in force, its thread is SCHED_FIFO. A controller that competed with
//! 128 thawed spinners needed 450 ms for the next write in a measurement, and its heartbeats would be late.
//! Its work at that priority is bounded: a write per cgroup or a signal per process, and an observation.

mod members;
mod parking;
mod refusal;
mod tasks;
mod weights;

use crate::backend::{Backend, KnobSupport, ParkedTasks, Support};
use crate::cgroup::Cgroups;
use crate::cpulist;
use crate::freezer;
use crate::limits;
use crate::procfs;
use crate::protected::Protection;
use crate::root::Root;
use crate::sched::{self, Attributes};
use crate::supervisor::{self, restoring, Supervised};
use corun_model::refusal::Protected;
use corun_model::why::{KnobMeans, NoKnob, NoRealTime};
use corun_model::{Action, CpuId, HostError, Knob, Observation, Outcome, Refusal, TaskId, Tenant, TenantId};
use members::Members;
use parking::{Means, Parkings};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use tasks::Tasks;

/// The controller's priority while anything is in force: the lowest one above every fair task.
const PRIORITY: u32 = 1;

/// The tenants that may be touched at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every tenant that is not protected.
    All,
    /// Tenants with one of these names or keys (`nginx.service`, `pgid:1234`), or with a process that has one
    /// of these PIDs.
    Only(Vec<String>),
}

/// What the stock backend may do, and to which tenants.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose tenants may be touched.
    pub scope: Scope,
    /// Names, keys or PIDs that may not be touched (`--protect`).
    pub protect: Vec<String>,
    /// Whether the controller may be real-time while anything is in force; otherwise, thawing many spinners
    /// takes long.
    pub real_time: bool,
    /// The journal and the supervisor.
    pub supervisor: supervisor::Options,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            scope: Scope::All,
            protect: Vec::new(),
            real_time: true,
            supervisor: supervisor::Options::default(),
        }
    }
}

/// The stock backend. Dropping it restores everything.
#[derive(Debug)]
pub struct StockBackend {
    root: Root,
    options: Options,
    protection: Protection,
    online: Vec<CpuId>,
    members: Members,
    /// Whether a tenant is in scope, cached since it last grew.
    in_scope: BTreeMap<TenantId, bool>,
    /// Why one of its processes may not be touched, cached since the tenant last grew.
    guarded: BTreeMap<TenantId, Option<Protected>>,
    parkings: Parkings,
    tasks: Tasks,
    weights: weights::Changed,
    supervised: Option<Supervised>,
    /// The attributes of this thread before it became real-time.
    fair: Option<Attributes>,
    /// Why it is not real-time although it should be.
    not_real_time: Option<NoRealTime>,
    /// Why everything has been restored and nothing can be changed any more.
    lost: Option<String>,
}

impl StockBackend {
    /// A backend that has changed nothing yet.
    pub fn new(root: &Root, options: Options) -> StockBackend {
        let online = root.read("/sys/devices/system/cpu/online").ok().and_then(|t| cpulist::parse(&t));
        StockBackend {
            root: root.clone(),
            protection: Protection::new(root, &options.protect),
            options,
            online: online.unwrap_or_default(),
            members: Members::new(root),
            in_scope: BTreeMap::new(),
            guarded: BTreeMap::new(),
            parkings: Parkings::new(root),
            tasks: Tasks::default(),
            weights: weights::Changed::default(),
            supervised: None,
            fair: None,
            not_real_time: None,
            lost: None,
        }
    }

    /// Starts the supervisor now rather than with the first action.
    ///
    /// # Errors
    /// [`HostError::Failed`] if another controller runs, or the supervisor cannot be started.
    pub fn arm(&mut self) -> Result<(), HostError> {
        let started = self.start_supervisor().map(|_| ());
        started.map_err(|why| HostError::Failed { what: "taking control".into(), why })?;
        // Find out whether it may be real-time before anybody waits for it.
        self.be_real_time();
        self.be_fair();
        Ok(())
    }

    /// The supervisor's PID, once it runs.
    pub fn supervisor_pid(&self) -> Option<u32> {
        self.supervised.as_ref().map(Supervised::pid)
    }

    /// Changes of an earlier controller, killed together with its supervisor, that this one restored first.
    pub fn restored_at_start(&self) -> usize {
        self.supervised.as_ref().map_or(0, |s| s.restored().undone)
    }

    /// Whether the controller competes with the tasks that it thaws, and why; `None` while it does not.
    pub fn not_real_time(&self) -> Option<&NoRealTime> {
        self.not_real_time.as_ref()
    }

    fn start_supervisor(&mut self) -> Result<&mut Supervised, String> {
        if let Some(why) = &self.lost {
            return Err(why.clone());
        }
        if self.supervised.is_none() {
            let started =
                Supervised::start(&self.root, &self.options.supervisor).map_err(|e| e.to_string())?;
            self.protection.add(started.pid());
            // A page fault while a tenant is parked may have to wait for that tenant.
            let _ = sched::lock_memory();
            self.supervised = Some(started);
        }
        Ok(self.supervised.as_mut().expect("it was just started"))
    }

    /// Checks that a tenant may be touched.
    fn may_touch(&mut self, id: TenantId) -> Result<(), Refusal> {
        let Some(tenant) = self.members.tenant(id).cloned() else {
            return Err(Refusal::NoTenant(id));
        };
        if let Some(protected) = self.protection.of_tenant(&tenant) {
            return Err(Refusal::Protected(protected));
        }
        let known = self.in_scope.get(&id).copied();
        let in_scope = known.unwrap_or_else(|| self.is_in_scope(&tenant));
        self.in_scope.insert(id, in_scope);
        if !in_scope {
            return Err(Refusal::NotInScope { tenant: tenant.name });
        }
        Ok(())
    }

    /// Checks that a tenant may be touched as a whole, according to its own identity and to each of its
    /// processes: for another backend.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn allows_tenant(&mut self, id: TenantId) -> Result<(), Refusal> {
        self.may_touch(id)?;
        self.guard_of(id).map_or(Ok(()), |protected| Err(Refusal::Protected(protected)))
    }

    /// Whether a tenant is protected, by its own identity or by one of its processes.
    pub(crate) fn is_protected(&mut self, id: TenantId) -> bool {
        let as_a_whole = |tenant| self.protection.of_tenant(tenant).is_some();
        self.members.tenant(id).is_some_and(as_a_whole) || self.guard_of(id).is_some()
    }

    /// Why a tenant may not be touched because of one of its processes.
    fn guard_of(&mut self, id: TenantId) -> Option<Protected> {
        if let Some(known) = self.guarded.get(&id) {
            return known.clone();
        }
        let observed = self.members.observed_of(id);
        let why = observed.into_iter().find_map(|pid| self.protection.of_process(pid));
        self.guarded.insert(id, why.clone());
        why
    }

    /// The live processes of a tenant, including forks since the last observation.
    pub(crate) fn processes_now(&mut self, id: TenantId) -> Vec<u32> {
        self.members.processes_of(id).iter().map(|p| p.task.pid).collect()
    }

    /// Checks that a task may be touched, for another backend.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn allows_task(&mut self, id: TaskId) -> Result<(), Refusal> {
        self.known_task(id).map(|_| ())
    }

    /// Processes that were named.
    fn named_by_number(&self) -> impl Iterator<Item = u32> + '_ {
        let wanted: &[String] = if let Scope::Only(wanted) = &self.options.scope { wanted } else { &[] };
        wanted.iter().filter_map(|w| w.strip_prefix("pid:").unwrap_or(w).parse().ok())
    }

    fn is_in_scope(&mut self, tenant: &Tenant) -> bool {
        let Scope::Only(wanted) = &self.options.scope else { return true };
        if wanted.iter().any(|w| tenant.is_called(w)) {
            return true;
        }
        let pids: Vec<u32> = self.named_by_number().collect();
        !pids.is_empty() && self.members.processes_of(tenant.id).iter().any(|p| pids.contains(&p.task.pid))
    }

    /// Does something to a tenant that may be touched.
    fn on_tenant(
        &mut self,
        id: TenantId,
        act: impl FnOnce(&mut Parkings, &mut Tasks, &mut weights::Changed, &mut Means) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.may_touch(id)?;
        self.with_means(act)
    }

    fn with_means(
        &mut self,
        act: impl FnOnce(&mut Parkings, &mut Tasks, &mut weights::Changed, &mut Means) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.start_supervisor().map_err(Refusal::Controller)?;
        let Some(supervised) = self.supervised.as_mut() else { return Ok(()) };
        let mut means =
            Means { root: &self.root, members: &mut self.members, protection: &self.protection, supervised };
        act(&mut self.parkings, &mut self.tasks, &mut self.weights, &mut means)
    }

    /// A task that was seen, is alive and may be touched.
    fn known_task(&mut self, id: TaskId) -> Result<supervisor::undo::Task, Refusal> {
        let tenant = self.members.tenant_of(id).ok_or(Refusal::NoTask(id))?;
        self.may_touch(tenant)?;
        let task = self.members.task(id.0).ok_or(Refusal::NoTask(id))?;
        let protected = self.protection.of_process(task.pid);
        protected.map_or(Ok(task), |protected| Err(Refusal::Protected(protected)))
    }

    /// Does something to a task that may be touched.
    fn on_task(
        &mut self,
        id: TaskId,
        act: impl FnOnce(&mut Tasks, &Root, &mut Supervised, &supervisor::undo::Task) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let task = self.known_task(id)?;
        self.start_supervisor().map_err(Refusal::Controller)?;
        let Some(supervised) = self.supervised.as_mut() else { return Ok(()) };
        act(&mut self.tasks, &self.root, supervised, &task)
    }

    fn try_apply(&mut self, action: &Action) -> Result<(), Refusal> {
        match action {
            Action::Park { tenant } => self.park(*tenant),
            Action::Unpark { tenant } if self.parkings.knows(*tenant) => self.unpark(*tenant),
            Action::Unpark { tenant } if self.members.tenant(*tenant).is_none() => {
                Err(Refusal::NoTenant(*tenant))
            }
            Action::Unpark { .. } => Ok(()),
            Action::Weight { tenant, weight } => self.on_tenant(*tenant, |_, tasks, changed, means| {
                weights::set(*tenant, *weight, tasks, changed, means)
            }),
            Action::Slice { task, min_ns, max_ns } => self.on_task(*task, |tasks, root, supervised, task| {
                tasks.slice(root, supervised, task, *min_ns, *max_ns)
            }),
            Action::PreemptDelay { task, delay_ns } => self
                .on_task(*task, |tasks, root, supervised, task| {
                    tasks.preempt_delay(root, supervised, task, *delay_ns)
                }),
            Action::Cpus { cpus, .. } if cpus.is_empty() => Err(Refusal::NoCpu),
            Action::Cpus { task, cpus } => {
                let online = self.online.clone();
                self.on_task(*task, |tasks, root, supervised, task| {
                    tasks.cpus(root, supervised, task, cpus, &online)
                })
            }
        }
    }

    /// Parks a tenant, or the new tasks of a parked one. A tenant that may not be parked is not left partly
    /// stopped: a protected process may have joined the stopped ones.
    fn park(&mut self, tenant: TenantId) -> Result<(), Refusal> {
        self.on_tenant(tenant, |parkings, _, _, means| parkings.park(tenant, means)).inspect_err(|_| {
            if self.parkings.knows(tenant) {
                let _ = self.unpark(tenant);
            }
        })
    }

    fn unpark(&mut self, tenant: TenantId) -> Result<(), Refusal> {
        self.with_means(|parkings, _, _, means| parkings.unpark(tenant, means))
    }

    /// Whether anybody is parked or anything else is changed.
    pub(crate) fn is_in_force(&self) -> bool {
        self.parkings.stopped().next().is_some() || self.tasks.any_changed() || !self.weights.is_empty()
    }

    /// Forgets tasks that have ended: a controller may run for weeks. Their changes are checked only when the
    /// journal has doubled, so the cost is proportional to the changes made since.
    fn forget_gone(&mut self) {
        let Some(supervised) = &mut self.supervised else { return };
        let members = &self.members;
        self.parkings.forget_gone(&members.living(), supervised);
        if supervised.is_worth_compacting() {
            self.tasks.forget_ended(&self.root, supervised, |tid| members.tenant_of(TaskId(tid)).is_some());
            weights::forget_gone(&mut self.weights, &self.root, supervised);
            supervised.compact(&self.root);
        }
    }

    /// Becomes real-time, if it is not yet and may.
    pub(crate) fn be_real_time(&mut self) {
        if self.fair.is_some() || self.not_real_time.is_some() || !self.options.real_time {
            return;
        }
        match sched::attributes(0) {
            Ok(now) if now.is_fair() => {
                // Only an ordinary thread can ask.
                supervisor::undo::default_slice_ns();
                match sched::become_fifo(PRIORITY) {
                    Ok(()) => self.fair = Some(now),
                    Err(e) => self.not_real_time = Some(limits::of_real_time(&self.root, &e)),
                }
            }
            // The code that made it real-time knows why.
            _ => {}
        }
    }

    /// Becomes what it was.
    pub(crate) fn be_fair(&mut self) {
        if let Some(before) = self.fair.take() {
            let own = before.slice_ns != supervisor::undo::default_slice_ns();
            let slice_ns = if own { before.slice_ns } else { 0 };
            let _ = sched::set_attributes(0, &Attributes { slice_ns, ..before });
        }
    }

    /// Restores after the supervisor was lost; after that, nothing is changed any more.
    fn give_up(&mut self, why: String) -> HostError {
        self.lost = Some(why.clone());
        match self.undo_all() {
            Ok(()) => HostError::Failed { what: "controlling this machine".into(), why },
            Err(e) => e,
        }
    }
}

impl Backend for StockBackend {
    fn name(&self) -> &'static str {
        "stock"
    }

    fn support_of(&self, knobs: &[Knob]) -> Vec<KnobSupport> {
        let cgroups = Cgroups::discover(&self.root).ok();
        let writable = |path: &std::path::Path| {
            let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
            // SAFETY: the path is a C string that outlives the call; access opens nothing.
            unsafe { libc::access(path.as_ptr(), libc::W_OK) == 0 }
        };
        let of = |knob: Knob| {
            let how = match knob {
                Knob::Park => match cgroups.as_ref().and_then(freezer::tree).filter(|t| writable(&t.mount)) {
                    Some(tree) => KnobMeans::Freezer {
                        file: if tree.is_v2() { "cgroup.freeze" } else { "freezer.state" },
                        mount: tree.mount.display().to_string(),
                    },
                    None => KnobMeans::StopSignals,
                },
                Knob::Slice => match supervisor::undo::default_slice_ns() {
                    0 => return Support::No { why: NoKnob::NoTaskSlice },
                    _ => KnobMeans::TaskSlice { tick_ns: sched::tick_ns() },
                },
                Knob::PreemptDelay => KnobMeans::Batch { least_ns: tasks::least_delay_ns() },
                Knob::Cpus => KnobMeans::Affinity,
                Knob::Weight => match cgroups.as_ref().and_then(|c| c.with_controller("cpu")) {
                    Some(tree) if tree.is_v2() => KnobMeans::CgroupWeight { file: "cpu.weight" },
                    Some(_) => KnobMeans::CgroupWeight { file: "cpu.shares" },
                    None => KnobMeans::Nice,
                },
            };
            Support::Yes { how }
        };
        knobs.iter().map(|knob| KnobSupport { knob: *knob, support: of(*knob) }).collect()
    }

    fn parked_tasks(&self) -> ParkedTasks {
        ParkedTasks::Asleep
    }

    fn learn(&mut self, seen: &Observation) {
        // They matter if they may have come into a tenant's own cgroup, or were born into one made for it.
        let is_new = |id: &TenantId| self.parkings.has_cgroups() && self.members.tenant(*id).is_none();
        let newcomers: Vec<TenantId> = seen.tenants.iter().map(|t| t.id).filter(is_new).collect();
        let grown = self.members.learn(seen);
        self.forget_gone();
        // A tenant that was named by a process may return long after that process has ended.
        let by_number = self.named_by_number().next().is_some();
        let is_here = |id: &TenantId| self.members.tenant(*id).is_some();
        self.in_scope.retain(|id, in_scope| is_here(id) || by_number && *in_scope);
        self.guarded.retain(|id, _| is_here(id));
        for tenant in newcomers {
            let is_protected = self.is_protected(tenant);
            for pid in self.members.observed_of(tenant) {
                self.parkings.has_company(pid, &self.root);
                if is_protected {
                    self.parkings.set_free(pid, &self.root);
                }
            }
        }
        let lives = |pid| procfs::process_stat(&self.root, pid).is_ok();
        let named_live = !grown.is_empty() && self.named_by_number().any(lives);
        for tenant in grown {
            self.parkings.has_grown(tenant);
            // A tenant that was named by a process stays named when that process ends.
            if named_live || self.in_scope.get(&tenant) != Some(&true) {
                self.in_scope.remove(&tenant);
            }
            self.guarded.remove(&tenant);
            if self.parkings.is_parked(tenant) {
                // A tenant whose parking is refused is not parked any more, as `parked` shows.
                let _ = self.park(tenant);
            }
        }
        if self.tasks.any_drawn() && self.beat().is_ok() {
            self.tasks.redraw(&self.root);
            // If the supervisor has gone, this restores; the controller learns of it at its next heartbeat.
            let _ = self.beat();
        }
    }

    fn prepare(&mut self, tenant: TenantId) -> Result<(), Refusal> {
        self.on_tenant(tenant, |parkings, _, _, means| parkings.prepare(tenant, means))
    }

    fn apply(&mut self, action: &Action) -> Outcome {
        // Before the change: otherwise, on a crowded machine, the lease may end between its two heartbeats.
        if !matches!(action, Action::Unpark { .. }) {
            self.be_real_time();
        }
        let done = self.try_apply(action);
        match self.is_in_force() {
            true => self.be_real_time(),
            false => self.be_fair(),
        }
        done.into()
    }

    fn helper(&self) -> Option<u32> {
        self.supervisor_pid()
    }

    fn parked(&self) -> BTreeSet<TenantId> {
        self.parkings.stopped().collect()
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        let Some(mut supervised) = self.supervised.take() else {
            self.be_fair();
            return Ok(());
        };
        // Even if nobody is parked: the next change must not wait for tasks that it slows down.
        self.be_real_time();
        let restored = supervised.restore(&self.root);
        self.parkings.clear();
        self.tasks.clear();
        self.weights.clear();
        self.be_fair();
        let failed = match restored {
            Ok(restored) => restored.failed,
            Err(e) => {
                let why = format!("{e}; the journal is kept, and restoring by it tries again");
                return Err(HostError::NotUndone { what: "the journal's changes".into(), why });
            }
        };
        if self.lost.is_none() {
            self.supervised = Some(supervised);
        } else {
            let _ = supervised.finish(&self.root);
        }
        match restoring::complaint(&failed) {
            None => Ok(()),
            Some((what, why)) => Err(HostError::NotUndone { what, why }),
        }
    }

    fn beat(&mut self) -> Result<(), HostError> {
        if let Some(why) = &self.lost {
            return Err(HostError::Failed { what: "controlling this machine".into(), why: why.clone() });
        }
        let Some(supervised) = &mut self.supervised else { return Ok(()) };
        if let Err(e) = supervised.beat() {
            return Err(self.give_up(e.to_string()));
        }
        for tenant in self.parkings.by_signals() {
            let _ = self.park(tenant);
        }
        for tenant in self.parkings.held() {
            let _ = self.unpark(tenant);
        }
        Ok(())
    }
}

impl Drop for StockBackend {
    fn drop(&mut self) {
        if let Some(supervised) = self.supervised.take() {
            // A change that cannot be undone stays in the journal, for the supervisor and for `--restore`.
            let _ = supervised.finish(&self.root);
        }
        self.be_fair();
    }
}
