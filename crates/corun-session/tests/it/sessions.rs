//! The properties of every session: it ends when it should, says why, and a stop from another thread ends it.

use corun_linux::launch::exit_code;
use corun_linux::watcher::Source;
use corun_session::control::scope::Tenants;
use corun_session::end::Ended;
use corun_session::{
    ControlOptions, Error, Plan, Profile, ProfileOptions, Stop, Target, Verify, VerifyOptions,
};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

/// A process that keeps a CPU busy, ended when dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Busy {
        Busy(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }

    fn target(&self) -> Target {
        Target::Processes(vec![self.0.id()])
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn without_root() -> ProfileOptions {
    ProfileOptions { source: Some(Source::Schedstat), ..ProfileOptions::default() }
}

/// A session, or why there can be none on this machine.
fn started<T>(session: Result<T, Error>) -> Option<T> {
    match session {
        Ok(session) => Some(session),
        Err(e @ Error::Watch(_)) => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn a_profile_ends_when_its_time_is_up_and_its_windows_sum_to_the_whole() {
    let busy = Busy::start();
    let options = ProfileOptions { length_ns: Some(300_000_000), ..without_root() };
    let Some(mut profile) = started(Profile::start(&busy.target(), &options, &Stop::new())) else { return };
    let windows: Vec<_> = profile.by_ref().collect::<Result<_, _>>().unwrap();
    assert!(windows.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns), "no time is left out");
    let seen = profile.finish().unwrap();
    assert_eq!(seen.ended, Ended::TimeIsUp);
    assert_eq!(seen.whole.window_ns(), windows.iter().map(|w| w.window_ns()).sum::<u64>());
    let subject = seen.subject.unwrap();
    let own = seen.whole.by_tenant.iter().find(|t| t.id == subject).unwrap();
    assert!(own.account.ledger.on_cpu_ns() > 0, "it was busy");
}

#[test]
fn a_stop_from_another_thread_ends_a_profile_which_has_seen_something() {
    let busy = Busy::start();
    let stop = Stop::new();
    let Some(mut profile) = started(Profile::start(&busy.target(), &without_root(), &stop)) else { return };
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(150));
        stop.stop();
    });
    let windows = profile.by_ref().filter(Result::is_ok).count();
    stopper.join().unwrap();
    assert!(windows > 0);
    assert!(profile.next().is_none(), "it has ended");
    assert_eq!(profile.finish().unwrap().ended, Ended::Interrupted);
}

#[test]
fn a_profile_of_a_process_ends_with_it() {
    let mut busy = Busy::start();
    let Some(mut profile) = started(Profile::start(&busy.target(), &without_root(), &Stop::new())) else {
        return;
    };
    profile.next().unwrap().unwrap();
    busy.0.kill().unwrap();
    busy.0.wait().unwrap();
    assert!(profile.by_ref().all(|window| window.is_ok()));
    assert_eq!(profile.finish().unwrap().ended, Ended::SubjectGone);
}

#[test]
fn a_command_is_told_to_end_when_its_session_ends_and_is_returned() {
    let stop = Stop::new();
    let target = Target::command(["sleep", "60"]);
    let Some(mut profile) = started(Profile::start(&target, &without_root(), &stop)) else { return };
    profile.next().unwrap().unwrap();
    stop.stop();
    assert!(profile.by_ref().all(|window| window.is_ok()));
    let seen = profile.finish().unwrap();
    assert_eq!(seen.ended, Ended::Command, "it had a second to end");
    assert_eq!(exit_code(seen.command.unwrap().wait().unwrap()), 128 + 15);
}

#[test]
fn a_run_is_judged_and_its_status_is_its_own() {
    let mut command = Command::new("sh");
    command.args(["-c", "exit $STATUS"]).env("STATUS", "7");
    let options = VerifyOptions { source: Some(Source::Schedstat), spin: false, ..VerifyOptions::default() };
    let Some(mut run) = started(Verify::start(command, &options, &Stop::new())) else { return };
    assert!(run.by_ref().all(|window| window.is_ok()));
    let run = run.finish();
    assert_eq!((run.ended, run.left_behind), (Ended::Command, Some(0)));
    assert!(run.verdict.wall_ns > 0);
    assert_eq!(exit_code(run.command.unwrap().wait().unwrap()), 7);
}

#[test]
fn a_trace_without_the_probe_is_refused_before_the_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ran");
    let target = Target::command(["touch".as_ref(), file.as_os_str()]);
    let options = ProfileOptions { trace: true, ..without_root() };
    match Profile::start(&target, &options, &Stop::new()).err() {
        Some(Error::NoTrace { .. }) => assert!(!file.exists()),
        Some(e @ Error::Watch(_)) => println!("skipped: {e}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_plan_names_the_tenants_that_it_would_touch_and_a_dry_run_touches_none() {
    let busy = [Busy::start(), Busy::start()];
    let names = busy.iter().map(|busy| busy.0.id().to_string()).collect();
    let mut options = ControlOptions::new("gang", Tenants::Named(names));
    options.mode.dry_run = true;
    options.length_ns = Some(300_000_000);
    let Some(plan) = started(Plan::look_around(options)) else { return };
    assert_eq!(plan.covered().count(), 2, "{:?}", plan.notices());
    let mut control = plan.begin(&Stop::new()).unwrap();
    assert_eq!(control.backend(), "none");
    let last = control.by_ref().map(Result::unwrap).last().unwrap();
    assert_eq!(last.ended, Some(Ended::TimeIsUp));
    control.undo_all().unwrap();
}

#[test]
fn a_policy_may_not_be_given_a_missing_or_protected_tenant() {
    let plan = |name: &str| {
        let mut options = ControlOptions::new("gang", Tenants::Named(vec![name.into()]));
        options.mode.dry_run = true;
        Plan::look_around(options).err()
    };
    match plan("no such tenant") {
        Some(e @ Error::Watch(_)) => return println!("skipped: {e}"),
        Some(Error::Absent { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(matches!(plan(&std::process::id().to_string()), Some(Error::Protected { .. })));
    assert!(ControlOptions::new("no-such-policy", Tenants::Everybody).check().unwrap_err().is_usage());
    for (epoch_ns, is_fine) in
        [(1_000, false), (1_000_000, true), (3_600_000_000_000, true), (u64::MAX, false)]
    {
        let mut options = ControlOptions::new("gang", Tenants::Everybody);
        options.mode.epoch_ns = Some(epoch_ns);
        assert_eq!(options.check().is_ok(), is_fine, "an epoch of {epoch_ns} ns");
    }
}

#[test]
fn a_program_without_a_supervisor_may_park_nobody() {
    let busy = [Busy::start(), Busy::start()];
    let names = busy.iter().map(|busy| busy.0.id().to_string()).collect();
    let Some(plan) = started(Plan::look_around(ControlOptions::new("gang", Tenants::Named(names)))) else {
        return;
    };
    let refused = plan.begin(&Stop::new()).err().unwrap();
    assert!(refused.is_usage(), "{refused}");
}
