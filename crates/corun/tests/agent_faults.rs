//! Faults of an agent, its ring and its scrapers: it is killed at any instant, damaged, flooded. It reports
//! them in one sentence or by `/readyz`, does not grow, and leaves nothing in the kernel.
//!
//! `CORUN_KILLS` sets how often it is killed (100), `CORUN_COMERS` how many tenants come and go (10,000),
//! `CORUN_SEED` the instants.

mod serving;

use assert_cmd::cargo::cargo_bin;
use corun_agent::ring::{encode, Damage, Entry, Fault, Reader, Run, What, Writer};
use corun_model::observation::{Account, TaskObservation, TenantObservation};
use corun_model::{Ledger, Observation, Parts, TaskId, Tenant, TenantId, TenantKind};
use serde_json::Value;
use serving::{is_refused, run, said, Agent};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().expect("a number"))
}

fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// How many of these BPF programs are left in the kernel after their holder has ended. They are freed a grace
/// period after it.
fn left(programs: &BTreeSet<u32>) -> usize {
    let count = || corun_bpf::loaded_programs().intersection(programs).count();
    eventually(|| count() == 0);
    count()
}

fn with_ring(folder: &Path, rest: &str) -> (PathBuf, String) {
    let (ring, config) = (folder.join("ring"), folder.join("agent.toml"));
    fs::write(
        &config,
        format!(
            "window = \"100ms\"\n{rest}[ring]\nfolder = {ring:?}\nsize = \"1MiB\"\ninterval = \"100ms\"\n"
        ),
    )
    .unwrap();
    (ring, config.to_str().unwrap().to_owned())
}

#[test]
fn an_agent_killed_at_any_instant_leaves_nothing_but_a_ring_that_can_be_continued() {
    let folder = tempfile::tempdir().unwrap();
    let (ring, config) = with_ring(folder.path(), "");
    let (kills, seed) = (number("CORUN_KILLS", 100), number("CORUN_SEED", 1));
    println!("CORUN_KILLS={kills} CORUN_SEED={seed}");
    let mut chance = seed;
    let (mut programs, mut newest) = (BTreeSet::new(), 0);
    // One has written something before it is killed, however slow the machine is.
    let agent = Agent::start(&["--config", &config]);
    agent.until("a written interval", |a| {
        (a.sum("corun_ring_intervals_written_total", &[]) > 0.0).then_some(())
    });
    programs.extend(corun_bpf::programs_of(agent.child.id()));
    drop(agent);
    for kill in 0..kills {
        let mut child = Command::new(cargo_bin("corun"))
            .args(["agent", "--listen", "127.0.0.1:0", "--config", &config])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((chance >> 33) % 600_000));
        programs.extend(corun_bpf::programs_of(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        let reader = Reader::open(&ring).unwrap();
        let (mut end, mut damages) = (0, Vec::new());
        for window in reader.windows(0..u64::MAX) {
            match window {
                Ok(window) => end = end.max(window.unix_ns.end),
                Err(damage) => damages.push(damage),
            }
        }
        let is_of_kill = |d: &Damage| d.what == What::Bytes(Fault::Unfinished);
        assert!(damages.len() <= 1 && damages.iter().all(is_of_kill), "kill {kill}: {damages:?}");
        assert!(end >= newest, "kill {kill}: the newest window is lost");
        newest = end;
    }
    assert!(newest > 0, "nothing was ever written");
    for entry in fs::read_dir(&ring).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "lock" || name.starts_with("segment-"), "{name} is left");
    }
    assert!(fs::read_dir(&ring).unwrap().count() <= 17, "the ring has grown");
    let output = run(&["profile", "--from", ring.to_str().unwrap(), "--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(left(&programs), 0, "of {} programs", programs.len());
}

fn task(tenant: TenantId, born_ns: u64, account: Account) -> TaskObservation {
    TaskObservation {
        id: TaskId(11),
        name: "work".into(),
        tenant,
        born_ns,
        alive: true,
        last_cpu: None,
        account: account.into(),
    }
}

/// A ring of three windows, and the segment that contains them.
fn small_ring(folder: &Path) -> PathBuf {
    let window = |n: u64| {
        let (start_ns, end_ns) = (n * 1_000_000_000, (n + 1) * 1_000_000_000);
        let parts = Parts { compute_ns: 1_000_000_000, ..Parts::default() };
        let account = Account { ledger: Ledger::new(parts, 1_000_000_000).unwrap(), ..Default::default() };
        let (id, name) = (TenantId(1), "web.service".to_owned());
        Observation {
            start_ns,
            end_ns,
            tenants: vec![Tenant { id, kind: TenantKind::Unit, key: "unit:/web.service".into(), name }],
            tasks: vec![task(id, start_ns, account.clone())],
            by_tenant: vec![TenantObservation { id, tasks: 1, account }],
            ..Observation::default()
        }
    };
    let run = Run { source: "ebpf".into(), machine: "two CPUs".into(), cpus: 2, ..Run::default() };
    let mut writer = Writer::open(folder, 64 << 10, encode(&Entry::Run(run))).unwrap();
    for n in 0..3 {
        let from = 1_700_000_000_000_000_000 + n * 1_000_000_000;
        let entry = Entry::Window { unix_ns: from..from + 1_000_000_000, seen: Box::new(window(n)) };
        writer.append(&encode(&entry)).unwrap();
    }
    folder.join("segment-000000000001")
}

#[test]
fn of_a_ring_damaged_anywhere_the_rest_is_reported_and_the_damage_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let ring = folder.path().join("ring");
    let segment = small_ring(&ring);
    let whole = fs::read(&segment).unwrap();
    let ring = ring.to_str().unwrap();
    let used = whole.iter().rposition(|b| *b != 0).unwrap();
    let (mut reported, mut refused) = (0, 0);
    for at in (0..used).step_by(used / 24) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(&segment, &bytes).unwrap();
        for args in [&["profile", "--from", ring][..], &["top", "--once", ring]] {
            let output = run(args);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            match output.status.code() {
                Some(0) => {
                    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
                    assert!(words.contains("damaged") || words.contains("not finished"), "byte {at}: {text}");
                    reported += 1;
                }
                Some(2) => {
                    assert_eq!(said(&output).lines().count(), 1, "byte {at}: {}", said(&output));
                    assert!(said(&output).contains("damaged"), "byte {at}: {}", said(&output));
                    refused += 1;
                }
                code => panic!("{args:?}, byte {at}: {code:?}: {}", said(&output)),
            }
        }
    }
    assert!(reported > 0 && refused > 0, "{reported} {refused}");
}

#[test]
fn a_ring_of_another_version_is_refused_to_a_reader_and_left_behind_by_an_agent() {
    let folder = tempfile::tempdir().unwrap();
    let (ring, config) = with_ring(folder.path(), "");
    let segment = small_ring(&ring);
    let mut bytes = fs::read(&segment).unwrap();
    bytes[8] = 9;
    let checksum = crc32fast::hash(&bytes[..28]);
    bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&segment, &bytes).unwrap();
    let name = ring.to_str().unwrap();
    let words = ["is of ring format 9", "read it with the corun that wrote it"];
    is_refused(&["profile", "--from", name], &words);
    is_refused(&["top", "--once", name], &words);
    let agent = Agent::start(&["--config", &config]);
    agent.until("a written interval", |a| {
        (a.sum("corun_ring_intervals_written_total", &[]) > 0.0).then_some(())
    });
    assert_eq!(fs::read(&segment).unwrap(), bytes, "what another one wrote stays until its room is needed");
    let output = run(&["profile", "--from", name]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("is of ring format 9"), "{text}{}", said(&output));
}

#[test]
fn windows_of_an_agent_without_ebpf_are_shown_and_nobody_is_blamed() {
    let folder = tempfile::tempdir().unwrap();
    let (ring, config) = with_ring(folder.path(), "source = \"schedstat\"\n");
    let agent = Agent::start(&["--config", &config]);
    agent.until("three written intervals", |a| {
        (a.sum("corun_ring_intervals_written_total", &[]) > 2.0).then_some(())
    });
    drop(agent);
    let output = run(&["top", "--once", ring.to_str().unwrap()]);
    let frame = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(frame.contains("The agent saw without eBPF, so who held the CPUs is not known."), "{frame}");
    let table = frame.lines().skip_while(|line| !line.starts_with("  TENANT")).skip(1);
    let rows: Vec<&str> =
        table.take_while(|line| !line.is_empty()).filter(|line| !line.ends_with(" tenants")).collect();
    // What it lost, and what it took.
    let unknown = |row: &&str| row.split_whitespace().filter(|word| *word == "?").count();
    assert!(!rows.is_empty() && rows.iter().all(|row| unknown(row) == 2), "{frame}");
    let output = run(&["profile", "--from", ring.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

/// A small disk of its own; gone when dropped.
struct Disk(PathBuf);

impl Disk {
    /// `None`: only root can make one.
    fn new(folder: &Path, size: &str) -> Option<Disk> {
        fs::create_dir_all(folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(folder);
        let mounted = mount.stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then(|| Disk(folder.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn an_agent_that_begins_on_a_full_disk_says_so_and_keeps_what_comes_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let (ring, config) = with_ring(folder.path(), "");
    let Some(_disk) = Disk::new(&ring, "512k") else {
        return println!("skipped: a small disk needs root");
    };
    let (hog, written) = (ring.join("hog"), "corun_ring_intervals_written_total");
    let mut file = fs::File::create(&hog).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    // What somebody has open takes its room even when it is removed.
    drop(file);
    let agent = Agent::start(&["--config", &config]);
    let why = agent.hear("cannot make the segment");
    assert!(why.contains("the disk is full"), "{why}");
    let says_so = |a: &Agent| a.get("/readyz").1.contains("the disk is full");
    agent.until("the reason", |a| says_so(a).then_some(()));
    assert_eq!(agent.get("/readyz").0, 503);
    assert_eq!(agent.get("/livez").0, 200);
    assert_eq!(agent.sum(written, &[]), 0.0);
    fs::remove_file(&hog).unwrap();
    agent.until("a written interval", |a| (a.sum(written, &[]) > 0.0).then_some(()));
    agent.until("no reason any more", |a| (!says_so(a)).then_some(()));
    assert!(agent.sum("corun_ring_intervals_lost_total", &[]) >= 1.0);
    drop(agent);
    let output = run(&["profile", "--from", ring.to_str().unwrap(), "--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn the_doctor_reports_how_far_back_the_ring_goes_and_why_it_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let (ring, config) = (folder.path().join("ring"), folder.path().join("agent.toml"));
    let text = |ring: &Path| {
        let ring = format!("[ring]\nfolder = {ring:?}\nsize = \"1MiB\"\ninterval = \"200ms\"\n");
        fs::write(&config, format!("window = \"200ms\"\n{ring}")).unwrap();
    };
    text(&ring);
    let began = jiff::Timestamp::now();
    let agent = Agent::start(&["--config", config.to_str().unwrap()]);
    let kept = |a: &Agent| serde_json::from_str::<Value>(&a.get("/doctor").1).unwrap()["ring"].clone();
    let oldest = agent.until("a window in the ring", |a| kept(a)["oldest"].as_str().map(str::to_owned));
    let oldest: jiff::Timestamp = oldest.parse().unwrap();
    // Its precision is a second.
    assert!(oldest.as_second() >= began.as_second() && oldest <= jiff::Timestamp::now(), "{oldest}");

    // A folder that cannot be created: the agent goes on without a ring, says so, and tries again on request.
    let nowhere = config.join("ring");
    let reload = |ring: &Path| {
        text(ring);
        agent.signal(libc::SIGHUP);
        agent.hear("the configuration was read again");
        kept(&agent)
    };
    let lost = reload(&nowhere);
    assert_eq!((lost["folder"].as_str(), &lost["used_bytes"]), (nowhere.to_str(), &Value::Null), "{lost}");
    assert!(lost["why_not"].as_str().is_some_and(|why| why.contains("is no folder; name")), "{lost}");
    assert_eq!(agent.get("/readyz").0, 503);
    let found = reload(&ring);
    assert_eq!(
        (&found["is_written"], found["folder"].as_str()),
        (&Value::Bool(true), ring.to_str()),
        "{found}"
    );
    assert!(found["oldest"].is_string(), "{found}");
    let bare = Agent::start(&[]);
    assert!(kept(&bare).is_null());
}

#[test]
fn scrapers_that_never_read_are_given_up_and_the_agent_goes_on_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let (_, config) = with_ring(folder.path(), "");
    let agent = Agent::start(&["--config", &config]);
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", agent.child.id())).unwrap().count();
    let before = descriptors();
    let written = |a: &Agent| a.sum("corun_ring_intervals_written_total", &[]);
    let first = agent.until("a written interval", |a| Some(written(a)).filter(|n| *n > 0.0));
    let silent: Vec<TcpStream> = (0..40)
        .map(|n| {
            let mut stream = TcpStream::connect(&agent.address).unwrap();
            // Half of them send a request, and none ever reads.
            if n % 2 == 0 {
                stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            }
            stream
        })
        .collect();
    // A scraper with a request is finished; the others are dropped after ten seconds. All are still there.
    let answered = eventually(|| {
        let Ok(mut stream) = TcpStream::connect(&agent.address) else { return false };
        let mut answer = String::new();
        let asked = stream.write_all(b"GET /livez HTTP/1.1\r\n\r\n");
        asked.is_ok()
            && std::io::Read::read_to_string(&mut stream, &mut answer).is_ok()
            && answer.contains(" 200 ")
    });
    assert!(answered, "nobody is answered any more");
    agent.until("another interval", |a| (written(a) > first + 5.0).then_some(()));
    assert!(agent.sum("corun_connections_refused_total", &[]) >= 1.0);
    assert!(eventually(|| descriptors() <= before + 1), "{before} descriptors became {}", descriptors());
    drop(silent);
}

/// The only child of a process, once it exists.
fn child_of(pid: u32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.trim().parse().ok()
}

/// Whether a process catches a signal.
fn catches(pid: i32, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("SigCgt:\t")?, 16).ok());
    caught.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[test]
fn the_first_process_of_a_container_ends_on_request_from_its_first_moments_on() {
    let in_own_pids = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]);
        command
    };
    let output = in_own_pids().arg("true").output();
    if !output.is_ok_and(|output| output.status.success()) {
        return println!("skipped: there can be no PID namespace here");
    }
    let (attempts, mut before_it_served) = (10, 0);
    for _ in 0..attempts {
        let mut outer = in_own_pids()
            .arg(cargo_bin("corun"))
            .args(["agent", "--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = 0;
        let until = Instant::now() + PATIENCE;
        // Without a pause: it serves some milliseconds later.
        while first == 0 || !catches(first, libc::SIGTERM) {
            first = child_of(outer.id()).unwrap_or(0);
            assert!(Instant::now() < until, "it never cares for SIGTERM");
        }
        // SAFETY: sends a signal to a process that the outer one waits for, which nobody has waited for yet.
        assert_eq!(unsafe { libc::kill(first, libc::SIGTERM) }, 0);
        let mut ended = None;
        let ends = eventually(|| {
            ended = outer.try_wait().unwrap();
            ended.is_some()
        });
        if !ends {
            // SAFETY: as above.
            unsafe { libc::kill(first, libc::SIGKILL) };
        }
        let said = std::io::read_to_string(outer.stderr.take().unwrap()).unwrap();
        assert_eq!(ended.and_then(|status| status.code()), Some(0), "{said}");
        before_it_served += u32::from(!said.contains("metrics at"));
    }
    println!("{before_it_served} of {attempts} were told to end before they served");
}

/// Resident memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// This many process groups, each a tenant, come and go.
fn come_and_go(many: u64) {
    for _ in 0..many {
        let mut child = Command::new("/bin/true").process_group(0).spawn().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn ten_thousand_tenants_that_come_and_go_make_an_agent_no_larger() {
    let folder = tempfile::tempdir().unwrap();
    let (ring, config) = with_ring(folder.path(), "max-tenants = 100\n");
    let mut agent = Agent::start(&["--config", &config]);
    let programs = corun_bpf::programs_of(agent.child.id());
    let comers = number("CORUN_COMERS", 10_000);
    come_and_go(comers / 2);
    let lines = |a: &Agent| a.get("/metrics").1.lines().count();
    let (half, lines_then) = (resident(agent.child.id()), lines(&agent));
    come_and_go(comers - comers / 2);
    let (all, lines_now) = (resident(agent.child.id()), lines(&agent));
    println!(
        "{comers} tenants: {half} KiB resident after half of them, {all} KiB after all; {lines_now} lines"
    );
    assert!(all < half + half / 4, "{half} KiB became {all} KiB");
    assert!(lines_now < 2 * lines_then + 500, "{lines_then} lines became {lines_now}");
    let (status, why) = agent.get("/livez");
    assert_eq!(status, 200, "{why}");
    agent.signal(libc::SIGTERM);
    assert_eq!(agent.child.wait().unwrap().code(), Some(0));
    assert_eq!(left(&programs), 0);
    let output = run(&["profile", "--from", ring.to_str().unwrap(), "--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}
