//! `corun sim` as a user runs it: output, files, exit codes, bad input.

use crate::printed::text;
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

#[test]
fn the_report_has_slowdowns_metrics_and_where_the_time_went() {
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
fn the_json_has_every_figure_and_is_the_same_every_time() {
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
    for part in ["How much slower than alone", "fairness (Jain)", "system throughput", "energy"] {
        assert!(page.contains(part), "no {part}");
    }
    assert!(std::fs::metadata(folder.path().join("run.pftrace")).unwrap().len() > 1_000);
}

#[test]
fn with_several_seeds_page_and_text_say_whose_profile_they_show() {
    let folder = tempfile::tempdir().unwrap();
    let said = "the run of seed 3, the first of 2";
    let several = sim(folder.path(), SCENARIO, &["--html", "page.html"]);
    assert_eq!(several.status.code(), Some(0), "{}", text(&several.stderr));
    let page = || std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(text(&several.stdout).contains(said) && page().contains(said));
    let one = sim(folder.path(), SCENARIO, &["--seed", "3", "--html", "page.html"]);
    assert!(!text(&one.stdout).contains("the run of seed") && !page().contains("the run of seed"));
}

#[test]
fn for_this_machine_unmeasured_figures_are_listed_and_no_missing_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = sim(folder.path(), &SCENARIO.replace("[0, 1]", "[0]"), &["--machine", "host", "--seed", "3"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    let figures =
        said.lines().find(|l| l.contains("figures of the machine: nobody measured")).expect("it is told");
    assert!(figures.contains("costs.switch") && !figures.contains("clock.tick"), "{figures}");
    let energy = "energy: nobody measured the power of this machine; a machine file with [power] can state";
    assert!(said.contains(energy) && !said.contains("the machine file of"), "{said}");
}

#[test]
fn a_policys_page_shows_who_was_parked_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let with = SCENARIO.replace(
        "[scheduler]",
        "duration = \"2s\"\n[policy]\nname = \"gang\"\noptions = { together = false }\n[scheduler]",
    );
    let args = ["--html", "page.html", "--trace", "run.pftrace"];
    let done = sim(folder.path(), &with, &args);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    for part in
        ["How much slower than alone", "Who was parked when", "What was decided, and why", "Who got how much"]
    {
        assert!(page.contains(part), "no {part}");
    }
    let v: Value = serde_json::from_slice(&sim(folder.path(), &with, &["--json", "-"]).stdout).unwrap();
    let first = &v["policy"]["first"][0];
    assert_eq!((first["knob"].as_str(), first["value"].as_bool()), (Some("park"), Some(true)), "{first}");
    assert!(["subject", "loop"].contains(&first["tenant"].as_str().unwrap()), "{first}");
    assert!(first["key"].as_str().unwrap().starts_with("sim/"), "{first}");
    assert!(first["because"].is_string() && first["outcome"] == "done" && first["t_ns"].is_u64(), "{first}");
    let trace = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
    let long = trace("run.pftrace");
    let without = SCENARIO.replace("[scheduler]", "duration = \"2s\"\n[scheduler]");
    let done = sim(folder.path(), &without, &args);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(!page.contains("What was decided") && trace("run.pftrace") != long);
}

#[test]
fn bad_input_is_one_sentence_with_file_and_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&str, &str, &[&str], &str); 20] = [
        ("pact16-xeon-e5620", "cray-1", &[], "s.toml:3: there is no machine `cray-1`"),
        ("xen-credit", "bfs", &[], "s.toml:7: there is no `bfs`; name one of eevdf, cfs, xen-credit"),
        (
            "scenario/1",
            "workload/1",
            &[],
            "s.toml:2: this is a workload, which `corun load` runs; a scenario has",
        ),
        (
            SCENARIO,
            "",
            &[],
            "s.toml:1: the file is empty; a scenario has schema = \"corun.scenario/1\" and a machine",
        ),
        ("threads = 2, wait", "threads = 0, wait", &[], "s.toml:11: threads is 0"),
        ("cpus = [0, 1]", "cpus = [0, 99]", &[], "s.toml:13: pact16-xeon-e5620 has no CPU 99"),
        ("grain = \"2ms\"", "grain = \"2\"", &[], "s.toml:11: `2` is not a time"),
        (
            "seeds = [3, 4]",
            "horizon = \"20ms\"",
            &[],
            "s.toml:9: subject takes 100 ms even alone, beyond the horizon of 20.0 ms",
        ),
        (
            "seeds = [3, 4]",
            "horizon = \"120ms\"",
            &[],
            "s.toml:9: subject has not ended at the horizon of 120 ms",
        ),
        ("\"2ms\"", "\"900000h\"", &[], "s.toml:9: subject takes 45000000 h even alone"),
        ("seeds = [3, 4]", "duration = \"2000h\"", &[], "s.toml:4: duration is longer than 1000 h"),
        ("cpus = [0, 1]", "allowed = []", &[], "s.toml:13: allowed names no CPU"),
        ("seeds", "seeds", &["--machine", "nowhere"], "corun: --machine: there is no machine `nowhere`"),
        ("seeds", "seeds", &["--machine", "no.toml"], "no file no.toml; paths are relative to the current"),
        ("\"2ms\"", "\"a\\nb\\u001b[2J\"", &[], "s.toml:11: `a b?[2J` is not a time"),
        ("seeds", "seeds", &["--seeds", "x"], "corun: invalid value 'x' for '--seeds <N>': it is no whole"),
        ("[3, 4]", "[18446744073709551615]", &["--seeds", "2"], "--seeds 2: from 18446744073709551615 on"),
        ("seeds", "seeds", &["--json", "-", "--html", "-"], "two files would go to `-`; give each a place"),
        ("seeds", "seeds", &["--html", "no/page.html"], "cannot write no/page.html: the folder no does not"),
        ("seeds", "seeds", &["--trace", "/"], "cannot write /: it is a folder"),
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

/// A pipeline of three named stages; the test fills in `feeds` of the last ones.
const PIPELINE: &str = r#"schema = "corun.workload/1"
name = "packer"

[program]
kind = "parallel"
sync = "pipeline"
threads = 4
grain = "100us"
iterations = 60

[[program.stage]]
name = "read"
feeds = ["hash", "write"]

[[program.stage]]
name = "hash"
feeds = ["write"]

[[program.stage]]
name = "write"
"#;

#[test]
fn a_pipeline_that_branches_runs_and_a_cyclic_one_is_refused_at_the_line_of_a_stage_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let scenario =
        "schema = \"corun.scenario/1\"\nmachine = \"cc-sandybridge\"\n[[tenant]]\nworkload = \"p.toml\"\n";
    let with = |last_feeds: &str| {
        std::fs::write(folder.path().join("p.toml"), format!("{PIPELINE}{last_feeds}")).unwrap();
        sim(folder.path(), scenario, &["--json", "-"])
    };
    let sound = with("");
    assert_eq!(sound.status.code(), Some(0), "{}", text(&sound.stderr));
    let v: Value = serde_json::from_slice(&sound.stdout).unwrap();
    assert_eq!(v["tenants"][0]["completed"], 1);
    for (last_feeds, sentence) in [
        (
            "feeds = [\"hash\"]\n",
            "p.toml:16: stage `hash` gets its own items back: hash feeds write feeds hash is a cycle",
        ),
        ("feeds = [\"write\"]\n", "p.toml:20: stage `write` feeds itself"),
        (
            "feeds = [\"hush\"]\n",
            "p.toml:20: stage `write` feeds `hush`, which is no stage; name some of read, hash, write",
        ),
    ] {
        let out = with(last_feeds);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(sentence) && said.lines().count() == 1 && out.stdout.is_empty(), "{said}");
    }
}

#[test]
fn a_bug_of_the_engine_exits_with_70_and_the_printed_command_repeats_it() {
    let folder = tempfile::tempdir().unwrap();
    let first = sim(folder.path(), SCENARIO, &["--seed", "4", "--scheduler", "cfs", "--miscount-at", "5ms"]);
    let said = text(&first.stderr);
    assert_eq!(first.status.code(), Some(70), "{said}");
    assert!(first.stdout.is_empty(), "a wrong machine has nothing to report");
    assert!(
        said.contains("the modelled machine is wrong: ")
            && said.contains("checker conservation: CPU index 0")
            && said.matches("the modelled machine").count() == 1,
        "{said}"
    );
    assert!(said.contains("scenario s.toml, seed 4; replay with: corun sim s.toml --seed 4"), "{said}");
    let replay = said.split("replay with: corun ").nth(1).expect("a command to replay").trim();
    let again = Command::cargo_bin("corun")
        .unwrap()
        .current_dir(folder.path())
        .args(replay.split(' '))
        .output()
        .unwrap();
    assert_eq!((again.status.code(), text(&again.stderr)), (Some(70), said));
}

#[test]
fn a_bug_late_in_a_run_is_found_too_and_only_a_hidden_flag_makes_one() {
    let folder = tempfile::tempdir().unwrap();
    let out = sim(folder.path(), SCENARIO, &["--baseline", "eevdf", "--miscount-at", "150ms"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(70), "{said}");
    assert!(said.contains("is wrong: checker conservation: "), "{said}");
    let fine = sim(folder.path(), SCENARIO, &["--miscount-at", "10h"]);
    assert_eq!(fine.status.code(), Some(0), "nothing is wrong before that time: {}", text(&fine.stderr));
    let help = text(&Command::cargo_bin("corun").unwrap().args(["sim", "--help"]).output().unwrap().stdout);
    assert!(!help.contains("miscount"), "users do not meet it by accident");
}
