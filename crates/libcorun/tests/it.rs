//! The library as other languages see it: its header, a C program linked to it statically or dynamically, and a Python program.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of the libraries that cargo built together with this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    assert!(deps.join("libcorun.so").exists(), "cargo builds the library next to its tests, in {deps:?}");
    deps.to_owned()
}

fn header() -> String {
    let text = std::fs::read_to_string(here().join("include/corun.h")).unwrap();
    // Without comments.
    let mut parts = text.split("/*");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |so_far, part| so_far + part.split_once("*/").unwrap().1)
}

/// Puts one space between words, and none next to brackets, commas and stars.
fn plain(text: &str) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for sign in ["(", ")", ",", "*"] {
        text = text.replace(&format!(" {sign}"), sign).replace(&format!("{sign} "), sign);
    }
    text
}

/// The C prototype of a Rust function: `name(a: A, b: B) -> R`.
fn prototype(function: &str) -> String {
    let kind = |kind: &str| match kind.trim() {
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        "c_int" => "int",
        "*const c_char" => "const char *",
        "*mut c_char" => "char *",
        "*mut c_void" => "void *",
        "*const Handle" => "const corun *",
        "*mut Handle" => "corun *",
        "*mut *mut Handle" => "corun **",
        "*mut Published" => "corun_published *",
        "Option<Callback>" => "corun_callback",
        other => panic!("{other} in {function} has no counterpart in C"),
    };
    let (name, rest) = function.split_once('(').unwrap();
    let (given, returned) = rest.rsplit_once(')').unwrap();
    let returned = returned.trim().strip_prefix("->").map_or("void", kind);
    let given: Vec<String> = given
        .split(',')
        .filter(|given| !given.trim().is_empty())
        .map(|given| given.split_once(':').unwrap())
        .map(|(name, of)| format!("{} {}", kind(of), name.trim()))
        .collect();
    let given = if given.is_empty() { "void".to_owned() } else { given.join(", ") };
    plain(&format!("{returned} {name}({given})"))
}

#[test]
fn the_header_declares_every_function_as_it_is() {
    let source = std::fs::read_to_string(here().join("src/lib.rs")).unwrap();
    let plainly = source.split("extern \"C\" fn ").skip(1).filter(|rest| rest.starts_with("corun_"));
    let plainly = plainly.map(|rest| rest.split('{').next().unwrap().to_owned());
    // In the macro: `name(handle: POINTER, …) {`, which returns an int.
    let (_, in_macro) = source.split_once("\nof_handle! {\n").unwrap();
    let in_macro = in_macro.split("\n    corun_").collect::<Vec<_>>();
    let in_macro = in_macro.iter().map(|rest| rest.split(" {").next().unwrap().trim());
    let in_macro = in_macro.map(|head| format!("corun_{} -> c_int", head.trim_start_matches("corun_")));
    let mut defined: Vec<String> =
        plainly.chain(in_macro.map(|head| head.replace("(handle:", "(c:"))).map(|f| prototype(&f)).collect();
    let header = header();
    let declared = header.split(';').filter_map(|statement| {
        let statement = statement.trim_start_matches(|c: char| c.is_whitespace());
        let is_function = statement.contains(" corun_") || statement.contains("*corun_");
        (is_function && statement.ends_with(')') && !statement.contains("typedef")).then(|| {
            plain(
                statement
                    .rsplit("{\n")
                    .next()
                    .unwrap()
                    .lines()
                    .filter(|l| !l.starts_with('#'))
                    .collect::<Vec<_>>()
                    .join(" ")
                    .trim(),
            )
        })
    });
    let mut declared: Vec<String> = declared.collect();
    defined.sort();
    declared.sort();
    assert!(defined.len() > 20, "{defined:?}");
    assert_eq!(declared, defined, "corun.h (left) and src/lib.rs (right)");
}

#[test]
fn the_header_has_every_constant_and_every_code_has_its_own_sentence() {
    let header = header();
    let mut defined: Vec<(String, i32)> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define CORUN_")?.split_once(' '))
        .map(|(name, value)| (format!("CORUN_{name}"), value.trim_matches(['(', ')']).parse().unwrap()))
        .collect();
    let mut wanted: Vec<(String, i32)> =
        corun::CODES.iter().map(|(code, name, _)| (name.to_string(), *code)).collect();
    let others = [("CORUN_ABI", corun::ABI as i32), ("CORUN_OFF", 0), ("CORUN_OBSERVE", 1), ("CORUN_ON", 2)];
    wanted.extend(others.map(|(name, value)| (name.to_owned(), value)));
    defined.sort();
    wanted.sort();
    assert_eq!(defined, wanted, "corun.h (left) and src/code.rs (right)");
    let mut sentences: Vec<&CStr> = corun::CODES.iter().map(|(.., text)| *text).collect();
    sentences.sort();
    sentences.dedup();
    assert_eq!(sentences.len(), corun::CODES.len());
}

/// Runs a command. Returns `None`, after saying so, if there is no such program.
fn run(what: &str, command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: no {what}");
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
}

#[track_caller]
fn succeeded(output: &Output) {
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy);
    assert!(output.status.success(), "{}\n{}{}", output.status, text[0], text[1]);
    text[0].lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| println!("{line}"));
}

/// Compiles the C program with these arguments and runs it.
fn in_c(name: &str, link: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(name);
    let mut compile = Command::new("cc");
    compile.args(["-Wall", "-Wextra", "-Werror", "-std=gnu11", "-I"]).arg(here().join("include"));
    compile.arg(here().join("tests/c/adapt.c")).arg("-o").arg(&program).args(link);
    let Some(compiled) = run("C compiler", &mut compile) else { return };
    succeeded(&compiled);
    // Its run-time name contains the version of the interface.
    std::os::unix::fs::symlink(built().join("libcorun.so"), folder.path().join("libcorun.so.1")).unwrap();
    succeeded(&Command::new(&program).env("LD_LIBRARY_PATH", folder.path()).output().unwrap());
    // With a mode that does not exist nothing can be opened.
    let mut refused = Command::new(&program);
    refused.env("LD_LIBRARY_PATH", folder.path()).env("CORUN_ADAPT", "perhaps");
    assert_eq!(refused.status().unwrap().code(), Some(100));
}

#[test]
fn a_c_program_finds_everything_in_the_shared_library() {
    in_c("shared", &["-L", built().to_str().unwrap(), "-lcorun", "-lpthread"]);
}

#[test]
fn a_c_program_finds_everything_in_the_static_library() {
    let library = built().join("libcorun.a");
    in_c("static", &[library.to_str().unwrap(), "-lpthread", "-ldl", "-lm"]);
}

#[test]
fn a_python_program_finds_everything_through_ctypes() {
    let package = here().join("../../python");
    let mut tests = Command::new("python3");
    tests.args(["-m", "unittest", "discover", "--start-directory"]).arg(package.join("tests"));
    tests.env("PYTHONPATH", &package).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("CORUN_ADAPT");
    tests.env("CORUN_LIBRARY", built().join("libcorun.so"));
    if let Some(output) = run("python3", &mut tests) {
        succeeded(&output);
        assert!(!String::from_utf8_lossy(&output.stderr).contains("Ran 0 tests"));
    }
}

/// Messages of pip and venv if a registry cannot be reached or parts of Python are missing. These are lacks of this machine.
const LACKS: [&str; 3] = ["No matching distribution found", "ensurepip is not", "No module named pip"];

/// Runs a step on the way to the wheel. Returns `None`, after saying so, if this machine lacks something.
fn step(what: &str, command: &mut Command) -> Option<()> {
    let output = run(what, command)?;
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    if let Some(lack) = LACKS.iter().find(|lack| text.contains(**lack)) {
        println!("skipped: {what}: {lack}");
        return None;
    }
    succeeded(&output);
    Some(())
}

fn wheel_works(folder: &Path) -> Option<()> {
    let (clean, wheels) = (folder.join("clean"), folder.join("wheels"));
    step("python3", Command::new("python3").args(["-m", "venv"]).arg(&clean))?;
    let python = clean.join("bin/python");
    let mut make = Command::new(here().join("../../scripts/wheel"));
    step("wheel", make.arg(built().join("libcorun.so")).arg(&wheels).env("PYTHON", &python))?;
    let all: Vec<PathBuf> = std::fs::read_dir(&wheels).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [wheel] = &all[..] else { panic!("{all:?}") };
    let name = wheel.file_name().unwrap().to_str().unwrap();
    assert!(name.contains("-py3-none-linux_"), "{name} is of one machine, and of every Python 3");
    let mut install = Command::new(&python);
    step("pip", install.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]).arg(wheel))?;
    // `threadpoolctl` limits the threads of real libraries. Without it only that test is skipped.
    let _ = step(
        "threadpoolctl",
        Command::new(&python).args(["-m", "pip", "install", "--quiet", "threadpoolctl"]),
    );
    let mut tests = Command::new(&python);
    tests.args(["-m", "unittest", "discover", "--start-directory"]).arg(here().join("../../python/tests"));
    tests.current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1");
    tests.env_remove("PYTHONPATH").env_remove("CORUN_LIBRARY").env_remove("CORUN_ADAPT");
    let output = tests.output().unwrap();
    succeeded(&output);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("Ran 0 tests"));
    Some(())
}

#[test]
fn a_wheel_works_in_a_clean_environment_with_nothing_else_installed() {
    let folder = tempfile::tempdir().unwrap();
    let _ = wheel_works(folder.path());
}

#[test]
fn the_run_time_name_has_the_version_of_the_interface() {
    let library = std::fs::read(built().join("libcorun.so")).unwrap();
    let name = format!("libcorun.so.{}\0", corun::ABI);
    assert!(library.windows(name.len()).any(|window| window == name.as_bytes()));
}
