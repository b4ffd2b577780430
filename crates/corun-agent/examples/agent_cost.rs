//! The cost of an agent with many tenants, without a kernel: counting a window, a scrape, an entry of the
//! ring.
//!
//! `cargo run --release -p corun-agent --example agent_cost -- 1000 [WINDOWS]`

use corun_agent::exposition::{Exposition, Format};
use corun_agent::metrics::Own;
use corun_agent::recorder::Recorder;
use corun_agent::ring::Run;
use corun_agent::totals::Totals;
use corun_model::culprit::Share;
use corun_model::observation::{Account, TenantObservation};
use corun_model::{Culprits, Histogram, Ledger, Observation, Parts, Tenant, TenantId, TenantKind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const WINDOW_NS: u64 = 1_000_000_000;

fn window(n: u64, tenants: u32) -> Observation {
    let of = |t: u32| {
        // Twelve culprits each, more than have series.
        let shares = (1..=12)
            .map(|k| Share { tenant: TenantId((t + k * 31) % tenants), steal_ns: u64::from(k) * 1_000 });
        let steal_ns: u64 = (1..=12u64).map(|k| k * 1_000).sum();
        let parts = Parts {
            compute_ns: 1_000_000,
            steal_ns,
            block_ns: WINDOW_NS - 1_000_000 - steal_ns,
            ..Parts::default()
        };
        let account = Account {
            ledger: Ledger::new(parts, WINDOW_NS).expect("it sums"),
            culprits: Culprits::new(shares, 0, steal_ns).expect("it sums"),
            waits: Some(Histogram { counts: [1; corun_model::histogram::BUCKETS] }),
            ..Account::default()
        };
        TenantObservation { id: TenantId(t), tasks: 1, account }
    };
    let tenant = |t: u32| Tenant {
        id: TenantId(t),
        kind: TenantKind::Pod,
        key: format!("pod:{t:08x}-1111-2222-3333-444444444444"),
        name: format!("pod {t:08x}"),
    };
    Observation {
        start_ns: n * WINDOW_NS,
        end_ns: (n + 1) * WINDOW_NS,
        tenants: (0..tenants).map(tenant).collect(),
        by_tenant: (0..tenants).map(of).collect(),
        ..Observation::default()
    }
}

fn timed(act: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    act();
    begin.elapsed()
}

fn median_ms(mut took: Vec<Duration>) -> f64 {
    took.sort_unstable();
    took[took.len() / 2].as_secs_f64() * 1e3
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn main() {
    let number =
        |at: usize, default: u64| std::env::args().nth(at).map_or(default, |n| n.parse().expect("a number"));
    let (tenants, windows) = (number(1, 1_000) as u32, number(2, 60));
    let totals = Arc::new(Mutex::new(Totals::new(tenants as usize)));
    let exposition = Exposition::new(totals.clone(), Own::default);
    let folder = std::env::temp_dir().join(format!("corun-cost-{}", std::process::id()));
    let mut recorder = Recorder::open(&folder, 256 << 20, 5 * WINDOW_NS, &Run::default()).expect("a ring");
    let made: Vec<Observation> = (0..windows).map(|n| window(n, tenants)).collect();
    let (mut counting, mut writing, mut again) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0;
    for seen in &made {
        counting.push(timed(|| totals.lock().expect("nobody panicked").push(seen)));
        let mut page = || bytes = exposition.encode(Format::Prometheus).iter().map(|part| part.len()).sum();
        writing.push(timed(&mut page));
        again.push(timed(&mut page));
    }
    let first_kib = resident_kib();
    let before = recorder.counts().2;
    let mut spent = Duration::ZERO;
    for seen in &made {
        let begin = Instant::now();
        recorder.push(seen, seen.end_ns).expect("the disk takes it");
        spent += begin.elapsed();
    }
    let written = recorder.counts().0.max(1);
    println!("{tenants} tenants");
    println!("counting a window       {:8.2} ms", median_ms(counting));
    println!("writing its page        {:8.2} ms, {:.1} MB", median_ms(writing), bytes as f64 / 1e6);
    println!("the same page again     {:8.2} ms", median_ms(again));
    println!(
        "an interval of the ring {:8.2} ms, with its fsync; room for {} MiB",
        spent.as_secs_f64() * 1e3 / written as f64,
        before.max(recorder.counts().2) >> 20
    );
    println!(
        "resident                {:8.1} MB, with {windows} windows in memory for this",
        first_kib as f64 / 1e3
    );
    let _ = std::fs::remove_dir_all(folder);
}
