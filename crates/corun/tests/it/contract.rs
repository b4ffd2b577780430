//! The JSON of predict, verify, control, policies and load as programs read it. Every field that a run writes
//! is explained in the section of its schema in `docs/json.md` (of loads: `docs/loads.md`, of noise:
//! `docs/doctor.md`). Every field in the first column of a table there is written.

use crate::fields::names;
use crate::hog::Hog;
use assert_cmd::cargo::CommandCargoExt;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Command, Output};

fn corun(args: &[&str]) -> Output {
    Command::cargo_bin("corun").unwrap().args(args).output().unwrap()
}

/// The part of the documentation below a heading, which is unique among the pages.
fn section(heading: &str) -> &'static str {
    let pages = [
        include_str!("../../../../docs/json.md"),
        include_str!("../../../../docs/loads.md"),
        include_str!("../../../../docs/doctor.md"),
    ];
    let heading = format!("\n## {heading}\n");
    let below = pages.iter().find_map(|page| page.split(&heading).nth(1));
    let below = below.unwrap_or_else(|| panic!("no {heading}"));
    below.split("\n## ").next().unwrap_or(below)
}

/// Words in backquotes.
fn quoted(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split('`').skip(1).step_by(2)
}

/// Compares the output with a section; `elsewhere` lists the sections that it refers to.
fn check(heading: &str, elsewhere: &[&str], written: &Value) {
    let mut found = BTreeSet::new();
    names(written, &mut found);
    let sections: Vec<&str> = [heading].iter().chain(elsewhere).map(|h| section(h)).collect();
    // A nested field may have the form `field[].name`.
    let last = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
    let explained: BTreeSet<&str> = sections.iter().flat_map(|text| quoted(text)).map(last).collect();
    let missing: Vec<&String> = found.iter().filter(|name| !explained.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{heading} of the documents does not explain {missing:?} of {written}");
    let rows = section(heading).lines().filter(|line| line.starts_with("| `"));
    for promised in rows.flat_map(|row| quoted(row.split('|').nth(1).unwrap_or_default())) {
        assert!(found.contains(promised), "{heading} of the documents promises `{promised}`: {written}");
    }
}

/// The content of a file with one JSON value.
fn json(path: &std::path::Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

const BUSY: &str = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";

#[test]
fn a_prediction_is_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    let _hog = Hog::start(folder.path(), "corun-doc-p");
    let file = folder.path().join("p.json");
    let out = corun(&["predict", "-q", "--json", file.to_str().unwrap(), "--", "sh", "-c", BUSY]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let written = json(&file);
    check("Predictions", &["Loss, self, unavailable, notes"], &written);
    let (slowdown, parts) = (&written["slowdown"], &written["parts"]);
    if slowdown.is_null() {
        println!("skipped: nothing could be told here: {}", written["cannot_tell"]);
        return;
    }
    let sum: f64 = parts.as_object().unwrap().values().filter_map(Value::as_f64).sum();
    assert!((slowdown.as_f64().unwrap() - 1.0 - sum).abs() < 1e-9, "the parts are all of it: {written}");
    let interval: Vec<f64> =
        written["interval"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert!(interval.len() == 2 && interval[0] <= interval[1], "{written}");
    assert!(written["windows"].as_array().is_some_and(|w| !w.is_empty()), "{written}");
}

#[test]
fn a_verdict_is_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    let _hogs = ["corun-doc-v", "corun-doc-w", "corun-doc-x"].map(|name| Hog::start(folder.path(), name));
    let file = folder.path().join("v.json");
    corun(&["verify", "-q", "--json", file.to_str().unwrap(), "--", "sh", "-c", BUSY]);
    let written = json(&file);
    check("Verdicts", &["Predictions", "Loss, self, unavailable, notes"], &written);
    let (wall, alone) = (written["wall_ns"].as_f64().unwrap(), written["undisturbed_ns"].as_f64().unwrap());
    let disturbance = written["disturbance"].as_f64().unwrap();
    assert!((1.0 - alone / wall - disturbance).abs() < 0.01, "{written}");
}

#[test]
fn noise_is_measured_without_root_as_documented_and_for_a_sensible_time_only() {
    let output = corun(&["doctor", "--noise", "2s", "--source", "schedstat", "--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let written: Value = serde_json::from_slice(&output.stdout).unwrap();
    check("How noisy this machine is", &[], &written);
    for program in written["programs"].as_array().unwrap() {
        let share = |value: &Value| value.as_f64().unwrap();
        assert!((0.0..=1.0).contains(&share(&program["taken"])), "{program}");
        for thread in program["threads"].as_array().unwrap() {
            let parts = share(&thread["off_cpu"]) + share(&thread["on_cpu"]);
            assert!((share(&thread["taken"]) - parts).abs() < 1e-6, "{thread}");
        }
        let named = program["takers"].as_array().unwrap().iter().any(|taker| taker["kind"] == "program");
        assert!(!named, "schedstat names nobody: {program}");
    }
    for (length, wanted) in
        [("1s", "1s is too short to tell"), ("1000h", "1000h is long"), ("0s", "no time at all")]
    {
        let output = corun(&["doctor", "--noise", length]);
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn decisions_are_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["corun-doc-c", "corun-doc-d"];
    let _hogs = names.map(|name| Hog::start(folder.path(), name));
    let mut lines: Vec<Value> = Vec::new();
    let decides = |line: &Value| line["decision"].as_array().is_some_and(|d| !d.is_empty());
    for policy in [&["gang", "-o", "together=false"][..], &["differential"]] {
        let mut args = [&["control"][..], policy].concat();
        args.extend(["--dry-run", "--for", "1s", "--json-lines"]);
        names.iter().for_each(|name| args.extend(["--tenant", name]));
        let out = corun(&args);
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).unwrap();
        let own: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        // The first one shows that the policy is in force.
        assert!(own.iter().skip(1).all(decides), "a line where nothing was decided: {own:?}");
        lines.extend(own);
    }
    let of = |what: &str| lines.iter().any(|l| l["decision"][0].get(what).is_some());
    assert!(of("tenant") && of("key") && of("task"), "{lines:?}");
    check("Control", &[], &Value::Array(lines));
}

#[test]
fn a_report_of_control_is_as_documented_and_has_a_profile_inside() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["corun-doc-r", "corun-doc-s"];
    let _hogs = names.map(|name| Hog::start(folder.path(), name));
    let mut args =
        vec!["control", "gang", "-o", "together=false", "--dry-run", "--for", "1s", "-q", "--json", "-"];
    names.iter().for_each(|name| args.extend(["--tenant", name]));
    let out = corun(&args);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let mut written: Value = serde_json::from_slice(&out.stdout).unwrap();
    let profile = written["profile"].take();
    assert_eq!(profile["schema"], "corun.profile/1");
    assert!(!written["reasons"].as_array().unwrap().is_empty(), "{written}");
    assert_eq!(written["tenants"].as_array().unwrap().len(), 2, "{written}");
    check("Reports of control", &["Control"], &written);
}

#[test]
fn loads_are_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    let victim = Hog::start(folder.path(), "corun-doc-l");
    let workload = folder.path().join("command.toml");
    let command =
        "schema = \"corun.workload/1\"\nname = \"c\"\n[program]\nkind = \"command\"\nargv = [\"true\"]\n";
    std::fs::write(&workload, command).unwrap();
    let pid = victim.0.id().to_string();
    let hold = ["--target-slowdown", "1.2", "--baseline", "300ms", "--victim", &pid, "--duration", "2500ms"];
    let mut written = Vec::new();
    for args in [
        &["parallel", "--wait", "block", "--grain", "1us", "--iterations", "10"][..],
        &["periodic", "--duration", "50ms"],
        &[workload.to_str().unwrap()],
        &hold,
    ] {
        let out = corun(&[&["load"], args, &["--json", "-", "--progress-json"]].concat());
        written
            .push(serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {out:?}")));
        let lines = String::from_utf8(out.stderr).unwrap();
        written.extend(lines.lines().filter_map(|line| serde_json::from_str(line).ok()));
    }
    let of = |what: &str| written.iter().any(|value: &Value| value[what].is_object());
    assert!(of("waiting") && of("command") && of("held") && of("holding"), "{written:?}");
    check("As JSON", &[], &Value::Array(written));
}

#[test]
fn the_list_of_policies_is_as_documented() {
    let written: Value = serde_json::from_slice(&corun(&["policies", "--json"]).stdout).unwrap();
    check("Policies", &[], &written);
    for policy in written["policies"].as_array().unwrap() {
        let backends: Vec<&Value> =
            policy["backends"].as_array().unwrap().iter().map(|b| &b["name"]).collect();
        assert_eq!(backends, ["sched_ext", "stock"], "{policy}");
    }
}
