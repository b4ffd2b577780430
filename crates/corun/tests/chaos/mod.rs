//! Chaos: cgroups, sessions, daemons, quotas, stops, freezers and affinities come and go at random while
//! corun profiles everybody, predicts and controls.
//!
//! The injector knows its actions, and a witness reads the tasks every few milliseconds. Each profile is
//! compared with these two: time that a task was stopped or frozen, or that the kernel counted as throttled,
//! is reported as such and has no culprit. Every sum is exact, nothing panics or hangs, and nothing stays
//! behind.
//!
//! A test run has a fixed seed and takes some seconds; `CHAOS_SEED` and `CHAOS_SECONDS` change them. The seed
//! determines the actions and their order, but not their times, which depend on the machine.

mod quarry;
mod reports;

use super::{eventually, hog::Hog, TURNS};
use assert_cmd::cargo::CommandCargoExt;
use corun_linux::cgroup::Cgroups;
use corun_linux::Root;
use quarry::{Quarry, Sample};
use serde_json::Value;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Mutex;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const QUARRIES: usize = 3;

/// The time that a run may take beyond the requested one.
const PATIENCE: Duration = Duration::from_secs(25);

/// Random numbers, the same ones for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable)
        .map_or(otherwise, |n| n.parse().unwrap_or_else(|_| panic!("{variable}={n}: not a number")))
}

/// The data that all threads of a test share.
struct Chaos {
    seed: u64,
    over: AtomicBool,
    wrong: Mutex<Vec<String>>,
    folder: PathBuf,
    /// The corun processes that were run.
    pids: Mutex<Vec<u32>>,
}

impl Chaos {
    fn goes_on(&self) -> bool {
        !self.over.load(Relaxed)
    }

    fn complain(&self, what: String) {
        println!("wrong: {what}");
        self.wrong.lock().unwrap().push(what);
    }

    /// Runs corun until it ends; its JSON, or `None` if it could not work on this machine.
    fn corun(&self, args: &[&str]) -> Option<Value> {
        let file = self.folder.join(format!("{}.json", args[0]));
        let _ = std::fs::remove_file(&file);
        let mut command = Command::cargo_bin("corun").unwrap();
        command.args(args).arg("-q").arg("--json").arg(&file);
        let errors = self.folder.join(format!("{}.err", args[0]));
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&errors).unwrap());
        let began = Instant::now();
        let mut child = command.spawn().unwrap();
        self.pids.lock().unwrap().push(child.id());
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if began.elapsed() > PATIENCE {
                let stands = quarry::stands(child.id());
                self.complain(format!("corun {args:?} is not over after {PATIENCE:?}; it stands:\n{stands}"));
                child.kill().unwrap();
                break child.wait().unwrap();
            }
            sleep(Duration::from_millis(20));
        };
        let said = String::from_utf8_lossy(&std::fs::read(errors).unwrap()).into_owned();
        if said.contains("already controls this machine") {
            println!("tried again: {}", said.trim());
            sleep(Duration::from_secs(1));
            return None;
        }
        if status.code() != Some(0) || said.contains("panicked") {
            self.complain(format!("corun {args:?}: {status}: {said}"));
            return None;
        }
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let value = serde_json::from_str(&text);
        value
            .map_err(|e| self.complain(format!("corun {args:?}: {e} in its JSON of {} bytes", text.len())))
            .ok()
    }
}

/// Sets these when dropped, so that no thread goes on if another panics.
struct Ends<'a>([&'a AtomicBool; 2]);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|over| over.store(true, Relaxed));
    }
}

/// Others that come and go: sessions, double forks, bursts of short commands, cgroups in cgroups, with and
/// without a quota.
struct Crowd<'a> {
    folder: &'a Path,
    mounts: Vec<PathBuf>,
    members: VecDeque<(Hog, Option<quarry::Folders>)>,
    started: u64,
}

impl Crowd<'_> {
    fn change(&mut self, chance: &mut Chance) -> String {
        if self.members.len() > 3 || (!self.members.is_empty() && chance.below(3) == 0) {
            self.members.pop_front();
            return "one of the crowd ends".into();
        }
        self.started += 1;
        let script = chance.of(&[
            "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done",
            "(setsid sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep .2' &); sleep 1",
            "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done",
            "i=0; while [ $i -lt 100 ]; do sleep 0.005; i=$((i+1)); done",
        ]);
        let hog = Hog::running(self.folder, &format!("crowd-{}", self.started), script);
        let mut group = None;
        if !self.mounts.is_empty() && chance.below(2) == 0 {
            let mount = &self.mounts[chance.below(self.mounts.len() as u64) as usize];
            group =
                quarry::Folders::make(mount, &format!("crowd{}", self.started), chance.below(3) as usize + 1)
                    .ok();
        }
        if let Some(group) = &group {
            group.allow(chance.of(&[None, Some(5), Some(30)]));
            group.add(hog.0.id());
        }
        self.members.push_back((hog, group));
        format!("crowd-{} begins: {script}", self.started)
    }
}

#[test]
fn whatever_happens_sums_are_exact_nobody_is_blamed_for_a_budget_and_nothing_stays() {
    let _turn = TURNS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // SAFETY: geteuid cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let chaos = Chaos {
        seed: number("CHAOS_SEED", 31),
        over: AtomicBool::new(false),
        wrong: Mutex::default(),
        folder: folder.path().to_owned(),
        pids: Mutex::default(),
    };
    let length = Duration::from_secs(number("CHAOS_SECONDS", 12));
    println!("CHAOS_SEED={} CHAOS_SECONDS={}", chaos.seed, length.as_secs());
    let cgroups = Cgroups::discover(&Root::new("/")).unwrap();
    let tenants = ["chaos-one", "chaos-two"].map(|name| Hog::start(folder.path(), name));
    let mut quarries: Vec<Quarry> = Vec::new();
    for n in 0..QUARRIES {
        match Quarry::start(folder.path(), &cgroups, n) {
            Ok(quarry) => quarries.push(quarry),
            Err(why) => return println!("skipped: {why}"),
        }
    }
    sleep(Duration::from_millis(100));
    let before = tenants.each_ref().map(Hog::state);
    let pids: Vec<u32> = quarries.iter().map(Quarry::pid).collect();
    let seen: Vec<quarry::Seen> = quarries.iter().map(Quarry::seen).collect();
    let samples = Mutex::new(vec![Vec::<Sample>::new(); QUARRIES]);
    let (mut profiles, mut compared, mut predictions, mut controls, mut events) = (0, 0, 0, 0, 0);
    let unwatched = &AtomicBool::new(false);
    scope(|threads| {
        let _ends = Ends([&chaos.over, unwatched]);
        let (chaos, samples, seen, pids) = (&chaos, &samples, &seen, &pids);
        let witness = threads.spawn(move || quarry::watch(seen, samples, || !unwatched.load(Relaxed)));
        let profiling = {
            threads.spawn(move || {
                let (mut profiles, mut compared) = (0, 0);
                while chaos.goes_on() {
                    let Some(report) = chaos.corun(&["profile", "--all", "--for", "2s"]) else { continue };
                    profiles += 1;
                    reports::adds_up(&report).into_iter().for_each(|w| chaos.complain(w));
                    // The kernel counts a throttled time when it ends.
                    sleep(2 * quarry::PERIOD);
                    for (n, pid) in pids.iter().enumerate() {
                        let seen = &mut samples.lock().unwrap()[n];
                        match reports::compare(&report, *pid, seen) {
                            Ok(is_compared) => compared += u32::from(is_compared),
                            Err(wrong) => chaos.complain(format!("task {pid}: {wrong}")),
                        }
                        // Older ones are not requested again.
                        let all = seen.len();
                        seen.drain(..all.saturating_sub(1000));
                    }
                }
                (profiles, compared)
            })
        };
        let predicting = {
            let pid = quarries[0].pid().to_string();
            threads.spawn(move || {
                let mut predictions = 0;
                while chaos.goes_on() {
                    let found = chaos.corun(&["predict", "-p", &pid, "--for", "2s"]);
                    predictions += u32::from(found.is_some_and(|f| f["schema"] == "corun.predict/1"));
                }
                predictions
            })
        };
        let controlling = {
            let ids = tenants.each_ref().map(|t| t.0.id().to_string());
            let mut chance = Chance(chaos.seed ^ 1);
            threads.spawn(move || {
                let mut controls = 0;
                while chaos.goes_on() {
                    let policy =
                        chance.of(&["gang", "controlled_contention", "differential", "paired_gang", "auto"]);
                    let guard = chance.of(&["on", "off"]);
                    let args = ["control", policy, "--backend", "stock", "--guard", guard, "--for", "2s"];
                    let Some(report) =
                        chaos.corun(&[&args[..], &["--tenant", &ids[0], "--tenant", &ids[1]]].concat())
                    else {
                        continue;
                    };
                    controls += 1;
                    reports::adds_up(&report["profile"]).into_iter().for_each(|w| chaos.complain(w));
                }
                controls
            })
        };
        let mut chance = Chance(chaos.seed);
        let mut mounts: Vec<PathBuf> = cgroups.trees().iter().map(|t| t.mount.clone()).collect();
        mounts.sort();
        let mut crowd = Crowd { folder: folder.path(), mounts, members: VecDeque::new(), started: 0 };
        let mut stopped = [false; 2];
        let until = Instant::now() + length;
        while Instant::now() < until {
            events += 1;
            let what = match chance.below(10) {
                0..6 => quarries[chance.below(QUARRIES as u64) as usize].change(&mut chance),
                6..9 => crowd.change(&mut chance),
                _ => {
                    let at = chance.below(2) as usize;
                    stopped[at] = !stopped[at];
                    quarry::signal(
                        tenants[at].0.id(),
                        if stopped[at] { libc::SIGSTOP } else { libc::SIGCONT },
                    );
                    format!("tenant {at} is stopped: {}", stopped[at])
                }
            };
            if std::env::var_os("CHAOS_TELL").is_some() {
                println!("{what}");
            }
            sleep(Duration::from_millis(10 + chance.below(60)));
        }
        tenants.iter().for_each(|t| quarry::signal(t.0.id(), libc::SIGCONT));
        chaos.over.store(true, Relaxed);
        controls += controlling.join().unwrap();
        predictions += predicting.join().unwrap();
        (profiles, compared) = profiling.join().unwrap();
        unwatched.store(true, Relaxed);
        witness.join().unwrap();
    });
    println!(
        "{events} changes, {profiles} profiles, {compared} ledgers held against the truth, {predictions} predictions, \
         {controls} controls"
    );
    quarries.iter_mut().for_each(Quarry::let_go);
    for quarry in &quarries {
        let ran = quarry.hog.ran();
        if !eventually(|| quarry.hog.ran() > ran) {
            chaos.complain(format!("a task of {} stands still", quarry.pid()));
        }
        if let Some(wrong) = quarry.is_not_as_left() {
            chaos.complain(wrong);
        }
    }
    let as_before = eventually(|| tenants.each_ref().map(Hog::state) == before);
    let ran = tenants.each_ref().map(Hog::ran);
    let all_run =
        eventually(|| tenants.each_ref().map(Hog::ran).iter().zip(&ran).all(|(now, then)| now > then));
    if !as_before || !all_run {
        let now = tenants.each_ref().map(Hog::state);
        chaos.complain(format!("tenants: run: {all_run}; they are {now:?} and were {before:?}"));
    }
    let runs = chaos.pids.lock().unwrap().clone();
    for tree in cgroups.trees() {
        for left in quarry::left_of(&tree.mount, &runs) {
            chaos.complain(format!("{} is left", left.display()));
        }
    }
    let wrong = chaos.wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "CHAOS_SEED={}: {}:\n{}", chaos.seed, wrong.len(), wrong.join("\n"));
    assert!(profiles > 0 && predictions > 0, "nothing was tried");
    if compared == 0 {
        println!(
            "skipped: this machine is too busy for the witness, so no ledger was held against the truth"
        );
    }
}
