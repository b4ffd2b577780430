//! `corun record` and `corun sim --from`: a recording is made and replayed as by a user; bad files; one live
//! run with its truth.

use crate::hog::Hog;
use assert_cmd::cargo::cargo_bin;
use corun_model::run_log::file::{write, CoRunner, RunFile, RunWindow};
use corun_model::run_log::{CpuMask, Event, Left, RunLog, What};
use corun_model::{CpuId, TaskId};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const MS: u64 = 1_000_000;

fn corun(folder: &Path, args: &[&str]) -> Output {
    Command::new(cargo_bin("corun")).current_dir(folder).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// One task on one CPU, off it for every other 4 ms of a second, next to a loop.
fn half_stolen() -> RunFile {
    let cpus = CpuMask::first(1);
    let at = |ms: u64, what| Event { t_ns: ms * MS, task: TaskId(7), what };
    let on = What::Runs { cpu: CpuId(0), may: cpus };
    let mut events: Vec<Event> =
        (0..250).map(|n| at(4 * n, if n % 2 == 0 { on } else { What::Leaves(Left::Preempted) })).collect();
    events.push(at(1_000, on));
    events.push(at(1_004, What::Leaves(Left::Ended)));
    let log = RunLog { cpus, start_ns: 0, end_ns: 1_010 * MS, lost: 0, events };
    let loops = CoRunner { name: "loop".into(), tasks: 1, ran_ns: 500 * MS, waited_ns: 510 * MS };
    RunFile {
        command: "/opt/solver in.dat".into(),
        windows: vec![RunWindow { log, co_runners: vec![loops] }],
    }
}

fn json(folder: &Path, flags: &[&str]) -> Value {
    let out = corun(folder, &[&["sim", "--from", "it.rec", "--json", "-"], flags].concat());
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn a_recording_is_replayed_alone_next_to_its_co_runners_under_a_policy_and_on_other_cpus() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("it.rec"), write(&half_stolen())).unwrap();
    let out = corun(folder.path(), &["sim", "--from", "it.rec"]);
    let text = said(&out);
    assert_eq!(out.status.code(), Some(0), "{text}");
    let expected = "recorded: /opt/solver in.dat took 1.00 s on 1 CPU next to loop (1 x 100 % of a CPU)\n\
                    replayed without them: 504 ms (504 ms to 504 ms), so it was 1.99 times as long\n";
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains("solver") && text.lines().all(|l| !l.starts_with("loop") && !l.contains("task time")),
        "{text}"
    );
    let report = json(folder.path(), &[]);
    assert_eq!(report["recorded"]["alone_ns"][1], 504 * MS);
    assert_eq!(report["recorded"]["may_have_spun"], false);
    let slowdown = |report: &Value| {
        let subject = &report["tenants"][0];
        assert_eq!(subject["name"], "solver");
        subject["slowdown"]["mean"].as_f64().unwrap()
    };
    assert!((slowdown(&report) - 2.0).abs() < 0.1, "{}", slowdown(&report));
    assert!((slowdown(&json(folder.path(), &["--cpus", "2"])) - 1.0).abs() < 0.05);
    let gang = json(folder.path(), &["--policy", "gang"]);
    assert_eq!((gang["policy"]["name"].as_str(), gang["cpus"].as_u64()), (Some("gang"), Some(1)));
    assert!(gang["policy"]["decisions"].as_u64() > Some(0));
    let xeon = json(folder.path(), &["--machine", "pact16-xeon-e5620"]);
    assert!(xeon["machine"].as_str().unwrap().starts_with("pact16-xeon-e5620"), "{}", xeon["machine"]);
}

#[test]
fn if_two_tasks_wanted_cpus_at_once_the_slowdown_is_given_as_a_lower_bound() {
    let folder = tempfile::tempdir().unwrap();
    let mut two = half_stolen();
    let events = &mut two.windows[0].log.events;
    let of_other = |e: &Event| Event { task: TaskId(e.task.0 + 1), ..*e };
    *events = events.iter().flat_map(|e| [*e, of_other(e)]).collect();
    std::fs::write(folder.path().join("it.rec"), write(&two)).unwrap();
    let out = corun(folder.path(), &["sim", "--from", "it.rec"]);
    let text = said(&out);
    assert_eq!(out.status.code(), Some(0), "{text}");
    for part in
        ["(at most ", "so it was at least ", "A recording does not separate spinning from computing: if its"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(json(folder.path(), &[])["recorded"]["may_have_spun"], true);
}

#[test]
fn an_invalid_recording_or_one_that_cannot_be_replayed_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let whole = write(&half_stolen());
    let mut lost = half_stolen();
    lost.windows[0].log.lost = 1;
    let mut empty = half_stolen();
    empty.windows[0].log.events.clear();
    for (name, bytes, wanted) in [
        ("text.rec", b"hello".to_vec(), "it does not begin with `corunlog`; make one with `corun record`"),
        ("short.rec", whole[..whole.len() / 2].to_vec(), "it ends early; record it again"),
        ("lost.rec", write(&lost), "found no room in the run log"),
        ("empty.rec", write(&empty), "nothing happened in it"),
    ] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let out = corun(folder.path(), &["sim", "--from", name]);
        assert_eq!(out.status.code(), Some(2), "{}", said(&out));
        assert!(said(&out).contains(&format!("{name}: ")) && said(&out).contains(wanted), "{}", said(&out));
        assert_eq!(said(&out).trim().lines().count(), 1, "{}", said(&out));
    }
    for (args, wanted) in [
        (
            &["sim", "--from", "none.rec"][..],
            "cannot read none.rec: No such file or directory; name a file that is there",
        ),
        (&["sim", "--from", "."], "it is a folder"),
        (&["sim", "--from", "/dev/zero"], "longer than 512 MiB"),
        (&["sim", "--from", "short.rec", "--policy", "best"], "best"),
        (&["sim", "--from", "short.rec", "--cpus", "0"], "--cpus"),
        (&["record", "--all"], "-- CMD"),
        (&["record", "-o", "no/folder/it.rec", "--", "true"], "no/folder"),
    ] {
        let out = corun(folder.path(), args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", said(&out));
        assert!(said(&out).contains(wanted), "{args:?}: {}", said(&out));
    }
}

/// CPU time in seconds of the shell whose `times` printed this first: user and system.
fn cpu_s(times: &str) -> f64 {
    let first = times.lines().next().unwrap_or_default();
    let s = |time: &str| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
        60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
    };
    first.split_whitespace().map(s).sum()
}

#[test]
fn a_program_next_to_a_loop_on_its_cpu_is_recorded_and_its_replay_is_as_fast_as_alone() {
    let folder = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; times";
    let pinned = ["taskset", "-c", "0", "sh", "-c", script];
    if Command::new("taskset").arg("-V").output().is_err() {
        println!("skipped: there is no `taskset`");
        return;
    }
    let hog = Hog::start(folder.path(), "record-hog");
    let pid = hog.0.id().to_string();
    assert!(Command::new("taskset").args(["-cp", "0", &pid]).output().unwrap().status.success());
    let out = corun(folder.path(), &[&["record", "-q", "-o", "it.rec", "--"], &pinned[..]].concat());
    if said(&out).contains("eBPF") {
        println!("skipped: {}", said(&out));
        return;
    }
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(said(&out).contains("wrote it.rec"), "{}", said(&out));
    // Alone it would take its computing time.
    let alone_s = cpu_s(&String::from_utf8_lossy(&out.stdout));
    let recorded = &json(folder.path(), &[])["recorded"];
    let s = |value: &Value| value.as_f64().unwrap() / 1e9;
    let (took_s, replayed_s) = (s(&recorded["took_ns"]), s(&recorded["alone_ns"][1]));
    println!("alone {alone_s:.2} s, next to a loop {took_s:.2} s, replayed {replayed_s:.2} s");
    assert!(took_s > 1.4 * replayed_s, "the loop took nothing: {took_s} {replayed_s}");
    assert!((replayed_s / alone_s).ln().abs() < 0.15, "{alone_s} {replayed_s}");
    let names: Vec<&str> =
        recorded["co_runners"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    assert!(names.contains(&"record-hog"), "{names:?}");

    // The culprit of the rest of the time is visible.
    let out = corun(folder.path(), &["profile", "--from", "it.rec", "--json", "-"]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let seen: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(
        seen["notes"][0].as_str().unwrap().starts_with("of the past: what was kept from "),
        "{}",
        seen["notes"]
    );
    let of_hog = |c: &&Value| c["tenant"]["name"] == "record-hog";
    let took_of = |victim: &Value| -> f64 {
        victim["culprits"].as_array().into_iter().flatten().filter(of_hog).map(|c| s(&c["steal_ns"])).sum()
    };
    let hog_took_s = seen["tenants"].as_array().unwrap().iter().map(took_of).fold(0.0, f64::max);
    let lost_s = took_s - replayed_s;
    println!("the loop took {hog_took_s:.2} s of {lost_s:.2} s");
    // On a machine with other work, that may have taken most of it.
    assert!(hog_took_s > 0.1 * lost_s && hog_took_s < took_s, "{hog_took_s} s of {lost_s} s");
    let out = corun(folder.path(), &["top", "--once", "it.rec"]);
    let frame = said(&out);
    assert_eq!(out.status.code(), Some(0), "{frame}");
    assert!(frame.starts_with("corun top: it.rec") && frame.contains("  TENANT "), "{frame}");
}
