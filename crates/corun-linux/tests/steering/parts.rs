//! The roles that this test program plays when a test starts it again: supervisor, controller, a user without
//! rights.

use super::actors::{backend, eventually, options, seen, supervised_in, v2_mount, Actors};
use corun_linux::backend::Backend;
use corun_linux::dedicated::{Budget, Dedicated};
use corun_linux::probe::LiveOptions;
use corun_linux::steered::SteeredHost;
use corun_linux::stock::StockBackend;
use corun_linux::supervisor::journal::Journal;
use corun_linux::supervisor::undo::Undo;
use corun_linux::target::Subject;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::{freezer, supervisor, Root};
use corun_model::{Action, Host, Outcome, TaskId, TenantId};
use std::path::PathBuf;
use std::time::Duration;

pub fn play(part: &str) -> ! {
    match part {
        "supervisor" => {
            let args: Vec<_> = std::env::args_os().collect();
            let code = supervisor::main(args[args.len() - supervisor::ARGUMENTS..].to_vec());
            std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
        }
        "controller" => control(),
        "nobody" => nobody(),
        "exhausted" => exhausted(),
        "journal" => keep_a_journal(),
        other => panic!("no part {other}"),
    }
}

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os("FOLDER").unwrap())
}

fn pids(name: &str) -> Vec<u32> {
    std::env::var(name).unwrap().split(',').map(|p| p.parse().unwrap()).collect()
}

/// Opens one dedicated window after another, with all knobs set, until it is killed or cannot go on.
fn control() -> ! {
    let (subject, others) = (pids("SUBJECT"), pids("OTHERS"));
    let root = Root::new("/");
    let subject = Subject::processes(&root, &subject).unwrap();
    let (watcher, _) = Watcher::start(&root, LiveOptions::new(subject), Some(Source::Schedstat)).unwrap();
    let mut options = options(&folder(), &others);
    options.supervisor = supervisor::Options {
        lease: Duration::from_millis(std::env::var("LEASE_MS").map_or(2000, |ms| ms.parse().unwrap())),
        ..supervised_in(&folder())
    };
    let mut backend = StockBackend::new(&root, options);
    backend.arm().unwrap();
    println!("supervisor {}", backend.supervisor_pid().unwrap());
    let mut host = SteeredHost::new(watcher, Box::new(backend));
    host.advance(5_000_000).unwrap();
    host.observe().unwrap();
    let budget = Budget { per_mille: 1000, ..Budget::default() };
    let mut dedicated = Dedicated::new(60_000_000, budget).unwrap();
    println!("steers");
    let mut round = 0;
    loop {
        round += 1;
        for &pid in &others {
            let task = TaskId(pid);
            let cpus = vec![corun_model::CpuId(round % 2)];
            host.apply(&Action::Slice { task, min_ns: 10_000_000, max_ns: 30_000_000 });
            host.apply(&Action::PreemptDelay { task, delay_ns: 2_000_000 });
            host.apply(&Action::Cpus { task, cpus });
        }
        if let Err(e) = dedicated.run(&mut host).and_then(|_| Ok(host.advance(2_000_000)?)) {
            println!("gives up: {e}");
            std::process::exit(3);
        }
    }
}

/// Parks processes as a user who may not write to any cgroup, and reports the result.
fn nobody() -> ! {
    let someone_elses = pids("OTHERS");
    // SAFETY: plain integers; from here on this process has no rights.
    unsafe {
        assert_eq!(libc::setgid(65534), 0);
        assert_eq!(libc::setuid(65534), 0);
        // Changing the user clears this; otherwise /proc/self would belong to root.
        libc::prctl(libc::PR_SET_DUMPABLE, 1);
    }
    let mine = Actors::start(&[super::actors::Act::Spin, super::actors::Act::Fork], false);
    let stopped = Actors::spinning(1);
    let stop = |signal| {
        // SAFETY: a signal to our own child.
        unsafe { libc::kill(stopped.pids()[0] as i32, signal) }
    };
    stop(libc::SIGSTOP);
    let all: Vec<u32> = [mine.pids(), stopped.pids(), someone_elses.clone()].concat();
    let mut backend = backend(&folder(), &all);
    backend.learn(&seen(&[&mine.pids(), &stopped.pids(), &someone_elses]));
    let park = |backend: &mut StockBackend, n| backend.apply(&Action::Park { tenant: TenantId(n) });
    println!("someone else's: {:?}", park(&mut backend, 3));
    println!("own: {:?}", park(&mut backend, 1));
    std::thread::sleep(Duration::from_millis(5));
    println!("own stand still: {}", mine.stand_still(Duration::from_millis(50)));
    println!("stopped: {:?}", park(&mut backend, 2));
    let patience = Duration::from_secs(10);
    println!("unparked: {:?}", backend.apply(&Action::Unpark { tenant: TenantId(1) }) == Outcome::Done);
    println!("own run: {}", mine.run(patience));
    park(&mut backend, 1);
    println!("undone: {:?}", backend.undo_all());
    println!("own run: {}", mine.run(patience));
    println!("stopped stand still: {}", stopped.stand_still(Duration::from_millis(50)));
    stop(libc::SIGCONT);
    println!("stopped run: {}", stopped.run(patience));
    for knob in backend.support() {
        println!("{}: {:?}", knob.knob.name(), knob.support);
    }
    drop((backend, mine, stopped));
    std::process::exit(0);
}

/// Releases a tenant when no file can be opened any more, then undoes everything, and reports the result.
fn exhausted() -> ! {
    let actors = Actors::spinning(1);
    let cgroup = v2_mount().unwrap().join(format!("corun-test.{}.own", std::process::id()));
    std::fs::create_dir(&cgroup).unwrap();
    freezer::move_into(&cgroup, actors.pids()[0]).unwrap();
    let mut observed = seen(&[&actors.pids()]);
    observed.tenants[0].key = format!("cgroup:/{}", cgroup.file_name().unwrap().to_string_lossy());
    let mut backend = backend(&folder(), &actors.pids());
    backend.learn(&observed);
    let tenant = TenantId(1);
    println!("parked: {:?}", backend.apply(&Action::Park { tenant }));
    let most = files_at_most(3);
    println!("unparked: {:?}", backend.apply(&Action::Unpark { tenant }) == Outcome::Done);
    println!("still parked: {:?}", backend.parked() == [tenant].into());
    files_at_most(most);
    backend.beat().unwrap();
    println!("parked then: {:?}, runs: {}", backend.parked(), actors.run(Duration::from_secs(10)));
    println!("parked: {:?}", backend.apply(&Action::Park { tenant }));
    files_at_most(3);
    println!("unparked: {:?}", backend.apply(&Action::Unpark { tenant }) == Outcome::Done);
    files_at_most(most);
    println!("undone: {:?}", backend.undo_all());
    println!("run: {}", actors.run(Duration::from_secs(10)));
    drop((backend, actors));
    assert!(eventually(Duration::from_secs(10), || std::fs::remove_dir(&cgroup).is_ok()));
    std::process::exit(0);
}

/// What stays in force while [`keep_a_journal`] renews its journal.
pub fn outstanding() -> Vec<Undo> {
    let long = "x".repeat(200);
    (0..200).map(|n| Undo::Thaw(PathBuf::from(format!("/nowhere/{n}/{long}")))).collect()
}

/// Starts a journal and compacts it, again and again, until it is killed.
fn keep_a_journal() -> ! {
    let mut journal = Journal::open(&folder()).unwrap();
    journal.begin(&outstanding()).unwrap();
    println!("keeps it");
    loop {
        let entry = journal.add(&Undo::Thaw(PathBuf::from("/nowhere"))).unwrap();
        journal.undone(entry).unwrap();
        journal.compact(|_| false).unwrap();
        journal.begin(&outstanding()).unwrap();
    }
}

/// Limits the descriptors of this process; returns the limit before.
fn files_at_most(most: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls are given a valid structure.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, most);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        before
    }
}
