//! Processes that witness their own time on a CPU: ground truth that does not depend on the kernel's
//! accounts.
//!
//! A witness spins on the clock. If two readings are far apart, it asks the kernel how often it has been
//! switched out. If that has increased, it was off the CPU in between. Otherwise it, or the machine below it,
//! was interrupted (the probe counts that as its own time, too). It keeps its stretches in memory shared with
//! the test.

#![allow(dead_code, reason = "each test uses its own part")]

use std::sync::atomic::{AtomicU64, Ordering};

/// Longer gaps between two readings of the clock are checked: nothing can run in less time.
const GAP_NS: u64 = 1_000;
/// Stretches a witness can keep.
const ROOM: usize = 1 << 18;

#[repr(C)]
struct Shared {
    written: AtomicU64,
    /// Start and end of each stretch; the last one is open and its end moves on.
    stretches: [[AtomicU64; 2]; ROOM],
}

/// Confines a task to some CPUs; 0 is the calling thread.
pub fn confine(tid: i32, cpus: &[usize]) {
    // SAFETY: a zeroed set is valid; the call reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|&c| libc::CPU_SET(c, &mut set));
        libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// A process that spins and remembers when it ran. Dropping kills it.
pub struct Witness {
    pid: i32,
    shared: *const Shared,
}

impl Witness {
    /// Starts a witness in a process group of its own on the given CPUs.
    pub fn start(cpus: &[usize]) -> Witness {
        let bytes = size_of::<Shared>();
        // SAFETY: a fresh anonymous shared mapping; zeroed memory is a valid `Shared`.
        let shared = unsafe {
            let both = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let base = libc::mmap(std::ptr::null_mut(), bytes, both, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            base.cast::<Shared>().cast_const()
        };
        // SAFETY: the child calls only async-signal-safe functions and never returns.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: as above; the mapping is inherited.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::prctl(libc::PR_SET_NAME, c"witness".as_ptr());
                libc::setpgid(0, 0);
                testify(&*shared);
            }
        }
        // SAFETY: both sides set it, so that it is set whoever comes first.
        unsafe { libc::setpgid(pid, pid) };
        let witness = Witness { pid, shared };
        witness.pin(cpus);
        while witness.shared().written.load(Ordering::Acquire) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        witness
    }

    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    pub fn name(&self) -> String {
        format!("witness {}", self.pid)
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped until drop.
        unsafe { &*self.shared }
    }

    /// Confines it to some CPUs.
    pub fn pin(&self, cpus: &[usize]) {
        confine(self.pid, cpus);
    }

    /// Changes its weight.
    pub fn renice(&self, nice: i32) {
        // SAFETY: plain integers.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, self.pid as u32, nice) };
    }

    fn stretches(&self) -> Vec<(u64, u64)> {
        let n = (self.shared().written.load(Ordering::Acquire) as usize).min(ROOM);
        let read = |a: &AtomicU64| a.load(Ordering::Relaxed);
        self.shared().stretches[..n].iter().map(|s| (read(&s[0]), read(&s[1]))).collect()
    }

    /// When it was off the CPU inside a window.
    pub fn gaps_ns(&self, start_ns: u64, end_ns: u64) -> Vec<(u64, u64)> {
        let mut at = start_ns;
        let mut gaps = Vec::new();
        for (from, to) in self.stretches().into_iter().filter(|s| s.1 > start_ns && s.0 < end_ns) {
            if from > at {
                gaps.push((at, from));
            }
            at = to.max(at);
        }
        if at < end_ns {
            gaps.push((at, end_ns));
        }
        gaps
    }

    /// How long this witness ran during a victim's `waits`, counting only waits on its own CPU. `moves` says
    /// when the victim came to which CPU; this witness is pinned.
    pub fn overlap_ns(&self, waits: &[(u64, u64)], moves: &[(u64, usize)]) -> u64 {
        let cpu = self.cpu();
        let mut there: Vec<(u64, u64)> = Vec::new();
        for (i, &(from, at)) in moves.iter().enumerate() {
            if at == cpu {
                there.push((from, moves.get(i + 1).map_or(u64::MAX, |m| m.0)));
            }
        }
        let ran = self.stretches();
        let mut sum = 0;
        for &(a, b) in waits {
            for &(c, d) in there.iter().filter(|t| t.0 < b && t.1 > a) {
                let (lo, hi) = (a.max(c), b.min(d));
                let first = ran.partition_point(|s| s.1 <= lo);
                sum += ran[first..]
                    .iter()
                    .take_while(|s| s.0 < hi)
                    .map(|s| s.1.min(hi).saturating_sub(s.0.max(lo)))
                    .sum::<u64>();
            }
        }
        sum
    }

    fn cpu(&self) -> usize {
        // SAFETY: fills a set.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(self.pid, size_of::<libc::cpu_set_t>(), &mut set);
            (0..libc::CPU_SETSIZE as usize).find(|&c| libc::CPU_ISSET(c, &set)).unwrap_or(0)
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // SAFETY: our own child; then our own mapping.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
            libc::munmap(self.shared.cast_mut().cast(), size_of::<Shared>());
        }
    }
}

/// Spins and records when it ran, forever.
fn testify(shared: &Shared) -> ! {
    let mut at = 0;
    let mut counted = switches();
    let mut last = now_ns();
    shared.stretches[0][0].store(last, Ordering::Relaxed);
    shared.written.store(1, Ordering::Release);
    loop {
        let mut now = now_ns();
        if now - last > GAP_NS && at + 1 < ROOM {
            // A clock reading between two equal counts: the next round sees whatever happens after it.
            let mut seen = switches();
            loop {
                now = now_ns();
                let before = std::mem::replace(&mut seen, switches());
                if seen == before {
                    break;
                }
            }
            if seen != counted {
                counted = seen;
                at += 1;
                shared.stretches[at][0].store(now, Ordering::Relaxed);
                shared.stretches[at][1].store(now, Ordering::Relaxed);
                shared.written.store(at as u64 + 1, Ordering::Release);
            }
        }
        shared.stretches[at][1].store(now, Ordering::Relaxed);
        last = now;
    }
}

/// How often the calling thread has been switched out.
fn switches() -> i64 {
    // SAFETY: plain data, filled by the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nvcsw + usage.ru_nivcsw
    }
}

fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// While it lives, the calling thread runs at once when it wakes. So its actions and its records of them are
/// microseconds apart.
pub struct Prompt(());

impl Prompt {
    pub fn new() -> Prompt {
        set_policy(libc::SCHED_FIFO, 1);
        Prompt(())
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        set_policy(libc::SCHED_OTHER, 0);
    }
}

fn set_policy(policy: i32, priority: i32) {
    // SAFETY: a plain structure, read by the call; 0 is the calling thread.
    unsafe {
        let mut param: libc::sched_param = std::mem::zeroed();
        param.sched_priority = priority;
        libc::sched_setscheduler(0, policy, &param);
    }
}

/// A cgroup with a CPU quota, in whichever tree has the CPU controller. Removed when dropped.
pub struct QuotaCgroup {
    folder: std::path::PathBuf,
    parent: std::path::PathBuf,
}

impl QuotaCgroup {
    /// A cgroup that may use `cpus` CPUs; `None` if none can be made.
    pub fn new(name: &str, cpus: f64) -> Option<QuotaCgroup> {
        let cgroups = corun_linux::cgroup::Cgroups::discover(&corun_linux::Root::new("/")).ok()?;
        let tree = cgroups.with_controller("cpu")?;
        let parent = tree.mount.clone();
        let folder = parent.join(name);
        if tree.is_v2() {
            std::fs::write(parent.join("cgroup.subtree_control"), "+cpu").ok()?;
        }
        std::fs::create_dir_all(&folder).ok()?;
        let made = QuotaCgroup { folder, parent };
        made.allow(cpus).ok().map(|()| made)
    }

    /// Sets how many CPUs it may use.
    pub fn allow(&self, cpus: f64) -> std::io::Result<()> {
        let us = (cpus * 100_000.0) as u64;
        let v2 = self.folder.join("cpu.max");
        if v2.exists() {
            return std::fs::write(v2, format!("{us} 100000"));
        }
        std::fs::write(self.folder.join("cpu.cfs_quota_us"), us.to_string())
    }

    /// The same with periods of this many microseconds.
    pub fn allow_per_period(&self, cpus: f64, period_us: u64) -> std::io::Result<()> {
        let us = (cpus * period_us as f64) as u64;
        let v2 = self.folder.join("cpu.max");
        if v2.exists() {
            return std::fs::write(v2, format!("{us} {period_us}"));
        }
        std::fs::write(self.folder.join("cpu.cfs_period_us"), period_us.to_string())?;
        std::fs::write(self.folder.join("cpu.cfs_quota_us"), us.to_string())
    }

    fn counted(&self, name: &str) -> Option<u64> {
        let text = std::fs::read_to_string(self.folder.join("cpu.stat")).unwrap();
        text.lines().find_map(|l| l.strip_prefix(name)?.trim().parse().ok())
    }

    /// How long it was throttled according to the kernel, in nanoseconds. The kernel counts a spell when it
    /// ends.
    pub fn throttled_ns(&self) -> u64 {
        self.counted("throttled_time ").or(self.counted("throttled_usec ").map(|us| us * 1000)).unwrap()
    }

    /// In how many periods the kernel has refilled its quota after it was used up.
    pub fn refills(&self) -> u64 {
        self.counted("nr_throttled ").unwrap()
    }

    pub fn add(&self, pid: u32) {
        std::fs::write(self.folder.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for QuotaCgroup {
    fn drop(&mut self) {
        for pid in std::fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = std::fs::write(self.parent.join("cgroup.procs"), pid);
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}
