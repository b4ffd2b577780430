//! Loads the probe, lets it watch for some seconds and prints what it cost per program run.
use corun_bpf::{layout::Place, Config, Probe};
use std::time::Duration;

fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn main() {
    let secs: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(3);
    let stats = std::env::args().nth(2).is_some();
    let mut states = [0u8; 512];
    states[202] = 5;
    states[24] = 1;
    let config = Config {
        tid_max: 32768,
        max_tasks: 16384,
        max_groups: 8192,
        trace_bytes: 0,
        ended_bytes: 16 << 20,
        want_quota: false,
        block_state_of_syscall: states,
        places: vec![Place::new(0, 0, 0), Place::new(1, 0, 0)],
    };
    let t = std::time::Instant::now();
    let probe = match Probe::start(&config, now_ns) {
        Ok(p) => p,
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(1);
        }
    };
    eprintln!("started in {:?}", t.elapsed());
    let known: Vec<u32> = probe.tasks().map(|t| t.tid).collect();
    for e in std::fs::read_dir("/proc").unwrap().flatten() {
        if let Ok(pid) = e.file_name().to_string_lossy().parse::<u32>() {
            for t in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
                let tid: u32 = t.file_name().to_string_lossy().parse().unwrap();
                if !known.contains(&tid) {
                    println!("missing {pid} {tid}");
                }
            }
        }
    }
    let held = stats.then(Probe::count_costs);
    let before = probe.costs();
    let switches = probe.switches();
    std::thread::sleep(Duration::from_secs(secs));
    let total = probe.switches() - switches;
    let mut sum = 0;
    for (a, b) in before.iter().zip(probe.costs()) {
        let (n, ns) = (b.runs - a.runs, b.ns - a.ns);
        sum += ns;
        println!("{:>12} {n:>10} runs {:>8.1} ns", b.name, ns as f64 / n.max(1) as f64);
    }
    println!("{total} switches, {:.1} ns per switch", sum as f64 / total.max(1) as f64);
    println!("{:?} ended {}", probe.losses(), probe.drain_ended().len());
    let mut tasks: Vec<_> = probe.tasks().collect();
    tasks.sort_by_key(|t| std::cmp::Reverse(t.cur.ns[1]));
    for t in tasks.iter().take(8) {
        println!(
            "{} {} group {} {:?} un {} cul {:?}",
            t.tid,
            corun_bpf::layout::comm(&t.comm),
            t.group,
            t.cur.ns,
            t.cur.unattributed_ns,
            &t.cur.culprits[..3]
        );
    }
    drop(held);
}
