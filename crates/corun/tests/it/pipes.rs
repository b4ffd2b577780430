//! Whoever reads what corun writes may have seen enough, as `head` has: that is no failure, and nothing is left behind.

use crate::hog::Hog;
use assert_cmd::cargo::CommandCargoExt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs corun, reads one line of it, closes the pipe, and tells its exit status and what it said to standard error.
fn one_line_of(args: &[&str]) -> (String, Option<i32>, String) {
    let mut child = Command::cargo_bin("corun")
        .unwrap()
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{args:?} went on although nobody reads it");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (line, child.wait().unwrap().code(), said)
}

#[test]
fn a_reader_that_has_seen_enough_ends_a_stream_of_lines_and_fails_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let hogs = ["corun-pipe-a", "corun-pipe-b"].map(|name| Hog::start(folder.path(), name));
    let pid = hogs[0].0.id().to_string();
    for args in [
        &["predict", "-p", &pid, "--json-lines"][..],
        &[
            "control",
            "gang",
            "-o",
            "together=false",
            "--tenant",
            "corun-pipe-a",
            "--tenant",
            "corun-pipe-b",
            "--dry-run",
            "--json-lines",
        ],
        &["policies"],
        &["policies", "--json"],
        &["top", "--once", "--every", "100ms"],
        &["top", "--print-keys"],
        &["agent", "--print-config"],
    ] {
        let (line, code, said) = one_line_of(args);
        assert!(!line.trim().is_empty(), "{args:?}: {said}");
        assert_eq!(code, Some(0), "{args:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("roken pipe"), "{args:?}: {said}");
    }
}

#[test]
fn nor_does_a_reader_of_explanations() {
    let folder = tempfile::tempdir().unwrap();
    let _hogs = ["corun-pipe-c", "corun-pipe-d"].map(|name| Hog::start(folder.path(), name));
    let tenants = ["--tenant", "corun-pipe-c", "--tenant", "corun-pipe-d"];
    let mut child = Command::cargo_bin("corun")
        .unwrap()
        .args(
            [
                &["control", "gang", "-o", "together=false", "--dry-run", "--explain", "--for", "60s"][..],
                &tenants,
            ]
            .concat(),
        )
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    while !line.contains("slot") && said.read_line(&mut line).unwrap() > 0 {}
    drop(said);
    let began = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{line}");
    assert!(line.contains("slot") && began.elapsed() < Duration::from_secs(50), "{line}");
}

#[test]
fn nor_does_whoever_started_an_agent_and_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("agent.toml");
    std::fs::write(&config, "").unwrap();
    let mut child = Command::cargo_bin("corun")
        .unwrap()
        .args(["agent", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("metrics at") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it has ended");
    }
    drop(said);
    let address = line.trim().split("http://").nth(1).unwrap().strip_suffix("/metrics").unwrap().to_owned();
    let ready = || {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream.write_all(b"GET /readyz HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    // It has something to say now, and nobody hears it.
    std::fs::write(&config, "windoww = 3\n").unwrap();
    // SAFETY: sends a signal to a child that is not waited for yet.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGHUP) }, 0);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ready().contains("unknown field `windoww`") {
        assert!(Instant::now() < deadline, "{}", ready());
        std::thread::sleep(Duration::from_millis(50));
    }
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
