//! The results that the benchmarks in `bench` derive from their rows: their own tests, in Python.

use std::path::Path;
use std::process::Command;

#[test]
fn the_results_that_benchmarks_derive_from_rows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/tests");
    let mut tests = Command::new("python3");
    tests.args(["-m", "unittest", "discover", "--start-directory"]).arg(folder);
    let output = match tests.env("PYTHONDONTWRITEBYTECODE", "1").output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: no python3");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("Ran 0 tests"), "{said}");
}
