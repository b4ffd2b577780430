//! A soak: the sched_ext scheduler under one policy after the other, for the requested time, while tenants
//! come, fork, go and change their cgroups. It runs in the test guest, by `make soak`; by default for one
//! minute of the guest's clock.
//!
//! It counts **ejections** (the kernel removed the scheduler, or it gave up) and samples of the kernel's own
//! statement about its state. It also counts **stalls**: a task was runnable and not parked, but got no CPU
//! for longer than a slot. Waits come from the conserved ledger: consecutive windows that a task spent
//! waiting from end to end are a wait that is at least as long. A wait that reaches into the windows before
//! and after may be longer by the wait time in these. Both bounds of the longest are printed, and the lower
//! one is judged. Waits for the controller itself are left out: it is real-time while a tenant is parked, and
//! slow in this guest. A task with a higher nice value may wait longer in proportion to its smaller weight,
//! as under the kernel's own scheduler.
//!
//! Environment: `CORUN_SOAK_S` seconds of the guest's clock; `CORUN_SOAK_BACKEND=stock` for the same load and
//! policies under the kernel's own scheduler, which shows the scheduler's part of the result.

use corun_linux::backend::Backend;
use corun_linux::probe::LiveOptions;
use corun_linux::scx::ScxBackend;
use corun_linux::steered::SteeredHost;
use corun_linux::stock::{self, StockBackend};
use corun_linux::supervisor;
use corun_linux::target::Subject;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::Root;
use corun_model::observation::TaskObservation;
use corun_model::{Action, Host, Observation, Outcome, Policy, TaskId, TenantId};
use corun_policy::{by_name, Options};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PART: &str = "CORUN_TEST_PART";
const SLOT_NS: u64 = 100_000_000;
/// How long a policy is in force before the next one; less in a short soak, so that each has a turn.
const TURN: Duration = Duration::from_secs(20);
const MOST_TENANTS: usize = 6;

/// Not a test: this program as the supervisor, when the backend starts it as one.
#[test]
fn another_part() {
    if std::env::var(PART).as_deref() == Ok("supervisor") {
        let args: Vec<_> = std::env::args_os().collect();
        let code = supervisor::main(args[args.len() - supervisor::ARGUMENTS..].to_vec());
        std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
    }
}

/// The programs of tenants: computing, computing in two threads that wait for each other, forking, sleeping
/// between bursts.
const PROGRAMS: [(&str, &str); 4] = [
    ("loop", "while :; do :; done"),
    ("pair", "(while :; do :; done) & while :; do :; done"),
    ("forks", "while :; do (i=0; while [ $i -lt 200 ]; do i=$((i+1)); done); done"),
    ("bursts", "while :; do i=0; while [ $i -lt 300 ]; do i=$((i+1)); done; sleep 0.01; done"),
];

/// A tenant: a session of its own, possibly in a cgroup of its own. Dropping kills all of it.
struct Tenant {
    leader: Child,
    cgroup: Option<PathBuf>,
}

impl Tenant {
    fn start(number: u64, folder: &Path) -> Tenant {
        let (name, script) = PROGRAMS[(number % PROGRAMS.len() as u64) as usize];
        let program = folder.join(format!("soak-{name}"));
        if !program.exists() {
            std::fs::copy("/bin/busybox", &program).unwrap();
        }
        let mut command = Command::new(&program);
        command.arg0("sh").args(["-c", script]).stdin(Stdio::null());
        // SAFETY: setsid is one system call.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                Ok(())
            })
        };
        let leader = command.spawn().unwrap();
        let mut tenant = Tenant { leader, cgroup: None };
        if number % 3 == 1 {
            tenant.enter_cgroup(number);
        }
        tenant
    }

    /// Moves it to a new cgroup, out of its present one.
    fn enter_cgroup(&mut self, number: u64) {
        let cgroup = PathBuf::from(format!("/sys/fs/cgroup/soak-{number}"));
        std::fs::create_dir(&cgroup).unwrap();
        for pid in self.processes() {
            // It may have ended by now.
            let _ = std::fs::write(cgroup.join("cgroup.procs"), pid.to_string());
        }
        let _ = std::fs::write(cgroup.join("cpu.weight"), (50 + number % 200).to_string());
        if let Some(old) = self.cgroup.replace(cgroup) {
            let _ = std::fs::remove_dir(old);
        }
    }

    fn processes(&self) -> Vec<u32> {
        let root = Root::new("/");
        corun_linux::procfs::with_descendants(&root, &[self.leader.id()]).unwrap_or_default()
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        // SAFETY: a signal to the process group of a child of ours that has not been waited for.
        unsafe { libc::kill(-(self.leader.id() as i32), libc::SIGKILL) };
        let _ = self.leader.wait();
        if let Some(cgroup) = &self.cgroup {
            for _ in 0..100 {
                if std::fs::remove_dir(cgroup).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// How long each task has been waiting, according to the ledgers of the windows so far.
#[derive(Default)]
struct Waits {
    /// For each waiting task: whole windows, and the possible addition from the window before them.
    open: BTreeMap<TaskId, (u64, u64)>,
    longest: (u64, u64, String),
    /// By name: the number, and the longest.
    stalls: BTreeMap<String, (u64, u64)>,
    /// Sessions of the tenants that are parked, or were in the last window. A command that a parked shell has
    /// started is parked with it, but has another name.
    parked: BTreeMap<u32, bool>,
}

/// The session of a task; 0 if it has ended.
fn session(task: TaskId) -> u32 {
    corun_linux::procfs::process_stat(&Root::new("/"), task.0).map_or(0, |stat| stat.sid)
}

/// How long a task may wait: a slot, extended by the ratio of its weight to that of nice 0, a factor of 1.25
/// per step.
fn longest_fair_ns(task: TaskId) -> u64 {
    // SAFETY: a question about a number; -1, for a task that has ended, is a nice value that changes nothing.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, task.0) };
    (0..nice).fold(SLOT_NS, |ns, _| ns * 5 / 4)
}

/// The tasks that had the CPU for which a task waited, and for how many ms.
fn culprits(seen: &Observation, t: &TaskObservation) -> String {
    let name = |id| seen.tenants.iter().find(|t| t.id == id).map_or("?", |t| &t.name);
    let shares = t.account.culprits.largest_first().into_iter();
    let told: Vec<String> =
        shares.map(|s| format!("{} {}", name(s.tenant), s.steal_ns / 1_000_000)).collect();
    told.join(", ")
}

impl Waits {
    /// Notes which tenants are parked from now on.
    fn parked(&mut self, seen: &Observation, tenants: &[TenantId]) {
        self.parked.retain(|_, still| std::mem::replace(still, false));
        for t in seen.tasks.iter().filter(|t| t.alive && tenants.contains(&t.tenant)) {
            self.parked.insert(session(t.id), true);
        }
    }

    fn push(&mut self, seen: &Observation, policy: &str) {
        let mut open = BTreeMap::new();
        let me = seen.tasks.iter().find(|t| t.id == TaskId(std::process::id())).map(|t| t.tenant);
        for t in seen.tasks.iter().filter(|t| t.alive) {
            let parts = t.account.ledger.parts();
            let waits_throughout = parts.steal_ns > 0
                && parts.parked_ns == 0
                && parts.block_ns == 0
                && t.account.ledger.on_cpu_ns() == 0
                && !self.parked.contains_key(&session(t.id));
            let mine_ns = me.map_or(0, |me| t.account.culprits.of_ns(me));
            let steal_ns = parts.steal_ns - mine_ns;
            let (whole, before) = self.open.get(&t.id).copied().unwrap_or((0, 0));
            if waits_throughout {
                if whole <= longest_fair_ns(t.id) && whole + steal_ns > longest_fair_ns(t.id) {
                    println!("{policy}: {} waits for {}", t.name, culprits(seen, t));
                }
                open.insert(t.id, (whole + steal_ns, before));
            } else {
                if whole > self.longest.0 {
                    self.longest = (whole, before + whole + steal_ns, t.name.to_string());
                }
                if whole > SLOT_NS && whole > longest_fair_ns(t.id) {
                    let (n, longest_ns) = self.stalls.entry(t.name.to_string()).or_default();
                    (*n, *longest_ns) = (*n + 1, whole.max(*longest_ns));
                }
                // The waits of a parked task cannot be separated from being parked.
                open.insert(t.id, (0, if parts.parked_ns == 0 { steal_ns } else { 0 }));
            }
        }
        self.open = open;
    }
}

/// The backend of the policies: corun's scheduler, or stock knobs above the kernel's own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    SchedExt,
    Stock,
}

impl By {
    fn asked() -> By {
        match std::env::var("CORUN_SOAK_BACKEND").as_deref() {
            Err(_) | Ok("sched_ext") => By::SchedExt,
            Ok("stock") => By::Stock,
            Ok(other) => panic!("CORUN_SOAK_BACKEND is sched_ext or stock, not {other}"),
        }
    }
}

fn kernel_says() -> String {
    std::fs::read_to_string("/sys/kernel/sched_ext/state").unwrap_or_default().trim().to_owned()
}

fn policies() -> Vec<(&'static str, Options)> {
    let slots = || Options::new().set("slot", "100ms");
    vec![
        ("auto", slots()),
        ("gang", slots()),
        ("delayed_preemption", Options::new()),
        ("controlled_contention", slots().set("dc", "auto")),
        ("differential", Options::new()),
        ("paired_gang", slots()),
        ("delayed_preemption", Options::new().set("delay", "8ms")),
        ("observe", Options::new()),
    ]
}

fn host(by: By, folder: &Path) -> SteeredHost {
    let me = std::env::current_exe().unwrap();
    let args = [format!("{PART}=supervisor"), me.display().to_string()];
    let args = args.into_iter().chain(["--exact", "another_part", "--nocapture"].map(str::to_owned));
    let supervisor = supervisor::Options {
        folder: folder.join("journal"),
        program: PathBuf::from("/usr/bin/env"),
        args: args.map(Into::into).collect(),
        ..supervisor::Options::default()
    };
    let names = PROGRAMS.iter().map(|(name, _)| format!("soak-{name}"));
    let groups = (0..100_000).map(|n| format!("soak-{n}"));
    let scope = stock::Scope::Only(names.chain(groups).collect());
    let options = stock::Options { scope, supervisor, ..stock::Options::default() };
    let root = Root::new("/");
    let backend: Box<dyn Backend> = match by {
        By::SchedExt => Box::new(ScxBackend::start(&root, options).unwrap_or_else(|e| panic!("{e}"))),
        By::Stock => Box::new(StockBackend::new(&root, options)),
    };
    let (watcher, _) = Watcher::start(&root, LiveOptions::new(Subject::All), Some(Source::Ebpf)).unwrap();
    SteeredHost::new(watcher, backend)
}

#[test]
fn nothing_is_ejected_and_nobody_stalls_while_tenants_come_and_go() {
    if std::env::var_os("CORUN_GUEST").is_none() {
        println!("not here: the soak runs in the test guest (make soak)");
        return;
    }
    let seconds: u64 =
        std::env::var("CORUN_SOAK_S").map_or(60, |s| s.parse().expect("CORUN_SOAK_S in seconds"));
    let by = By::asked();
    let folder = tempfile::tempdir().unwrap();
    let mut host = host(by, folder.path());
    let begin = Instant::now();
    let mut tenants: Vec<Tenant> = (0..3).map(|n| Tenant::start(n, folder.path())).collect();
    let (mut started, mut ended, mut moved, mut ejections, mut done, mut not_done) =
        (3, 0, 0, 0, 0u64, BTreeMap::new());
    let (mut samples, mut not_enabled) = (0u64, 0u64);
    let mut waits = Waits::default();
    let mut turn = 0;
    let mut loaded = by == By::SchedExt;
    let mut told = 0;
    let most = policies().len();
    let length = TURN.min(Duration::from_secs(seconds) / most as u32);
    'all: while begin.elapsed().as_secs() < seconds {
        let (name, options) = policies().swap_remove(turn % most);
        turn += 1;
        let mut policy: Box<dyn Policy> = by_name(name, &options).unwrap();
        let until = Instant::now() + length;
        while Instant::now() < until {
            if let Err(e) = host.advance(policy.epoch_ns().clamp(SLOT_NS / 2, SLOT_NS)) {
                println!("ejected under {name}: {e}");
                ejections += 1;
                break 'all;
            }
            let seen = host.observe().unwrap_or_else(|e| panic!("under {name}: {e}"));
            waits.push(&seen, name);
            samples += 1;
            not_enabled += u64::from(loaded && kernel_says() != "enabled");
            for decision in policy.decide(host.machine(), &seen) {
                match host.apply(&decision.action) {
                    Outcome::Done => {
                        done += 1;
                        loaded = by == By::SchedExt;
                    }
                    Outcome::Refused { why } | Outcome::Unsupported { why } => {
                        // A task that has ended since is refused, which is fine.
                        *not_done.entry(why.name()).or_insert(0u64) += 1;
                    }
                }
            }
            waits.parked(&seen, &host.parked());
            // A tenant comes, goes, or moves, about every second.
            if samples % 11 == 0 {
                match samples / 11 % 3 {
                    0 if tenants.len() < MOST_TENANTS => {
                        tenants.push(Tenant::start(started, folder.path()));
                        started += 1;
                    }
                    1 if tenants.len() > 1 => {
                        drop(tenants.remove((samples / 11) as usize % tenants.len()));
                        ended += 1;
                    }
                    _ => {
                        let at = samples as usize % tenants.len();
                        tenants[at].enter_cgroup(10_000 + moved);
                        moved += 1;
                    }
                }
            }
        }
        for tenant in host.parked() {
            host.apply(&Action::Unpark { tenant });
        }
        if turn % most == 0 {
            // The first decision after this loads the scheduler again.
            host.undo_all().unwrap();
            loaded = false;
        }
        if begin.elapsed().as_secs() / 300 > told {
            told = begin.elapsed().as_secs() / 300;
            println!(
                "{} s, {turn} turns, {samples} windows, stalls {:?}, longest wait {:?}",
                begin.elapsed().as_secs(),
                waits.stalls,
                waits.longest
            );
        }
    }
    drop(host);
    println!(
        "{} s: {turn} turns of policies, {samples} windows, {done} decisions carried out, not carried out {not_done:?}; \
         tenants: {started} started, {ended} ended, {moved} moved to another cgroup; {ejections} ejections, the kernel said \
         something other than `enabled` in {not_enabled} of {samples} samples; stalls over {} ms and their longest, ns: {:?}; longest \
         wait {} to {} ms ({})",
        begin.elapsed().as_secs(),
        SLOT_NS / 1_000_000,
        waits.stalls,
        waits.longest.0 / 1_000_000,
        waits.longest.1 / 1_000_000,
        waits.longest.2
    );
    drop(tenants);
    assert_eq!((ejections, not_enabled, waits.stalls.len()), (0, 0, 0));
    assert_eq!(kernel_says(), "disabled");
    assert!(done > 0 && ended > 0 && moved > 0, "the soak must soak");
}
