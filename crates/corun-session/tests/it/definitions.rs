//! Each word that classifies time or counts events, on every host: the probe, `schedstat`, and the modelled
//! machine.
//!
//! One table. A row creates a situation that a definition is about, as programs on this machine and as a
//! scenario, and lists the expected observations. A value that a host cannot see must be `None`, with its
//! reason. The expectations are shares and counts with wide margins: other programs may run on this machine.

use corun_linux::probe::LiveOptions;
use corun_linux::target::Subject;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::Root;
use corun_model::observation::Observation;
use corun_model::taken_by::Taken;
use corun_model::worker::is_worker;
use corun_model::{Host, Machine, TenantId, What, Why};
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Files, Participants, Scenario};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// How long a situation is watched, in nanoseconds.
const WINDOW_NS: u64 = 600_000_000;

/// A situation, and the statement of a definition about it.
struct Row {
    /// The word that is defined.
    word: &'static str,
    /// The subject, a shell script on CPU 0.
    subject: &'static str,
    /// A script next to it on the same CPU; none if empty.
    rival: &'static str,
    /// The same as a scenario whose subject has the name `subject`; empty if no modelled program does it.
    scenario: &'static str,
    /// What must be so.
    holds: fn(&Found) -> bool,
}

const LOOP: &str = "while :; do :; done";
const NAPS: &str = "while :; do sleep 0.01; done";
/// A modelled program that naps, too.
const MODELLED_NAPS: &str = "[[tenant]]\nname = \"subject\"\nprogram = { kind = \"interference\", pattern = \"periodic\", busy = \"1ms\", \
                             demand = 0.1 }\nbackground = false\n";

const ROWS: [Row; 8] = [
    Row {
        word: "co-runner: time that another tenant had the CPU is stolen",
        subject: LOOP,
        rival: LOOP,
        scenario: "[[tenant]]\nname = \"subject\"\ncpus = [0]\nprogram = { kind = \"interference\" }\nbackground = false\n\
                   [[tenant]]\nname = \"rival\"\ncpus = [0]\nprogram = { kind = \"interference\" }\n",
        holds: |f| f.taken.stolen_ns() > f.of_window(0.1) && f.known(f.culprits(), |taken| taken.own_ns < f.of_window(0.05)),
    },
    Row {
        word: "stolen: what its own tasks take from each other is not",
        subject: "(while :; do :; done) & while :; do :; done",
        rival: "",
        scenario: "[[tenant]]\nname = \"subject\"\ncpus = [0]\nprogram = { kind = \"interference\", threads = 2 }\nbackground = false\n",
        holds: |f| {
            f.steal_ns > f.of_window(0.1)
                && f.known(f.culprits(), |taken| taken.own_ns > f.of_window(0.05))
                && f.taken.total_ns() == f.steal_ns
        },
    },
    Row {
        word: "waits for siblings: a pipe, a lock, a child",
        subject: "sleep 1000 | cat",
        rival: "",
        scenario: "[[tenant]]\nname = \"subject\"\nprogram = { kind = \"parallel\", threads = 2, wait = \"block\", grain = \"1ms\", imbalance = 0.8 }\n\
                   background = false\n",
        holds: |f| f.known(f.for_siblings_ns, |ns| ns > f.of_window(0.1)),
    },
    Row {
        word: "waits for the outside: a timer, a device, a poll",
        subject: "sleep 1000 | cat",
        rival: "",
        scenario: "[[tenant]]\nname = \"subject\"\nprogram = { kind = \"interference\", pattern = \"periodic\", busy = \"10ms\", demand = 0.5 }\n\
                   background = false\n",
        // One of its tasks does all the time, and no other.
        holds: |f| f.known(f.outside_ns, |ns| ns > f.of_window(0.4) && ns < f.of_window(1.1)),
    },
    Row {
        word: "worker: a task with a fair part of its program's work",
        subject: "(while :; do sleep 0.02; done) & (while :; do sleep 0.02; done) & while :; do :; done",
        rival: "",
        scenario: "[[tenant]]\nname = \"subject\"\nprogram = { kind = \"interference\" }\nbackground = false\n",
        holds: |f| f.workers == 1,
    },
    Row {
        word: "blocked: it gave its CPU up to wait",
        subject: NAPS,
        rival: LOOP,
        scenario: MODELLED_NAPS,
        holds: |f| f.blocked.is_some_and(|n| n > 5),
    },
    Row {
        word: "blocked: a call of sched_yield is none",
        subject: "exec python3 -c 'import os\nwhile True: os.sched_yield()'",
        rival: LOOP,
        scenario: "",
        holds: |f| f.blocked.is_some_and(|n| n < 50) && f.known(f.yielded, |n| n > 10),
    },
    Row {
        word: "yielded: a blocking is none",
        subject: NAPS,
        rival: LOOP,
        scenario: MODELLED_NAPS,
        holds: |f| f.known(f.yielded, |n| n == 0),
    },
];

/// What a host saw of the subject.
#[derive(Debug)]
struct Found {
    /// The host knows who took the time, why tasks blocked, and how often they yielded.
    knows_all: bool,
    window_ns: u64,
    steal_ns: u64,
    taken: Taken,
    for_siblings_ns: Option<u64>,
    outside_ns: Option<u64>,
    blocked: Option<u64>,
    yielded: Option<u64>,
    workers: usize,
}

impl Found {
    fn of(seen: &Observation, subject: TenantId, knows_all: bool) -> Found {
        let all = &seen.by_tenant.iter().find(|t| t.id == subject).expect("the subject lives").account;
        let tasks = seen.tasks.iter().filter(|t| t.tenant == subject);
        let did: Vec<f64> = tasks.map(|t| t.account.ledger.on_cpu_ns() as f64).collect();
        let most = did.iter().copied().fold(0.0, f64::max);
        Found {
            knows_all,
            window_ns: seen.window_ns(),
            steal_ns: all.ledger.parts().steal_ns,
            taken: seen.taken(subject, &all.culprits),
            for_siblings_ns: all.block.map(|block| block.for_siblings_ns()),
            outside_ns: all.block.map(|block| block.outside_ns()),
            blocked: all.events.blocked,
            yielded: all.events.yielded,
            workers: did.iter().filter(|did| is_worker(**did, most)).count(),
        }
    }

    fn of_window(&self, share: f64) -> u64 {
        (share * self.window_ns as f64) as u64
    }

    /// Who took the time, if the host knows that for anybody.
    fn culprits(&self) -> Option<Taken> {
        (self.taken.unattributed_ns < self.taken.total_ns()).then_some(self.taken)
    }

    /// Whether a value fulfills this: only a host that does not know it may have none.
    fn known<T>(&self, value: Option<T>, holds: impl Fn(T) -> bool) -> bool {
        match value {
            Some(value) => self.knows_all && holds(value),
            None => !self.knows_all,
        }
    }
}

/// A script on CPU 0 in a process group of its own, which ends with it.
struct Script(Child);

impl Script {
    fn start(script: &str) -> Script {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "sh", "-c", script]).process_group(0).stdin(Stdio::null());
        Script(command.spawn().expect("util-linux is installed"))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // SAFETY: a signal to a group that this process made, whose leader has not been waited for.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

fn live(row: &Row, source: Source) -> Option<(Found, Observation)> {
    let subject = Script::start(row.subject);
    let _rival = (!row.rival.is_empty()).then(|| Script::start(row.rival));
    let whom = Subject::Processes { roots: vec![subject.0.id()], name: "subject".into() };
    let mut host = match Watcher::start(&Root::new("/"), LiveOptions::new(whom), Some(source)) {
        Ok((host, _)) => host,
        Err(e) => {
            println!("skipped: {source:?}: {e}");
            return None;
        }
    };
    // By then, scripts have started their programs.
    host.advance(WINDOW_NS / 2).unwrap();
    host.observe().unwrap();
    host.advance(WINDOW_NS).unwrap();
    let seen = host.observe().unwrap();
    let id = host.subject().expect("it has one");
    Some((Found::of(&seen, id, source == Source::Ebpf), seen))
}

/// A machine of two CPUs, and no file.
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        Err(format!("there is no {path}"))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Ok(MachineModel::of(Machine::synthetic(1, 1, 2, 1)))
    }
}

fn modelled(row: &Row) -> Found {
    let text =
        format!("schema = \"corun.scenario/1\"\nmachine = \"host\"\nduration = \"10s\"\n{}", row.scenario);
    let scenario =
        Scenario::parse("definitions", &text, &NoFiles).unwrap_or_else(|e| panic!("{}: {e}", row.word));
    let mut engine = scenario.engine(1, Participants::All, 0).unwrap();
    engine.advance(WINDOW_NS).unwrap();
    engine.observe();
    engine.advance(WINDOW_NS).unwrap();
    let seen = Host::observe(&mut engine).unwrap();
    let subject = seen.tenants.iter().find(|t| t.name == "subject").expect("it is named so").id;
    Found::of(&seen, subject, true)
}

#[test]
fn every_word_means_the_same_under_the_probe() {
    for row in &ROWS {
        let Some((found, _)) = live(row, Source::Ebpf) else { return };
        assert!((row.holds)(&found), "{}: {found:#?}", row.word);
    }
}

#[test]
fn every_word_means_the_same_under_schedstat_and_what_it_cannot_see_has_its_reason() {
    for row in &ROWS {
        let Some((found, seen)) = live(row, Source::Schedstat) else { return };
        assert!((row.holds)(&found), "{}: {found:#?}", row.word);
        let why = |what: What| seen.unavailable.iter().find(|u| u.what == what).map(|u| u.why.clone());
        assert_eq!((found.for_siblings_ns, found.outside_ns, found.yielded), (None, None, None));
        assert_eq!(found.taken.unattributed_ns, found.steal_ns);
        assert_eq!(why(What::Culprits), Some(Why::SchedstatNamesNobody));
        assert_eq!(why(What::Events), Some(Why::SchedstatIsSilent));
        assert_eq!(why(What::Yields), Some(Why::KernelTakesYieldsForPreemptions));
    }
}

#[test]
fn every_word_means_the_same_on_the_modelled_machine() {
    for row in ROWS.iter().filter(|row| !row.scenario.is_empty()) {
        let found = modelled(row);
        assert!((row.holds)(&found), "{}: {found:#?}", row.word);
    }
}
