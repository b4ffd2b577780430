//! What `auto` gains for a program that runs with two busy loops on a modelled machine of two CPUs, and what
//! slots from the first moment (`gang`) would gain: `cargo run --release -p corun-sim --example beside_loops
//! [-- --timeline] [WORD…]`.
//!
//! It helps to judge changes of a policy: live runs of one program differ by more than the effect in
//! question, and these do not. The loops run from the beginning. The program, of some four seconds alone,
//! starts after one second, a little later for each of five seeds. The output is its slowdown against a solo
//! run with the same seed (mean, most), and what the loops keep of half of the machine while it runs (mean,
//! least, in hundredths). For `auto`, there are also results with `spin = false`, and with spinning reported
//! as roughly as by samples. Then, for `auto`: when slots began after the program's start, and for how long
//! all shared.
//!
//! The policy sees the loops as one tenant. If they are in one session, half is theirs by default. If each
//! has its own session, as in `corun study control`, they have two thirds.
//!
//! With words, it runs only programs whose name contains one of them. `--timeline` prints each new reason of
//! the first seed.
//!
//! Limits: the machine's noise and the roughness of the reported spinning are assumptions; 0.6 % is one slot.

mod modelled;

use corun_model::{Action, Host, Observation, Outcome, TenantId};
use corun_policy::{by_name, Options};
use corun_sim::scenario::{Participants, Scenario};
use modelled::{phases, tell_roughly, Cpus, Program, NEED_NO_HELP, WAIT_FOR_EACH_OTHER};
use rayon::prelude::*;

const SEEDS: usize = 5;
const LOOPS_ID: TenantId = TenantId(1);

const LOOPS: [(&str, &str); 2] = [
    ("one session", "program = { kind = \"interference\", threads = 2 }"),
    ("two sessions", "count = 2\nprogram = { kind = \"interference\" }"),
];

/// A program, its co-runners, and the policy.
#[derive(Clone, Copy)]
struct Way {
    participants: Participants,
    policy: Option<&'static str>,
    spin: &'static str,
    roughly: bool,
}

const ALONE: usize = 0;
const AUTO: usize = 3;
const WAYS: [Way; 6] = {
    let none = Way { participants: Participants::All, policy: None, spin: "true", roughly: false };
    let auto = Way { policy: Some("auto"), ..none };
    [
        Way { participants: Participants::Solo(0), ..none },
        none,
        Way { policy: Some("gang"), ..none },
        auto,
        Way { spin: "false", ..auto },
        Way { roughly: true, ..auto },
    ]
};

/// The results of one run.
#[derive(Clone, Copy, Default)]
struct Came {
    took_ns: f64,
    /// What the loops kept, of one CPU.
    kept: f64,
    /// Time from the program's start until a tenant was parked, and after that.
    first_ns: Option<u64>,
    shared_ns: u64,
}

/// Counts the loops as one tenant, although they have several sessions: like a cgroup of several.
fn make_one(seen: &mut Observation) {
    seen.tenants.retain(|t| t.id <= LOOPS_ID);
    for t in seen.tasks.iter_mut().filter(|t| t.tenant > LOOPS_ID) {
        t.tenant = LOOPS_ID;
    }
}

/// Applies an action on the loops to each of them.
fn of_all(action: &Action, tenants: u32) -> Vec<Action> {
    let loops = (LOOPS_ID.0..tenants).map(TenantId);
    match action {
        Action::Park { tenant: LOOPS_ID } => loops.map(|tenant| Action::Park { tenant }).collect(),
        Action::Unpark { tenant: LOOPS_ID } => loops.map(|tenant| Action::Unpark { tenant }).collect(),
        other => vec![other.clone()],
    }
}

fn run(scenario: &Scenario, seed: u64, way: Way, timeline: bool) -> Came {
    let mut engine = scenario.engine(seed, way.participants, 0).unwrap_or_else(|e| panic!("{e}"));
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
            // Until then, they had both CPUs.
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
            let why = match d.because.rule() {
                Some(rule) => format!("{rule:?}"),
                None => format!("{:?}", d.because),
            };
            if timeline && why != last {
                println!("    {:7.3} s  {}", since_ns as f64 / 1e9, why);
                last = why;
            }
            for action in of_all(&d.action, tenants) {
                assert_eq!(engine.apply(&action), Outcome::Done);
            }
        }
    }
}

/// All runs of a program with these loops: for each seed and way.
fn runs(program: &Program, loops: &str, timeline: bool) -> Vec<[Came; WAYS.len()]> {
    let one = |seed: usize| {
        let text = format!(
            "schema = \"corun.scenario/1\"\nmachine = \"host\"\n[[tenant]]\nname = \"program\"\nstart = \"{}ms\"\n\
             program = {{ kind = \"command\", argv = [\"it\"], model = [{}] }}\n\
             [[tenant]]\nname = \"loops\"\n{loops}\n",
            1_000 + 37 * seed,
            phases(program),
        );
        let scenario = Scenario::parse("it", &text, &Cpus(2)).unwrap_or_else(|e| panic!("{e}\n{text}"));
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
            for program in &asked {
                let (name, runs) = (program.0, runs(program, loops, timeline));
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
