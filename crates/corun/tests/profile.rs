//! `corun profile` as a user runs it: contract, exit codes, bad input, faults.

mod anybodys;
mod hog;

use assert_cmd::cargo::CommandCargoExt;
use corun_linux::cgroup::Cgroups;
use corun_linux::Root;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn corun(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("corun").unwrap();
    command.arg("profile").args(args);
    command
}

fn run(args: &[&str]) -> Output {
    corun(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

/// One clear sentence on stderr, exit code 2, nothing on stdout.
fn is_refused(args: &[&str], sentence: &str) {
    let output = run(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    assert!(stderr(&output).contains(sentence), "{args:?}: {}", stderr(&output));
    assert!(output.stdout.is_empty());
}

fn ns(v: &Value, key: &str) -> u64 {
    v[key].as_u64().unwrap_or_else(|| panic!("no {key} in {v}"))
}

/// The contract for every ledger and its culprits.
fn adds_up(account: &Value) {
    let l = &account["ledger"];
    let parts = ["compute_ns", "block_ns", "steal_ns", "throttled_ns", "parked_ns", "unknown_ns"];
    let measured = ["spin_ns", "stopped_ns", "frozen_ns"].map(|p| l[p].as_u64().unwrap_or(0));
    let sum: u64 = parts.iter().map(|p| ns(l, p)).chain(measured).sum();
    assert_eq!(sum, ns(l, "total_ns"));
    let culprits: u64 = account["culprits"].as_array().unwrap().iter().map(|c| ns(c, "steal_ns")).sum();
    assert_eq!(culprits + ns(account, "unattributed_ns"), ns(l, "steal_ns"));
}

#[test]
fn the_report_keeps_the_contract() {
    let output = run(&[
        "--json",
        "-",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.05",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let r = report(&output);
    assert_eq!((r["schema"].as_str(), r["host"].as_str()), (Some("corun.profile/1"), Some("live")));
    assert!(["ebpf", "schedstat"].contains(&r["source"].as_str().unwrap()));
    adds_up(&r["subject"]);
    assert_eq!(r["subject"]["tenant"]["name"], "sh");
    let tasks = r["tasks"].as_array().unwrap();
    assert!(!tasks.is_empty());
    for t in tasks {
        adds_up(t);
        assert_eq!(ns(&t["ledger"], "total_ns"), ns(t, "lifetime_ns"));
        assert!(t["tid"].is_u64() && t["name"].is_string() && t["events"]["blocked"].is_u64());
    }
    r["tenants"].as_array().unwrap().iter().for_each(adds_up);
    assert_eq!(r["subject"]["ledger"]["spin_ns"], Value::Null, "nobody has measured it");
    assert_eq!(r["subject"]["counters"], Value::Null);
    for key in ["idle_ns", "busy_ns", "host_steal_ns"] {
        assert!(r["machine"].get(key).is_some());
    }
    assert!(r["loss"]["events"].is_u64() && r["loss"]["unknown_ns"].is_u64());
    assert!(r["self"].get("cpu_ns").is_some() && r["self"].get("ns_per_switch").is_some());
    assert!(r["unavailable"].is_array());
    assert!(ns(&r["subject"]["ledger"], "block_ns") > 40_000_000, "it slept: {}", r["subject"]["ledger"]);
}

#[test]
fn the_cost_of_watching_is_that_of_the_window_and_not_of_loading_the_probe() {
    if !is_root() {
        println!("skipped: loading the probe needs root");
        return;
    }
    let child = corun(&["-q", "--all", "--for", "1s", "--json", "-"]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = u64::from(child.id());
    let r = report(&child.wait_with_output().unwrap());
    let own = r["tasks"].as_array().unwrap().iter().filter(|t| t["tid"] == pid);
    let on_cpu_ns: u64 = own.map(|t| ns(&t["ledger"], "compute_ns")).sum();
    let told_ns = ns(&r["self"], "cpu_ns");
    assert!(told_ns <= 3 * on_cpu_ns, "{told_ns} ns told, {on_cpu_ns} ns seen");
}

#[test]
fn requested_counters_are_not_reported_as_missing_for_lack_of_a_request() {
    let r = report(&run(&["-q", "--source", "schedstat", "--counters", "--json", "-", "--", "true"]));
    let why: Vec<&str> = (r["unavailable"].as_array().unwrap().iter())
        .filter(|u| u["what"] == "hardware counters")
        .filter_map(|u| u["why"].as_str())
        .collect();
    assert!(why.len() <= 1, "{why:?}");
}

#[test]
fn the_exit_status_is_the_commands_own() {
    assert_eq!(run(&["-q", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(run(&["-q", "--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    assert_eq!(run(&["-q", "--", "true"]).status.code(), Some(0));
}

#[test]
fn bad_input_is_one_sentence_and_exit_code_2() {
    is_refused(&["-p", "4194303"], "no process 4194303");
    is_refused(&["--cgroup", "no-such-thing.service"], "no-such-thing.service");
    is_refused(
        &["--cgroup", "/"],
        "is the root cgroup, which all processes here are in; watch everybody with --all",
    );
    is_refused(&["--vm", "no-such-vm"], "no virtual machine `no-such-vm`");
    is_refused(&["--", "/no/such/program"], "/no/such/program");
    is_refused(&["--", "/"], "/");
    is_refused(&[], "--all");
    is_refused(&["--all", "-p", "1"], "cannot be used with");
    is_refused(&["--all", "--for", "10"], "such as 500us, 10ms or 2s");
    is_refused(&["--trace", "x", "--source", "schedstat", "--all"], "--trace needs eBPF");
    is_refused(&["--html", "/no/folder/r.html", "--", "true"], "the folder /no/folder does not exist");
}

#[test]
fn a_report_that_cannot_be_written_still_shows_on_the_terminal() {
    let output = run(&["-q", "--html", "/dev/full", "--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write /dev/full"), "{}", stderr(&output));
    assert!(stderr(&output).contains("corun profile: true"), "{}", stderr(&output));
}

#[test]
fn a_commands_standard_output_stays_its_own() {
    let output = run(&["-q", "--", "echo", "hello"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n");
    let output = run(&["-q", "--all", "--for", "50ms"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("corun profile: everybody"));
}

#[test]
fn all_three_files_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (json, html, trace) = (path("r.json"), path("r.html"), path("r.perfetto"));
    let mut args = vec!["-q", "--json", &json, "--html", &html];
    if is_root() {
        args.extend(["--trace", trace.as_str()]);
    } else {
        println!("skipped: a trace needs root");
    }
    args.extend(["--", "sh", "-c", "sleep 0.5 & wait"]);
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let r: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    adds_up(&r["subject"]);
    assert!(r["timeline"].as_array().unwrap().len() >= 2, "a slot every 100 ms");
    assert!(std::fs::read_to_string(&html).unwrap().contains("</html>"));
    if is_root() && r["source"] == "ebpf" {
        assert!(std::fs::metadata(&trace).unwrap().len() > 1000);
    }
}

#[test]
fn ctrl_c_shows_what_was_seen_until_then() {
    let mut command = corun(&["-q", "--all", "--json", "-", "--for", "60s"]);
    // A background job's SIGINT is ignored, and corun leaves it so: here it is wanted.
    // SAFETY: signal() is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it handles Ctrl-C", || catches(child.id(), libc::SIGINT));
    // Before it watches, Ctrl-C ends it at once. Without eBPF the start of watching is invisible.
    let watches = || {
        let files = std::fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
        let mut files = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        files.any(|file| file.to_string_lossy().contains("bpf_link"))
    };
    let patience = std::time::Instant::now() + Duration::from_secs(10);
    while !watches() && std::time::Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(500));
    signal(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let r = report(&output);
    assert!(r["notes"].to_string().contains("interrupted"), "{}", r["notes"]);
    r["tenants"].as_array().unwrap().iter().for_each(adds_up);
}

#[test]
fn a_second_ctrl_c_ends_the_waiting_for_the_command_and_the_report_is_shown() {
    // Corun passes it to the command; this one goes on.
    let mut command = corun(&["-q", "--json", "-", "--", "sh", "-c", "trap '' INT; exec sleep 3"]);
    // SAFETY: signal() is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            Ok(())
        });
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let runs = || children(child.id()).iter().any(|&pid| status_of(pid, "Name:") == "sleep");
    wait_until("the command runs", runs);
    // Each is a signal of its own: the second comes after the first has been handled.
    let pending = || status_of(child.id(), "ShdPnd:").chars().any(|c| c != '0');
    for _ in 0..2 {
        signal(child.id(), libc::SIGINT);
        wait_until("the signal was taken", || !pending());
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(report(&output)["notes"].to_string().contains("interrupted"));
}

#[test]
fn a_target_that_ends_early_ends_the_measurement() {
    let mut target = Command::new("sleep").arg("5").spawn().unwrap();
    let pid = target.id().to_string();
    let waiter = std::thread::spawn(move || target.wait());
    let began = Instant::now();
    let output = run(&["-q", "-p", &pid, "--for", "60s", "--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(began.elapsed() < Duration::from_secs(50), "it went on without a target");
    assert!(report(&output)["notes"].to_string().contains("ended"));
    waiter.join().unwrap().unwrap();
}

/// A cgroup of the tree that corun searches first, and the end of its path; `None` with the reason printed.
fn empty_cgroup(name: &str) -> Option<PathBuf> {
    let cgroups = Cgroups::discover(&Root::new("/")).unwrap();
    let folder = cgroups.by_telling().first().map(|tree| tree.mount.join(name))?;
    match std::fs::create_dir(&folder) {
        Ok(()) => Some(folder),
        Err(e) => {
            println!("skipped: no cgroup can be made here: {e}");
            None
        }
    }
}

#[test]
fn a_cgroup_may_be_empty_when_it_is_watched_and_its_removal_ends_the_measurement() {
    for source in ["auto", "schedstat"] {
        let name = format!("corun-test-{}-{source}", std::process::id());
        let Some(folder) = empty_cgroup(&name) else { return };
        let mut command =
            corun(&["-q", "--source", source, "--cgroup", &name, "--for", "60s", "--json", "-"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, format!("corun: cgroup {name} is empty; processes that come will be watched\n"));
        // A process that comes, goes, and comes again is the subject.
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(700));
            assert!(child.try_wait().unwrap().is_none(), "{source}: it ended while the cgroup was there");
            let mut member = Command::new("sleep").arg("0.5").spawn().unwrap();
            std::fs::write(folder.join("cgroup.procs"), member.id().to_string()).unwrap();
            member.wait().unwrap();
        }
        let began = Instant::now();
        wait_until("the cgroup is empty", || std::fs::remove_dir(&folder).is_ok());
        let output = child.wait_with_output().unwrap();
        assert!(began.elapsed() < Duration::from_secs(50), "{source}: it went on without a cgroup");
        let r = report(&output);
        assert!(r["notes"].to_string().contains("the subject ended"), "{}", r["notes"]);
        assert!(ns(&r["subject"], "task_count") >= 2, "{source}: {}", r["subject"]);
    }
}

#[test]
fn a_target_that_forks_away_is_followed() {
    if !is_root() {
        println!("skipped: following every fork needs eBPF");
        return;
    }
    let away = "(setsid sh -c 'sleep 0.3; exec sleep 0.2' &) ; exec sleep 0.8";
    let r = report(&run(&["-q", "--json", "-", "--", "sh", "-c", away]));
    if r["source"] != "ebpf" {
        println!("skipped: no eBPF here");
        return;
    }
    let sleepers = r["tasks"].as_array().unwrap().iter().filter(|t| t["name"] == "sleep").count();
    assert!(sleepers >= 3, "{sleepers} sleepers");
}

#[test]
fn later_children_of_a_shell_between_corun_and_a_watched_ancestor_belong_to_the_ancestor() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.json");
    // The given shell starts another, which starts corun, and a loop once corun has begun: that computes for
    // a second.
    let corun = Command::cargo_bin("corun").unwrap().get_program().to_owned();
    let between = "$CORUN profile -q -p $PPID --for 4s --json $FILE & sleep 2; timeout 1 sh -c 'while :; do :; done'; wait";
    let mut ancestor = Command::new("sh");
    ancestor.args(["-c", "sh -c \"$BETWEEN\"; true"]);
    let output = ancestor.env("CORUN", corun).env("FILE", &file).env("BETWEEN", between).output().unwrap();
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{e}: {}", stderr(&output)));
    let r: Value = serde_json::from_str(&text).unwrap();
    adds_up(&r["subject"]);
    let ledger = &r["subject"]["ledger"];
    let wanted_ns = ns(ledger, "compute_ns") + ns(ledger, "steal_ns");
    assert!(wanted_ns > 500_000_000, "a loop of a second wants a CPU: {ledger}");
    let is_of_it = |t: &Value| t["name"].as_str().is_some_and(|name| name.starts_with("corun"));
    assert!(!r["tasks"].as_array().unwrap().iter().any(is_of_it), "it is nobody's: {}", r["tasks"]);
}

#[test]
fn without_root_the_ledger_is_there_and_the_culprits_are_said_to_be_missing() {
    if !is_root() {
        println!("skipped: only root can become somebody else");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = anybodys::corun(folder.path());
    let output =
        command.args(["profile", "-q", "--json", "-", "--", "sh", "-c", "sleep 0.3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let r = report(&output);
    assert_eq!(r["source"], "schedstat");
    adds_up(&r["subject"]);
    assert!(r["unavailable"].to_string().contains("culprits"), "{}", r["unavailable"]);
}

#[test]
fn an_unavailable_trace_is_refused_before_the_command_begins() {
    if !is_root() {
        println!("skipped: only root can become somebody else");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = anybodys::corun(folder.path());
    command.args(["profile", "-q", "--trace", "/tmp/corun-test.perfetto", "--", "echo", "it ran"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.starts_with("corun: --trace needs eBPF: ") && said.lines().count() == 1, "{said}");
    assert!(said.ends_with("drop --trace\n"), "{said}");
    assert!(output.stdout.is_empty(), "the command ran: {:?}", output.stdout);
    assert!(!std::path::Path::new("/tmp/corun-test.perfetto").exists());
}

#[test]
fn corun_itself_is_not_a_co_runner_named_corun() {
    let watching =
        || corun(&["-q", "--source", "ebpf", "--all", "--for", "300ms", "--json", "-"]).output().unwrap();
    if !watching().status.success() {
        println!("skipped: no eBPF here");
        return;
    }
    let mut load = Command::cargo_bin("corun").unwrap();
    load.args(["load", "cpu", "-q", "--loops-per-ms", "50000", "--duration", "1m"]).process_group(0);
    let mut load = load.stdout(Stdio::null()).spawn().unwrap();
    let r = report(&watching());
    load.kill().unwrap();
    load.wait().unwrap();
    let tenants = r["tenants"].as_array().unwrap();
    let own: Vec<&Value> = tenants.iter().filter(|t| t["tenant"]["kind"] == "watcher").collect();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0]["tenant"]["name"], "corun itself");
    let key = format!("pgid:{}", load.id());
    let co_runner = tenants.iter().find(|t| t["key"] == key.as_str()).expect("the load is a tenant");
    assert_eq!(
        (&co_runner["tenant"]["kind"], &co_runner["tenant"]["name"]),
        (&"command".into(), &"corun load".into())
    );
}

#[test]
fn nothing_stays_in_the_kernel_when_corun_is_killed() {
    if !run(&["-q", "--source", "ebpf", "--all", "--for", "1ms"]).status.success() {
        println!("skipped: no eBPF here");
        return;
    }
    let mut ours = BTreeSet::new();
    // While it starts, while it loads its programs, and when it has them all.
    for after_ms in [Some(5), Some(60), Some(300), None] {
        let mut child = corun(&["-q", "--all"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        match after_ms {
            Some(ms) => std::thread::sleep(Duration::from_millis(ms)),
            None => wait_until("it watches", || corun_bpf::programs_of(pid).len() > 4),
        }
        signal(pid, libc::SIGSTOP); // so that its present programs are all that it ever held
        wait_until("it is stopped", || status_of(pid, "State:").starts_with('T'));
        ours.extend(corun_bpf::programs_of(pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    wait_until("its programs are gone", || corun_bpf::loaded_programs().is_disjoint(&ours));
}

/// Waits as long as a busy machine may need.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "waited a minute until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A field of a process's status; empty if the process has gone.
fn status_of(pid: u32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|l| l.strip_prefix(field)).unwrap_or_default().trim().to_owned()
}

/// The children of a process.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Whether a process has a handler of its own for a signal.
fn catches(pid: u32, signal: i32) -> bool {
    u64::from_str_radix(&status_of(pid, "SigCgt:"), 16).is_ok_and(|caught| caught >> (signal - 1) & 1 == 1)
}

fn is_root() -> bool {
    // SAFETY: takes and changes nothing.
    unsafe { libc::geteuid() == 0 }
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: our own child, not yet waited for.
    unsafe { libc::kill(pid as i32, signal) };
}

#[test]
fn corun_is_not_to_watch_itself() {
    for verb in ["profile", "predict"] {
        let script = format!("exec \"$0\" {verb} -p $$ --for 1s");
        let out = Command::new("sh").arg("-c").arg(script).arg(corun(&[]).get_program()).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{verb}: {out:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("corun itself"), "{verb}: {out:?}");
    }
}

#[test]
fn every_verb_that_starts_a_command_says_how_it_failed() {
    for verb in ["profile", "predict", "verify"] {
        for (script, status, said) in [("exit 7", 7, "status 7"), ("kill -9 $$", 137, "SIGKILL (137)")] {
            let mut command = Command::cargo_bin("corun").unwrap();
            let output = command.args([verb, "--", "sh", "-c", script]).output().unwrap();
            assert_eq!(output.status.code(), Some(status), "{verb}: {}", stderr(&output));
            assert!(stderr(&output).contains(said), "{verb}: {}", stderr(&output));
        }
    }
}

#[test]
fn a_signal_to_corun_alone_interrupts_its_command() {
    for verb in ["profile", "predict", "verify"] {
        let mut command = Command::cargo_bin("corun").unwrap();
        command.args([verb, "--", "sh", "-c", "echo $$; exec sleep 60"]).stdout(Stdio::piped());
        // SAFETY: signal() is async-signal-safe; whoever is started in the background ignores this one.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut corun = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(corun.stdout.take().unwrap()).read_line(&mut line).unwrap();
        // SAFETY: kill takes two integers; the child was not collected, so that the PID is its own.
        assert_eq!(unsafe { libc::kill(corun.id() as i32, libc::SIGINT) }, 0);
        let output = corun.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{verb}: {}", stderr(&output));
        let left = std::fs::read_to_string(format!("/proc/{}/comm", line.trim()));
        assert!(left.is_err(), "{verb}: the command runs on: {left:?}");
    }
}

/// A program that works in short turns and is pinned to a CPU, next to a loop on the same one.
fn worst_of(args: &[&str]) -> Value {
    report(&run(&[&["-q", "--worst", "5", "--json", "-"], args].concat()))
}

/// The conditions for the waits of every report: their parts sum, and their total is at most that of the
/// ledgers.
fn waits_add_up(r: &Value) -> Vec<Value> {
    let waits = r["worst_waits"].as_array().unwrap().clone();
    for wait in &waits {
        let parts = wait["parts"].as_array().unwrap();
        assert_eq!(parts.iter().map(|p| ns(p, "ns")).sum::<u64>(), ns(wait, "wait_ns"), "{wait}");
    }
    for task in r["tasks"].as_array().unwrap() {
        let waited: u64 = waits.iter().filter(|w| w["tid"] == task["tid"]).map(|w| ns(w, "wait_ns")).sum();
        let ledger = &task["ledger"];
        let told = ns(ledger, "steal_ns") + ns(ledger, "throttled_ns");
        assert!(waited <= told, "waits of {waited} ns, the ledger has {told} ns: {task}");
    }
    waits
}

/// The tests of single waits pin loops to the same CPU.
static PINNED: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn the_longest_waits_say_that_the_loop_on_the_same_cpu_held_it() {
    let _turn = PINNED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !is_root() {
        println!("skipped: --worst needs eBPF, and that root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hog =
        hog::Hog::running(folder.path(), "waits-hog", "taskset -p 1 $$ > /dev/null; while :; do :; done");
    let hog_tid = u64::from(hog.0.id());
    // Until the loop has pinned itself.
    std::thread::sleep(Duration::from_millis(300));
    let loops = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
    let r = worst_of(&["--", "taskset", "1", "sh", "-c", loops]);
    let waits = waits_add_up(&r);
    assert_eq!(waits.len(), 5, "{}", r["worst_waits"]);
    for wait in &waits {
        assert_eq!(wait["over"], true, "{wait}");
        assert!(
            ["preempted", "task", "interrupt", "soft_interrupt"].contains(&wait["began"].as_str().unwrap())
        );
    }
    // Nobody held the CPU for longer than the loop, however many others use it.
    let mut held = std::collections::BTreeMap::new();
    for part in waits.iter().flat_map(|wait| wait["parts"].as_array().unwrap()) {
        *held.entry(part["task"]["tid"].as_u64()).or_insert(0) += ns(part, "ns");
    }
    let most = held.iter().max_by_key(|(_, ns)| **ns).map(|(tid, _)| *tid);
    assert_eq!(most, Some(Some(hog_tid)), "{held:?}: {}", r["worst_waits"]);
    assert_eq!(waits[0]["parts"][0]["turns"].as_u64().map(|n| n > 0), Some(true));
}

#[test]
fn the_longest_waits_of_a_process_and_of_everybody_are_found_too() {
    let _turn = PINNED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !is_root() {
        println!("skipped: --worst needs eBPF, and that root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "taskset -p 1 $$ > /dev/null; while :; do :; done";
    let one = hog::Hog::running(folder.path(), "waits-one", script);
    let _two = hog::Hog::running(folder.path(), "waits-two", script);
    let pid = one.0.id().to_string();
    let r = worst_of(&["-p", &pid, "--for", "1s"]);
    let waits = waits_add_up(&r);
    assert!(!waits.is_empty() && waits.iter().all(|wait| wait["tid"] == one.0.id()), "{}", r["worst_waits"]);
    let everybody = worst_of(&["--all", "--for", "1s"]);
    assert!(!waits_add_up(&everybody).is_empty());
    // Without a request there is no cost and no output.
    let unasked = report(&run(&["-q", "--json", "-", "-p", &pid, "--for", "200ms"]));
    assert_eq!(unasked["worst_waits"], Value::Null);
}

#[test]
fn waits_without_ebpf_are_refused() {
    is_refused(&["--source", "schedstat", "--worst", "3", "--", "true"], "--worst needs eBPF");
    is_refused(&["--worst", "0", "--", "true"], "--worst");
}
