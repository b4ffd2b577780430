//! `corun load` as a user meets it: exit codes, one-sentence errors, reports, and Ctrl-C.

mod printed;

use assert_cmd::cargo::cargo_bin;
use printed::text;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn load(arguments: &str) -> Output {
    Command::new(cargo_bin("corun")).arg("load").args(arguments.split_whitespace()).output().unwrap()
}

fn refusal(arguments: &str) -> String {
    let output = load(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments}: {}", text(&output.stderr));
    assert!(output.stdout.is_empty());
    text(&output.stderr)
}

const BARRIER: &str = "parallel --iterations 20 --loops-per-ms 1000";

#[test]
fn a_report_is_text_or_json_or_both() {
    let human = text(&load(BARRIER).stdout);
    assert!(human.starts_with("barrier, 2 threads, blocking, grain 1.00 ms\n  20 rounds in "), "{human}");

    let json: Value = serde_json::from_slice(&load(&format!("{BARRIER} --json -")).stdout).unwrap();
    assert_eq!((&json["schema"], &json["iterations"]), (&"corun.load/1".into(), &20.into()));

    let file = tempfile::NamedTempFile::new().unwrap();
    let both = load(&format!("{BARRIER} --json {}", file.path().display()));
    assert!(text(&both.stdout).contains("20 rounds"));
    let json: Value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
    assert_eq!(json["threads"][1]["name"], "barrier-1");
}

#[test]
fn bad_input_is_one_sentence_and_exit_code_2() {
    assert_eq!(refusal("parallel --threads 0"), "corun: threads is 0; a program needs at least 1\n");
    assert_eq!(
        refusal("hubench --threads 3"),
        "corun: threads is 3; hubench and lubench share in pairs, give an even number\n"
    );
    assert!(refusal("cpu --cpus 8191").starts_with("corun: CPU 8191 is not one this process may use; choose"));
    assert!(refusal("periodic --demand 1.5").contains("demand is 1.5; it is a share between 0 and 1"));
    assert!(refusal("parallel --grain 10").contains("`10` is not a time with its unit"));
    assert!(refusal("persistant").contains("a kind of load is one of persistent, periodic,"));
    assert_eq!(refusal("-q cpu"), "corun: flags go behind a kind of load: corun load cpu [OPTIONS]\n");
    let passwd = refusal("/etc/passwd");
    assert!(passwd.starts_with("corun: /etc/passwd:1: this is not a workload: that is TOML"), "{passwd}");
    assert!(refusal("no/such.toml").starts_with("corun: cannot read no/such.toml: No such file"));
    assert!(refusal("cpu --loops-per-ms 0 --iterations 1").contains("--loops-per-ms"));
    assert!(refusal("cpu --json /no/folder/r.json").contains("the folder /no/folder does not exist"));
}

#[test]
fn a_bad_workload_file_is_named_with_its_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "schema = \"corun.workload/1\"\nname = \"x\"\n[program]\nkind = \"parallel\"\nthreads = 0\n";
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().display().to_string();
    assert_eq!(refusal(&path), format!("corun: {path}:5: threads is 0; a program needs at least 1\n"));
}

#[test]
fn a_cyclic_pipeline_is_refused_and_one_that_branches_runs() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    let pipeline = |back: &str| {
        let text = format!("schema = \"corun.workload/1\"\nname = \"x\"\n[program]\nkind = \"parallel\"\nthreads = 3\niterations = 50\nsync = \"pipeline\"\n[[program.stage]]\nname = \"read\"\nfeeds = [\"hash\", \"write\"]\n[[program.stage]]\nname = \"hash\"\nfeeds = [\"write\"]\n[[program.stage]]\nname = \"write\"\n{back}");
        std::fs::write(file.path(), text).unwrap();
    };
    pipeline("feeds = [\"read\"]\n");
    let said = refusal(&path);
    let expected = format!("corun: {path}:9: stage `read` gets its own items back: read feeds hash feeds write feeds read is a cycle");
    assert!(said.starts_with(&expected) && said.lines().count() == 1, "{said}");
    pipeline("");
    let json = text(&load(&format!("{path} --loops-per-ms 1000 --json -")).stdout);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["iterations"], &json["threads"][1]["name"]), (&50.into(), &"hash-1".into()));
}

#[test]
fn a_workload_file_runs_and_a_time_limit_ends_it() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/periodic.toml");
    let output = load(&format!("{file} --duration 50ms --json -"));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["ended"], &json["demand_asked"]), (&"time-up".into(), &0.5.into()));
}

#[test]
fn a_command_that_fails_is_exit_code_1_and_its_output_is_not_the_report() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let program = "schema = \"corun.workload/1\"\nname = \"x\"\n[program]\nkind = \"command\"\n\
                argv = [\"sh\", \"-c\", \"echo noise; exit 7\"]\n";
    std::fs::write(file.path(), program).unwrap();
    let output = load(&format!("{} --json -", file.path().display()));
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["command"]["exit_code"], 7);
    let output = load(&file.path().display().to_string());
    let human = text(&output.stdout);
    assert!(human.contains(" (failed: exit status 7)\n") && !human.contains("completed"), "{human}");
}

#[test]
fn progress_comes_as_json_lines_and_a_signal_ends_the_run_with_its_report() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut child = Command::new(cargo_bin("corun"))
            .args(["load", "intermittent", "--progress-json", "--json", "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let progress: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(progress["schema"], "corun.load.progress/1");
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(child.id() as i32, signal) };
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["ended"], "stopped");
    }
}

/// Two threads that never block: a victim that is easy to slow down. Dropping kills it.
struct Victim(std::process::Child);

impl Victim {
    fn start(duration: &str) -> Victim {
        let command =
            ["load", "cpu", "--threads", "2", "--loops-per-ms", "50000", "-q", "--duration", duration];
        let mut program = Command::new(cargo_bin("corun"));
        Victim(program.args(command).stdout(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The result of holding `target` on `victim`: the report's `held`.
fn held(target: &str, wanted: f64, victim: &Victim) -> Value {
    let output = load(&format!("{target} --victim {} --duration 6s -q --json -", victim.pid()));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let held = report["held"].clone();
    assert_eq!((&report["ended"], held["target"].as_f64()), (&"time-up".into(), Some(wanted)), "{report}");
    assert_eq!(output.status.code(), Some(if held["held"] == true { 0 } else { 1 }), "{report}");
    held
}

#[test]
fn a_target_is_held_on_a_real_victim() {
    let victim = Victim::start("2m");
    for (target, wanted, lost) in
        [("--target-steal 25%", 0.25, 0.25), ("--target-slowdown 1.3 --baseline 1s", 1.3, 0.23)]
    {
        let tries = (0..4).map(|_| held(target, wanted, &victim));
        let good = tries.map(|held| {
            // Other programs run next to this test. If they take so much of the victim that hardly anything
            // is left to take, or so much of the interference that it cannot run, nothing can be judged.
            let (mean, demand) = (held["mean"].as_f64().unwrap(), held["demand"].as_f64().unwrap());
            let near = (mean / wanted - 1.0).abs() < 0.3;
            let by_others = if mean > wanted { demand < lost / 2.0 } else { demand > 2.0 * lost };
            let quiet = held["limit"].is_null() && !by_others;
            assert!(near || !quiet, "{target}: {held}");
            near
        });
        if !good.into_iter().any(|good| good) {
            println!("skipped: {target} cannot be judged, others take too much of this machine");
        }
    }
}

#[test]
fn a_target_that_cannot_be_held_is_exit_code_1_with_the_reason() {
    let asleep = Victim(Command::new("sleep").arg("60").spawn().unwrap());
    let output = load(&format!("--target-steal 25% --victim {} --duration 2s -q", asleep.pid()));
    let (report, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{report}{said}");
    assert!(report.contains("steal unknown of 25.0 % asked for: NOT held"), "{report}");
    assert!(report.contains("the victim wanted no CPU"), "{report}");
    assert_eq!(said, "corun: the target was not held; the report says how far it was\n");
}

#[test]
fn the_end_of_the_victim_is_the_end_of_the_interference() {
    let victim = Victim::start("1500ms");
    let output = load(&format!("intermittent --target-steal 10% --victim {} -q --json -", victim.pid()));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ended"], "victim-ended", "{report}");
}

#[test]
fn a_target_that_makes_no_sense_is_refused_before_anything_runs() {
    let own = std::process::id();
    assert!(refusal("periodic --target-steal 25%").contains("--target-steal needs a victim: --victim PID"));
    assert!(refusal(&format!("--victim {own}")).contains("--victim needs a target"));
    assert!(refusal(&format!("--target-steal 120% --victim {own}")).contains("ask for 1 % to 95 %"));
    assert!(refusal(&format!("--target-slowdown 0.5 --victim {own}")).contains("ask for 1.02 to 20"));
    assert!(refusal(&format!("--target-steal some --victim {own}")).contains("not a share such as 25%"));
    assert!(refusal(&format!("persistent --target-steal 25% --victim {own}")).contains("has no demand"));
    assert!(refusal(&format!("cpu --target-steal 25% --victim {own}"))
        .contains("only interference can hold a target"));
    assert_eq!(
        refusal("--target-steal 25% --victim 4194305"),
        "corun: no process 4194305; `ps -e` lists them\n"
    );
    let mut asleep = Victim(Command::new("sleep").arg("60").spawn().unwrap());
    let refused = refusal(&format!("--target-slowdown 1.5 --baseline 300ms --victim {}", asleep.pid()));
    assert!(refused.contains("that is too little for a slowdown"), "{refused}");
    assert!(asleep.0.try_wait().unwrap().is_none(), "the victim was not touched");
}
