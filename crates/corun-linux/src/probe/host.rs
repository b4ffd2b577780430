//! `LiveHost`: this machine as a [`Host`], through the probe.
//!
//! A window is closed in these steps: announce an edge ahead, wait until it has passed, read every task's
//! record, then the tasks that ended, then the CPUs. A task's activity up to the edge follows exactly from
//! its record (`accounts`). The difference to the previous edge is the window's.
//!
//! Tasks that ended come through a ring. If that is full, the probe adds their sums to their group instead.
//! The tenant's account still holds every nanosecond; only the task's own line is lost (and counted).

use super::accounts::{asks_the_clock, Share, Sums};
use super::bases::{Bases, Owed, UnchangedTask};
use super::config::config;
use super::cpus::Cpus;
use super::ended::{EndedTasks, Summed};
use super::logs::{occupants, running_since_start};
use super::machine_reader::MachineReader;
use super::options::{LiveError, LiveOptions};
use super::recycling::Recycling;
use super::run_log::{settled_ns, Recorder};
use super::tenancy::Tenancy;
use super::traces::Traces;
use super::window::{observed, spread, Window};
use crate::clock::now_ns;
use crate::cpustat;
use crate::namespaces;
use crate::root::Root;
use crate::target::Subject;
use crate::topology;
use corun_bpf::layout::{comm, state, Ended, TaskBrief, TaskRec};
use corun_bpf::{Losses, Probe};
use corun_model::culprit::Share as CulpritShare;
use corun_model::observation::{Account, TaskObservation};
use corun_model::run_log::{CpuMask, RunLog};
use corun_model::trace::{Trace, TraceTask};
use corun_model::waits::Open;
use corun_model::{
    Action, CpuId, Culprits, Host, HostError, Ledger, Limits, Machine, Observation, Outcome, Refusal, TaskId,
    Tenant, TenantId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

mod families;
mod polling;

use families::Families;

/// How far ahead an edge is announced: longer than any handler can take between reading the clock and the
/// edge.
const AHEAD: Duration = Duration::from_micros(200);
/// How long after the edge the records are read: by then, handlers that began before it have finished.
const SETTLE: Duration = Duration::from_micros(500);
const SETTLE_NS: u64 = SETTLE.as_nanos() as u64;
/// How often the rings are emptied and new groups get names while time passes.
const POLL: Duration = Duration::from_millis(25);
/// Whether an edge is far enough in the past to read everything before it, but not too far.
fn has_settled(edge_ns: u64) -> bool {
    (SETTLE_NS..2 * SETTLE_NS).contains(&now_ns().saturating_sub(edge_ns))
}

/// This machine, watched by the probe.
pub struct LiveHost {
    probe: Probe,
    root: Root,
    machine: Machine,
    subject: Subject,
    subject_tenant: Option<TenantId>,
    tenancy: Tenancy,
    recycling: Recycling,
    edge_ns: u64,
    /// The edge that was announced for the end of the last wait.
    announced_ns: Option<u64>,
    bases: Bases,
    ended: EndedTasks,
    /// The buffer for tasks that the probe hands over; its memory is reused.
    drained: Vec<Ended>,
    /// Whether a poll found something since somebody asked.
    has_news: bool,
    unlisted: BTreeMap<u32, (u32, Sums)>,
    /// Time that did not fit into the tasks' records up to the last edge, by pair.
    beyond_ns: Vec<u64>,
    cpus: Cpus,
    machine_reader: MachineReader,
    losses: Losses,
    /// Births that nobody saw before the first window: members of families may be missing.
    births_lost: u64,
    traces: Traces,
    wants_trace: bool,
    recorder: Option<Recorder>,
    group_of_subject: Option<u32>,
    /// Whether this process is in the subject's cgroup.
    is_in_subject: bool,
    watcher_apart: bool,
}

impl LiveHost {
    /// Starts watching. The first window begins when this returns.
    ///
    /// # Errors
    /// [`LiveError`]; nothing stays behind.
    pub fn start(root: &Root, options: LiveOptions) -> Result<LiveHost, LiveError> {
        if let Some(mismatch) = namespaces::mismatch(root) {
            return Err(LiveError::OtherNamespace(mismatch.why));
        }
        let families = Families::of(root, &options.subject, &options.tenants)?;
        let machine = topology::read_machine(root)?;
        let config = config(root, &machine, &options);
        let probe = Probe::start(&config, now_ns)?;
        let mut tenancy = Tenancy::new(root);
        let mut group_of_subject = None;
        let mut subject_tenant = tenancy.watch_cgroup(&options.subject);
        if let (None, Some(name)) = (subject_tenant, options.subject.tenant()) {
            let group = probe.new_group().ok_or(LiveError::NoGroup)?;
            subject_tenant = Some(tenancy.assign(group, name));
            group_of_subject = Some(group);
        }
        let is_in_subject = options.subject.has_process(root, std::process::id());
        let mut host = LiveHost {
            probe,
            root: root.clone(),
            machine,
            subject: options.subject,
            subject_tenant,
            tenancy,
            recycling: Recycling::default(),
            edge_ns: 0,
            announced_ns: None,
            bases: Bases::default(),
            ended: EndedTasks::default(),
            drained: Vec::new(),
            has_news: true,
            unlisted: BTreeMap::new(),
            beyond_ns: Vec::new(),
            cpus: Cpus::default(),
            machine_reader: MachineReader::new(root),
            losses: Losses::default(),
            births_lost: 0,
            traces: Traces::default(),
            wants_trace: options.trace_bytes > 0,
            recorder: None,
            group_of_subject,
            is_in_subject,
            watcher_apart: options.watcher_apart,
        };
        if let (Some(group), true) = (group_of_subject, options.record_bytes > 0) {
            host.recorder = Some(Recorder::new(host.online(), isolated(root), now_ns()));
            host.probe.record(group);
        }
        let births_lost = host.assign(families)?;
        host.learn_all();
        host.observe_window();
        host.births_lost = births_lost;
        host.traces.take(0);
        Ok(host)
    }

    /// The subject's tenant; `None` if everybody is watched alike.
    pub fn subject(&self) -> Option<TenantId> {
        self.subject_tenant
    }

    /// Switches and wake-ups since the last call, if a trace was requested.
    pub fn take_trace(&mut self) -> Trace {
        let lost = self.probe.losses().trace_events;
        self.traces.take(lost)
    }

    /// From now on the trace omits single waits that are shorter.
    pub fn set_least_wait(&mut self, least_wait_ns: u64) {
        self.probe.set_least_wait(least_wait_ns);
    }

    /// The tasks that wait for a CPU now, of the subject or of everybody. If a wait ends meanwhile, it is in
    /// the trace.
    pub fn waiting(&mut self) -> Vec<Open> {
        let is_meant = |group| self.subject_tenant.is_none_or(|id| self.tenancy.of(group) == id);
        let records = self.probe.slots().filter_map(|slot| self.probe.task(slot));
        let waiting = records.filter(|rec| state::is_waiting(rec.state as usize) && is_meant(rec.group));
        let open = |rec: TaskRec| Open { task: TaskId(rec.tid), cpu: CpuId(rec.cpu), began_ns: rec.began_ns };
        let waiting = waiting.map(open).collect();
        self.poll();
        waiting
    }

    /// What the subject did since the last call, except for the last millisecond while it lives; `None` if it
    /// is not recorded.
    pub fn take_run_log(&mut self) -> Option<RunLog> {
        let is_over = self.subject_ended();
        self.poll();
        let edge_ns = if is_over { now_ns() } else { settled_ns(now_ns()) };
        let cpus = self.online();
        self.recorder.as_mut().map(|recorder| recorder.take(edge_ns, cpus))
    }

    /// From now on the subject's events are not recorded.
    pub fn stop_run_log(&mut self) {
        self.probe.record(0);
        self.recorder = None;
    }

    /// The CPUs that were switched on when the last window was closed. Before that, or if this machine does
    /// not say, those at the start.
    fn online(&self) -> CpuMask {
        match self.cpus.online() {
            Some(cpus) => mask(cpus.iter().copied()),
            None => mask(self.machine.cpus().iter().map(|c| c.id)),
        }
    }

    /// Switches seen so far, over all CPUs.
    pub fn switches(&self) -> u64 {
        self.probe.switches()
    }

    /// The cost of the probe's programs so far, as the kernel counts it: runs and nanoseconds in total. It is
    /// counted only while somebody holds [`Probe::count_costs`].
    pub fn probe_cost(&self) -> (u64, u64) {
        self.probe.costs().iter().fold((0, 0), |(runs, ns), c| (runs + c.runs, ns + c.ns))
    }

    /// The cost of naming tenants so far: cgroups that were looked up, and processes whose program was read.
    pub fn naming_cost(&self) -> (u64, u64) {
        self.tenancy.cost()
    }

    /// Closes the window at an edge shortly after now and returns its content.
    fn observe_window(&mut self) -> Observation {
        let start_ns = self.edge_ns;
        let edge_ns = self.announced_ns.take().filter(|&ns| has_settled(ns)).unwrap_or_else(|| {
            let edge_ns = self.announce_edge();
            std::thread::sleep(AHEAD + SETTLE);
            while now_ns() < edge_ns + SETTLE_NS {
                std::hint::spin_loop();
            }
            edge_ns
        });
        self.announced_ns = Some(edge_ns);
        let living = self.living(edge_ns);
        self.poll();
        self.announced_ns = None;
        let cpus = self.probe.cpus();
        let at_start = running_since_start(&cpus, living.iter().map(|(task, _)| task));

        let mut window = Window::new(start_ns, edge_ns);
        window.tasks.reserve(living.len());
        let log = |cpu, since_ns| occupants(&self.probe, &at_start, cpu, since_ns);
        for (task, since) in &living {
            match since {
                Since::Still(still) => self.add_still(&mut window, task, still),
                Since::Changed(rec) => {
                    let sums = Sums::at(rec, edge_ns, log);
                    let owed = self.add_task(&mut window, rec, &sums, edge_ns, true);
                    self.bases.set(rec, sums, edge_ns, owed);
                }
            }
        }
        let (ended, later, summed) = self.ended.up_to(edge_ns);
        for e in &ended {
            self.add_task(&mut window, &e.rec, &Sums::at_end(&e.rec), e.end_ns, false);
            self.bases.remove(e.rec.serial);
        }
        for e in &later {
            // It was read before it ended; otherwise the probe's copy at the edge is used.
            if let Some(sums) = Sums::at_edge_before_end(&e.rec, edge_ns).filter(|_| e.rec.born_ns < edge_ns)
            {
                if !self.bases.has(e.rec.serial, edge_ns) {
                    let owed = self.add_task(&mut window, &e.rec, &sums, edge_ns, true);
                    self.bases.set(&e.rec, sums, edge_ns, owed);
                }
            }
        }
        self.ended.put_back(later);
        summed.iter().for_each(|(group, summed)| self.add_summed(&mut window, *group, summed));
        self.add_unlisted(&mut window);
        let taken = self.machine_reader.taken(edge_ns);
        let online = cpustat::online(&self.root);
        self.cpus.add(&mut window, &self.machine, &online, &cpus, &at_start, self.probe.start_ns());
        for cpu in &mut window.cpus {
            cpu.host_steal_ns = taken.host_steal_ns(cpu.cpu);
        }
        self.edge_ns = edge_ns;
        let there = living.iter().map(|(task, _)| (*task, true));
        let gone = ended.iter().map(|e| (e.rec.brief(), false));
        let own =
            there.chain(gone).filter(|(task, _)| Some(self.tenancy.of(task.group)) == self.subject_tenant);
        let limits = match self.subject_tenant {
            Some(subject) => self.machine_reader.limits(subject, own),
            None => Limits::default(),
        };
        let seen = Observation { limits, machine: taken.total(), ..self.finish(window) };
        self.recycling.turn(&self.probe, &mut self.tenancy, edge_ns, || {
            let told = ended.iter().chain(self.ended.listed()).map(|e| e.rec.group);
            living
                .iter()
                .map(|(task, _)| task.group)
                .chain(told)
                .chain(summed.into_keys())
                .chain(self.unlisted.keys().copied())
                .collect()
        });
        if self.wants_trace {
            for task in living.into_iter().map(|(task, _)| task).chain(ended.iter().map(|e| e.rec.brief())) {
                let tenant = self.tenancy.of(task.group);
                let named = TraceTask { name: comm(&task.comm), process: task.tgid, tenant };
                self.traces.name(TaskId(task.tid), named);
            }
        }
        seen
    }

    /// Announces an edge that still lies in the future after the announcement. (On a busy machine this thread
    /// may lose its CPU before.) An edge that came too late for some does no harm to the next one.
    fn announce_edge(&self) -> u64 {
        loop {
            let edge_ns = now_ns() + AHEAD.as_nanos() as u64;
            self.probe.set_edge(edge_ns);
            if now_ns() < edge_ns {
                return edge_ns;
            }
        }
    }

    /// The live tasks, and what has happened to each since the last edge. They are read in one pass, before
    /// the tasks that ended.
    fn living(&mut self, edge_ns: u64) -> Vec<(TaskBrief, Since)> {
        let mut living = Vec::with_capacity(self.bases.len());
        let mut is_clock_read = false;
        for slot in self.probe.slots() {
            let Some(task) = self.probe.brief(slot) else { continue };
            if let Some(still) = self.bases.carry(&task, edge_ns) {
                living.push((task, Since::Still(still)));
                continue;
            }
            let mut rec = self.probe.task(slot).filter(|rec| rec.born_ns < edge_ns);
            if !is_clock_read && rec.is_some_and(|rec| asks_the_clock(&rec, edge_ns)) {
                // For all at once, and only if somebody needs it: this visits every task of the machine.
                self.probe.look_at_open_waits();
                is_clock_read = true;
                rec = self.probe.task(slot).filter(|rec| rec.born_ns < edge_ns);
            }
            if let Some(rec) = rec {
                living.push((rec.brief(), Since::Changed(Box::new(rec))));
            }
        }
        living
    }

    /// Adds a task that was in one state since the last edge; tasks in the same state share an account.
    fn add_still(&self, window: &mut Window, task: &TaskBrief, still: &UnchangedTask) {
        let &UnchangedTask { state, ns, ref name } = still;
        let born_ns = task.born_ns.max(window.start_ns);
        let account =
            window.account_of_still(state, ns, || self.account(&Share::of_one_state(state, ns), ns));
        let Some(account) = account.filter(|_| born_ns + ns == window.end_ns) else {
            window.loss.events += 1;
            return;
        };
        let tenant = self.tenancy.of(task.group);
        window.add_still_to_tenant(tenant, state, ns);
        window.tasks.push(observed(task, name.clone(), tenant, born_ns, account));
    }

    /// Adds one task's part of the window: the increase of its sums up to `until_ns` over the previous edge.
    /// Returns how much of it has been reported in another category by now.
    fn add_task(&self, window: &mut Window, rec: &TaskRec, sums: &Sums, until_ns: u64, alive: bool) -> Owed {
        let (task, mut share) = (rec.brief(), self.bases.since(rec.serial, sums));
        let born_ns = task.born_ns.max(window.start_ns);
        let lifetime_ns = until_ns.saturating_sub(born_ns);
        if lifetime_ns == 0 {
            return Owed::default();
        }
        // Every interval of the record lies inside the lifetime; if they ever disagree, report it.
        let sum_ns = share.parts.sum_ns();
        if sum_ns < lifetime_ns {
            share.parts.unknown_ns += lifetime_ns - sum_ns;
        } else if sum_ns > lifetime_ns {
            window.loss.events += 1;
            return Owed::default();
        }
        window.loss.revised_ns += share.moved_ns.saturating_sub(self.bases.owed_ns(rec.serial));
        let Some(account) = self.account(&share, lifetime_ns) else {
            window.loss.events += 1;
            return Owed::default();
        };
        let tenant = self.tenancy.of(task.group);
        window.loss.unknown_ns += share.parts.unknown_ns;
        window.add_to_tenant(tenant, 1, &account, share.others_ns);
        let name = self.bases.name(rec);
        window
            .tasks
            .push(TaskObservation { alive, ..observed(&task, name, tenant, born_ns, account.into()) });
        Owed { is_any: share.is_told_otherwise, moved_ns: share.moved_ns }
    }

    /// Adds tasks of a group that are not listed: they began and ended in the window.
    fn add_summed(&self, window: &mut Window, group: u32, summed: &Summed) {
        let share = summed.sums.since(&Sums::default());
        let Some(account) = self.account(&share, summed.lives_ns) else {
            window.loss.events += summed.tasks;
            return;
        };
        window.loss.unlisted_tasks += summed.tasks;
        window.loss.unknown_ns += share.parts.unknown_ns;
        window.add_to_tenant(self.tenancy.of(group), summed.tasks, &account, share.others_ns);
    }

    /// The account of a share; `None` if it does not sum, which would be a bug.
    fn account(&self, share: &Share, total_ns: u64) -> Option<Account> {
        let named = share
            .culprits
            .iter()
            .map(|&(group, steal_ns)| CulpritShare { tenant: self.tenancy.of(group), steal_ns });
        let shares = named.chain([CulpritShare { tenant: self.tenancy.others(), steal_ns: share.others_ns }]);
        Some(Account {
            ledger: Ledger::new(share.parts, total_ns).ok()?,
            block: Some(share.block),
            events: share.events,
            counters: None,
            culprits: Culprits::new(shares, share.unattributed_ns, share.parts.steal_ns).ok()?,
            waits: Some(share.waits.clone()),
            stretches: Some(share.stretches.clone()),
            system_ns: None,
        })
    }

    /// Adds the tasks whose records found no room in the ring: their sums are in their groups. The previous
    /// windows' share of them is that of the remembered tasks that are neither alive nor listed as ended.
    fn add_unlisted(&mut self, window: &mut Window) {
        let mut gone = self.bases.gone(window.end_ns, self.ended.listed());
        if gone.is_empty() && self.probe.losses().ended_unlisted == self.losses.ended_unlisted {
            return;
        }
        for (number, rec) in self.probe.groups_with_unlisted() {
            let sums = Sums::of_unlisted(&rec);
            let (count, mut base) = self.unlisted.remove(&number).unwrap_or_default();
            let tasks = rec.unlisted - count;
            if tasks > 0 {
                let mut before = gone.remove(&number).unwrap_or_default();
                before.forget_culprits();
                base.add(&before);
                let share = sums.since(&base);
                if let Some(account) = self.account(&share, share.parts.sum_ns()) {
                    window.loss.unlisted_tasks += u64::from(tasks);
                    window.loss.unknown_ns += share.parts.unknown_ns;
                    let tenant = self.tenancy.of(number);
                    window.add_to_tenant(tenant, u64::from(tasks), &account, share.others_ns);
                }
            }
            self.unlisted.insert(number, (rec.unlisted, sums));
        }
    }

    /// Resolves the time that did not fit into the tasks' records, names everybody and closes the window.
    fn finish(&mut self, mut window: Window) -> Observation {
        self.tenancy.call_anew(&window.tasks, |group| self.probe.comm_of_group(group));
        self.sum_up_still(&mut window);
        self.spread_others(&mut window);
        let losses = self.probe.losses();
        window.loss.untracked_tasks += losses.untracked_tasks - self.losses.untracked_tasks;
        window.loss.events += losses.groups - self.losses.groups + losses.pairs - self.losses.pairs;
        self.losses = losses;
        window.loss.events += std::mem::take(&mut self.births_lost);
        window.tasks.sort_by_key(|t| (t.id, t.born_ns));
        Observation {
            start_ns: window.start_ns,
            end_ns: window.end_ns,
            tenants: self.named(&window),
            tasks: window.tasks,
            by_tenant: window.by_tenant.observed(),
            cpus: window.cpus,
            loss: window.loss,
            unavailable: self.machine_reader.unavailable().collect(),
            ..Observation::default()
        }
    }

    /// Adds tasks that stayed in one state to their tenants' accounts, all of a tenant at once.
    fn sum_up_still(&self, window: &mut Window) {
        for tenant in window.by_tenant.iter_mut() {
            let total_ns = tenant.still_ns.iter().sum();
            let account = self.account(&Share::of_states(&tenant.still_ns), total_ns);
            if let Some(account) = account.filter(|_| total_ns > 0) {
                window.loss.unknown_ns += account.ledger.parts().unknown_ns;
                tenant.account.add(&account);
            }
        }
    }

    /// The tenants that a window mentions: the machine may have seen thousands that have gone since.
    fn named(&self, window: &Window) -> Vec<Tenant> {
        let culprits = window.by_tenant.iter().flat_map(|t| t.account.culprits.shares());
        let ids = window.by_tenant.iter().map(|t| t.id).chain(culprits.map(|share| share.tenant));
        let named: BTreeSet<TenantId> =
            ids.chain(self.subject_tenant).chain([self.tenancy.others()]).collect();
        named.into_iter().filter_map(|id| self.tenancy.tenant(id).cloned()).collect()
    }

    /// Divides the steal that did not fit into the tasks' own records.
    fn spread_others(&mut self, window: &mut Window) {
        let mut beyond: BTreeMap<TenantId, BTreeMap<TenantId, u64>> = BTreeMap::new();
        for (i, pair) in self.probe.overflow_steal().enumerate() {
            if i == self.beyond_ns.len() {
                self.beyond_ns.push(0);
            }
            let ns = pair.ns - std::mem::replace(&mut self.beyond_ns[i], pair.ns);
            if ns > 0 {
                let victim = beyond.entry(self.tenancy.of(pair.victim)).or_default();
                *victim.entry(self.tenancy.of(pair.culprit)).or_default() += ns;
            }
        }
        let others = self.tenancy.others();
        for t in window.by_tenant.iter_mut() {
            if let (Some(by_culprit), true) = (beyond.get(&t.id), t.others_ns > 0) {
                t.account.culprits = spread(&t.account.culprits, others, t.others_ns, by_culprit);
            }
        }
    }
}

/// A machine's CPUs, as far as a run log can name them.
fn mask(cpus: impl Iterator<Item = CpuId>) -> CpuMask {
    cpus.fold(CpuMask::default(), |mask, cpu| mask.with(cpu.0 as usize))
}

/// CPUs between which the scheduler moves nobody.
fn isolated(root: &Root) -> CpuMask {
    mask(crate::allowed::isolated(root).into_iter())
}

/// What has happened to a live task since the last edge.
enum Since {
    /// It has done one thing.
    Still(UnchangedTask),
    /// It had an event, or it is new.
    Changed(Box<TaskRec>),
}

impl Host for LiveHost {
    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn advance(&mut self, ns: u64) -> Result<(), HostError> {
        let end_ns = now_ns() + ns;
        loop {
            self.poll();
            let left = Duration::from_nanos(end_ns.saturating_sub(now_ns()));
            if left.is_zero() {
                return Ok(());
            }
            if left <= POLL && left > AHEAD + SETTLE {
                // If the window is closed at this time, nobody has to wait for an edge: one wake-up fewer.
                self.probe.set_edge(end_ns - SETTLE_NS);
                self.announced_ns = Some(end_ns - SETTLE_NS);
            }
            std::thread::sleep(left.min(POLL));
        }
    }

    fn observe(&mut self) -> Result<Observation, HostError> {
        Ok(self.observe_window())
    }

    fn apply(&mut self, _: &Action) -> Outcome {
        Refusal::ObservesOnly.into()
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        Ok(())
    }
}
