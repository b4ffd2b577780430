//! `corun run`: what it passes to the program, and what it refuses. The tests of the hooks themselves are
//! next to them.

use assert_cmd::cargo::cargo_bin;
use std::path::Path;
use std::process::{Command, Output};

fn run(library: &Path, arguments: &[&str]) -> Output {
    command(library, arguments).output().unwrap()
}

fn command(library: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("corun"));
    command.arg("run").args(arguments).env("CORUN_PRELOAD", library);
    command.env_remove("LD_PRELOAD").env_remove("CORUN_ADAPT");
    command
}

/// A file that can be named; the dynamic linker complains about it, and goes on.
fn stand_in() -> tempfile::NamedTempFile {
    tempfile::Builder::new().prefix("preload").suffix(".so").tempfile().unwrap()
}

#[test]
fn the_program_runs_with_the_hooks_and_its_status_is_the_status() {
    let library = stand_in();
    let path = library.path().canonicalize().unwrap();
    for (flags, set) in [
        (&["--adapt"][..], "on,,"),
        (&["--adapt", "--observe"], "observe,,"),
        (&["--adapt", "--count"], "on,1,"),
        (&["--adapt", "--clauses"], "on,,1"),
    ] {
        let script = "echo \"$LD_PRELOAD $CORUN_ADAPT,$CORUN_ADAPT_COUNT,$CORUN_ADAPT_CLAUSES $1\"; exit 7";
        let output = run(&path, &[flags, &["--", "sh", "-c", script, "sh", "--its-own"]].concat());
        assert_eq!(output.status.code(), Some(7));
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.trim(), format!("{} {set} --its-own", path.display()));
    }
}

#[test]
fn the_mode_in_the_environment_applies_and_an_invalid_one_is_refused() {
    let library = stand_in();
    let with = |mode: &str, flags: &[&str]| {
        let arguments = [flags, &["--", "sh", "-c", "echo $CORUN_ADAPT"]].concat();
        command(library.path(), &arguments).env("CORUN_ADAPT", mode).output().unwrap()
    };
    for (mode, flags, wanted) in [
        ("off", &["--adapt"][..], "off\n"),
        ("observe", &["--adapt"], "observe\n"),
        ("off", &["--adapt", "--observe"], "observe\n"),
    ] {
        assert_eq!(String::from_utf8(with(mode, flags).stdout).unwrap(), wanted);
    }
    let refused = with("bogus", &["--adapt"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("CORUN_ADAPT is `bogus`: set it to off, observe or on"), "{said}");
}

#[test]
fn bad_input_is_refused_in_one_sentence() {
    let library = stand_in();
    let missing = Path::new("/does/not/exist.so");
    let cases: [(&Path, &[&str]); 5] = [
        (library.path(), &["--", "true"]),
        (library.path(), &["--adapt"]),
        (library.path(), &["--adapt", "--", "/does/not/exist"]),
        (library.path(), &["--adapt", "--", "/"]),
        (missing, &["--adapt", "--", "true"]),
    ];
    for (library, arguments) in cases {
        let output = run(library, arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with("ERROR: ld.so")).collect();
        assert!(lines.len() == 1 && lines[0].starts_with("corun: "), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}
