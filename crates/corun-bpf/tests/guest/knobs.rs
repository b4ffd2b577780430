//! Slice, preempt_delay, park.

use crate::hog::{pin, tid, Hog};
use crate::{alone, cell_of, config, judge, near, ran_ns, started, wait_ms};
use corun_bpf::{Scheduler, TaskKnobs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

/// Two hogs on one CPU with these slices, for a while: the mean lengths of their stretches in ms.
fn mean_stretches_ms(scheduler: &Scheduler, slices: [(u64, u64); 2], for_ms: u64) -> [f64; 2] {
    let hogs = [Hog::on(Some(0)), Hog::on(Some(0))];
    for (hog, slice) in hogs.iter().zip(slices) {
        let knobs = TaskKnobs { slice_ns: Some(slice), ..TaskKnobs::default() };
        scheduler.set_task(hog.tid, &knobs).expect("there is room");
    }
    scheduler.announce();
    wait_ms(100);
    let before = hogs.each_ref().map(Hog::counted);
    wait_ms(for_ms);
    let after = hogs.each_ref().map(Hog::counted);
    [0, 1].map(|i| after[i].since(before[i]).mean_ns() / 1e6)
}

#[test]
fn a_fixed_slice_has_the_requested_length_below_and_above_the_tick() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    for ms in [2, 10, 25] {
        judge(|| {
            let both = mean_stretches_ms(&scheduler, [(ms * 1_000_000, ms * 1_000_000); 2], 1_000);
            // Anything else on the CPU cuts a stretch short, hence the room below.
            let hog = |i: usize| {
                near(&format!("slice of {ms} ms, hog {i}"), both[i], ms as f64, ms as f64 * 0.2 + 0.3)
            };
            hog(0).and(hog(1))
        });
    }
    assert!(scheduler.exit().is_none());
}

#[test]
fn two_tasks_with_their_own_slices_each_keep_them() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    let [short, long] =
        mean_stretches_ms(&scheduler, [(4_000_000, 4_000_000), (20_000_000, 20_000_000)], 2_000);
    // Their shares are equal, so the short one gets several slices in a row for each long one of the other.
    println!("means: {short:.2} ms, {long:.2} ms");
    assert!(long > 14.0, "{long}");
}

#[test]
fn random_slices_lie_between_their_bounds_and_have_their_mean() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    let hogs = [Hog::on(Some(0)), Hog::on(Some(0))];
    let cells = hogs.each_ref().map(|h| cell_of(&scheduler, 100, &[h.tid]));
    for (hog, cell) in hogs.iter().zip(cells) {
        let slice_ns = Some((10_000_000, 30_000_000));
        let knobs = TaskKnobs { slice_ns, cell: Some(cell), ..TaskKnobs::default() };
        scheduler.set_task(hog.tid, &knobs).expect("there is room");
    }
    scheduler.announce();
    wait_ms(200);
    let lengths = |s: &Scheduler| -> Vec<u64> {
        let of = s.cells().into_iter().filter(|c| cells.contains(&c.id)).map(|c| c.lengths);
        of.fold(vec![0; 16], |sum, l| sum.iter().zip(l).map(|(a, b)| a + b).collect())
    };
    judge(|| {
        let (before, from) = (lengths(&scheduler), hogs[0].counted());
        wait_ms(3_000);
        let seen: Vec<u64> = lengths(&scheduler).iter().zip(before).map(|(a, b)| a - b).collect();
        let mean_ms = hogs[0].counted().since(from).mean_ns() / 1e6;
        println!("stretches by length: {seen:?}");
        // Buckets end at 2^(i+6) µs: 8 is 8.2 to 16.4 ms, which holds 32 % of a uniform draw from [10, 30]; 9
        // is 16.4 to 32.8 ms.
        let all = seen.iter().sum::<u64>() as f64;
        // The mean of the draws is 20 ms; a stretch ends up to a tick of 4 ms later, and more on a slow
        // machine.
        near("mean in ms", mean_ms, 21.0, 4.5)
            .and(near("part below 16.4 ms", seen[8] as f64 / all, 0.32, 0.16))
            .and(near("part within the bounds", (seen[8] + seen[9]) as f64 / all, 0.97, 0.07))
    });
}

/// How long a thread on CPU 0 waits for the CPU after its sleep ends, next to a hog: the median in µs.
fn median_lateness_us(scheduler: &Scheduler, delay_ns: u64) -> f64 {
    let hog = Hog::on(Some(0));
    let long = TaskKnobs { slice_ns: Some((100_000_000, 100_000_000)), ..TaskKnobs::default() };
    scheduler.set_task(hog.tid, &long).expect("there is room");
    let cell = cell_of(scheduler, 100, &[]);
    let (tell, told) = mpsc::channel();
    let (go, start) = mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        pin(0);
        tell.send(tid()).expect("the test waits for it");
        start.recv().expect("the test starts it");
        let mut late: Vec<Duration> = (0..20)
            .map(|_| {
                let wanted = Duration::from_millis(30);
                let began = Instant::now();
                std::thread::sleep(wanted);
                began.elapsed() - wanted
            })
            .collect();
        late.sort();
        late[late.len() / 2]
    });
    let knobs = TaskKnobs { preempt_delay_ns: delay_ns, cell: Some(cell), ..TaskKnobs::default() };
    scheduler.set_task(told.recv().expect("the thread starts"), &knobs).expect("there is room");
    scheduler.announce();
    go.send(()).expect("the sleeper waits");
    sleeper.join().expect("the sleeper ends").as_secs_f64() * 1e6
}

#[test]
fn a_preemption_delay_delays_the_wake_up_by_as_much() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    judge(|| {
        let [now, late, later] =
            [0, 8_000_000, 20_000_000].map(|ns| median_lateness_us(&scheduler, ns) / 1e3);
        // Under emulation, an alarm may be noticed a tick of 4 ms late.
        near("lateness in ms without delay", now, 0.0, 1.0).and(near("with 8 ms", late, 8.0, 4.0)).and(near(
            "with 20 ms",
            later,
            20.0,
            4.0,
        ))
    });
    let cpus = scheduler.cpus();
    assert!(cpus[0].preempts_now > 10 && cpus[0].preempts_late > 20, "{:?}", cpus[0]);
}

#[test]
fn a_parked_cell_does_not_run_at_all_and_then_runs_again() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    let hogs: Vec<Hog> = (0..4).map(|_| Hog::on(None)).collect();
    // The other one is one task: a CPU is left that must stay idle.
    let parked = cell_of(&scheduler, 100, &[hogs[0].tid, hogs[1].tid, hogs[2].tid]);
    let other = cell_of(&scheduler, 100, &[hogs[3].tid]);
    wait_ms(200);
    for round in 0..3 {
        scheduler.park(parked, true).expect("it can be parked");
        // A CPU that gets the order to stop a task does so at its next interrupt.
        wait_ms(20);
        let (still, goes_on) = (ran_ns(&scheduler, parked), ran_ns(&scheduler, other));
        wait_ms(300);
        assert_eq!(ran_ns(&scheduler, parked), still, "round {round}: it ran while parked");
        assert!(ran_ns(&scheduler, other) > goes_on, "round {round}: the other stood still, too");
        scheduler.park(parked, false).expect("it can be unparked");
        wait_ms(200);
        assert!(ran_ns(&scheduler, parked) > still, "round {round}: it did not run again");
    }
    assert!(scheduler.exit().is_none());
}

#[test]
fn without_a_renewed_lease_nobody_stays_parked() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    let hog = Hog::on(None);
    let cell = cell_of(&scheduler, 100, &[hog.tid]);
    wait_ms(100);
    scheduler.renew_lease(monotonic_ns() + 500_000_000);
    scheduler.park(cell, true).expect("it can be parked");
    wait_ms(100);
    let still = ran_ns(&scheduler, cell);
    wait_ms(800);
    assert!(ran_ns(&scheduler, cell) > still, "its lease was over");
    let after = scheduler.cells().into_iter().find(|c| c.id == cell).expect("the cell is in use");
    assert_eq!((after.is_parked, after.expired_parks), (false, 1));
}

#[test]
fn a_protected_task_runs_while_its_cell_is_parked() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    let hogs = [Hog::on(None), Hog::on(None)];
    let cell = cell_of(&scheduler, 100, &hogs.each_ref().map(|h| h.tid));
    let knobs = TaskKnobs { cell: Some(cell), is_protected: true, ..TaskKnobs::default() };
    scheduler.set_task(hogs[0].tid, &knobs).expect("there is room");
    scheduler.announce();
    wait_ms(100);
    scheduler.park(cell, true).expect("it can be parked");
    wait_ms(50);
    let before = hogs.each_ref().map(Hog::counted);
    wait_ms(300);
    let [protected, other] = [0, 1].map(|i| hogs[i].counted().since(before[i]).ran_ns);
    assert!(protected > 0 && other == 0, "{protected} ns and {other} ns");
}

#[test]
fn children_inherit_the_cell_they_are_born_in() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    let cell = cell_of(&scheduler, 100, &[tid()]);
    // Its own knobs take effect when this thread next wakes up.
    wait_ms(10);
    let child = Hog::on(None);
    wait_ms(300);
    let childs = child.counted().ran_ns;
    // The cell's account is updated only at the end of every slice.
    assert!(ran_ns(&scheduler, cell) * 2 >= childs, "the child's {childs} ns are not in the cell's");
    scheduler.set_task(tid(), &TaskKnobs::default()).expect("there is room");
    scheduler.announce();
    wait_ms(10);
}

#[test]
fn a_cell_is_not_returned_while_a_task_sleeps_in_it() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, told) = mpsc::channel();
    let stopped = stop.clone();
    let sleeper = std::thread::spawn(move || {
        tell.send(tid()).expect("the test waits for it");
        while !stopped.load(Ordering::Relaxed) {
            wait_ms(20);
        }
    });
    let cell = cell_of(&scheduler, 100, &[told.recv().expect("it tells")]);
    // It takes its knobs when it wakes up.
    wait_ms(200);
    for _ in 0..10 {
        assert!(scheduler.free_cell(cell).is_err());
        wait_ms(7);
    }
    stop.store(true, Ordering::Relaxed);
    sleeper.join().expect("it ends");
    // The kernel releases a task some time after it has ended.
    let freed = (0..500).any(|_| {
        wait_ms(20);
        scheduler.free_cell(cell).is_ok()
    });
    assert!(freed);
}

pub fn monotonic_ns() -> u64 {
    // SAFETY: the clock exists, and the kernel fills the value in.
    let now = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
        now
    };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
