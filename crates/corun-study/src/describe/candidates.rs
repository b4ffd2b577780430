//! The workloads that a stretch of a run may be: every way in which threads depend on each other, with the measured lengths.
//!
//! Their runs on the modelled machine decide which one it is ([`super::choice`]).

use super::traits::Traits;
use corun_model::workload::{Parallel, Sync};

/// A stretch without waits is written as grains of this length, in nanoseconds.
const GRAIN_NS: u64 = 1_000_000;
/// The most stages of a pipeline that are tried.
const MOST_STAGES: usize = 8;
/// The capacities between two stages that are tried.
const DEPTHS: [u32; 2] = [1, 4];

/// Turns a standard deviation into the half width of a uniform distribution.
const UNIFORM: f64 = 1.732_050_807_568_877_2;

/// All workloads that a stretch may be, the simplest first.
pub fn candidates(t: &Traits) -> Vec<Parallel> {
    let all_ns = t.all_cpu_ns();
    if all_ns == 0 {
        return Vec::new();
    }
    let n = t.threads() as u64;
    let mut all = vec![alone(t)];
    if n == 1 || t.waits == 0 {
        return all;
    }
    all.push(with_grains(t, Sync::Queue, t.openings.max(2 * n), t.span_varies));
    all.push(with_rounds(t, Sync::Barrier, t.openings, t.round_varies));
    if let Some([hold_ns, gap_ns]) = t.hold_and_gap_ns {
        let grain_ns = (hold_ns + gap_ns).max(1);
        let rounds = all_ns / (n * grain_ns);
        let critical = hold_ns as f64 / grain_ns as f64;
        all.push(Parallel {
            critical: rounded(critical),
            ..with_rounds(t, Sync::Lock, rounds, t.span_varies)
        });
    }
    if t.threads() <= MOST_STAGES {
        let items = t.waits.div_ceil(n - 1).max(1);
        for queue_depth in DEPTHS {
            let there = with_rounds(t, Sync::Pipeline, items, t.span_varies);
            let back = Parallel { shares: there.shares.iter().rev().copied().collect(), ..there.clone() };
            let stages = n as u32;
            all.extend([there, back].map(|p| Parallel { stages, queue_depth, ..p }));
        }
    }
    all
}

/// Threads that do not wait for each other.
fn alone(t: &Traits) -> Parallel {
    let n = t.threads() as u64;
    let waits = t.apart + if n == 1 { t.waits } else { 0 };
    let rounds = if waits > 0 { waits.div_ceil(n) } else { (t.all_cpu_ns() / n).div_ceil(GRAIN_NS) };
    let varies = if waits > 0 { t.span_varies } else { 0.0 };
    let p = with_rounds(t, Sync::None, rounds, varies);
    match n {
        // A single thread sleeps for something outside the program, whoever ends the sleep.
        1 => Parallel { sleep: t.blocked_ns[0] / p.iterations, ..p },
        _ => p,
    }
}

/// With this many rounds of every thread.
fn with_rounds(t: &Traits, sync: Sync, rounds: u64, varies: f64) -> Parallel {
    let (n, all_ns) = (t.threads() as u64, t.all_cpu_ns());
    let rounds = rounds.clamp(1, (all_ns / n).max(1));
    let mean_ns = all_ns as f64 / n as f64;
    let shares: Vec<f64> = t.cpu_ns.iter().map(|ns| rounded((*ns as f64 / mean_ns).max(0.01))).collect();
    let alike = shares.iter().all(|share| (share - 1.0).abs() < 0.005);
    Parallel {
        threads: n as u32,
        sync,
        grain: (all_ns / (n * rounds)).max(1),
        imbalance: rounded((varies * UNIFORM).min(1.0)),
        shares: if alike { Vec::new() } else { shares },
        sleep: t.apart_ns / (n * rounds),
        iterations: rounds,
        ..Parallel::default()
    }
}

/// With this many grains, which any thread may take.
fn with_grains(t: &Traits, sync: Sync, grains: u64, varies: f64) -> Parallel {
    let p = with_rounds(t, sync, grains.div_ceil(t.threads() as u64), varies);
    Parallel { shares: Vec::new(), iterations: p.iterations * u64::from(p.threads), ..p }
}

/// Rounds to three digits, the precision of the measurement.
fn rounded(x: f64) -> f64 {
    (x * 1e3).round() / 1e3
}

/// The way in which threads depend on each other, as a workload file writes it.
pub fn word(sync: Sync) -> &'static str {
    match sync {
        Sync::Barrier => "barrier",
        Sync::Lock => "lock",
        Sync::Pipeline => "pipeline",
        Sync::Queue => "queue",
        Sync::Steal => "steal",
        Sync::None => "none",
    }
}

/// The keys of a phase, as a workload file writes them.
pub fn written(p: &Parallel) -> String {
    let mut text = format!(
        "threads = {}\nsync = \"{}\"\nwait = \"block\"\ngrain = \"{}ns\"\n",
        p.threads,
        word(p.sync),
        p.grain
    );
    let mut key = |is_given: bool, line: String| text += &if is_given { line + "\n" } else { String::new() };
    key(p.imbalance > 0.0, format!("imbalance = {:?}", p.imbalance));
    key(!p.shares.is_empty(), format!("shares = {:?}", p.shares));
    key(p.sync == Sync::Lock, format!("critical = {:?}", p.critical));
    key(p.sync == Sync::Pipeline, format!("stages = {}\nqueue-depth = {}", p.stages, p.queue_depth));
    key(p.sleep > 0, format!("sleep = \"{}ns\"", p.sleep));
    key(true, format!("iterations = {}", p.iterations));
    text
}
