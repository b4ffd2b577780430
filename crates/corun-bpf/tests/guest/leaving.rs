//! How the machine is returned: in order, after a kill, by the watchdog, by an administrator.

use crate::hog::Hog;
use crate::{alone, cell_of, config, knobs::monotonic_ns, ran_ns, started, state, wait_ms};
use corun_bpf::{Ending, Scheduler, SchedulerConfig, SchedulerError, PARK_LIMIT_NS};
use std::process::{Command, Stdio};

#[test]
fn it_has_the_machine_until_it_is_dropped() {
    let Some(_alone) = alone() else { return };
    assert_eq!(state(), "disabled");
    let scheduler = started(&config());
    assert_eq!(state(), "enabled");
    let name = std::fs::read_to_string("/sys/kernel/sched_ext/root/ops").expect("it has a name");
    assert!(name.starts_with("corun"), "{name}");
    drop(scheduler);
    assert_eq!(state(), "disabled");
}

#[test]
fn a_stopped_scheduler_says_so_and_its_counts_remain() {
    let Some(_alone) = alone() else { return };
    let mut scheduler = started(&config());
    wait_ms(50);
    scheduler.stop();
    wait_ms(50);
    let exit = scheduler.exit().expect("it has left");
    assert_eq!(exit.why, Ending::Unloaded, "{exit}");
    assert!(!exit.is_failure());
    assert!(scheduler.cpus().iter().any(|c| c.switches > 0));
}

#[test]
fn a_second_one_is_refused() {
    let Some(_alone) = alone() else { return };
    let _first = started(&config());
    match Scheduler::start(&config()) {
        Err(SchedulerError::Step { step, .. }) => assert_eq!(step, "giving the machine to the scheduler"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("two schedulers"),
    }
    assert_eq!(state(), "enabled");
}

#[test]
fn the_kernel_notices_a_forgotten_task_and_the_reason_is_given_in_plain_words() {
    let Some(_alone) = alone() else { return };
    // The limit of a park keeps the watchdog from ever acting; without it, it does.
    let config = SchedulerConfig { watchdog_ms: 1_000, park_limit_ns: PARK_LIMIT_NS, ..config() };
    let scheduler = started(&config);
    let hog = Hog::on(None);
    let cell = cell_of(&scheduler, 100, &[hog.tid]);
    wait_ms(100);
    scheduler.park(cell, true).expect("it can be parked");
    let mut waited_ms = 0;
    while scheduler.exit().is_none() && waited_ms < 10_000 {
        wait_ms(50);
        waited_ms += 50;
    }
    let exit = scheduler.exit().expect("the watchdog noticed");
    println!("{exit}");
    assert_eq!(exit.why, Ending::Stall, "{exit}");
    assert!(exit.is_failure() && exit.to_string().contains("failed to run"), "{exit}");
    // The kernel's own scheduler has taken over: the hog runs.
    let before = hog.counted().ran_ns;
    wait_ms(300);
    assert!(hog.counted().ran_ns > before);
}

#[test]
fn an_administrator_can_end_it() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    std::fs::write("/proc/sysrq-trigger", "S").expect("the guest's root may");
    let mut waited_ms = 0;
    while scheduler.exit().is_none() && waited_ms < 5_000 {
        wait_ms(20);
        waited_ms += 20;
    }
    let exit = scheduler.exit().expect("it has left");
    assert_eq!(exit.why, Ending::SysRq, "{exit}");
}

/// The role of a controller that is killed: loads the scheduler, parks the given task, reports that, and
/// waits.
#[test]
#[ignore = "the child of `a_killed_controller_leaves_nobody_parked`"]
fn role_of_the_controller() {
    let Some(tid) = std::env::var("CORUN_TEST_PARK").ok().and_then(|t| t.parse::<u32>().ok()) else { return };
    let scheduler = started(&config());
    let cell = cell_of(&scheduler, 100, &[tid]);
    wait_ms(100);
    scheduler.park(cell, true).expect("it can be parked");
    wait_ms(20);
    let still = ran_ns(&scheduler, cell);
    wait_ms(100);
    assert_eq!(ran_ns(&scheduler, cell), still, "it is parked at {}", monotonic_ns());
    std::fs::write(std::env::var("CORUN_TEST_READY").expect("the parent says where"), "")
        .expect("it can be said");
    wait_ms(60_000);
}

#[test]
fn a_killed_controller_leaves_nobody_parked() {
    let Some(_alone) = alone() else { return };
    let hog = Hog::on(None);
    for round in 0..3 {
        let ready = format!("/tmp/ready-{round}");
        let mut controller = Command::new("/proc/self/exe")
            .args(["--ignored", "--exact", "--nocapture", "leaving::role_of_the_controller"])
            .env("CORUN_TEST_PARK", hog.tid.to_string())
            .env("CORUN_TEST_READY", &ready)
            .stdout(Stdio::null())
            .spawn()
            .expect("this program can be started");
        let mut waited_ms = 0;
        while !std::path::Path::new(&ready).exists() {
            assert!(
                waited_ms < 20_000 && controller.try_wait().expect("it can be asked").is_none(),
                "no controller"
            );
            wait_ms(20);
            waited_ms += 20;
        }
        assert_eq!(state(), "enabled");
        controller.kill().expect("it can be killed");
        controller.wait().expect("it ends");
        let mut waited_ms = 0;
        while state() != "disabled" && waited_ms < 5_000 {
            wait_ms(5);
            waited_ms += 5;
        }
        assert_eq!(state(), "disabled", "round {round}");
        let before = hog.counted().ran_ns;
        wait_ms(200);
        assert!(hog.counted().ran_ns > before, "round {round}: it is still parked");
    }
}
