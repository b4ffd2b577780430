//! CPU quotas: a task that a quota stops is throttled, and nobody steals from it.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use witness::Prompt;

/// A cgroup with such a small quota that it is used up even on a busy machine, or `None` with the reason
/// printed.
fn quota(name: &str) -> Option<witness::QuotaCgroup> {
    let made = witness::QuotaCgroup::new(name, 0.05);
    if made.is_none() {
        println!("skipped: no cgroup with a CPU quota can be made here");
    }
    made
}

#[test]
fn a_quota_is_throttling_without_a_culprit() {
    let _alone = alone();
    let Some(cgroup) = quota("corun-test-quota") else { return };
    let spinner = Witness::start(&[0]);
    cgroup.add(spinner.pid());
    let Some(mut host) = host(processes(&[spinner.pid()])) else { return };
    let before_ns = cgroup.throttled_ns();
    let seen = see(&mut host, 1500);
    let parts = *tenant(&seen, host.subject().unwrap()).account.ledger.parts();
    let by_kernel_ns = cgroup.throttled_ns() - before_ns;
    println!("{parts:?}; the kernel says throttled for {by_kernel_ns} ns");
    if by_kernel_ns < seen.window_ns() / 10 {
        println!("skipped: the machine was too busy for it to use up its quota");
        return;
    }
    // The kernel counts whole throttled spells; the window may cut the first and the last.
    let off = parts.throttled_ns.abs_diff(by_kernel_ns);
    assert!(off < by_kernel_ns / 10 + 80_000_000, "off by {off} ns: {parts:?}");
}

#[test]
fn a_quota_that_stops_a_task_across_the_edge_of_a_window_is_not_stolen_time() {
    let _alone = alone();
    let Some(cgroup) = quota("corun-test-edges") else { return };
    // Shorter and longer than a window, and in step with none.
    for period_us in [37_000, 170_000] {
        cgroup.allow_per_period(0.1, period_us).unwrap();
        let spinner = Witness::start(&[0]);
        cgroup.add(spinner.pid());
        let Some(mut host) = host(processes(&[spinner.pid()])) else { return };
        let (mut throttled_ns, mut idle_ns, mut revised_ns) = (0, 0, 0);
        let before_ns = cgroup.throttled_ns();
        for _ in 0..40 {
            let seen = see(&mut host, 50);
            seen.check().unwrap();
            let account = &tenant(&seen, host.subject().unwrap()).account;
            let idle = seen.tenants.iter().find(|t| t.kind == corun_model::TenantKind::Idle).map(|t| t.id);
            throttled_ns += account.ledger.parts().throttled_ns;
            idle_ns += idle.map_or(0, |idle| account.culprits.of_ns(idle));
            revised_ns += seen.loss.revised_ns;
        }
        let by_kernel_ns = cgroup.throttled_ns() - before_ns;
        println!("{period_us}: throttled {throttled_ns}, the kernel says {by_kernel_ns}, stolen by nobody {idle_ns}, revised {revised_ns}");
        if by_kernel_ns < 200_000_000 {
            println!("skipped: the machine was too busy for it to use up its quota");
            return;
        }
        // The kernel counts whole spells; the first and the last may be cut.
        let off_ns = throttled_ns.abs_diff(by_kernel_ns);
        assert!(off_ns < by_kernel_ns / 20 + 2_000 * period_us, "off by {off_ns} ns");
        // A loop that never sleeps has no wake-ups that could be late.
        assert!(idle_ns * 50 < throttled_ns, "{idle_ns} ns on an idle CPU of {throttled_ns} ns throttled");
    }
}

#[test]
fn a_task_that_is_moved_to_another_cpu_while_it_waits_is_not_throttled_by_that() {
    let _alone = alone();
    let Some(cgroup) = quota("corun-test-moved") else { return };
    if corun_linux::topology::read_machine(&Root::new("/")).unwrap().cpu_count() < 2 {
        println!("skipped: there is one CPU only");
        return;
    }
    let spinner = Witness::start(&[0]);
    cgroup.add(spinner.pid());
    // The queue of CPU 0 has been throttled for a second, that of CPU 1 never.
    std::thread::sleep(Duration::from_secs(1));
    cgroup.allow(10.0).unwrap();
    let _beside = [Witness::start(&[0]), Witness::start(&[1])];
    let Some(mut host) = host(processes(&[spinner.pid()])) else { return };
    let throttled_ns = cgroup.throttled_ns();
    let until = Instant::now() + Duration::from_millis(600);
    let mut cpus = [1, 0].iter().cycle();
    while Instant::now() < until {
        // Now and then it waits while it is moved.
        spinner.pin(&[*cpus.next().unwrap()]);
        std::thread::sleep(Duration::from_millis(3));
    }
    let seen = see(&mut host, 1);
    let parts = *tenant(&seen, host.subject().unwrap()).account.ledger.parts();
    println!("{parts:?}");
    assert!(parts.steal_ns > seen.window_ns() / 10, "it had to wait: {parts:?}");
    let by_kernel_ns = cgroup.throttled_ns() - throttled_ns;
    // The clock of another CPU may be some milliseconds old.
    let most_ns = by_kernel_ns + seen.window_ns() / 30;
    assert!(parts.throttled_ns <= most_ns, "the kernel says {by_kernel_ns} ns: {parts:?}");
}

/// Has the CPU to itself, before all fair tasks, until it is told to end. That should be soon.
fn hold(cpu: usize, is_over: &AtomicBool) {
    witness::confine(0, &[cpu]);
    let _first = Prompt::new();
    while !is_over.load(Relaxed) {
        std::hint::spin_loop();
    }
}

#[test]
fn a_wait_that_outlasts_the_refill_of_its_quota_is_steal_from_then_on_even_if_the_window_ends_first() {
    let _alone = alone();
    let Some(cgroup) = quota("corun-test-open") else { return };
    if corun_linux::topology::read_machine(&Root::new("/")).unwrap().cpu_count() < 2 {
        println!("skipped: there is one CPU only");
        return;
    }
    let spinner = Witness::start(&[0]);
    cgroup.add(spinner.pid());
    let Some(mut host) = host(processes(&[spinner.pid()])) else { return };
    // The observing thread is not delayed.
    witness::confine(0, &[1]);
    let mut compared = 0;
    for _ in 0..6 {
        // Between two spells: the kernel has counted everything so far.
        let (refills, mut looked_at) = (cgroup.refills(), Instant::now());
        let until = looked_at + Duration::from_secs(2);
        while cgroup.refills() == refills && Instant::now() < until {
            looked_at = Instant::now();
            std::thread::sleep(Duration::from_millis(1));
        }
        see(&mut host, 1);
        // This much may be missing from a spell that has already begun.
        let cut_ns = looked_at.elapsed().as_nanos() as u64;
        let (before_ns, refills) = (cgroup.throttled_ns(), cgroup.refills());
        // Its quota is used up by now, and is refilled while somebody else has the CPU.
        std::thread::sleep(Duration::from_millis(40));
        let is_over = AtomicBool::new(false);
        let (seen, since_ns, by_kernel_ns) = std::thread::scope(|threads| {
            threads.spawn(|| hold(0, &is_over));
            let since_ns = corun_linux::clock::now_ns() + 5_000_000;
            std::thread::sleep(Duration::from_millis(200));
            let (is_filled, throttled_ns) = (cgroup.refills() > refills, cgroup.throttled_ns());
            let seen = see(&mut host, 1);
            is_over.store(true, Relaxed);
            (seen, since_ns, is_filled.then(|| throttled_ns - before_ns))
        });
        let parts = *tenant(&seen, host.subject().unwrap()).account.ledger.parts();
        let gaps = spinner.gaps_ns(since_ns, seen.end_ns);
        let Some(by_kernel_ns) = by_kernel_ns.filter(|&ns| ns > 0 && gaps == [(since_ns, seen.end_ns)])
        else {
            println!("tried again: it was not throttled, or it ran meanwhile");
            continue;
        };
        compared += 1;
        println!("{parts:?}; the kernel says throttled for {by_kernel_ns} ns");
        // The clock of a CPU may be a tick old.
        let off_ns = (by_kernel_ns.saturating_sub(cut_ns)).saturating_sub(parts.throttled_ns)
            + parts.throttled_ns.saturating_sub(by_kernel_ns);
        assert!(
            off_ns < seen.window_ns() / 20,
            "off by {off_ns} ns, the kernel says {by_kernel_ns}: {parts:?}"
        );
    }
    if compared == 0 {
        println!("skipped: the machine was too busy for it to use up its quota");
    }
}
