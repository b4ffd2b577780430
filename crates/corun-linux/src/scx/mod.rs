//! The sched_ext backend: corun's own scheduler for the whole machine, with the five knobs built in.
//!
//! | file | does |
//! | --- | --- |
//! | `support` | whether it can be loaded here, and why not |
//! | `placement` | which cell of the scheduler is a tenant's |
//! | here | [`ScxBackend`]: which action turns what |
//!
//! All settings live in the scheduler, and the kernel unloads it with this process, however it ends. So
//! nothing has to be restored. CPU sets are the exception: they are the kernel's own affinity. The stock
//! backend inside sets and restores them. It also knows which tasks may be touched, and its supervisor keeps
//! two controllers apart.
//!
//! Limits: a park ends if this process is silent for [`LEASE_NS`], and after 20 s in any case. It does not
//! restart by itself, because a tenant that is parked for long must run in between. It restarts when the
//! policy parks the tenant again. A parked task may hold a kernel lock that others wait for; the stock
//! backend's freezer lets it leave the kernel first.

mod placement;
pub mod support;

use crate::backend::{Backend, KnobSupport, ParkedTasks, Support};
use crate::cgroup::{Cgroups, Membership};
use crate::clock;
use crate::procfs;
use crate::root::Root;
use crate::sched::{LEAST_SLICE_NS, MOST_SLICE_NS};
use crate::stock::{Options, StockBackend};
use crate::topology;
use corun_bpf::{Scheduler, SchedulerConfig, TaskKnobs, ROOT_CELL};
use corun_model::why::KnobMeans;
use corun_model::{Action, HostError, Knob, Observation, Outcome, Refusal, TaskId, TenantId, TenantKind};
use placement::{lowest_common, place, way_up, Placement};
use std::collections::{BTreeMap, BTreeSet};

/// How long the controller may be silent while a tenant is parked.
pub const LEASE_NS: u64 = 2_000_000_000;

/// A tenant's cell.
#[derive(Clone, Copy, Debug)]
struct Place {
    cell: u32,
    /// Whether the cell was made for the tenant, so that its tasks must be put into it.
    is_own: bool,
}

/// A tenant and its tasks, as last observed.
#[derive(Clone, Debug)]
struct ObservedTenant {
    kind: TenantKind,
    tasks: BTreeSet<TaskId>,
}

/// The sched_ext backend. Dropping it restores everything.
pub struct ScxBackend {
    root: Root,
    scheduler: Option<Scheduler>,
    stock: StockBackend,
    tenants: BTreeMap<TenantId, ObservedTenant>,
    tenant_of: BTreeMap<TaskId, TenantId>,
    places: BTreeMap<TenantId, Place>,
    knobs: BTreeMap<TaskId, TaskKnobs>,
    parked: BTreeSet<TenantId>,
    /// Those of them that should run, but could not be released.
    held: BTreeSet<TenantId>,
    /// Why the scheduler left and nothing can be changed any more.
    lost: Option<String>,
}

impl ScxBackend {
    /// Loads the scheduler: from here on it schedules the machine, fairly unless it is told otherwise.
    ///
    /// # Errors
    /// One sentence: no sched_ext, another scheduler or controller, no privilege. Then nothing is changed.
    pub fn start(root: &Root, options: Options) -> Result<ScxBackend, HostError> {
        let mut backend = ScxBackend {
            root: root.clone(),
            scheduler: None,
            stock: StockBackend::new(root, options),
            tenants: BTreeMap::new(),
            tenant_of: BTreeMap::new(),
            places: BTreeMap::new(),
            knobs: BTreeMap::new(),
            parked: BTreeSet::new(),
            held: BTreeSet::new(),
            lost: None,
        };
        backend.load()?;
        Ok(backend)
    }

    /// The scheduler, for its statistics; `None` after everything was undone.
    pub fn scheduler(&self) -> Option<&Scheduler> {
        self.scheduler.as_ref()
    }

    fn load(&mut self) -> Result<(), HostError> {
        let failed = |why: String| HostError::Failed { what: "controlling this machine".into(), why };
        support::check(&self.root).map_err(|no| failed(no.to_string()))?;
        // One controller at a time; it also restores the changes that an earlier one left behind.
        self.stock.arm()?;
        let scheduler = self
            .llc_of_cpu()
            .and_then(|llcs| Scheduler::start(&SchedulerConfig::new(llcs)).map_err(|e| support::explain(&e)));
        match scheduler {
            Ok(scheduler) => self.scheduler = Some(scheduler),
            Err(why) => {
                self.stock.undo_all()?;
                return Err(failed(why));
            }
        }
        // The thread that ends parks must not wait for a parked task.
        let own = [Some(std::process::id()), self.stock.supervisor_pid()];
        let protected = own
            .into_iter()
            .flatten()
            .try_for_each(|pid| self.set(TaskId(pid), |knobs| knobs.is_protected = true));
        if let Err(why) = protected {
            self.unload();
            self.stock.undo_all()?;
            return Err(failed(why));
        }
        self.renew();
        Ok(())
    }

    /// The last-level cache of each CPU, by CPU number; offline CPUs count with the first.
    fn llc_of_cpu(&self) -> Result<Vec<u8>, String> {
        let machine = topology::read_machine(&self.root).map_err(|e| e.to_string())?;
        let most = machine.cpus().iter().map(|c| c.id.0 as usize).max().unwrap_or(0);
        let mut llcs = vec![0; most + 1];
        for cpu in machine.cpus() {
            llcs[cpu.id.0 as usize] = u8::try_from(cpu.llc)
                .map_err(|_| format!("this machine has more than 255 last-level caches: {}", cpu.llc))?;
        }
        Ok(llcs)
    }

    fn renew(&self) {
        if let Some(scheduler) = &self.scheduler {
            scheduler.renew_lease(clock::now_ns() + LEASE_NS);
        }
    }

    /// Changes the settings of a task.
    fn set(&mut self, task: TaskId, change: impl FnOnce(&mut TaskKnobs)) -> Result<(), String> {
        let Some(scheduler) = &self.scheduler else { return Ok(()) };
        let mut knobs = self.knobs.get(&task).copied().unwrap_or_default();
        // A child of a task in a cell of its own was born into that cell, even if nobody has seen it.
        if knobs.cell.is_none() {
            let place = self.tenant_of.get(&task).and_then(|tenant| self.places.get(tenant));
            knobs.cell = place.filter(|p| p.is_own).map(|p| p.cell);
        }
        change(&mut knobs);
        scheduler.set_task(task.0, &knobs).map_err(|e| e.to_string())?;
        scheduler.announce();
        self.knobs.insert(task, knobs);
        Ok(())
    }

    /// The place of a tenant with these tasks, according to their cgroups.
    fn placement(&self, tenant: TenantId, known: &ObservedTenant) -> Result<Placement, String> {
        let cgroups = Cgroups::discover(&self.root).map_err(|e| e.to_string())?;
        let read = |task: &TaskId| Membership::read(&self.root, format!("/proc/{task}")).ok();
        let memberships: Vec<Membership> = known.tasks.iter().filter_map(read).collect();
        let in_cgroup = || {
            let (scheduler, tree) = (self.scheduler.as_ref()?, cgroups.with_controller("cpu")?);
            let common = lowest_common(memberships.iter().filter_map(|m| m.in_tree(tree)))?;
            // A cgroup without a cell belongs to the nearest one above that has one.
            way_up(common).find_map(|path| {
                let cell = scheduler.cell_of_cgroup(cgroups.id(tree, path).ok()?)?;
                let is_other = |pid: &u32| self.tenant_of.get(&TaskId(*pid)).is_some_and(|of| *of != tenant);
                let is_shared = || cgroups.processes(tree, path).is_ok_and(|pids| pids.iter().any(is_other));
                Some(place(known.kind, cell, is_shared))
            })
        };
        Ok(in_cgroup().unwrap_or(Placement::Within(ROOT_CELL)))
    }

    /// A tenant's cell; created and filled if it has none yet.
    fn place_of(&mut self, tenant: TenantId) -> Result<u32, Refusal> {
        if let Some(place) = self.places.get(&tenant) {
            return Ok(place.cell);
        }
        let (Some(known), Some(scheduler)) = (self.tenants.get(&tenant).cloned(), &self.scheduler) else {
            return Err(Refusal::NoTenant(tenant));
        };
        let place = match self.placement(tenant, &known).map_err(Refusal::Controller)? {
            Placement::Is(cell) => Place { cell, is_own: false },
            Placement::Within(parent) => {
                let made = scheduler.new_cell(parent, 100);
                let cell = made.map_err(|e| Refusal::Controller(e.to_string()))?;
                Place { cell, is_own: true }
            }
        };
        self.places.insert(tenant, place);
        if place.is_own {
            self.fill(tenant, place.cell).map_err(Refusal::Controller)?;
            // From now on children are born into the cell. Those born since the observation are not in it
            // yet.
            for pid in self.stock.processes_now(tenant) {
                for tid in procfs::tasks(&self.root, pid).unwrap_or_default() {
                    if self.knobs.get(&TaskId(tid)).and_then(|k| k.cell) != Some(place.cell) {
                        self.set(TaskId(tid), |knobs| knobs.cell = Some(place.cell))
                            .map_err(Refusal::Controller)?;
                    }
                }
            }
        }
        Ok(place.cell)
    }

    /// Moves a tenant's remaining tasks into its own cell.
    fn fill(&mut self, tenant: TenantId, cell: u32) -> Result<(), String> {
        let tasks = self.tenants.get(&tenant).map(|known| known.tasks.clone()).unwrap_or_default();
        for task in tasks {
            if self.knobs.get(&task).and_then(|k| k.cell) != Some(cell) {
                self.set(task, |knobs| knobs.cell = Some(cell))?;
            }
        }
        Ok(())
    }

    /// Returns a protected tenant that was born into another's cell, with the settings of that cell, to its
    /// cgroup.
    fn set_free(&mut self, tenant: TenantId) {
        if self.places.values().any(|place| place.is_own) && self.stock.is_protected(tenant) {
            let tasks = self.tenants.get(&tenant).map(|known| known.tasks.clone()).unwrap_or_default();
            for task in tasks {
                // A task that has gone by now is refused, which is fine.
                let _ = self.set(task, |knobs| *knobs = TaskKnobs::default());
            }
        }
    }

    /// Sets a knob of a tenant that may be touched.
    fn on_tenant(
        &mut self,
        tenant: TenantId,
        turn: impl FnOnce(&Scheduler, u32) -> Result<(), corun_bpf::SchedulerError>,
    ) -> Result<(), Refusal> {
        self.stock.allows_tenant(tenant)?;
        let cell = self.place_of(tenant)?;
        let Some(scheduler) = &self.scheduler else { return Ok(()) };
        turn(scheduler, cell).map_err(|e| Refusal::Controller(e.to_string()))
    }

    /// Sets a knob of a task that may be touched.
    fn on_task(&mut self, task: TaskId, turn: impl FnOnce(&mut TaskKnobs)) -> Result<(), Refusal> {
        self.stock.allows_task(task)?;
        self.set(task, turn).map_err(Refusal::Controller)
    }

    fn try_apply(&mut self, action: &Action) -> Result<(), Refusal> {
        if let Some(why) = &self.lost {
            return Err(Refusal::Controller(why.clone()));
        }
        if self.scheduler.is_none() {
            self.load().map_err(|e| Refusal::Controller(e.to_string()))?;
        }
        match action {
            Action::Park { tenant } => {
                self.stock.be_real_time();
                self.renew();
                let parked = self.on_tenant(*tenant, |scheduler, cell| scheduler.park(cell, true));
                if parked.is_err() {
                    let _ = self.unpark(*tenant);
                    self.relax();
                    return parked;
                }
                self.held.remove(tenant);
                self.parked.insert(*tenant);
                Ok(())
            }
            Action::Unpark { tenant } if self.parked.contains(tenant) => {
                let done = self.unpark(*tenant);
                self.relax();
                done
            }
            Action::Unpark { tenant } if self.tenants.contains_key(tenant) => Ok(()),
            Action::Unpark { tenant } => Err(Refusal::NoTenant(*tenant)),
            Action::Weight { weight, .. } if !(1..=10_000).contains(weight) => Err(Refusal::Weight(*weight)),
            Action::Weight { tenant, weight } => {
                self.on_tenant(*tenant, |scheduler, cell| scheduler.set_weight(cell, *weight))
            }
            Action::Slice { min_ns, max_ns, .. }
                if min_ns > max_ns || *min_ns < LEAST_SLICE_NS || *max_ns > MOST_SLICE_NS =>
            {
                let bounds_ns = Some((LEAST_SLICE_NS, MOST_SLICE_NS));
                Err(Refusal::Slice { min_ns: *min_ns, max_ns: *max_ns, bounds_ns })
            }
            Action::Slice { task, min_ns, max_ns } => {
                self.on_task(*task, |knobs| knobs.slice_ns = Some((*min_ns, *max_ns)))
            }
            Action::PreemptDelay { task, delay_ns } => {
                self.on_task(*task, |knobs| knobs.preempt_delay_ns = *delay_ns)
            }
            Action::Cpus { .. } => match self.stock.apply(action) {
                Outcome::Done => Ok(()),
                Outcome::Unsupported { why } | Outcome::Refused { why } => Err(why),
            },
        }
    }

    /// Lets a tenant run, if it is parked.
    fn unpark(&mut self, tenant: TenantId) -> Result<(), Refusal> {
        if let (Some(place), Some(scheduler), true) =
            (self.places.get(&tenant), &self.scheduler, self.parked.contains(&tenant))
        {
            if let Err(e) = scheduler.park(place.cell, false) {
                self.held.insert(tenant);
                return Err(Refusal::Controller(e.to_string()));
            }
        }
        self.held.remove(&tenant);
        self.parked.remove(&tenant);
        Ok(())
    }

    /// Updates the parked tenants from the scheduler, which ends parks by itself.
    fn forget_ended_parks(&mut self) {
        let (Some(scheduler), places) = (&self.scheduler, &self.places) else { return };
        let is_parked = |id: &TenantId| places.get(id).is_some_and(|place| scheduler.is_parked(place.cell));
        self.parked.retain(is_parked);
        self.held.retain(is_parked);
        self.relax();
    }

    /// With nothing in force, no thread has to be real-time.
    fn relax(&mut self) {
        if self.parked.is_empty() && !self.stock.is_in_force() {
            self.stock.be_fair();
        }
    }

    /// Gives back the cells of tenants that have no tasks any more.
    fn forget_gone(&mut self) {
        let (tenants, parked, held) = (&self.tenants, &mut self.parked, &mut self.held);
        let Some(scheduler) = &self.scheduler else { return };
        self.places.retain(|tenant, place| {
            let is_gone = tenants.get(tenant).is_none_or(|known| known.tasks.is_empty());
            if is_gone && parked.contains(tenant) {
                // The next task in its cgroup, or a child born into its cell, must not wait in its place.
                if scheduler.park(place.cell, false).is_err() {
                    held.insert(*tenant);
                    return true;
                }
                parked.remove(tenant);
                held.remove(tenant);
            }
            // A cell with a task that nobody has seen yet stays.
            !(is_gone && (!place.is_own || scheduler.free_cell(place.cell).is_ok()))
        });
    }

    /// Unloads the scheduler; after that, no setting is in force.
    fn unload(&mut self) {
        self.scheduler = None;
        self.places.clear();
        self.knobs.clear();
        self.parked.clear();
        self.held.clear();
    }
}

impl Backend for ScxBackend {
    fn name(&self) -> &'static str {
        "sched_ext"
    }

    fn support_of(&self, knobs: &[Knob]) -> Vec<KnobSupport> {
        let of = |knob: &Knob| {
            let how = match knob {
                Knob::Park => KnobMeans::NotDispatched,
                Knob::Slice => KnobMeans::SliceTimer,
                Knob::PreemptDelay => KnobMeans::PreemptTimer,
                Knob::Cpus => return self.stock.support_of(&[*knob]),
                Knob::Weight => KnobMeans::FairShares,
            };
            vec![KnobSupport { knob: *knob, support: Support::Yes { how } }]
        };
        knobs.iter().flat_map(of).collect()
    }

    fn parked_tasks(&self) -> ParkedTasks {
        ParkedTasks::Queued
    }

    fn learn(&mut self, seen: &Observation) {
        self.stock.learn(seen);
        let kinds =
            seen.tenants.iter().map(|t| (t.id, ObservedTenant { kind: t.kind, tasks: BTreeSet::new() }));
        let before = std::mem::replace(&mut self.tenants, kinds.collect());
        let newcomers: Vec<TenantId> =
            self.tenants.keys().filter(|id| !before.contains_key(id)).copied().collect();
        if !newcomers.is_empty() {
            // A new tenant may be in a cgroup that belonged to one tenant alone.
            let parked = &self.parked;
            self.places.retain(|tenant, place| place.is_own || parked.contains(tenant));
        }
        self.tenant_of = seen.tasks.iter().filter(|t| t.alive).map(|t| (t.id, t.tenant)).collect();
        for (task, tenant) in &self.tenant_of {
            if let Some(known) = self.tenants.get_mut(tenant) {
                known.tasks.insert(*task);
            }
        }
        let own = [Some(std::process::id()), self.stock.supervisor_pid()].map(|pid| pid.map(TaskId));
        let (tenant_of, scheduler) = (&self.tenant_of, &self.scheduler);
        self.knobs.retain(|task, _| {
            let stays = tenant_of.contains_key(task) || own.contains(&Some(*task));
            if let (false, Some(scheduler)) = (stays, scheduler) {
                scheduler.forget_task(task.0);
            }
            stays
        });
        self.forget_gone();
        self.relax();
        for tenant in newcomers {
            self.set_free(tenant);
        }
        let own_cells: Vec<(TenantId, u32)> =
            self.places.iter().filter(|(_, p)| p.is_own).map(|(id, p)| (*id, p.cell)).collect();
        for (tenant, cell) in own_cells {
            // A task that has gone by now is refused, which is fine.
            let _ = self.fill(tenant, cell);
        }
    }

    fn prepare(&mut self, tenant: TenantId) -> Result<(), Refusal> {
        self.on_tenant(tenant, |_, _| Ok(()))
    }

    fn apply(&mut self, action: &Action) -> Outcome {
        self.try_apply(action).into()
    }

    fn helper(&self) -> Option<u32> {
        self.stock.helper()
    }

    fn parked(&self) -> BTreeSet<TenantId> {
        self.parked.clone()
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        self.unload();
        self.stock.undo_all()
    }

    fn beat(&mut self) -> Result<(), HostError> {
        let stock = self.stock.beat();
        let exit = self.scheduler.as_ref().and_then(Scheduler::exit);
        let why = match (stock, exit) {
            (Ok(()), None) => {
                self.forget_ended_parks();
                self.renew();
                for tenant in self.held.clone() {
                    let _ = self.unpark(tenant);
                    self.relax();
                }
                return Ok(());
            }
            (Err(e), _) => e.to_string(),
            (Ok(()), Some(exit)) => exit.to_string(),
        };
        self.lost = Some(why.clone());
        self.undo_all()?;
        Err(HostError::Failed { what: "controlling this machine".into(), why })
    }
}

impl Drop for ScxBackend {
    fn drop(&mut self) {
        // The stock backend restores when it is dropped; nobody is left to receive an error.
        self.unload();
    }
}
