//! The part of contended CPU time that each tenant is entitled to: its weight, 100 by default.
//!
//! If a tenant is a cgroup of its own in the tree with the CPU controller, its weight is that cgroup's:
//! `cpu.weight` (v2), or `cpu.shares` (v1; 1024 corresponds to 100 in v2). Others are weighed by nice, 25 %
//! per step as in the kernel's table. If autogroups are in force, nice compares only tasks of one session, so
//! the nice value of the session's autogroup counts. Otherwise that of the tenant's busiest task counts.
//! Schedulers of sched_ext know neither, so under one of them only cgroups count.
//!
//! Limits: the weights of cgroups further up are ignored, so tenants are compared as if they were siblings.
//! If the tasks of a tenant differ in nice, the busiest counts. A weight is read again once a second.

use crate::cgroup::{Cgroups, Membership, Tree};
use crate::naming;
use crate::procfs;
use crate::root::Root;
use crate::sched;
use corun_model::observation::TaskObservation;
use corun_model::{Observation, Tenant, TenantId};
use std::collections::{BTreeMap, BTreeSet};

/// How long a cached weight is valid, in nanoseconds.
const HOLDS_NS: u64 = 1_000_000_000;
/// The default weight.
const DEFAULT: u32 = 100;

/// Reads weights and caches them for a while.
#[derive(Debug)]
pub struct Shares {
    root: Root,
    cgroups: Option<Cgroups>,
    /// Whether the kernel's own scheduler shares the CPUs out.
    by_kernel: bool,
    known: BTreeMap<TenantId, (u64, u32)>,
}

impl Shares {
    /// A reader. `by_kernel`: whether the kernel's own scheduler shares out the CPUs, rather than one of
    /// sched_ext's.
    pub fn new(root: &Root, by_kernel: bool) -> Shares {
        Shares {
            root: root.clone(),
            cgroups: Cgroups::discover(root).ok(),
            by_kernel,
            known: BTreeMap::new(),
        }
    }

    /// Fills in the weights of the tenants of interest that are alive.
    pub fn fill(&mut self, seen: &mut Observation, of_interest: impl Fn(&Tenant) -> bool) {
        let mut busiest: BTreeMap<TenantId, &TaskObservation> = BTreeMap::new();
        let wanted_ns =
            |t: &TaskObservation| t.account.ledger.on_cpu_ns() + t.account.ledger.parts().steal_ns;
        let meant: BTreeSet<TenantId> =
            seen.tenants.iter().filter(|t| of_interest(t)).map(|t| t.id).collect();
        for task in seen.tasks.iter().filter(|t| t.alive && meant.contains(&t.tenant)) {
            let best = busiest.entry(task.tenant).or_insert(task);
            if wanted_ns(task) > wanted_ns(best) {
                *best = task;
            }
        }
        let mut weights = Vec::new();
        for tenant in &seen.tenants {
            let Some(task) = busiest.get(&tenant.id) else { continue };
            let known = self.known.get(&tenant.id).filter(|(read_ns, _)| seen.end_ns < read_ns + HOLDS_NS);
            let weight = match known {
                Some((_, weight)) => *weight,
                None => {
                    let weight = self.read(tenant, task.id.0).unwrap_or(DEFAULT);
                    self.known.insert(tenant.id, (seen.end_ns, weight));
                    weight
                }
            };
            if weight != DEFAULT {
                weights.push((tenant.id, weight));
            }
        }
        weights.sort_unstable();
        seen.weights = weights;
        self.known.retain(|id, _| busiest.contains_key(id));
    }

    /// The weight of the tenant that this task belongs to; `None` if it has gone.
    fn read(&self, tenant: &Tenant, tid: u32) -> Option<u32> {
        let tree = self.cgroups.as_ref().and_then(|c| c.with_controller("cpu"));
        let membership = Membership::read(&self.root, format!("/proc/{tid}")).ok()?;
        let path = tree.and_then(|tree| membership.in_tree(tree)).unwrap_or("/");
        if let Some(folder) = naming::own_part(path, &tenant.key).and_then(|own| tree?.folder(own)) {
            let read = |file: &str| self.root.value::<u64>(folder.join(file), "a weight").ok();
            return match tree?.is_v2() {
                true => read("cpu.weight"),
                false => read("cpu.shares").map(|shares| (shares * 100 + 512) / 1024),
            }
            .map(|weight| weight.clamp(1, 10_000) as u32);
        }
        if !self.by_kernel {
            return Some(DEFAULT);
        }
        // Sessions are groups only for tasks that no cgroup weighs.
        let is_weighed = tree.is_some_and(|tree| self.is_weighed(tree, path));
        if !is_weighed && sched::autogroups_are_on(&self.root) {
            if let Ok(Some(group)) = procfs::autogroup(&self.root, tid) {
                return weight_of(group.nice);
            }
        }
        weight_of(procfs::process_stat(&self.root, tid).ok()?.nice)
    }

    /// Whether a cgroup with this path, or one above it, has a weight. In the v2 tree many have none: if a
    /// cgroup does not pass on the CPU controller, those below it (including a transient one) leave a task
    /// where it was.
    fn is_weighed(&self, tree: &Tree, path: &str) -> bool {
        let outermost = path.split('/').find(|segment| !segment.is_empty());
        let Some(outermost) = outermost.and_then(|segment| tree.folder(&format!("/{segment}"))) else {
            return path != "/";
        };
        !tree.is_v2() || self.root.has(outermost.join("cpu.weight"))
    }
}

/// A nice value as a weight.
fn weight_of(nice: i32) -> Option<u32> {
    let weight = f64::from(DEFAULT) * 1.25f64.powi(-nice);
    (-20..=19).contains(&nice).then(|| weight.round().clamp(1.0, 10_000.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::ledger::Parts;
    use corun_model::observation::Account;
    use corun_model::{Ledger, TaskId, TenantKind};
    use std::fs;
    use std::process::{Command, Stdio};
    use tempfile::TempDir;

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    const V1: &str = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    fn machine(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = Root::new(folder.path()).path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    /// The kernel's data for process 7.
    fn stat(name: &str, nice: i32) -> String {
        format!("7 ({name}) R 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 {nice} 1{}", " 0".repeat(19))
    }

    /// One task, 7, of one tenant at a time.
    fn seen(key: &str, end_ns: u64) -> Observation {
        let tenant =
            Tenant { id: TenantId(1), kind: TenantKind::Cgroup, key: key.into(), name: "a tenant".into() };
        let ledger = Ledger::new(Parts { compute_ns: 10, ..Parts::default() }, 10).unwrap();
        let task = TaskObservation {
            id: TaskId(7),
            name: "task".into(),
            tenant: TenantId(1),
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: Account { ledger, ..Account::default() }.into(),
        };
        Observation { tenants: vec![tenant], tasks: vec![task], end_ns, ..Observation::default() }
    }

    fn weight(shares: &mut Shares, key: &str, end_ns: u64) -> u64 {
        let mut seen = seen(key, end_ns);
        shares.fill(&mut seen, |_| true);
        seen.weight(TenantId(1))
    }

    fn weight_on(folder: &TempDir, by_kernel: bool, key: &str) -> u64 {
        weight(&mut Shares::new(&Root::new(folder.path()), by_kernel), key, 1)
    }

    #[test]
    fn a_cgroup_has_the_weight_written_into_it_under_any_scheduler() {
        let v2 = machine(&[
            ("/proc/self/mountinfo", V2),
            ("/sys/fs/cgroup/cgroup.controllers", "cpu\n"),
            ("/proc/7/cgroup", "0::/system.slice/web.service/workers\n"),
            ("/sys/fs/cgroup/system.slice/web.service/cpu.weight", "300\n"),
        ]);
        let key = naming::of_cgroup("/system.slice/web.service").unwrap().key;
        assert_eq!([true, false].map(|by_kernel| weight_on(&v2, by_kernel, &key)), [300, 300]);
        let v1 = machine(&[
            ("/proc/self/mountinfo", V1),
            ("/proc/7/cgroup", "3:cpu:/system.slice/web.service\n0::/system.slice/web.service\n"),
            ("/sys/fs/cgroup/cpu/system.slice/web.service/cpu.shares", "512\n"),
        ]);
        assert_eq!(weight_on(&v1, true, &key), 50);
    }

    #[test]
    fn a_command_is_weighed_by_its_session_or_by_its_nice_value_if_sessions_are_no_groups() {
        let stat = stat("a) b", 5);
        let files = |autogroups: &'static str| {
            machine(&[
                ("/proc/self/mountinfo", V1),
                ("/proc/7/cgroup", "3:cpu:/\n0::/\n"),
                ("/proc/7/autogroup", "/autogroup-12 nice -5\n"),
                ("/proc/7/stat", &stat),
                ("/proc/sys/kernel/sched_autogroup_enabled", autogroups),
            ])
        };
        assert_eq!(weight_on(&files("1\n"), true, "pgid:7"), 305);
        assert_eq!(weight_on(&files("0\n"), true, "pgid:7"), 33);
        assert_eq!(weight_on(&files("1\n"), false, "pgid:7"), 100, "sched_ext knows no sessions");
    }

    #[test]
    fn a_command_in_a_cgroup_without_a_weight_is_still_weighed_by_its_session() {
        let stat = stat("make", 19);
        let weight_in = |path: &str, with: &[(&str, &str)]| {
            let membership = format!("0::{path}\n");
            let files: [(&str, &str); 6] = [
                ("/proc/self/mountinfo", V2),
                ("/sys/fs/cgroup/cgroup.controllers", "cpu\n"),
                ("/proc/7/cgroup", &membership),
                ("/proc/7/autogroup", "/autogroup-12 nice 0\n"),
                ("/proc/7/stat", &stat),
                ("/proc/sys/kernel/sched_autogroup_enabled", "1\n"),
            ];
            weight_on(&machine(&[&files, with].concat()), true, "pgid:7")
        };
        let parked = format!("/{}12.34.1", crate::naming::TRANSIENT_PREFIX);
        assert_eq!(["/", parked.as_str()].map(|path| weight_in(path, &[])), [100, 100]);
        let weighed = [("/sys/fs/cgroup/user.slice/cpu.weight", "100\n")];
        assert_eq!(weight_in("/user.slice/session-1.scope", &weighed), 1, "its session does not count");
    }

    #[test]
    fn a_task_that_has_gone_or_says_nothing_has_the_default_and_a_weight_is_read_again_after_a_second() {
        let folder = machine(&[("/proc/self/mountinfo", V1), ("/proc/7/cgroup", "3:cpu:/\n")]);
        assert_eq!(weight_on(&folder, true, "pgid:7"), 100);
        let mut shares = Shares::new(&Root::new(folder.path()), true);
        assert_eq!(weight(&mut shares, "pgid:7", 1), 100);
        fs::write(folder.path().join("proc/7/stat"), stat("a", 1)).unwrap();
        assert_eq!(weight(&mut shares, "pgid:7", HOLDS_NS / 2), 100);
        assert_eq!(weight(&mut shares, "pgid:7", HOLDS_NS + 1), 80);
    }

    #[test]
    fn the_weight_of_a_live_process_is_the_one_it_was_given() {
        let root = Root::new("/");
        // It ends with its input, whatever happens to this test.
        let mut sleeper = Command::new("setsid").arg("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = sleeper.id();
        let file = format!("/proc/{pid}/autogroup");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while root.read(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() != "cat") {
            assert!(std::time::Instant::now() < deadline, "cat never began");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // Lowering one's own is allowed to anybody.
        if !sched::autogroups_are_on(&root) || fs::write(&file, "5").is_err() {
            println!("skipped: sessions are no scheduling groups here");
            drop(sleeper.stdin.take());
            sleeper.wait().unwrap();
            return;
        }
        let mut shares = Shares::new(&root, true);
        let mut now = seen("a key that no cgroup has", 1);
        now.tasks[0].id = TaskId(pid);
        shares.fill(&mut now, |_| true);
        let path = Membership::read(&root, format!("/proc/{pid}")).unwrap();
        let in_cgroup = shares.cgroups.as_ref().and_then(|c| path.in_tree(c.with_controller("cpu")?));
        match in_cgroup {
            None | Some("/") => assert_eq!(now.weight(TenantId(1)), 33),
            Some(path) => {
                println!("skipped: this test runs in the cgroup {path}, where sessions do not count")
            }
        }
        drop(sleeper.stdin.take());
        sleeper.wait().unwrap();
    }

    #[test]
    fn a_step_of_nice_is_a_quarter() {
        assert_eq!([0, 1, -1, 5, 19, -20].map(weight_of), [100, 80, 125, 33, 1, 8_674].map(Some));
        assert_eq!(weight_of(20), None);
    }
}
