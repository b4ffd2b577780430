//! The identity of tenants: the test starts, moves and ends tasks, so it knows the answer.

use super::*;
use corun_linux::cgroup::{Cgroups, Membership, Tree};
use std::path::PathBuf;
use std::process::Child;

/// A program that spins, with a name of its own.
const TWIG: &str = "corun-twig";

/// A folder with a shell named [`TWIG`], and the processes started from it; all of them end with it.
struct Twigs {
    folder: tempfile::TempDir,
}

impl Twigs {
    fn new() -> Twigs {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/bin/sh", folder.path().join(TWIG)).unwrap();
        Twigs { folder }
    }

    /// A shell that runs a script in a process group of its own. `$TWIG` spins in it.
    fn sh(&self, script: &str) -> Child {
        let twig = format!("{} -c 'while :; do :; done'", self.folder.path().join(TWIG).display());
        let mut sh = Command::new("sh");
        sh.args(["-c", &script.replace("$TWIG", &twig)]).process_group(0);
        sh.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    }
}

/// The processes that are called so.
fn called(name: &str) -> Vec<u32> {
    let root = Root::new("/");
    let all = procfs::processes(&root).unwrap();
    all.into_iter().filter(|pid| procfs::process_stat(&root, *pid).is_ok_and(|s| s.comm == name)).collect()
}

impl Drop for Twigs {
    fn drop(&mut self) {
        for pid in called(TWIG) {
            // SAFETY: sends a signal to a process that only this test starts.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
    }
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The keys of the tenants that have tasks with this name, and the number of tasks.
fn keys_of(seen: &Observation, name: &str) -> (BTreeSet<String>, usize) {
    let tasks: Vec<TenantId> = seen.tasks.iter().filter(|t| &*t.name == name).map(|t| t.tenant).collect();
    (tasks.iter().map(|id| seen.tenant(*id).unwrap().key.clone()).collect(), tasks.len())
}

fn key_of(seen: &Observation, pid: u32) -> String {
    let task = seen.tasks.iter().find(|t| t.id.0 == pid).expect("it is there");
    seen.tenant(task.tenant).unwrap().key.clone()
}

#[test]
fn a_tenant_given_by_its_pid_is_all_its_descendants_whatever_they_do() {
    let _alone = alone();
    let twigs = Twigs::new();
    // One before it is watched; then a child, a session of its own, and one whose parent ends.
    let script =
        "$TWIG & read go; $TWIG & setsid $TWIG & (setsid sh -c \"$TWIG & exit\"); sh -c 'exec sleep 5'";
    let mut shell = twigs.sh(script);
    let started = Instant::now();
    while called(TWIG).is_empty() && started.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let options = LiveOptions { tenants: vec![shell.id()], ..LiveOptions::new(Subject::All) };
    let Some(mut host) = host_with(options) else { return end(shell) };
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    while called(TWIG).len() < 4 && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    host.observe().unwrap();
    let seen = see(&mut host, 100);
    end(shell);
    let wanted = BTreeSet::from([format!("pid:{}", key_pid(&seen))]);
    assert_eq!(keys_of(&seen, TWIG), (wanted, 4));
}

fn key_pid(seen: &Observation) -> u32 {
    let key = |t: &corun_model::Tenant| t.key.strip_prefix("pid:")?.parse().ok();
    seen.tenants.iter().find_map(key).expect("somebody was given by a PID")
}

#[test]
fn a_script_is_one_tenant_and_two_scripts_of_one_name_are_two() {
    let _alone = alone();
    let Some(mut host) = host(Subject::All) else { return };
    let twigs = Twigs::new();
    let pipes = "$TWIG | cat & yes | head -c 1000000000 >/dev/null; sleep 5";
    let (a, b) = (twigs.sh(pipes), twigs.sh(pipes));
    see(&mut host, 300);
    let seen = see(&mut host, 200);
    let ids = [a.id(), b.id()];
    let keys = ids.map(|pid| key_of(&seen, pid));
    let (of_twigs, twigs_seen) = keys_of(&seen, TWIG);
    end(a);
    end(b);
    assert_eq!(keys, ids.map(|pid| format!("pgid:{pid}")));
    assert_eq!((of_twigs, twigs_seen), (keys.iter().cloned().collect(), 2));
    let names: Vec<&str> =
        keys.iter().map(|key| seen.tenants.iter().find(|t| t.key == *key).unwrap().name.as_str()).collect();
    assert!(
        names.iter().all(|name| [TWIG, "yes", "head"].contains(name)),
        "called by what they run: {names:?}"
    );
}

/// Not a test of its own: a process that leaves its process group on request, and goes on.
#[test]
fn a_member_that_leaves() {
    let Ok(how) = std::env::var("CORUN_TEST_LEAVES") else { return };
    let mut go = [0];
    std::io::stdin().read_exact(&mut go).unwrap();
    // SAFETY: both change nothing but this process's group.
    let left = unsafe {
        if how == "setsid" {
            libc::setsid()
        } else {
            libc::setpgid(0, 0)
        }
    };
    assert!(left >= 0);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_task_that_leaves_its_process_group_or_session_is_a_tenant_of_its_own_from_the_next_window_on() {
    let _alone = alone();
    let Some(mut host) = host(Subject::All) else { return };
    for how in ["setsid", "setpgid"] {
        let mut member = Command::new(std::env::current_exe().unwrap());
        member.args(["--exact", "tenants::a_member_that_leaves", "--nocapture", "--test-threads", "1"]);
        member.env("CORUN_TEST_LEAVES", how).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut member = member.spawn().unwrap();
        let own = format!("pgid:{}", member.id());
        let before = key_of(&see(&mut host, 300), member.id());
        member.stdin.take().unwrap().write_all(b"x").unwrap();
        see(&mut host, 200);
        let after: BTreeSet<String> = {
            let seen = see(&mut host, 200);
            let tids = procfs::tasks(&Root::new("/"), member.id()).unwrap();
            // The first thread sleeps, and is read when something happens to it.
            tids.into_iter().filter(|tid| *tid != member.id()).map(|tid| key_of(&seen, tid)).collect()
        };
        end(member);
        assert_ne!(before, own, "{how}");
        assert_eq!(after, BTreeSet::from([own]), "{how}");
    }
}

/// A cgroup of a tree, and one below it, removed in the end.
struct Nested {
    outer: PathBuf,
    inner: PathBuf,
    path: String,
}

impl Nested {
    fn new(tree: &Tree) -> Option<Nested> {
        let name = format!("corun-test-tenant.{}", std::process::id());
        let outer = tree.mount.join(&name);
        let inner = outer.join("inner");
        std::fs::create_dir_all(&inner).ok()?;
        // A cpuset starts empty, and accepts nobody then.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            for folder in [&outer, &inner] {
                let above = std::fs::read_to_string(folder.parent().unwrap().join(file));
                let _ = above.and_then(|of_parent| std::fs::write(folder.join(file), of_parent));
            }
        }
        let path = format!("{}/{name}", tree.mounted.trim_end_matches('/'));
        Some(Nested { outer, inner, path })
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        for folder in [&self.inner, &self.outer] {
            let tries = (0..100).find(|_| {
                std::thread::sleep(Duration::from_millis(10));
                std::fs::remove_dir(folder).is_ok()
            });
            assert!(tries.is_some(), "{} stays behind", folder.display());
        }
    }
}

#[test]
fn a_cgroup_of_any_tree_is_a_tenant_and_tasks_moved_in_below_and_out_change_tenants() {
    let _alone = alone();
    let Some(mut host) = host(Subject::All) else { return };
    let root = Root::new("/");
    let cgroups = Cgroups::discover(&root).unwrap();
    let mut tried = Vec::new();
    for tree in cgroups.trees() {
        let spinner = Pinned::start(0, "while :; do :; done");
        let membership = Membership::read(&root, format!("/proc/{}", spinner.0.id())).unwrap();
        let home = membership.in_tree(tree).and_then(|path| tree.folder(path));
        let (Some(home), Some(nested)) = (home, Nested::new(tree)) else { continue };
        let mut key_in = |folder: &PathBuf| {
            std::fs::write(folder.join("cgroup.procs"), spinner.0.id().to_string()).ok()?;
            see(&mut host, 60);
            Some(key_of(&see(&mut host, 60), spinner.0.id()))
        };
        let own = format!("pgid:{}", spinner.0.id());
        let keys = [&home, &nested.outer, &nested.inner, &home].map(&mut key_in);
        drop(spinner);
        let Some(inside) = keys[1].clone() else { continue };
        let place = format!("cgroup:{}", nested.path);
        assert_eq!(inside, place, "{tree:?}");
        assert_eq!(
            keys,
            [Some(own.clone()), Some(place.clone()), Some(place + "/inner"), Some(own)],
            "{tree:?}"
        );
        tried.push(tree.mount.display().to_string());
    }
    println!("tried {tried:?}");
    if tried.is_empty() {
        println!("skipped: no cgroup can be made here");
    }
}

#[test]
fn short_commands_have_their_names_and_naming_them_reads_nothing() {
    let _alone = alone();
    let Some(mut host) = host(Subject::All) else { return };
    const COMMANDS: usize = 300;
    let before = host.naming_cost();
    let script = format!("i=0; while [ $i -lt {COMMANDS} ]; do timeout 9 true; i=$((i+1)); done");
    let mut storm = Twigs::new().sh(&script);
    let (mut named, mut others, mut windows) = (0, 0, 0);
    while windows < 100 {
        let over = storm.try_wait().unwrap().is_some();
        let seen = see(&mut host, 100);
        windows += 1;
        for task in seen.tasks.iter().filter(|t| &*t.name == "true") {
            let tenant = seen.tenant(task.tenant).unwrap();
            let is_named = tenant.name == "timeout" && tenant.key.starts_with("pgid:");
            *(if is_named { &mut named } else { &mut others }) += 1;
        }
        if over {
            break;
        }
    }
    end(storm);
    let after = host.naming_cost();
    println!(
        "{named} named, {others} not; looked for {} cgroups, asked {} processes",
        after.0 - before.0,
        after.1 - before.1
    );
    assert!(named + others >= COMMANDS, "{named} and {others} of {COMMANDS}");
    // A command that ends before its group was seen has its own name. Few are so short.
    assert!(others <= COMMANDS / 50, "{others} of {COMMANDS} have another name");
    assert!(after.1 - before.1 < COMMANDS as u64 / 2 && after.0 - before.0 < COMMANDS as u64 / 2);
}

#[test]
fn a_task_that_is_not_followed_is_counted_once_however_many_events_it_has() {
    let _alone = alone();
    let options = LiveOptions { max_tasks: Some(64), ..LiveOptions::new(Subject::All) };
    let Some(mut host) = host_with(options) else { return };
    let twigs = Twigs::new();
    let pairs: Vec<Child> = (0..30).map(|_| twigs.sh("cat /dev/zero | cat >/dev/null")).collect();
    let begin = host.switches();
    let mut untracked = 0;
    for _ in 0..20 {
        untracked += see(&mut host, 100).loss.untracked_tasks;
    }
    let switches = host.switches() - begin;
    let pids: Vec<u32> = pairs.iter().map(Child::id).collect();
    for pid in pids {
        // SAFETY: sends a signal to a process group that this test made.
        unsafe { libc::kill(-(pid as i32), libc::SIGKILL) };
    }
    pairs.into_iter().for_each(end);
    println!("{untracked} tasks not followed, {switches} switches");
    assert!(untracked >= 30, "{untracked} tasks");
    assert!(untracked < switches / 5, "{untracked} tasks in {switches} switches");
}
