//! Every flag that names a file or a folder: an impossible place is refused in one sentence with the place
//! and the remedy, before anything runs.

use crate::anybodys;
use crate::printed::text;
use assert_cmd::cargo::CommandCargoExt;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{copy, create_dir, read_to_string, set_permissions, write, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// What a flag does with the place that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Reads a file.
    Reads,
    /// Reads the command's output: it need not exist yet.
    ReadsLater,
    /// Reads the folder of a ring, or a recording.
    Replays,
    /// Reads a file, or one in a folder.
    Either,
    /// Writes a file.
    Writes,
    /// Writes a file, unless the command does, which may make its folder, and may write several files in a folder.
    WritesLater,
    /// Makes a folder.
    Makes,
}

/// All of them: `@` is the place. Everything else that the flags of a row need exists and is valid.
const FLAGS: &[(Use, &str)] = &[
    (Use::Reads, "agent --print-config --config @"),
    (Use::Makes, "agent --listen 127.0.0.1:0 --ring @"),
    (Use::Writes, "control gang --tenant nobody-here --dry-run --for 10ms --json @"),
    (Use::Writes, "control gang --tenant nobody-here --dry-run --for 10ms --html @"),
    (Use::Writes, "control gang --tenant nobody-here --dry-run --for 10ms --trace @"),
    (Use::Writes, "doctor --json @"),
    (Use::Makes, "generate man @"),
    (Use::Makes, "generate completions @"),
    (Use::Reads, "load @"),
    (Use::Writes, "load cpu --duration 10ms --json @"),
    (Use::Writes, "predict -q --json @ -- true"),
    (Use::Writes, "predict -q --html @ -- true"),
    (Use::Writes, "predict -q --record @ -- true"),
    (Use::Either, "predict --again @"),
    (Use::Makes, "predict --again RECORD --out @"),
    (Use::Replays, "profile --from @"),
    (Use::Writes, "profile -q --all --for 10ms --json @"),
    (Use::Writes, "profile -q --all --for 10ms --html @"),
    (Use::Writes, "profile -q --all --for 10ms --trace @"),
    (Use::Writes, "record -q --output @ -- true"),
    (Use::Reads, "sim @"),
    (Use::Reads, "sim --from @"),
    (Use::Writes, "sim -q SCENARIO --json @"),
    (Use::Writes, "sim -q SCENARIO --html @"),
    (Use::Writes, "sim -q SCENARIO --trace @"),
    (Use::Reads, "study @"),
    (Use::Reads, "study merge @"),
    (Use::Reads, "study control -q --quick --after @"),
    (Use::Makes, "study predict -q --inputs @"),
    (Use::Makes, "study predict -q --out @"),
    (Use::Makes, "study predict -q --recordings @"),
    (Use::Replays, "top --once @"),
    (Use::Reads, "top --once --keys @"),
    (Use::Reads, "validate -q --quick --study @"),
    (Use::Reads, "validate -q --quick --live @"),
    (Use::Writes, "validate -q --quick --json @"),
    (Use::Makes, "validate -q --quick --out @"),
    (Use::Writes, "verify -q --json @ -- true"),
    (Use::WritesLater, "verify -q --junit @ -- true"),
    (Use::Writes, "verify -q --bmf @ -- true"),
    (Use::ReadsLater, "verify -q --results @ -- true"),
    (Use::Writes, "verify -q --junit JUNIT --out @ -- true"),
    (Use::Reads, "verify --annotate @ --from RING --tenant x"),
    (Use::Replays, "verify --annotate JUNIT --from @ --tenant x"),
];

/// The error of a place, and the end of its sentence; `#` is the folder of the test.
fn faults(of: Use) -> Vec<(&'static str, &'static str)> {
    match of {
        Use::Reads => vec![
            ("folder", "it is a folder; name a file in it"),
            ("none", "name a file that is there"),
            ("none/x", "name a file that is there"),
            ("file/x", "#/file is no folder; name a file that is there"),
            ("closed", "no permission to read it; name a file that you may read"),
        ],
        Use::ReadsLater => vec![
            ("folder", "it is a folder; name a file in it"),
            ("file/x", "#/file is no folder; name a file that is there"),
        ],
        Use::Replays => vec![
            ("file", "make one with `corun record`"),
            ("closed", "no permission to read it; name a file that you may read"),
            ("none", "there is no such folder; name one that is there"),
            ("file/x", "#/file is no folder; name a folder"),
            ("locked", "no permission to read it; name a folder that you may read, or run as root"),
        ],
        Use::Either => ["none", "file/x", "folder", "closed"]
            .map(|place| (place, "give the folder of a record, or its result.json"))
            .to_vec(),
        Use::Writes => vec![
            ("folder", "it is a folder; name a file in it"),
            ("none/x", "the folder #/none does not exist; make it first"),
            ("file/x", "#/file is no folder; choose another place"),
            ("locked/x", "no permission to create files in #/locked; choose another place"),
        ],
        Use::WritesLater => vec![
            ("file/x", "#/file is no folder; choose another place"),
            ("locked/x", "no permission to create files in #/locked; choose another place"),
        ],
        Use::Makes => vec![
            ("file", "it is no folder; name a folder"),
            ("file/x", "#/file is no folder; name a folder"),
            ("/proc/x", "no folder can be made in /proc; choose another place"),
            ("locked/x", "no permission to create files in #/locked; choose another place"),
            ("locked", "no permission to create files in #/locked; choose another place"),
        ],
    }
}

/// A folder with one place of each kind.
fn places() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mode = |name: &str, mode| set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
    ["folder", "locked", "ring", "open"].iter().for_each(|name| create_dir(at(name)).unwrap());
    ["file", "closed"].iter().for_each(|name| write(at(name), "").unwrap());
    write(at("open/junit.xml"), "<testsuite><testcase name=\"t\" time=\"1\"/></testsuite>").unwrap();
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scenario = read_to_string(tree.join("scenarios/two-sessions.toml")).unwrap();
    write(at("scenario.toml"), scenario.replace("../workloads/", "")).unwrap();
    for workload in ["barrier-spin.toml", "barrier-block.toml"] {
        copy(tree.join("workloads").join(workload), at(workload)).unwrap();
    }
    copy(tree.join("studies/runs/predict-held-out/result.json.gz"), at("record")).unwrap();
    mode("locked", 0o711);
    mode("closed", 0o600);
    mode("open", 0o777);
    mode("open/junit.xml", 0o666);
    folder
}

fn entries(folder: &Path) -> BTreeSet<OsString> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn an_impossible_place_for_a_flag_is_refused_with_the_remedy() {
    let folder = places();
    let here = folder.path().display().to_string();
    // SAFETY: it only asks.
    let is_root = unsafe { libc::geteuid() == 0 };
    let anybodys = is_root.then(|| anybodys::corun(folder.path()).get_program().to_owned());
    let before = entries(folder.path());
    for (of, line) in FLAGS {
        for (place, end) in faults(*of) {
            let is_closed = place.starts_with("closed") || place.starts_with("locked");
            let path = if place.starts_with('/') { place.to_owned() } else { format!("{here}/{place}") };
            let words = line.split(' ').map(|word| match word {
                "@" => path.clone(),
                "SCENARIO" => format!("{here}/scenario.toml"),
                "RECORD" => format!("{here}/record"),
                "RING" => format!("{here}/ring"),
                "JUNIT" => format!("{here}/open/junit.xml"),
                word => word.to_owned(),
            });
            let words: Vec<String> = words.collect();
            let mut command = match (is_closed, &anybodys) {
                // Nothing is closed to root.
                (true, Some(program)) => {
                    let mut command = Command::new(program);
                    command.uid(65534).gid(65534);
                    command
                }
                _ => Command::cargo_bin("corun").unwrap(),
            };
            let output = command.args(&words).current_dir(&here).output().unwrap();
            let (said, end) = (text(&output.stderr), end.replace('#', &here));
            assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
            assert!(said.starts_with("corun: ") && said.lines().count() == 1, "{words:?}: {said}");
            assert!(said.contains(&path) && said.contains(&end), "{words:?}: {said}not: {end}");
            assert!(!said.contains("os error"), "{words:?}: {said}");
        }
    }
    assert_eq!(entries(folder.path()), before, "who is refused has nothing to clear away");
}

/// The flags of a verb whose value is a file or a folder by its name.
fn flags_of(verb: &str) -> BTreeSet<(String, String)> {
    let output = Command::cargo_bin("corun").unwrap().args([verb, "--help"]).output().unwrap();
    let help = text(&output.stdout);
    let words: Vec<&str> = help.split_whitespace().collect();
    let is_place = |word: &str| ["<FILE>", "<DIR>", "<FOLDER>", "<RECORD>"].contains(&word);
    let named = words.windows(2).filter(|two| two[0].starts_with("--") && is_place(two[1]));
    named.map(|two| (verb.to_owned(), two[0].to_owned())).collect()
}

#[test]
fn no_flag_that_names_a_place_is_left_out() {
    let help = text(&Command::cargo_bin("corun").unwrap().arg("--help").output().unwrap().stdout);
    let flags: BTreeSet<(String, String)> =
        crate::generate::commands(&help).iter().flat_map(|verb| flags_of(verb)).collect();
    assert!(flags.len() > 20, "they were not found: {flags:?}");
    let is_tried = |(verb, flag): &&(String, String)| {
        FLAGS.iter().any(|(_, line)| line.starts_with(verb.as_str()) && line.contains(&format!(" {flag} @")))
    };
    let missing: Vec<&(String, String)> = flags.iter().filter(|flag| !is_tried(flag)).collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}
