//! A busy task that is stopped, frozen, limited and confined at random, and the witness of these events.

use super::{Chance, Hog};
use corun_linux::cgroup::Cgroups;
use corun_linux::sched;
use corun_model::CpuId;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

/// The period of every quota here.
pub const PERIOD: Duration = Duration::from_millis(100);

/// How often the witness looks.
const STEP: Duration = Duration::from_millis(4);

pub fn signal(pid: u32, number: i32) {
    // SAFETY: a signal to a process that this test started and has not waited for.
    unsafe { libc::kill(pid as i32, number) };
}

/// Nested cgroups, the outer one first; removed when dropped.
pub struct Folders(Vec<PathBuf>);

impl Folders {
    pub fn make(mount: &Path, name: &str, depth: usize) -> std::io::Result<Folders> {
        let mut all = Folders(Vec::new());
        let mut folder = mount.join(format!("chaos-{}-{name}", std::process::id()));
        for _ in 0..depth {
            std::fs::create_dir(&folder)?;
            all.0.push(folder.clone());
            folder = folder.join("inner");
        }
        Ok(all)
    }

    fn outer(&self) -> &Path {
        &self.0[0]
    }

    /// Moves a process into the innermost.
    pub fn add(&self, pid: u32) -> bool {
        self.0.last().is_some_and(|f| std::fs::write(f.join("cgroup.procs"), pid.to_string()).is_ok())
    }

    /// Allows the outer one this many per cent of a CPU, or no limit; `false` if there are no quotas here.
    pub fn allow(&self, percent: Option<u64>) -> bool {
        let us = percent.map(|p| p * PERIOD.as_micros() as u64 / 100);
        let v2 = us.map_or("max".into(), |us| us.to_string());
        std::fs::write(self.outer().join("cpu.max"), format!("{v2} {}", PERIOD.as_micros())).is_ok()
            || std::fs::write(
                self.outer().join("cpu.cfs_quota_us"),
                us.map_or("-1".into(), |us| us.to_string()),
            )
            .is_ok()
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            for _ in 0..100 {
                let inside = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                for pid in inside.lines() {
                    let _ = std::fs::write(folder.parent().unwrap().join("cgroup.procs"), pid);
                }
                if std::fs::remove_dir(folder).is_ok() || !folder.exists() {
                    break;
                }
                sleep(Duration::from_millis(20));
            }
        }
    }
}

/// The position of each thread of a process, and the load of the machine: these explain a hang.
pub fn stands(pid: u32) -> String {
    let read = |file: String| std::fs::read_to_string(file).unwrap_or_default();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut said = format!("load {}", read("/proc/loadavg".into()));
    for task in tasks.map(|task| task.path().display().to_string()) {
        let of = |file: &str| read(format!("{task}/{file}")).trim().to_owned();
        said += &format!("{}\n  ran and waited {}\n  {}\n", of("stat"), of("schedstat"), of("stack"));
    }
    said
}

/// What corun left behind for these processes below a cgroup.
pub fn left_of(folder: &Path, pids: &[u32]) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|t| t.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(corun_linux::naming::TRANSIENT_PREFIX)
            .and_then(|n| n.split('.').next()?.parse().ok());
        if owner.is_some_and(|pid: u32| pids.contains(&pid)) {
            left.push(entry.path());
        }
        left.extend(left_of(&entry.path(), pids));
    }
    left
}

/// The requested state of a task.
#[derive(Default)]
pub struct Asked {
    stopped: AtomicBool,
    frozen: AtomicBool,
    /// It was both at one instant, and has been at least one of them since. The kernel freezes a stopped task
    /// in place, without an event: until it runs again nobody can tell the two apart.
    both: AtomicBool,
    limited: AtomicBool,
    /// How often it was confined to CPUs.
    moves: AtomicU32,
}

impl Asked {
    fn settle(&self) {
        let is = [self.stopped.load(Relaxed), self.frozen.load(Relaxed)];
        let was_both = self.both.load(Relaxed);
        self.both.store(is == [true, true] || was_both && is.contains(&true), Relaxed);
    }
}

/// A busy task with a cgroup for its quota and one for its freezer.
pub struct Quarry {
    pub hog: Hog,
    quota: Folders,
    _freezer: Option<Folders>,
    /// The file that freezes, and the values that freeze and thaw.
    switch: (PathBuf, [&'static str; 2]),
    asked: Arc<Asked>,
    cpus: Vec<CpuId>,
    attributes: String,
}

impl Quarry {
    pub fn start(folder: &Path, cgroups: &Cgroups, number: usize) -> Result<Quarry, String> {
        let hog = Hog::start(folder, &format!("quarry-{number}"));
        let tree = cgroups.with_controller("cpu").ok_or("no cpu controller in any cgroup tree")?;
        if tree.is_v2() {
            let _ = std::fs::write(tree.mount.join("cgroup.subtree_control"), "+cpu");
        }
        let make = |mount: &Path, name: String| {
            Folders::make(mount, &name, 1).map_err(|e| format!("no cgroup can be made here: {e}"))
        };
        let quota = make(&tree.mount, format!("quota{number}"))?;
        if !quota.allow(None) {
            return Err("this kernel has no CPU quotas".into());
        }
        // The freezers of v1 and v2 alternate, if both exist. In a tree a process has one cgroup.
        let v1 = cgroups.with_controller("freezer").filter(|t| !t.is_v2());
        let v2 = cgroups.trees().iter().find(|t| t.is_v2());
        let (freezer, switch) = match (v1, v2) {
            (Some(v1), v2) if v2.is_none() || number.is_multiple_of(2) => {
                let freezer = make(&v1.mount, format!("freezer{number}"))?;
                let file = freezer.outer().join("freezer.state");
                (Some(freezer), (file, ["FROZEN", "THAWED"]))
            }
            (_, Some(_)) if tree.is_v2() => (None, (quota.outer().join("cgroup.freeze"), ["1", "0"])),
            (_, Some(v2)) => {
                let freezer = make(&v2.mount, format!("freezer{number}"))?;
                let file = freezer.outer().join("cgroup.freeze");
                (Some(freezer), (file, ["1", "0"]))
            }
            _ => return Err("no freezer in any cgroup tree".into()),
        };
        let pid = hog.0.id();
        if !quota.add(pid) || freezer.as_ref().is_some_and(|f| !f.add(pid)) {
            return Err("a process cannot be moved into a cgroup here".into());
        }
        let cpus = sched::affinity(pid).map_err(|e| e.to_string())?;
        let attributes = format!("{:?}", sched::attributes(pid).ok());
        Ok(Quarry { hog, quota, _freezer: freezer, switch, asked: Arc::default(), cpus, attributes })
    }

    pub fn pid(&self) -> u32 {
        self.hog.0.id()
    }

    /// What the witness looks at.
    pub fn seen(&self) -> Seen {
        let pid = self.pid();
        Seen {
            stat: format!("/proc/{pid}/stat").into(),
            runs: format!("/proc/{pid}/schedstat").into(),
            counter: self.quota.outer().join("cpu.stat"),
            asked: self.asked.clone(),
        }
    }

    fn stop(&mut self, is: bool) {
        signal(self.pid(), if is { libc::SIGSTOP } else { libc::SIGCONT });
        self.asked.stopped.store(is, Relaxed);
        self.asked.settle();
    }

    fn freeze(&mut self, is: bool) {
        let (file, [freeze, thaw]) = &self.switch;
        std::fs::write(file, if is { freeze } else { thaw }).unwrap();
        self.asked.frozen.store(is, Relaxed);
        self.asked.settle();
    }

    fn limit(&mut self, percent: Option<u64>) {
        self.quota.allow(percent);
        self.asked.limited.store(percent.is_some(), Relaxed);
    }

    fn confine(&mut self, cpus: Vec<CpuId>) {
        self.asked.moves.fetch_add(1, Relaxed);
        sched::set_affinity(self.pid(), Some(&cpus)).unwrap();
        self.cpus = cpus;
    }

    /// Changes something of it; says what.
    pub fn change(&mut self, chance: &mut Chance) -> String {
        let what = match chance.below(5) {
            0 | 1 => {
                let is = !self.asked.stopped.load(Relaxed);
                self.stop(is);
                format!("stopped: {is}")
            }
            2 => {
                let is = !self.asked.frozen.load(Relaxed);
                self.freeze(is);
                format!("frozen: {is}")
            }
            3 => {
                let percent = chance.of(&[None, Some(5), Some(20), Some(50)]);
                self.limit(percent);
                format!("may use per cent of a CPU: {percent:?}")
            }
            _ => {
                let all: Vec<CpuId> = (0..std::thread::available_parallelism().map_or(1, |n| n.get() as u32))
                    .map(CpuId)
                    .collect();
                let some: Vec<CpuId> = all.iter().copied().filter(|_| chance.below(2) == 0).collect();
                self.confine(if some.is_empty() { all } else { some });
                format!("on {:?}", self.cpus)
            }
        };
        format!("{} {what}", self.pid())
    }

    /// Removes everything that keeps it from running, but not the limits on where it may run.
    pub fn let_go(&mut self) {
        self.limit(None);
        self.freeze(false);
        self.stop(false);
    }

    /// Differences from the state in which this test left it.
    pub fn is_not_as_left(&self) -> Option<String> {
        let cpus = sched::affinity(self.pid()).ok()?;
        let attributes = format!("{:?}", sched::attributes(self.pid()).ok());
        let is = (cpus == self.cpus, attributes == self.attributes);
        (is != (true, true)).then(|| {
            format!("{}: {cpus:?} {attributes}, left as {:?} {}", self.pid(), self.cpus, self.attributes)
        })
    }
}

impl Drop for Quarry {
    fn drop(&mut self) {
        // Killed before its cgroups are removed, which comes next.
        self.let_go();
    }
}

/// A task at an instant.
#[derive(Clone, Copy)]
pub struct Sample {
    pub at_ns: u64,
    pub is_stopped: bool,
    pub is_frozen: bool,
    pub is_both: bool,
    /// It has a quota.
    pub is_limited: bool,
    /// How often it has been confined to CPUs so far.
    pub moves: u32,
    /// How often it has been given a CPU so far.
    pub runs: u64,
    /// The kernel's counts so far.
    pub throttled_ns: u64,
}

fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills in a structure of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// What the witness reads: the task's state, its quota's counters, and its requested state.
pub struct Seen {
    stat: PathBuf,
    runs: PathBuf,
    counter: PathBuf,
    asked: Arc<Asked>,
}

impl Seen {
    fn look(&self) -> Option<Sample> {
        let stat = std::fs::read_to_string(&self.stat).ok()?;
        let state = stat.rsplit(')').next()?.trim_start().chars().next()?;
        let runs = std::fs::read_to_string(&self.runs).ok()?;
        let runs = runs.split_whitespace().nth(2)?.parse().ok()?;
        let counter = std::fs::read_to_string(&self.counter).ok()?;
        let value = |name: &str| -> Option<u64> {
            counter.lines().find_map(|l| l.strip_prefix(name)?.trim().parse().ok())
        };
        let throttled_ns = value("throttled_time ").or_else(|| Some(value("throttled_usec ")? * 1000))?;
        Some(Sample {
            at_ns: now_ns(),
            is_stopped: "Tt".contains(state),
            // It never sleeps by itself.
            is_frozen: "DS".contains(state),
            is_both: self.asked.both.load(Relaxed),
            is_limited: self.asked.limited.load(Relaxed),
            moves: self.asked.moves.load(Relaxed),
            runs,
            throttled_ns,
        })
    }
}

/// Reads all of them every few milliseconds, with priority over everything else.
pub fn watch(all: &[Seen], samples: &Mutex<Vec<Vec<Sample>>>, goes_on: impl Fn() -> bool) {
    let _ = sched::set_nice(0, -19);
    while goes_on() {
        for (n, seen) in all.iter().enumerate() {
            if let Some(sample) = seen.look() {
                samples.lock().unwrap()[n].push(sample);
            }
        }
        sleep(STEP);
    }
}
