//! SIGKILL at any instant: the real `corun control` with a policy on test tenants of its own, and then nothing of them is
//! parked, moved, pinned or re-sliced, whether it was the controller that died or its supervisor.
//!
//! By turns a policy that parks and one that sets slices. 4 kills of each in a test run, as many as `CORUN_KILLS` says in a
//! study.

mod chaos;
mod hog;

use assert_cmd::cargo::CommandCargoExt;
use hog::Hog;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A machine has one controller at a time.
static TURNS: Mutex<()> = Mutex::new(());

impl Hog {
    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).unwrap_or_default()
    }

    /// Everything of it that corun could change, and did not change by itself: cgroups, CPUs, policy, nice, slice.
    fn state(&self) -> String {
        let pid = self.0.id();
        let attributes = corun_linux::sched::attributes(pid).ok();
        let cpus = corun_linux::sched::affinity(pid).ok();
        format!("{} {attributes:?} {cpus:?} {}", self.file("cgroup"), self.file("autogroup"))
    }

    /// CPU time so far, in ticks.
    fn ran(&self) -> u64 {
        let stat = self.file("stat");
        stat.rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .nth(11)
            .map_or(0, |t| t.parse().unwrap())
    }
}

fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// The supervisor of a controller: its child that says so.
fn supervisor_of(controller: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{controller}/task/{controller}/children")).ok()?;
    children.split_whitespace().filter_map(|p| p.parse().ok()).find(|pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c.contains("supervise"))
    })
}

/// Kills again and again; `false`: this machine does not let control, which has been said.
fn kill_again_and_again(whom: &str) -> bool {
    // SAFETY: geteuid cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: needs root");
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    let names = [format!("ckill-a-{whom}"), format!("ckill-b-{whom}")];
    let hogs: Vec<Hog> = names.iter().map(|name| Hog::start(folder.path(), &name[..12])).collect();
    std::thread::sleep(Duration::from_millis(50));
    let before: Vec<String> = hogs.iter().map(Hog::state).collect();
    let rounds: u64 = std::env::var("CORUN_KILLS").map_or(4, |n| n.parse().unwrap());
    let (mut times, mut changed) = (Vec::new(), 0);
    let policies =
        [&["gang", "-o", "slot=20ms", "-o", "together=false"][..], &["differential", "-o", "longest=40ms"]];
    for round in 0..rounds {
        let mut command = Command::cargo_bin("corun").unwrap();
        command.args(["control", "--guard", "off", "--backend", "stock", "-q", "--json-lines"]);
        command.args(policies[round as usize % 2]);
        for hog in &hogs {
            command.args(["--tenant", &hog.0.id().to_string()]);
        }
        let mut controller = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut supervisor = None;
        let armed = eventually(|| {
            supervisor = supervisor_of(controller.id());
            supervisor.is_some() || controller.try_wait().unwrap().is_some()
        });
        let Some(supervisor) = supervisor.filter(|_| armed) else {
            let said = controller.wait_with_output().unwrap().stderr;
            println!("skipped: {}", String::from_utf8_lossy(&said).trim());
            return false;
        };
        // Any instant of its first 700 ms, another one in each run: while it starts, plans, parks, unparks.
        let any = (u64::from(std::process::id()) << 32) + round + 1;
        let at_us = any.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) % 700_000;
        std::thread::sleep(Duration::from_micros(at_us));
        changed += u32::from(!hogs.iter().map(Hog::state).eq(before.iter().cloned()));
        let start = Instant::now();
        let pid = if whom == "controller" { controller.id() } else { supervisor };
        // SAFETY: a signal to a process that this test started.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        let ran: Vec<u64> = hogs.iter().map(Hog::ran).collect();
        assert!(
            eventually(|| hogs.iter().zip(&ran).all(|(h, r)| h.ran() > *r)),
            "round {round}: one stands still"
        );
        let runs = start.elapsed();
        let is_as_before = || hogs.iter().map(Hog::state).eq(before.iter().cloned());
        assert!(
            eventually(is_as_before),
            "round {round}: {:?} was {before:?}",
            hogs.iter().map(Hog::state).collect::<Vec<_>>()
        );
        times.push((runs, start.elapsed()));
        controller.wait().unwrap();
        // The next one is refused until this one's supervisor has gone.
        assert!(eventually(|| !Path::new(&format!("/proc/{supervisor}")).exists()));
    }
    let sorted = |of: fn(&(Duration, Duration)) -> Duration| {
        let mut all: Vec<u128> = times.iter().map(|t| of(t).as_millis()).collect();
        all.sort_unstable();
        all
    };
    let (runs, as_before) = (sorted(|t| t.0), sorted(|t| t.1));
    println!("{rounds} kills of the {whom}, {changed} of them while something was in force; in ms, sorted:");
    println!("until all had their turn on a CPU: {runs:?}");
    println!("until everything was as before: {as_before:?}");
    true
}

/// One test, so that no controller is refused because of the other's.
#[test]
fn whoever_is_killed_nothing_stays_parked_moved_pinned_or_re_sliced() {
    let _turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    for whom in ["controller", "supervisor"] {
        if !kill_again_and_again(whom) {
            return;
        }
    }
}
