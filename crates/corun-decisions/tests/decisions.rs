//! The in-kernel decisions compared in three forms: golden vectors, a reference in Rust, and the same header compiled by clang.
//!
//! The modelled machine calls cc's build, and the kernel gets clang's. All must agree on every input.

use corun_decisions::*;
use proptest::prelude::*;
use std::io::Write;
use std::process::{Command, Stdio};

const MS: u64 = 1_000_000;

#[test]
fn golden_vectors() {
    // A slice: fixed, the ends and the middle of a range, the default, and wrong bounds that are corrected.
    assert_eq!(slice_ns(Some((3 * MS, 3 * MS)), 4 * MS, 12345), 3 * MS);
    assert_eq!(slice_ns(Some((10 * MS, 30 * MS)), 4 * MS, 0), 10 * MS);
    assert_eq!(slice_ns(Some((10 * MS, 30 * MS)), 4 * MS, u32::MAX), 30 * MS);
    assert_eq!(slice_ns(Some((10 * MS, 30 * MS)), 4 * MS, 1 << 31), 20 * MS);
    assert_eq!(slice_ns(None, 4 * MS, 7), 4 * MS);
    assert_eq!(slice_ns(None, 5, 7), LEAST_SLICE_NS);
    assert_eq!(slice_ns(Some((1, u64::MAX)), 4 * MS, u32::MAX), MOST_SLICE_NS);
    assert_eq!(slice_ns(Some((30 * MS, 10 * MS)), 4 * MS, 9), 30 * MS);
    // Preemption: at once, later, and no later than a timer that is already set.
    assert_eq!(preempt_due_ns(1_000, 0, None), 1_000);
    assert_eq!(preempt_due_ns(1_000, 2 * MS, None), 1_000 + 2 * MS);
    assert_eq!(preempt_due_ns(1_000, 2 * MS, Some(5_000)), 5_000);
    assert_eq!(preempt_due_ns(1_000, 0, Some(5_000)), 1_000);
    assert_eq!(preempt_due_ns(1_000, 2 * MS, Some(900)), 1_000, "a timer that is overdue fires now");
    // Parking is a lease.
    assert!(may_run(1_000, None, false));
    assert!(!may_run(1_000, Some(1_001), false));
    assert!(may_run(1_000, Some(1_000), false), "the lease has run out");
    assert!(may_run(1_000, Some(u64::MAX / 2), true), "exempt");
    // Shares: one task, two equal tasks, a heavier task, a heavier tenant, and no division by zero.
    assert_eq!(share(100, 100, 100), DEFAULT_SHARE);
    assert_eq!(share(100, 100, 200), DEFAULT_SHARE / 2);
    assert_eq!(share(100, 300, 400), DEFAULT_SHARE * 3 / 4);
    assert_eq!(share(10_000, 100, 100), 100 * DEFAULT_SHARE);
    assert_eq!(share(0, 0, 0), 1024);
    assert_eq!(share(1, 1, u64::MAX), 1);
    // Virtual time: like the clock at the default share, half as fast at twice that, bounded credit.
    assert_eq!(vtime_ran(7, 5 * MS, DEFAULT_SHARE), 7 + 5 * MS);
    assert_eq!(vtime_of(5 * MS, 2 * DEFAULT_SHARE), 5 * MS / 2);
    assert_eq!(vtime_of(u64::MAX, 1), (1 << 43) * DEFAULT_SHARE);
    assert_eq!(vtime_join(0, 100 * MS, 3 * MS, DEFAULT_SHARE), 97 * MS);
    assert_eq!(vtime_join(99 * MS, 100 * MS, 3 * MS, DEFAULT_SHARE), 99 * MS);
    assert_eq!(vtime_join(120 * MS, 100 * MS, 3 * MS, DEFAULT_SHARE), 120 * MS);
    assert_eq!(vtime_move(12, 10, 5), 7);
    assert_eq!((vtime_zero(5, 7), vtime_zero(7, 5)), (7, 7));
    assert!(before(u64::MAX, 3) && !before(3, u64::MAX), "across a wrap");
    assert!(wants_cpu(0, 4 * MS, 3 * MS, DEFAULT_SHARE) && !wants_cpu(0, 2 * MS, 3 * MS, DEFAULT_SHARE));
}

/// The same functions, written in Rust from the header's comments, in 128 bits.
mod reference {
    pub fn before(a: u64, b: u64) -> bool {
        (a.wrapping_sub(b) as i64) < 0
    }

    pub fn slice(least: u64, most: u64, fallback: u64, random: u32) -> u64 {
        let bounded = |ns: u64| ns.clamp(100_000, 100_000_000);
        if least == 0 || most == 0 {
            return bounded(fallback);
        }
        let (low, high) = (bounded(least), bounded(most).max(bounded(least)));
        low + (u128::from(high - low + 1) * u128::from(random) / (1 << 32)) as u64
    }

    pub fn due(now: u64, delay: u64, armed: u64) -> u64 {
        let due = now.wrapping_add(delay);
        match armed {
            0 => due,
            _ if !before(armed, due) => due,
            _ if before(armed, now) => now,
            _ => armed,
        }
    }

    pub fn may_run(now: u64, parked_until: u64, exempt: u32) -> bool {
        exempt != 0 || parked_until == 0 || !before(now, parked_until)
    }

    pub fn share(tenant: u64, task: u64, load: u64) -> u64 {
        let (tenant, task) = (tenant.clamp(1, 10_000), task.clamp(1, 10_000));
        (tenant * task * 1024 / load.max(task)).max(1)
    }

    pub fn vtime_of(ran: u64, share: u64) -> u64 {
        (u128::from(ran.min(1 << 43)) * 102_400 / u128::from(share.max(1))) as u64
    }

    pub fn join(vtime: u64, zero: u64, credit: u64, share: u64) -> u64 {
        let earliest = zero.wrapping_sub(vtime_of(credit, share));
        if before(vtime, earliest) {
            earliest
        } else {
            vtime
        }
    }

    pub fn wants(waking: u64, current: u64, granularity: u64, share: u64) -> bool {
        before(waking.wrapping_add(vtime_of(granularity, share)), current)
    }
}

/// All results for one input, in the order of the C driver.
fn rust(i: [u64; 4]) -> [u64; 9] {
    let [a, b, c, d] = i;
    [
        reference::slice(a, b, c, d as u32),
        reference::due(a, b, c),
        u64::from(reference::may_run(a, b, (c & 1) as u32)),
        reference::share(a, b, c),
        reference::vtime_of(a, b),
        reference::join(a, b, c, d),
        u64::from(reference::wants(a, b, c, d)),
        a.wrapping_sub(b).wrapping_add(c),
        if reference::before(a, b) { b } else { a },
    ]
}

fn by_cc(i: [u64; 4]) -> [u64; 9] {
    let [a, b, c, d] = i;
    let bounds = (a != 0 && b != 0).then_some((a, b));
    [
        slice_ns(bounds, c, d as u32),
        preempt_due_ns(a, b, (c != 0).then_some(c)),
        u64::from(may_run(a, (b != 0).then_some(b), c & 1 == 1)),
        share(a, b, c),
        vtime_of(a, b),
        vtime_join(a, b, c, d),
        u64::from(wants_cpu(a, b, c, d)),
        vtime_move(a, b, c),
        vtime_zero(a, b),
    ]
}

/// Numbers of all sizes, including those at which a result changes.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0u32..64, any::<u64>()).prop_map(|(shift, n)| n >> shift),
        proptest::sample::select(vec![
            0,
            1,
            99_999,
            100_000,
            100_000_000,
            100_000_001,
            10_000,
            1 << 43,
            u64::MAX
        ]),
    ]
}

fn inputs() -> impl Strategy<Value = [u64; 4]> {
    [number(), number(), number(), number()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn cc_and_the_reference_agree_on_every_input(i in inputs()) {
        prop_assert_eq!(by_cc(i), rust(i));
    }

    #[test]
    fn a_random_slice_stays_in_its_range_and_a_due_time_never_lies_in_the_past(
        low in 100_000u64..=100_000_000, high in 100_000u64..=100_000_000, random in any::<u32>(),
        now in 1u64..1 << 62, delay in 0u64..1 << 40, armed in proptest::option::of(1u64..1 << 62),
    ) {
        let slice = slice_ns(Some((low, high)), 0, random);
        prop_assert!((low..=high.max(low)).contains(&slice));
        let due = preempt_due_ns(now, delay, armed);
        prop_assert!((now..=now + delay).contains(&due));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn virtual_time_gives_every_tenant_its_weights_part(
        weights in proptest::collection::vec(prop_oneof![Just(1u64), 10u64..1_000, Just(10_000)], 2..6),
        tasks in proptest::collection::vec(1u64..4, 6),
    ) {
        // One CPU, all tasks always runnable: the one with the least virtual time runs for one slice.
        let mut queue: Vec<(usize, u64, u64)> = Vec::new();
        for (tenant, &weight) in weights.iter().enumerate() {
            let load = tasks[tenant] * 100;
            (0..tasks[tenant]).for_each(|_| queue.push((tenant, share(weight, 100, load), 0)));
        }
        let mut got = vec![0u64; weights.len()];
        let (slice, mut zero) = (4 * MS, 0);
        for _ in 0..20_000 {
            let next = (0..queue.len()).min_by_key(|&i| (queue[i].2, i)).unwrap();
            zero = vtime_zero(zero, queue[next].2);
            let (tenant, share, vtime) = queue[next];
            queue[next].2 = vtime_join(vtime_ran(vtime, slice, share), zero, slice, share);
            got[tenant] += slice;
        }
        let (all, weight): (u64, u64) = (got.iter().sum(), weights.iter().sum());
        for (tenant, &w) in weights.iter().enumerate() {
            let part = all as f64 * w as f64 / weight as f64;
            // Rounding costs a few slices per task. The lightest tasks get less than one slice in all.
            let off = (got[tenant] as f64 - part).abs();
            prop_assert!(off <= part * 0.02 + 8.0 * tasks[tenant] as f64 * slice as f64, "{tenant}: {} of {part}", got[tenant]);
        }
    }
}

const DRIVER: &str = r#"
#include "decisions.h"
#include <stdio.h>
int main(void)
{
	corun_u64 a, b, c, d;

	while (scanf("%llu %llu %llu %llu", &a, &b, &c, &d) == 4)
		printf("%llu %llu %d %llu %llu %llu %d %llu %llu\n", corun_slice_ns(a, b, c, (corun_u32)d),
		       corun_preempt_due_ns(a, b, c), corun_may_run(a, b, c & 1), corun_share(a, b, c), corun_vtime_of(a, b),
		       corun_vtime_join(a, b, c, d), corun_wants_cpu(a, b, c, d), corun_vtime_move(a, b, c),
		       corun_vtime_zero(a, b));
	return 0;
}
"#;

fn has(compiler: &str) -> bool {
    Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

fn include() -> String {
    format!("-I{}/include", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn clang_and_the_reference_agree_on_a_hundred_thousand_random_inputs() {
    if !has("clang") {
        println!("skipped: clang is not installed");
        return;
    }
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("decisions_driver.c"), folder.join("decisions_driver"));
    std::fs::write(&source, DRIVER).unwrap();
    let built = Command::new("clang")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fsanitize-trap=undefined"])
        .arg(include())
        .arg("-o")
        .args([&program, &source])
        .status()
        .unwrap();
    assert!(built.success());
    // A simple generator is enough: this needs many numbers of all sizes, not good ones.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let shift = state >> 58;
        (state ^ state >> 29) >> shift
    };
    let inputs: Vec<[u64; 4]> = (0..100_000).map(|_| [draw(), draw(), draw(), draw()]).collect();
    let text: String = inputs.iter().map(|[a, b, c, d]| format!("{a} {b} {c} {d}\n")).collect();
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(output.status.success(), "undefined behavior traps");
    let output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.lines().count(), inputs.len());
    for (line, &input) in output.lines().zip(&inputs) {
        let got: Vec<u64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
        assert_eq!(got, rust(input), "for {input:?}");
    }
}

#[test]
fn the_header_compiles_for_bpf_without_a_call() {
    if !has("clang") {
        println!("skipped: clang is not installed");
        return;
    }
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("decisions_bpf.c");
    let calls = DRIVER
        .replace("#include <stdio.h>", "")
        .replace("int main(void)", "int all(corun_u64 *in, corun_u64 *out)");
    let body = calls.find("\tcorun_u64 a, b").unwrap();
    let text = format!(
        "{}\tcorun_u64 a = in[0], b = in[1], c = in[2], d = in[3];\n\tout[0] = corun_slice_ns(a, b, c, (corun_u32)d) + \
         corun_preempt_due_ns(a, b, c) + corun_share(a, b, c) + corun_vtime_join(a, b, c, d) + corun_vtime_move(a, b, c) \
         + corun_vtime_zero(a, b);\n\treturn corun_may_run(a, b, c & 1) + corun_wants_cpu(a, b, c, d);\n}}\n",
        &calls[..body]
    );
    std::fs::write(&source, text).unwrap();
    let built = Command::new("clang")
        .args(["-target", "bpf", "-mcpu=v2", "-O2", "-Wall", "-Werror", "-S", "-o", "-"])
        .arg(include())
        .arg(&source)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let assembly = String::from_utf8(built.stdout).unwrap();
    assert!(assembly.contains("exit") && !assembly.contains("call"), "{assembly}");
}
