//! `corun control` and `corun policies` as a user runs them. Nothing here is parked but these tests' own processes.

mod anybodys;
mod begins;
mod hog;

use assert_cmd::cargo::CommandCargoExt;
use corun_adapt::{Mode, Width};
use hog::Hog;
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

fn corun(args: &[&str]) -> Output {
    Command::cargo_bin("corun").unwrap().args(args).output().unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Tests that change something on this machine take turns: it has one controller at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURNS: Mutex<()> = Mutex::new(());
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn every_policy_is_listed_with_how_this_machine_sets_its_knobs() {
    let out = corun(&["policies", "--json"]);
    let value: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(value["schema"], "corun.policies/1");
    let policies = value["policies"].as_array().unwrap();
    let names: Vec<&str> = policies.iter().map(|p| p["name"].as_str().unwrap()).collect();
    for name in ["observe", "auto", "gang", "paired_gang", "controlled_contention", "delayed_preemption"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let gang = policies.iter().find(|p| p["name"] == "gang").unwrap();
    assert_eq!(gang["knobs"][0], "park");
    for backend in gang["backends"].as_array().unwrap() {
        assert!(backend["knobs"][0]["how"].as_str().is_some_and(|h| !h.is_empty()), "{backend}");
    }
    let text = String::from_utf8_lossy(&corun(&["policies"]).stdout).into_owned();
    assert!(names.iter().all(|n| text.contains(n)), "{text}");
}

#[test]
fn a_dry_run_says_what_it_would_do_and_touches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let _hogs = ["corun-hog-a", "corun-hog-b"].map(|name| Hog::start(folder.path(), name));
    let out = corun(&[
        "control",
        "gang",
        "-o",
        "together=false",
        "--tenant",
        "corun-hog-a",
        "--tenant",
        "corun-hog-b",
        "--dry-run",
        "--for",
        "2s",
        "--json-lines",
    ]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let lines: Vec<Value> = String::from_utf8_lossy(&out.stdout)
        .lines()
        .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e} in {l}")))
        .collect();
    assert!(lines.iter().all(|l| l["schema"] == "corun.control/1" && l["backend"] == "none"), "{lines:?}");
    let decisions: Vec<&Value> = lines.iter().flat_map(|l| l["decision"].as_array().unwrap()).collect();
    assert!(decisions.iter().any(|d| d["knob"] == "park"), "nobody would have been parked: {lines:?}");
    assert!(decisions.iter().all(|d| d["outcome"] == "dry_run" && d["because"].is_string()));
}

#[test]
fn a_dry_run_shows_what_auto_would_try_and_invents_no_gain_of_slots_that_did_not_happen() {
    let folder = tempfile::tempdir().unwrap();
    let threads = std::thread::available_parallelism().unwrap().to_string();
    // Each with a name and a session of its own.
    let load = |name: &str, program: &str| {
        let corun = assert_cmd::cargo::cargo_bin("corun");
        let script = format!("exec {} load {program} --threads {threads} --duration 60s -q", corun.display());
        Hog::running(folder.path(), name, &script)
    };
    let loads = [load("corun-hog-par", "parallel --wait spin"), load("corun-hog-cpu", "cpu")];
    let pids = loads.each_ref().map(|load| load.0.id().to_string());
    std::thread::sleep(std::time::Duration::from_millis(500));
    let mut args = vec!["control", "auto", "--dry-run", "--for", "4s", "--json-lines"];
    pids.iter().for_each(|pid| args.extend(["--tenant", pid]));
    let out = corun(&args);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let lines = String::from_utf8_lossy(&out.stdout).into_owned();
    let decided: Vec<Value> = lines
        .lines()
        .flat_map(|l| serde_json::from_str::<Value>(l).unwrap()["decision"].as_array().unwrap().clone())
        .collect();
    if decided.is_empty() {
        println!("skipped: with what else runs here, neither of the two lacks its share");
    }
    for d in &decided {
        let outcome = d["outcome"].as_str().unwrap();
        assert_eq!(d["reason"], "would_try", "{d}");
        assert!(outcome.starts_with("dry_run: "), "{d}");
    }
    // Each of them is proposed to wait once at most.
    assert!(decided.len() <= pids.len(), "{lines}");
}

#[test]
fn a_run_leaves_a_page_and_a_trace_of_its_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let _hogs = ["corun-hog-c", "corun-hog-d"].map(|name| Hog::start(folder.path(), name));
    let (html, trace) = (folder.path().join("report.html"), folder.path().join("report.pftrace"));
    let out = Command::cargo_bin("corun")
        .unwrap()
        .args([
            "control",
            "gang",
            "-o",
            "together=false",
            "--tenant",
            "corun-hog-c",
            "--tenant",
            "corun-hog-d",
            "--dry-run",
            "--for",
            "2s",
        ])
        .args(["-q".as_ref(), "--html".as_ref(), html.as_os_str(), "--trace".as_ref(), trace.as_os_str()])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let page = std::fs::read_to_string(html).unwrap();
    for part in [
        "corun-hog-c",
        "would have parked 2 tenants",
        "one tenant at a time",
        "A dry run: nothing was changed",
    ] {
        assert!(page.contains(part), "no `{part}`");
    }
    let trace = std::fs::read(trace).unwrap();
    for part in ["corun control: gang", "corun-hog-d", "parked", "why: park"] {
        assert!(trace.windows(part.len()).any(|w| w == part.as_bytes()), "no `{part}`");
    }
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("× park: skips a slot: one tenant at a time (dry_run)"), "{text}");
}

#[test]
fn a_tenant_that_cannot_be_controlled_is_refused_before_anything_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let hog = Hog::start(folder.path(), "corun-hog-e");
    let state = || {
        let pid = hog.0.id();
        (
            corun_linux::sched::attributes(pid).ok(),
            std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok(),
        )
    };
    let before = state();
    // SAFETY: getppid cannot fail.
    let parent = unsafe { libc::getppid() }.to_string();
    let (told, thread) = std::sync::mpsc::channel();
    // SAFETY: gettid cannot fail.
    std::thread::spawn(move || told.send(unsafe { libc::gettid() }).map(|()| std::thread::park()));
    let (tid, process) =
        (thread.recv().unwrap().to_string(), format!("give the process: {}", std::process::id()));
    for (args, parts) in [
        // An empty tenant: a name that nobody has, a PID that nobody has.
        (&["--tenant", "corun-nobody"][..], ["--tenant corun-nobody", "nothing by that name runs here"]),
        (&["--tenant", "corun-hog-e", "--tenant", "4194303"], ["--tenant 4194303", "no such process"]),
        // A thread that is no process.
        (&["--tenant", &tid], ["is a thread of process", &process]),
        // A key of something that does not exist, and an invalid key.
        (&["--tenant", "cgroup:/corun-nowhere"], ["there is no such cgroup", "make it first"]),
        (&["--tenant", "pgid:4194303"], ["there is no such process group", "lists who is there"]),
        (&["--tenant", "corun-nobody:80"], ["nothing by that name runs here", "lists who is there"]),
        // The process that corun was started from, as a terminal is.
        (&["--tenant", &parent], ["corun is it or was started from it", "name another one"]),
        (&["--tenant", "1"], ["--tenant 1", "it is the first process"]),
        (
            &["--tenant", "corun-hog-e", "--protect", "corun-hog-e"],
            ["--protect names it", "name another one"],
        ),
        (
            &["--tenant", "corun-hog-e", "--html", "/no/such/x.html"],
            ["--html /no/such/x.html", "make it first"],
        ),
        (&["--tenant", "corun-hog-e", "--epoch", "10us"], ["--epoch 10", "give 1.00 ms or more"]),
    ] {
        let mut all = vec!["control", "gang", "--for", "1s", "-q"];
        all.extend(args);
        let out = corun(&all);
        let said = said(&out);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{args:?}: {said}");
        assert_eq!(said.trim().lines().count(), 1, "one sentence: {said}");
        assert_eq!(state(), before, "{args:?}");
    }
}

fn is_root() -> bool {
    // SAFETY: takes and changes nothing.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn without_permission_own_tenants_are_controlled_and_others_are_refused() {
    let _alone = alone();
    if !is_root() {
        println!("skipped: only root can become somebody else");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hog = Hog::start(folder.path(), "corun-hog-l");
    let pid = hog.0.id().to_string();
    let nobody = || {
        let mut command = anybodys::corun(folder.path());
        command.args(["control", "gang", "-q", "--for"]);
        command
    };
    let out = nobody().args(["1s", "--tenant", &pid]).output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).contains("belongs to another user; run as root"), "{}", said(&out));
    // A dry run touches nobody, and watches through schedstat.
    let began = std::time::Instant::now();
    let out = nobody().args(["600ms", "--tenant", &pid, "--dry-run"]).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(began.elapsed() >= std::time::Duration::from_millis(600), "it ended at once: {}", said(&out));
    assert!(String::from_utf8_lossy(&out.stdout).contains("corun-hog-l"));
}

#[test]
fn without_permission_everybody_means_own_tenants_and_the_others_are_counted_once() {
    let _alone = alone();
    if !is_root() {
        println!("skipped: only root can become somebody else");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // On a bare machine everybody else is an ancestor of this test, and those cannot be controlled.
    let _somebody_elses = Hog::start(folder.path(), "corun-hog-root");
    let mut command = anybodys::corun(folder.path());
    command.args(["control", "gang", "-o", "together=false", "--all", "--for", "1s"]);
    command.args(["--guard", "off", "--explain"]);
    let out = command.output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).contains("nobody here may be controlled by this user; run as root"), "{}", said(&out));
    assert_eq!(said(&out).trim().lines().count(), 1, "{}", said(&out));
    let _own = ["corun-hog-own", "corun-hog-mine"].map(|name| Hog::of_nobody(folder.path(), name));
    let out = command.output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert_eq!(said(&out).matches("left alone; run as root").count(), 1, "{}", said(&out));
    assert!(said(&out).contains("park corun-hog-own"), "{}", said(&out));
    assert!(!said(&out).contains("by this user"), "nobody else was planned with: {}", said(&out));
}

#[test]
fn a_protected_name_that_nobody_has_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let _hogs = ["corun-hog-m", "corun-hog-n"].map(|name| Hog::start(folder.path(), name));
    let protect = |name: &str| {
        let args = ["control", "gang", "--tenant", "corun-hog-m", "--protect", name, "--dry-run", "--for"];
        said(&corun(&[&args[..], &["200ms", "-q"]].concat()))
    };
    assert!(protect("corun-hog-o").contains("--protect corun-hog-o: nothing by that name runs here now"));
    assert!(!protect("corun-hog-n").contains("--protect"));
}

#[test]
fn the_degree_of_contention_also_has_a_flag_of_its_own_and_naming_the_guard_turns_it_on() {
    let folder = tempfile::tempdir().unwrap();
    let _hog = Hog::start(folder.path(), "corun-hog-p");
    let control = |policy: &str, dc: &str| {
        let who = ["--tenant", "corun-hog-p", "--dry-run", "--for", "200ms", "-q"];
        corun(&[&["control", policy, "--guard", "--dc", dc][..], &who].concat())
    };
    assert_eq!(control("controlled_contention", "auto").status.code(), Some(0));
    for (policy, dc, part) in
        [("gang", "4", "gang has no option `dc`"), ("controlled_contention", "0", "`dc` is `0`; give 1")]
    {
        let out = control(policy, dc);
        assert_eq!(out.status.code(), Some(2), "{}", said(&out));
        assert!(said(&out).contains(part), "{}", said(&out));
    }
}

#[test]
fn the_complete_undo_is_reported_if_something_was_changed() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let _hogs = ["corun-hog-u", "corun-hog-v"].map(|name| Hog::start(folder.path(), name));
    let says_so = |policy: &str, more: &[&str]| {
        let who = ["--tenant", "corun-hog-u", "--tenant", "corun-hog-v", "--for", "800ms", "-q"];
        let out = corun(&[&["control", policy], &who[..], more].concat());
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        String::from_utf8_lossy(&out.stdout).contains("Everything that was changed is as it was.")
    };
    assert!(
        says_so("gang", &["-o", "together=false", "--guard", "off"])
            && says_so("differential", &["--guard", "off"])
    );
    // The guard's first period is one without the policy.
    assert!(!says_so("gang", &[]), "nothing was changed yet");
    assert!(!says_so("differential", &["--dry-run"]) && !says_so("observe", &[]));
}

#[test]
fn a_dry_run_is_labeled_and_explains_itself_on_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let _hogs = ["corun-hog-w", "corun-hog-x"].map(|name| Hog::start(folder.path(), name));
    let who = ["--tenant", "corun-hog-w", "--tenant", "corun-hog-x", "--dry-run", "--explain"];
    let out = corun(&[&["control", "gang", "-o", "together=false", "--for", "1s"], &who[..]].concat());
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.starts_with("corun control: gang, a dry run: nothing was touched\n"), "{text}");
    assert!(said(&out).contains("park corun-hog-"), "{}", said(&out));
    assert!(!text.contains("--explain tells"), "{text}");
}

#[test]
fn a_backend_that_this_kernel_lacks_is_refused_with_the_remedy() {
    if std::path::Path::new("/sys/kernel/sched_ext").exists() {
        println!("skipped: this kernel has sched_ext");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let _hog = Hog::start(folder.path(), "corun-hog-f");
    let out =
        corun(&["control", "gang", "--tenant", "corun-hog-f", "--backend", "sched_ext", "--for", "1s", "-q"]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).contains("no sched_ext") && said(&out).contains("--backend stock"), "{}", said(&out));
}

#[test]
fn a_degree_of_contention_below_a_tenants_weight_is_reported_to_leave_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    // Two loops in a process group each: tenants of weight two.
    const TWO_LOOPS: &str = "while :; do :; done & while :; do :; done";
    let names = ["corun-hog-g", "corun-hog-h"];
    let _hogs: Vec<Hog> = names.iter().map(|name| Hog::running(folder.path(), name, TWO_LOOPS)).collect();
    let mut args = vec!["control", "controlled_contention", "-o", "dc=1", "--dry-run", "--for", "2s", "-q"];
    names.iter().for_each(|name| args.extend(["--tenant", name]));
    let out = corun(&args);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("weights up to DC 1; a heavier tenant runs alone"), "{text}");
}

const SHARES_A_PAGE: &str = "CORUN_TEST_SHARES_A_PAGE";

/// The program of the next test, which runs this one in a process of its own: it shares a page, and computes
/// until it is killed.
#[test]
fn a_program_that_shares_a_page() {
    if std::env::var_os(SHARES_A_PAGE).is_some() {
        let width = Width::new(Mode::On, 1, 3).unwrap();
        width.publish().unwrap();
        loop {
            std::hint::spin_loop();
        }
    }
}

#[test]
fn the_advice_to_a_program_that_shares_a_page_is_in_every_line_and_in_the_report() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "a_program_that_shares_a_page"]).env(SHARES_A_PAGE, "yes");
    let mut program = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (pid, report) = (program.id(), folder.path().join("report.json"));
    let mut control = Command::cargo_bin("corun").unwrap();
    control.args([
        "control",
        "observe",
        "--tenant",
        &pid.to_string(),
        "--for",
        "3s",
        "--json-lines",
        "--json",
    ]);
    let out = control.arg(&report).output().unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let is_right = |advice: &Value| {
        let width = advice["width"].as_u64().unwrap();
        let is_said = advice["because"].as_str().is_some_and(|why| !why.is_empty());
        advice["process"] == pid && (1..=3).contains(&width) && advice["most"] == 3 && is_said
    };
    let lines = String::from_utf8_lossy(&out.stdout).into_owned();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<Value> = lines.flat_map(|line| line["advice"].as_array().unwrap().clone()).collect();
    assert!(!told.is_empty() && told.iter().all(is_right), "{told:?}");
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let kept = report["advice"].as_array().unwrap();
    assert_eq!(kept.len(), told.len(), "{kept:?}");
    assert!(kept.iter().all(|advice| is_right(advice) && advice["at_ns"].as_u64().is_some()), "{kept:?}");
}

#[test]
fn a_pid_stands_for_its_tenant_and_the_plan_includes_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let hogs = ["corun-hog-i", "corun-hog-j", "corun-hog-k"].map(|name| Hog::start(folder.path(), name));
    let pids = [hogs[0].0.id().to_string(), hogs[1].0.id().to_string()];
    let out = corun(&[
        "control",
        "gang",
        "-o",
        "together=false",
        "--tenant",
        &pids[0],
        "--tenant",
        &pids[1],
        "--dry-run",
        "--for",
        "2s",
        "--json-lines",
    ]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("corun-hog-i") && text.contains("corun-hog-j"), "{text}");
    let tenants: std::collections::BTreeSet<String> = text
        .lines()
        .flat_map(|l| serde_json::from_str::<Value>(l).unwrap()["decision"].as_array().unwrap().clone())
        .filter_map(|d| Some(d["tenant"].as_str()?.to_owned()))
        .collect();
    assert_eq!(tenants.len(), 2, "{tenants:?}");
}

#[test]
fn a_policy_that_needs_counters_is_refused_if_there_are_none() {
    let listed: serde_json::Value = serde_json::from_slice(&corun(&["policies", "--json"]).stdout).unwrap();
    let policies = listed["policies"].as_array().unwrap();
    let needy: Vec<_> = policies.iter().filter(|p| p["counters"] != serde_json::json!([])).collect();
    assert!(!needy.is_empty() && needy.len() < policies.len(), "{listed}");
    for policy in needy {
        let Some(why) = policy["no_counters"].as_str() else {
            println!("skipped: this machine has what {} counts", policy["name"]);
            continue;
        };
        let out = corun(&["control", policy["name"].as_str().unwrap(), "--all", "--dry-run", "--for", "1s"]);
        assert_eq!(out.status.code(), Some(2), "{}", said(&out));
        assert!(said(&out).contains(why) && said(&out).contains("corun sim"), "{why}: {}", said(&out));
        assert!(!said(&out).contains("corun works without"), "{}", said(&out));
    }
}

#[test]
fn bad_usage_is_one_sentence_with_exit_code_2_and_nothing_is_changed() {
    for (args, part) in [
        (&["control", "gang"][..], "name whom to control"),
        (&["control", "gang", "--tenant", ""], "is no tenant's name"),
        (&["control", "gangs", "--all", "--dry-run"], "there is no policy `gangs`"),
        (&["control", "gang", "--all", "--dry-run", "-o", "dc=3"], "gang has no option `dc`"),
        (&["control", "controlled_contention", "--all", "--dry-run", "-o", "dc=none"], "dc"),
        (&["control", "gang", "--all", "--dry-run", "-o", "slot"], "give NAME=VALUE"),
        (&["control", "gangs", "--tenant", "no-such-tenant", "--dry-run"], "there is no policy `gangs`"),
        (
            &["control", "auto", "--all", "--dry-run", "--epoch", "2000000h"],
            "it is too long to wait for; give 36",
        ),
        (&["control", "auto", "--all", "--dry-run", "--json", "-", "--html", "-"], "two files would go to"),
        (
            &["control", "controlled_contention", "--all", "--dry-run", "--dc", "4", "-o", "dc=3"],
            "--dc and -o dc=DC say the same",
        ),
        (&["control", "gang", "--restore"], "--restore"),
        (&["control", "gang", "--all", "--dry-run", "--for", "0"], "no time at all"),
        (&["control"], "`corun policies` lists them"),
        (&["control", "--all"], "`corun policies` lists them"),
    ] {
        let out = corun(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", said(&out));
        assert!(said(&out).contains(part), "{args:?}: {}", said(&out));
    }
}
