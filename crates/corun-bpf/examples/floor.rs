//! The minimum cost of watching: two programs that do nothing, at the two tracepoints where a switch pays for
//! the probe.
//!
//! `cargo run --release -p corun-bpf --example floor SECONDS`, as root. They stay attached for this long;
//! `make bench` runs it as one more tool. It prints the kernel's own count of what a run of both cost, nearly
//! all of which is the counting. The kernel counts only in the last half second, while corun counts in its
//! first.

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/floor.skel.rs"));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: f64 = std::env::args().nth(1).ok_or("for how many seconds?")?.parse()?;
    let mut storage = MaybeUninit::uninit();
    let mut floor = skel::FloorSkelBuilder::default().open(&mut storage)?.load()?;
    floor.attach()?;
    let counted = Duration::from_millis(500);
    std::thread::sleep(Duration::from_secs_f64(seconds).saturating_sub(counted));
    let counting = corun_bpf::Probe::count_costs();
    std::thread::sleep(counted);
    drop(counting);
    let ns = ns_per_run(floor.progs.on_switch.as_fd())? + ns_per_run(floor.progs.on_wakeup.as_fd())?;
    println!("{ns:.0} ns for two programs that do nothing");
    Ok(())
}

fn ns_per_run(program: BorrowedFd<'_>) -> Result<f64, Box<dyn std::error::Error>> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))?;
    let field = |key: &str| -> Option<f64> {
        info.lines().find_map(|line| line.strip_prefix(key)?.trim_start_matches(':').trim().parse().ok())
    };
    Ok(field("run_time_ns").ok_or("no run_time_ns")? / field("run_cnt").ok_or("no run_cnt")?.max(1.0))
}
