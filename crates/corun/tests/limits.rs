//! The machine's limits: every limit with every verb. Corun does what it still can, or gives the cause in one
//! sentence. It never panics or hangs, leaves nothing behind, and nobody stays stopped.
//!
//! The limits are set only on the child that becomes corun. If one cannot be set here, that row is skipped,
//! with the reason.

use assert_cmd::cargo::cargo_bin;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No verb below takes longer, including its second of measuring.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a child does to itself before it becomes corun.
type Setting = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// A row of the table.
struct Limit {
    name: String,
    /// The parts of it that a sentence may name.
    words: &'static [&'static str],
    /// The command that starts corun, before its own command line.
    through: Vec<OsString>,
    setting: Setting,
    /// The total that the child is allowed, in the cgroup of the test: `pids.max`.
    pids: Option<u32>,
}

fn row(name: &str, words: &'static [&'static str], setting: Setting) -> Limit {
    Limit { name: name.into(), words, through: Vec::new(), setting, pids: None }
}

fn limit(what: u32, most: u64) -> Setting {
    Arc::new(move || {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: setrlimit reads one structure.
        done(unsafe { libc::setrlimit(what as _, &limit) })
    })
}

fn done(result: i32) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Refuses system calls with an error.
fn refuse(calls: &'static [i64], errno: i32) -> Setting {
    Arc::new(move || {
        let op = |code: u32, jt, k| libc::sock_filter { code: code as u16, jt, jf: 0, k };
        // Load the number; for each call: if it matches, return the error.
        let mut program = vec![op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
        for (at, call) in calls.iter().enumerate() {
            program.push(op(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                (calls.len() - at) as u8,
                *call as u32,
            ));
        }
        program.push(op(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW));
        program.push(op(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | errno as u32));
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: the program outlives the call, which copies it.
        unsafe {
            done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            done(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter))
        }
    })
}

const NO_PROC: &str = "mount -t tmpfs none /proc";

/// A shell with its own mounts, which changes some of them and becomes corun.
fn with_mounts(name: &str, words: &'static [&'static str], script: &str) -> Limit {
    let script = format!("{script} && exec \"$0\" \"$@\"");
    let through = ["unshare", "-m", "sh", "-c", &script].map(OsString::from).to_vec();
    Limit { through, ..row(name, words, Arc::new(|| Ok(()))) }
}

fn limits() -> Vec<Limit> {
    const PIDS: &[&str] = &["pids.max"];
    const FILTERED: &[&str] = &["seccomp", "bpf", "perf_event", "eBPF"];
    let pids =
        |most| Limit { pids: Some(most), ..row(&format!("pids.max {most}"), PIDS, Arc::new(|| Ok(()))) };
    let mut rows: Vec<Limit> = (1..=4).map(pids).collect();
    for most in [1, 2, 3] {
        let as_somebody: Setting = Arc::new(move || {
            limit(libc::RLIMIT_NPROC, most)()?;
            // SAFETY: takes a number; nobody else is this user.
            done(unsafe { libc::setuid(64_999) })
        });
        rows.push(row(&format!("ulimit -u {most}"), &["ulimit -u", "root", "user"], as_somebody));
    }
    // SAFETY: takes a number.
    let unshared: Setting = Arc::new(|| done(unsafe { libc::unshare(libc::CLONE_NEWPID) }));
    rows.push(row("a PID namespace without init", &["--fork"], unshared));
    rows.push(row("no bpf", FILTERED, refuse(&[libc::SYS_bpf], libc::EPERM)));
    rows.push(row("no perf_event_open", FILTERED, refuse(&[libc::SYS_perf_event_open], libc::EACCES)));
    rows.push(row(
        "no clone",
        FILTERED,
        refuse(&[libc::SYS_clone, libc::SYS_clone3, libc::SYS_vfork], libc::EPERM),
    ));
    rows.push(row("no pidfd_open", FILTERED, refuse(&[libc::SYS_pidfd_open], libc::ENOSYS)));
    let needs: [(&str, &[i64]); 4] = [
        ("no signalfd", &[libc::SYS_signalfd4]),
        ("no socketpair", &[libc::SYS_socketpair]),
        ("no flock", &[libc::SYS_flock]),
        ("no mlockall", &[libc::SYS_mlockall]),
    ];
    rows.extend(needs.map(|(name, calls)| row(name, FILTERED, refuse(calls, libc::EPERM))));
    for kib in [64, 1_024] {
        rows.push(row(&format!("ulimit -s {kib}"), &["ulimit -s"], limit(libc::RLIMIT_STACK, kib << 10)));
    }
    let as_nobody: Setting = Arc::new(|| {
        limit(libc::RLIMIT_STACK, 64 << 10)()?;
        // SAFETY: takes a number.
        done(unsafe { libc::setuid(64_998) })
    });
    rows.push(row("ulimit -s 64 without root", &["ulimit -s"], as_nobody));
    rows.push(row("ulimit -n 10", &["ulimit -n", "open files", "eBPF"], limit(libc::RLIMIT_NOFILE, 10)));
    // If only four are allowed, even the one file of `schedstat` is too many.
    for most in [4, 5, 6] {
        rows.push(row(&format!("ulimit -n {most}"), &["ulimit -n"], limit(libc::RLIMIT_NOFILE, most)));
    }
    rows.push(with_mounts("a read-only /sys", &["read", "eBPF"], "mount -o remount,bind,ro /sys"));
    rows.push(with_mounts("no BTF", &["BTF", "eBPF"], "mount -t tmpfs none /sys/kernel/btf"));
    rows.push(with_mounts("an empty /sys", &["/sys"], "mount -t tmpfs none /sys"));
    rows.push(with_mounts("no /proc", &["/proc"], NO_PROC));
    rows
}

/// A cgroup for one child, in whichever tree has the controller.
struct Pids(PathBuf);

impl Pids {
    fn new() -> Option<Pids> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let place = |line: &str| Some(PathBuf::from(line.split(' ').nth(4)?));
        let v1 = mounts.lines().find(|l| l.contains(" - cgroup ") && l.ends_with(",pids")).and_then(place);
        let v2 = || mounts.lines().find(|l| l.contains(" - cgroup2 ")).and_then(place);
        let folder = v1.or_else(v2)?.join(format!("corun-test-limits-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let made = Pids(folder);
        made.0.join("pids.max").exists().then_some(made)
    }
}

impl Drop for Pids {
    fn drop(&mut self) {
        // A killed process needs a moment to go.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A loop in a session of its own, with the lowest priority.
struct Loop(Child);

impl Loop {
    fn start() -> Loop {
        Loop::of(0)
    }

    fn of(user: u32) -> Loop {
        let mut command = Command::new("nice");
        command.uid(user).gid(user);
        command.args(["-n", "19", "sh", "-c", "while :; do :; done"]);
        // SAFETY: a system call between fork and exec.
        unsafe { command.pre_exec(|| done(libc::setsid().min(0))) };
        Loop(command.spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn is_stopped(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        matches!(state, Some('T' | 't' | 'D'))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

fn run(limit: &Limit, pids: Option<&Pids>, arguments: &[&str]) -> io::Result<Option<Output>> {
    let corun = OsString::from(cargo_bin("corun"));
    let mut line = limit.through.iter().chain([&corun]);
    let mut command = Command::new(line.next().unwrap());
    command.args(line).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    // A place that every possible user of corun may write to.
    let place = tempfile::tempdir()?;
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777))?;
    command.current_dir(place.path());
    let procs = pids.map(|pids| pids.0.join("cgroup.procs"));
    if let (Some(pids), Some(most)) = (pids, limit.pids) {
        fs::write(pids.0.join("pids.max"), most.to_string())?;
    }
    let setting = Arc::clone(&limit.setting);
    // SAFETY: it opens and writes one file, and makes system calls.
    unsafe {
        command.pre_exec(move || {
            procs.as_ref().map_or(Ok(()), |procs| fs::write(procs, "0"))?;
            setting()
        });
    }
    let mut child = command.spawn()?;
    let pid = child.id() as i32;
    let begin = Instant::now();
    let stderr = BufReader::new(child.stderr.take().expect("it is a pipe"));
    let (told, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // Lines are read as they come: an agent reports that it has begun, and goes on until it is asked to
        // end.
        let said = std::thread::spawn(move || said(stderr, pid));
        let output = child.wait_with_output();
        let said = said.join().expect("it only reads");
        told.send(output.map(|output| Output { stderr: said, ..output }))
    });
    let output = done.recv_timeout(PATIENCE);
    // SAFETY: takes two numbers; the group is the child's own.
    unsafe { libc::kill(-pid, libc::SIGKILL) };
    match output {
        Ok(output) => output.map(Some),
        Err(_) => {
            eprintln!("it has not ended after {:?}", begin.elapsed());
            Ok(None)
        }
    }
}

/// The output of a child that is asked to end as soon as it serves requests.
fn said(mut stderr: impl BufRead, pid: i32) -> Vec<u8> {
    let mut said = Vec::new();
    loop {
        let before = said.len();
        if stderr.read_until(b'\n', &mut said).unwrap_or(0) == 0 {
            return said;
        }
        if said[before..].starts_with(b"corun: metrics at http://") {
            // SAFETY: takes two numbers; the child is not waited for before its end.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
    }
}

/// The error in how a verb ended.
fn fault(limit: &Limit, verb: &str, output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let text = format!("{said}{}", String::from_utf8_lossy(&output.stdout));
    let last: Vec<&str> = said.lines().filter(|l| l.starts_with("corun: ")).collect();
    if text.contains("panicked") || output.status.signal().is_some() {
        return Some(format!("{:?}: {text}", output.status));
    }
    if said.contains("`ulimit -n`: ") {
        return Some(format!("a cause twice: {text}"));
    }
    if text.contains("os error") {
        return Some(format!("a number instead of a reason: {text}"));
    }
    match output.status.code() {
        Some(0) => None,
        Some(3) if verb.starts_with("verify") => None,
        Some(1 | 2) => {
            let is_named = |line: &str| limit.words.iter().any(|word| line.contains(word));
            match &last[..] {
                [one] if is_named(one) => None,
                _ => Some(format!("no sentence that names one of {:?}: {text}", limit.words)),
            }
        }
        code => Some(format!("exit {code:?}: {text}")),
    }
}

fn left_behind(top: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(top) else { return Vec::new() };
    let folders = entries.flatten().map(|e| e.path()).filter(|p| p.is_dir());
    folders.filter(|p| p.to_string_lossy().contains("corun-park")).collect()
}

#[test]
fn every_verb_under_every_limit_continues_or_says_why_and_leaves_nothing() {
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root can set all of these limits");
    }
    let (a, b) = (Loop::start(), Loop::start());
    let (a_pid, b_pid) = (a.pid(), b.pid());
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/two-sessions.toml");
    let scenario = scenario.to_str().unwrap();
    let verbs: Vec<Vec<&str>> = vec![
        vec!["doctor"],
        vec!["profile", "--quiet", "--", "true"],
        vec!["profile", "--quiet", "-p", &a_pid, "--for", "200ms"],
        vec!["profile", "--quiet", "--source", "schedstat", "-p", &a_pid, "--for", "200ms"],
        vec!["record", "--quiet", "-p", &a_pid, "--for", "200ms"],
        vec!["predict", "--quiet", "-p", &a_pid, "--for", "200ms"],
        vec!["predict", "--quiet", "--", "true"],
        vec!["verify", "--quiet", "--", "true"],
        vec![
            "control",
            "gang",
            "-o",
            "together=false",
            "--quiet",
            "--guard",
            "off",
            "--tenant",
            &a_pid,
            "--tenant",
            &b_pid,
            "--for",
            "300ms",
        ],
        vec!["load", "cpu", "--quiet", "--threads", "4", "--duration", "50ms"],
        vec!["sim", scenario, "--seeds", "2"],
        vec!["policies"],
        vec!["top", "--once", "--every", "200ms"],
        vec!["agent", "--listen", "127.0.0.1:0", "--ring", "ring"],
    ];
    let mut faults = Vec::new();
    for limit in limits() {
        let pids = limit.pids.and_then(|_| Pids::new());
        if limit.pids.is_some() && pids.is_none() {
            println!("skipped: {}: no pids controller here", limit.name);
            continue;
        }
        for verb in &verbs {
            let line = verb.join(" ");
            match run(&limit, pids.as_ref(), verb) {
                Err(e) => {
                    println!("skipped: {}: it cannot be set here: {e}", limit.name);
                    break;
                }
                Ok(None) => faults.push(format!("{}: {line}: hangs", limit.name)),
                Ok(Some(output)) => {
                    let fault = fault(&limit, &line, &output);
                    faults.extend(fault.map(|fault| format!("{}: {line}: {fault}", limit.name)));
                }
            }
            if a.is_stopped() || b.is_stopped() {
                faults.push(format!("{}: {line}: somebody is left stopped", limit.name));
            }
        }
    }
    for top in ["/sys/fs/cgroup", "/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified"] {
        faults.extend(left_behind(Path::new(top)).iter().map(|left| format!("{} is left", left.display())));
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn doctor_finds_nothing_without_proc_and_says_so() {
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root can mount");
    }
    let limit = with_mounts("no /proc", &["/proc"], NO_PROC);
    match run(&limit, None, &["doctor"]) {
        Err(e) => println!("skipped: it cannot be set here: {e}"),
        Ok(output) => {
            let output = output.expect("it ends");
            assert_eq!((output.status.code(), fault(&limit, "doctor", &output)), (Some(1), None));
            assert!(output.stdout.is_empty(), "{output:?}");
        }
    }
}

#[test]
fn every_verb_that_writes_a_file_reports_a_full_disk() {
    for arguments in [
        &["profile", "--quiet", "--json", "/dev/full", "--", "true"][..],
        &["profile", "--quiet", "--html", "/dev/full", "--", "true"],
        &["predict", "--quiet", "--json", "/dev/full", "--", "true"],
        &["predict", "--quiet", "--html", "/dev/full", "--", "true"],
        &["predict", "--quiet", "--record", "/dev/full", "--", "true"],
        &["verify", "--quiet", "--json", "/dev/full", "--", "true"],
        &["verify", "--quiet", "--junit", "/dev/full", "--", "true"],
        &["doctor", "--json", "/dev/full"],
        &["load", "cpu", "--quiet", "--duration", "10ms", "--json", "/dev/full"],
    ] {
        let output = Command::new(cargo_bin("corun")).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("the disk is full; free some space"), "{arguments:?}: {said}");
        assert!(!said.contains("os error"), "{arguments:?}: {said}");
    }
}

#[test]
fn without_a_place_for_the_journal_nothing_is_changed_and_a_possible_place_is_named() {
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root can become somebody else");
    }
    // A folder with the row's mode, over /tmp and /run of a shell with its own mounts.
    let nobody = "export CORUN_AS='setpriv --reuid 65534 --regid 65534 --clear-groups'";
    let over = |options: &str| format!("mount -t tmpfs -o {options} none \"$PLACE\"");
    let rows: [(&str, String, &[&str]); 6] = [
        (
            "a /tmp that can only be read",
            format!("{nobody}; unset XDG_RUNTIME_DIR; export TMPDIR=\"$PLACE\"; {}", over("ro,mode=777")),
            &["can only be read", "XDG_RUNTIME_DIR"],
        ),
        (
            "a /tmp of somebody else's",
            format!("{nobody}; unset XDG_RUNTIME_DIR; export TMPDIR=\"$PLACE\"; {}", over("mode=755")),
            &["Permission denied", "XDG_RUNTIME_DIR"],
        ),
        (
            "a runtime folder that is not there",
            format!("{nobody}; export XDG_RUNTIME_DIR=\"$PLACE/none\""),
            &["No such file", "XDG_RUNTIME_DIR"],
        ),
        (
            "a runtime folder that is none",
            format!("{nobody}; export XDG_RUNTIME_DIR=/dev/null"),
            &["Not a directory", "XDG_RUNTIME_DIR"],
        ),
        (
            "a full runtime folder",
            format!(
                "{nobody}; export XDG_RUNTIME_DIR=\"$PLACE\"; {} && mkdir -m 700 \"$PLACE/corun\" && \
                 chown 65534 \"$PLACE/corun\" && cat /dev/zero > \"$PLACE/full\" 2> /dev/null; true",
                over("size=64k,mode=777")
            ),
            &["the disk is full; free some space"],
        ),
        (
            "a /run that can only be read",
            "export CORUN_AS=; mount -t tmpfs -o ro none /run".into(),
            &["can only be read", "/run"],
        ),
    ];
    // Each user may control a program of its own.
    let tenants = [Loop::start(), Loop::of(65534)];
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // An unprivileged user may not read the folder that it was built in.
    let program = place.path().join("corun");
    let copied = Command::new("install").args(["-m", "755"]).args([&cargo_bin("corun"), &program]).status();
    assert!(copied.unwrap().success());
    for (name, script, words) in rows {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let tenant = &tenants[usize::from(script.contains("setpriv"))];
        let pid = tenant.pid();
        let verbs = [
            &["control", "gang", "--quiet", "--tenant", &pid, "--for", "300ms"][..],
            &["control", "--restore"],
            &["predict", "--quiet", "--dedicated", "-p", &pid, "--for", "300ms"],
        ];
        for verb in verbs {
            let mut command = Command::new("unshare");
            let script = format!("{script} && exec $CORUN_AS \"$0\" \"$@\"");
            command.args(["-m", "sh", "-c", &script]).arg(&program).args(verb).env("PLACE", folder.path());
            let output = command.current_dir("/").output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            if said.contains("mount: ") || said.contains("unshare: ") {
                println!("skipped: {name}: {said}");
                break;
            }
            // If nothing was ever changed, there is nothing to restore, and a full disk does not matter.
            let is_needless = verb.contains(&"--restore") && words[0].contains("full");
            let wanted = if is_needless { 0 } else { 2 };
            assert_eq!(output.status.code(), Some(wanted), "{name}: {verb:?}: {said}");
            let is_one = said.lines().filter(|l| l.starts_with("corun: ")).count() == 1;
            let is_told = words.iter().all(|word| said.contains(word));
            assert!(is_needless || is_one && is_told, "{name}: {verb:?}: {said}");
            assert!(!tenant.is_stopped(), "{name}: {verb:?}: somebody is left stopped");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{name}: something is left");
    }
}
