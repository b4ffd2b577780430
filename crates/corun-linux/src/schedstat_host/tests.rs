//! The host on this machine, with work of known shape. Ratios have wide margins, because other programs run
//! here, too.

use super::*;
use crate::launch::Held;
use corun_model::ledger::Parts;
use corun_model::observation::Account;
use corun_model::TaskId;
use std::process::Command;

fn watch(subject: Subject) -> SchedstatHost {
    SchedstatHost::new(Options { poll_ns: 5_000_000, ..Options::new(subject) }).unwrap()
}

/// A shell script as subject, held until the host watches it.
fn scripted(script: &str) -> (SchedstatHost, crate::launch::Running) {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let held = Held::start(command).unwrap();
    let host = watch(Subject::command(held.pid(), "sh"));
    (host, held.release().unwrap())
}

fn sum<T: Default + std::ops::AddAssign>(of: impl Iterator<Item = T>) -> T {
    of.fold(T::default(), |mut a, b| {
        a += b;
        a
    })
}

fn subject_account(host: &SchedstatHost, seen: &Observation) -> Account {
    let id = host.subject().unwrap();
    seen.by_tenant.iter().find(|t| t.id == id).map(|t| t.account.clone()).unwrap_or_default()
}

/// Watches until the subject has ended, in windows of 50 ms; checks every one.
fn watch_to_the_end(host: &mut SchedstatHost, running: &crate::launch::Running) -> Vec<Observation> {
    let mut seen = Vec::new();
    loop {
        let ended = running.has_ended();
        host.advance(if ended { 0 } else { 50_000_000 }).unwrap();
        let window = host.observe().unwrap();
        window.check().unwrap();
        seen.push(window);
        if ended {
            return seen;
        }
    }
}

#[test]
fn passes_the_conformance_suite() {
    let busy = std::thread::spawn(|| {
        let until = std::time::Instant::now() + Duration::from_millis(1500);
        while std::time::Instant::now() < until {}
    });
    let me = Subject::Processes { roots: vec![std::process::id()], name: "tests".into() };
    corun_model::conformance::host(|| Box::new(watch(me.clone()))).unwrap();
    busy.join().unwrap();
}

#[test]
fn the_cpus_that_a_task_may_use_and_its_process_are_known_until_it_ends() {
    let cpus = crate::sched::affinity(0).unwrap();
    let only = cpus[cpus.len() - 1];
    let (mut host, running) = scripted(&format!("exec taskset -c {} sh -c 'sleep 0.4; exit 0'", only.0));
    let seen = watch_to_the_end(&mut host, &running);
    running.wait().unwrap();
    let late = &seen[seen.len() - 2];
    let subject = host.subject().unwrap();
    let of_subject = |name: &str| {
        late.tasks.iter().find(|t| t.tenant == subject && &*t.name == name).expect("it lives still")
    };
    let shell = of_subject("sh");
    let limits = late.limits.of_task(shell.id).unwrap();
    assert_eq!(
        (limits.process, limits.cpus.as_ref().unwrap().iter().collect::<Vec<_>>()),
        (shell.id, vec![&only])
    );
    let sleeper = of_subject("sleep");
    assert_eq!(late.limits.of_task(sleeper.id).unwrap().process, sleeper.id);
}

#[test]
fn everybody_never_ends() {
    let mut host = watch(Subject::All);
    host.advance(10_000_000).unwrap();
    assert!(!host.observe().unwrap().tasks.is_empty());
    assert!(host.subject_lives(), "or whoever watches everybody would stop at once");
}

#[test]
fn a_sleeper_blocks_and_a_spinner_computes_or_waits() {
    let (mut host, running) = scripted("sleep 0.3");
    let seen = watch_to_the_end(&mut host, &running);
    let total =
        |part: fn(&Parts) -> u64| sum(seen.iter().map(|o| part(subject_account(&host, o).ledger.parts())));
    assert!(total(|p| p.block_ns) > 10 * total(|p| p.compute_ns + p.steal_ns), "{seen:?}");
    running.wait().unwrap();

    let (mut host, running) = scripted("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done");
    let seen = watch_to_the_end(&mut host, &running);
    let total =
        |part: fn(&Parts) -> u64| sum(seen.iter().map(|o| part(subject_account(&host, o).ledger.parts())));
    assert!(total(|p| p.block_ns) < total(|p| p.compute_ns + p.steal_ns), "{seen:?}");
    assert_eq!(total(|p| p.throttled_ns), 0);
    running.wait().unwrap();
}

#[test]
fn children_of_the_subject_are_the_subjects_and_everybody_else_is_not() {
    let (mut host, running) = scripted("sleep 0.3 & sh -c 'sleep 0.3; true' & wait");
    let seen = watch_to_the_end(&mut host, &running);
    let subject = host.subject().unwrap();
    let names: BTreeSet<&str> =
        seen.iter().flat_map(|o| &o.tasks).filter(|t| t.tenant == subject).map(|t| &*t.name).collect();
    assert!(names.contains("sh") && names.contains("sleep"), "{names:?}");
    let mine = seen.iter().flat_map(|o| &o.tasks).find(|t| t.id.0 == std::process::id()).unwrap();
    assert_ne!(mine.tenant, subject);
    let sleepers: BTreeSet<TaskId> = seen
        .iter()
        .flat_map(|o| &o.tasks)
        .filter(|t| t.tenant == subject && &*t.name == "sleep")
        .map(|t| t.id)
        .collect();
    assert_eq!(sleepers.len(), 2, "each sleeper once");
    assert!(!host.subject_lives());
    running.wait().unwrap();
}

#[test]
fn processes_that_live_between_two_polls_compute_for_their_parent() {
    // Each `true` lives for about a millisecond, and no poll comes before the end. What they used in ticks is the shell's to tell.
    let dir = tempfile::tempdir().unwrap();
    let told = dir.path().join("times");
    let mut command = Command::new("sh");
    let script = "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done; times > \"$0\"";
    command.args(["-c", script]).arg(&told);
    let held = Held::start(command).unwrap();
    let options = Options { poll_ns: 60_000_000_000, ..Options::new(Subject::command(held.pid(), "sh")) };
    let mut host = SchedstatHost::new(options).unwrap();
    let running = held.release().unwrap();
    while !running.ended_within(Duration::from_secs(60)) {}
    let seen = host.observe().unwrap();
    seen.check().unwrap();
    running.wait().unwrap();
    // "0m0.120s 0m0.340s": user and system time, of the shell and in the next line of its children.
    let times = std::fs::read_to_string(told).unwrap();
    let seconds = |time: &str| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
        60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
    };
    let children_s: f64 = times.lines().nth(1).unwrap().split_whitespace().map(seconds).sum();
    let unseen_s = seen.loss.unseen_ns as f64 / 1e9;
    assert!(children_s > 0.05 && (unseen_s - children_s).abs() < 0.04, "{unseen_s} s, by the shell {times}");
    let subject = host.subject().unwrap();
    let looked_at = seen.tasks.iter().filter(|t| t.tenant == subject);
    let looked_at_ns: u64 = sum(looked_at.map(|t| t.account.ledger.on_cpu_ns()));
    let family_ns = subject_account(&host, &seen).ledger.on_cpu_ns();
    assert_eq!(family_ns, looked_at_ns + seen.loss.unseen_ns);
}

#[test]
fn waits_show_as_steal_without_a_culprit() {
    let mut command = Command::new("sh");
    // Both loops on CPU 0: each waits for the other about half of the time.
    command.args(["-c", "taskset -pc 0 $$ >/dev/null; f() { i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; }; f & f & wait"]);
    let held = Held::start(command).unwrap();
    let mut host = watch(Subject::command(held.pid(), "sh"));
    let running = held.release().unwrap();
    let seen = watch_to_the_end(&mut host, &running);
    let steal_ns: u64 = sum(seen.iter().map(|o| subject_account(&host, o).ledger.parts().steal_ns));
    let compute_ns: u64 = sum(seen.iter().map(|o| subject_account(&host, o).ledger.on_cpu_ns()));
    assert!(steal_ns > compute_ns / 4, "steal {steal_ns} ns, compute {compute_ns} ns");
    for o in &seen {
        let culprits = &subject_account(&host, o).culprits;
        assert!(culprits.shares().is_empty());
    }
    assert!(seen[0].unavailable.iter().any(|u| u.what == What::Culprits));
    running.wait().unwrap();
}

/// A cgroup with a quota of 8 % of a CPU, removed when it is dropped; `None` if none can be made.
struct Bounded(std::path::PathBuf);

impl Bounded {
    fn make() -> Option<Bounded> {
        let cgroups = Cgroups::discover(&Root::new("/")).unwrap();
        let tree = cgroups.with_controller("cpu")?;
        let made = Bounded(tree.mount.join(format!("corun-test-{}", std::process::id())));
        std::fs::create_dir(&made.0).ok()?;
        let set = |file: &str, text: &str| std::fs::write(made.0.join(file), text).ok();
        if tree.is_v2() {
            set("cpu.max", "8000 100000")?;
        } else {
            set("cpu.cfs_period_us", "100000").and(set("cpu.cfs_quota_us", "8000"))?;
        }
        Some(made)
    }

    fn throttled_ns(&self) -> u64 {
        let cgroups = Cgroups::discover(&Root::new("/")).unwrap();
        let path = format!("/{}", self.0.file_name().unwrap().to_string_lossy());
        cgroups.throttling(cgroups.with_controller("cpu").unwrap(), &path).unwrap().unwrap().throttled_ns
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_quota_is_not_blamed_on_a_neighbor() {
    let Some(bounded) = Bounded::make() else {
        eprintln!("skipped: no cgroup with a CPU quota can be made here (needs root and a CPU controller)");
        return;
    };
    let script = "echo $$ > \"$0/cgroup.procs\"; i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; sleep 0.2";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(&bounded.0);
    let held = Held::start(command).unwrap();
    let mut host = watch(Subject::command(held.pid(), "sh"));
    let running = held.release().unwrap();
    // The first window only finds out which cgroup the shell moved to.
    host.advance(50_000_000).unwrap();
    host.observe().unwrap();
    let before_ns = bounded.throttled_ns();
    let seen = watch_to_the_end(&mut host, &running);
    let shells = seen.iter().filter_map(|o| o.tasks.iter().find(|t| t.id.0 == running.pid()));
    let throttled_ns: u64 = sum(shells.map(|t| t.account.ledger.parts().throttled_ns));
    let kernel_ns = bounded.throttled_ns();
    assert!(throttled_ns <= kernel_ns, "{throttled_ns} of {kernel_ns} ns");
    assert!(2 * throttled_ns >= kernel_ns - before_ns, "{throttled_ns} of {kernel_ns} - {before_ns} ns");
    running.wait().unwrap();
}

#[test]
fn a_kernel_without_schedstat_is_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |dir: &tempfile::TempDir| {
        let options = Options { root: Root::new(dir.path()), ..Options::new(Subject::All) };
        SchedstatHost::new(options).unwrap_err().to_string()
    };
    assert!(refused(&dir).starts_with("this kernel keeps no `schedstat`"));
    std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
    std::fs::write(dir.path().join("proc/self/schedstat"), "0 0 0\n").unwrap();
    assert!(refused(&dir).contains("sysctl kernel.task_delayacct=1"));
}

#[test]
fn the_quota_of_every_cgroup_above_a_task_counts_except_the_roots() {
    assert_eq!(ancestors("/a/b").collect::<Vec<_>>(), ["/a/b", "/a"]);
    assert_eq!(ancestors("/").count(), 0);
}

#[test]
fn without_the_others_only_the_subject_is_there_and_its_windows_still_sum() {
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 0.1 & i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; wait"]);
    let held = Held::start(command).unwrap();
    let subject = Subject::command(held.pid(), "sh");
    let alone = Options { poll_ns: 5_000_000, others: false, ..Options::new(subject) };
    let mut host = SchedstatHost::new(alone).unwrap();
    let running = held.release().unwrap();
    let seen = watch_to_the_end(&mut host, &running);
    let subject = host.subject().unwrap();
    assert!(seen.iter().flat_map(|o| &o.tasks).all(|t| t.tenant == subject), "{seen:?}");
    assert!(seen.iter().any(|o| o.tasks.iter().any(|t| &*t.name == "sleep")), "its children are its own");
    assert!(sum(seen.iter().map(|o| subject_account(&host, o).ledger.on_cpu_ns())) > 0);
    running.wait().unwrap();
}
