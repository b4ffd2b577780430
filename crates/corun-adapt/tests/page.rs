//! A page shared by two processes, one of which is killed at random moments.
//!
//! The other process is this test binary again: with `PAGE_OF` set it publishes a page and works until it is killed.

mod moments;

use corun_adapt::{Page, PageError, Peer};
use moments::moments;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Does nothing unless this is the other process.
#[test]
fn other_process() {
    if std::env::var_os("PAGE_OF").is_none() {
        return;
    }
    let page = Page::publish(2, 8).unwrap();
    loop {
        page.progress(1);
        std::hint::black_box(page.advice());
    }
}

fn start() -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "other_process"]).env("PAGE_OF", "me");
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits for the page of the child.
fn page_of(child: &Child) -> Peer {
    let begin = Instant::now();
    loop {
        match Peer::find(child.id()) {
            Ok(Some(peer)) => return peer,
            // The child may not have executed yet, or may be in the middle of publishing.
            Ok(None) | Err(PageError::Foreign) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "it never published");
        std::thread::yield_now();
    }
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_controller_reads_bounds_and_progress_until_the_program_dies() {
    let child = start();
    let peer = page_of(&child);
    let first = peer.read().expect("it lives");
    assert_eq!((first.least, first.most), (2, 8));
    while peer.read().expect("it lives").progress == first.progress {
        std::thread::yield_now();
    }
    let process = child.id();
    kill(child);
    assert!(!peer.is_alive());
    assert_eq!(peer.read(), None);
    peer.advise(3);
    assert!(matches!(Peer::find(process), Err(PageError::Denied(_))), "there is no such process");
}

#[test]
fn a_program_that_is_killed_at_any_moment_leaves_no_page() {
    let names = || {
        let folders = ["/dev/shm", "/tmp", "/run"].into_iter().filter_map(|f| std::fs::read_dir(f).ok());
        let names = folders.flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().contains("corun-page")).count()
    };
    for moment in moments(40) {
        let child = start();
        std::thread::sleep(moment);
        let peer = Peer::find(child.id());
        kill(child);
        if let Ok(Some(peer)) = peer {
            assert_eq!(peer.read(), None, "killed after {moment:?}");
        }
        assert_eq!(names(), 0, "killed after {moment:?}");
    }
}

#[test]
fn a_process_without_a_page_has_none_and_a_forked_child_does_not_have_its_parents() {
    let page = Page::publish(1, 1).unwrap();
    // The child inherits the descriptor, as a forked child does.
    let mut shell = Command::new("sleep");
    let fd = page.as_raw_fd();
    // SAFETY: dup is safe to call between fork and exec.
    unsafe {
        use std::os::unix::process::CommandExt;
        shell.pre_exec(move || {
            extern "C" {
                fn dup(fd: i32) -> i32;
            }
            assert!(dup(fd) >= 0);
            Ok(())
        });
    }
    let child = shell.arg("100").spawn().unwrap();
    assert!(matches!(Peer::find(child.id()), Ok(None)));
    assert!(Peer::find(std::process::id()).unwrap().is_some());
    kill(child);
}
