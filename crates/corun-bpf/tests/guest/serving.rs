//! Tasks that are always served: the kernel's threads, dying tasks, waking tasks.

use crate::hog::Hog;
use crate::{alone, cell_of, config, started, wait_ms};
use corun_bpf::TaskKnobs;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn kernel_threads_are_served_next_to_hogs_with_long_slices() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    let cpus = scheduler.cpus().len();
    let hogs: Vec<Hog> = (0..cpus * 3).map(|i| Hog::on(Some(i % cpus))).collect();
    for hog in &hogs {
        let knobs = TaskKnobs { slice_ns: Some((100_000_000, 100_000_000)), ..TaskKnobs::default() };
        scheduler.set_task(hog.tid, &knobs).expect("there is room");
    }
    scheduler.announce();
    wait_ms(200);
    let before: u64 = scheduler.cpus().iter().map(|c| c.kernel).sum();
    let kernel = || scheduler.cpus().iter().map(|c| c.kernel).sum::<u64>() - before;
    // The kernel decides how often such a thread wakes up; the test checks that it then runs.
    for round in 0..200 {
        if round >= 10 && kernel() > 0 {
            break;
        }
        // Needs a grace period, for which the kernel's threads must run on every CPU.
        // SAFETY: takes plain numbers only.
        assert_eq!(unsafe { libc::syscall(libc::SYS_membarrier, 1, 0, 0) }, 0, "membarrier");
        wait_ms(50);
    }
    let served = kernel();
    println!("{served} wake-ups of bound kernel threads");
    assert!(served > 0);
    let log = Command::new("dmesg").output().expect("the guest has dmesg");
    let log = String::from_utf8_lossy(&log.stdout);
    for complaint in
        ["blocked for more than", "soft lockup", "rcu_sched self-detected", "rcu_preempt detected stalls"]
    {
        assert!(!log.contains(complaint), "the kernel complains: {complaint}");
    }
    assert!(scheduler.exit().is_none());
}

#[test]
fn a_task_on_a_cpu_that_a_real_time_task_takes_goes_on_elsewhere() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    let hogs: Vec<Hog> = scheduler.cpus().iter().map(|_| Hog::on(None)).collect();
    wait_ms(100);
    let before: Vec<_> = hogs.iter().map(Hog::counted).collect();
    let real_time = Hog::real_time_on(0);
    wait_ms(500);
    let ran = hogs.iter().zip(before).map(|(hog, before)| hog.counted().since(before).ran_ns / 1_000_000);
    let ran_ms: Vec<u64> = ran.collect();
    drop(real_time);
    println!("{ran_ms:?} ms beside a real-time task");
    let (Some(least), Some(most)) = (ran_ms.iter().min(), ran_ms.iter().max()) else { unreachable!() };
    // One of them was on CPU 0, and would have stayed there: 25 ms against 530. Now they share the rest.
    assert!(least * 3 >= *most, "one ran for {least} ms, another for {most}");
}

#[test]
fn hundreds_of_tasks_come_and_go_while_cells_are_parked_and_unparked() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    let hog = Hog::on(None);
    let cell = cell_of(&scheduler, 100, &[hog.tid]);
    let until = Instant::now() + Duration::from_secs(2);
    let mut born = 0;
    while Instant::now() < until {
        scheduler.park(cell, true).expect("it can be parked");
        let children: Vec<_> = (0..8).map(|_| std::thread::spawn(|| wait_ms(1))).collect();
        born += children.len();
        scheduler.park(cell, false).expect("it can be unparked");
        for child in children {
            child.join().expect("a child ends");
        }
        assert!(Command::new("true").status().expect("the guest has true").success());
    }
    println!("{born} threads");
    let exit = scheduler.exit();
    assert!(exit.is_none(), "{}", exit.unwrap());
    assert_eq!(scheduler.losses(), corun_bpf::SchedulerLosses::default());
}
