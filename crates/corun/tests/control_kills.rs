//! SIGKILL at any instant of the real `corun control`, with a policy on the test's own tenants. Afterwards
//! nothing of them is parked, moved, pinned or re-sliced, whether the controller died or its supervisor.
//!
//! A policy that parks and one that sets slices alternate. Each is killed 4 times in a test run, and
//! `CORUN_KILLS` times in a study. As many are killed while they advise a program, which still does all of
//! its work.

mod chaos;
mod hog;

use assert_cmd::cargo::CommandCargoExt;
use corun_adapt::{Crew, Mode, Peer, Width};
use hog::Hog;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A machine has one controller at a time.
static TURNS: Mutex<()> = Mutex::new(());

impl Hog {
    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).unwrap_or_default()
    }

    /// Everything about it that corun could change, and that does not change by itself: cgroups, CPUs,
    /// policy, nice, slice.
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

/// The supervisor of a controller: its child with that name.
fn supervisor_of(controller: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{controller}/task/{controller}/children")).ok()?;
    children.split_whitespace().filter_map(|p| p.parse().ok()).find(|pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c.contains("supervise"))
    })
}

/// How many are killed.
fn kills() -> u64 {
    std::env::var("CORUN_KILLS").map_or(4, |n| n.parse().unwrap())
}

/// A random instant in this time, a different one in each run and round.
fn any_instant(round: u64, within: Duration) -> Duration {
    let any = (u64::from(std::process::id()) << 32) + round + 1;
    Duration::from_micros(any.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) % within.as_micros() as u64)
}

/// Kills again and again; `false` if this machine does not allow control, which has been reported.
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
    let rounds = kills();
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
        // A random instant of its first 700 ms, a different one in each run: while it starts, plans, parks,
        // unparks.
        std::thread::sleep(any_instant(round, Duration::from_millis(700)));
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

/// One test, so that no controller is refused because of the other test's.
#[test]
fn whichever_is_killed_nothing_stays_parked_moved_pinned_or_re_sliced() {
    let _turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    for whom in ["controller", "supervisor"] {
        if !kill_again_and_again(whom) {
            return;
        }
    }
}

const IS_ADVISED: &str = "CORUN_TEST_IS_ADVISED";
const WORKERS: usize = 4;

/// The program of the next test, which runs this one in a process of its own. Until its input ends, a crew
/// does pieces of work, and parks superfluous workers. It reports the first advice, and that each piece was
/// done once.
#[test]
fn a_program_that_is_advised() {
    if std::env::var_os(IS_ADVISED).is_none() {
        return;
    }
    let width = Width::new(Mode::On, 1, WORKERS as u32).unwrap();
    let page = width.publish().unwrap();
    let crew = Crew::new(WORKERS, Duration::from_millis(1)).unwrap();
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let tell = |what: &str| writeln!(std::io::stdout(), "{what}").unwrap();
    let work = |worker: usize| {
        let mut done = Vec::new();
        crew.join(worker).unwrap();
        while !is_over.load(SeqCst) {
            done.push(next.fetch_add(1, SeqCst));
            let until = Instant::now() + Duration::from_micros(50);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            page.progress(1);
            crew.slots()[worker].beat();
            crew.refresh(&width);
            if !crew.is_wanted(worker) {
                crew.park(worker, Duration::MAX, &width);
            }
        }
        crew.slots()[worker].leave();
        done
    };
    let mut done = std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        scope.spawn(|| {
            while page.advice().is_none() && !is_over.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            tell("is advised");
        });
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        is_over.store(true, SeqCst);
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<u64>>()
    });
    done.sort_unstable();
    assert!(done.iter().copied().eq(0..next.load(SeqCst)), "a piece was done more or less than once");
    tell("each piece was done once");
}

#[test]
fn a_program_whose_controllers_are_killed_while_they_advise_it_does_all_of_its_work_once() {
    let _turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_program_that_is_advised"]).env(IS_ADVISED, "yes");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut program = command.spawn().unwrap();
    let (to, said) = std::sync::mpsc::channel();
    let lines = BufReader::new(program.stdout.take().unwrap()).lines();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| to.send(line)));
    let hear = |words: &str| loop {
        match said.recv_timeout(PATIENCE) {
            Ok(line) if line.contains(words) => break,
            Ok(_) => {}
            Err(error) => panic!("the program never said `{words}`: {error}"),
        }
    };
    let advise = || {
        let mut command = Command::cargo_bin("corun").unwrap();
        // If this test is ended, it ends by itself.
        command.args(["control", "observe", "-q", "--for", "60s", "--tenant", &program.id().to_string()]);
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let kill = |mut controller: std::process::Child| {
        let supervisor = supervisor_of(controller.id());
        controller.kill().unwrap();
        controller.wait().unwrap();
        let is_gone = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
        assert!(eventually(|| supervisor.is_none_or(is_gone)), "its supervisor goes on");
    };
    // The first one is killed once its advice is in force, the others at any instant: while they start,
    // observe, advise.
    let first = advise();
    hear("is advised");
    kill(first);
    for round in 0..kills() {
        let controller = advise();
        std::thread::sleep(any_instant(round, Duration::from_millis(1_500)));
        kill(controller);
    }
    let progress =
        || Peer::find(program.id()).unwrap().expect("it shares a page").read().expect("it lives").progress;
    let before = progress();
    assert!(eventually(|| progress() > before), "it stands still");
    drop(program.stdin.take());
    hear("each piece was done once");
    assert!(program.wait().unwrap().success());
}
