//! EEVDF on two CPUs at HZ=250 behaves as measured on a live Linux 6.18 of that shape.

use crate::rig::{engine, latencies, observe, quantile, stretches, tenant};
use corun_model::TaskId;

const MS: u64 = 1_000_000;

fn spinners(slice: &str) -> Vec<u64> {
    let mut e = engine(&format!(
        "[scheduler]\ngroups = false\n[[tenant]]\nname = \"a\"\nprogram = {{ kind = \"interference\", threads = 2, cpus = [0] }}\n{slice}\nbackground = false\n"
    ));
    observe(&mut e, 3_000 * MS);
    stretches(e.trace().unwrap(), TaskId(1))
}

#[test]
fn two_spinners_take_turns_at_the_tick_with_any_short_slice() {
    // Measured: 3.99 ms with the default slice of 1.4 ms, and with 0.1 and 3 ms.
    for slice in ["", "slice = \"100us\"", "slice = \"3ms\""] {
        let median = quantile(&spinners(slice), 0.5);
        assert!((3_900_000..=4_100_000).contains(&median), "{slice}: {median}");
    }
}

#[test]
fn a_longer_slice_is_rounded_up_to_whole_ticks() {
    // Measured: 7.98 ms with 6 ms, 11.99 ms with 10 ms.
    for (slice, expected) in [("6ms", 8 * MS), ("10ms", 12 * MS)] {
        let median = quantile(&spinners(&format!("slice = \"{slice}\"")), 0.5);
        assert!(median.abs_diff(expected) < MS / 10, "{slice}: {median}");
    }
}

/// The wake-up latencies of a thread that computes for `busy` and sleeps for 2 ms, with a spinner on one CPU.
fn periodic(busy: &str, demand: f64, thread: &str, hog: &str) -> Vec<u64> {
    let mut e = engine(&format!(
        "[scheduler]\ngroups = false\n[[tenant]]\nname = \"p\"\nprogram = {{ kind = \"interference\", pattern = \"periodic\", busy = \"{busy}\", demand = {demand}, cpus = [0] }}\n{thread}\nbackground = false\n[[tenant]]\nname = \"hog\"\nprogram = {{ kind = \"interference\", cpus = [0] }}\n{hog}\n"
    ));
    observe(&mut e, 5_000 * MS);
    latencies(e.trace().unwrap(), TaskId(1))
}

#[test]
fn a_waking_thread_waits_for_the_spinners_slice_and_a_short_slice_shortens_that() {
    // Measured for 1.5 ms of work and 2 ms of sleep, p50 and p90 in us: 4.8 and 3481; with a slice of 0.1 ms 4.2 and 8.8;
    // with the thread as SCHED_BATCH 500 and 504.
    let default = periodic("1500us", 0.4286, "", "");
    assert!(quantile(&default, 0.9) > MS, "p90 {}", quantile(&default, 0.9));
    let short = periodic("1500us", 0.4286, "slice = \"100us\"", "");
    assert!(quantile(&short, 0.9) < 50_000, "p90 {}", quantile(&short, 0.9));
    let hog = periodic("1500us", 0.4286, "", "batch = true");
    assert!(quantile(&hog, 0.9) > MS, "a hog as SCHED_BATCH changes nothing: {}", quantile(&hog, 0.9));
    let batch = periodic("1500us", 0.4286, "batch = true", "");
    assert!(quantile(&batch, 0.5) > 200_000, "p50 {}", quantile(&batch, 0.5));
}

#[test]
fn a_thread_above_its_fair_share_waits_for_a_tick_even_with_a_short_slice() {
    // Measured for 3 ms of work and 2 ms of sleep: p99 3988 us with a slice of 0.1 ms.
    let short = periodic("3ms", 0.6, "slice = \"100us\"", "");
    assert!(quantile(&short, 0.99) > MS, "p99 {}", quantile(&short, 0.99));
}

#[test]
fn nice_levels_and_groups_share_by_weight() {
    let mut e = engine(
        "[[tenant]]\nname = \"a\"\nweight = 300\nprogram = { kind = \"interference\", cpus = [0] }\nbackground = false\n[[tenant]]\nname = \"b\"\nprogram = { kind = \"interference\", cpus = [0] }\n",
    );
    let seen = observe(&mut e, 4_000 * MS);
    let on = |name| tenant(&seen, name).account.ledger.on_cpu_ns() as f64;
    let share = on("a") / (on("a") + on("b"));
    assert!((0.72..0.78).contains(&share), "{share}");
}

/// The CPU time of two loops, as a share of their fair share, next to a session of two threads that compute
/// and two helpers.
fn left_to_the_loops(linux: &str, helpers: &str) -> f64 {
    let loops = "[[tenant]]\nname = \"loops\"\nprogram = { kind = \"interference\", threads = 2 }\nbackground = false\n";
    let workers = "[[tenant]]\nname = \"workers\"\nsession = \"s\"\nprogram = { kind = \"parallel\", sync = \"none\", threads = 2, grain = \"6ms\" }\n";
    let helpers = format!("[[tenant]]\nname = \"helpers\"\nsession = \"s\"\nprogram = {{ kind = \"interference\", pattern = \"periodic\", threads = 2, {helpers} }}\n");
    let mut e = engine(&format!("[scheduler]\nlinux = \"{linux}\"\n{loops}{workers}{helpers}"));
    observe(&mut e, 500 * MS);
    let seen = observe(&mut e, 4_000 * MS);
    let on = |name| tenant(&seen, name).account.ledger.on_cpu_ns() as f64;
    2.0 * on("loops") / (on("loops") + on("workers") + on("helpers"))
}

#[test]
fn a_session_whose_threads_wake_up_often_gets_more_than_its_share() {
    // Measured: the workers' 1.20 s take 2.28 to 2.35 s without helpers. They take 2.10 to 2.40 s with a
    // burst of 100 us every 3.3 ms (1.67 to 2.56 s in another series). They take 1.27 to 1.33 s with a burst
    // of 50 us every ms (once of five 2.12 s).
    let seldom = left_to_the_loops("6.18", "busy = \"30us\", demand = 0.003");
    assert!((0.93..1.07).contains(&seldom), "every 10 ms: {seldom}");
    let more = left_to_the_loops("6.18", "busy = \"100us\", demand = 0.03");
    assert!((0.5..0.95).contains(&more), "every 3.3 ms: {more}");
    let often = left_to_the_loops("6.18", "busy = \"50us\", demand = 0.05");
    assert!(often < 0.3, "every 1 ms: {often}");
}

#[test]
fn a_kernel_without_that_fault_gives_such_a_session_its_share() {
    // Measured with Linux 7.3 in the test guest: 6.6 s of 12, as without helpers.
    let often = left_to_the_loops("7.3.4", "busy = \"50us\", demand = 0.05");
    assert!((0.9..1.1).contains(&often), "every 1 ms: {often}");
}

#[test]
fn sessions_share_as_groups_with_any_number_of_threads() {
    // Measured: one loop with four in another session, 5.96 s and 5.98 s of CPU in 6 s.
    let mut e = engine(
        "[[tenant]]\nname = \"one\"\nprogram = { kind = \"interference\", threads = 1 }\nbackground = false\n[[tenant]]\nname = \"four\"\nprogram = { kind = \"interference\", threads = 4 }\n",
    );
    observe(&mut e, 500 * MS);
    let seen = observe(&mut e, 4_000 * MS);
    let on = |name| tenant(&seen, name).account.ledger.on_cpu_ns() as f64;
    let share = on("one") / (on("one") + on("four"));
    assert!((0.45..0.55).contains(&share), "{share}");
}

#[test]
fn three_spinners_on_two_cpus_take_turns_through_balancing() {
    let mut e = engine(
        "[scheduler]\ngroups = false\n[[tenant]]\nname = \"a\"\nprogram = { kind = \"interference\", threads = 3 }\nbackground = false\n",
    );
    let seen = observe(&mut e, 6_000 * MS);
    for t in &seen.tasks {
        let share = t.account.ledger.on_cpu_ns() as f64 / 6e9;

        assert!((0.58..0.76).contains(&share), "{}: {share}", t.name);
        assert!(t.account.events.migrations.unwrap().total() > 3, "{}", t.name);
    }
}

#[test]
fn an_idle_cpu_pulls_waiting_work_at_once() {
    let mut e = engine(
        "[[tenant]]\nname = \"w\"\nprogram = { kind = \"parallel\", threads = 6, sync = \"none\", grain = \"10ms\", iterations = 20 }\n",
    );
    assert!(e.run_to_end(10_000 * MS).unwrap());
    let end_ns = e.now_ns();
    // 6 × 200 ms of work on two CPUs take 600 ms.
    assert!((600 * MS..640 * MS).contains(&end_ns), "{end_ns}");
}
