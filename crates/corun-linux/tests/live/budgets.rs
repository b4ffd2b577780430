//! Everything that keeps a task from running and is no neighbor: its budget, a signal, a tracer, a freezer.
//! Each is a category of its own, whether it began before or after corun started to watch, and nobody is
//! blamed for it.
//!
//! The test knows the truth: the size of the budget, or how long it stopped the task.

use super::*;
use corun_linux::cgroup::Cgroups;
use corun_model::ledger::{Held, Parts};
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;

/// What keeps the task from running, and the name of that category.
struct Case {
    name: &'static str,
    make: fn(&Witness) -> Result<Kept, String>,
    part: fn(&Parts) -> u64,
}

/// How it is kept from running.
enum Kept {
    /// A budget of this share of a CPU.
    Budget { share: f64, _folders: Folders },
    /// Holding and releasing in turns.
    InTurns { hold: Turn, release: Turn, _folders: Folders },
}

type Turn = Box<dyn Fn()>;

const TABLE: &[Case] = &[
    Case { name: "a quota", make: quota, part: throttled },
    Case { name: "a quota of the cgroup above", make: quota_above, part: throttled },
    Case { name: "a quota that others have used up", make: quota_of_several, part: throttled },
    Case { name: "a real-time group's runtime", make: real_time_group, part: throttled },
    Case { name: "a deadline's runtime", make: deadline, part: throttled },
    Case { name: "signals", make: signals, part: stopped },
    Case { name: "signals, under a quota", make: signals_under_a_quota, part: stopped },
    Case { name: "a tracer", make: tracer, part: stopped },
    Case { name: "the v1 freezer", make: freezer_v1, part: frozen },
    Case { name: "the v2 freezer", make: freezer_v2, part: frozen },
];

fn throttled(parts: &Parts) -> u64 {
    parts.throttled_ns
}

fn stopped(parts: &Parts) -> u64 {
    parts.held.unwrap().stopped_ns
}

fn frozen(parts: &Parts) -> u64 {
    parts.held.unwrap().frozen_ns
}

#[test]
fn whatever_keeps_a_task_from_running_has_its_category_and_no_culprit() {
    let _alone = alone();
    for case in TABLE {
        for is_made_before in [true, false] {
            if let Err(why) = try_case(case, is_made_before) {
                println!("skipped: {}: {why}", case.name);
            }
        }
    }
}

fn try_case(case: &Case, is_made_before: bool) -> Result<(), String> {
    let cpus: Vec<usize> = (0..allowed_cpus()).collect();
    let task = Witness::start(&cpus);
    let mut kept = if is_made_before { Some((case.make)(&task)?) } else { None };
    if let Some(made) = &kept {
        spend(made, Duration::from_millis(400));
    }
    // The window is closed while the task is held.
    if let Some(Kept::InTurns { hold, .. }) = &kept {
        hold();
    }
    let started = host(processes(&[task.pid()]));
    if let Some(Kept::InTurns { release, .. }) = &kept {
        release();
    }
    let mut host = started.ok_or("no eBPF")?;
    let made = match &kept {
        Some(made) => made,
        None => kept.insert((case.make)(&task)?),
    };
    see(&mut host, 30);
    let idle = idle_ticks();
    let expected_ns = spend(made, Duration::from_millis(1200));
    let is_quiet = idle_ticks() - idle > 70 * allowed_cpus() as u64;
    let seen = see(&mut host, 1);
    let account = &tenant(&seen, host.subject().unwrap()).account;
    let parts = *account.ledger.parts();
    let life_ns = account.ledger.total_ns() as f64;
    let (is, truth) = ((case.part)(&parts) as f64 / life_ns, expected_ns as f64 / life_ns);
    let steal = parts.steal_ns as f64 / life_ns;
    println!("{}, made before: {is_made_before}: {is:.3}, truth {truth:.3}, stolen {steal:.3}", case.name);
    // A task with a budget of the real-time classes goes before all others: nobody can make it wait.
    let is_fair = corun_linux::sched::attributes(task.pid()).unwrap().policy == libc::SCHED_OTHER as u32;
    drop(task);
    if is_fair && steal > 0.1 && !is_quiet {
        return Err("the machine is too busy".into());
    }
    let tolerance = if is_fair { 0.12 } else { 0.04 };
    assert!((is - truth).abs() < tolerance, "{}: {is:.3}, not {truth:.3}: {parts:?}", case.name);
    assert!(steal < 0.1, "{}: {steal:.3} is blamed on somebody: {:?}", case.name, account.culprits);
    Ok(())
}

/// Lets time pass; returns how long the task was kept from running meanwhile, in nanoseconds.
fn spend(kept: &Kept, time: Duration) -> u64 {
    let began = Instant::now();
    match kept {
        Kept::Budget { share, .. } => {
            sleep(time);
            ((1.0 - share) * began.elapsed().as_nanos() as f64) as u64
        }
        Kept::InTurns { hold, release, .. } => {
            let mut held = Duration::ZERO;
            while began.elapsed() < time {
                let from = Instant::now();
                hold();
                sleep(Duration::from_millis(60));
                release();
                held += from.elapsed();
                sleep(Duration::from_millis(20));
            }
            held.as_nanos() as u64
        }
    }
}

/// How long the CPUs were idle since they were switched on, in total, in hundredths of a second.
fn idle_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    stat.split_whitespace().nth(4).unwrap().parse().unwrap()
}

fn allowed_cpus() -> usize {
    corun_linux::topology::read_machine(&Root::new("/")).unwrap().cpu_count()
}

/// Cgroups, the outer ones first. Processes that are still in them are moved up when they are dropped.
#[derive(Default)]
struct Folders(Vec<PathBuf>);

impl Folders {
    /// A cgroup with this controller, and one in it.
    fn with(controller: &str, inner: bool) -> Result<Folders, String> {
        let cgroups = Cgroups::discover(&Root::new("/")).map_err(|e| e.to_string())?;
        let tree = cgroups.with_controller(controller).ok_or(format!("no {controller} controller"))?;
        if tree.is_v2() {
            write(&tree.mount.join("cgroup.subtree_control"), &format!("+{controller}"))?;
        }
        Folders::under(&tree.mount, inner)
    }

    fn under(mount: &std::path::Path, inner: bool) -> Result<Folders, String> {
        let outer = mount.join(format!("corun-test-budgets-{}", std::process::id()));
        let mut all = Folders::default();
        for folder in [Some(outer.clone()), inner.then(|| outer.join("inner"))].into_iter().flatten() {
            fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
            all.0.push(folder);
        }
        Ok(all)
    }

    fn outer(&self) -> &PathBuf {
        &self.0[0]
    }

    fn add(&self, pid: u32) -> Result<(), String> {
        write(&self.0[self.0.len() - 1].join("cgroup.procs"), &pid.to_string())
    }

    /// Allows the outer one a share of a CPU.
    fn allow(&self, share: f64) -> Result<(), String> {
        let us = (share * 100_000.0) as u64;
        let v2 = self.outer().join("cpu.max");
        if v2.exists() {
            return write(&v2, &format!("{us} 100000"));
        }
        write(&self.outer().join("cpu.cfs_quota_us"), &us.to_string())
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            for _ in 0..50 {
                let left = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                left.lines().for_each(|pid| {
                    let _ = fs::write(folder.parent().unwrap().join("cgroup.procs"), pid);
                });
                if fs::remove_dir(folder).is_ok() || !folder.exists() {
                    break;
                }
                sleep(Duration::from_millis(20));
            }
        }
    }
}

fn write(file: &std::path::Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

fn limited(task: &Witness, inner: bool, share: f64) -> Result<Folders, String> {
    let folders = Folders::with("cpu", inner)?;
    folders.allow(share)?;
    folders.add(task.pid())?;
    Ok(folders)
}

fn quota(task: &Witness) -> Result<Kept, String> {
    Ok(Kept::Budget { share: 0.1, _folders: limited(task, false, 0.1)? })
}

fn quota_above(task: &Witness) -> Result<Kept, String> {
    Ok(Kept::Budget { share: 0.1, _folders: limited(task, true, 0.1)? })
}

/// Moved into a cgroup whose quota is used up already.
fn quota_of_several(task: &Witness) -> Result<Kept, String> {
    let cpus: Vec<usize> = (0..allowed_cpus()).collect();
    let other = Witness::start(&cpus);
    let folders = limited(&other, false, 0.1)?;
    sleep(Duration::from_millis(150));
    folders.add(task.pid())?;
    sleep(Duration::from_millis(150));
    Ok(Kept::Budget { share: 0.1, _folders: folders })
}

fn real_time_group(task: &Witness) -> Result<Kept, String> {
    let folders = Folders::with("cpu", false)?;
    // Their real-time tasks have no budget of their own if the kernel has no groups of them.
    write(&folders.outer().join("cpu.rt_period_us"), "200000")?;
    write(&folders.outer().join("cpu.rt_runtime_us"), "20000")?;
    folders.add(task.pid())?;
    let mut attr = SchedAttr { size: size_of::<SchedAttr>() as u32, ..SchedAttr::default() };
    (attr.policy, attr.priority) = (libc::SCHED_FIFO as u32, 10);
    task.pin(&[0]);
    attr.set(task.pid())?;
    Ok(Kept::Budget { share: 0.1, _folders: folders })
}

fn deadline(task: &Witness) -> Result<Kept, String> {
    let mut attr = SchedAttr { size: size_of::<SchedAttr>() as u32, ..SchedAttr::default() };
    (attr.policy, attr.runtime, attr.deadline, attr.period) = (6, 10_000_000, 100_000_000, 100_000_000);
    attr.set(task.pid())?;
    Ok(Kept::Budget { share: 0.1, _folders: Folders::default() })
}

#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

impl SchedAttr {
    fn set(&self, pid: u32) -> Result<(), String> {
        // SAFETY: a structure that says its own size, read by the call.
        let rc = unsafe { libc::syscall(libc::SYS_sched_setattr, pid, std::ptr::from_ref(self), 0) };
        if rc == 0 {
            Ok(())
        } else {
            Err(format!("sched_setattr: {}", std::io::Error::last_os_error()))
        }
    }
}

fn in_turns(hold: Turn, release: Turn, folders: Folders) -> Kept {
    Kept::InTurns { hold, release, _folders: folders }
}

fn signal(pid: u32, number: i32) -> Turn {
    // SAFETY: plain numbers; the test started the process.
    Box::new(move || assert_eq!(unsafe { libc::kill(pid as i32, number) }, 0))
}

fn signals(task: &Witness) -> Result<Kept, String> {
    let pid = task.pid();
    Ok(in_turns(signal(pid, libc::SIGSTOP), signal(pid, libc::SIGCONT), Folders::default()))
}

fn signals_under_a_quota(task: &Witness) -> Result<Kept, String> {
    let pid = task.pid();
    let folders = limited(task, false, 0.5)?;
    Ok(in_turns(signal(pid, libc::SIGSTOP), signal(pid, libc::SIGCONT), folders))
}

fn tracer(task: &Witness) -> Result<Kept, String> {
    let pid = task.pid() as i32;
    // SAFETY: the process is a child of this thread, which traces it from now on and waits for each stop.
    let ask = move |what: libc::c_uint| unsafe { libc::ptrace(what, pid, 0, 0) };
    if ask(libc::PTRACE_SEIZE) != 0 {
        return Err(format!("ptrace: {}", std::io::Error::last_os_error()));
    }
    let hold = move || {
        assert_eq!(ask(libc::PTRACE_INTERRUPT), 0);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) }, pid);
    };
    let release = move || assert_eq!(ask(libc::PTRACE_CONT), 0);
    Ok(in_turns(Box::new(hold), Box::new(release), Folders::default()))
}

fn freezer(
    folders: Folders,
    task: &Witness,
    file: &str,
    [freeze, thaw]: [&'static str; 2],
) -> Result<Kept, String> {
    let file = folders.outer().join(file);
    write(&file, thaw)?;
    folders.add(task.pid())?;
    let set = |text: &'static str| -> Turn {
        let file = file.clone();
        Box::new(move || write(&file, text).unwrap())
    };
    Ok(in_turns(set(freeze), set(thaw), folders))
}

fn freezer_v1(task: &Witness) -> Result<Kept, String> {
    let folders = Folders::with("freezer", false)?;
    freezer(folders, task, "freezer.state", ["FROZEN", "THAWED"])
}

fn freezer_v2(task: &Witness) -> Result<Kept, String> {
    let cgroups = Cgroups::discover(&Root::new("/")).map_err(|e| e.to_string())?;
    let tree = cgroups.trees().iter().find(|t| t.is_v2()).ok_or("no v2 tree")?;
    freezer(Folders::under(&tree.mount, false)?, task, "cgroup.freeze", ["1", "0"])
}

#[test]
fn a_sleeping_task_that_is_stopped_is_stopped_and_not_asleep() {
    let _alone = alone();
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    sleep(Duration::from_millis(50));
    let Some(mut host) = host(processes(&[sleeper.id()])) else {
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        return;
    };
    let share = |host: &mut LiveHost| {
        let seen = see(host, 200);
        let ledger = tenant(&seen, host.subject().unwrap()).account.ledger;
        let held: Held = ledger.parts().held.unwrap();
        held.stopped_ns as f64 / ledger.total_ns() as f64
    };
    assert_eq!(share(&mut host), 0.0);
    signal(sleeper.id(), libc::SIGSTOP)();
    see(&mut host, 20);
    assert_eq!(share(&mut host), 1.0);
    signal(sleeper.id(), libc::SIGCONT)();
    see(&mut host, 20);
    assert_eq!(share(&mut host), 0.0, "and sleeps on");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

/// Call 162 is `nanosleep` in a program of 32 bits and `sync` in one of 64.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_32_bit_programs_calls_are_read_by_their_own_numbers() {
    let _alone = alone();
    // SAFETY: a page below 4 GB, which the child reads; the child makes one system call and ends.
    let pid = unsafe {
        let (both, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), 4096, both, flags | libc::MAP_32BIT, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        page.cast::<[i32; 2]>().write([60, 0]);
        let pid = libc::fork();
        if pid == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            std::arch::asm!(
                "xchg rbx, {time}", "int 0x80", "xchg rbx, {time}",
                time = inout(reg) page as u64 => _, inout("rax") 162u64 => _, in("rcx") 0, out("r8") _, out("r9") _,
                out("r10") _, out("r11") _
            );
            libc::_exit(0);
        }
        pid
    };
    sleep(Duration::from_millis(100));
    // SAFETY: it waits for our own child and is given no place to write to.
    let ended = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) } != 0;
    if ended {
        println!("skipped: this kernel runs no 32-bit programs");
        return;
    }
    let Some(mut host) = host(processes(&[pid as u32])) else { return };
    let seen = see(&mut host, 100);
    let account = &tenant(&seen, host.subject().unwrap()).account;
    let block = account.block.unwrap();
    signal(pid as u32, libc::SIGKILL)();
    // SAFETY: as above.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    assert_eq!(block.sleep_ns, account.ledger.total_ns(), "{block:?}");
}
