//! CFS behaves as the kernels of 2.6.32 to 3.14.

use crate::rig::{engine, observe, quantile, stretches};
use corun_model::TaskId;

const MS: u64 = 1_000_000;

/// How long a spinner's stretches are, where so many share CPU 0 in each of two sessions. Latency is 12 ms on two CPUs.
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
fn a_task_has_its_part_of_its_groups_part_of_the_period() {
    let (one, two) = (stretch_ns(1), stretch_ns(2));
    assert!(one.abs_diff(6 * MS) <= MS / 5, "{one}");
    assert!(two.abs_diff(3 * MS) <= MS / 5, "{two}");
}
