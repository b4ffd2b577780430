//! What policies gain in mixes of four to eight programs on modelled machines of two, four and eight CPUs:
//! `cargo run --release -p corun-sim --example mixes [-- --tuned | --held-out] [--auto] [--each] [--oracle]
//! [--timeline] [WORD…]`.
//!
//! It helps to judge changes of a policy: live runs of a mix differ by more than the effect in question, and
//! these do not. A mix contains programs that wait for each other and programs that need no help, a third to
//! two thirds of each. Some mixes contain only the latter. Each program has its own session and starts within
//! the first second. It is started again, as new tasks, until all have ended once (as in `corun study
//! control`), or for five times as long as all take in turn.
//!
//! The output is that study's metrics, for each half of the mixes:
//!
//! - the relative speed-up over the kernel's default (Controlled Contention, eq. 3; geometric mean over
//!   mixes), and the most that any division of as much throughput could reach;
//! - the number of mixes with a speed-up of at least 1.25, at least a tenth more throughput and no less
//!   fairness;
//! - throughput relative to the default; Jain's index; the geometric mean of the slowdowns;
//! - the slowdown of the worst tenant divided by the number of tenants, which is the slowdown in slots of its
//!   own;
//! - how much slower the programs that need no help are than by default or than that number, whichever is
//!   more: on average, and the worst.
//!
//! Mixes with odd numbers are for tuning policies (`--tuned`), the others are held out. `--auto` runs only
//! `auto` and the default, and prints one line for each mix. `--each` prints every mix. `--oracle` adds other
//! degrees of contention and, mix by mix, the best of all. `--timeline` prints what `auto` does with the
//! first seed. With words, it runs only mixes whose name contains one of them: `2x6.3` is the third of six
//! programs on two CPUs.
//!
//! Limits: as in `beside_loops`. All programs are drawn with equal probability, which does not reflect how
//! common each is.

mod modelled;

use corun_model::fairness::jain;
use corun_model::workload::draw::bits;
use corun_model::workload::{Program as Kind, Sync, Workload};
use corun_model::{Host, Observation, Outcome, TaskId};
use corun_policy::{by_name, Options};
use corun_sim::engine::Progress;
use corun_sim::metrics::{geometric_mean, relative_speedup, throughput};
use corun_sim::scenario::{Participants, Runs, Scenario};
use modelled::{phases, tell_roughly, Cpus, Program, NEED_NO_HELP, WAIT_FOR_EACH_OTHER};
use rayon::prelude::*;
use std::fmt::Write;

const SEEDS: u64 = 2;
/// Mixes of each size on each machine, and of programs that all need no help.
const MIXES: u64 = 8;
const SIZES: [usize; 3] = [4, 6, 8];
const MACHINES: [u32; 3] = [2, 4, 8];
/// The time until a restarted program is there.
const AWAY_NS: u64 = 10_000_000;
/// More tasks than any run has.
const TASKS: u32 = 10_000;

#[rustfmt::skip]
const MORE_THAT_WAIT: &[Program] = &[
    ("short ones with barriers", 1, r#"
        { threads = 1, sync = "none", grain = "5ms", iterations = 10 },
        { wait = "spin", grain = "500us", imbalance = 0.2, iterations = 600 },"#),
    ("prepares for long, then barriers", 1, r#"
        { threads = 1, sync = "none", grain = "10ms", iterations = 100 },
        { wait = "spin", grain = "300us", imbalance = 0.1, iterations = 8000 },"#),
];

#[rustfmt::skip]
const MORE_THAT_NEED_NO_HELP: &[Program] = &[
    ("one thread, as gcc", 1, r#"{ threads = 1, sync = "none", grain = "10ms", iterations = 250 },"#),
    ("short ones that only compute", 1, r#"{ sync = "none", grain = "5ms", iterations = 60 },"#),
];

/// A policy, its options, and whether it sees spinning as roughly as from samples.
type Way = (&'static str, &'static [(&'static str, &'static str)], bool);

const DEFAULT: usize = 0;
#[rustfmt::skip]
const WAYS: &[Way] = &[
    ("observe", &[], false),
    ("auto", &[], false),
    ("auto", &[], true),
    ("gang", &[], false),
    ("controlled_contention", &[], false),
    ("controlled_contention", &[("dc", "auto")], false),
];

/// Degrees of contention, in quarters of the number of CPUs.
const ORACLE: [u32; 5] = [2, 6, 8, 12, 16];

/// Programs that run together.
struct Mix {
    name: String,
    is_tuned: bool,
    cpus: u32,
    /// Which of them need no help.
    need_none: Vec<bool>,
    scenario: Scenario,
}

/// The `number`-th mix of `size` programs. With `waits` some of them wait for each other.
fn draw(cpus: u32, size: usize, number: u64, waits: bool) -> Mix {
    let lane = u64::from(cpus) * 1_000 + size as u64 * 10 + u64::from(waits);
    let draw = |index: u64| bits(number, lane, index) >> 16;
    let drawn = |programs: [&'static [Program]; 2], from: u64, count: usize| {
        let all = programs.into_iter().flatten().zip(from..);
        let mut all: Vec<_> = all.map(|(program, place)| (draw(place), program)).collect();
        all.sort_by_key(|(order, _)| *order);
        all.into_iter().map(|(_, program)| program).take(count).collect::<Vec<_>>()
    };
    let waiting = if waits { size / 3 + draw(0) as usize % (size / 3 + 1) + size % 3 } else { 0 };
    let mut programs = drawn([WAIT_FOR_EACH_OTHER, MORE_THAT_WAIT], 100, waiting);
    programs.extend(drawn([NEED_NO_HELP, MORE_THAT_NEED_NO_HELP], 200, size - waiting));
    let mut text = "schema = \"corun.scenario/1\"\nmachine = \"host\"\nhorizon = \"1h\"\n".to_owned();
    for (i, program) in programs.iter().enumerate() {
        let _ = write!(
            text,
            "[[tenant]]\nname = \"{}\"\nstart = \"{}ms\"\nrepeat = true\nbackground = false\n\
             program = {{ kind = \"command\", argv = [\"it\"], model = [{}] }}\n",
            program.0,
            draw(300 + i as u64) % 1_000,
            phases(program),
        );
    }
    let mut scenario = Scenario::parse("mix", &text, &Cpus(cpus)).unwrap_or_else(|e| panic!("{e}\n{text}"));
    for (i, tenant) in scenario.tenants.iter_mut().enumerate() {
        // A thread for each CPU, or half as many.
        let by = if cpus > 2 && draw(400 + i as u64).is_multiple_of(2) { 4 } else { 2 };
        if let Runs::Workload(workload) = &mut tenant.runs {
            widen(workload, cpus / by);
        }
    }
    Mix {
        name: format!("{cpus}x{size}{}{number}", if waits { "." } else { "n" }),
        is_tuned: number % 2 == 1,
        cpus,
        need_none: (0..size).map(|i| i >= waiting).collect(),
        scenario,
    }
}

/// Widens a program for two CPUs by a factor of `times`, with the same work for each thread.
fn widen(workload: &mut Workload, times: u32) {
    let Kind::Command(command) = &mut workload.program else { return };
    for phase in command.model.iter_mut().filter(|phase| phase.threads > 1) {
        phase.threads *= times;
        phase.critical /= f64::from(times);
        if matches!(phase.sync, Sync::Pipeline | Sync::Queue | Sync::Steal) {
            phase.iterations *= u64::from(times);
        }
    }
}

/// Every run of a program has new processes, and never two runs at once.
fn make_new(seen: &mut Observation, progress: &[Progress]) {
    for t in &mut seen.tasks {
        let p = &progress[t.tenant.0 as usize];
        if p.completions.count == 0 {
            continue;
        }
        if p.started_ns.is_some_and(|ns| seen.end_ns < ns + AWAY_NS) {
            t.id = TaskId(t.id.0 + TASKS * (p.completions.count as u32 - 1));
            t.alive = false;
        } else {
            t.id = TaskId(t.id.0 + TASKS * p.completions.count as u32);
            t.born_ns = t.born_ns.max(p.started_ns.unwrap_or(0));
        }
    }
    seen.tasks.sort_by_key(|t| t.id);
}

/// The duration of a run of each program: the mean of the finished runs; without any, the estimated duration
/// of the first.
fn times_ns(mix: &Mix, seed: u64, way: Way, alone: &[Progress], timeline: bool) -> Vec<f64> {
    let (name, options, roughly) = way;
    let options = options.iter().fold(Options::new(), |all, (name, value)| all.set(*name, *value));
    let mut policy = by_name(name, &options).unwrap_or_else(|e| panic!("{e}"));
    let mut engine = mix.scenario.engine(seed, Participants::All, 0).unwrap_or_else(|e| panic!("{e}"));
    let longest_ns = alone.iter().map(took_ns).fold(0.0, f64::max);
    let limit_ns = (5.0 * alone.len() as f64 * longest_ns) as u64;
    let mut last = String::new();
    loop {
        let until_ns = match name {
            "observe" => limit_ns,
            _ => engine.now_ns() + policy.epoch_ns() * policy.epochs_to_wait(),
        };
        let ended = engine.run_to_end(until_ns).unwrap_or_else(|e| panic!("{}: {e}", mix.name));
        let progress = engine.progress();
        let now_ns = engine.now_ns();
        if ended || now_ns >= limit_ns {
            return progress.iter().zip(alone).map(|(p, alone)| time_ns(p, alone, now_ns)).collect();
        }
        let mut seen = Host::observe(&mut engine).unwrap_or_else(|e| panic!("{e}"));
        make_new(&mut seen, &progress);
        if roughly {
            tell_roughly(&mut seen, seed);
        }
        for d in policy.decide(Host::machine(&engine), &seen) {
            let why = match d.because.rule() {
                Some(rule) => format!("{rule:?}"),
                None => format!("{:?}", d.because),
            };
            if timeline && why != last {
                println!("    {:7.3} s  {}", seen.end_ns as f64 / 1e9, why);
                last = why;
            }
            assert_eq!(engine.apply(&d.action), Outcome::Done);
        }
    }
}

fn took_ns(p: &Progress) -> f64 {
    p.completions.took_ns as f64 / p.completions.count as f64
}

fn time_ns(p: &Progress, alone: &Progress, now_ns: u64) -> f64 {
    match p.completions.count {
        0 => {
            let so_far_ns = now_ns - p.started_ns.unwrap_or(now_ns);
            so_far_ns as f64 * alone.work_ns as f64 / p.work_ns.max(1) as f64
        }
        _ => took_ns(p),
    }
}

/// A mix under a policy: the study's metrics, means over seeds.
#[derive(Clone, Default)]
struct Came {
    speedup: f64,
    /// With throughput T and default slowdowns S, it is n T / (sum of S^-1/2)^2 at most, by the
    /// Cauchy-Schwarz inequality.
    at_most: f64,
    throughput: f64,
    jain: f64,
    slowdown: f64,
    worst: f64,
    /// For each program that needs no help, how much slower it is than by default or in slots of its own.
    losses: Vec<f64>,
    /// For each program, one for each seed.
    slowdowns: Vec<Vec<f64>>,
}

fn judge(mix: &Mix, by_seed: &[(Vec<f64>, Vec<f64>)]) -> Came {
    let mean = |of: &dyn Fn(&[f64], &[f64]) -> f64| {
        geometric_mean(&by_seed.iter().map(|(here, default)| of(here, default)).collect::<Vec<_>>())
            .unwrap_or(0.0)
    };
    let tenants = mix.need_none.len();
    let pairs = |here: &[f64], default: &[f64]| -> Vec<(f64, f64)> {
        here.iter().copied().zip(default.iter().copied()).collect()
    };
    let loss = |i: usize| mean(&|here, default| here[i] / default[i].max(tenants as f64));
    Came {
        speedup: mean(&|here, default| relative_speedup(&pairs(here, default)).unwrap_or(0.0)),
        at_most: mean(&|here, default| {
            let roots: f64 = default.iter().map(|s| s.powf(-0.5)).sum();
            tenants as f64 * throughput(here).unwrap_or(0.0) / (roots * roots)
        }),
        throughput: mean(&|here, default| {
            throughput(here).unwrap_or(0.0) / throughput(default).unwrap_or(1.0)
        }),
        jain: mean(&|here, _| jain(here).unwrap_or(0.0)),
        slowdown: mean(&|here, _| geometric_mean(here).unwrap_or(0.0)),
        worst: mean(&|here, _| here.iter().copied().fold(0.0, f64::max) / tenants as f64),
        losses: (0..tenants).filter(|&i| mix.need_none[i]).map(loss).collect(),
        slowdowns: by_seed.iter().map(|(here, _)| here.clone()).collect(),
    }
}

/// All policies in one mix.
fn runs(mix: &Mix, ways: &[Way], timeline: bool) -> Vec<Came> {
    let tenants = mix.need_none.len();
    let alone = |seed: u64| -> Vec<Progress> {
        let solo = |i: usize| {
            let mut engine =
                mix.scenario.engine(seed, Participants::Solo(i), 0).unwrap_or_else(|e| panic!("{e}"));
            engine.run_to_end(u64::MAX / 2).unwrap_or_else(|e| panic!("{e}"));
            engine.progress().remove(0)
        };
        (0..tenants).into_par_iter().map(solo).collect()
    };
    let alone: Vec<Vec<Progress>> = (1..=SEEDS).into_par_iter().map(alone).collect();
    let slowdowns = |&(way, seed): &(usize, u64)| -> Vec<f64> {
        let alone = &alone[seed as usize - 1];
        let tell = timeline && seed == 1 && way == 1;
        let times = times_ns(mix, seed, ways[way], alone, tell);
        times.iter().zip(alone).map(|(ns, alone)| ns / took_ns(alone)).collect()
    };
    let jobs: Vec<(usize, u64)> =
        (0..ways.len()).flat_map(|way| (1..=SEEDS).map(move |seed| (way, seed))).collect();
    let all: Vec<Vec<f64>> = jobs.par_iter().map(slowdowns).collect();
    let seeds = SEEDS as usize;
    let of_way = |way: usize| -> Vec<(Vec<f64>, Vec<f64>)> {
        (0..seeds).map(|s| (all[way * seeds + s].clone(), all[DEFAULT * seeds + s].clone())).collect()
    };
    (0..ways.len()).map(|way| judge(mix, &of_way(way))).collect()
}

fn title(&(name, options, roughly): &Way) -> String {
    let options: String = options.iter().map(|(name, value)| format!(" {name} {value}")).collect();
    let name = match name {
        "observe" => "default",
        "controlled_contention" => "cc",
        other => other,
    };
    format!("{name}{options}{}", if roughly { " roughly" } else { "" })
}

/// Whether a mix is within the target.
fn within(came: &Came, default: &Came) -> bool {
    came.speedup >= 1.25 && came.throughput >= 1.1 && came.jain >= default.jain
}

fn tell(what: &str, mixes: &[(&Mix, Vec<Came>)], titles: &[String]) {
    println!("\n{what}: {} mixes", mixes.len());
    println!(
        "{:<16} {:>8} {:>8} {:>9} {:>7} {:>6} {:>8} {:>6} {:>14}",
        "", "speed-up", "at most", "in target", "thr", "Jain", "slowdown", "worst", "no help"
    );
    for (way, title) in titles.iter().enumerate() {
        let mean = |of: &dyn Fn(&Came) -> f64| {
            geometric_mean(&mixes.iter().map(|(_, came)| of(&came[way])).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        let losses: Vec<f64> = mixes.iter().flat_map(|(_, came)| came[way].losses.clone()).collect();
        println!(
            "{title:<16} {:7.3}x {:7.3}x {:>9} {:+6.0} % {:6.3} {:7.2}x {:6.2} {:+6.1} % {:+5.0} %",
            mean(&|c| c.speedup),
            mean(&|c| c.at_most),
            mixes.iter().filter(|(_, came)| within(&came[way], &came[DEFAULT])).count(),
            100.0 * (mean(&|c| c.throughput) - 1.0),
            mean(&|c| c.jain),
            mean(&|c| c.slowdown),
            mean(&|c| c.worst),
            100.0 * (geometric_mean(&losses).unwrap_or(1.0) - 1.0),
            100.0 * (losses.iter().copied().fold(0.0, f64::max) - 1.0),
        );
    }
}

fn tell_each(mix: &Mix, came: &[Came], titles: &[String]) {
    println!("\n{}", mix.name);
    for (title, c) in titles.iter().zip(came) {
        println!(
            "  {title:<14} {:.2}x {:+4.0} % Jain {:.2} slowdown {:5.2}x worst {:.2}",
            c.speedup,
            100.0 * (c.throughput - 1.0),
            c.jain,
            c.slowdown,
            c.worst
        );
    }
    for (i, tenant) in mix.scenario.tenants.iter().enumerate() {
        let of_way =
            |c: &Came| c.slowdowns.iter().map(|s| format!("{:5.1}", s[i])).collect::<Vec<_>>().join("");
        let all: Vec<String> = came.iter().map(of_way).collect();
        println!("  {:<32} {}", tenant.name, all.join(" |"));
    }
}

fn main() {
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with("--"));
    let has = |flag: &str| flags.iter().any(|f| f == flag);
    let is_asked = |mix: &&Mix| {
        let half = (has("--tuned"), has("--held-out"));
        (half.0 == half.1 || half.0 == mix.is_tuned)
            && (words.is_empty() || words.iter().any(|w| mix.name.contains(w.as_str())))
    };
    let groups = SIZES.map(|size| (size, true)).into_iter().chain([(4, false), (6, false)]);
    let of_group = |(cpus, (size, waits))| {
        (1..=if waits { MIXES } else { MIXES / 2 }).map(move |number| draw(cpus, size, number, waits))
    };
    let all: Vec<Mix> = MACHINES
        .into_iter()
        .flat_map(|cpus| groups.clone().map(move |group| (cpus, group)))
        .flat_map(of_group)
        .collect();
    let kept = if has("--auto") { 2 } else { WAYS.len() };
    let mut titles: Vec<String> = WAYS[..kept].iter().map(title).collect();
    if has("--oracle") {
        titles.extend(ORACLE.map(|quarters| format!("cc dc {}/4", quarters)));
        titles.push("cc, best dc".into());
    }
    let all_ways = |mix: &Mix| {
        let mut ways = WAYS[..kept].to_vec();
        if has("--oracle") {
            for quarters in ORACLE {
                let dc: &'static str = (mix.cpus * quarters / 4).to_string().leak();
                ways.push(("controlled_contention", vec![("dc", dc)].leak(), false));
            }
        }
        let mut came = runs(mix, &ways, has("--timeline"));
        if has("--oracle") {
            let ours = came[kept - 2..kept - 1].iter().chain(&came[kept..]);
            let best = ours.max_by(|a, b| a.speedup.total_cmp(&b.speedup)).cloned();
            came.extend(best);
        }
        came
    };
    let asked: Vec<&Mix> = all.iter().filter(is_asked).collect();
    let came: Vec<Vec<Came>> = match has("--timeline") {
        true => asked.iter().map(|mix| all_ways(mix)).collect(),
        false => asked.par_iter().map(|mix| all_ways(mix)).collect(),
    };
    let judged: Vec<(&Mix, Vec<Came>)> = asked.into_iter().zip(came).collect();
    if has("--each") || has("--timeline") {
        judged.iter().for_each(|(mix, came)| tell_each(mix, came, &titles));
    }
    if has("--auto") {
        for (mix, came) in &judged {
            let auto = &came[1];
            println!(
                "{:<7} speed-up {:.3}x, done {:+4.0} %, slowdown {:6.3}x for {:6.3}x, worst {:.2}",
                mix.name,
                auto.speedup,
                100.0 * (auto.throughput - 1.0),
                auto.slowdown,
                came[DEFAULT].slowdown,
                auto.worst
            );
        }
    }
    for cpus in MACHINES {
        for (half, is_tuned) in [("tuned", true), ("held out", false)] {
            for (kind, waits) in [("some wait for each other", true), ("nobody needs help", false)] {
                let of = |mix: &Mix| {
                    mix.cpus == cpus && mix.is_tuned == is_tuned && mix.need_none.contains(&false) == waits
                };
                let some: Vec<_> = judged.iter().filter(|(mix, _)| of(mix)).cloned().collect();
                if !some.is_empty() {
                    tell(&format!("{cpus} CPUs, {kind}, {half}"), &some, &titles);
                }
            }
        }
    }
}
