//! `corun study` of modelled machines as a user runs it: output, files, exit codes, bad input.

use crate::printed::text;
use assert_cmd::cargo::CommandCargoExt;
use std::path::Path;
use std::process::{Command, Output};

const STUDY: &str = r#"schema = "corun.schedulers-study/1"
name = "loops"
about = "Loops beside each other."

[[program]]
name = "loop"
tenant = { program = { kind = "interference", threads = 1 } }

[[figure]]
name = "one-cpu"
title = "Two loops on one CPU"
shows = "pairs"
machine = "pact16-xeon-e5620"
scheduler = { name = "cfs" }
tenant = { cpus = [0] }
repetitions = 2
duration = "500ms"
policy = [{ name = "CFS" }, { name = "CC", policy = "controlled_contention", options = { dc = 1 } }]

[[figure.group]]
name = "beside a loop"
of = ["loop"]
with = ["loop"]

[[figure.stated]]
what = "a gain"
place = "some paper, figure 1"
measure = "gain"
value = 0.1
"#;

fn study(folder: &Path, study: &str, args: &[&str]) -> Output {
    std::fs::write(folder.join("my.toml"), study).unwrap();
    Command::cargo_bin("corun")
        .unwrap()
        .current_dir(folder)
        .args(["study", "my.toml"])
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn a_study_of_schedulers_prints_ours_beside_what_was_stated_and_keeps_tables_chart_and_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let out = study(folder.path(), STUDY, &["--out", "kept", "--quiet"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    assert!(said.contains("Two loops on one CPU") && said.contains("some paper, figure 1"), "{said}");
    assert!(said.contains("+10 %"), "what was stated: {said}");
    for file in ["README.md", "result.json", "one-cpu.svg"] {
        assert!(folder.path().join("kept").join(file).exists(), "{file} is missing");
    }
}

#[test]
fn a_bad_study_of_schedulers_is_named_with_file_and_line_and_nothing_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |from: &str, to: &str, args: &[&str]| {
        let out = study(folder.path(), &STUDY.replacen(from, to, 1), args);
        assert_eq!(out.status.code(), Some(2), "{}", text(&out.stdout));
        text(&out.stderr)
    };
    let line = STUDY.lines().position(|l| l.starts_with("of")).unwrap() + 1;
    let said = refused("of = [\"loop\"]", "of = [\"lop\"]", &[]);
    assert!(said.contains(&format!("my.toml:{line}: no program `lop`")), "{said}");
    let said = refused("corun.schedulers-study/1", "corun.another/1", &[]);
    assert!(said.contains("my.toml:1: no study has this schema") && said.contains("corun.pairs/1"), "{said}");
    assert!(refused("dc = 1", "dcs = 1", &[]).contains("my.toml:"));
    let said = refused("schema", "scheme", &["--figures", "one-cpu"]);
    assert!(said.contains("my.toml:1: no line says the `schema`; give one of corun.pairs/1"), "{said}");
    let said = refused("", "", &["--figures", "two-cpus", "--out", "kept"]);
    assert!(said.contains("no figure `two-cpus`; it has one-cpu"), "{said}");
    assert!(!folder.path().join("kept").exists(), "who is refused has nothing to clear away");
    assert!(refused("", "", &["--policies", "CC"]).contains("--policies is not for a study of this kind"));
    assert!(refused("", "", &["--programs", "x264"]).contains("no figure has pairs of `x264`"));
}

#[test]
fn runs_are_not_added_to_what_is_no_result_and_nothing_is_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("result.json"), "{").unwrap();
    for study in ["predict", "verify"] {
        let mut more = Command::cargo_bin("corun").unwrap();
        let out = more.current_dir(&folder).args(["study", study, "--more", "--out", "."]).output().unwrap();
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.starts_with("corun: --more adds to the runs in ./result.json, which is no such result"));
        assert!(said.ends_with("name another folder with --out\n"), "{said}");
    }
}

#[test]
fn the_co_runs_of_a_record_are_predicted_again_and_kept_and_what_is_no_record_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let again = |record: &str, more: &[&str]| {
        let mut corun = Command::cargo_bin("corun").unwrap();
        corun.current_dir(&folder).args(["predict", "--again", record]).args(more).output().unwrap()
    };
    let record = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/runs/predict-modelled");
    let out = again(record, &["--out", "kept"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("intervals that hold it"));
    assert_eq!(again("kept", &[]).stdout, out.stdout, "what was kept says the same");

    std::fs::write(folder.path().join("half.json"), "{").unwrap();
    let without = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/runs/predict-sleepers");
    for (record, what) in [
        ("nowhere", "give the folder of a record, or its result.json"),
        ("half.json", "no result of `corun study predict`"),
        (without, "no co-run of this record kept its windows; make the study again"),
    ] {
        let out = again(record, &[]);
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.starts_with(&format!("corun: --again {record}: ")) && said.contains(what), "{said}");
    }
}
