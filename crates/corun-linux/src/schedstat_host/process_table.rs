//! Every visible process and thread, kept up to date by polling `/proc`.
//!
//! A poll lists `/proc`, looks at new processes, and reads the threads of the subject. The threads of
//! everybody else are read in less frequent scans. A task that is not listed any more ended where it was last
//! seen.

use super::meter::Meter;
use super::task::{born_ns, Life, Task};
use crate::cgroup::{self, Cgroups, Membership};
use crate::naming::{self, TenantName};
use crate::procfs::{self, Stat};
use crate::program;
use crate::root::{ReadError, Root};
use crate::target::{self, Subject};
use std::collections::{BTreeMap, BTreeSet};

/// The relation of a process to the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Its tasks are the subject's; for a virtual machine, the vCPUs are, and the others are its I/O.
    Subject,
    /// Its tasks do a virtual machine's I/O.
    SubjectIo,
    /// Everybody else.
    Other,
}

/// One process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its relation to the subject.
    pub role: Role,
    /// Its `stat` at the last full look.
    pub stat: Stat,
    /// Its location in the cgroup trees.
    pub membership: Membership,
    /// CPU time of its own and of collected children that came before the host, at most.
    pub cpu_before_ns: u64,
    /// When its threads were last listed.
    pub listed_ns: u64,
    /// Whether `/proc` no longer lists it.
    pub gone: bool,
    /// Its threads by TID, including those that ended in this window.
    pub tasks: BTreeMap<u32, Task>,
    /// Threads that ended in this window and whose TID belongs to another one now.
    pub replaced: Vec<(u32, Task)>,
}

/// All processes.
#[derive(Debug)]
pub struct ProcessTable {
    root: Root,
    subject: Subject,
    tree: Option<cgroup::Tree>,
    boot_ahead_ns: u64,
    listed_ns: u64,
    /// By PID.
    pub processes: BTreeMap<u32, Process>,
    /// Live processes of the subject's family.
    family: BTreeSet<u32>,
    /// Process groups that a member of the family led; a process born into one belongs to the family.
    groups: BTreeSet<u32>,
    /// This process, and those that only wait for it: they are no part of the family.
    watching: BTreeSet<u32>,
    /// Tenants that are a process each with its descendants, the innermost last; and their live processes.
    named: Vec<(TenantName, BTreeSet<u32>)>,
    /// This process's location in the cgroup trees.
    own: Membership,
    /// CPU time of subject processes that have gone and whose parent is not the subject's, in nanoseconds.
    departed_cpu_ns: u64,
}

impl ProcessTable {
    /// Reads everything that exists. Earlier time of tasks belongs to nobody.
    ///
    /// # Errors
    /// [`ReadError`] when `/proc` cannot be read.
    pub fn new(
        root: &Root,
        subject: Subject,
        cgroups: &Cgroups,
        boot_ahead_ns: u64,
        now_ns: u64,
    ) -> Result<ProcessTable, ReadError> {
        let roots = match &subject {
            Subject::Command { pid, .. } => vec![*pid],
            Subject::Processes { roots, .. } => roots.clone(),
            _ => Vec::new(),
        };
        let tree = match &subject {
            Subject::Cgroup { mount, .. } => cgroups.trees().iter().find(|t| t.mount == *mount).cloned(),
            _ => None,
        };
        let watching = procfs::between(root, std::process::id(), &roots);
        let mut table = ProcessTable {
            root: root.clone(),
            subject,
            tree,
            boot_ahead_ns,
            listed_ns: now_ns,
            processes: BTreeMap::new(),
            family: procfs::with_descendants_except(root, &roots, &watching)?.into_iter().collect(),
            groups: BTreeSet::new(),
            watching: watching.into_iter().collect(),
            named: Vec::new(),
            own: Membership::read(root, "/proc/self").unwrap_or_default(),
            departed_cpu_ns: 0,
        };
        table.list(now_ns, true)?;
        for pid in table.pids(|_| true) {
            table.look(pid, now_ns, true);
            table.read_tasks(pid, now_ns, Depth::First);
            if let Some(process) = table.processes.get_mut(&pid) {
                process.cpu_before_ns = process.used_ns();
            }
        }
        Ok(table)
    }

    /// Makes each of these processes a tenant, with its threads and descendants.
    ///
    /// # Errors
    /// [`ReadError`] when `/proc` cannot be read.
    pub fn name(&mut self, pids: &[u32]) -> Result<(), ReadError> {
        for (pid, name) in target::families(&self.root, pids) {
            let except = procfs::between(&self.root, std::process::id(), &[pid]);
            let members = procfs::with_descendants_except(&self.root, &[pid], &except)?;
            self.named.push((name, members.into_iter().collect()));
        }
        Ok(())
    }

    /// The PIDs of live processes with a wanted role.
    pub fn pids(&self, wanted: impl Fn(Role) -> bool) -> Vec<u32> {
        self.processes.iter().filter(|(_, p)| !p.gone && wanted(p.role)).map(|(pid, _)| *pid).collect()
    }

    /// Finds processes that are new or gone, without reading the threads of known ones.
    ///
    /// # Errors
    /// [`ReadError`] when `/proc` cannot be read.
    pub fn poll(&mut self, now_ns: u64) -> Result<(), ReadError> {
        self.list(now_ns, false)
    }

    fn list(&mut self, now_ns: u64, first: bool) -> Result<(), ReadError> {
        let pids = procfs::processes(&self.root)?;
        let is_left = |(pid, process): &(&u32, &Process)| !process.gone && pids.binary_search(pid).is_err();
        let ended: Vec<u32> = self.processes.iter().filter(is_left).map(|(pid, _)| *pid).collect();
        ended.into_iter().for_each(|pid| self.ends(pid));
        let is_new = |pid: &u32| self.processes.get(pid).is_none_or(|p| p.gone);
        let fresh: Vec<u32> = pids.into_iter().filter(is_new).collect();
        let mut found = Vec::new();
        for pid in fresh {
            let Ok(stat) = procfs::process_stat(&self.root, pid) else { continue };
            let membership = Membership::read(&self.root, format!("/proc/{pid}")).unwrap_or_default();
            found.push((pid, stat, membership));
        }
        // A child may have a lower PID than its parent, so the family is complete when nobody joins any more.
        while let Some(at) = found.iter().position(|(pid, stat, _)| self.joins(*pid, stat)) {
            self.family.insert(found[at].0);
        }
        let led = found.iter().filter(|(pid, stat, _)| stat.pgid == *pid && self.family.contains(pid));
        self.groups.extend(led.map(|(pid, ..)| *pid));
        for (_, members) in &mut self.named {
            while let Some((pid, ..)) =
                found.iter().find(|(pid, stat, _)| !members.contains(pid) && members.contains(&stat.ppid))
            {
                members.insert(*pid);
            }
        }
        for (pid, stat, membership) in found {
            let process = Process {
                role: self.role(pid, &membership),
                cpu_before_ns: 0,
                stat,
                membership,
                listed_ns: self.listed_ns,
                gone: false,
                tasks: BTreeMap::new(),
                replaced: Vec::new(),
            };
            if let Some(old) = self.processes.insert(pid, process) {
                let new = self.processes.get_mut(&pid).expect("just put there");
                new.replaced = old.replaced;
                new.replaced.extend(old.tasks);
            }
            if !first {
                self.read_tasks(pid, now_ns, Depth::New);
            }
        }
        self.listed_ns = now_ns;
        Ok(())
    }

    /// Whether a new process belongs to the subject's family and is not yet known to.
    fn joins(&self, pid: u32, stat: &Stat) -> bool {
        matches!(self.subject, Subject::Command { .. } | Subject::Processes { .. })
            && !self.family.contains(&pid)
            && !self.watching.contains(&pid)
            && (self.family.contains(&stat.ppid)
                || self.groups.contains(&stat.pgid)
                || self.watching.contains(&stat.ppid) && stat.ppid != std::process::id())
    }

    fn role(&self, pid: u32, membership: &Membership) -> Role {
        let is_subject = match &self.subject {
            Subject::Command { .. } | Subject::Processes { .. } => self.family.contains(&pid),
            Subject::Cgroup { path, .. } => self
                .tree
                .as_ref()
                .and_then(|tree| membership.in_tree(tree))
                .is_some_and(|p| cgroup::is_within(p, path)),
            Subject::Vm { pid: vm, io, .. } if *vm != pid && io.contains(&pid) => return Role::SubjectIo,
            Subject::Vm { pid: vm, .. } => *vm == pid,
            Subject::All => false,
        };
        if is_subject {
            Role::Subject
        } else {
            Role::Other
        }
    }

    /// Takes a full look at one process: its current identity, and its location in the cgroup trees.
    pub fn look(&mut self, pid: u32, now_ns: u64, first: bool) {
        let Ok(stat) = procfs::process_stat(&self.root, pid) else { return };
        let membership = Membership::read(&self.root, format!("/proc/{pid}")).ok();
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if first {
            process.listed_ns = now_ns;
        }
        process.stat = stat;
        process.membership = membership.unwrap_or_default();
        let role = match self.subject {
            Subject::Cgroup { .. } => self.role(pid, &self.processes[&pid].membership),
            _ => return,
        };
        self.processes.get_mut(&pid).expect("looked at above").role = role;
    }

    /// A process is not there any more.
    fn ends(&mut self, pid: u32) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.end();
        // If its parent is the subject's, the parent has its CPU time now; otherwise nobody here has.
        if process.role == Role::Subject && !self.family.contains(&process.stat.ppid) {
            self.departed_cpu_ns += process.tree_cpu_ns();
        }
        // Its number may soon belong to a stranger.
        self.family.remove(&pid);
        for (_, members) in &mut self.named {
            members.remove(&pid);
        }
    }

    /// Reads the threads of one process.
    pub fn read_tasks(&mut self, pid: u32, now_ns: u64, depth: Depth) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Ok(tids) = procfs::tasks(&self.root, pid) else {
            self.ends(pid);
            return;
        };
        process.tasks.retain(|tid, task| {
            let listed = tids.binary_search(tid).is_ok();
            if !listed && task.life == Life::Alive {
                task.life = Life::Ended;
            }
            listed || task.life == Life::Ended
        });
        for tid in tids {
            let Ok(total) = procfs::schedstat(&self.root, pid, tid) else { continue };
            // Totals that went back, or that moved after the end, belong to another task with the same
            // number.
            let known = process.tasks.get(&tid).filter(|t| match t.life {
                Life::Alive => total.run_ns >= t.total.run_ns && total.slices >= t.total.slices,
                Life::Ended | Life::Reported => total == t.total,
            });
            if known.is_none() {
                let first = depth == Depth::First;
                let Ok(stat) = procfs::task_stat(&self.root, pid, tid) else { continue };
                let switches = procfs::switches(&self.root, pid, tid).ok();
                let started_ns = stat.start_ns.saturating_sub(self.boot_ahead_ns);
                let born_ns = born_ns(started_ns, process.listed_ns, now_ns, total);
                let task = Task {
                    born_ns: if first { now_ns } else { born_ns },
                    seen_ns: now_ns,
                    life: if stat.is_dead() && first { Life::Reported } else { Life::Alive },
                    last_cpu: Some(stat.last_cpu),
                    name: stat.comm.into(),
                    total,
                    described_at: total,
                    runnable: stat.state == 'R',
                    blocked_by_ns: now_ns,
                    run: Meter::starting_at(if first { total.run_ns } else { 0 }),
                    wait: Meter::starting_at(if first { total.wait_ns } else { 0 }),
                    throttled_left_ns: 0,
                    switches,
                    reported: switches.filter(|_| first).unwrap_or_default(),
                };
                if let Some(old) = process.tasks.insert(tid, task).filter(|old| old.life != Life::Reported) {
                    process.replaced.push((tid, Task { life: Life::Ended, ..old }));
                }
                continue;
            }
            let Some(task) = process.tasks.get_mut(&tid) else { continue };
            if task.life != Life::Alive {
                continue;
            }
            // A task that did not run since did not switch, end or rename itself either, so most tasks cost
            // one read.
            if task.total != total {
                let before = task.switches;
                task.switches = procfs::switches(&self.root, pid, tid).ok().or(before);
                if task.switches.map(|s| s.voluntary) != before.map(|s| s.voluntary) {
                    task.blocked_by_ns = now_ns;
                }
            }
            task.total = total;
            task.seen_ns = now_ns;
            if depth == Depth::Full && task.described_at != total {
                if let Ok(stat) = procfs::task_stat(&self.root, pid, tid) {
                    task.life = if stat.is_dead() { Life::Ended } else { Life::Alive };
                    task.runnable = stat.state == 'R';
                    task.name = stat.comm.into();
                    task.last_cpu = Some(stat.last_cpu);
                    task.described_at = total;
                }
            }
        }
        process.listed_ns = now_ns;
    }

    /// The tenant that a process outside the subject belongs to.
    pub fn tenant(&self, pid: u32) -> Option<TenantName> {
        let process = self.processes.get(&pid)?;
        let stat = &process.stat;
        if stat.is_kernel {
            return Some(naming::of_kernel_thread(&stat.comm));
        }
        if let Some((name, _)) = self.named.iter().rev().find(|(_, members)| members.contains(&pid)) {
            return Some(name.clone());
        }
        Some(process.membership.tenant_seen_from(&self.own).unwrap_or_else(|| {
            let (pid, leader) = match self.processes.get(&stat.pgid) {
                Some(leader) => (stat.pgid, &leader.stat.comm),
                None => (pid, &stat.comm),
            };
            let children = |of| {
                self.processes.iter().filter(move |(_, p)| p.stat.ppid == of).map(|(pid, _)| *pid).collect()
            };
            let run = program::wrapped_program(&self.root, pid, children);
            let (pid, leader) = run.unwrap_or_else(|| (pid, leader.clone()));
            naming::of_process_group(stat.pgid, &program::name(&self.root, pid, &leader))
        }))
    }

    /// Whether a thread of a subject process is I/O: in a virtual machine, all but the vCPUs are.
    pub fn is_io(&self, role: Role, tid: u32, name: &str) -> bool {
        match (&self.subject, role) {
            (_, Role::SubjectIo) => true,
            (Subject::Vm { vcpus, .. }, Role::Subject) => !vcpus.contains(&tid) && !target::is_vcpu(name),
            _ => false,
        }
    }

    /// CPU time that the subject's family has used since the host started, by the accounts of its processes: those
    /// that live, and the children they collected, however short they lived. Of this process's own child that has ended it is
    /// exact, else rounded down to ticks.
    pub fn subject_cpu_ns(&self) -> u64 {
        let live = self.processes.iter().filter(|(_, p)| p.role == Role::Subject && !p.gone);
        let tree_ns = |(&pid, p): (&u32, &Process)| {
            let exact_ns = Some(pid).filter(|_| p.stat.is_dead()).and_then(procfs::used_by_ended_child_ns);
            exact_ns.map_or_else(|| p.tree_cpu_ns(), |ns| ns.saturating_sub(p.cpu_before_ns))
        };
        self.departed_cpu_ns + live.map(tree_ns).sum::<u64>()
    }

    /// Whether any task of the subject still lives.
    pub fn subject_lives(&self) -> bool {
        if matches!(self.subject, Subject::Cgroup { .. }) {
            return !self.subject.is_removed(&self.root);
        }
        let lives = |p: &Process| !p.gone && p.tasks.values().any(|t| t.life == Life::Alive);
        self.processes.values().any(|p| p.role == Role::Subject && lives(p))
    }

    /// Forgets what has ended, after it was reported.
    pub fn forget_ended(&mut self) {
        self.processes.retain(|_, p| !p.gone);
        let groups: BTreeSet<u32> = self.processes.values().map(|p| p.stat.pgid).collect();
        self.groups.retain(|g| groups.contains(g));
        for process in self.processes.values_mut() {
            process.replaced.clear();
            for task in process.tasks.values_mut().filter(|t| t.life == Life::Ended) {
                task.life = Life::Reported;
            }
        }
    }
}

/// How closely to read tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Everything that exists when the host starts: its earlier time belongs to nobody.
    First,
    /// A process that has just appeared.
    New,
    /// Only what a poll needs.
    Poll,
    /// Names, CPUs and states too.
    Full,
}

impl Process {
    fn end(&mut self) {
        self.gone = true;
        self.tasks.retain(|_, task| task.life != Life::Reported);
        for task in self.tasks.values_mut() {
            task.life = Life::Ended;
        }
    }

    fn tree_cpu_ns(&self) -> u64 {
        (self.stat.cpu_ns + self.stat.children_cpu_ns).saturating_sub(self.cpu_before_ns)
    }

    /// CPU time of its own and of collected children so far, at most: exact of threads that live, in ticks of those that ended.
    fn used_ns(&self) -> u64 {
        let live_ns: u64 = self.tasks.values().map(|t| t.total.run_ns).sum();
        let Stat { cpu_ns, children_cpu_ns, .. } = self.stat;
        // User and system time are rounded down each.
        let in_ticks = |ns: u64| if ns > 0 { ns + 2 * procfs::TICK_NS } else { 0 };
        let own_ns = if cpu_ns > live_ns { in_ticks(cpu_ns) } else { live_ns };
        own_ns + in_ticks(children_cpu_ns)
    }
}
