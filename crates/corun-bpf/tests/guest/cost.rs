//! The cost of the scheduler compared with the kernel's own: alternating in one boot, as ratios of medians.
//!
//! The promise (10 % of a wake-up on an idle machine, 10 % of hackbench) applies to real machines. Under
//! emulation, a wake-up is mostly the emulator's interrupts, and runs differ by more than that. So the test
//! only asserts that nothing is badly wrong, and prints the ratios. `scripts/bench-guest` runs the real
//! hackbench in a guest whose clock counts instructions. Then runs agree, but an instruction costs the same
//! whatever memory it waits for.

use crate::{alone, config, judge, started, wait_ms};
use corun_bpf::Scheduler;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::process::Command;
use std::time::Instant;

const ROUNDS: usize = 3;

fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: pipe fills in two descriptors, which nobody else owns.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    }
}

/// The median time from a write into a pipe to its reader's first instruction, on an idle machine, in µs.
fn wake_up_us() -> f64 {
    let (mut reader, mut writer) = pipe();
    let woken = std::thread::spawn(move || {
        let mut took = Vec::new();
        let mut sent = [0u8; 8];
        while reader.read_exact(&mut sent).is_ok() {
            took.push(crate::knobs::monotonic_ns() - u64::from_ne_bytes(sent));
        }
        took.sort();
        took[took.len() / 2] as f64 / 1e3
    });
    for _ in 0..200 {
        wait_ms(1);
        writer.write_all(&crate::knobs::monotonic_ns().to_ne_bytes()).expect("the reader reads");
    }
    drop(writer);
    woken.join().expect("the reader ends")
}

/// Groups of senders and receivers that exchange messages through pipes, as in hackbench: ms for all of them.
fn messaging_ms() -> f64 {
    let began = Instant::now();
    let mut threads = Vec::new();
    for _ in 0..4 {
        let (mut from, to) = pipe();
        for _ in 0..5 {
            let mut to = to.try_clone().expect("there are descriptors left");
            threads.push(std::thread::spawn(move || {
                for _ in 0..400 {
                    to.write_all(&[0; 100]).expect("the receiver reads");
                }
            }));
        }
        drop(to);
        threads.push(std::thread::spawn(move || {
            let mut message = [0; 100];
            while from.read_exact(&mut message).is_ok() {}
        }));
    }
    for thread in threads {
        thread.join().expect("everybody ends");
    }
    began.elapsed().as_secs_f64() * 1e3
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

#[test]
fn it_costs_little_more_than_the_kernels_own_scheduler() {
    let Some(_alone) = alone() else { return };
    judge(|| {
        let mut of = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            of[0].push(wake_up_us());
            of[1].push(messaging_ms());
            let scheduler: Scheduler = started(&config());
            wait_ms(50);
            of[2].push(wake_up_us());
            of[3].push(messaging_ms());
            assert!(scheduler.exit().is_none());
        }
        let [wake, messages, our_wake, our_messages] = of.map(median);
        println!("wake-up: {wake:.1} µs, ours {our_wake:.1} µs, ratio {:.2}", our_wake / wake);
        println!(
            "messaging: {messages:.0} ms, ours {our_messages:.0} ms, ratio {:.2}",
            our_messages / messages
        );
        match our_wake / wake < 2.0 && our_messages / messages < 2.0 {
            true => Ok(()),
            false => Err("it costs more than the same again".into()),
        }
    });
}

/// The result of hackbench (from rt-tests) for one run, in seconds.
fn hackbench_s(arguments: &[&str]) -> f64 {
    let ran = Command::new("hackbench").args(arguments).output().expect("the guest has hackbench");
    let said = String::from_utf8_lossy(&ran.stdout);
    let time = said.lines().find_map(|line| line.strip_prefix("Time: "));
    time.and_then(|t| t.trim().parse().ok()).unwrap_or_else(|| panic!("hackbench gave no time: {said}"))
}

/// The ratio of this scheduler to the kernel's own in each round, and the times of both in the median round.
fn tell(what: &str, own: &[f64], ours: &[f64]) {
    let mut ratios: Vec<f64> = own.iter().zip(ours).map(|(own, ours)| ours / own).collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "{what} | {:.3} | {:.3} | {:.3} | {:.3} to {:.3}",
        median(own.to_vec()),
        median(ours.to_vec()),
        ratios[ratios.len() / 2],
        ratios[0],
        ratios[ratios.len() - 1]
    );
}

#[test]
#[ignore = "a benchmark: scripts/bench-guest"]
fn hackbench_and_wake_ups_alternate_with_the_kernels_own_scheduler() {
    let Some(_alone) = alone() else { return };
    let rounds: usize =
        std::env::var("CORUN_ROUNDS").map_or(7, |n| n.parse().expect("CORUN_ROUNDS is a number"));
    let benches: [(&str, &[&str]); 3] = [
        ("hackbench, 1 group of 20 + 20 processes over sockets, s", &["-g", "1", "-l", "60"]),
        ("hackbench, 2 groups of 20 + 20 threads over pipes, s", &["-g", "2", "-l", "60", "-T", "-p"]),
        ("hackbench, 1 group of 1 + 1 over a pipe, s", &["-g", "1", "-f", "1", "-l", "20000", "-T", "-p"]),
    ];
    let mut own = vec![Vec::new(); benches.len() + 1];
    let mut ours = own.clone();
    let measure = |into: &mut Vec<Vec<f64>>| {
        into[0].push(wake_up_us());
        for (i, (_, arguments)) in benches.iter().enumerate() {
            into[i + 1].push(hackbench_s(arguments));
        }
    };
    for round in 0..rounds {
        // The order changes from round to round.
        if round % 2 == 0 {
            measure(&mut own);
        }
        {
            let scheduler = started(&config());
            wait_ms(50);
            measure(&mut ours);
            assert!(scheduler.exit().is_none());
        }
        wait_ms(50);
        if round % 2 == 1 {
            measure(&mut own);
        }
    }
    println!("what | the kernel's own | corun's | ratio, median | range");
    tell("wake-up to run on an idle machine, µs", &own[0], &ours[0]);
    for (i, (what, _)) in benches.iter().enumerate() {
        tell(what, &own[i + 1], &ours[i + 1]);
    }
}
