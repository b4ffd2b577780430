//! Every limit on a machine of files, and the sentence that names it.

use super::*;

/// A machine of files.
struct Made(tempfile::TempDir);

impl Made {
    fn new(files: &[(&str, &str)]) -> Made {
        let made = Made(tempfile::tempdir().unwrap());
        files.iter().for_each(|(path, text)| made.put(path, text));
        made
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn link(&self, name: &str, to: &str) {
        let path = self.0.path().join("proc/self/ns").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
    }

    fn root(&self) -> Root {
        Root::new(self.0.path())
    }

    fn why(&self, errno: i32) -> Option<String> {
        cause(&self.root(), &io::Error::from_raw_os_error(errno))
    }
}

const V1: &str =
    "31 23 0:27 / /cg/pids rw - cgroup cgroup rw,pids\n32 23 0:28 / /cg/cpu rw - cgroup cgroup rw,cpu\n";
const V2: &str = "31 23 0:27 / /cg rw - cgroup2 cgroup2 rw\n";
const STATUS: &str = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0\nSeccomp:\t0\n";
const LIMITS: &str = "Max processes             100                  100                  processes\n\
                      Max address space         unlimited            unlimited            bytes\n";

/// A machine with room for everything.
fn roomy() -> Made {
    Made::new(&[
        ("/proc/self/status", STATUS),
        ("/proc/self/limits", LIMITS),
        ("/proc/self/mountinfo", V1),
        ("/proc/self/cgroup", "5:pids:/a/b\n4:cpu:/a\n"),
        ("/proc/sys/kernel/threads-max", "5000\n"),
        ("/proc/sys/kernel/pid_max", "32768\n"),
        ("/proc/sys/vm/overcommit_memory", "0\n"),
        ("/proc/meminfo", "CommitLimit:     2048000 kB\nCommitted_AS:    2047000 kB\n"),
        ("/proc/loadavg", "0.1 0.1 0.1 1/300 4242\n"),
        ("/cg/pids/a/b/pids.max", "max\n"),
        ("/cg/pids/a/b/pids.current", "3\n"),
        ("/cg/pids/a/pids.max", "64\n"),
        ("/cg/pids/a/pids.current", "40\n"),
        ("/cg/cpu/a/cpu.rt_runtime_us", "950000\n"),
    ])
}

/// A change to a roomy machine, the kernel's error, and words that the sentence must contain.
type Row<'a> = (&'a [(&'a str, &'a str)], i32, &'a [&'a str]);

#[test]
fn every_limit_is_named_with_its_remedy() {
    let rows: &[Row] = &[
        (
            &[("/cg/pids/a/pids.current", "64\n")],
            libc::EAGAIN,
            &["in the cgroup /a are limited to 64 (pids.max; in use: 64)", "raise"],
        ),
        (
            &[("/cg/pids/a/b/pids.max", "3\n")],
            libc::EAGAIN,
            &["in the cgroup /a/b are limited to 3 (pids.max"],
        ),
        (
            &[
                ("/proc/self/mountinfo", V2),
                ("/cg/cgroup.controllers", "pids\n"),
                ("/proc/self/cgroup", "0::/c\n"),
                ("/cg/c/pids.max", "9\n"),
                ("/cg/c/pids.current", "9\n"),
            ],
            libc::EAGAIN,
            &["in the cgroup /c are limited to 9 (pids.max"],
        ),
        (
            &[(
                "/proc/self/limits",
                "Max processes             0                  0                  processes\n",
            )],
            libc::EAGAIN,
            &["`ulimit -u`", "raise it"],
        ),
        (&[("/proc/loadavg", "0 0 0 1/4999 4242\n")], libc::EAGAIN, &["kernel.threads-max", "in use: 4999"]),
        (
            &[("/proc/sys/kernel/pid_max", "301\n")],
            libc::EAGAIN,
            &["limited to 301 (kernel.threads-max, kernel.pid_max"],
        ),
        // Nothing is at its limit any more: the candidates are listed.
        (&[], libc::EAGAIN, &["`pids.max`", "`ulimit -u`", "raise"]),
        (
            &[("/proc/sys/vm/overcommit_memory", "2\n")],
            libc::ENOMEM,
            &["vm.overcommit_memory is 2", "1999 of 2000 MiB"],
        ),
        (&[("/proc/sys/vm/overcommit_memory", "2\n")], libc::EAGAIN, &["vm.overcommit_memory is 2"]),
        (
            &[(
                "/proc/self/limits",
                "Max address space         1048576            1048576            bytes\n",
            )],
            libc::ENOMEM,
            &["1 MiB", "`ulimit -v`"],
        ),
        (&[], libc::ENOMEM, &["not enough memory"]),
        (&[("/proc/self/status", "Seccomp:\t2\n")], libc::EPERM, &["seccomp", "outside"]),
        (&[("/proc/self/status", "Seccomp:\t2\n")], libc::ENOSYS, &["seccomp"]),
    ];
    for (changed, errno, words) in rows {
        let made = roomy();
        changed.iter().for_each(|(path, text)| made.put(path, text));
        let said = made.why(*errno).unwrap_or_else(|| panic!("{changed:?}: nothing is said"));
        assert!(words.iter().all(|word| said.contains(word)), "{changed:?}: {said}");
        assert!(!said.contains("os error"), "{said}");
    }
}

#[test]
fn an_error_with_another_cause_keeps_the_kernels_words() {
    for errno in [libc::ENOENT, libc::EACCES, libc::EPERM, libc::EINVAL, libc::E2BIG] {
        assert_eq!(roomy().why(errno), None, "{errno}");
    }
    let e = explained(io::Error::other("no number"));
    assert_eq!(e.to_string(), "no number");
}

#[test]
fn root_has_no_limit_of_its_own_and_neither_has_a_process_that_may_exceed_it() {
    let few = "Max processes             1                    1                    processes\n";
    for (status, holds) in [
        ("Uid:\t1000\nCapEff:\t0\n", true),
        ("Uid:\t0\nCapEff:\t0\n", false),
        ("Uid:\t1000\nCapEff:\t0000000000200000\n", false),
        ("Uid:\t1000\nCapEff:\t0000000001000000\n", false),
    ] {
        let made = roomy();
        made.put("/proc/self/limits", few);
        made.put("/proc/self/status", status);
        assert_eq!(allowances(&made.root()).iter().any(|a| a.setting.contains("ulimit")), holds, "{status}");
    }
}

#[test]
fn a_namespace_for_children_only_is_noticed_before_anything_is_started() {
    let own = "pid:[4026531836]";
    for (for_children, is_apart) in [(Some(own), false), (Some("pid:[4026532000]"), true), (None, false)] {
        let made = roomy();
        made.link("pid", own);
        for_children.iter().for_each(|to| made.link("pid_for_children", to));
        assert_eq!(without_init(&made.root()).is_some(), is_apart, "{for_children:?}");
        assert_eq!(made.why(libc::EINVAL).is_some_and(|why| why.contains("--fork")), is_apart);
    }
    assert_eq!(without_init(&Root::new("/")), None, "the tests themselves are in an ordinary one");
}

#[test]
fn the_reason_why_a_thread_cannot_be_real_time_is_looked_up() {
    let denied = io::Error::from_raw_os_error(libc::EPERM);
    for (path, text, word) in [
        ("/proc/sys/kernel/sched_rt_runtime_us", "0\n", "kernel.sched_rt_runtime_us is 0"),
        ("/cg/cpu/a/cpu.rt_runtime_us", "0\n", "/cg/cpu/a gives real-time tasks no time"),
        ("/proc/self/status", "Uid:\t0\nSeccomp:\t2\n", "seccomp"),
        ("/proc/self/status", STATUS, "run as root"),
    ] {
        let made = roomy();
        made.put(path, text);
        let said = of_real_time(&made.root(), &denied).to_string();
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn a_thread_that_may_start_does() {
    assert_eq!(start_thread("corun-test", || 7).unwrap().join().unwrap(), 7);
    assert!(start_process(Command::new("true").env_clear()).unwrap().wait().unwrap().success());
    let e = start_process(&mut Command::new("/no/such/program")).unwrap_err();
    assert_eq!(e.kind(), io::ErrorKind::NotFound);
}

#[test]
fn the_reason_why_a_probe_cannot_be_loaded_is_looked_up() {
    let said = |changed: &[(&str, &str)], errno: i32| {
        let made = roomy();
        made.put("/sys/kernel/btf/vmlinux", "BTF");
        changed.iter().for_each(|(path, text)| made.put(path, text));
        of_probe(&made.root(), &format!("opening the probe: {}", io::Error::from_raw_os_error(errno)))
    };
    assert_eq!(said(&[], libc::EMFILE), "opening the probe: Too many open files; raise `ulimit -n`");
    assert!(said(&[], libc::EPERM).ends_with("not permitted; run as root"));
    assert!(said(&[("/proc/self/status", "Seccomp:\t2\n")], libc::EPERM).contains("seccomp filter"));
    let lockdown = [("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n")];
    assert!(said(&lockdown, libc::EPERM).contains("lockdown is at confidentiality"));
    assert!(of_probe(&roomy().root(), "loading: No such process (os error 3)").contains("(BTF)"));
    assert_eq!(of_probe(&roomy().root(), "no number"), "no number");
}
