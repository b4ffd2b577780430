//! Processes whose first thread has ended while others go on: `/proc` shows them as zombies, but they run.

use super::actors::{backend, eventually, seen, transients_of, v2_mount, Act, Actors};
use super::{alone, is_root, park, unpark, PATIENCE};
use corun_linux::backend::Backend;
use corun_linux::supervisor::undo::{send, Task, Undo};
use corun_linux::target::Subject;
use corun_linux::{procfs, Root};
use std::time::Duration;

/// One of them, by its process.
fn leaderless() -> (Actors, u32) {
    let actors = Actors::start(&[Act::Leaderless], false);
    let pid = actors.pids()[0];
    let is_dead = || procfs::process_stat(&Root::new("/"), pid).is_ok_and(|s| s.state == 'Z');
    assert!(eventually(PATIENCE, is_dead), "its first thread goes on");
    (actors, pid)
}

#[test]
fn a_process_without_its_first_thread_is_parked_like_any_other_and_given_back() {
    if !is_root() || v2_mount().is_none() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (actors, pid) = leaderless();
    let mut backend = backend(folder.path(), &[pid]);
    backend.learn(&seen(&[&[pid]]));
    for _ in 0..3 {
        park(&mut backend);
        std::thread::sleep(Duration::from_millis(2));
        assert!(actors.stand_still(Duration::from_millis(20)), "it runs while it is parked");
        unpark(&mut backend);
        assert!(actors.run(PATIENCE));
    }
    assert_eq!(transients_of(std::process::id()).len(), 1, "it is moved once");
    park(&mut backend);
    backend.undo_all().unwrap();
    assert!(actors.run(PATIENCE));
    assert!(transients_of(std::process::id()).is_empty());
}

#[test]
fn a_process_without_its_first_thread_is_stopped_and_continued_by_signals_and_can_be_named() {
    let _alone = alone();
    let (actors, pid) = leaderless();
    let root = Root::new("/");
    Subject::processes(&root, &[pid]).unwrap();
    let stat = procfs::process_stat(&root, pid).unwrap();
    let task = Task { tid: pid, start_ns: stat.start_ns, pid, pgid: stat.pgid };
    send(&root, &task, libc::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    assert!(actors.stand_still(Duration::from_millis(20)));
    assert!(!Undo::Continue(task).is_over(&root), "it can be continued");
    Undo::Continue(task).perform(&root).unwrap();
    assert!(actors.run(PATIENCE));
}
