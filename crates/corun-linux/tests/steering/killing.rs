//! The parked tenants when the controller or its supervisor dies or hangs, or when both die.

use super::actors::{
    self, eventually, options, seen, state_of, supervised_in, transients_of, v2_mount, Act, Actors,
};
use super::parts::outstanding;
use super::{alone, is_root, PATIENCE};
use corun_linux::backend::Backend;
use corun_linux::sched::{self, Attributes};
use corun_linux::stock::{Options, StockBackend};
use corun_linux::supervisor::journal::Journal;
use corun_linux::supervisor::undo::{Aspect, Task, Undo};
use corun_linux::supervisor::Supervised;
use corun_linux::{freezer, procfs, supervisor, Root};
use corun_model::{Action, Outcome, TaskId};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// A controller that opens window after window.
struct Controller {
    child: Child,
    supervisor: i32,
    said: BufReader<std::process::ChildStdout>,
}

impl Controller {
    fn start(folder: &Path, subject: &Actors, others: &Actors, lease_ms: u32) -> Controller {
        let list = |a: &Actors| a.pids().iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let environment = [
            ("FOLDER", folder.display().to_string()),
            ("SUBJECT", list(subject)),
            ("OTHERS", list(others)),
            ("LEASE_MS", lease_ms.to_string()),
        ];
        let mut child = actors::start("controller", &environment);
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut supervisor = 0;
        let mut line = String::new();
        while !line.contains("steers") {
            line.clear();
            if said.read_line(&mut line).unwrap() == 0 {
                let mut why = String::new();
                let _ = child.stderr.take().unwrap().read_to_string(&mut why);
                panic!("the controller did not start: {why}");
            }
            if let Some((_, pid)) = line.split_once("supervisor ") {
                supervisor = pid.trim().parse().unwrap();
            }
        }
        Controller { child, supervisor, said }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Stops it at an instant at which it has frozen somebody. It would not be enough that its tenants do not
    /// count for a while: on a busy machine that happens to any task that waits for a CPU.
    fn stop_while_it_parks(&self) {
        let parks = || transients_of(self.child.id()).iter().any(|t| freezer::is_frozen(t).unwrap_or(false));
        let is_stopped =
            || procfs::process_stat(&Root::new("/"), self.child.id()).is_ok_and(|s| s.state == 'T');
        assert!(eventually(PATIENCE, || {
            if !parks() {
                return false;
            }
            signal(self.pid(), libc::SIGSTOP);
            assert!(eventually(PATIENCE, is_stopped), "it does not stop");
            if !parks() {
                signal(self.pid(), libc::SIGCONT);
                return false;
            }
            true
        }));
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: a signal to a process that this test started.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// How often to kill: 20 times in a test run, `CORUN_KILLS` times in a study.
fn kills() -> u64 {
    std::env::var("CORUN_KILLS").map_or(20, |n| n.parse().unwrap())
}

/// A number below `n` that differs from round to round.
fn any_below(n: u64, round: u64) -> u64 {
    (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) % n
}

/// Kills `rounds` times at any instant of the first 160 ms, which is about two windows, and returns the median time
/// until everything was as before.
fn kill_again_and_again(rounds: u64, whom: impl Fn(&mut Controller)) -> Duration {
    let subject = Actors::spinning(1);
    let others = Actors::start(&[Act::Spin, Act::Spin, Act::Fork], false);
    let before = state_of(&others.pids());
    let mut times = Vec::new();
    let mut parked = 0;
    for round in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let mut controller = Controller::start(folder.path(), &subject, &others, 2000);
        std::thread::sleep(Duration::from_micros(any_below(160_000, round)));
        let pid = controller.child.id();
        parked += u32::from(others.stand_still(Duration::from_micros(50)));
        let start = Instant::now();
        whom(&mut controller);
        let no_frozen = || transients_of(pid).iter().all(|t| !freezer::is_frozen(t).unwrap_or(false));
        assert!(eventually(PATIENCE, no_frozen), "round {round}: somebody is frozen");
        let thawed = start.elapsed();
        assert!(others.run(PATIENCE), "round {round}: somebody stands still");
        let runs = start.elapsed();
        let is_as_before = || state_of(&others.pids()) == before && transients_of(pid).is_empty();
        assert!(eventually(PATIENCE, is_as_before), "round {round}: {:?}", state_of(&others.pids()));
        times.push((start.elapsed(), runs, thawed));
        assert!(eventually(PATIENCE, || !folder.path().join("corun").exists()), "the journal is gone");
    }
    times.sort();
    let worst = |of: fn(&(Duration, Duration, Duration)) -> Duration| {
        times.iter().map(of).max().unwrap_or_default().as_millis()
    };
    let median = times[rounds as usize / 2].0;
    println!(
        "{rounds} kills, {parked} of them while all stood still; at worst nobody is frozen after {} ms, all had their turn \
         on a CPU after {} ms, everything is as before after {} ms (median {} ms)",
        worst(|t| t.2),
        worst(|t| t.1),
        worst(|t| t.0),
        median.as_millis()
    );
    median
}

#[test]
fn a_controller_that_is_killed_leaves_nothing_parked_pinned_or_moved() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let median = kill_again_and_again(kills(), |controller| {
        controller.child.kill().unwrap();
        controller.child.wait().unwrap();
    });
    assert!(median < Duration::from_secs(1), "{median:?}");
}

#[test]
fn a_supervisor_that_is_killed_leaves_nothing_parked_pinned_or_moved() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let median = kill_again_and_again(kills(), |controller| {
        signal(controller.supervisor, libc::SIGKILL);
        let mut said = String::new();
        controller.said.read_to_string(&mut said).unwrap();
        assert!(said.contains("the supervisor has"), "{said}");
        assert_eq!(controller.child.wait().unwrap().code(), Some(3));
    });
    assert!(median < Duration::from_secs(1), "{median:?}");
}

#[test]
fn when_both_are_killed_restoring_cleans_up() {
    if !is_root() || v2_mount().is_none() {
        println!("skipped: nobody can be frozen here");
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let subject = Actors::spinning(1);
    let others = Actors::start(&[Act::Spin, Act::Fork], false);
    let before = state_of(&others.pids());
    for _ in 0..5 {
        let mut controller = Controller::start(folder.path(), &subject, &others, 2000);
        // While they are held, neither can react to the other's death before it dies itself.
        signal(controller.supervisor, libc::SIGSTOP);
        controller.stop_while_it_parks();
        let again = supervisor::restore(&Root::new("/"), &folder.path().join("corun")).unwrap_err();
        assert!(again.to_string().contains("already controls this machine"), "{again}");
        signal(controller.supervisor, libc::SIGKILL);
        controller.child.kill().unwrap();
        controller.child.wait().unwrap();
        assert_ne!(state_of(&others.pids()), before);
        let restore = || supervisor::restore(&Root::new("/"), &folder.path().join("corun"));
        // The killed supervisor releases the lock when it has gone.
        assert!(eventually(PATIENCE, || match restore() {
            Ok(restored) => restored.undone > 0 && restored.failed.is_empty(),
            Err(_) => false,
        }));
        assert!(others.run(PATIENCE));
        assert_eq!(state_of(&others.pids()), before);
        assert!(transients_of(controller.child.id()).is_empty());
    }
}

#[test]
fn a_journal_whose_controller_is_killed_while_it_is_renewed_is_complete() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("corun");
    for round in 0..100u64 {
        let environment = [("FOLDER", folder.display().to_string())];
        let mut child = actors::start("journal", &environment);
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("keeps it") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "it did not start");
        }
        std::thread::sleep(Duration::from_micros(200 + round * 37));
        child.kill().unwrap();
        child.wait().unwrap();
        let journal = Journal::open(&folder).unwrap();
        let left = journal.contents().unwrap();
        assert_eq!(left.controller, child.id(), "round {round}");
        let without_the_last = left.in_force.into_iter().take(outstanding().len());
        assert!(without_the_last.eq(outstanding()), "round {round}");
    }
}

#[test]
fn a_controller_that_hangs_loses_its_lease_and_notices() {
    if !is_root() || v2_mount().is_none() {
        println!("skipped: nobody can be frozen here");
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let subject = Actors::spinning(1);
    let others = Actors::start(&[Act::Spin, Act::Fork], false);
    let before = state_of(&others.pids());
    let mut controller = Controller::start(folder.path(), &subject, &others, 300);
    controller.stop_while_it_parks();
    assert!(others.run(PATIENCE), "somebody stands still");
    assert!(
        eventually(PATIENCE, || state_of(&others.pids()) == before),
        "{:?} was {before:?}, journal {:?}",
        state_of(&others.pids()),
        ["journal", "journal.2"].map(|file| std::fs::read_to_string(folder.path().join("corun").join(file)))
    );
    signal(controller.pid(), libc::SIGCONT);
    let mut said = String::new();
    controller.said.read_to_string(&mut said).unwrap();
    assert!(said.contains("given up on this controller, which was silent for too long"), "{said}");
    assert_eq!(controller.child.wait().unwrap().code(), Some(3));
    assert!(others.run(PATIENCE));
    assert!(eventually(PATIENCE, || state_of(&others.pids()) == before));
}

/// A supervisor over this very process, with a lease of 200 ms.
fn impatient(folder: &Path) -> supervisor::Options {
    supervisor::Options { lease: Duration::from_millis(200), ..supervised_in(folder) }
}

#[test]
fn changes_of_a_controller_between_two_hangs_are_restored_before_it_ends() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let actors = Actors::spinning(1);
    let root = Root::new("/");
    let (pid, before) = (actors.pids()[0], state_of(&actors.pids()));
    let start_ns = procfs::process_stat(&root, pid).unwrap().start_ns;
    let task = Task { tid: pid, start_ns, pid, pgid: 0 };
    let was = sched::attributes(pid).unwrap();
    let renice = || sched::set_attributes(pid, &Attributes { nice: was.nice + 3, slice_ns: 0, ..was });
    let undo = Undo::Task(task, Aspect::Nice { was: was.nice, set: was.nice + 3 });
    let mut supervised = Supervised::start(&root, &impatient(folder.path())).unwrap();
    supervised.change(&root, None, &undo, renice).unwrap().unwrap();
    assert_ne!(state_of(&actors.pids()), before);
    assert!(eventually(PATIENCE, || state_of(&actors.pids()) == before), "the lease is over");
    // Held up in the middle of a change, it makes it when it goes on, and is held up again before its
    // heartbeat.
    renice().unwrap();
    assert!(eventually(PATIENCE, || state_of(&actors.pids()) == before), "the change outlasts the lease");
    let lost = supervised.beat().unwrap_err().to_string();
    assert!(lost.contains("given up on this controller"), "{lost}");
}

/// How often the threads of a process have gone to sleep so far.
fn sleeps(pid: u32) -> u64 {
    let root = Root::new("/");
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let tids = threads.filter_map(|t| t.ok()?.file_name().to_str()?.parse().ok());
    tids.filter_map(|tid| procfs::switches(&root, pid, tid).ok()).map(|s| s.voluntary).sum()
}

#[test]
fn a_supervisor_is_watched_all_the_time_and_woken_rarely() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut supervised = Supervised::start(&Root::new("/"), &supervised_in(folder.path())).unwrap();
    let pid = supervised.pid();
    let (before, began) = (sleeps(pid), Instant::now());
    (0..1000).for_each(|_| supervised.beat().unwrap());
    let leases = began.elapsed().as_millis() as u64 / supervisor::LEASE.as_millis() as u64;
    let woken = sleeps(pid) - before;
    assert!(woken <= 20 * (leases + 1), "a thousand heartbeats woke it up {woken} times in {leases} leases");
    // SAFETY: a signal to a child that was not waited for.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    assert!(eventually(PATIENCE, || supervised.beat().is_err()), "it is gone");
}

#[test]
fn a_change_that_fails_the_second_time_leaves_the_first_to_be_undone() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new("/");
    let file = folder.path().join("weight");
    std::fs::write(&file, "100").unwrap();
    let undo = Undo::File { path: file.clone(), was: "100".into() };
    let mut supervised = Supervised::start(&root, &supervised_in(folder.path())).unwrap();
    let set = || std::fs::write(&file, "250");
    let (entry, ()) = supervised.change(&root, None, &undo, set).unwrap().unwrap();
    let refused = || Err::<(), _>(std::io::Error::from_raw_os_error(libc::EMFILE));
    assert!(supervised.change(&root, Some(entry), &undo, refused).unwrap().is_err());
    assert_eq!(supervised.finish(&root).unwrap().undone, 1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "100");
}

#[test]
fn a_tenant_that_cannot_be_released_at_once_is_released_in_the_end() {
    if !is_root() || v2_mount().is_none() {
        println!("skipped: nobody can be frozen here");
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let environment = [("FOLDER", folder.path().display().to_string())];
    let played = actors::start("exhausted", &environment).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&played.stdout);
    println!("{said}{}", String::from_utf8_lossy(&played.stderr));
    let expected = "parked: Done\nunparked: false\nstill parked: true\nparked then: {}, runs: true\n\
                    parked: Done\nunparked: false\nundone: Ok(())\nrun: true\n";
    assert!(said.contains(expected), "not\n{expected}");
}

#[test]
fn a_backend_that_lost_its_lease_draws_no_more_slices() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let actors = Actors::spinning(1);
    let before = state_of(&actors.pids());
    let options = Options { supervisor: impatient(folder.path()), ..options(folder.path(), &actors.pids()) };
    let mut backend = StockBackend::new(&Root::new("/"), options);
    backend.learn(&seen(&[&actors.pids()]));
    let task = TaskId(actors.pids()[0]);
    match backend.apply(&Action::Slice { task, min_ns: 10_000_000, max_ns: 30_000_000 }) {
        Outcome::Unsupported { why } => return println!("skipped: slices: {why:?}"),
        other => assert_eq!(other, Outcome::Done),
    }
    assert!(eventually(PATIENCE, || state_of(&actors.pids()) == before), "the lease is over");
    backend.learn(&seen(&[&actors.pids()]));
    assert_eq!(state_of(&actors.pids()), before);
    assert!(backend.beat().is_err());
}

#[test]
fn without_rights_own_processes_are_stopped_by_signals_and_others_are_refused() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).unwrap();
    let roots = Actors::spinning(1);
    let environment =
        [("FOLDER", folder.path().display().to_string()), ("OTHERS", roots.pids()[0].to_string())];
    let played = actors::start("nobody", &environment).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&played.stdout);
    println!("{said}{}", String::from_utf8_lossy(&played.stderr));
    if said.is_empty() {
        println!("skipped: this program cannot be started by another user");
        return;
    }
    for expected in [
        "someone else's: Refused { why: NotPermitted {",
        "own: Done",
        "own stand still: true",
        "stopped: Done",
        "unparked: true",
        "own run: true",
        "undone: Ok(())",
        "stopped stand still: true",
        "stopped run: true",
        "park: Yes { how: StopSignals",
    ] {
        assert!(said.contains(expected), "no `{expected}`");
    }
    assert!(!said.contains("run: false"));
    assert!(roots.run(PATIENCE));
}
