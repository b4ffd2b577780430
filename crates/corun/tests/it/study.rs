//! `corun study` of modelled machines as a user runs it: output, files, exit codes, bad input.

use crate::printed::text;
use assert_cmd::cargo::{cargo_bin, CommandCargoExt};
use std::path::Path;
use std::process::{Command, Output};

const STUDY: &str = include_str!("../loops.toml");

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
fn a_study_of_schedulers_prints_its_results_next_to_the_stated_ones_and_keeps_tables_chart_and_numbers() {
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
fn parts_of_a_study_merge_into_the_result_of_one_run_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let done = |args: &[&str]| {
        let out = study(folder.path(), STUDY, args);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        text(&out.stdout)
    };
    let whole = done(&["--out", "whole", "--quiet"]);
    for number in 1..=3 {
        let said = done(&["--shard", &format!("{number}/3"), "--out", "parts", "--quiet"]);
        assert!(said.starts_with(&format!("Part {number} of 3: ")), "{said}");
    }
    let merge = |parts: &[&str]| {
        let mut command = Command::cargo_bin("corun").unwrap();
        command
            .current_dir(folder.path())
            .args(["study", "merge", "--out", "merged"])
            .args(parts)
            .output()
            .unwrap()
    };
    let all = ["parts/shard-3-of-3.json", "parts/shard-1-of-3.json", "parts/shard-2-of-3.json"];
    let merged = merge(&all);
    assert_eq!(merged.status.code(), Some(0), "{}", text(&merged.stderr));
    assert_eq!(text(&merged.stdout), whole);
    assert!(files(&at("whole")).len() >= 3);
    assert!(files(&at("whole")) == files(&at("merged")), "the merged parts differ from one run");
    let refused = |parts: &[&str], sentence: &str| {
        let out = merge(parts);
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(sentence), "{said}");
    };
    refused(&all[..2], "part 2 of 3 is missing; make it with --shard 2/3");
    refused(&[all[0], all[0]], "are the same part; name each once");
    refused(&["whole/result.json"], "whole/result.json is not a part of a study");
    refused(&[], "no part is named");
    done(&["--shard", "1/3", "--quick", "--out", "others", "--quiet"]);
    refused(&[all[0], "others/shard-1-of-3.json"], "differ in their command; merge parts of one study");
    let out = study(folder.path(), STUDY, &["--shard", "4/3"]);
    assert!(text(&out.stderr).contains("give one such as 2/8") && out.status.code() == Some(2));
}

/// A folder with the study, and what one run of all of it made.
fn whole() -> (tempfile::TempDir, Vec<(std::ffi::OsString, Vec<u8>)>) {
    let folder = tempfile::tempdir().unwrap();
    let out = study(folder.path(), STUDY, &["--out", "whole", "--quiet"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let files = files(&folder.path().join("whole"));
    (folder, files)
}

/// The files of a folder, with their bytes.
fn files(folder: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut files: Vec<_> =
        entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn the_pods_of_the_indexed_job_make_all_parts_of_a_study() {
    let (folder, whole) = whole();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/study.yaml");
    let job = std::fs::read_to_string(path).unwrap();
    let of =
        |key: &str| job.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap().trim().to_owned();
    let command: Vec<String> = serde_json::from_str(&of("command:")).unwrap();
    let parts = of("completions:");
    assert_eq!(of("value:").split(' ').next(), Some(&*format!("{parts:?}")), "all parts have a pod");
    assert_eq!(of("image:"), format!("corun:{}", env!("CARGO_PKG_VERSION")));
    // The volumes of a pod, here.
    let here = |word: &String| {
        word.replace("/study/study.toml", "my.toml").replace("/parts", "parts").replace("corun ", "$CORUN ")
    };
    for index in 0..3 {
        let mut pod = Command::new(&command[0]);
        pod.args(command[1..].iter().map(here)).current_dir(&folder);
        pod.env("CORUN", cargo_bin("corun")).env("PARTS", "3").env("JOB_COMPLETION_INDEX", index.to_string());
        let out = pod.output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    }
    let mut merge = Command::cargo_bin("corun").unwrap();
    merge.current_dir(&folder).args(["study", "merge", "--out", "merged"]);
    let merged = merge.args((1..=3).map(|part| format!("parts/shard-{part}-of-3.json"))).output().unwrap();
    assert_eq!(merged.status.code(), Some(0), "{}", text(&merged.stderr));
    assert!(files(&folder.path().join("merged")) == whole, "the merged parts differ from one run");
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
fn runs_are_not_added_to_an_invalid_result_and_nothing_is_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("result.json"), "{").unwrap();
    for study in ["predict", "verify"] {
        let mut more = Command::cargo_bin("corun").unwrap();
        let out = more.current_dir(&folder).args(["study", study, "--more", "--out", "."]).output().unwrap();
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(
            said.starts_with("corun: --more adds to the runs in ./result.json, which is not such a result")
        );
        assert!(said.ends_with("name another folder with --out\n"), "{said}");
    }
}

#[test]
fn the_co_runs_of_a_record_are_predicted_again_and_kept_and_an_invalid_record_is_refused() {
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
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let without = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/runs/predict-sleepers");
    for (record, what) in [
        ("nowhere", "give the folder of a record, or its result.json"),
        ("empty", "there is neither result.json nor result.json.gz in it; give the folder of a record"),
        ("half.json", "no result of `corun study predict`"),
        (without, "no co-run of this record kept its windows; make the study again"),
    ] {
        let out = again(record, &[]);
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.starts_with(&format!("corun: --again {record}: ")) && said.contains(what), "{said}");
    }
}

/// `corun study programs` for a command.
fn describe(folder: &Path, args: &[&str]) -> Output {
    let mut study = Command::cargo_bin("corun").unwrap();
    study.current_dir(folder).args(["study", "programs", "--quiet"]).args(args).output().unwrap()
}

#[test]
fn a_command_is_described_as_a_workload_file_that_the_modelled_machine_runs() {
    let folder = tempfile::tempdir().unwrap();
    let corun = cargo_bin("corun");
    let program = "load parallel --quiet --sync barrier --grain 2ms --imbalance 0.3 --iterations 150";
    let command: Vec<&str> = std::iter::once(corun.to_str().unwrap()).chain(program.split(' ')).collect();
    let out = describe(folder.path(), &[&["--quick", "--out", "kept", "--"], &command[..]].concat());
    if text(&out.stderr).contains("eBPF") {
        println!("skipped: {}", text(&out.stderr));
        return;
    }
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let path = folder.path().join("kept/corun.toml");
    let file = std::fs::read_to_string(&path).unwrap();
    println!("{file}");
    let workload = corun_model::workload::Workload::parse("corun.toml", &file).unwrap();
    let corun_model::workload::Program::Command(command) = workload.program else { panic!("{file}") };
    // Whatever else runs on this machine, the threads' computing time is the same.
    let most = command.model.iter().max_by_key(|p| p.grain * p.iterations).unwrap();
    assert_eq!(most.threads, 2, "{file}");
    let made: u64 = std::fs::read_to_string(folder.path().join("kept/result.json"))
        .map(|json| serde_json::from_str::<serde_json::Value>(&json).unwrap())
        .unwrap()["programs"][0]["is"]["cpu_ns"]
        .as_u64()
        .unwrap();
    let of = |p: &corun_model::workload::Parallel| match p.sync {
        corun_model::workload::Sync::Queue => p.grain * p.iterations,
        _ => p.grain * p.iterations * u64::from(p.threads),
    };
    let written: u64 = command.model.iter().map(of).sum();
    assert!((written as f64 / made as f64 - 1.0).abs() < 0.1, "{written} of {made} ns\n{file}");
    let scenario =
        "schema = \"corun.scenario/1\"\nmachine = \"host\"\n[[tenant]]\nworkload = \"kept/corun.toml\"\n";
    std::fs::write(folder.path().join("s.toml"), scenario).unwrap();
    let sim = Command::new(&corun).current_dir(&folder).args(["sim", "s.toml"]).output().unwrap();
    assert_eq!(sim.status.code(), Some(0), "{}", text(&sim.stderr));
}

#[test]
fn a_command_that_fails_or_does_not_exist_is_reported_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (command, code, what) in [
        (&["no-such-program"][..], 1, "corun: no-such-program: `no-such-program` is not installed"),
        (&["sh", "-c", "exit 3"], 1, "corun: sh: it "),
    ] {
        let out = describe(folder.path(), &[&["--"], command].concat());
        let said = text(&out.stderr);
        assert_eq!((out.status.code(), said.lines().count()), (Some(code), 1), "{said}");
        assert!(said.starts_with(what), "{said}");
    }
    let out = study(folder.path(), STUDY, &["--", "true"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("`true` is too much"), "{}", text(&out.stderr));
}
