//! `corun top` as a user runs it without a terminal: one frame, the past, and refused input.

use assert_cmd::cargo::CommandCargoExt;
use corun_agent::ring::{encode, Entry, Run, Writer};
use corun_model::culprit::Share;
use corun_model::observation::{Account, TaskObservation, TenantObservation};
use corun_model::run_log::file::{self, RunWindow};
use corun_model::run_log::RunLog;
use corun_model::{
    Culprits, Ledger, Observation, Parts, TaskId, Tenant, TenantId, TenantKind, Unavailable, What, Why,
};
use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn corun(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("corun").unwrap();
    command.arg("top").args(args).env("LC_ALL", "C.UTF-8").env("HOME", "/nonexistent");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One clear sentence on stderr, exit code 2, nothing on stdout.
fn is_refused(output: &Output, sentence: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(sentence) && said.lines().count() == 1, "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn one_frame_is_printed_without_a_terminal_and_no_letter_controls_one() {
    let output = corun(&["--once", "--every", "300ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let frame = text(&output.stdout);
    assert!(frame.starts_with("corun top: everybody"), "{frame}");
    assert!(frame.contains("  TENANT "), "{frame}");
    assert!(frame.chars().all(|c| c == '\n' || !c.is_control()), "{frame:?}");
}

#[test]
fn without_privilege_a_frame_says_that_nobody_can_be_named_and_why() {
    let output = corun(&["--once", "--every", "300ms", "--source", "schedstat"]).output().unwrap();
    let frame = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(frame.contains("Who held the CPUs is not seen by schedstat."), "{frame}");
}

#[test]
fn if_nothing_can_be_drawn_it_says_what_to_use_instead() {
    is_refused(&corun(&[]).output().unwrap(), "standard output is no terminal; `corun top --once`");
    is_refused(&corun(&["--once", "--every", "1ms"]).output().unwrap(), "--every is from 100ms to 1h");
}

#[test]
fn a_file_of_keys_is_refused_with_its_place_and_printed_as_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("top.toml");
    let with = |content: &str| {
        std::fs::write(&file, content).unwrap();
        corun(&["--print-keys", "--keys", file.to_str().unwrap()]).output().unwrap()
    };
    is_refused(
        &with("[keys]\nquit = \"q\"\nqit = \"x\"\n"),
        "top.toml: line 3: there is no `qit`; name one of quit, help,",
    );
    is_refused(&with("[keys]\nquit = \"qq\"\n"), "`qq` is no key");
    is_refused(&corun(&["--keys", "/nonexistent/top.toml"]).output().unwrap(), "cannot read the keys");
    let printed = with("[keys]\nquit = \"x\"\n");
    assert!(text(&printed.stdout).contains("quit = [\"x\"]"), "{}", text(&printed.stdout));
    assert_eq!(text(&with(&text(&printed.stdout)).stdout), text(&printed.stdout));
}

/// A second in which a loop took 300 ms from a web server.
fn window(n: u64) -> Observation {
    const SECOND: u64 = 1_000_000_000;
    let tenant = |id, name: &str| Tenant {
        id: TenantId(id),
        kind: TenantKind::Command,
        key: format!("pgid:{id}"),
        name: name.into(),
    };
    let account = |ran_ns: u64, stolen: Option<Share>| {
        let steal_ns = stolen.map_or(0, |share| share.steal_ns);
        let block_ns = SECOND - ran_ns - steal_ns;
        let parts = Parts { compute_ns: ran_ns, steal_ns, block_ns, ..Parts::default() };
        Account {
            ledger: Ledger::new(parts, SECOND).unwrap(),
            culprits: Culprits::new(stolen, 0, steal_ns).unwrap(),
            ..Account::default()
        }
    };
    let share = Share { tenant: TenantId(2), steal_ns: 300_000_000 };
    let accounts = [(1, account(500_000_000, Some(share))), (2, account(700_000_000, None))];
    let task = |(id, account): &(u32, Account)| TaskObservation {
        id: TaskId(10 + id),
        name: "work".into(),
        tenant: TenantId(*id),
        born_ns: n * SECOND,
        alive: true,
        last_cpu: None,
        account: account.clone().into(),
    };
    let tasks = accounts.iter().map(task).collect();
    let of = |(id, account)| TenantObservation { id: TenantId(id), tasks: 1, account };
    Observation {
        start_ns: n * SECOND,
        end_ns: (n + 1) * SECOND,
        tenants: vec![tenant(1, "web"), tenant(2, "hog")],
        tasks,
        by_tenant: accounts.map(of).into(),
        ..Observation::default()
    }
}

fn begun() -> Vec<u8> {
    encode(&Entry::Run(Run {
        corun: "0".into(),
        source: "ebpf".into(),
        machine: "two CPUs".into(),
        cpus: 2,
        began_unix_ns: 1,
    }))
}

fn seen(n: u64) -> Vec<u8> {
    let begin_ns = 1_700_000_000_000_000_000 + n * 1_000_000_000;
    encode(&Entry::Window { unix_ns: begin_ns..begin_ns + 1_000_000_000, seen: Box::new(window(n)) })
}

fn ring(folder: &Path) {
    let mut writer = Writer::open(folder, 1 << 20, begun()).unwrap();
    (0..5).for_each(|n| writer.append(&seen(n)).unwrap());
}

/// A recording of the same events.
fn recording() -> Vec<u8> {
    let run = |n: u64| {
        let log = RunLog { start_ns: n, end_ns: n + 1, ..RunLog::default() };
        file::window(&RunWindow { log, ..RunWindow::default() })
    };
    let windows = (0..5).flat_map(|n| [run(n), file::seen(&seen(n))]);
    let whole = [file::header("web"), file::seen(&begun())].into_iter().chain(windows).chain([file::end()]);
    whole.flatten().collect()
}

#[test]
fn the_ring_of_an_agent_is_shown_as_the_machine_was() {
    let folder = tempfile::tempdir().unwrap();
    ring(folder.path());
    let output = corun(&["--once", folder.path().to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let frame = text(&output.stdout);
    let words: Vec<&str> = frame.split_whitespace().collect();
    let sentence = "web suffers most: it waited 300 ms for others in 1.00 s, 38 % of the time it wanted a CPU; hog took 300 ms of it.";
    assert!(words.join(" ").contains(sentence), "{frame}");
    assert!(frame.contains("(5 of 5)"), "{frame}");
}

#[test]
fn the_ring_of_an_agent_without_ebpf_says_what_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run { source: "schedstat".into(), machine: "two CPUs".into(), cpus: 2, ..Run::default() };
    let mut seen = window(0);
    seen.unavailable = vec![Unavailable::new(What::Culprits, Why::SchedstatNamesNobody)];
    let nameless = |account: &mut Account| account.culprits = Culprits::unknown(account.culprits.total_ns());
    seen.by_tenant.iter_mut().for_each(|t| nameless(&mut t.account));
    seen.tasks.iter_mut().for_each(|t| nameless(Arc::make_mut(&mut t.account)));
    let unix_ns = 1_700_000_000_000_000_000..1_700_000_001_000_000_000;
    let mut writer = Writer::open(folder.path(), 1 << 20, encode(&Entry::Run(run))).unwrap();
    writer.append(&encode(&Entry::Window { unix_ns, seen: Box::new(seen) })).unwrap();
    let output = corun(&["--once", folder.path().to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let frame = text(&output.stdout);
    let words = frame.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "web waits most: it waited 300 ms for a CPU in 1.00 s, 38 % of the time it wanted a CPU; who held the CPU is not known.",
        "The agent saw without eBPF, so who held the CPUs is not known.",
        "web 1 500 ms 300 ms ? 38% ? not known",
    ] {
        assert!(words.contains(said), "{said}: {frame}");
    }
    assert!(!words.contains("hog took"), "{frame}");
}

#[test]
fn any_stretch_of_a_ring_is_shown_from_its_beginning_on() {
    let folder = tempfile::tempdir().unwrap();
    ring(folder.path());
    let ring = folder.path().to_str().unwrap();
    let at = |args: &[&str]| {
        let output = corun(&[&["--once", ring], args].concat()).env("TZ", "UTC").output().unwrap();
        let frame = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        frame
    };
    let two = at(&["--at", "2023-11-14T22:13:22", "--for", "2s"]);
    assert!(two.contains("2023-11-14 22:13:23 UTC (1 of 2)"), "{two}");
    let rest = at(&["--at", "2023-11-14T22:13:21"]);
    assert!(rest.contains("(1 of 4)"), "{rest}");
    let newest = at(&["--for", "3s"]);
    assert!(newest.contains("2023-11-14 22:13:25 UTC (3 of 3)"), "{newest}");
    let refused = |args: &[&str]| corun(&[&["--once"], args].concat()).env("TZ", "UTC").output().unwrap();
    let none = refused(&[ring, "--at", "1999-01-01T00:00", "--for", "1s"]);
    is_refused(&none, "has nothing of that time; it has 2023-11-14 22:13:20 UTC to 2023-11-14 22:13:25 UTC");
    is_refused(&refused(&[ring, "--at", "noon"]), "`noon` is no time");
    assert_eq!(refused(&["--at", "03:10"]).status.code(), Some(2));
}

#[test]
fn a_recording_is_shown_like_the_ring_of_an_agent_that_saw_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (ring_of, recorded) = (folder.path().join("ring"), folder.path().join("it.rec"));
    ring(&ring_of);
    std::fs::write(&recorded, recording()).unwrap();
    for more in [&[][..], &["--at", "2023-11-14T22:13:22", "--for", "2s"], &["--for", "3s"]] {
        let [of_ring, of_recording] = [&ring_of, &recorded].map(|place| {
            let output = corun(&[&["--once", place.to_str().unwrap()], more].concat())
                .env("TZ", "UTC")
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            text(&output.stdout)
        });
        // The first line names the source.
        let frame = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(frame(&of_recording), frame(&of_ring));
        let words = of_recording.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("hog took 300 ms of it."), "{of_recording}");
    }
}

#[test]
fn an_invalid_or_incomplete_recording_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.rec");
    let whole = recording();
    let changed = |at: usize, to: u8| {
        let mut bytes = whole.clone();
        bytes[at] = to;
        bytes
    };
    let no_windows = file::write(&file::RunFile {
        windows: vec![RunWindow { log: RunLog { end_ns: 1, ..RunLog::default() }, ..RunWindow::default() }],
        ..file::RunFile::default()
    });
    for (bytes, sentence) in [
        (b"hello".to_vec(), "it.rec: this is no recording: it does not begin with `corunlog`; make one with"),
        (Vec::new(), "it.rec: this is no recording"),
        (
            changed(8, 9),
            "it.rec: this recording is of version 9, and this corun reads version 3; record it again",
        ),
        (changed(whole.len() / 2, whole[whole.len() / 2] ^ 1), "it.rec: this recording is damaged: "),
        (
            whole[..whole.len() - 1].to_vec(),
            "it.rec: this recording is damaged: it ends early; record it again",
        ),
        (no_windows, "it.rec: this recording has no windows of everybody; record it again"),
    ] {
        std::fs::write(&path, &bytes).unwrap();
        is_refused(&corun(&["--once", path.to_str().unwrap()]).output().unwrap(), sentence);
    }
    is_refused(&corun(&["--once", "/dev/zero"]).output().unwrap(), "/dev/zero");
}

#[test]
fn an_invalid_or_empty_ring_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    is_refused(&corun(&["--once", folder.path().to_str().unwrap()]).output().unwrap(), "is no ring");
    is_refused(&corun(&["--once", "/nonexistent/ring"]).output().unwrap(), "/nonexistent/ring");
}

/// The ends of a new terminal: the side that reads it, and the side that writes to it.
fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut master, mut slave) = (-1, -1);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let null = std::ptr::null_mut();
    // SAFETY: the pointers are to live variables, or null where that is allowed.
    let made = unsafe { libc::openpty(&mut master, &mut slave, null, std::ptr::null(), &size) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: a call that takes numbers only. A child that had this end as well would keep the terminal open.
    unsafe { libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: both are open, and nobody else has them.
    unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) }
}

#[test]
fn a_closed_terminal_ends_it_even_without_a_signal() {
    for is_ignored in [false, true] {
        let (master, slave) = terminal();
        let mut command = corun(&["--source", "schedstat"]);
        command.env("TERM", "xterm").stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap());
        command.stderr(slave.try_clone().unwrap());
        let prepare = move || {
            // SAFETY: calls that take numbers only, in a child that has begun nothing.
            unsafe {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                if is_ignored {
                    libc::signal(libc::SIGHUP, libc::SIG_IGN);
                }
            }
            Ok(())
        };
        // SAFETY: it allocates nothing and takes no lock.
        unsafe { command.pre_exec(prepare) };
        let mut child = command.spawn().unwrap();
        drop((command, slave));
        let mut shown = [0; 64];
        let mut screen = File::from(master);
        assert!(screen.read(&mut shown).unwrap() > 0, "it draws something");
        drop(screen);
        let until = Instant::now() + Duration::from_secs(30);
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > until {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("it goes on without a terminal; SIGHUP is ignored: {is_ignored}");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(ended.code().is_some() || ended.signal() == Some(libc::SIGHUP), "no panic: {ended}");
    }
}
