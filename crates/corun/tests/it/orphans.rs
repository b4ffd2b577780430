//! Processes whose parents all end while corun loads its probe: they belong to the subject.

use crate::hog::Hog;
use assert_cmd::cargo::CommandCargoExt;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Whether a process has attached a program to the kernel.
fn has_attached(pid: u32) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return false };
    let mut infos = descriptors.flatten().filter_map(|d| std::fs::read_to_string(d.path()).ok());
    infos.any(|info| info.contains("link_id:"))
}

#[test]
fn an_orphan_whose_parents_end_while_the_probe_is_loaded_belongs_to_the_subject() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    assert!(Command::new("mkfifo").arg(&told).status().unwrap().success());
    // Once told, it starts one that starts a loop, and both end at once.
    let script = format!("read x < {}; (sh -c 'while :; do :; done' &)", told.display());
    let parent = Hog::running(folder.path(), "founder", &script);
    let mut command = Command::cargo_bin("corun").unwrap();
    let pid = parent.0.id().to_string();
    command.args(["profile", "-q", "-p", &pid, "--for", "500ms", "--json", "-"]).stdout(Stdio::piped());
    let mut corun = command.spawn().unwrap();
    while !has_attached(corun.id()) && corun.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::fs::write(&told, "now\n").unwrap();
    let output = corun.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    if report["source"] != "ebpf" {
        println!("skipped: this machine has no eBPF for this user");
        return;
    }
    let own = &report["subject"]["ledger"];
    assert!(own["compute_ns"].as_u64().unwrap() > 0, "{own}");
}
