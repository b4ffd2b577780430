//! A reader of corun's output may have seen enough, like `head`: that is no failure, and nothing is left
//! behind.

use crate::hog::Hog;
use assert_cmd::cargo::CommandCargoExt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs corun, reads one line of it, closes the pipe, and returns its exit status and its standard error.
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
fn an_answer_on_standard_output_is_alone_there_and_a_commands_output_goes_to_standard_error() {
    for (args, schema) in [
        (&["profile", "-q", "--json", "-"][..], "corun.profile/1"),
        (&["profile", "-q", "--json", "/dev/stdout"], "corun.profile/1"),
        (&["predict", "-q", "--json", "-"], "corun.predict/1"),
        (&["predict", "-q", "--json-lines"], "corun.predict/1"),
        (&["verify", "-q", "--json", "-"], "corun.verify/1"),
    ] {
        let mut corun = Command::cargo_bin("corun").unwrap();
        let out = corun.args(args).args(["--", "sh", "-c", "echo early; echo wrong >&2; exit 7"]).output();
        let out = out.unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        // A short run may have only one line.
        let answer: serde_json::Value = serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|e| panic!("{args:?}: {e}: {}", String::from_utf8_lossy(&out.stdout)));
        assert_eq!(answer["schema"], schema, "{args:?}");
        assert!(said.contains("early\n") && said.contains("wrong\n"), "{args:?}: {said}");
        assert_eq!(out.status.code(), Some(7), "{args:?}: {said}");
    }
}

#[test]
fn without_an_answer_standard_output_is_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answer.json");
    for verb in ["profile", "predict", "verify"] {
        let mut corun = Command::cargo_bin("corun").unwrap();
        let out =
            corun.args([verb, "-q", "--json"]).arg(&file).args(["--", "echo", "mine"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout), "mine\n", "{verb}");
    }
}

#[test]
fn a_file_behind_standard_output_is_appended_to_and_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("all.txt");
    let mut file = std::fs::File::create(&place).unwrap();
    file.write_all(b"before\n").unwrap();
    let mut corun = Command::cargo_bin("corun").unwrap();
    let status = corun.args(["policies"]).stdout(file.try_clone().unwrap()).status().unwrap();
    assert!(status.success());
    let mut corun = Command::cargo_bin("corun").unwrap();
    let status = corun.args(["doctor", "--json", "/dev/stdout"]).stdout(file).status().unwrap();
    assert!(status.code().is_some_and(|code| code <= 1));
    let written = std::fs::read_to_string(&place).unwrap();
    assert!(written.starts_with("before\n") && written.contains("corun.doctor/1"), "{written}");
}

#[test]
fn a_reader_of_explanations_that_goes_fails_nothing() {
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
fn a_user_who_started_an_agent_and_has_gone_fails_nothing() {
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
    // It has a message now, and nobody reads it.
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
