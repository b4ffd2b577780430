//! The sched_ext backend, on a kernel that has sched_ext: run in the test guest by `scripts/test-guest`.

#[path = "steering/actors.rs"]
#[allow(dead_code)]
mod actors;

use actors::{eventually, options, seen, Act, Actors};
use corun_linux::backend::{Backend, Support};
use corun_linux::cgroup::Cgroups;
use corun_linux::probe::LiveOptions;
use corun_linux::scx::{support, ScxBackend, LEASE_NS};
use corun_linux::steered::SteeredHost;
use corun_linux::stock::Options;
use corun_linux::target::Subject;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::{sched, supervisor, Root};
use corun_model::refusal::ProtectedBy;
use corun_model::{
    conformance, Action, CpuId, Host, Knob, Observation, Outcome, Refusal, TaskId, TenantId, TenantKind,
};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
const ONE: TenantId = TenantId(1);
const OTHER: TenantId = TenantId(2);

/// One scheduler at a time. `None`, with the reason printed, outside the guest.
fn alone() -> Option<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::new(());
    if std::env::var_os("CORUN_GUEST").is_none() {
        println!("not here: the sched_ext backend is tested in the test guest (make test-guest)");
        return None;
    }
    Some(ALONE.lock().unwrap_or_else(|e| e.into_inner()))
}

/// Not a test: this program as the supervisor, when the backend starts it as one.
#[test]
fn another_part() {
    if std::env::var(actors::PART).as_deref() == Ok("supervisor") {
        let args: Vec<_> = std::env::args_os().collect();
        let code = supervisor::main(args[args.len() - supervisor::ARGUMENTS..].to_vec());
        std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
    }
}

fn backend(folder: &tempfile::TempDir, pids: &[u32]) -> ScxBackend {
    ScxBackend::start(&Root::new("/"), options(folder.path(), pids)).unwrap_or_else(|e| panic!("{e}"))
}

fn state() -> String {
    std::fs::read_to_string("/sys/kernel/sched_ext/state").unwrap().trim().to_owned()
}

#[test]
fn the_host_that_it_steers_passes_the_suite_that_every_other_passes() {
    let Some(_alone) = alone() else { return };
    let _busy = Actors::spinning(1);
    for source in [Source::Schedstat, Source::Ebpf] {
        let watcher = || Watcher::start(&Root::new("/"), LiveOptions::new(Subject::All), Some(source));
        if let Err(e) = watcher() {
            println!("skipped: {e}");
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let make = || {
            let (watcher, _) = watcher().expect("it could be made a moment ago");
            Box::new(SteeredHost::new(watcher, Box::new(backend(&folder, &[])))) as Box<dyn Host>
        };
        conformance::host(make).unwrap();
        assert_eq!(state(), "disabled");
    }
}

#[test]
fn a_parked_tenant_stands_still_next_to_a_running_one_forks_included() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = Actors::start(&[Act::Spin, Act::Spin, Act::Fork], false);
    let other = Actors::spinning(1);
    let mut backend = backend(&folder, &[one.pids(), other.pids()].concat());
    backend.learn(&seen(&[&one.pids(), &other.pids()]));
    for round in 0..5 {
        assert_eq!(backend.apply(&Action::Park { tenant: ONE }), Outcome::Done);
        std::thread::sleep(Duration::from_millis(20));
        assert!(one.stand_still(Duration::from_millis(100)), "round {round}");
        assert!(other.run(PATIENCE), "round {round}");
        backend.beat().unwrap();
        assert_eq!(backend.apply(&Action::Unpark { tenant: ONE }), Outcome::Done);
        assert!(one.run(PATIENCE), "round {round}");
    }
    assert_eq!(backend.apply(&Action::Park { tenant: ONE }), Outcome::Done);
    backend.undo_all().unwrap();
    assert_eq!(state(), "disabled");
    assert!(one.run(PATIENCE));
}

#[test]
fn a_tenant_whose_park_has_ended_by_itself_does_not_count_as_parked_and_can_be_parked_again() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = Actors::spinning(1);
    let mut backend = backend(&folder, &one.pids());
    backend.learn(&seen(&[&one.pids()]));
    for _ in 0..2 {
        assert_eq!(backend.apply(&Action::Park { tenant: ONE }), Outcome::Done);
        backend.beat().unwrap();
        assert_eq!(backend.parked(), [ONE].into());
        std::thread::sleep(Duration::from_millis(20));
        assert!(one.stand_still(Duration::from_millis(100)));
        // Like a controller that is stopped.
        std::thread::sleep(Duration::from_nanos(LEASE_NS));
        assert!(one.run(PATIENCE), "nobody renews its lease");
        backend.beat().unwrap();
        assert_eq!(backend.parked(), [].into());
    }
}

#[test]
fn every_knob_is_set_and_afterwards_nothing_is_left_of_it() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = Actors::spinning(2);
    let other = Actors::spinning(2);
    let before = actors::state_of(&one.pids());
    let mut backend = backend(&folder, &[one.pids(), other.pids()].concat());
    assert!(Knob::ALL
        .iter()
        .all(|k| backend.support().iter().any(|s| s.knob == *k && matches!(s.support, Support::Yes { .. }))));
    backend.learn(&seen(&[&one.pids(), &other.pids()]));
    let task = TaskId(one.pids()[0]);
    for action in [
        Action::Slice { task, min_ns: 10_000_000, max_ns: 30_000_000 },
        Action::PreemptDelay { task, delay_ns: 8_000_000 },
        Action::Cpus { task, cpus: vec![CpuId(1)] },
        Action::Weight { tenant: ONE, weight: 300 },
        Action::Weight { tenant: OTHER, weight: 100 },
    ] {
        assert_eq!(backend.apply(&action), Outcome::Done, "{action:?}");
    }
    assert_eq!(sched::affinity(task.0).unwrap(), [CpuId(1)]);
    // Their cells are the two that user space made.
    let ran = |backend: &ScxBackend| -> Vec<u64> {
        let cells = backend.scheduler().unwrap().cells();
        cells.iter().filter(|c| c.id != 0 && c.cgroup.is_none()).map(|c| c.ran_ns).collect()
    };
    std::thread::sleep(Duration::from_millis(200));
    let from = ran(&backend);
    std::thread::sleep(Duration::from_millis(2_000));
    let shares: Vec<u64> = ran(&backend).iter().zip(from).map(|(now, was)| now - was).collect();
    println!("CPU time at weights 300 and 100: {shares:?}");
    // Far from a half each; the scheduler's own tests check how close to three quarters.
    assert!(shares.len() == 2 && shares[0] * 10 > (shares[0] + shares[1]) * 6, "{shares:?}");
    backend.undo_all().unwrap();
    assert_eq!(actors::state_of(&one.pids()), before);
    assert_eq!(state(), "disabled");
}

#[test]
fn strangers_and_nonsense_are_refused_with_the_reason() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = Actors::spinning(1);
    let mut backend = backend(&folder, &one.pids());
    let me = std::process::id();
    backend.learn(&seen(&[&one.pids(), &[me]]));
    let task = TaskId(one.pids()[0]);
    let not_ours = || Refusal::NotInScope { tenant: "actors 2".into() };
    for (action, why) in [
        (Action::Park { tenant: TenantId(9) }, Refusal::NoTenant(TenantId(9))),
        (Action::Unpark { tenant: TenantId(9) }, Refusal::NoTenant(TenantId(9))),
        (Action::Park { tenant: OTHER }, not_ours()),
        (Action::Weight { tenant: ONE, weight: 0 }, Refusal::Weight(0)),
        (Action::Slice { task: TaskId(me), min_ns: 1_000_000, max_ns: 1_000_000 }, not_ours()),
        (Action::Cpus { task, cpus: vec![] }, Refusal::NoCpu),
    ] {
        assert_eq!(backend.apply(&action), Outcome::Refused { why }, "{action:?}");
    }
    let backwards = backend.apply(&Action::Slice { task, min_ns: 9_000_000, max_ns: 1_000_000 });
    assert!(matches!(backwards, Outcome::Refused { why: Refusal::Slice { .. } }), "{backwards:?}");
}

#[test]
fn a_tenant_with_a_protected_process_is_not_parked() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = Actors::spinning(2);
    let mut options = options(folder.path(), &one.pids());
    options.protect = vec![one.pids()[1].to_string()];
    let mut backend = ScxBackend::start(&Root::new("/"), options).unwrap_or_else(|e| panic!("{e}"));
    backend.learn(&seen(&[&one.pids()]));
    for action in [Action::Park { tenant: ONE }, Action::Weight { tenant: ONE, weight: 300 }] {
        let outcome = backend.apply(&action);
        let Outcome::Refused { why } = outcome else { panic!("{action:?}: {outcome:?}") };
        let named = ProtectedBy::User { word: one.pids()[1].to_string() };
        assert_eq!(why.protected_by(), Some(&named), "{action:?}");
    }
    assert!(one.run(PATIENCE));
}

/// Two tenants that are cgroups, as observed.
#[test]
fn a_protected_process_started_by_a_parked_tenant_is_not_parked() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let shell = Actors::start(&[Act::Found], false);
    let options = Options { protect: vec!["server".into()], ..options(folder.path(), &shell.pids()) };
    let mut backend = ScxBackend::start(&Root::new("/"), options).unwrap_or_else(|e| panic!("{e}"));
    backend.learn(&seen(&[&shell.pids()]));
    assert_eq!(backend.prepare(ONE), Ok(()));
    let server = shell.found(0);
    backend.learn(&seen(&[&shell.pids(), &[server]]));
    assert_eq!(backend.apply(&Action::Park { tenant: ONE }), Outcome::Done);
    // Nobody renews the lease: later, everybody runs.
    assert!(shell.run(Duration::from_nanos(LEASE_NS / 2)), "its server counts, parked or not");
}

fn cgroups_seen(one: &Actors, other: &Actors) -> Observation {
    let mut both = seen(&[&one.pids(), &other.pids()]);
    both.tenants.iter_mut().for_each(|t| t.kind = TenantKind::Cgroup);
    both
}

#[test]
fn a_tenant_inside_a_tenants_cgroup_is_not_parked_with_it() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (outer, one, other) = (Nested::new(), Actors::spinning(1), Actors::spinning(1));
    outer.takes(&outer.path, &one.pids());
    outer.takes(&outer.path.join("inner"), &other.pids());
    let mut backend = backend(&folder, &[one.pids(), other.pids()].concat());
    backend.learn(&cgroups_seen(&one, &other));
    for (parked, runs, tenant) in [(&one, &other, ONE), (&other, &one, OTHER)] {
        assert_eq!(backend.apply(&Action::Park { tenant }), Outcome::Done);
        std::thread::sleep(Duration::from_millis(20));
        assert!(parked.stand_still(Duration::from_millis(100)), "{tenant:?}");
        assert!(runs.run(PATIENCE), "beside {tenant:?}");
        assert_eq!(backend.apply(&Action::Unpark { tenant }), Outcome::Done);
        assert!(parked.run(PATIENCE), "{tenant:?}");
    }
}

#[test]
fn a_task_that_enters_the_cgroup_of_a_parked_tenant_that_has_gone_runs() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (outer, one, other) = (Nested::new(), Actors::spinning(1), Actors::spinning(1));
    outer.takes(&outer.path, &one.pids());
    let mut backend = backend(&folder, &[one.pids(), other.pids()].concat());
    let mut both = cgroups_seen(&one, &other);
    backend.learn(&both);
    assert_eq!(backend.apply(&Action::Park { tenant: ONE }), Outcome::Done);
    assert!(one.stand_still(Duration::from_millis(100)));
    // As if it had ended: nobody sees it any more.
    both.tasks.retain(|t| t.tenant == OTHER);
    backend.learn(&both);
    outer.takes(&outer.path, &other.pids());
    std::thread::sleep(Duration::from_millis(20));
    let before = other.counts();
    let runs = eventually(Duration::from_secs(5), || {
        // Nor does it run because nobody renews the lease.
        backend.beat().unwrap();
        other.counts() != before
    });
    assert!(runs, "nobody is parked who lives");
}

/// A cgroup that the kernel schedules, with one inside that it does not schedule. Removed when dropped.
struct Nested {
    path: PathBuf,
}

impl Nested {
    fn new() -> Nested {
        let cgroups = Cgroups::discover(&Root::new("/")).unwrap();
        let tree = cgroups.with_controller("cpu").expect("the guest has the CPU controller");
        let path = tree.mount.join("corun-test-outer");
        let _ = std::fs::write(tree.mount.join("cgroup.subtree_control"), "+cpu");
        std::fs::create_dir_all(path.join("inner")).unwrap();
        Nested { path }
    }

    fn takes(&self, folder: &Path, pids: &[u32]) {
        pids.iter().for_each(|pid| std::fs::write(folder.join("cgroup.procs"), pid.to_string()).unwrap());
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        // The processes in them have been killed by now.
        for folder in [self.path.join("inner"), self.path.clone()] {
            eventually(PATIENCE, || std::fs::remove_dir(&folder).is_ok());
        }
    }
}

#[test]
fn a_removed_scheduler_says_why_restores_and_sets_nothing_any_more() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = Actors::spinning(1);
    let mut backend = backend(&folder, &one.pids());
    backend.learn(&seen(&[&one.pids()]));
    backend.beat().unwrap();
    std::fs::write("/proc/sysrq-trigger", "S").unwrap();
    assert!(eventually(PATIENCE, || state() == "disabled"));
    let said = backend.beat().unwrap_err().to_string();
    assert!(said.contains("SysRq-S"), "{said}");
    let outcome = backend.apply(&Action::Park { tenant: ONE });
    assert!(matches!(outcome, Outcome::Refused { why: Refusal::Controller(_) }), "{outcome:?}");
    assert!(one.run(PATIENCE));
}

#[test]
fn a_second_controller_is_refused_and_the_first_goes_on() {
    let Some(_alone) = alone() else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut first = backend(&folders[0], &[]);
    // Its journal is elsewhere, so it runs into the scheduler.
    let said = ScxBackend::start(&Root::new("/"), options(folders[1].path(), &[])).map(|_| ()).unwrap_err();
    let said = said.to_string();
    assert!(said.contains("the scheduler corun") && said.contains("is loaded already (enabled)"), "{said}");
    first.beat().unwrap();
    assert_eq!(state(), "enabled");
    assert!(support::check(&Root::new("/")).is_err());
}
