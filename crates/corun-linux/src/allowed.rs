//! What the machine allows a subject: the CPUs that each of its tasks may use, and its CPU quota.
//!
//! Method: call `sched_getaffinity` for every task at the end of a window. The result is the task's affinity
//! within its cpuset, limited to CPUs that are switched on. The last value holds until the task ends. The
//! scheduler moves nobody between isolated CPUs (`isolcpus=`, isolated partitions). So a task on such a CPU
//! has only that one. The quota is the tightest of those that cover all processes of the subject. So it
//! limits them together, whoever else it covers.
//!
//! Limits: a task that lives within one window is not read, and nothing is known about it. If there are more
//! than [`MOST_TASKS`] tasks or [`MOST_PROCESSES`] processes, the rest are skipped in that window.

use crate::cgroup::quota::Quota;
use crate::cgroup::{ancestors, Cgroups, Membership};
use crate::root::Root;
use crate::{cpulist, cpustat, sched};
use corun_model::limits::{CpuQuota, CpuSet, Limits, TaskLimits};
use corun_model::{CpuId, TaskId, TenantId, Unavailable, What, Why};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most tasks that are read in a window: each takes a system call.
const MOST_TASKS: usize = 4_096;
/// Most processes whose cgroups are read in a window: each takes a file.
const MOST_PROCESSES: usize = 64;

/// A task of the subject.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its number.
    pub tid: u32,
    /// Its process's.
    pub pid: u32,
    /// Whether it is still there.
    pub alive: bool,
    /// The CPU that the task is on or was last on; `None` if it has not run yet.
    pub last_cpu: Option<CpuId>,
}

/// What is known about a subject's limits.
#[derive(Debug)]
pub struct Allowed {
    root: Root,
    isolated: CpuSet,
    cgroups: Option<Cgroups>,
    /// Live tasks, with their CPUs and whether isolation confines each to one CPU.
    sets: BTreeMap<u32, (Arc<CpuSet>, bool)>,
    quota: Option<Quota>,
}

impl Allowed {
    /// Knows of no task yet.
    pub fn new(root: &Root) -> Allowed {
        Allowed {
            root: root.clone(),
            isolated: isolated(root),
            cgroups: Cgroups::discover(root).ok(),
            sets: BTreeMap::new(),
            quota: None,
        }
    }

    /// Reads the subject's tasks, including those that ended since the last time.
    pub fn look(&mut self, subject: TenantId, members: &[Member]) -> Limits {
        let alive = || members.iter().filter(|m| m.alive);
        for m in alive().take(MOST_TASKS) {
            let Ok(cpus) = sched::affinity(m.tid) else { continue };
            let affinity = cpus.len();
            let cpus = movable(cpus, m.last_cpu, &self.isolated);
            let is_isolated = cpus.len() < affinity && self.isolated.contains(&cpus[0]);
            // Most tasks may use the same CPUs as the others, and the same as before.
            let known = self.sets.get(&m.tid).or_else(|| self.sets.values().next_back());
            let set = match known.filter(|(set, _)| set.iter().eq(&cpus)) {
                Some((set, _)) => set.clone(),
                None => Arc::new(cpus.into_iter().collect()),
            };
            self.sets.insert(m.tid, (set, is_isolated));
        }
        let pids: BTreeSet<u32> = alive().map(|m| m.pid).collect();
        if !pids.is_empty() {
            self.quota = self.quota_of(pids.into_iter().take(MOST_PROCESSES));
        }
        let mut tasks: Vec<TaskLimits> = members
            .iter()
            .map(|m| {
                let (cpus, is_isolated) = self.sets.get(&m.tid).cloned().unzip();
                let is_isolated = is_isolated.unwrap_or(false);
                TaskLimits { task: TaskId(m.tid), process: TaskId(m.pid), cpus, is_isolated }
            })
            .collect();
        tasks.sort_by_key(|t| t.task);
        tasks.dedup_by_key(|t| t.task);
        let living: BTreeSet<u32> = alive().map(|m| m.tid).collect();
        self.sets.retain(|tid, _| living.contains(tid));
        let quota = self.quota.as_ref().filter(|q| q.period_ns > 0 && q.quota_ns > 0);
        let quota = quota.map(|q| CpuQuota {
            tenant: subject,
            cpus: q.quota_ns as f64 / q.period_ns as f64,
            period_ns: q.period_ns,
        });
        Limits { tasks, quotas: quota.into_iter().collect() }
    }

    /// The tightest quota that covers all of these processes.
    fn quota_of(&self, pids: impl Iterator<Item = u32>) -> Option<Quota> {
        let cgroups = self.cgroups.as_ref()?;
        let tree = cgroups.with_controller("cpu")?;
        let mut common: Option<BTreeSet<String>> = None;
        for pid in pids {
            // A process that has ended meanwhile is under no quota any more.
            let Ok(membership) = Membership::read(&self.root, format!("/proc/{pid}")) else { continue };
            let above: BTreeSet<String> =
                membership.in_tree(tree).into_iter().flat_map(ancestors).map(str::to_owned).collect();
            common =
                Some(common.map_or(above.clone(), |common| common.intersection(&above).cloned().collect()));
        }
        let quotas = common?.into_iter().filter_map(|path| cgroups.quota(tree, &path).ok().flatten());
        let share = |q: &Quota| q.quota_ns as f64 / q.period_ns.max(1) as f64;
        quotas.min_by(|a, b| share(a).total_cmp(&share(b)))
    }
}

/// CPUs between which the scheduler moves nobody.
pub fn isolated(root: &Root) -> CpuSet {
    let isolated = root.read("/sys/devices/system/cpu/isolated").ok().and_then(|t| cpulist::parse(&t));
    isolated.into_iter().flatten().collect()
}

/// Reports that this container is shown fewer CPUs than it may use, as with lxcfs. Programs that count CPUs
/// then start fewer threads than they could use.
pub fn shown_fewer(root: &Root) -> Option<Unavailable> {
    let listed = root.read("/proc/cpuinfo").unwrap_or_default();
    let listed = listed.lines().filter(|line| line.starts_with("processor")).count();
    let online = cpustat::online(root).map_or(0, |cpus| cpus.len());
    let shown = [listed, online].into_iter().filter(|n| *n > 0).min()?;
    fewer(shown, sched::affinity(0).ok()?.len())
}

fn fewer(shown: usize, usable: usize) -> Option<Unavailable> {
    (shown < usable).then_some(Unavailable { what: What::AllCpus, why: Why::ShownFewer { shown, usable } })
}

/// Of the CPUs that a task may use, those that the scheduler would move it to.
fn movable(cpus: Vec<CpuId>, last_cpu: Option<CpuId>, isolated: &CpuSet) -> Vec<CpuId> {
    match last_cpu.filter(|cpu| isolated.contains(cpu) && cpus.contains(cpu)) {
        Some(own) => vec![own],
        None => {
            let free: Vec<CpuId> = cpus.iter().copied().filter(|cpu| !isolated.contains(cpu)).collect();
            if free.is_empty() {
                cpus
            } else {
                free
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_keeps_its_last_known_cpus_until_it_ends() {
        let subject = TenantId(0);
        let mut allowed = Allowed::new(&Root::new("/"));
        let (tid, pid) = (sched::own_tid(), std::process::id());
        let member = |alive| Member { tid, pid, alive, last_cpu: None };
        let of = |limits: &Limits| limits.of_task(TaskId(tid)).and_then(|t| t.cpus.clone());
        let seen = of(&allowed.look(subject, &[member(true)])).expect("this thread is there");
        assert!(seen.iter().eq(&sched::affinity(0).unwrap()) || !allowed.isolated.is_empty());
        assert_eq!(of(&allowed.look(subject, &[member(false)])), Some(seen));
        assert_eq!(
            of(&allowed.look(subject, &[member(false)])),
            None,
            "the number may be another task's now"
        );
    }

    #[test]
    fn a_container_that_is_shown_fewer_cpus_than_it_may_use_is_noticed() {
        assert!(fewer(2, 8).is_some_and(|u| u.why == Why::ShownFewer { shown: 2, usable: 8 }));
        assert_eq!((fewer(8, 8), fewer(8, 2)), (None, None), "an affinity is no lie");
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc")).unwrap();
        let own = sched::affinity(0).unwrap().len();
        let show = |n: usize| {
            let text: String = (0..n).map(|i| format!("processor\t: {i}\nmodel\t: x\n\n")).collect();
            std::fs::write(root.path().join("proc/cpuinfo"), text).unwrap();
            shown_fewer(&Root::new(root.path())).is_some()
        };
        assert!(!show(own) && !show(own + 1) && (own == 1 || show(own - 1)));
    }

    #[test]
    fn between_isolated_cpus_nobody_is_moved() {
        let cpus = |list: &[u32]| list.iter().map(|n| CpuId(*n)).collect::<Vec<CpuId>>();
        let isolated: CpuSet = cpus(&[2, 3]).into_iter().collect();
        let of = |list: &[u32], last: Option<u32>| movable(cpus(list), last.map(CpuId), &isolated);
        assert_eq!(of(&[2, 3], Some(3)), cpus(&[3]));
        assert_eq!(of(&[0, 1, 2], Some(0)), cpus(&[0, 1]));
        assert_eq!(of(&[2, 3], None), cpus(&[2, 3]), "it has not run yet");
        assert_eq!(of(&[0, 1], Some(3)), cpus(&[0, 1]), "it was there before");
    }

    #[test]
    fn isolated_cpus_are_read_from_this_machine_and_confine_a_task_to_the_one_it_is_on() {
        let own = sched::affinity(0).unwrap();
        let (tid, pid) = (sched::own_tid(), std::process::id());
        let all = own.iter().map(|cpu| cpu.0.to_string()).collect::<Vec<String>>().join(",");
        let rest = format!("{},4095", own[0].0);
        // The kernel's answer, the task's CPU, whether it may move away, and whether isolation is the reason.
        let rows: [(Option<&str>, Option<CpuId>, usize, bool); 7] = [
            (None, Some(own[0]), own.len(), false),
            (Some(""), Some(own[0]), own.len(), false),
            (Some("\n"), Some(own[0]), own.len(), false),
            (Some("4094-4095\n"), Some(own[0]), own.len(), false),
            (Some("no list"), Some(own[0]), own.len(), false),
            (Some(&all), Some(own[0]), 1, own.len() > 1),
            (Some(&rest), Some(own[0]), 1, own.len() > 1),
        ];
        for (isolated, last_cpu, may_use, is_isolated) in rows {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join("sys/devices/system/cpu");
            std::fs::create_dir_all(&folder).unwrap();
            isolated.into_iter().for_each(|text| std::fs::write(folder.join("isolated"), text).unwrap());
            let member = Member { tid, pid, alive: true, last_cpu };
            let limits = Allowed::new(&Root::new(root.path())).look(TenantId(0), &[member]);
            let task = limits.of_task(TaskId(tid)).unwrap();
            let cpus = task.cpus.as_ref().unwrap();
            assert_eq!((cpus.len(), task.is_isolated), (may_use, is_isolated), "{isolated:?}");
            assert!(cpus.contains(&own[0]), "{isolated:?}");
        }
    }

    #[test]
    fn the_tightest_quota_above_all_processes_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        write("sys/fs/cgroup/cgroup.controllers", "cpu\n");
        write("sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
        write("sys/fs/cgroup/pod/web/cpu.max", "20000 50000\n");
        write("sys/fs/cgroup/pod/db/cpu.max", "max 100000\n");
        write("proc/7/cgroup", "0::/pod/web\n");
        write("proc/8/cgroup", "0::/pod/db\n");
        write("proc/9/cgroup", "0::/\n");
        let allowed = Allowed::new(&Root::new(root.path()));
        let of =
            |pids: &[u32]| allowed.quota_of(pids.iter().copied()).map(|q| (q.quota_ns / 1_000_000, q.path));
        assert_eq!(of(&[7]), Some((20, "/pod/web".into())));
        assert_eq!(of(&[7, 8]), Some((150, "/pod".into())), "together they have that of the pod");
        assert_eq!(of(&[7, 9]), None);
        assert_eq!(of(&[7, 12345]), Some((20, "/pod/web".into())), "one has ended");
    }
}
