//! SIGKILL at any instant: the real `corun control` with a policy on test tenants of its own, and then nothing of them is
//! parked, moved, pinned or re-sliced, whether it was the controller that died or its supervisor.
//!
//! 4 kills of each in a test run, as many as `CORUN_KILLS` says in a study.

mod hog;

use assert_cmd::cargo::CommandCargoExt;
use hog::Hog;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

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
    let (mut times, mut parked) = (Vec::new(), 0);
    for round in 0..rounds {
        let mut command = Command::cargo_bin("corun").unwrap();
        command.args([
            "control",
            "gang",
            "--guard",
            "off",
            "--backend",
            "stock",
            "-q",
            "-o",
            "slot=20ms",
            "--json-lines",
        ]);
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
        // Any instant of its first 700 ms: while it starts, plans, parks, unparks.
        let at_us = (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) % 700_000;
        std::thread::sleep(Duration::from_micros(at_us));
        parked += u32::from(hogs.iter().any(|h| h.file("cgroup").contains("corun-park")));
        let start = Instant::now();
        let pid = if whom == "controller" { controller.id() } else { supervisor };
        // SAFETY: a signal to a process that this test started.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        let is_as_before = || hogs.iter().map(Hog::state).eq(before.iter().cloned());
        assert!(
            eventually(is_as_before),
            "round {round}: {:?} was {before:?}",
            hogs.iter().map(Hog::state).collect::<Vec<_>>()
        );
        let ran: Vec<u64> = hogs.iter().map(Hog::ran).collect();
        assert!(
            eventually(|| hogs.iter().zip(&ran).all(|(h, r)| h.ran() > *r)),
            "round {round}: one stands still"
        );
        times.push(start.elapsed());
        controller.wait().unwrap();
        // The next one is refused until this one's supervisor has gone.
        assert!(eventually(|| !Path::new(&format!("/proc/{supervisor}")).exists()));
    }
    times.sort();
    println!(
        "{rounds} kills of the {whom}, {parked} of them while tenants were enclosed; all as before and running after {} ms \
         (median), {} ms at worst",
        times[times.len() / 2].as_millis(),
        times[times.len() - 1].as_millis()
    );
    true
}

/// One test, so that no controller is refused because of the other's.
#[test]
fn whoever_is_killed_nothing_stays_parked_moved_pinned_or_re_sliced() {
    for whom in ["controller", "supervisor"] {
        if !kill_again_and_again(whom) {
            return;
        }
    }
}
