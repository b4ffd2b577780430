//! The live host that needs neither root nor eBPF: the ledger from `/proc/PID/task/TID/schedstat`.
//!
//! Method: the kernel counts for every thread how long it ran and how long it was runnable without running.
//! The host polls `/proc` to catch new threads and children of the subject, and reads everybody's totals at
//! the end of a window. Compute is the time on a CPU, steal the time runnable, block the rest of the task's
//! life. The kernel counts CPU-quota throttling inside the wait, so it is subtracted from steal: at most as
//! much as the task's cgroups were throttled. So a quota is never blamed on a neighbor (but a neighbor may
//! get away with steal).
//!
//! Limits:
//! - no culprit can be named: all steal is unattributed;
//! - the totals lag (a wait counts when it ends, run time at the scheduler's tick). A task may be runnable at
//!   the end of a window without having blocked since. Then it is credited with the time in progress: as
//!   running if a tick could hide it, otherwise as waiting. The remainder that does not fit into its window
//!   is credited to the next one (see `meter.rs`). So a window of a few ticks is coarse, and a long one is
//!   not;
//! - a task that lives between two polls is not seen, and a task that ended is accounted until it was last
//!   seen. Their CPU time still shows in the accounts of their parents: exactly once corun's own command has
//!   ended, and in ticks before that. It is in the sums of the tenant, and in [`Loss::unseen_ns`], because
//!   nobody knows how long they waited;
//! - a daemon that forks twice between two polls leaves the subject's family unseen.
//!
//! Polling costs at most about 2 % of one CPU, half of it for the subject and half for the others. After a
//! poll that took `c` of CPU time, the next one waits for 100 `c`.

mod meter;
mod process_table;
mod task;
mod window;

use crate::allowed::{shown_fewer, Allowed, Member};
use crate::cgroup::{ancestors, Cgroups};
use crate::cpustat::{self, CpuStat, Taken};
use crate::root::{ReadError, Root};
use crate::target::Subject;
use crate::tenants::Tenants;
use crate::topology::{self, TopologyError};
use crate::{clock, procfs};
use corun_model::host::HostError;
use corun_model::observation::{CpuTime, Loss, Observation};
use corun_model::{Action, CpuId, Host, Limits, Machine, Outcome, Refusal, TenantId, Unavailable, What, Why};
use meter::Meter;
use process_table::{Depth, Process, ProcessTable, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use task::Life;
use thiserror::Error;
use window::{by_tenant, observed};

/// The default polling period of the subject.
pub const POLL_NS: u64 = 15_000_000;

/// Everybody else is polled less often by this factor.
const OTHERS_EVERY: u64 = 8;

/// After a poll, rest for this many times the CPU time that it took.
const REST: u64 = 100;

/// What to watch, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where `/proc` and `/sys` hang.
    pub root: Root,
    /// The subject.
    pub subject: Subject,
    /// Processes that are tenants of their own, each with its threads and descendants.
    pub tenants: Vec<u32>,
    /// How often to look for new threads and children, in nanoseconds; less often if a poll is expensive.
    pub poll_ns: u64,
    /// Account for everybody else, too. Without it, a window only costs the reads of the subject's own tasks.
    pub others: bool,
}

impl Options {
    /// This machine with everybody on it, polled every [`POLL_NS`].
    pub fn new(subject: Subject) -> Options {
        Options { root: Root::new("/"), subject, tenants: Vec::new(), poll_ns: POLL_NS, others: true }
    }
}

/// The host cannot be made here.
#[derive(Debug, Error)]
pub enum SchedstatError {
    /// The kernel does not count waits.
    #[error("this kernel keeps no `schedstat`; run as root, so that eBPF can be used instead")]
    Absent,
    /// The kernel could count waits but does not.
    #[error("`schedstat` shows zeros here; `sysctl kernel.task_delayacct=1` switches it on")]
    Off,
    /// `/proc` could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The machine's shape could not be read.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// A live host without privileges. See the module's text for method and limits.
#[derive(Debug)]
pub struct SchedstatHost {
    root: Root,
    machine: Machine,
    is_virtual: bool,
    cgroups: Cgroups,
    table: ProcessTable,
    tenants: Tenants,
    subject: Option<TenantId>,
    io: Option<TenantId>,
    others: bool,
    window_start_ns: u64,
    poll_ns: u64,
    poll_due_ns: u64,
    others_due_ns: u64,
    cpus: CpuStat,
    cpu_meters: BTreeMap<CpuId, (Meter, Meter)>,
    throttled: BTreeMap<String, u64>,
    allowed: Allowed,
    shown_fewer: Option<Unavailable>,
    /// On-CPU time of the subject's tasks reported so far, and CPU time of those that were never seen.
    subject_run_ns: u64,
    unseen_ns: u64,
}

impl SchedstatHost {
    /// Starts watching.
    ///
    /// # Errors
    /// [`SchedstatError`] if this kernel does not count what is needed.
    pub fn new(options: Options) -> Result<SchedstatHost, SchedstatError> {
        let Options { root, subject, tenants: named, poll_ns, others } = options;
        match procfs::schedstat_counts(&root)? {
            None => return Err(SchedstatError::Absent),
            Some(false) => return Err(SchedstatError::Off),
            Some(true) => {}
        }
        let machine = topology::read_machine(&root)?;
        let cgroups = Cgroups::discover(&root)?;
        let mut tenants = Tenants::new(&root);
        let (subject_id, io) = (subject.tenant(), subject.io_tenant());
        let (subject_id, io) = (subject_id.map(|t| tenants.number(t)), io.map(|t| tenants.number(t)));
        let now_ns = clock::now_ns();
        let cpus = CpuStat::read(&root)?;
        let meters = |c: &cpustat::CpuClock| (Meter::starting_at(c.idle_ns), Meter::starting_at(c.busy_ns()));
        let cpu_meters = cpus.cpus.iter().map(|(id, c)| (*id, meters(c))).collect();
        let mut table = ProcessTable::new(&root, subject, &cgroups, clock::boot_ahead_ns(), now_ns)?;
        table.name(&named)?;
        let is_virtual = cpustat::is_virtual(&root);
        let (allowed, shown_fewer) = (Allowed::new(&root), shown_fewer(&root));
        let mut host = SchedstatHost {
            root,
            allowed,
            shown_fewer,
            machine,
            is_virtual,
            cgroups,
            table,
            tenants,
            subject: subject_id,
            io,
            others,
            window_start_ns: now_ns,
            poll_ns,
            poll_due_ns: now_ns + poll_ns,
            others_due_ns: now_ns + poll_ns * OTHERS_EVERY,
            cpus,
            cpu_meters,
            throttled: BTreeMap::new(),
            subject_run_ns: 0,
            unseen_ns: 0,
        };
        host.throttled_in_window()?;
        Ok(host)
    }

    /// The subject's tenant; `None` if everybody is watched alike.
    pub fn subject(&self) -> Option<TenantId> {
        self.subject
    }

    /// The tenant of the I/O threads, if the subject is a virtual machine.
    pub fn io(&self) -> Option<TenantId> {
        self.io
    }

    /// Whether any task of the subject lived at the last poll; for a cgroup, whether it still exists; for
    /// everybody, always true.
    pub fn subject_lives(&self) -> bool {
        self.subject.is_none() || self.table.subject_lives()
    }

    /// Whether tasks of processes with this role are accounted.
    fn accounts(&self, role: Role) -> bool {
        self.others || role != Role::Other
    }

    /// Looks for new and ended processes and threads if the time has come.
    fn poll(&mut self) -> Result<(), HostError> {
        let now_ns = clock::now_ns();
        if now_ns < self.poll_due_ns {
            return Ok(());
        }
        let before_ns = clock::thread_cpu_ns();
        self.table.poll(now_ns).map_err(cannot_see)?;
        for pid in self.table.pids(|role| role != Role::Other) {
            self.table.read_tasks(pid, now_ns, Depth::Poll);
        }
        let cost_ns = clock::thread_cpu_ns() - before_ns;
        if self.others && now_ns >= self.others_due_ns {
            for pid in self.table.pids(|role| role == Role::Other) {
                self.table.read_tasks(pid, now_ns, Depth::Poll);
            }
            let cost_ns = clock::thread_cpu_ns() - before_ns;
            self.others_due_ns = clock::now_ns() + (self.poll_ns * OTHERS_EVERY).max(cost_ns * REST);
        }
        self.poll_due_ns = clock::now_ns() + self.poll_ns.max(cost_ns * REST);
        Ok(())
    }

    /// How long every cgroup of the CPU controller that has processes was throttled since the last call.
    fn throttled_in_window(&mut self) -> Result<BTreeMap<String, u64>, ReadError> {
        let Some(tree) = self.cgroups.with_controller("cpu") else { return Ok(BTreeMap::new()) };
        let mut paths = BTreeSet::new();
        for process in self.table.processes.values() {
            for path in process.membership.in_tree(tree).into_iter().flat_map(ancestors) {
                if !paths.contains(path) {
                    paths.insert(path.to_owned());
                }
            }
        }
        let mut gained = BTreeMap::new();
        let mut totals = BTreeMap::new();
        for path in paths {
            let Some(now) = self.cgroups.throttling(tree, &path)? else { continue };
            let before_ns = self.throttled.get(&path).copied().unwrap_or(now.throttled_ns);
            gained.insert(path.clone(), now.throttled_ns.saturating_sub(before_ns));
            totals.insert(path, now.throttled_ns);
        }
        self.throttled = totals;
        Ok(gained)
    }

    /// The CPUs' part of a window.
    fn cpu_times(&mut self, now: &CpuStat, taken: &Taken, window_ns: u64) -> Vec<CpuTime> {
        let mut time = |(&cpu, clock): (&CpuId, &cpustat::CpuClock)| {
            let fresh = || (Meter::starting_at(clock.idle_ns), Meter::starting_at(clock.busy_ns()));
            let (idle, busy) = self.cpu_meters.entry(cpu).or_insert_with(fresh);
            let busy_ns = busy.take_ns(clock.busy_ns(), window_ns);
            let idle_ns = idle.take_ns(clock.idle_ns, window_ns - busy_ns);
            let host_steal_ns = taken.host_steal_ns(cpu);
            CpuTime { cpu, idle_ns, busy_ns, unknown_ns: window_ns - busy_ns - idle_ns, host_steal_ns }
        };
        // A tenant that is offline now did nothing visible.
        let gone =
            |cpu: CpuId| CpuTime { cpu, idle_ns: 0, busy_ns: 0, unknown_ns: window_ns, host_steal_ns: None };
        // Some may have come since the start.
        let known: BTreeSet<CpuId> =
            self.machine.cpus().iter().map(|c| c.id).chain(now.cpus.keys().copied()).collect();
        let one = |cpu| now.cpus.get_key_value(&cpu).map(&mut time).unwrap_or_else(|| gone(cpu));
        known.into_iter().map(one).collect()
    }

    /// The tenant of a process's tasks.
    fn tenant(&mut self, pid: u32, role: Role) -> TenantId {
        match (role, self.subject, self.io) {
            (Role::Subject, Some(subject), _) => subject,
            (Role::SubjectIo, _, Some(io)) => io,
            _ => {
                let name = self.table.tenant(pid).expect("the table holds every process that is observed");
                self.tenants.number(name)
            }
        }
    }

    /// CPU time of the subject's tasks that lived between two polls, found in this window. It is the part of
    /// its family's accounts beyond what was seen. Their ticks are rounded down, so it is not too much.
    fn newly_unseen_ns(&mut self) -> u64 {
        let used_ns = self.table.subject_cpu_ns();
        let unseen_ns = used_ns.saturating_sub(self.subject_run_ns).max(self.unseen_ns);
        let gained = unseen_ns - self.unseen_ns;
        self.unseen_ns = unseen_ns;
        gained
    }

    fn unavailable(&self, host_steal_known: bool) -> Vec<Unavailable> {
        let mut list: Vec<Unavailable> = [
            (What::Culprits, Why::SchedstatNamesNobody),
            (What::Events, Why::SchedstatIsSilent),
            (What::Yields, Why::KernelTakesYieldsForPreemptions),
            (What::Stops, Why::SchedstatTakesStopsForBlocking),
            (What::RealTimeBudgets, Why::SchedstatTakesBudgetsForWaits),
            (What::ShortTasks, Why::ProcIsPolled),
            (What::HardwareCounters, Why::SchedstatReadsNoCounters),
        ]
        .map(|(what, why)| Unavailable::new(what, why))
        .into();
        list.extend(self.shown_fewer.clone());
        if !host_steal_known {
            list.push(Unavailable::new(What::HostSteal, Why::NoHostStealReported));
        }
        list
    }
}

impl Host for SchedstatHost {
    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    fn advance(&mut self, ns: u64) -> Result<(), HostError> {
        let until_ns = clock::now_ns() + ns;
        loop {
            self.poll()?;
            let now_ns = clock::now_ns();
            if now_ns >= until_ns {
                return Ok(());
            }
            let next_ns = until_ns.min(self.poll_due_ns.max(now_ns + 1));
            std::thread::sleep(Duration::from_nanos(next_ns - now_ns));
        }
    }

    fn observe(&mut self) -> Result<Observation, HostError> {
        let (start_ns, end_ns) = (self.window_start_ns, clock::now_ns());
        let window_ns = end_ns - start_ns;
        let cpus = CpuStat::read(&self.root).map_err(cannot_see)?;
        self.table.poll(end_ns).map_err(cannot_see)?;
        for pid in self.table.pids(|role| self.accounts(role)) {
            self.table.look(pid, end_ns, false);
            self.table.read_tasks(pid, end_ns, Depth::Full);
        }
        let throttled = self.throttled_in_window().map_err(cannot_see)?;
        let cpu_tree = self.cgroups.with_controller("cpu").cloned();

        let mut tasks = Vec::new();
        let known = self.table.processes.iter().filter(|(_, p)| self.accounts(p.role));
        for pid in known.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            let role = self.table.processes[&pid].role;
            let tenant = self.tenant(pid, role);
            let io = self.io.unwrap_or(tenant);
            let process = self.table.processes.get_mut(&pid).expect("its key was just read");
            let path = cpu_tree.as_ref().and_then(|tree| process.membership.in_tree(tree));
            let throttled_ns = path.map_or(0, |p| ancestors(p).filter_map(|a| throttled.get(a)).sum());
            let replaced = std::mem::take(&mut process.replaced);
            for (tid, mut task) in replaced {
                tasks.push(observed(tid, &mut task, tenant, (start_ns, end_ns), throttled_ns));
            }
            for (&tid, task) in process.tasks.iter_mut().filter(|(_, t)| t.life != Life::Reported) {
                tasks.push(observed(tid, task, tenant, (start_ns, end_ns), throttled_ns));
            }
            if role == Role::Subject && self.io.is_some() {
                let Process { tasks: threads, .. } = &self.table.processes[&pid];
                for seen in tasks.iter_mut().filter(|t| threads.contains_key(&t.id.0)) {
                    if self.table.is_io(role, seen.id.0, &seen.name) {
                        seen.tenant = io;
                    }
                }
            }
        }
        tasks.sort_by_key(|t| t.id);
        let subject = self.subject;
        self.subject_run_ns += tasks
            .iter()
            .filter(|t| Some(t.tenant) == subject || Some(t.tenant) == self.io)
            .map(|t| t.account.ledger.on_cpu_ns())
            .sum::<u64>();
        let unseen_ns = subject.map_or(0, |_| self.newly_unseen_ns());
        let loss = Loss { unseen_ns, ..Loss::default() };
        let limits = subject.map_or_else(Limits::default, |subject| {
            let processes = self.table.processes.iter().filter(|(_, p)| p.role == Role::Subject);
            let members: Vec<Member> = processes
                .flat_map(|(&pid, p)| {
                    p.tasks.iter().map(move |(&tid, t)| Member {
                        tid,
                        pid,
                        alive: t.life == Life::Alive,
                        last_cpu: t.last_cpu.map(CpuId),
                    })
                })
                .collect();
            self.allowed.look(subject, &members)
        });
        self.table.forget_ended();

        let taken = cpus.taken_since(&self.cpus, window_ns, self.is_virtual);
        let machine = taken.total();
        let unseen = subject.filter(|_| unseen_ns > 0).map(|subject| (subject, unseen_ns));
        let by_tenant = by_tenant(&tasks, unseen);
        let named: BTreeSet<TenantId> =
            by_tenant.iter().map(|t| t.id).chain(self.subject).chain(self.io).collect();
        let observation = Observation {
            start_ns,
            end_ns,
            tenants: named.iter().filter_map(|id| self.tenants.get(*id)).cloned().collect(),
            cpus: self.cpu_times(&cpus, &taken, window_ns),
            limits,
            tasks,
            by_tenant,
            machine,
            loss,
            unavailable: self.unavailable(machine.host_steal_ns.is_some()),
            ..Observation::default()
        };
        self.tenants.forget(|id| named.contains(&id));
        self.cpus = cpus;
        self.window_start_ns = end_ns;
        Ok(observation)
    }

    fn apply(&mut self, _: &Action) -> Outcome {
        Refusal::ObservesOnly.into()
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        Ok(())
    }
}

fn cannot_see(e: ReadError) -> HostError {
    HostError::Failed { what: "watching /proc".into(), why: e.to_string() }
}

#[cfg(test)]
mod tests;
