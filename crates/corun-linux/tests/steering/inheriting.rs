//! Tasks that are born to changed ones, and are changed themselves.

use super::actors::{backend, eventually, seen, state_of};
use super::{alone, PATIENCE};
use corun_linux::backend::Backend;
use corun_linux::stock::StockBackend;
use corun_linux::{procfs, sched, Root};
use corun_model::{Action, CpuId, Outcome, TaskId};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A shell that makes sleeping children, in a group of its own. All are killed when it is dropped.
struct Parent {
    shell: Child,
    children: Vec<u32>,
}

impl Parent {
    fn start() -> Parent {
        let mut command = Command::new("sh");
        command.args(["-c", "while read -r how; do $how sleep 1000 & done"]);
        let shell = command.stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        Parent { shell, children: Vec::new() }
    }

    fn pid(&self) -> u32 {
        self.shell.id()
    }

    /// Makes a child in the given way.
    fn bears(&mut self, how: &str) -> u32 {
        writeln!(self.shell.stdin.as_mut().unwrap(), "{how}").unwrap();
        let root = Root::new("/");
        let mut born = None;
        assert!(eventually(PATIENCE, || {
            let all = procfs::with_descendants(&root, &[self.pid()]).unwrap_or_default();
            let is_new = |pid: &u32| *pid != self.pid() && !self.children.contains(pid);
            // The child is ready when it has another name.
            let sleeps = |pid: &u32| procfs::process_stat(&root, *pid).is_ok_and(|s| s.comm == "sleep");
            born = all.into_iter().find(|pid| is_new(pid) && sleeps(pid));
            born.is_some()
        }));
        self.children.extend(born);
        born.unwrap()
    }

    fn ends(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        self.ends();
        for child in &self.children {
            // SAFETY: a signal to a process that sleeps for longer than any test, so its number is nobody else's.
            unsafe { libc::kill(*child as i32, libc::SIGKILL) };
        }
    }
}

/// Sets every knob of a task that this kernel has.
fn turn_all(backend: &mut StockBackend, pid: u32, cpu: CpuId) {
    let task = TaskId(pid);
    for action in [
        Action::Slice { task, min_ns: 17_000_000, max_ns: 17_000_000 },
        Action::PreemptDelay { task, delay_ns: 2_000_000 },
        Action::Cpus { task, cpus: vec![cpu] },
    ] {
        match backend.apply(&action) {
            Outcome::Unsupported { why } => println!("skipped: {action:?}: {why:?}"),
            other => assert_eq!(other, Outcome::Done),
        }
    }
}

/// The lines about a process's only task, without its number.
fn state(pid: u32) -> String {
    state_of(&[pid])[1].split_once(' ').unwrap().1.to_owned()
}

fn policy(pid: u32) -> i32 {
    sched::attributes(pid).unwrap().policy as i32
}

#[test]
fn a_child_that_inherited_and_was_changed_itself_gets_back_what_its_parent_had() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut parent = Parent::start();
    let (pid, cpus) = (parent.pid(), sched::affinity(0).unwrap());
    let before = state(pid);
    let mut backend = backend(folder.path(), &[pid]);
    backend.learn(&seen(&[&[pid]]));
    turn_all(&mut backend, pid, cpus[0]);
    let changed = state(pid);
    // One is changed in every way; of one, only its previous CPUs are known; one is not changed at all.
    let children = [parent.bears(""), parent.bears(""), parent.bears("")];
    assert_eq!(children.map(state), [(); 3].map(|()| changed.clone()));
    backend.learn(&seen(&[&[&[pid], &children[..]].concat()]));
    turn_all(&mut backend, children[0], cpus[cpus.len() - 1]);
    let pin = Action::Cpus { task: TaskId(children[1]), cpus: vec![cpus[0]] };
    assert_eq!(backend.apply(&pin), Outcome::Done);
    backend.undo_all().unwrap();
    assert_eq!(state(pid), before);
    assert_eq!(children.map(state), [(); 3].map(|()| before.clone()));
}

#[test]
fn a_task_that_leaves_its_group_and_loses_its_parent_after_it_was_changed_gets_everything_back() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut parent = Parent::start();
    let pid = parent.pid();
    let before = state(pid);
    let mut backend = backend(folder.path(), &[pid]);
    backend.learn(&seen(&[&[pid]]));
    turn_all(&mut backend, pid, sched::affinity(0).unwrap()[0]);
    let child = parent.bears("setsid");
    backend.learn(&seen(&[&[pid, child]]));
    turn_all(&mut backend, child, sched::affinity(0).unwrap()[0]);
    parent.ends();
    backend.undo_all().unwrap();
    assert_eq!(state(child), before);
}

#[test]
fn no_delay_means_none_for_a_task_that_inherited_one_and_leaves_one_that_chose_it_alone() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (mut parent, mut stranger) = (Parent::start(), Parent::start());
    let pid = parent.pid();
    let mut backend = backend(folder.path(), &[pid]);
    let delay = |backend: &mut StockBackend, pid, delay_ns| {
        let action = Action::PreemptDelay { task: TaskId(pid), delay_ns };
        assert_eq!(backend.apply(&action), Outcome::Done);
    };
    let chose = stranger.bears("chrt -b 0");
    backend.learn(&seen(&[&[pid, chose]]));
    delay(&mut backend, pid, 2_000_000);
    let inherited = parent.bears("");
    backend.learn(&seen(&[&[pid, chose, inherited]]));
    assert_eq!([chose, inherited].map(policy), [libc::SCHED_BATCH; 2]);
    [chose, inherited].iter().for_each(|child| delay(&mut backend, *child, 0));
    assert_eq!([chose, inherited].map(policy), [libc::SCHED_BATCH, libc::SCHED_OTHER]);
    backend.undo_all().unwrap();
    assert_eq!([pid, chose].map(policy), [libc::SCHED_OTHER, libc::SCHED_BATCH]);
}

#[test]
fn a_delay_far_below_the_kernels_shortest_counts_as_none() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let parent = Parent::start();
    let pid = parent.pid();
    let mut backend = backend(folder.path(), &[pid]);
    backend.learn(&seen(&[&[pid]]));
    let mut after = |delay_ns| {
        let action = Action::PreemptDelay { task: TaskId(pid), delay_ns };
        assert_eq!(backend.apply(&action), Outcome::Done);
        policy(pid)
    };
    assert_eq!(after(106), libc::SCHED_OTHER);
    assert_eq!(after(2_000_000), libc::SCHED_BATCH);
    assert_eq!(after(106), libc::SCHED_OTHER, "one that has become so short is given up");
    assert_eq!(after(sched::tick_ns()), libc::SCHED_BATCH);
    backend.undo_all().unwrap();
    assert_eq!(policy(pid), libc::SCHED_OTHER);
}
