//! What `auto` wins for a program beside two busy loops on a modelled machine of two CPUs, and what keeping slots from the
//! first moment (`gang`) would: `cargo run --release -p corun-sim --example beside_loops [-- --timeline] [WORD…]`.
//!
//! For whoever changes a policy: live runs of one program differ by more than what is to be judged, these do not. The loops
//! run from the first; the program, of some four seconds alone, comes after one, a little later for each of five seeds.
//! Told are its slowdown against the same seed alone (mean, most) and what the loops keep of half of the machine while it
//! runs (mean, least, in hundredths); of `auto` also with `spin = false`, and with spinning told as roughly as by samples.
//! Then, for `auto`: when after its coming slots began, and for how long everybody shared.
//!
//! The policy sees the loops as one tenant. Where they are in one session, half is theirs by default; where each is in a
//! session of its own, as in `corun study control`, they have two thirds.
//!
//! With words, only programs whose name contains one of them. `--timeline` tells each new reason of the first seed.
//!
//! Limits: the machine's noise and how roughly spinning is told are assumptions; 0.6 % is one slot.

use corun_model::workload::draw::bits;
use corun_model::{Action, Host, Ledger, Observation, Outcome, TenantId};
use corun_policy::{by_name, Options};
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Cast, Files, Scenario};
use rayon::prelude::*;
use std::sync::Arc;

const MS: u64 = 1_000_000;
const SEEDS: usize = 5;
const LOOPS_ID: TenantId = TenantId(1);

/// Programs by name. Those of several phases go through them as often as is said, and then end alone.
#[rustfmt::skip]
const WAIT_FOR_EACH_OTHER: &[(&str, usize, &str)] = &[
    ("barrier spin 0.3 ms", 1, r#"{ wait = "spin", grain = "300us", imbalance = 0.1, iterations = 13000 },"#),
    ("barrier spin 1 ms", 1, r#"{ wait = "spin", grain = "1ms", imbalance = 0.3, iterations = 3600 },"#),
    ("barrier spin 3 ms", 1, r#"{ wait = "spin", grain = "3ms", imbalance = 0.3, iterations = 1200 },"#),
    ("barrier spin 10 ms", 1, r#"{ wait = "spin", grain = "10ms", imbalance = 0.3, iterations = 360 },"#),
    ("barrier spin-block 1 ms", 1, r#"{ wait = "spin-then-block", grain = "1ms", imbalance = 0.2, iterations = 3600 },"#),
    ("barrier block 0.3 ms", 1, r#"{ wait = "block", grain = "300us", imbalance = 0.1, iterations = 13000 },"#),
    ("barrier block 1 ms", 1, r#"{ wait = "block", grain = "1ms", imbalance = 0.3, iterations = 3600 },"#),
    ("barrier block 5 ms", 1, r#"{ wait = "block", grain = "5ms", imbalance = 0.3, iterations = 700 },"#),
    ("wavefront spin 0.3 ms", 1, r#"{ sync = "pipeline", wait = "spin", grain = "300us", imbalance = 0.3, iterations = 12000 },"#),
    ("lock spin 0.2 ms", 1, r#"{ sync = "lock", wait = "spin", grain = "200us", critical = 0.4, imbalance = 0.3, iterations = 16000 },"#),
    ("reads alone, then barriers", 1, r#"
        { threads = 1, sync = "none", grain = "10ms", iterations = 40 },
        { wait = "spin", grain = "500us", imbalance = 0.2, iterations = 6500 },"#),
    ("starts slowly, then barriers", 1, r#"
        { threads = 1, sync = "none", grain = "3ms", sleep = "5ms", iterations = 60 },
        { wait = "spin", grain = "100us", imbalance = 0.2, iterations = 30000 },"#),
    ("regions and serial parts", 60, r#"
        { wait = "spin", grain = "2ms", imbalance = 0.3, iterations = 20 },
        { threads = 1, sync = "none", grain = "1ms", iterations = 15 },"#),
    ("lengths that change, spin", 9, r#"
        { wait = "spin", grain = "12ms", imbalance = 0.3, iterations = 12 },
        { wait = "spin", grain = "4ms", imbalance = 0.3, iterations = 30 },
        { wait = "spin", grain = "1ms", imbalance = 0.3, iterations = 60 },
        { wait = "spin", grain = "200us", imbalance = 0.3, iterations = 200 },"#),
    ("lengths that change, block", 9, r#"
        { wait = "block", grain = "12ms", imbalance = 0.3, iterations = 12 },
        { wait = "block", grain = "4ms", imbalance = 0.3, iterations = 30 },
        { wait = "block", grain = "1ms", imbalance = 0.3, iterations = 60 },
        { wait = "block", grain = "200us", imbalance = 0.3, iterations = 200 },"#),
    ("by turns of 0.2 s", 10, r#"
        { sync = "none", grain = "10ms", iterations = 20 },
        { wait = "spin", grain = "1ms", imbalance = 0.3, iterations = 180 },"#),
    ("by turns of 0.5 s", 4, r#"
        { sync = "none", grain = "10ms", iterations = 50 },
        { wait = "spin", grain = "1ms", imbalance = 0.3, iterations = 450 },"#),
    ("by turns of 0.3 s, coarse", 8, r#"
        { sync = "none", grain = "10ms", iterations = 30 },
        { wait = "block", grain = "15ms", imbalance = 0.5, iterations = 15 },"#),
    ("barriers, then a device", 1, r#"
        { wait = "spin", grain = "500us", imbalance = 0.2, iterations = 1500 },
        { sync = "steal", wait = "block", grain = "2ms", imbalance = 0.5, io = "1ms", iterations = 2000 },"#),
    ("a device, then barriers", 1, r#"
        { sync = "steal", wait = "block", grain = "2ms", imbalance = 0.5, io = "1ms", iterations = 1300 },
        { wait = "spin", grain = "500us", imbalance = 0.2, iterations = 3500 },"#),
];

/// Programs that lose little by sharing, or nothing.
#[rustfmt::skip]
const NEED_NO_HELP: &[(&str, usize, &str)] = &[
    ("independent threads", 1, r#"{ sync = "none", grain = "10ms", iterations = 400 },"#),
    ("frames, as x264", 1, r#"{ threads = 3, sync = "pipeline", stages = 3, wait = "block", grain = "4ms", imbalance = 0.5, iterations = 650 },"#),
    ("five frames", 1, r#"{ threads = 5, sync = "pipeline", stages = 5, queue-depth = 2, wait = "block", grain = "3ms", imbalance = 0.6, iterations = 520 },"#),
    ("fine pipeline, as mksquashfs", 1, r#"{ threads = 4, sync = "pipeline", stages = 3, queue-depth = 16, wait = "block", grain = "500us", imbalance = 0.6, iterations = 5000 },"#),
    ("queue, as pigz", 1, r#"{ sync = "queue", wait = "block", grain = "4ms", imbalance = 0.6, iterations = 2000 },"#),
    ("stealing and a device", 1, r#"{ sync = "steal", wait = "block", grain = "2ms", imbalance = 0.5, io = "1ms", iterations = 2700 },"#),
    ("server that sleeps, as redis", 1, r#"{ sync = "pipeline", stages = 2, queue-depth = 8, wait = "block", grain = "60us", imbalance = 0.4, sleep = "30us", iterations = 40000 },"#),
    ("requests, as YCSB", 1, r#"{ threads = 4, sync = "lock", wait = "block", grain = "300us", imbalance = 0.8, sleep = "400us", iterations = 5000 },"#),
];

const LOOPS: [(&str, &str); 2] = [
    ("one session", "program = { kind = \"interference\", threads = 2 }"),
    ("two sessions", "count = 2\nprogram = { kind = \"interference\" }"),
];

struct TwoCpus;

impl Files for TwoCpus {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        Err(format!("there is no {path}"))
    }

    fn host(&self) -> Result<MachineModel, String> {
        let mut model = MachineModel::of(corun_model::Machine::synthetic(1, 1, 2, 1));
        // Without noise two CPUs that begin alike stay alike.
        (model.costs.timer_late_ns, model.costs.noise_ns, model.costs.noise_every_ns) =
            (50_000, 30_000, 10 * MS);
        Ok(model)
    }
}

/// Who is beside whom, and under what.
#[derive(Clone, Copy)]
struct Way {
    cast: Cast,
    policy: Option<&'static str>,
    spin: &'static str,
    roughly: bool,
}

const ALONE: usize = 0;
const AUTO: usize = 3;
const WAYS: [Way; 6] = {
    let none = Way { cast: Cast::All, policy: None, spin: "true", roughly: false };
    let auto = Way { policy: Some("auto"), ..none };
    [
        Way { cast: Cast::Solo(0), ..none },
        none,
        Way { policy: Some("gang"), ..none },
        auto,
        Way { spin: "false", ..auto },
        Way { roughly: true, ..auto },
    ]
};

/// What came of one run.
#[derive(Clone, Copy, Default)]
struct Came {
    took_ns: f64,
    /// By the loops, of one CPU.
    kept: f64,
    /// From the program's coming until somebody was parked, and while nobody was.
    first_ns: Option<u64>,
    shared_ns: u64,
}

/// The loops as one tenant, whatever sessions they are in: a cgroup of several.
fn make_one(seen: &mut Observation) {
    seen.tenants.retain(|t| t.id <= LOOPS_ID);
    for t in seen.tasks.iter_mut().filter(|t| t.tenant > LOOPS_ID) {
        t.tenant = LOOPS_ID;
    }
}

/// What is done to the loops is done to each of them.
fn of_all(action: &Action, tenants: u32) -> Vec<Action> {
    let loops = (LOOPS_ID.0..tenants).map(TenantId);
    match action {
        Action::Park { tenant: LOOPS_ID } => loops.map(|tenant| Action::Park { tenant }).collect(),
        Action::Unpark { tenant: LOOPS_ID } => loops.map(|tenant| Action::Unpark { tenant }).collect(),
        other => vec![other.clone()],
    }
}

/// Spinning as a live machine tells it: one window in eight is not judged, of the others 70 to 100 % is told.
fn tell_roughly(seen: &mut Observation, seed: u64) {
    for t in &mut seen.tasks {
        let mut parts = *t.account.ledger.parts();
        let draw = bits(seed, u64::from(t.id.0), seen.end_ns) >> 32;
        let all_ns = parts.spin_ns.unwrap_or(0);
        parts.spin_ns = (!draw.is_multiple_of(8)).then_some(all_ns * (70 + draw % 31) / 100);
        parts.compute_ns += all_ns - parts.spin_ns.unwrap_or(0);
        let total_ns = t.account.ledger.total_ns();
        Arc::make_mut(&mut t.account).ledger = Ledger::new(parts, total_ns).expect("the sum is the same");
    }
}

fn run(scenario: &Scenario, seed: u64, way: Way, timeline: bool) -> Came {
    let mut engine = scenario.engine(seed, way.cast, 0).unwrap_or_else(|e| panic!("{e}"));
    let options = match way.policy {
        Some("auto") => Options::new().set("spin", way.spin),
        _ => Options::new(),
    };
    let mut policy = by_name(way.policy.unwrap_or("observe"), &options).unwrap_or_else(|e| panic!("{e}"));
    let tenants = engine.progress().len() as u32;
    let (mut parked, mut came, mut last) = (0, Came::default(), String::new());
    let (mut loops_ns, mut before_ns) = (0, None);
    loop {
        let from_ns = engine.now_ns();
        let until_ns = from_ns + policy.epoch_ns() * policy.epochs_to_wait();
        let ended = engine.run_to_end(until_ns).unwrap_or_else(|e| panic!("{e}"));
        let progress = engine.progress();
        let run = progress[0].completions.first;
        let began_ns = run.map(|c| c.start_ns).or(progress[0].started_ns);
        let had_ns = std::mem::replace(&mut loops_ns, progress[1..].iter().map(|p| p.work_ns).sum());
        if let Some(began_ns) = began_ns {
            // They had both CPUs until then.
            before_ns.get_or_insert(had_ns + 2 * began_ns.saturating_sub(from_ns));
            came.shared_ns += if parked == 0 { engine.now_ns() - from_ns.max(began_ns) } else { 0 };
        }
        if let (true, Some(run)) = (ended, run) {
            came.took_ns = (run.end_ns - run.start_ns) as f64;
            came.kept = (loops_ns - before_ns.unwrap_or(0)) as f64 / came.took_ns;
            return came;
        }
        let mut seen = Host::observe(&mut engine).unwrap_or_else(|e| panic!("{e}"));
        make_one(&mut seen);
        if way.roughly {
            tell_roughly(&mut seen, seed);
        }
        for d in policy.decide(Host::machine(&engine), &seen) {
            parked += match d.action {
                Action::Park { .. } => 1,
                _ => -1,
            };
            let since_ns = seen.end_ns - began_ns.unwrap_or(seen.end_ns);
            came.first_ns = came.first_ns.or((parked > 0).then_some(since_ns));
            let why = d.because.rsplit_once("slot ").map_or(d.because.as_str(), |(_, why)| why);
            let why = why.trim_start_matches(|c: char| c.is_ascii_digit());
            if timeline && why != last {
                println!("    {:7.3} s  {}", since_ns as f64 / 1e9, why.trim_start_matches(", "));
                last = why.into();
            }
            for action in of_all(&d.action, tenants) {
                assert_eq!(engine.apply(&action), Outcome::Done);
            }
        }
    }
}

/// All runs of a program beside these loops: by seed, each way.
fn runs(phases: &str, times: usize, loops: &str, timeline: bool) -> Vec<[Came; WAYS.len()]> {
    let end = "{ threads = 1, sync = \"none\", grain = \"10ms\", iterations = 1 }";
    let one = |seed: usize| {
        let text = format!(
            "schema = \"corun.scenario/1\"\nmachine = \"host\"\n[[tenant]]\nname = \"program\"\nstart = \"{}ms\"\n\
             program = {{ kind = \"command\", argv = [\"it\"], model = [{}{end}] }}\n\
             [[tenant]]\nname = \"loops\"\n{loops}\n",
            1_000 + 37 * seed,
            phases.repeat(times),
        );
        let scenario = Scenario::parse("it", &text, &TwoCpus).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let way = |at: usize| run(&scenario, seed as u64, WAYS[at], timeline && seed == 1 && at == AUTO);
        std::array::from_fn(way)
    };
    (1..=SEEDS).into_par_iter().map(one).collect()
}

fn main() {
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with("--"));
    let timeline = flags.iter().any(|f| f == "--timeline");
    let is_asked = |name: &str| words.is_empty() || words.iter().any(|w| name.contains(w.as_str()));
    for (sessions, loops) in LOOPS {
        for (kind, programs) in [("wait for each other", WAIT_FOR_EACH_OTHER), ("need no help", NEED_NO_HELP)]
        {
            println!("\nThe loops in {sessions}; programs that {kind}:");
            println!(
                "{:<29} {:>6}  {:>5} {:>21} {:>21} {:>21} {:>21}  slots, shared",
                "", "alone", "none", "gang", "auto", "auto, spin = false", "auto, roughly"
            );
            let mut logs = [0.0; WAYS.len()];
            let asked: Vec<_> = programs.iter().filter(|p| is_asked(p.0)).collect();
            for (name, times, phases) in &asked {
                let runs = runs(phases, *times, loops, timeline);
                let mean = |f: &dyn Fn(&[Came; WAYS.len()]) -> f64| {
                    runs.iter().map(f).sum::<f64>() / runs.len() as f64
                };
                let slowdown = |run: &[Came; WAYS.len()], at: usize| run[at].took_ns / run[ALONE].took_ns;
                let cell = |at: usize| {
                    let most = runs.iter().map(|r| slowdown(r, at)).fold(0.0, f64::max);
                    let least = runs.iter().map(|r| r[at].kept).fold(f64::MAX, f64::min);
                    let (slow, kept) = (mean(&|r| slowdown(r, at)), mean(&|r| r[at].kept));
                    format!("{slow:.3} ({most:.2}) {:3.0} ({:3.0})", 100.0 * kept, 100.0 * least)
                };
                let seconds = |f: fn(&Came) -> u64| mean(&|r| f(&r[AUTO]) as f64 / 1e9);
                println!(
                    "{name:<29} {:5.2}s {:5.2}x {:>21} {:>21} {:>21} {:>21}  {:.2} s, {:.2} s",
                    mean(&|r| r[ALONE].took_ns) / 1e9,
                    mean(&|r| slowdown(r, 1)),
                    cell(2),
                    cell(3),
                    cell(4),
                    cell(5),
                    seconds(|c| c.first_ns.unwrap_or(0)),
                    seconds(|c| c.shared_ns),
                );
                for (at, log) in logs.iter_mut().enumerate() {
                    *log += mean(&|r| slowdown(r, at)).ln() / asked.len() as f64;
                }
            }
            let means: Vec<String> = logs[1..].iter().map(|log| format!("{:.3}", log.exp())).collect();
            println!("geometric means: {}", means.join(", "));
        }
    }
}
