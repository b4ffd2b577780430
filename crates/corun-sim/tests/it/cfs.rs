//! CFS behaves as in the kernels that had it.

use crate::rig::{engine, observe, quantile, stretches};
use corun_model::trace::TraceKind;
use corun_model::TaskId;

const MS: u64 = 1_000_000;

/// The length of a spinner's stretches with this many spinners on CPU 0 in each of two sessions. Latency is 12 ms on two CPUs.
fn stretch_ns(threads: u32) -> u64 {
    let session = |name: &str| {
        format!(
            "[[tenant]]\nname = \"{name}\"\nallowed = [0]\nprogram = {{ kind = \"interference\", threads = {threads} }}\nbackground = false\n"
        )
    };
    let mut e = engine(&format!(
        "[scheduler]\nname = \"cfs\"\ntick = \"100us\"\ngroups = true\n{}{}",
        session("a"),
        session("b")
    ));
    observe(&mut e, 2_000 * MS);
    quantile(&stretches(e.trace().unwrap(), TaskId(1)), 0.5)
}

#[test]
fn a_task_gets_its_share_of_its_groups_share_of_the_period() {
    let (one, two) = (stretch_ns(1), stretch_ns(2));
    assert!(one.abs_diff(6 * MS) <= MS / 5, "{one}");
    assert!(two.abs_diff(3 * MS) <= MS / 5, "{two}");
}

/// Under which CPU each of the first tasks runs last.
fn places(body: &str, linux: &str, tasks: u32, ns: u64) -> Vec<u32> {
    let head = format!(
        "machine = \"arms16-i7-950\"\nduration = \"1h\"\n[scheduler]\nname = \"cfs\"\nlinux = \"{linux}\"\n"
    );
    let mut e = engine(&(head + body));
    observe(&mut e, ns);
    let events = &e.trace().unwrap().events;
    let last = |task: u32| {
        let here = |next: Option<TaskId>| next == Some(TaskId(task));
        let found =
            events.iter().rev().find(|e| matches!(e.kind, TraceKind::Switch { next, .. } if here(next)));
        found.expect("it ran").cpu.0
    };
    (1..=tasks).map(last).collect()
}

/// Two loops that can only start on the two hyperthreads of core 0, because the other cores are taken for a
/// second.
const PAIR: &str = r#"
[[tenant]]
name = "pair"
start = "10ms"
program = { kind = "interference", threads = 2 }
[[tenant]]
name = "others"
cpus = [1, 2, 3, 5, 6, 7]
program = { kind = "interference", threads = 6, duration = "1s" }
"#;

#[test]
fn older_kernels_move_a_running_task_to_an_idle_core_by_force() {
    for linux in ["2.6.32", "3.8"] {
        let cores: Vec<u32> = places(PAIR, linux, 2, 3_000 * MS).iter().map(|cpu| cpu % 4).collect();
        assert_ne!(cores[0], cores[1], "{linux}: both are on one core beside idle ones");
    }
    // 3.14 wakes no idle CPU to balance if there is one cache and no CPU has two tasks (`nohz_kick_needed`).
    // The model of the later balancer does not do it.
    for linux in ["3.14", "6.5"] {
        let mut at = places(PAIR, linux, 2, 3_000 * MS);
        at.sort_unstable();
        assert_eq!(at, [0, 4], "{linux}");
    }
}

#[test]
fn a_machine_file_without_a_release_is_balanced_as_under_the_last_cfs() {
    let text = |linux: &str| {
        format!(
            "machine = \"cc-magny-cours-48\"\nduration = \"1h\"\n[scheduler]\nname = \"cfs\"\n{linux}[[tenant]]\nname = \"barrier\"\ncount = 3\nprogram = {{ kind = \"parallel\", threads = 20, grain = \"2ms\", imbalance = 0.5 }}\n"
        )
    };
    let trace = |linux: &str| {
        let mut e = engine(&text(linux));
        observe(&mut e, 100 * MS);
        e.trace().unwrap().events.clone()
    };
    let unsaid = trace("");
    assert_eq!(unsaid, trace("linux = \"6.5\"\n"));
    assert_ne!(unsaid, trace("linux = \"3.8\"\n"));
}
