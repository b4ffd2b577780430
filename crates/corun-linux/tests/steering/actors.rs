//! Test processes whose progress can be read, and this test program again in another role.
//!
//! Only processes started here are ever parked or changed.

use corun_linux::stock::{Options, Scope, StockBackend};
use corun_linux::{procfs, sched, supervisor, Root};
use corun_model::ledger::Parts;
use corun_model::observation::{Account, TaskObservation, TenantObservation};
use corun_model::{Ledger, Observation, TaskId, Tenant, TenantId, TenantKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The role that this program plays when it is started again.
pub const PART: &str = "CORUN_TEST_PART";

/// What a test process does.
#[derive(Clone, Copy, PartialEq)]
pub enum Act {
    /// Counts as fast as it can.
    Spin,
    /// Starts a child that counts for a while, waits for it, and again.
    Fork,
    /// Counts until it gets the request; from then on a child named `server`, in a process group of its own,
    /// counts.
    Found,
    /// Lets a thread count and ends its own: the process goes on without its first thread.
    Leaderless,
}

/// A count that is a request.
const FOUNDS: u64 = 1 << 62;

/// Processes in a process group of their own that count. Dropping kills them.
pub struct Actors {
    /// 0 once it was killed: then the number may belong to somebody else.
    pids: Vec<AtomicI32>,
    counts: &'static [AtomicU64; ROOM],
}

const ROOM: usize = 512;

impl Actors {
    pub fn spinning(n: usize) -> Actors {
        Actors::start(&vec![Act::Spin; n], false)
    }

    /// Starts processes; on request in a session of their own, and so in an autogroup of their own.
    pub fn start(acts: &[Act], session: bool) -> Actors {
        // SAFETY: a fresh anonymous shared mapping that is never unmapped; zeroed memory is valid counts.
        let counts = unsafe {
            let both = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            let bytes = size_of::<[AtomicU64; ROOM]>();
            let base = libc::mmap(std::ptr::null_mut(), bytes, both, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            &*base.cast::<[AtomicU64; ROOM]>()
        };
        let mut actors = Actors { pids: Vec::new(), counts };
        assert!(acts.len() <= ROOM && (!session || acts.len() == 1));
        for (at, act) in acts.iter().enumerate() {
            let leader = actors.pids.first().map_or(0, |p| p.load(Ordering::Relaxed));
            // SAFETY: the child calls only async-signal-safe functions and never returns; the mapping is inherited.
            let pid = unsafe {
                match libc::fork() {
                    0 => {
                        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                        libc::prctl(libc::PR_SET_NAME, c"actor".as_ptr());
                        match session {
                            true => drop(libc::setsid()),
                            false => drop(libc::setpgid(0, leader)),
                        }
                        play(*act, &counts[at])
                    }
                    pid => pid,
                }
            };
            assert!(pid > 0);
            if !session {
                // SAFETY: both sides set it, so that it is set whoever comes first.
                unsafe { libc::setpgid(pid, leader) };
            }
            actors.pids.push(AtomicI32::new(pid));
        }
        let all_started = || (0..acts.len()).all(|at| actors.count(at) > 0);
        assert!(eventually(Duration::from_secs(20), all_started), "the actors did not start");
        actors
    }

    pub fn pids(&self) -> Vec<u32> {
        self.pids.iter().map(|p| p.load(Ordering::Relaxed) as u32).collect()
    }

    fn count(&self, at: usize) -> u64 {
        self.counts[at].load(Ordering::Relaxed)
    }

    /// What each has counted so far.
    pub fn counts(&self) -> Vec<u64> {
        (0..self.pids.len()).map(|at| self.count(at)).collect()
    }

    /// Makes one of them start its server, and returns the server's process.
    pub fn found(&self, at: usize) -> u32 {
        self.counts[at].store(FOUNDS, Ordering::Relaxed);
        assert!(eventually(Duration::from_secs(20), || self.count(at) < FOUNDS), "no server was started");
        let founder = self.pids()[at];
        let family = procfs::with_descendants(&Root::new("/"), &[founder]).unwrap();
        family.into_iter().find(|pid| *pid != founder).expect("it has a child")
    }

    /// Whether every one of them keeps counting.
    pub fn run(&self, patience: Duration) -> bool {
        let before = self.counts();
        eventually(patience, || self.counts().iter().zip(&before).all(|(now, was)| now > was))
    }

    /// Whether all stand still for `time`.
    pub fn stand_still(&self, time: Duration) -> bool {
        let before = self.counts();
        std::thread::sleep(time);
        self.counts() == before
    }

    pub fn kill(&self, at: usize) {
        let pid = self.pids[at].swap(0, Ordering::Relaxed);
        if pid > 0 {
            // SAFETY: kill and waitpid of our own child, which nobody has collected yet.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

impl Drop for Actors {
    fn drop(&mut self) {
        for at in 0..self.pids.len() {
            self.kill(at);
        }
    }
}

/// Runs in a forked child: no allocation, no lock.
fn play(act: Act, count: &AtomicU64) -> ! {
    loop {
        match act {
            Act::Spin => {
                count.fetch_add(1, Ordering::Relaxed);
            }
            // SAFETY: all of these are async-signal-safe.
            Act::Found if count.fetch_add(1, Ordering::Relaxed) >= FOUNDS => unsafe {
                if libc::fork() > 0 {
                    libc::pause();
                }
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::prctl(libc::PR_SET_NAME, c"server".as_ptr());
                libc::setpgid(0, 0);
                count.store(1, Ordering::Relaxed);
            },
            Act::Found => {}
            // SAFETY: mmap, clone and exit are system calls; the thread runs on memory of its own that is never unmapped.
            Act::Leaderless => unsafe {
                let (both, size) = (libc::PROT_READ | libc::PROT_WRITE, 64 << 10);
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let stack = libc::mmap(std::ptr::null_mut(), size, both, flags, -1, 0);
                let thread = libc::CLONE_VM
                    | libc::CLONE_FS
                    | libc::CLONE_FILES
                    | libc::CLONE_SIGHAND
                    | libc::CLONE_THREAD;
                libc::clone(go_on, stack.byte_add(size), thread, (&raw const *count).cast_mut().cast());
                libc::syscall(libc::SYS_exit, 0);
            },
            // SAFETY: fork, waitpid and _exit are async-signal-safe, and so is all that the child does.
            Act::Fork => unsafe {
                match libc::fork() {
                    0 => {
                        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                        for _ in 0..100_000 {
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        libc::_exit(0)
                    }
                    child => libc::waitpid(child, std::ptr::null_mut(), 0),
                };
            },
        }
    }
}

/// A thread that counts.
extern "C" fn go_on(count: *mut libc::c_void) -> i32 {
    // SAFETY: `play` passes a count that is never unmapped; prctl takes integers.
    let count = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        &*count.cast::<AtomicU64>()
    };
    play(Act::Spin, count)
}

/// Whether something becomes true in time.
pub fn eventually(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + patience;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// An observation that names these processes with all their tasks, as tenants 1, 2…
pub fn seen(tenants: &[&[u32]]) -> Observation {
    let root = Root::new("/");
    let mut seen = Observation { end_ns: 1, ..Observation::default() };
    for (n, pids) in tenants.iter().enumerate() {
        let id = TenantId(n as u32 + 1);
        let key = format!("pgid:{}", pids.first().copied().unwrap_or(0));
        seen.tenants.push(Tenant { id, kind: TenantKind::Command, key, name: format!("actors {}", id.0) });
        let parts = Parts { compute_ns: 1, ..Parts::default() };
        let account = Account { ledger: Ledger::new(parts, 1).unwrap(), ..Account::default() };
        let tids = pids.iter().flat_map(|&pid| procfs::tasks(&root, pid).unwrap_or_default());
        seen.tasks.extend(tids.map(|tid| TaskObservation {
            id: TaskId(tid),
            name: "actor".into(),
            tenant: id,
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: account.clone().into(),
        }));
        seen.by_tenant.push(TenantObservation { id, tasks: pids.len() as u64, account });
    }
    seen.tasks.sort_by_key(|t| t.id);
    seen
}

/// A supervisor that is this program again, with its journal in `folder`.
pub fn supervised_in(folder: &Path) -> supervisor::Options {
    let me = std::env::current_exe().unwrap();
    let args = [format!("{PART}=supervisor"), me.display().to_string()];
    let args = args.into_iter().chain(["--exact", "another_part", "--nocapture"].map(str::to_owned));
    supervisor::Options {
        folder: folder.join("corun"),
        program: PathBuf::from("/usr/bin/env"),
        args: args.map(Into::into).collect(),
        ..supervisor::Options::default()
    }
}

/// A backend that may touch nobody but these processes.
pub fn backend(folder: &Path, pids: &[u32]) -> StockBackend {
    StockBackend::new(&Root::new("/"), options(folder, pids))
}

pub fn options(folder: &Path, pids: &[u32]) -> Options {
    let scope = Scope::Only(pids.iter().map(u32::to_string).collect());
    Options { scope, supervisor: supervised_in(folder), ..Options::default() }
}

/// Starts this program in another part.
pub fn start(part: &str, environment: &[(&str, String)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "another_part", "--nocapture"]).env(PART, part).stdin(Stdio::null());
    command.envs(environment.iter().map(|(k, v)| (k, v))).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Everything that may be changed in a process: its v2 cgroup, and policy, nice, slice and CPUs of every
/// task.
pub fn state_of(pids: &[u32]) -> Vec<String> {
    let root = Root::new("/");
    let mut state = Vec::new();
    for &pid in pids {
        let cgroups = root.read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        state.push(cgroups.lines().find(|l| l.starts_with("0::")).unwrap_or_default().to_owned());
        for tid in procfs::tasks(&root, pid).unwrap_or_default() {
            state.push(format!("{tid} {:?} {:?}", sched::attributes(tid).ok(), sched::affinity(tid).ok()));
        }
    }
    state
}

/// The mount point of the v2 tree, if transient cgroups can be made in it.
pub fn v2_mount() -> Option<PathBuf> {
    let cgroups = corun_linux::cgroup::Cgroups::discover(&Root::new("/")).ok()?;
    let mount = cgroups.v2()?.mount.clone();
    let probe = mount.join(format!("corun-test.{}", std::process::id()));
    std::fs::create_dir(&probe).ok()?;
    std::fs::remove_dir(&probe).ok()?;
    Some(mount)
}

/// Transient cgroups made by a process.
pub fn transients_of(pid: u32) -> Vec<PathBuf> {
    let start = format!("corun-park.{pid}.");
    let all = v2_mount().map(|mount| supervisor::restoring::stray_transients(&mount)).unwrap_or_default();
    all.into_iter().filter(|t| t.file_name().unwrap().to_string_lossy().starts_with(&start)).collect()
}
