//! C programs with the library preloaded. This test is their controller: they have to follow its advice.

use corun_adapt::{cpus, Peer};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The library, which cargo built together with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libcorun_preload.so");
    assert!(library.exists(), "cargo builds the library next to its tests: {library:?}");
    library
}

/// Compiles a program of `tests/c`. Returns `None`, after saying so, if this machine cannot compile it.
fn compiled(folder: &Path, source: &str, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    let program = folder.join(source);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(format!("{source}.c"));
    let mut compile = Command::new(compiler);
    compile.args(["-O1", "-Wall", "-Wextra", "-Werror"]).arg(source).arg("-o").arg(&program).args(flags);
    match compile.output() {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            // A missing library is a lack of this machine. Any other failure fails the test.
            let lacks = ["cannot find", "unable to find", "No such file", "file not found"];
            let is_missing = lacks.iter().any(|what| error.contains(what));
            assert!(is_missing, "{error}");
            println!("skipped: {compiler} cannot compile with {flags:?} here");
            None
        }
        Err(_) => {
            println!("skipped: no {compiler}");
            None
        }
    }
}

/// A program with the library, and its output lines. It is killed at the end.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(program: &Path, variables: &[(&str, &str)]) -> Running {
        Running::with(program, &[], variables)
    }

    fn with(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Running {
        let mut command = Command::new(program);
        command.args(arguments);
        command.env("LD_PRELOAD", library()).env_remove("OMP_NUM_THREADS").env_remove("CORUN_ADAPT");
        command.envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended");
        line.trim().to_owned()
    }

    /// Advises a width until a line shows that the program follows it.
    fn advised(&mut self, width: u32, key: &str) -> String {
        let begin = Instant::now();
        let process = self.child.id();
        let (done, heard) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || loop {
                if let Ok(Some(peer)) = Peer::find(process) {
                    peer.advise(width);
                }
                let is_over = heard.recv_timeout(Duration::from_millis(20));
                if is_over != Err(std::sync::mpsc::RecvTimeoutError::Timeout)
                    || begin.elapsed().as_secs() > 60
                {
                    return;
                }
            });
            loop {
                let line = self.line();
                if value(&line, key) == width {
                    drop(done);
                    return line;
                }
            }
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number after `key=` in a line.
fn value(line: &str, key: &str) -> u32 {
    let words = line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    words.unwrap_or_else(|| panic!("{line} has no {key}")).parse().unwrap()
}

fn is_wide() -> bool {
    if cpus() < 2 {
        println!("skipped: there is one CPU");
    }
    cpus() >= 2
}

/// Teams follow the advice, those with a clause only if requested, and nothing else in the program changes.
fn teams_follow(compiler: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "team", compiler, &["-fopenmp"]) else { return };
    if !is_wide() {
        return;
    }
    let table: [(&[(&str, &str)], bool); 2] = [(&[], false), (&[("CORUN_ADAPT_CLAUSES", "1")], true)];
    for (variables, has_clauses) in table {
        let mut running = Running::start(&program, variables);
        for width in [1, 2, 1] {
            let line = running.advised(width, "free");
            let seen = ["clause", "sum", "most", "after"].map(|key| value(&line, key));
            assert_eq!(seen, [if has_clauses { width } else { 2 }, 4950, cpus(), cpus()], "{line}");
            assert!(value(&line, "loop") <= 2 && value(&line, "inner") == 1, "{line}");
        }
    }
}

#[test]
fn teams_of_libgomp_are_as_wide_as_advised() {
    teams_follow("gcc");
}

#[test]
fn a_narrow_region_of_libgomp_ends_the_other_threads() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "team", "gcc", &["-fopenmp"]) else { return };
    if !is_wide() {
        return;
    }
    let mut running = Running::with(&program, &["plain"], &[("OMP_WAIT_POLICY", "active")]);
    let tasks = format!("/proc/{}/task", running.child.id());
    for width in [2, 1] {
        running.advised(width, "free");
    }
    let begin = Instant::now();
    while std::fs::read_dir(&tasks).unwrap().count() > 1 {
        assert!(begin.elapsed() < Duration::from_secs(60), "a thread still waits");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn teams_of_llvms_libomp_are_as_wide_as_advised() {
    teams_follow("clang");
}

#[test]
fn a_program_that_does_not_adapt_keeps_its_teams() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "team", "gcc", &["-fopenmp"]) else { return };
    for mode in ["off", "perhaps"] {
        let mut running = Running::start(&program, &[("CORUN_ADAPT", mode)]);
        assert_eq!(value(&running.line(), "free"), cpus());
        assert!(matches!(Peer::find(running.child.id()), Ok(None)), "nobody can advise it");
    }
    // In observe mode the program prints what it would do, and what stays as it is.
    let mut running = Running::start(&program, &[("CORUN_ADAPT", "observe")]);
    assert_eq!(value(&running.line(), "free"), cpus());
    let mut error = BufReader::new(running.child.stderr.take().unwrap()).lines();
    let said: Vec<String> = error.by_ref().take(2).map(Result::unwrap).collect();
    assert!(said.iter().all(|line| line.starts_with("corun: ")), "{said:?}");
}

#[test]
fn openblas_uses_as_many_threads_as_advised() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "blas", "gcc", &["-lopenblas"]) else { return };
    if !is_wide() {
        return;
    }
    let mut running = Running::start(&program, &[]);
    for width in [1, 2, 1] {
        let line = running.advised(width, "threads");
        assert_eq!(value(&line, "right"), 1, "{line}");
    }
}

#[test]
fn the_number_of_cpus_is_lower_only_if_requested() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "counts", "gcc", &[]) else { return };
    if !is_wide() {
        return;
    }
    let mut without = Running::start(&program, &[]);
    let line = without.line();
    assert_eq!(["online", "nprocs", "mask"].map(|key| value(&line, key)), [cpus(); 3], "{line}");
    let mut with = Running::start(&program, &[("CORUN_ADAPT_COUNT", "1")]);
    let first = with.line();
    let peer = Peer::find(with.child.id()).unwrap().expect("it published a page");
    peer.advise(1);
    with.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let line = with.line();
    assert_eq!(["online", "nprocs", "mask"].map(|key| value(&line, key)), [1; 3], "{line}");
    assert_eq!(value(&line, "configured"), value(&first, "configured"));
}

#[test]
fn a_program_without_regions_runs_as_before_and_says_so_when_observed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "counts", "gcc", &[]) else { return };
    let run = |mode: &str| {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", library()).env("CORUN_ADAPT", mode).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success());
        assert!(output.stdout.starts_with(b"online="));
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(run("on"), "");
    assert_eq!(run("off"), "");
    assert_eq!(run("observe").lines().count(), 1);
}
