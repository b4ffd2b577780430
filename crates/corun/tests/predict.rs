//! `corun predict` and `corun verify` as a user runs them.

mod anybodys;
mod hog;
mod printed;

use assert_cmd::cargo::CommandCargoExt;
use corun_linux::cgroup::{Cgroups, Tree};
use corun_linux::Root;
use hog::Hog;
use printed::text;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

fn corun(args: &[&str]) -> Output {
    Command::cargo_bin("corun").unwrap().args(args).output().unwrap()
}

fn said(out: &Output) -> String {
    text(&out.stderr)
}

/// Hogs would disturb other tests: only one test that needs quiet or makes noise runs at a time.
static QUIET: Mutex<()> = Mutex::new(());

fn quiet() -> MutexGuard<'static, ()> {
    QUIET.lock().unwrap_or_else(PoisonError::into_inner)
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A loop that takes the first CPU as often as it can.
fn hog_of_the_first_cpu(folder: &Path) -> Hog {
    let hog = Hog::start(folder, "corun-test-hog");
    let pinned = Command::new("taskset").args(["-pc", "0", &hog.0.id().to_string()]).output().unwrap();
    assert!(pinned.status.success(), "{}", said(&pinned));
    hog
}

/// CPU time of a process, in clock ticks.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Waits until a process runs, as long as a busy machine may need.
fn runs(hog: &Hog) -> bool {
    let (before, deadline) = (ticks(hog.0.id()), Instant::now() + Duration::from_secs(30));
    while Instant::now() < deadline {
        if ticks(hog.0.id()) > before {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn is_root() -> bool {
    // SAFETY: takes and changes nothing.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn a_sleeping_command_is_clean_and_leaves_a_verdict_for_people_and_machines() {
    let _quiet = quiet();
    let folder = tempfile::tempdir().unwrap();
    let (json, junit) = (folder.path().join("v.json"), folder.path().join("v.xml"));
    let files = ["--json", json.to_str().unwrap(), "--junit", junit.to_str().unwrap()];
    // Next to somebody else's tests it may wait for a CPU when it starts and when it ends.
    let out = corun(&[&["verify", "--max-disturbance", "20%"], &files[..], &["--", "sleep", "1"]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(said(&out).contains("corun verify: clean"), "{}", said(&out));
    let value: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!((&value["schema"], &value["verdict"]), (&"corun.verify/1".into(), &"clean".into()));
    assert!(value["wall_ns"].as_u64().unwrap() >= 1_000_000_000);
    assert!(std::fs::read_to_string(junit).unwrap().contains("failures=\"0\""));
}

#[test]
fn a_command_that_shares_its_only_cpu_is_disturbed_and_exits_with_3() {
    let _quiet = quiet();
    let folder = tempfile::tempdir().unwrap();
    let _hog = hog_of_the_first_cpu(folder.path());
    let script = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    let out = corun(&["verify", "--max-disturbance", "20%", "--", "taskset", "-c", "0", "sh", "-c", script]);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(said(&out).contains("disturbed"), "{}", said(&out));
}

#[test]
fn a_command_that_fails_keeps_its_own_status() {
    assert_eq!(corun(&["verify", "-q", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(corun(&["predict", "-q", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(corun(&["predict", "-q", "--", "sh", "-c", "kill -SEGV $$"]).status.code(), Some(139));
    let folder = tempfile::tempdir().unwrap();
    let (report, junit) = (folder.path().join("v.json"), folder.path().join("v.xml"));
    let files = ["--json", report.to_str().unwrap(), "--junit", junit.to_str().unwrap()];
    let out = corun(&[&["verify"], &files[..], &["--", "sh", "-c", "kill -SEGV $$"]].concat());
    assert_eq!((out.status.code(), &json(&report)["exit_status"]), (Some(139), &139.into()));
    assert!(said(&out).contains("the command was killed by SIGSEGV (139)"), "{}", said(&out));
    assert_eq!(json(&report)["signal"], 11);
    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(xml.contains("errors=\"1\"") && xml.contains("failures=\"0\""), "{xml}");
}

#[test]
fn in_quiet_mode_the_verdict_comes_and_nothing_before_it() {
    let _quiet = quiet();
    let folder = tempfile::tempdir().unwrap();
    let _hog = hog_of_the_first_cpu(folder.path());
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let out = corun(&["verify", "-q", "--retries", "1", "--", "taskset", "-c", "0", "sh", "-c", script]);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(said(&out).starts_with("corun verify: disturbed"), "{}", said(&out));
    assert!(!said(&out).contains("running it again"), "{}", said(&out));
}

#[test]
fn a_run_that_is_disturbed_every_time_is_tried_as_often_as_allowed() {
    let _quiet = quiet();
    let folder = tempfile::tempdir().unwrap();
    let _hog = hog_of_the_first_cpu(folder.path());
    let report = folder.path().join("v.json");
    let script = "echo run; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let retries = ["verify", "--retries", "2", "--json", report.to_str().unwrap()];
    let out = corun(&[&retries[..], &["--", "taskset", "-c", "0", "sh", "-c", script]].concat());
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert_eq!(text(&out.stdout), "run\n".repeat(3));
    assert_eq!(json(&report)["tries"].as_array().unwrap().len(), 3);
    assert_eq!(said(&out).matches("running it again").count(), 2, "{}", said(&out));
}

#[test]
fn a_command_that_ends_in_a_dedicated_window_leaves_nobody_parked() {
    let _quiet = quiet();
    if !is_root() {
        println!("skipped: parking a process of another session needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hog = Hog::start(folder.path(), "corun-ends");
    let report = folder.path().join("p.json");
    // The first window opens after about 300 ms, so the command ends inside it or shortly before.
    let wide = ["predict", "-q", "--dedicated", "--window", "300ms", "--park", "corun-ends"];
    let out = corun(&[&wide[..], &["--json", report.to_str().unwrap(), "--", "sleep", "0.45"]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert_eq!(json(&report)["schema"], "corun.predict/1");
    assert!(runs(&hog), "it is still parked");
}

/// Whether a process reaches such a state (`R`: it runs or wants to) within some seconds.
fn becomes(pid: u32, is_wanted: impl Fn(char) -> bool) -> bool {
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    };
    let deadline = Instant::now() + Duration::from_secs(6);
    while !is_wanted(state()) {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn a_run_goes_on_and_keeps_its_status_if_dedicated_windows_end_in_the_middle() {
    let _quiet = quiet();
    if !is_root() {
        println!("skipped: parking a process of another session needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hog = Hog::start(folder.path(), "corun-stands");
    let report = folder.path().join("p.json");
    let mut command = Command::cargo_bin("corun").unwrap();
    // One window that is longer than corun may be stopped.
    command.args([
        "predict",
        "-q",
        "--dedicated",
        "--window",
        "4s",
        "--budget",
        "50%",
        "--park",
        "corun-stands",
    ]);
    command.args(["--json", report.to_str().unwrap(), "--"]);
    command.args(["sh", "-c", "timeout 7 sh -c 'while :; do :; done'; exit 7"]).stderr(Stdio::piped());
    let predict = command.spawn().unwrap();
    let signal = |signal| {
        // SAFETY: a signal to a child that nobody has waited for.
        assert_eq!(unsafe { libc::kill(predict.id() as i32, signal) }, 0);
    };
    if !becomes(hog.0.id(), |state| state != 'R') {
        println!("skipped: no window is opened where others than the hog want the CPUs");
        return drop(predict.wait_with_output());
    }
    signal(libc::SIGSTOP);
    let is_let_go = runs(&hog);
    signal(libc::SIGCONT);
    let out = predict.wait_with_output().unwrap();
    assert!(is_let_go, "the supervisor lets it go on");
    assert_eq!(out.status.code(), Some(7), "{}", said(&out));
    let found = json(&report);
    let missing = found["unavailable"].as_array().unwrap();
    let why = missing.iter().find(|u| u["what"] == "dedicated windows").map(|u| u["why"].to_string());
    assert!(why.as_ref().is_some_and(|why| why.contains("they ended after")), "{missing:?}");
    assert_eq!(found["method"], "ledger", "{found}");
    assert!(runs(&hog), "it is parked again");
}

#[test]
fn a_co_runner_that_forks_all_the_time_is_parked_and_goes_on_afterwards() {
    let _quiet = quiet();
    if !is_root() {
        println!("skipped: parking a process of another session needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hog = Hog::running(folder.path(), "corun-forks", "while :; do (:); done");
    let report = folder.path().join("p.json");
    let park = ["predict", "-q", "--dedicated", "--park", "corun-forks"];
    // By the clock, not by counting: half a second must have passed before the first window, however fast the
    // machine.
    let script = "timeout 3 sh -c 'while :; do :; done'; true";
    let out = corun(&[&park[..], &["--json", report.to_str().unwrap(), "--", "sh", "-c", script]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let found = json(&report);
    if found["dedicated_windows"]["opened"] == 0 && found["dedicated_windows"]["skipped"] != 0 {
        println!("skipped: somebody else keeps this machine busy: {}", found["unavailable"]);
        return;
    }
    assert!(found["parked_ns"].as_u64().unwrap() > 0, "{}", said(&out));
    assert!(!said(&out).contains("so nobody was parked"), "{}", said(&out));
    assert!(runs(&hog), "it is still parked");
}

#[test]
fn nobody_is_parked_for_windows_that_would_not_count() {
    let _quiet = quiet();
    if !is_root() {
        println!("skipped: parking a process of another session needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_may, _may_not) =
        (Hog::start(folder.path(), "corun-may"), Hog::start(folder.path(), "corun-may-not"));
    let report = folder.path().join("p.json");
    let park = ["predict", "-q", "--dedicated", "--park", "corun-may", "--json", report.to_str().unwrap()];
    let out = corun(&[&park[..], &["--", "timeout", "2", "sh", "-c", "while :; do :; done"]].concat());
    assert_eq!(out.status.code(), Some(124), "{}", said(&out));
    let found = json(&report);
    let windows = &found["dedicated_windows"];
    assert_eq!((&windows["opened"], &windows["parked_ns"]), (&0.into(), &0.into()), "{windows}");
    assert!(windows["skipped"].as_u64().unwrap() > 0, "{windows}");
    let reasons = found["unavailable"].as_array().unwrap();
    let why = reasons.iter().find(|u| u["what"] == "dedicated windows").unwrap()["why"].as_str().unwrap();
    assert!(why.contains("corun-may-not") && why.contains("with --park as well"), "{why}");
}

#[test]
fn with_counters_and_dedicated_windows_memory_cpi_and_mpki_are_reported_and_otherwise_the_reason() {
    let _quiet = quiet();
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("p.json");
    let script = "i=0; while [ $i -lt 2000000 ]; do i=$((i+1)); done";
    let predict = |flags: &[&str]| {
        let file = ["--json", report.to_str().unwrap(), "--", "sh", "-c", script];
        let out = corun(&[&["predict", "-q", "--dedicated"], flags, &file].concat());
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        json(&report)
    };
    let is_said = |p: &Value, what: &str| {
        p["unavailable"].as_array().unwrap().iter().any(|u| u["what"] == what && u["why"].is_string())
    };
    let blind = predict(&["--park", "nobody-of-this-name"]);
    assert!(blind["baselines"]["cpi"].is_null() && blind["counting_cost"].is_null(), "{blind}");
    assert!(blind["slowdown"].is_null() || blind["parts"]["memory"].is_null(), "{blind}");
    assert!(blind["slowdown"].is_null() || is_said(&blind, "memory"), "{blind}");
    let seen = predict(&["--park", "nobody-of-this-name", "--counters"]);
    if is_said(&seen, "hardware counters") {
        println!("skipped: no counters here: {}", seen["unavailable"]);
        return;
    }
    assert!(seen["counting_cost"].as_f64().is_some_and(|c| c > 0.0), "{seen}");
    if seen["method"] != "dedicated" {
        println!("skipped: too little of the machine for dedicated windows: {seen}");
        return;
    }
    assert!(is_said(&seen, "dedicated windows"), "nobody has that name: {seen}");
    // The stalls of such a short run may be too few to compare: then that is reported.
    assert!(seen["parts"]["memory"].is_number() || is_said(&seen, "memory"), "{seen}");
    // If events take turns on too few counters, cycles may not have been counted for long enough in such a
    // short run.
    let cpi = &seen["baselines"]["cpi"];
    let uncounted = cpi.is_null() && is_said(&seen, "exact counters");
    assert!(uncounted || cpi.as_f64().is_some_and(|x| x > 0.5 && x < 2.0), "{seen}");
}

#[test]
fn without_permission_the_ledger_still_predicts_and_says_what_is_missing() {
    if !is_root() {
        println!("skipped: only root can become somebody else");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done";
    let mut command = anybodys::corun(folder.path());
    let out = command
        .args(["predict", "-q", "--dedicated", "--json", "-", "--", "sh", "-c", script])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let said_json: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(said_json["source"], "schedstat");
    assert!(said_json["unavailable"].to_string().contains("eBPF"), "{said_json}");
    assert!(said_json["slowdown"].is_number() || said_json["cannot_tell"].is_string(), "{said_json}");
}

#[test]
fn every_estimate_is_a_line_of_json_and_a_program_that_only_sleeps_has_none() {
    let out = corun(&["predict", "--json-lines", "--", "sleep", "1.2"]);
    let lines: Vec<Value> = String::from_utf8_lossy(&out.stdout)
        .lines()
        .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e} in {l}")))
        .collect();
    assert!(lines.len() >= 2, "{lines:?}");
    assert!(lines.iter().all(|l| l["schema"] == "corun.predict/1"));
    assert!(lines.windows(2).all(|w| w[0]["elapsed_ns"].as_u64() < w[1]["elapsed_ns"].as_u64()));
    let spin_is_told_or_why_not = |l: &Value| {
        let why = |u: &Value| u["what"].as_str().is_some_and(|what| what.starts_with("spin"));
        l["spinning"]["interval"].is_array() || l["unavailable"].as_array().unwrap().iter().any(why)
    };
    assert!(lines.iter().all(spin_is_told_or_why_not), "{lines:?}");
    let last = lines.last().unwrap();
    assert!(last["slowdown"].is_null() == last["cannot_tell"].is_string(), "{last}");
}

#[test]
fn a_load_among_the_culprits_has_its_own_name_and_not_that_of_the_watching_corun() {
    let _quiet = quiet();
    let mut load = Command::cargo_bin("corun").unwrap();
    load.args(["load", "persistent", "--cpus", "0", "--duration", "60s", "-q", "--loops-per-ms", "100000"]);
    let mut load = load.process_group(0).stdout(Stdio::null()).spawn().unwrap();
    let (folder, busy) = (tempfile::tempdir().unwrap(), "while :; do :; done");
    let report = folder.path().join("p.json");
    let predict = ["predict", "-q", "--for", "2s", "--json", report.to_str().unwrap(), "--"];
    let cmd = ["taskset", "-c", "0", "timeout", "2.2", "sh", "-c", busy];
    let out = corun(&[&predict[..], &cmd].concat());
    load.kill().unwrap();
    load.wait().unwrap();
    assert_eq!(out.status.code(), Some(124), "{}", said(&out));
    let found = json(&report);
    if found["source"] != "ebpf" {
        println!("skipped: nobody can be named without eBPF");
        return;
    }
    let culprits = found["culprits"].as_array().unwrap();
    assert!(culprits.iter().any(|c| c["tenant"] == "corun load"), "{culprits:?}");
}

#[test]
fn a_record_that_does_not_fit_on_the_disk_is_reported() {
    let out = corun(&["predict", "-q", "--record", "/dev/full", "--", "sleep", "0.3"]);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    let why = "corun: cannot write --record: the disk is full; free some space\n";
    assert!(said(&out).ends_with(why), "{}", said(&out));
}

#[test]
fn a_confidence_may_be_given_in_per_cent_as_shares_may_everywhere() {
    for text in ["90%", "0.9"] {
        let out = corun(&["predict", "--confidence", text, "--json-lines", "--", "sleep", "0.1"]);
        assert_eq!(out.status.code(), Some(0), "{text}: {}", said(&out));
    }
}

#[test]
fn help_offers_nothing_that_is_always_refused() {
    let help = String::from_utf8(corun(&["predict", "--help"]).stdout).unwrap();
    assert!(help.contains("--cgroup") && !help.contains("--all"), "{help}");
}

#[test]
fn bad_usage_is_one_sentence_with_exit_code_2() {
    for (args, part) in [
        (&["predict", "--all"][..], "has no one to predict for"),
        (&["predict"], "name whom to watch: -p PID|--cgroup NAME|--vm NAME|-- CMD..."),
        (&["predict", "--confidence", "2", "--", "true"], "not between 0 and 100 %; give 95% or 0.95"),
        (&["predict", "--confidence", "100%", "--", "true"], "not between 0 and 100 %"),
        (&["predict", "--confidence", "often", "--", "true"], "`often` is not a number; give 95% or 0.95"),
        (&["predict", "--for", "0", "--", "true"], "no time at all"),
        (&["predict", "--dedicated", "--window", "10s", "--", "true"], "never fits into a budget"),
        (&["predict", "--budget", "2%", "--", "true"], "--dedicated"),
        (&["verify", "--max-disturbance", "often", "--", "true"], "is not a share of time"),
        (&["verify", "--junit", "-", "--", "true"], "--junit is a file, and standard output is none"),
        (&["verify", "--results", "/dev/stdout", "--", "true"], "--results is a file"),
        (&["predict", "--record", "-", "--", "true"], "--record -: windows go to a file"),
        (&["verify", "--", "no-such-command-at-all"], "no-such-command-at-all"),
        (&["predict", "--", "/"], "cannot execute `/`"),
        (&["verify", "--json", "/no/folder/v.json", "--", "false"], "the folder /no/folder does not exist"),
        (&["predict", "--html", "/no/folder/p.html", "--", "false"], "the folder /no/folder does not exist"),
        (&["verify"], "CMD"),
        (&["predict", "--json", "-", "--html", "-", "-p", "1"], "two files would go to `-`"),
    ] {
        let out = corun(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", said(&out));
        assert!(said(&out).contains(part), "{args:?}: {}", said(&out));
    }
}

#[test]
fn a_refused_command_keeps_an_earlier_runs_record() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("windows");
    std::fs::write(&file, "earlier").unwrap();
    for whom in [&["--all"][..], &["-p", "4194303"]] {
        let out = corun(&[&["predict", "--record", file.to_str().unwrap()][..], whom].concat());
        assert_eq!(out.status.code(), Some(2), "{whom:?}: {}", said(&out));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "earlier", "{whom:?}");
    }
}

/// Stops and releases a process: by signals, or by a cgroup that contains only it.
enum Holder {
    Signals(i32),
    Freezer { folder: PathBuf, file: PathBuf, words: [&'static str; 2], back: PathBuf, pid: u32 },
}

impl Holder {
    /// A cgroup in this tree for one process; `None` if the tree has no freezer, or none can be made.
    fn freezer(tree: &Tree, pid: u32) -> Option<Holder> {
        let (file, words) = match tree.is_v2() {
            true => ("cgroup.freeze", ["1", "0"]),
            false if tree.has_controller("freezer") => ("freezer.state", ["FROZEN", "THAWED"]),
            false => return None,
        };
        let folder = tree.mount.join(format!("corun-test-held-{pid}"));
        std::fs::create_dir(&folder).ok()?;
        let (file, back) = (folder.join(file), tree.mount.join("cgroup.procs"));
        let holder = Holder::Freezer { folder: folder.clone(), file, words, back, pid };
        std::fs::write(folder.join("cgroup.procs"), pid.to_string()).ok().map(|()| holder)
    }

    fn hold(&self, is: bool) {
        match self {
            Holder::Signals(pid) => {
                // SAFETY: a signal to a process that this test started and has not waited for.
                unsafe { libc::kill(*pid, if is { libc::SIGSTOP } else { libc::SIGCONT }) };
            }
            Holder::Freezer { file, words, .. } => std::fs::write(file, words[usize::from(!is)]).unwrap(),
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.hold(false);
        if let Holder::Freezer { folder, back, pid, .. } = self {
            let _ = std::fs::write(back, pid.to_string());
            // A task that was just thawed is still on its way.
            let deadline = Instant::now() + Duration::from_secs(5);
            while std::fs::remove_dir(&*folder).is_err() && folder.exists() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn a_program_that_somebody_holds_is_stopped_or_frozen_rather_than_waiting() {
    let _quiet = quiet();
    if !is_root() {
        println!("skipped: only root can freeze");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hog = Hog::start(folder.path(), "corun-test-held");
    let pid = hog.0.id();
    let cgroups = Cgroups::discover(&Root::new("/")).unwrap();
    let mut holders = vec![("stopped by a signal or a debugger", Holder::Signals(pid as i32))];
    let freezers = cgroups.trees().iter().filter_map(|tree| Holder::freezer(tree, pid));
    holders.extend(freezers.map(|freezer| ("frozen with its cgroup or the whole system", freezer)));
    let predicted = || {
        let out = corun(&["predict", "-q", "--json", "-", "-p", &pid.to_string(), "--for", "1500ms"]);
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        serde_json::from_slice::<Value>(&out.stdout).unwrap()
    };
    for (how, holder) in &holders {
        holder.hold(true);
        let always = predicted();
        if always["source"] != "ebpf" {
            println!("skipped: without eBPF nobody sees who is held");
            return;
        }
        let why = always["cannot_tell"].as_str().unwrap_or_else(|| panic!("{always}"));
        assert!(why.contains(&format!("it was {how} for 100 % of its time")), "{how}: {why}");
        let over = AtomicBool::new(false);
        let sometimes = std::thread::scope(|threads| {
            threads.spawn(|| {
                while !over.load(Relaxed) {
                    for is in [false, true] {
                        holder.hold(is);
                        std::thread::sleep(Duration::from_millis(60));
                    }
                }
            });
            let found = std::panic::catch_unwind(predicted);
            over.store(true, Relaxed);
            found.unwrap()
        });
        holder.hold(false);
        let [held, frozen] = ["held", "frozen"].map(|key| sometimes[key].as_f64().unwrap());
        assert!((0.05..0.95).contains(&held), "{how}: {held} of its time");
        let is_frozen = how.starts_with("frozen");
        assert_eq!(frozen, if is_frozen { held } else { 0.0 }, "{how}: {sometimes}");
    }
    assert!(holders.len() > 1, "no freezer was tried");
}
