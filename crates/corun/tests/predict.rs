//! `corun predict` and `corun verify` as a user runs them.

use assert_cmd::cargo::CommandCargoExt;
use serde_json::Value;
use std::process::{Child, Command, Output};

fn corun(args: &[&str]) -> Output {
    Command::cargo_bin("corun").unwrap().args(args).output().unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// A loop that has the first CPU as often as it can get it, ended when dropped.
struct Hog(Child);

impl Hog {
    fn start() -> Hog {
        let script = "exec setsid taskset -c 0 sh -c 'while :; do :; done'";
        Hog(Command::new("sh").args(["-c", script]).spawn().unwrap())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_command_that_sleeps_is_clean_and_leaves_a_verdict_for_people_and_machines() {
    let folder = tempfile::tempdir().unwrap();
    let (json, junit) = (folder.path().join("v.json"), folder.path().join("v.xml"));
    let files = ["--json", json.to_str().unwrap(), "--junit", junit.to_str().unwrap()];
    let out = corun(&[&["verify"], &files[..], &["--", "sleep", "0.3"]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    assert!(said(&out).contains("corun verify: clean"), "{}", said(&out));
    let value: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!((&value["schema"], &value["verdict"]), (&"corun.verify/1".into(), &"clean".into()));
    assert!(value["wall_ns"].as_u64().unwrap() >= 300_000_000);
    assert!(std::fs::read_to_string(junit).unwrap().contains("failures=\"0\""));
}

#[test]
fn a_command_that_shares_its_only_cpu_is_disturbed_and_exits_with_3() {
    let _hog = Hog::start();
    let script = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    let out = corun(&["verify", "--max-disturbance", "20%", "--", "taskset", "-c", "0", "sh", "-c", script]);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(said(&out).contains("disturbed"), "{}", said(&out));
}

#[test]
fn a_command_that_fails_keeps_its_own_status() {
    assert_eq!(corun(&["verify", "-q", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(corun(&["predict", "-q", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
}

#[test]
fn every_estimate_is_a_line_of_json_and_a_program_that_only_sleeps_cannot_be_told_of() {
    let out = corun(&["predict", "--json-lines", "--", "sleep", "1.2"]);
    let lines: Vec<Value> = String::from_utf8_lossy(&out.stdout)
        .lines()
        .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e} in {l}")))
        .collect();
    assert!(lines.len() >= 2, "{lines:?}");
    assert!(lines.iter().all(|l| l["schema"] == "corun.predict/1"));
    assert!(lines.windows(2).all(|w| w[0]["elapsed_ns"].as_u64() < w[1]["elapsed_ns"].as_u64()));
    let last = lines.last().unwrap();
    assert!(last["slowdown"].is_null() == last["cannot_tell"].is_string(), "{last}");
}

#[test]
fn bad_usage_is_one_sentence_with_exit_code_2() {
    for (args, part) in [
        (&["predict", "--all"][..], "has no one to predict for"),
        (&["predict", "--confidence", "2", "--", "true"], "not between 0 and 1"),
        (&["predict", "--dedicated", "--window", "10s", "--", "true"], "never fits into a budget"),
        (&["predict", "--budget", "2%", "--", "true"], "--dedicated"),
        (&["verify", "--max-disturbance", "often", "--", "true"], "is not a share of time"),
        (&["verify", "--json", "-", "--", "true"], "standard output is the command's"),
        (&["verify", "--", "no-such-command-at-all"], "no-such-command-at-all"),
        (&["verify"], "CMD"),
    ] {
        let out = corun(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", said(&out));
        assert!(said(&out).contains(part), "{args:?}: {}", said(&out));
    }
}
