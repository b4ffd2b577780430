//! `corun control` and `corun policies` as a user runs them. Nothing here is parked but these tests' own processes.

mod hog;

use assert_cmd::cargo::CommandCargoExt;
use hog::Hog;
use serde_json::Value;
use std::process::{Command, Output};

fn corun(args: &[&str]) -> Output {
    Command::cargo_bin("corun").unwrap().args(args).output().unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn every_policy_is_listed_with_what_this_machine_makes_of_its_knobs() {
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
fn bad_usage_is_one_sentence_with_exit_code_2_and_nothing_is_changed() {
    for (args, part) in [
        (&["control", "gang"][..], "name whom to control"),
        (&["control", "gang", "--tenant", ""], "is no tenant's name"),
        (&["control", "gangs", "--all", "--dry-run"], "there is no policy `gangs`"),
        (&["control", "gang", "--all", "--dry-run", "-o", "dc=3"], "gang has no option `dc`"),
        (&["control", "controlled_contention", "--all", "--dry-run", "-o", "dc=none"], "dc"),
        (&["control", "gang", "--all", "--dry-run", "-o", "slot"], "give NAME=VALUE"),
        (&["control", "gang", "--restore"], "--restore"),
        (&["control"], "<POLICY>"),
    ] {
        let out = corun(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", said(&out));
        assert!(said(&out).contains(part), "{args:?}: {}", said(&out));
    }
}
