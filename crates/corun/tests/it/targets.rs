//! The targets of each verb: it accepts those in its help, the help omits those that it refuses, and no
//! impossible PID is accepted.

use assert_cmd::Command;

fn corun(args: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::cargo_bin("corun").unwrap().args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

/// A verb, its arguments besides a target, and the targets that it accepts.
const WHOM: [(&str, &[&str], &[&str]); 3] = [
    ("profile", &["-q", "--for", "50ms"], &["--pid", "--cgroup", "--vm", "--all"]),
    ("predict", &["-q", "--for", "50ms"], &["--pid", "--cgroup", "--vm"]),
    ("record", &["-q", "--for", "50ms", "-o", "/dev/null"], &["--pid", "--cgroup"]),
];

#[test]
fn help_offers_the_targets_that_a_verb_takes_and_no_other() {
    // Each names a missing target, so a verb that accepts the kind says so and does not begin.
    let targets: [(&str, &[&str], &str); 4] = [
        ("--pid", &["-p", "0"], "no process 0"),
        ("--cgroup", &["--cgroup", "no-such-cgroup"], "no cgroup `no-such-cgroup`"),
        ("--vm", &["--vm", "no-such-machine"], "no virtual machine `no-such-machine`"),
        ("--all", &["--all"], ""),
    ];
    for (verb, rest, taken) in WHOM {
        let (_, help, _) = corun(&[verb, "--help"]);
        for (flag, words, nobody) in targets {
            let is_offered = help.contains(flag);
            assert_eq!(is_offered, taken.contains(&flag), "{verb} {flag}: {help}");
            let (code, _, said) = corun(&[&[verb][..], rest, words].concat());
            match (is_offered, flag) {
                (true, "--all") => assert_eq!(code, Some(0), "{verb} {flag}: {said}"),
                (true, _) => assert!(code == Some(2) && said.contains(nobody), "{verb} {flag}: {said}"),
                (false, _) => {
                    // The kind is refused as such, and the possible ones are named.
                    assert_eq!(code, Some(2), "{verb} {flag}: {said}");
                    assert!(said.contains("-p") && said.contains("-- CMD"), "{verb} {flag}: {said}");
                    assert!(nobody.is_empty() || !said.contains(nobody), "{verb} {flag}: {said}");
                }
            }
        }
    }
}

#[test]
fn every_verb_refuses_an_impossible_pid_in_a_sentence_with_a_remedy() {
    let verbs: [&[&str]; 8] = [
        &["profile", "-p"],
        &["profile", "--source", "schedstat", "-p"],
        &["predict", "-p"],
        &["predict", "--dedicated", "-p"],
        &["record", "-o", "/dev/null", "-p"],
        &["control", "gang", "--tenant"],
        &["control", "auto", "--dry-run", "--tenant"],
        &["load", "persistent", "--target-steal", "25%", "--victim"],
    ];
    for verb in verbs {
        for pid in
            ["0", "0,1", "4294967295", "2147483648", "4294967296", "99999999999999999999", "-1", "1,", ""]
        {
            let (code, _, said) = corun(&[verb, &[pid]].concat());
            let lines: Vec<&str> = said.lines().collect();
            assert!(code == Some(2) && lines.len() == 1, "{verb:?} {pid}: {code:?} {said}");
            let has_remedy = ["`", "; ", "give", "name"].iter().any(|word| said.contains(word));
            assert!(said.starts_with("corun: ") && has_remedy, "{verb:?} {pid}: {said}");
        }
    }
}

#[test]
fn a_recording_is_a_file_and_standard_output_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let out = Command::cargo_bin("corun")
        .unwrap()
        .args(["record", "-o", "-", "--", "true"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("name one, such as corun.rec"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
