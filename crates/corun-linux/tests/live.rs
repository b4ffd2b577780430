//! The live host on this machine: needs root and eBPF, and says so if they are missing.

#[path = "live/budgets.rs"]
mod budgets;
#[path = "live/quotas.rs"]
mod quotas;
#[path = "live/tenants.rs"]
mod tenants;
mod witness;

use corun_linux::probe::{LiveHost, LiveOptions};
use corun_linux::target::Subject;
use corun_linux::{procfs, Root};
use corun_model::observation::TenantObservation;
use corun_model::{conformance, Histogram, Host, Observation, TenantId};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use witness::Witness;

/// The tests load two CPUs each, so they run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// A host that watches `subject`, or `None` with the reason printed.
fn host(subject: Subject) -> Option<LiveHost> {
    host_with(LiveOptions::new(subject))
}

fn host_with(options: LiveOptions) -> Option<LiveHost> {
    match LiveHost::start(&Root::new("/"), options) {
        Ok(host) => Some(host),
        // A guest is booted to see whether its kernel accepts the probe.
        Err(e) if std::env::var_os("CORUN_GUEST").is_some() => panic!("the probe does not start: {e}"),
        Err(e) => {
            println!("skipped: no eBPF here: {e}");
            None
        }
    }
}

fn processes(pids: &[u32]) -> Subject {
    Subject::processes(&Root::new("/"), pids).unwrap()
}

fn see(host: &mut LiveHost, ms: u64) -> Observation {
    host.advance(ms * 1_000_000).unwrap();
    let seen = host.observe().unwrap();
    seen.check().unwrap_or_else(|wrong| panic!("{}", wrong.join("\n")));
    seen
}

fn tenant(seen: &Observation, id: TenantId) -> &TenantObservation {
    seen.by_tenant.iter().find(|t| t.id == id).expect("the tenant was there")
}

/// Whether the subject ends within a second.
fn ends(host: &mut LiveHost) -> bool {
    (0..100).any(|_| host.subject_ended() || host.advance(10_000_000).is_err())
}

#[test]
fn the_live_host_passes_the_suite_that_the_modelled_one_passes() {
    let _alone = alone();
    if host(Subject::All).is_none() {
        return;
    }
    let _busy = Witness::start(&[0]);
    conformance::host(|| Box::new(host(Subject::All).expect("it could be made a moment ago"))).unwrap();
}

#[test]
fn time_is_conserved_over_a_hundred_windows_of_every_sort() {
    let _alone = alone();
    let Some(mut host) = host(Subject::All) else { return };
    let mut busy: Vec<Witness> = Vec::new();
    let mut forks = None;
    let mut lived_ns = 0;
    for window in 0..120u64 {
        match window % 12 {
            0 => busy.clear(),
            2 => busy.push(Witness::start(&[0])),
            4 => busy.push(Witness::start(&[0, 1])),
            // Processes that live for a millisecond, hundreds of them.
            6 => {
                forks =
                    Command::new("sh").args(["-c", "for i in $(seq 150); do /bin/true; done"]).spawn().ok()
            }
            8 => busy.push(Witness::start(&[1])),
            10 => drop(forks.take().map(|mut c| c.wait())),
            _ => {}
        }
        for w in &busy {
            w.pin(&[(window % 2) as usize]);
        }
        let seen = see(&mut host, 1 + window * 7 % 40);
        let lost = seen.loss.events + seen.loss.untracked_tasks + seen.loss.unlisted_tasks;
        assert_eq!(lost, 0, "window {window}: {:?}", seen.loss);
        lived_ns += seen.tasks.iter().map(|t| t.account.ledger.total_ns()).sum::<u64>();
    }
    println!("120 windows, {lived_ns} ns of task time, 0 ns unaccounted for");
}

#[test]
fn culprits_are_the_tasks_that_held_the_cpu_within_one_percent() {
    let _alone = alone();
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        println!("skipped: a migrating victim needs two CPUs");
        return;
    }
    // Hogs of different weight on known CPUs; a victim that is moved between the CPUs, often while it waits.
    let hogs: Vec<Witness> = [(0, 0), (0, 5), (1, 0), (1, 3), (1, 8)]
        .iter()
        .map(|&(cpu, nice)| {
            let hog = Witness::start(&[cpu]);
            hog.renice(nice);
            hog
        })
        .collect();
    let victim = Witness::start(&[0]);
    let Some(mut host) = host(processes(&[victim.pid()])) else { return };
    let _prompt = witness::Prompt::new();
    let start_ns = host.observe().unwrap().end_ns;
    let mut moves = vec![(start_ns, 0)];
    // Between requesting a move and knowing that it happened, the witnesses cannot say where the victim was.
    let mut unwitnessed_ns = 0;
    for i in 1..80usize {
        std::thread::sleep(std::time::Duration::from_millis(17 + (i * 13 % 29) as u64));
        let asked_ns = host.now_ns();
        victim.pin(&[i % 2]);
        let moved_ns = host.now_ns();
        moves.push((moved_ns, i % 2));
        unwitnessed_ns += moved_ns - asked_ns;
    }
    let seen = host.observe().unwrap();
    seen.check().unwrap();

    let subject = tenant(&seen, host.subject().unwrap());
    let steal_ns = subject.account.ledger.parts().steal_ns;
    let waits = victim.gaps_ns(seen.start_ns, seen.end_ns);
    let mut worst = 0.0f64;
    for hog in &hogs {
        let key = format!("pgid:{}", hog.pid());
        let id = seen.tenants.iter().find(|t| t.key == key).expect("every hog is a tenant").id;
        let charged_ns = subject.account.culprits.of_ns(id);
        let truth_ns = hog.overlap_ns(&waits, &moves);
        let error = charged_ns.abs_diff(truth_ns).saturating_sub(unwitnessed_ns) as f64 / steal_ns as f64;
        println!(
            "{}: charged {charged_ns} ns, witnessed {truth_ns} ns, off by {:.3} % of the steal",
            hog.name(),
            error * 100.0
        );
        worst = worst.max(error);
    }
    let witnessed_ns: u64 = waits.iter().map(|(a, b)| b - a).sum();
    println!("moving took {unwitnessed_ns} ns");
    println!("steal {steal_ns} ns, witnessed {witnessed_ns} ns; worst error {:.3} %", worst * 100.0);
    assert!(worst <= 0.01, "a culprit is off by {:.2} % of the steal", worst * 100.0);
    // By its weight, next to two or three hogs, it waits for about half of the time.
    assert!(steal_ns > seen.window_ns() / 5, "the victim hardly waited: {steal_ns} ns");
}

#[test]
fn the_watching_process_is_separate_from_its_co_runners_and_from_its_children() {
    let _alone = alone();
    // A victim whose CPU is held by a child of this process, and by this process itself.
    let victim = Witness::start(&[0]);
    let child = Witness::start(&[0]);
    let options = LiveOptions { watcher_apart: true, ..LiveOptions::new(processes(&[victim.pid()])) };
    let Some(mut host) = host_with(options) else { return };
    let me = std::thread::spawn(|| {
        witness::confine(0, &[0]);
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 600 {
            std::hint::spin_loop();
        }
    });
    let seen = see(&mut host, 500);
    me.join().unwrap();
    let culprits = &tenant(&seen, host.subject().unwrap()).account.culprits;
    let of = |key: &str| {
        let found =
            seen.tenants.iter().find(|t| t.key.starts_with(key)).unwrap_or_else(|| panic!("no {key}"));
        (found.kind, culprits.of_ns(found.id))
    };
    let (kind, own_ns) = of("watcher");
    let (_, childs_ns) = of(&format!("pgid:{}", child.pid()));
    println!("the victim waited {own_ns} ns for the watcher, {childs_ns} ns for its child");
    assert_eq!(kind, corun_model::TenantKind::Watcher);
    assert!(own_ns > 20_000_000, "this process held the CPU for a third of the time: {own_ns} ns");
    assert!(childs_ns > 20_000_000, "so did the child: {childs_ns} ns");
}

#[test]
fn a_full_ring_of_ended_tasks_costs_lines_but_no_time() {
    let _alone = alone();
    let Some(me) = Command::new("sh")
        .args(["-c", "read go; for i in $(seq 400); do /bin/true; done"])
        .stdin(Stdio::piped())
        .spawn()
        .ok()
    else {
        return;
    };
    let mut me = me;
    let options = LiveOptions { ended_bytes: 4096, ..LiveOptions::new(processes(&[me.id()])) };
    let Some(mut host) = host_with(options) else { return };
    drop(me.stdin.take());
    me.wait().unwrap();
    let seen = host.observe().unwrap();
    seen.check().unwrap_or_else(|wrong| panic!("{}", wrong.join("\n")));
    let subject = tenant(&seen, host.subject().unwrap());
    assert!(seen.loss.unlisted_tasks > 50, "the ring was not full: {:?}", seen.loss);
    assert!(subject.tasks > 390, "{} of 401 tasks counted", subject.tasks);
    let listed_ns: u64 =
        seen.tasks.iter().filter(|t| t.tenant == subject.id).map(|t| t.account.ledger.total_ns()).sum();
    assert!(subject.account.ledger.total_ns() > listed_ns);
}

#[test]
fn a_full_table_of_tasks_is_reported_not_hidden() {
    let _alone = alone();
    let options = LiveOptions { max_tasks: Some(64), ..LiveOptions::new(Subject::All) };
    let Some(mut host) = host_with(options) else { return };
    let _busy = Witness::start(&[0]);
    let seen = see(&mut host, 50);
    assert!(seen.loss.untracked_tasks > 0, "{:?}", seen.loss);
}

#[test]
fn more_groups_than_there_is_room_for_are_distinguished_one_after_the_other() {
    let _alone = alone();
    // Every process is two: the forked one, and the one that it executes. So these are more than 512 in the
    // end.
    let options = LiveOptions { max_groups: Some(512), ..LiveOptions::new(Subject::All) };
    let Some(mut host) = host_with(options) else { return };
    for _ in 0..16 {
        let crowd: Vec<_> = (0..20)
            .map(|_| Command::new("sh").args(["-c", "read x"]).process_group(0).stdin(Stdio::piped()).spawn())
            .collect();
        let seen = see(&mut host, 300);
        assert_eq!(seen.loss.events, 0, "{:?}", seen.loss);
        let ids: Vec<u32> = crowd.iter().flatten().map(|child| child.id()).collect();
        let of = |id: &u32| seen.tasks.iter().find(|t| t.id.0 == *id).map(|t| t.tenant);
        let tenants: BTreeSet<_> = ids.iter().filter_map(of).collect();
        assert_eq!(tenants.len(), 20, "every one is a tenant of its own");
        for mut child in crowd.into_iter().flatten() {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        see(&mut host, 300);
    }
}

/// A shell on one CPU, in a group of its own, which ends with the shell.
struct Pinned(std::process::Child);

impl Pinned {
    fn start(cpu: usize, script: &str) -> Pinned {
        let mut sh = Command::new("sh");
        sh.args(["-c", script]).process_group(0);
        sh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec the closure makes system calls with memory of its own.
        unsafe {
            sh.pre_exec(move || {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpu, &mut set);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                match libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            })
        };
        Pinned(sh.spawn().unwrap())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: a system call without memory.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

#[test]
fn more_pairs_than_there_is_room_for_are_distinguished_one_after_the_other() {
    let _alone = alone();
    let options = LiveOptions { max_pairs: Some(1024), ..LiveOptions::new(Subject::All) };
    let Some(mut host) = host_with(options) else { return };
    let cpus = host.machine().cpus().len();
    for wave in 0..5 {
        // Each of them waits for more of the others than fit into a record.
        let crowd: Vec<_> = (0..12).map(|_| Pinned::start(0, "while :; do :; done")).collect();
        let seen = see(&mut host, 600);
        assert_eq!(seen.loss.events, 0, "wave {wave}: {:?}", seen.loss);
        let beyond = seen.by_tenant.iter().filter(|t| t.account.culprits.shares().len() > 8).count();
        assert!(beyond >= 8, "only {beyond} had more than eight culprits");
        drop(crowd);
        // A group is referenced while a CPU's log has it.
        let noise: Vec<_> = (0..cpus).map(|cpu| Pinned::start(cpu, "yes | cat")).collect();
        for _ in 0..8 {
            see(&mut host, 600);
        }
        drop(noise);
    }
}

/// Not a test: a process of the crowd below, with threads that sleep until standard input ends.
#[test]
fn a_member_of_the_crowd() {
    if std::env::var_os("CORUN_TEST_CROWD").is_none() {
        return;
    }
    for _ in 0..9 {
        std::thread::Builder::new().stack_size(64 << 10).spawn(std::thread::park).unwrap();
    }
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    std::process::exit(0);
}

#[test]
fn all_threads_of_a_process_that_is_moved_to_another_cgroup_are_its_members() {
    let _alone = alone();
    let Some(mut host) = host(Subject::All) else { return };
    let cgroups = corun_linux::cgroup::Cgroups::discover(&Root::new("/")).unwrap();
    let name = format!("corun-test-threads.{}", std::process::id());
    let Some(folder) = cgroups.v2().map(|tree| tree.mount.join(&name)) else {
        return println!("skipped: there is no v2 tree");
    };
    if let Err(e) = std::fs::create_dir(&folder) {
        return println!("skipped: no cgroup can be made here: {e}");
    }
    let mut member = Command::new(std::env::current_exe().unwrap());
    member.args(["--exact", "a_member_of_the_crowd", "--nocapture", "--test-threads", "1"]);
    member.env("CORUN_TEST_CROWD", "1").process_group(0);
    let mut member =
        member.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let threads = || procfs::tasks(&Root::new("/"), member.id()).unwrap();
    while threads().len() < 10 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let threads = threads();
    let keys = |seen: &Observation| -> BTreeSet<String> {
        let of = |t: &&corun_model::observation::TaskObservation| threads.contains(&t.id.0);
        let tenants = seen.tasks.iter().filter(of).map(|t| seen.tenant(t.tenant).unwrap().key.clone());
        tenants.collect()
    };
    let before = keys(&see(&mut host, 100));
    std::fs::write(folder.join("cgroup.procs"), member.id().to_string()).unwrap();
    let after = keys(&see(&mut host, 100));
    drop(member.stdin.take());
    member.wait().unwrap();
    while std::fs::remove_dir(&folder).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((before.len(), after.len()), (1, 1), "{before:?} {after:?}");
    assert!(after.iter().all(|key| key.contains(&name)), "{after:?}");
}

#[test]
fn ten_thousand_tasks_of_a_thousand_tenants_fit() {
    let _alone = alone();
    let Some(probe) = host(Subject::All) else { return };
    drop(probe);
    let me = std::env::current_exe().unwrap();
    let mut crowd = Vec::new();
    for _ in 0..1000 {
        let mut member = Command::new(&me);
        member.args(["--exact", "a_member_of_the_crowd", "--nocapture", "--test-threads", "1"]);
        member.env("CORUN_TEST_CROWD", "1").process_group(0);
        member.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        crowd.push(member.spawn().unwrap());
    }
    let threads = || {
        std::fs::read_to_string("/proc/loadavg")
            .unwrap()
            .split(['/', ' '])
            .nth(4)
            .unwrap()
            .parse::<u32>()
            .unwrap()
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while threads() < 10_000 && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let mut host = host(Subject::All).unwrap();
    let seen = see(&mut host, 300);
    let began = std::time::Instant::now();
    let again = see(&mut host, 0);
    println!(
        "{} tasks of {} tenants; observing took {:?}",
        seen.tasks.len(),
        seen.by_tenant.len(),
        began.elapsed()
    );
    assert!(seen.tasks.len() >= 10_000, "{} tasks", seen.tasks.len());
    assert!(seen.by_tenant.len() >= 1000, "{} tenants", seen.by_tenant.len());
    for o in [&seen, &again] {
        assert_eq!(o.loss.events + o.loss.untracked_tasks + o.loss.unlisted_tasks, 0, "{:?}", o.loss);
    }
    for mut member in crowd {
        drop(member.stdin.take());
        member.wait().unwrap();
    }
}

#[test]
fn a_command_is_followed_with_everything_that_it_starts() {
    let _alone = alone();
    let mut command = Command::new("sh");
    command.args(["-c", "(sleep 0.05; /bin/true) & sh -c 'exec sleep 0.1'; wait"]);
    let held = corun_linux::launch::Held::start(command).unwrap();
    let Some(mut host) = host(Subject::command(held.pid(), "sh")) else { return };
    let running = held.release().unwrap();
    running.wait().unwrap();
    let seen = host.observe().unwrap();
    seen.check().unwrap();
    let subject = tenant(&seen, host.subject().unwrap());
    assert!((4..=7).contains(&subject.tasks), "{} tasks", subject.tasks);
    let block = subject.account.block.unwrap();
    assert!(block.sleep_ns > 100_000_000, "two sleeps: {block:?}");
    assert!(block.child_ns > 100_000_000, "the shell waited for them: {block:?}");
    assert!(host.subject_ended());
}

#[test]
fn blocking_and_yielding_are_counted_apart_and_the_cpus_of_each_task_are_known() {
    let _alone = alone();
    let yields = Pinned::start(0, "exec python3 -c 'import os\nwhile True: os.sched_yield()'");
    let sleeps = Pinned::start(0, "while true; do sleep 0.01; done");
    let _rival = Pinned::start(0, "while true; do :; done");
    let pids = [yields.0.id(), sleeps.0.id()];
    let Some(mut host) = host(processes(&pids)) else { return };
    see(&mut host, 100);
    let seen = see(&mut host, 500);
    let events = |pid: u32| {
        let task = seen.tasks.iter().find(|t| t.id.0 == pid).expect("it never ends");
        (task.account.events.blocked.unwrap(), task.account.events.yielded.unwrap())
    };
    let ((blocked, yielded), (blocked_sleeping, yielded_sleeping)) = (events(pids[0]), events(pids[1]));
    assert!(yielded > 10 && yielded > 5 * blocked, "{yielded} yields, {blocked} blockings");
    assert!(
        blocked_sleeping > 0 && yielded_sleeping == 0,
        "{blocked_sleeping} blockings, {yielded_sleeping} yields"
    );
    for pid in pids {
        let limits = seen.limits.of_task(corun_model::TaskId(pid)).expect("it is watched");
        let cpus: Vec<u32> = limits.cpus.iter().flat_map(|cpus| cpus.iter().map(|c| c.0)).collect();
        assert_eq!((limits.process.0, cpus), (pid, vec![0]));
    }
}

#[test]
fn a_thread_that_runs_another_program_goes_on_as_its_process() {
    let _alone = alone();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_thread_that_becomes_another_program", "--ignored", "--nocapture"]);
    command.stdout(Stdio::null());
    let held = corun_linux::launch::Held::start(command).unwrap();
    let pid = held.pid();
    let Some(mut host) = host(Subject::command(pid, "live")) else { return };
    let running = held.release().unwrap();
    running.wait().unwrap();
    // Its record ends with its last switch, shortly after it can be collected.
    assert!(ends(&mut host), "nobody of it is left");
    let seen = see(&mut host, 1);
    let slept: Vec<u64> = seen
        .tasks
        .iter()
        .filter(|t| t.id.0 == pid && Some(t.tenant) == host.subject())
        .map(|t| t.account.block.unwrap().sleep_ns)
        .collect();
    assert!(
        slept.iter().any(|ns| *ns > 50_000_000),
        "the program sleeps under the process's number: {slept:?}"
    );
    let alive = seen.tasks.iter().filter(|t| Some(t.tenant) == host.subject() && t.alive).count();
    assert_eq!(alive, 0);
}

/// Not a test: a program whose second thread runs `sleep`.
#[test]
#[ignore = "run by the test above"]
fn a_thread_that_becomes_another_program() {
    let thread = std::thread::spawn(|| {
        let failed = Command::new("sleep").arg("0.1").exec();
        panic!("{failed}");
    });
    let _ = thread.join();
}

#[test]
fn a_process_that_has_ended_but_was_not_collected_when_the_watch_began_is_not_waited_for() {
    let _alone = alone();
    // A shell that becomes a program which collects no children.
    let mut parent = Command::new("sh").args(["-c", "true & exec sleep 0.4"]).spawn().unwrap();
    let root = Root::new("/");
    let is_zombie =
        |pid: &u32| procfs::process_stat(&root, *pid).is_ok_and(|s| s.ppid == parent.id() && s.state == 'Z');
    let zombie = || procfs::processes(&root).unwrap_or_default().into_iter().find(|pid| is_zombie(pid));
    let zombie = (0..300).find_map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        zombie()
    });
    let host = zombie.and_then(|_| host(processes(&[parent.id()])));
    parent.wait().unwrap();
    let Some(mut host) = host else {
        return println!("skipped: it was collected too soon, or nobody can look");
    };
    let seen = see(&mut host, 10);
    assert!(host.subject_ended());
    assert!(seen.tasks.iter().all(|t| Some(t.id.0) != zombie));
}

#[test]
fn wake_ups_that_are_followed_at_once_never_make_waits_longer_than_the_window() {
    let _alone = alone();
    let Some(mut host) = host(processes(&[std::process::id()])) else { return };
    let (mut here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
    // Each wakes the other and waits for it, tens of thousands of times a second.
    let echo = std::thread::spawn(move || {
        let mut ball = [0];
        while there.read_exact(&mut ball).is_ok() && there.write_all(&ball).is_ok() {}
    });
    let server = std::thread::spawn(move || {
        let (mut ball, until) = ([1], Instant::now() + Duration::from_millis(500));
        while Instant::now() < until && here.write_all(&ball).is_ok() && here.read_exact(&mut ball).is_ok() {}
    });
    let seen = see(&mut host, 400);
    server.join().unwrap();
    echo.join().unwrap();
    let waits = seen.tasks.iter().filter_map(|t| t.account.waits.clone());
    let waits = waits.fold(Histogram::default(), |sum, w| sum.plus(&w));
    assert!(waits.total() > 1_000, "{waits:?}");
    assert_eq!(waits.overflow(), 0, "{waits:?}");
}

#[test]
fn nothing_stays_in_the_kernel() {
    let _alone = alone();
    let Some(host) = host(Subject::All) else { return };
    let ours = corun_bpf::programs_of(std::process::id());
    assert!(ours.len() >= 2 && ours.is_subset(&corun_bpf::loaded_programs()), "{ours:?}");
    drop(host);
    let left = || corun_bpf::loaded_programs().intersection(&ours).count();
    // Programs are freed a grace period after the last reference.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while left() > 0 && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(left(), 0);
}
