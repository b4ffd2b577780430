//! `corun verify` and files that the command itself writes: JUnit, results of benchmark tools; and the output
//! for continuous integration.

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

/// Verifies a shell script in a folder. It works without the probe, so it needs no privilege.
fn verify(folder: &Path, flags: &[&str], script: &str, environment: &[(&str, &str)]) -> Output {
    Command::new(cargo_bin("corun"))
        .args(["verify", "--source", "schedstat", "--no-spin"])
        .args(flags)
        .args(["--", "sh", "-ec", script])
        .env_remove("GITHUB_STEP_SUMMARY")
        .envs(environment.iter().copied())
        .current_dir(folder)
        .output()
        .unwrap()
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{}", said(output)))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Writes a JUnit file of two tests that slept for a while, the first of which failed, in the format of a
/// test runner.
const RUNNER: &str = r#"
    begin=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)
    sleep 0.3
    then=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)
    sleep 0.3
    echo "<testsuites><testsuite name='s'><testcase name='waits' timestamp='$begin' time='0.3'><failure/></testcase>
    <testcase name='passes' timestamp='$then' time='0.3'/></testsuite></testsuites>" > tests.xml"#;

#[test]
fn test_cases_of_the_commands_own_file_are_judged_in_a_copy_and_the_file_is_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{RUNNER}; cp tests.xml kept.xml");
    let output = verify(folder.path(), &["--junit", "tests.xml", "--json", "v.json"], &script, &[]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("tests.xml"), read("kept.xml"), "{}", said(&output));
    let copy = read("tests.corun.xml");
    assert_eq!(copy.matches("name=\"corun.stolen_s\"").count(), 2, "{copy}");
    assert_eq!(copy.matches("name=\"corun.verdict\"").count(), 1, "only of what failed: {copy}");
    let report: Value = serde_json::from_str(&read("v.json")).unwrap();
    assert_eq!(report["failed_tests"][0]["name"], "waits");
    let verdict = report["failed_tests"][0]["verdict"].as_str().unwrap();
    assert!(copy.contains(&format!("name=\"corun.verdict\" value=\"{verdict}\"")), "{copy}");
}

#[test]
fn of_tests_that_ran_at_the_same_time_it_is_unclear_which_was_starved() {
    let folder = tempfile::tempdir().unwrap();
    // One test sleeps while two tasks of the other one share a CPU: the command waits, and the sleeper does
    // not.
    let script = r#"
        cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
        begin=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)
        for n in 1 2; do taskset -c $cpu timeout 1 sh -c 'while :; do :; done' & done
        sleep 1
        case="timestamp='$begin' time='1.0'><failure/></testcase>"
        echo "<testsuites><testsuite name='s'><testcase name='sleeps' $case
        <testcase name='computes' $case</testsuite></testsuites>" > tests.xml; wait || true"#;
    verify(folder.path(), &["--junit", "tests.xml", "--json", "v.json"], script, &[]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let report: Value = serde_json::from_str(&read("v.json")).unwrap();
    for test in report["failed_tests"].as_array().filter(|tests| tests.len() == 2).unwrap() {
        assert_eq!(test["verdict"], "cannot tell", "{test}");
        assert!(test["why"].as_str().unwrap().starts_with("several tests ran at a time"), "{test}");
    }
    assert!(!read("tests.corun.xml").contains("corun.stolen_s"), "nobody knows whose it was");
}

/// A command that is pinned to the first CPU.
fn pinned<'a>(command: &[&'a str]) -> Vec<&'a str> {
    let script = "cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//'); exec taskset -c $cpu \"$@\"";
    [&["sh", "-c", script, "sh"], command].concat()
}

/// The result of `verify` for each command, in words and as JSON, next to a loop on the first CPU.
fn next_to_a_loop(commands: &[Vec<&str>]) -> Vec<(String, Value)> {
    let folder = tempfile::tempdir().unwrap();
    let verified = |command: &Vec<&str>| {
        let output = Command::new(cargo_bin("corun"))
            .args(["verify", "--json", "v.json", "--"])
            .args(command)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let read = std::fs::read_to_string(folder.path().join("v.json"));
        let report: Value =
            serde_json::from_str(&read.unwrap_or_else(|e| panic!("{e}: {}", said(&output)))).unwrap();
        (said(&output), report)
    };
    let hog = pinned(&["timeout", "60", "sh", "-c", BUSY]);
    let mut hog = Command::new(hog[0]).args(&hog[1..]).process_group(0).spawn().unwrap();
    let found = commands.iter().map(verified).collect();
    // SAFETY: a signal to the group that the loop leads, for which nobody has waited.
    unsafe { libc::kill(-(hog.id() as i32), libc::SIGKILL) };
    hog.wait().unwrap();
    found
}

const BUSY: &str = "while :; do :; done";

#[test]
fn a_reader_of_a_terminal_waits_for_the_program_that_writes_to_it() {
    // The kernel passes on text that is written to a terminal through a worker of its own.
    let counts = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; echo $i";
    let on_a_terminal = pinned(&["script", "--quiet", "--command", counts, "/dev/null"]);
    let found = next_to_a_loop(&[pinned(&["sh", "-c", counts]), on_a_terminal]);
    let [(_, bare), (said, report)] = &found[..] else { panic!("{found:?}") };
    if report["exit_status"] == 127 {
        println!("skipped: `script` is not installed");
        return;
    }
    assert_ne!(report["verdict"], "clean", "half of its time goes to the loop: {said}");
    let most = |report: &Value| report["disturbance_range"][1].as_f64().unwrap();
    assert!(most(bare) > 0.3 && most(report) > 0.3, "{bare} {report}");
}

#[test]
fn a_run_in_which_a_time_limit_ended_a_starved_program_is_not_clean() {
    // `timeout` ends with 124; a shell that sleeps and kills, with 0.
    let found = next_to_a_loop(&[
        pinned(&["timeout", "2", "sh", "-c", BUSY]),
        pinned(&["sh", "-c", "sh -c 'while :; do :; done' & sleep 2; kill $!; wait; true"]),
    ]);
    if found[0].1["source"] != "ebpf" {
        println!("skipped: without eBPF nobody knows what signals ended");
        return;
    }
    for (said, report) in &found {
        let cut = &report["cut_short"];
        assert_eq!(cut["name"], "sh", "{said} {report}");
        assert!(cut["after_ns"].as_u64().unwrap().abs_diff(2_000_000_000) < 500_000_000, "{cut}");
        assert!(cut["taken"].as_f64().unwrap() > 0.25, "half of its time goes to the loop: {cut}");
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("`sh` in it was ended by a signal after"), "{said}");
        assert_ne!(report["verdict"], "clean", "{said}");
    }
    let (said, timed_out) = &found[0];
    assert_eq!(timed_out["verdict"], "disturbed", "{said}");
    assert!(timed_out["disturbance"].as_f64().unwrap() > 0.25, "{said} {timed_out}");
}

#[test]
fn the_copy_goes_to_the_given_place_and_without_a_file_of_the_commands_the_verdict_does() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--junit", "tests.xml", "--out", "judged.xml"];
    let output = verify(folder.path(), &flags, RUNNER, &[]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name));
    assert!(read("judged.xml").unwrap().contains("corun.verdict"), "{}", said(&output));
    assert!(read("tests.corun.xml").is_err());
    // It exists already, but this command does not write it.
    verify(folder.path(), &["--junit", "tests.xml"], "sleep 0.1", &[]);
    assert!(read("tests.xml").unwrap().contains("classname=\"corun.verify\""));
}

#[test]
fn a_file_that_cannot_be_judged_is_refused_and_unchanged() {
    let damaged = "echo '<testsuites><testsuite><testcase name=\"a\" time=\"1\">' > tests.xml";
    let other_run = "echo '<testsuite><testcase name=\"a\" timestamp=\"2001-02-03T04:05:06Z\" time=\"1\"/></testsuite>' > tests.xml";
    let no_times = "echo '<testsuite><testcase name=\"a\"/></testsuite>' > tests.xml";
    for (script, wanted) in [
        (damaged, "tests.xml:2: this is damaged: it ends in the middle"),
        (other_run, "tests.xml: its tests ran at `2001-02-03T04:05:06Z`, outside the run that corun watched"),
        (no_times, "tests.xml: none of its test cases has a time"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = verify(folder.path(), &["--junit", "tests.xml"], script, &[]);
        assert_eq!(status(&output), 2, "{}", said(&output));
        assert!(said(&output).contains(wanted), "{}", said(&output));
        // One that fails keeps its own status.
        let failing = format!("{script}; exit 7");
        let output = verify(folder.path(), &["--junit", "tests.xml"], &failing, &[]);
        assert_eq!(status(&output), 7, "{}", said(&output));
        assert!(said(&output).contains(wanted), "{}", said(&output));
        assert!(!folder.path().join("tests.corun.xml").exists());
        assert!(std::fs::read_to_string(folder.path().join("tests.xml")).unwrap().contains("name=\"a\""));
    }
}

#[test]
fn something_that_is_not_a_file_has_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        verify(folder.path(), &["--quiet", "--policy", "neutral", "--junit", "/dev/null"], "true", &[]);
    assert_eq!(status(&output), 0, "{}", said(&output));
}

#[test]
fn iterations_of_a_tools_results_are_judged_and_reported_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let script = "sleep 0.2; sleep 0.2; sleep 0.2
        echo '{\"results\": [{\"command\": \"sleep\", \"times\": [0.2, 0.2, 0.2]}]}' > b.json";
    let flags = ["--results", "b.json", "--json", "v.json", "--bmf", "bmf.json", "--github"];
    let output = verify(folder.path(), &flags, script, &[("GITHUB_STEP_SUMMARY", "summary.md")]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let json = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap();
    let benchmark = &json("v.json")["benchmarks"][0];
    assert_eq!(
        (&benchmark["name"], &benchmark["raw"]["count"]),
        (&"sleep".into(), &3.into()),
        "{}",
        said(&output)
    );
    let count = |n: &Value| n.as_u64().unwrap_or(0);
    let clean = count(&benchmark["cleaned"]["count"]);
    assert_eq!(clean + count(&benchmark["disturbed"]) + count(&benchmark["unclear"]), 3, "{benchmark}");
    assert!((json("bmf.json")["sleep"]["latency-raw"]["value"].as_f64().unwrap() - 2e8).abs() < 1.0);
    let summary = read("summary.md");
    assert!(summary.starts_with("### corun verify: ") && summary.contains("<code>sleep</code>"), "{summary}");
}

#[test]
fn results_of_another_command_or_an_unknown_tool_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("b.json");
    std::fs::write(&results, "{\"results\": [{\"command\": \"old\", \"times\": [1.0]}]}").unwrap();
    let refused = |script: &str, flags: &[&str]| {
        let output = verify(folder.path(), flags, script, &[]);
        assert_eq!(status(&output), 2, "{}", said(&output));
        said(&output)
    };
    let with = ["--results", "b.json"];
    assert!(refused("true", &with).contains("b.json: the command did not write it"));
    let unknown = refused("echo '{\"answer\": 42}' > b.json", &with);
    assert!(unknown.contains("b.json: corun does not know this format"), "{unknown}");
    let same = refused("true", &["--results", "b.json", "--junit", "b.json"]);
    assert!(same.contains("--results and --junit name the same file"), "{same}");
    let nowhere = refused("true", &["--github"]);
    assert!(nowhere.contains("--github needs GITHUB_STEP_SUMMARY"), "{nowhere}");
    let folder_of_summary =
        verify(folder.path(), &["--github"], "touch ran", &[("GITHUB_STEP_SUMMARY", ".")]);
    assert_eq!(status(&folder_of_summary), 2, "{}", said(&folder_of_summary));
    assert!(
        said(&folder_of_summary).contains("it is a folder; name a file in it"),
        "{}",
        said(&folder_of_summary)
    );
    assert!(!folder.path().join("ran").exists(), "the command ran although its summary cannot be written");
}

#[test]
fn a_benchmark_that_forks_away_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let script = "sleep 30 >/dev/null 2>&1 & echo $! > pid; sleep 0.5";
    let output = verify(folder.path(), &["--results", "b.json"], script, &[]);
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap().trim().parse().unwrap();
    // SAFETY: a signal to a process that the test started, which nobody has waited for yet.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    assert_eq!(status(&output), 2, "{}", said(&output));
    let wanted =
        "b.json: the command ended without it, but what it started still runs; have the command wait";
    assert!(said(&output).contains(wanted), "{}", said(&output));
}

#[test]
fn the_command_may_make_the_folder_of_its_junit_files_and_write_several() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let case = |name: &str| {
        format!("<testsuite><testcase name=\"{name}\" time=\"0.01\"><failure/></testcase></testsuite>")
    };
    let script = format!(
        "mkdir -p reports; sleep 0.05; echo '{}' >reports/TEST-A.xml; echo '{}' >reports/TEST-B.xml",
        case("of_a"),
        case("of_b")
    );
    // The copies of the first run are no JUnit files of the second. Others may disturb these runs.
    for _ in 0..2 {
        let output = verify(folder.path(), &["--junit", "reports", "--policy", "neutral"], &script, &[]);
        assert_eq!(status(&output), 0, "{}", said(&output));
        for (class, test) in [("A", "of_a"), ("B", "of_b")] {
            let copy = std::fs::read_to_string(at(&format!("reports/TEST-{class}.corun.xml"))).unwrap();
            assert!(copy.contains(test) && copy.contains("corun.verdict"), "{copy}");
            assert!(said(&output).contains(&format!("{test}: ")), "{}", said(&output));
        }
        assert_eq!(std::fs::read_dir(at("reports")).unwrap().count(), 4);
    }
    let script = format!("mkdir made; echo '{}' >made/t.xml", case("alone"));
    verify(folder.path(), &["--junit", "made/t.xml"], &script, &[]);
    assert!(std::fs::read_to_string(at("made/t.corun.xml")).unwrap().contains("corun.verdict"));
    verify(folder.path(), &["--junit", "own/verdict.xml"], "true", &[]);
    assert!(std::fs::read_to_string(at("own/verdict.xml")).unwrap().contains("corun verify"));
    let refused = |flags: &[&str], sentence: &str| {
        let output = verify(folder.path(), flags, "true", &[]);
        assert!(status(&output) == 2 && said(&output).contains(sentence), "{}", said(&output));
    };
    refused(&["--junit", "reports"], "reports: the command wrote no JUnit file");
    refused(&["--junit", "reports", "--out", "x.xml"], "--out names the copy of one JUnit file");
}

/// Corun's output and exit status, and its maximum memory, in MiB.
#[expect(clippy::zombie_processes, reason = "wait4 waits for it and says what memory it had")]
fn in_memory(folder: &Path, flags: &[&str], script: &str) -> (i32, String, u64) {
    let mut child = Command::new(cargo_bin("corun"))
        .args(["verify", "--source", "schedstat", "--no-spin"])
        .args(flags)
        .args(["--", "sh", "-ec", script])
        .current_dir(folder)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage, and the kernel fills in both; nobody else waits for this child.
    let most_kib = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert!(libc::wait4(child.id() as i32, &mut status, 0, &mut usage) > 0);
        usage.ru_maxrss
    };
    (libc::WEXITSTATUS(status), said, most_kib as u64 / 1024)
}

/// Writes a JUnit file of this many MiB, with a few failures.
fn write_junit(path: &Path, mib: usize) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    let printed = "all that it printed ".repeat(45);
    writeln!(file, "<testsuites><testsuite name=\"s\">").unwrap();
    for n in 0..mib * 1024 {
        let failure = if n.is_multiple_of(5_000) { "<failure/>" } else { "" };
        writeln!(
            file,
            "<testcase name=\"t{n}\" time=\"0.000001\">{failure}<system-out>{printed}</system-out></testcase>"
        )
        .unwrap();
    }
    writeln!(file, "</testsuite></testsuites>").unwrap();
}

#[test]
fn a_long_junit_file_takes_no_more_memory_than_a_short_one_whether_it_is_whole_or_damaged() {
    const LONG_MIB: usize = 24;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let length = |name: &str| std::fs::metadata(path(name)).unwrap().len();
    // None of the files is in the memory of this process, from which that of its children is counted.
    let run = || {
        let script = "sleep 0.1; cp kept.xml tests.xml";
        let came_to = in_memory(folder.path(), &["--junit", "tests.xml", "--policy", "neutral"], script);
        let same = Command::new("cmp").args([path("kept.xml"), path("tests.xml")]).status().unwrap();
        assert!(same.success(), "the command's file was changed");
        came_to
    };
    write_junit(&path("kept.xml"), 1);
    let (status, said, short_mib) = run();
    assert_eq!(status, 0, "{said}");
    write_junit(&path("kept.xml"), LONG_MIB);
    let (status, said, mib) = run();
    assert_eq!(status, 0, "{said}");
    assert!(length("tests.corun.xml") > length("tests.xml"));
    assert!(mib < short_mib + LONG_MIB as u64 / 2, "{mib} MiB, but {short_mib} of a short file");
    std::fs::remove_file(path("tests.corun.xml")).unwrap();
    File::options().write(true).open(path("kept.xml")).unwrap().set_len(length("kept.xml") - 26).unwrap();
    let (status, said, mib) = run();
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("this is damaged: it ends in the middle"), "{said}");
    assert!(mib < short_mib + LONG_MIB as u64 / 2, "{mib} MiB, but {short_mib} of a short file");
    assert!(!path("tests.corun.xml").exists());
}

#[test]
fn results_that_no_tool_writes_are_refused_before_memory_is_full_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let (status, said, mib) = in_memory(folder.path(), &["--results", "b.json"], "truncate -s 100M b.json");
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("b.json: it is longer than 32 MiB; have the tool measure less at once"), "{said}");
    assert!(mib < 128, "{mib} MiB");
    assert_eq!(std::fs::metadata(folder.path().join("b.json")).unwrap().len(), 100 << 20);
}

#[test]
fn a_command_that_failed_before_its_results_keeps_its_own_status() {
    let folder = tempfile::tempdir().unwrap();
    let output = verify(folder.path(), &["--results", "b.json", "--junit", "t.xml"], "exit 7", &[]);
    assert_eq!(status(&output), 7, "{}", said(&output));
}

/// The folder of the GitHub action.
fn action() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.github/actions/verify")
}

#[test]
fn the_github_action_runs_a_command_and_passes_the_result_to_the_step() {
    let folder = tempfile::tempdir().unwrap();
    let run = |command: &str, noise: &str| {
        let output = Command::new(action().join("verify.sh"))
            .current_dir(folder.path())
            .env("CORUN", cargo_bin("corun"))
            .env("CORUN_COMMAND", command)
            .env("CORUN_NOISE", noise)
            .env("CORUN_POLICY", "neutral")
            .env("GITHUB_STEP_SUMMARY", "summary.md")
            .env("GITHUB_OUTPUT", "output")
            .output()
            .unwrap();
        (status(&output), said(&output))
    };
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let (status, said) = run("sleep 0.1; echo done > done", "2s");
    assert_eq!((status, read("done").as_str()), (0, "done\n"), "{said}");
    let output = read("output");
    let report: Value = serde_json::from_str(&read("corun-verify.json")).unwrap();
    let verdict = report["verdict"].as_str().unwrap();
    assert!(output.contains(&format!("verdict={verdict}\ndisturbance=")), "{output}");
    assert!(read("summary.md").contains(&format!("### corun verify: {verdict}")));
    let noise = output.lines().find_map(|line| line.strip_prefix("noise=")).unwrap();
    assert!((0.0..=1.0).contains(&noise.parse::<f64>().unwrap()), "{output}");
    assert!(read("summary.md").contains("### How noisy this runner was before"));
    assert_eq!(run("exit 9", "").0, 9, "the command's own status");
    let (status, said) = run("touch never", "a while");
    assert!(status == 2 && !folder.path().join("never").exists(), "{said}");
}

#[test]
fn the_github_action_declares_every_input_that_it_reads() {
    let text = std::fs::read_to_string(action().join("action.yml")).unwrap();
    let (declared, used) = text.split_once("\nruns:").unwrap();
    let inputs: Vec<&str> = used
        .split("inputs.")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap())
        .collect();
    assert!(inputs.len() > 5, "{inputs:?}");
    for input in inputs {
        assert!(declared.contains(&format!("\n  {input}:\n")), "{input}");
    }
}
