//! The parsers, each with texts that it reads, and what is done with the result.

use corun_agent::ring::{self, Entry, Run as AgentRun};
use corun_linux::cgroup::{Cgroups, Membership};
use corun_linux::counters::recorded::Recording;
use corun_linux::counters::{format, Theme};
use corun_linux::doctor::{self, Probes};
use corun_linux::supervisor::journal::Journal;
use corun_linux::supervisor::undo::Undo;
use corun_linux::{cpulist, cpustat, figures, limits, namespaces, naming, procfs, topology, Root};
use corun_model::culprit::Share;
use corun_model::histogram::{Histogram, BUCKETS};
use corun_model::ledger::BlockReasons;
use corun_model::observation::{Account, TaskObservation, TenantObservation};
use corun_model::run_log::file::{self as run_log, CoRunner, RunFile, RunWindow};
use corun_model::run_log::{CpuMask, Event, For, Left, RawEvent, RunLog, Waker, What};
use corun_model::workload::Workload;
use corun_model::{
    duration, CpuId, Culprits, Ledger, Observation, Parts, TaskId, Tenant, TenantId, TenantKind,
};
use corun_predict::{Options, Predictor, Recorded};
use corun_results::{annotate, Results, Run};
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Participants, Scenario};
use corun_study::control::file::ControlStudy;
use corun_study::control::outcome::ControlOutcome;
use corun_study::predict::file::Pairs;
use corun_study::programs::Catalogue;
use corun_study::schedulers::file::SchedulersStudy;
use corun_study::schedulers::presets::Presets;
use corun_study::validate::file::ValidateStudy;
use corun_study::verify::file::VerifyStudy;
use std::fs;
use std::path::{Path, PathBuf};

/// The code that gets every input.
pub type Reader = Box<dyn FnMut(&[u8])>;

/// A parser under test.
pub struct Target {
    /// The format that it reads.
    pub name: &'static str,
    /// Texts that it reads without error, mostly.
    pub corpus: Vec<Vec<u8>>,
    /// How many inputs of a thousand it gets: fast parsers get more.
    pub share: u64,
    /// Reads an input and uses the result.
    pub read: Reader,
}

fn target(name: &'static str, share: u64, corpus: Vec<Vec<u8>>, read: impl FnMut(&[u8]) + 'static) -> Target {
    Target { name, corpus, share, read: Box::new(read) }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a folder with this ending, if they are short.
fn shipped(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(repository().join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == ending));
    paths.sort();
    let texts: Vec<Vec<u8>> = paths.into_iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(!texts.is_empty(), "{folder} has no file that ends with {ending}");
    texts
}

fn kept(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name)).unwrap()
}

fn lines(name: &str) -> Vec<Vec<u8>> {
    kept(name).split(|&b| b == b'\n').map(<[u8]>::to_vec).collect()
}

/// Does something with an input as text: that it is text is checked before.
fn text(mut read: impl FnMut(&str) + 'static) -> impl FnMut(&[u8]) + 'static {
    move |bytes| read(&String::from_utf8_lossy(bytes))
}

/// Output of benchmark tools and test runners.
const FOREIGN: &str = "crates/corun-results/tests/corpus";
/// The run that they are from.
const RUN: Run =
    Run { begin_ns: 1_767_323_045_000_000_000, end_ns: 1_767_323_105_000_000_000, ahead_s: 3_600 };

/// All of them.
pub fn all() -> Vec<Target> {
    let catalogue = Catalogue::own();
    let (of_pairs, of_control) = (catalogue.clone(), catalogue);
    let studies = shipped("studies", "toml");
    vec![
        target(
            "workload",
            30,
            [shipped("workloads", "toml"), shipped("workloads/papers", "toml")].concat(),
            text(|t| {
                let _ = Workload::parse("w.toml", t);
            }),
        ),
        target(
            "machine",
            15,
            shipped("machines", "toml"),
            text(|t| {
                let _ = MachineModel::parse("m.toml", t);
            }),
        ),
        target(
            "scenario",
            15,
            shipped("scenarios", "toml"),
            text(|t| {
                let Ok(scenario) = Scenario::parse("s.toml", t, &Presets) else { return };
                // An accepted program can be started; its duration does not matter here.
                if let Ok(mut engine) = scenario.engine(1, Participants::All, 0) {
                    let _ = engine.run_until(100_000);
                }
            }),
        ),
        target(
            "study",
            1,
            studies.clone(),
            text(move |t| {
                let _ = ValidateStudy::parse("s.toml", t);
                let _ = VerifyStudy::parse("s.toml", t);
                let _ = Catalogue::parse("s.toml", t);
                let _ = SchedulersStudy::parse("s.toml", t, Path::new("/nowhere"));
                let _ = Pairs::parse("s.toml", t, &of_pairs);
                let _ = ControlStudy::parse("s.toml", t, &of_control);
            }),
        ),
        target(
            "profile json",
            5,
            vec![kept("profile.json")],
            text(|t| {
                let _ = corun_report::json::read(t);
            }),
        ),
        target(
            "study json",
            10,
            vec![kept("control.json"), kept("validate.json")],
            text(|t| {
                let _ = corun_study::validate::outcome::parse(t);
                let _ = serde_json::from_str::<ControlOutcome>(t);
            }),
        ),
        target(
            "recording of predict",
            40,
            vec![kept("predict.jsonl")],
            text(|t| {
                let mut predictor = Predictor::new(TenantId(0), Options::default());
                for line in t.lines().take(20) {
                    let Ok(Recorded { label, window }) = serde_json::from_str(line) else { continue };
                    predictor.push_window(window, label);
                }
                let _ = (predictor.estimate(), predictor.so_far());
            }),
        ),
        recorded_runs(),
        target("recording of counters", 80, vec![kept("counters.jsonl")], |bytes| {
            let _ = Recording::read_from(bytes);
        }),
        target(
            "undo",
            390,
            lines("undo.txt"),
            text(|t| {
                if let Some(undo) = Undo::parse(t) {
                    assert_eq!(
                        Undo::parse(&undo.to_string()).as_ref(),
                        Some(&undo),
                        "it is not written as it is read"
                    );
                }
            }),
        ),
        target(
            "results of benchmark tools",
            20,
            ["json", "jsonl", "csv", "txt"].map(|ending| shipped(FOREIGN, ending)).concat(),
            text(|t| {
                if let Ok(results) = Results::read(t, "criterion/a/new/sample.json") {
                    let _ = results.place(&RUN);
                }
            }),
        ),
        target("JUnit files of others", 20, shipped(FOREIGN, "xml"), |bytes| {
            let mut out = Vec::new();
            let property = |_: &_| vec![("corun.verdict", "starved".to_owned())];
            let done = annotate(|| Ok(bytes), &mut out, "t.xml", &RUN, property);
            assert!(done.is_ok() || out.is_empty(), "half of a file was written");
        }),
        journal(),
        target("segment of a ring", 10, vec![segment()], |bytes| {
            for frame in ring::scan(bytes).frames {
                let _ = ring::decode(&bytes[frame]);
            }
        }),
        target("entry of a ring", 10, entries(), |bytes| {
            if let Ok(Entry::Window { seen, .. }) = ring::decode(&ring::pack(1..2, bytes)) {
                seen.check().unwrap();
            }
        }),
        target(
            "words",
            352,
            lines("words.txt"),
            text(|t| {
                let _ = (duration::parse_ns(t), duration::parse_bytes(t), corun_load::affinity::parse(t));
                let _ =
                    (cpulist::parse(t), procfs::Stat::parse(t), naming::of_cgroup(t), naming::unescape(t));
                let membership = Membership::parse(t);
                let _ = (membership.tenant(), membership.v1("cpu"), membership.v2());
            }),
        ),
        machine_of_files(),
    ]
}

/// Recorded runs: their files, and arbitrary events in them, replayed.
fn recorded_runs() -> Target {
    let at = |t_ns, task, what| RawEvent::from(Event { t_ns, task: TaskId(task), what });
    let on = What::Runs { cpu: CpuId(0), may: CpuMask::first(2) };
    let events = [
        at(10, 1, on),
        at(20, 2, What::Born { parent: TaskId(1), process: 1 }),
        at(30, 2, on),
        at(40, 1, What::Leaves(Left::Waits(For::Futex(7)))),
        at(900, 1, What::Woken(Waker::Task(TaskId(2)))),
        at(910, 1, on),
        at(920, 2, What::SleepsUntil { deadline_ns: 5_000, as_length: true }),
        at(930, 2, What::Leaves(Left::Waits(For::Sleep))),
        at(
            935,
            1,
            What::Budget { quota_ns: 1_000_000, period_ns: 2_000_000, filled_ns: Some(9), more: false },
        ),
        at(940, 1, What::Leaves(Left::Yielded)),
        at(950, 1, What::Leaves(Left::Ended)),
        at(5_000, 2, What::Woken(Waker::Interrupt)),
        at(5_100, 2, What::Leaves(Left::Ended)),
    ];
    let bytes: Vec<u8> =
        events.iter().flat_map(|e| [e.t_ns, e.who, e.a, e.b]).flat_map(u64::to_le_bytes).collect();
    let whole = |events: Vec<Event>| {
        let end_ns = events.iter().map(|e| e.t_ns).max().unwrap_or(0);
        let log = RunLog { cpus: CpuMask::first(2), start_ns: 0, end_ns, lost: 0, events };
        let loops = CoRunner { name: "loops".into(), tasks: 2, ran_ns: end_ns, waited_ns: end_ns };
        run_log::write(&RunFile {
            command: "it".into(),
            windows: vec![RunWindow { log, co_runners: vec![loops] }],
        })
    };
    let known = events.iter().filter_map(|e| e.read()).collect();
    target("recorded run", 20, vec![bytes, whole(known)], move |bytes| {
        assert_eq!(run_log::read(bytes).is_ok(), run_log::places_of_seen(bytes).is_ok());
        // A file with a valid sum may hold any events: here they are the input.
        let number = |b: &[u8]| u64::from_le_bytes(b.try_into().unwrap());
        let raw = bytes.chunks_exact(32).map(|e| RawEvent {
            // So that most runs are short.
            t_ns: number(&e[..8]) % 1_000_000_000,
            who: number(&e[8..16]),
            a: number(&e[16..24]),
            b: number(&e[24..]),
        });
        let mut events: Vec<Event> = raw.filter_map(RawEvent::read).collect();
        events.sort_by_key(|e| e.t_ns);
        let Ok(file) = run_log::read(&whole(events)) else { return };
        let Ok(recorded) = corun_sim::replay::Recorded::of(&file) else { return };
        let Ok(scenario) = Scenario::of_recording("it.rec", "it", &recorded, None) else { return };
        if let Ok(mut engine) = scenario.engine(1, Participants::All, 0) {
            let _ = engine.run_until(100_000);
        }
    })
}

/// A folder that no disk slows down, if there is one.
fn in_memory() -> tempfile::TempDir {
    let shared = Path::new("/dev/shm");
    let place = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(place).unwrap()
}

/// A segment in the form that a writer makes.
fn segment() -> Vec<u8> {
    let folder = in_memory();
    let mut ring = ring::Writer::open(folder.path(), 64 << 10, ring::pack(0..0, &[])).unwrap();
    for message in entries() {
        ring.append(&ring::pack(1..2, &message)).unwrap();
    }
    fs::read(folder.path().join("segment-000000000001")).unwrap()
}

/// Entries of a ring before compression: a window of a tenant that waited for another.
fn entries() -> Vec<Vec<u8>> {
    let parts = Parts { compute_ns: 600, steal_ns: 300, block_ns: 100, ..Parts::default() };
    let shares = [Share { tenant: TenantId(2), steal_ns: 290 }];
    let account = Account {
        ledger: Ledger::new(parts, 1_000).unwrap(),
        culprits: Culprits::new(shares, 10, 300).unwrap(),
        block: Some(BlockReasons { futex_ns: 100, ..BlockReasons::default() }),
        waits: Some(Histogram { counts: [1; BUCKETS] }),
        ..Account::default()
    };
    let tenant = |id, name: &str| Tenant {
        id: TenantId(id),
        kind: TenantKind::Unit,
        key: format!("unit:/{name}"),
        name: name.to_owned(),
    };
    let task = TaskObservation {
        id: TaskId(7),
        name: "web".into(),
        tenant: TenantId(1),
        born_ns: 5_000,
        alive: true,
        last_cpu: None,
        account: account.clone().into(),
    };
    let seen = Observation {
        start_ns: 5_000,
        end_ns: 6_000,
        tenants: vec![tenant(1, "web"), tenant(2, "batch")],
        tasks: vec![task],
        by_tenant: vec![TenantObservation { id: TenantId(1), tasks: 1, account }],
        ..Observation::default()
    };
    let run = AgentRun { corun: "0".into(), source: "ebpf".into(), ..AgentRun::default() };
    let both = [Entry::Run(run), Entry::Window { unix_ns: 1..2, seen: Box::new(seen) }];
    both.iter().map(|entry| ring::unpack(&ring::encode(entry)).unwrap()).collect()
}

/// The journal in its two files; nothing in it is carried out.
fn journal() -> Target {
    let folder = in_memory();
    let mut journal = Journal::open(folder.path()).unwrap();
    journal.begin([]).unwrap();
    for line in String::from_utf8(kept("undo.txt")).unwrap().lines() {
        journal.add(&Undo::parse(line).unwrap()).unwrap();
    }
    drop(journal);
    let files: Vec<PathBuf> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
    let corpus = files.iter().map(|file| fs::read(file).unwrap()).filter(|t| !t.is_empty()).collect();
    target("journal", 1, corpus, move |bytes| {
        let (first, second) = bytes.split_at(bytes.len() / 3 * (bytes.len() % 2));
        let _ = (fs::write(&files[0], first), fs::write(&files[files.len() - 1], second));
        if let Ok(journal) = Journal::open(folder.path()) {
            let contents = journal.contents().unwrap();
            let _ = contents.inheritance();
        }
    })
}

/// `/proc` and `/sys` of a machine, with some wrong files.
fn machine_of_files() -> Target {
    let folder = in_memory();
    let text = String::from_utf8(kept("machine.txt")).unwrap();
    let files: Vec<(PathBuf, Vec<u8>)> = text
        .split("\n== ")
        .skip(1)
        .map(|section| {
            let (path, text) = section.split_once('\n').unwrap();
            let path = folder.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = (text.to_owned() + "\n").replace("\\0", "\0").into_bytes();
            fs::write(&path, &text).unwrap();
            (path, text)
        })
        .collect();
    let corpus = files.iter().map(|(_, text)| text.clone()).collect();
    let root = Root::new(folder.path());
    let mut turn = 0;
    target("machine of files", 1, corpus, move |bytes| {
        let _kept = &folder;
        // One file after the other; the input is its content.
        turn = (turn + 1) % files.len();
        let (path, right) = &files[turn];
        fs::write(path, bytes).unwrap();
        read_everything(&root);
        // These read everything that the others do and a hundred kilobytes of event tables.
        if bytes.len() % 16 == 0 {
            let _ = corun_linux::counters::Plan::make(&root, &[Theme::Pace], &|_, _| Ok(()));
            let _ = doctor::verdict(&doctor::examine(&root, &PROBES));
        }
        fs::write(path, right).unwrap();
    })
}

fn read_everything(root: &Root) {
    let machine = topology::read_machine(root);
    if let Ok(machine) = &machine {
        let _ = (figures::Figures::read(root, machine), figures::llc_bytes(root, machine));
    }
    let _ = (cpustat::CpuStat::read(root).map(|s| s.total()), cpustat::is_virtual(root));
    let _ = (namespaces::mismatch(root), limits::allowances(root), limits::without_init(root));
    let _ = (limits::committed(root), limits::no_real_time_budget(root), limits::is_filtered(root));
    for errno in [libc::EAGAIN, libc::ENOMEM, libc::EPERM] {
        let _ = limits::cause(root, &std::io::Error::from_raw_os_error(errno));
    }
    if let Ok(cgroups) = Cgroups::discover(root) {
        let _ = (cgroups.quotas(), cgroups.cpus_of(7));
        for tree in cgroups.trees() {
            let _ = cgroups.walk(tree).map(|nodes| nodes.len());
            let _ = cgroups.throttling(tree, "/system.slice/web.service");
        }
    }
    let _ = Membership::read(root, "/proc/7").map(|m| m.tenant());
    let _ = (procfs::process_stat(root, 7), procfs::task_stat(root, 7, 7), procfs::schedstat(root, 7, 7));
    let _ = (procfs::switches(root, 7, 7), procfs::autogroup(root, 7), procfs::command_line(root, 7));
    let _ = (procfs::with_descendants(root, &[7]), procfs::process_of(root, 7));
    let _ = format::core_pmu(root)
        .map(|pmu| format::Format::read(root, &pmu).map(|f| f.encode("event=3,umask=1")));
    let _ = corun_linux::target::Subject::vm(root, "web1");
}

const PROBES: Probes = Probes {
    bpf: Ok(()),
    probe: |_| Ok(()),
    counting: |_, _| Ok(()),
    software_clock: Ok(()),
    slice_ns: Ok(2_800_000),
    rt_priority_max: 0,
    tick_ns: 1_000_000,
};
