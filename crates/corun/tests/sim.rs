//! `corun sim` as a user runs it: output, files, exit codes, bad input.

use assert_cmd::cargo::CommandCargoExt;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const SCENARIO: &str = r#"
schema = "corun.scenario/1"
machine = "pact16-xeon-e5620"
seeds = [3, 4]

[scheduler]
name = "xen-credit"

[[tenant]]
name = "subject"
program = { kind = "parallel", threads = 2, wait = "spin", grain = "2ms", iterations = 50 }
vm = { vcpus = 2 }
cpus = [0, 1]

[[tenant]]
name = "loop"
program = { kind = "interference", threads = 2 }
vm = { vcpus = 2 }
cpus = [0, 1]
"#;

fn sim(folder: &Path, scenario: &str, args: &[&str]) -> Output {
    std::fs::write(folder.join("s.toml"), scenario).unwrap();
    Command::cargo_bin("corun")
        .unwrap()
        .current_dir(folder)
        .args(["sim", "s.toml"])
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_report_tells_slowdowns_metrics_and_where_the_time_went() {
    let folder = tempfile::tempdir().unwrap();
    let out = text(&sim(folder.path(), SCENARIO, &["--baseline", "eevdf"]).stdout);
    for part in [
        "subject",
        "loop (background)",
        "fairness",
        "system throughput",
        "relative speed-up",
        "energy",
        "stolen",
    ] {
        assert!(out.contains(part), "no {part} in\n{out}");
    }
}

#[test]
fn the_json_holds_every_figure_and_is_the_same_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = sim(folder.path(), SCENARIO, &["--json", "-"]);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert_eq!(first.stdout, sim(folder.path(), SCENARIO, &["--json", "-"]).stdout);
    let v: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(
        (v["schema"].as_str(), v["profile"]["schema"].as_str()),
        (Some("corun.sim/1"), Some("corun.profile/1"))
    );
    assert_eq!(v["profile"]["host"], "sim");
    let slowdown = &v["tenants"][0]["slowdown"];
    assert!(
        slowdown["mean"].as_f64().unwrap() > 1.5
            && slowdown["half_width"].as_f64().is_some()
            && slowdown["n"] == 2
    );
    assert!(v["fairness"]["mean"].as_f64().unwrap() <= 1.0 && v["energy_j"]["mean"].as_f64().unwrap() > 0.0);
    assert!(v["relative_speedup"].is_null() && v["baseline"].is_null());
}

#[test]
fn page_and_timeline_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let done =
        sim(folder.path(), SCENARIO, &["--seed", "9", "--html", "page.html", "--trace", "run.pftrace"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("subject") && page.contains("</html>"));
    assert!(std::fs::metadata(folder.path().join("run.pftrace")).unwrap().len() > 1_000);
}

#[test]
fn bad_input_is_one_sentence_with_file_and_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&str, &str, &[&str], &str); 6] = [
        ("pact16-xeon-e5620", "cray-1", &[], "s.toml:3: there is no machine `cray-1`"),
        ("threads = 2, wait", "threads = 0, wait", &[], "s.toml:11: threads is 0"),
        ("cpus = [0, 1]", "cpus = [0, 99]", &[], "s.toml:13: pact16-xeon-e5620 has no CPU 99"),
        ("grain = \"2ms\"", "grain = \"2\"", &[], "s.toml:11: `2` is not a time"),
        (
            "seeds = [3, 4]",
            "horizon = \"20ms\"",
            &[],
            "s.toml:4: the scenario has not ended at its horizon of 20.0 ms",
        ),
        ("seeds", "seeds", &["--machine", "nowhere"], "there is no machine `nowhere`"),
    ];
    for (from, to, args, sentence) in cases {
        let out = sim(folder.path(), &SCENARIO.replacen(from, to, 1), args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{to}: {said}");
        assert!(said.contains(sentence), "{to}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(out.stdout.is_empty());
    }
    let missing = Command::cargo_bin("corun").unwrap().args(["sim", "none.toml"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("cannot read none.toml"));
}
