//! What tests and examples of the predictor share: runs on the modelled machine, where the truth is known.
//!
//! A **case** is a program beside an interferer. Its truth is the time of the whole run beside the interferer by that of
//! a run alone; the prediction comes from the first third of another run with the same seed, so that taking dedicated
//! windows does not touch the truth. When windows are opened and which count is decided by the same [`Schedule`] as live.
#![allow(dead_code)]

use corun_model::dedicated::{Budget, Spending, SETTLE_NS};
use corun_model::workload::{Program, Sync};
use corun_model::{Action, Host, Machine, Observation, Refusal, RunLog, TenantId};
use corun_predict::schedule::{Found, InTheWay, Next, Taken, OTHERS, SLOT_NS, WINDOW_NS};
use corun_predict::useful_work::Window;
use corun_predict::{
    AloneTime, Assignment, CannotTell, Estimate, Label, Options, Predictor, Recorded, Replayer, Schedule,
};
use corun_sim::engine::Engine;
use corun_sim::machine_file::MachineModel;
use corun_sim::replay::modelled::run_log;
use corun_sim::scenario::{Files, Participants, Runs, Scenario};

/// The program that is predicted.
pub const SUBJECT: TenantId = TenantId(0);
/// Whom it shares the machine with.
pub const CORUNNER: TenantId = TenantId(1);
const MS: u64 = 1_000_000;

/// The repository's files; `host` is a machine of so many CPUs.
pub struct Repository(pub u32);

impl Files for Repository {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        let full = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        std::fs::read_to_string(&full).map(|text| (path.to_owned(), text)).map_err(|e| format!("{path}: {e}"))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Ok(MachineModel::of(Machine::synthetic(1, 1, self.0, 1)))
    }
}

/// A scenario from its text without the schema, on a machine of so many CPUs unless it names one.
pub fn scenario(cpus: u32, body: &str) -> Scenario {
    let machine = if body.contains("machine =") { "" } else { "machine = \"host\"\n" };
    let text = format!("schema = \"corun.scenario/1\"\n{machine}{body}");
    Scenario::parse("test.toml", &text, &Repository(cpus)).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A synthetic program of 6 s alone beside an interferer, as two sessions on a Linux machine.
pub fn synthetic(cpus: u32, program: &str, interferer: &str) -> Scenario {
    scenario(
        cpus,
        &format!(
            "[[tenant]]\nname = \"subject\"\nprogram = {{ kind = \"parallel\", {program} }}\n\
             [[tenant]]\nname = \"noise\"\nprogram = {{ kind = \"interference\", {interferer} }}\n"
        ),
    )
}

/// A program of the papers beside `threads` loops (or, `loops` false, beside streamcluster), as in PACT'16 §4.
pub fn pact16(program: &str, loops: bool, threads: u32) -> Scenario {
    let cores = if threads == 1 { "[0]" } else { "[0, 1, 2, 3]" };
    let what = if loops {
        format!("program = {{ kind = \"interference\", threads = {threads} }}")
    } else {
        format!("workload = \"workloads/papers/streamcluster.toml\"\nthreads = {threads}\nrepeat = true")
    };
    scenario(
        4,
        &format!(
            "machine = \"pact16-xeon-e5620\"\n[scheduler]\nname = \"xen-credit\"\nfirst-slice = \"random\"\n[[tenant]]\nname = \"subject\"\n\
             workload = \"workloads/papers/{program}.toml\"\nvm = {{ vcpus = 4 }}\ncpus = [0, 1, 2, 3]\n\
             [[tenant]]\nname = \"co-runner\"\n{what}\nvm = {{ vcpus = {threads} }}\ncpus = {cores}\n"
        ),
    )
}

/// How long the subject's first run takes, in nanoseconds.
pub fn time_ns(scenario: &Scenario, seed: u64, participants: Participants) -> u64 {
    let mut engine = scenario.engine(seed, participants, 0).unwrap();
    assert!(engine.run_to_end(100_000_000 * MS).unwrap(), "the run has an end");
    let run = engine.progress()[0].completions.first.unwrap();
    run.end_ns - run.start_ns
}

/// Lets time pass and says what happened.
pub fn observe(engine: &mut Engine, ns: u64) -> Observation {
    engine.advance(ns).unwrap();
    Host::observe(engine).unwrap()
}

/// How windows are taken.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Open dedicated windows, as `corun predict --dedicated` does.
    pub dedicated: bool,
    /// Replay what the subject did, as `corun predict` does without dedicated windows.
    pub replay: bool,
    /// What the predictor is told of wake-ups, as [`Options::wake_up_ns`].
    pub wake_up_ns: u64,
}

/// Why nobody can park the tenants after [`CORUNNER`]: they stand for what a live machine protects.
fn refusal(tenant: TenantId) -> (TenantId, Refusal) {
    (tenant, Refusal::Controller("it is not to be parked".into()))
}

/// What a predictor assumes of the subject of a scenario.
fn options(scenario: &Scenario, how: Sampling) -> Options {
    let statically = match &scenario.tenants[0].runs {
        Runs::Workload(w) => matches!(&w.program, Program::Parallel(p) if p.sync == Sync::None),
        Runs::Recorded(_) => false,
    };
    let assignment = if statically { Assignment::Static } else { Assignment::Dynamic };
    Options { assignment, wake_up_ns: how.wake_up_ns, ..Options::default() }
}

/// Feeds a predictor from the first third of a run of `run_ns`, with the windows, schedule and budget of `corun predict`.
pub fn predict(scenario: &Scenario, seed: u64, run_ns: u64, how: Sampling) -> Result<Estimate, CannotTell> {
    predict_by_windows(scenario, seed, run_ns, how).0
}

/// The same, and what came of its dedicated windows. Of the co-runners only [`CORUNNER`] can be parked.
pub fn predict_by_windows(
    scenario: &Scenario,
    seed: u64,
    run_ns: u64,
    how: Sampling,
) -> (Result<Estimate, CannotTell>, Found) {
    let mut predictor = Predictor::new(SUBJECT, options(scenario, how));
    let (evidence, found) = seen(scenario, seed, run_ns, how, &mut predictor, &mut |_| {});
    evidence.into_iter().for_each(|e| predictor.push_evidence(e));
    (predictor.estimate(), found)
}

/// The windows of the first third of a run of `run_ns` in the order of time, and what a replay shows of it.
pub fn windows(
    scenario: &Scenario,
    seed: u64,
    run_ns: u64,
    how: Sampling,
) -> (Vec<Recorded>, Option<AloneTime>) {
    let mut predictor = Predictor::new(SUBJECT, options(scenario, how));
    let mut recorded = Vec::new();
    let (evidence, _) =
        seen(scenario, seed, run_ns, how, &mut predictor, &mut |window| recorded.push(window));
    (recorded, evidence)
}

/// Runs the first third of a run; the predictor, which takes all windows, says when to open dedicated ones.
fn seen(
    scenario: &Scenario,
    seed: u64,
    run_ns: u64,
    how: Sampling,
    predictor: &mut Predictor,
    record: &mut dyn FnMut(Recorded),
) -> (Option<AloneTime>, Found) {
    let not_parked: Vec<(TenantId, Refusal)> =
        (2..scenario.tenants.len() as u32).map(|id| refusal(TenantId(id))).collect();
    let mut all = Vec::new();
    let mut push = |predictor: &mut Predictor, seen: &Observation, label| {
        let _ = predictor.push(seen, label);
        if how.replay {
            all.push(seen.clone());
        }
        record(Recorded { label, window: Window::of(seen, SUBJECT) });
    };
    let trace_limit = if how.replay { 1 << 23 } else { 0 };
    let mut engine = scenario.engine(seed, Participants::All, trace_limit).unwrap();
    let mut schedule = Schedule::new(SUBJECT, engine.now_ns());
    let mut spending =
        Spending::new(WINDOW_NS, Budget::default()).expect("windows of the default length fit");
    while engine.now_ns() < run_ns / 3 {
        let before = observe(&mut engine, SLOT_NS);
        push(predictor, &before, Label::Shared);
        let start_ns = engine.now_ns();
        let is_due = how.dedicated && schedule.next(start_ns, predictor.wants_dedicated()) == Next::Open;
        if !is_due || spending.due_in_ns(start_ns) > 0 {
            continue;
        }
        let ran_ns = |id: TenantId| {
            before.by_tenant.iter().find(|t| t.id == id).map_or(0, |t| t.account.ledger.on_cpu_ns())
        };
        let in_the_way: Vec<InTheWay> = not_parked
            .iter()
            .map(|(id, why)| InTheWay { tenant: *id, why: why.clone(), on_cpu_ns: ran_ns(*id) })
            .collect();
        let in_the_way_ns: u64 = in_the_way.iter().map(|o| o.on_cpu_ns).sum();
        if in_the_way_ns as f64 > OTHERS * (before.window_ns() * before.cpus.len() as u64) as f64 {
            schedule.not_dedicated(&before, &in_the_way, 1);
            continue;
        }
        engine.apply(&Action::Park { tenant: CORUNNER });
        observe(&mut engine, SETTLE_NS);
        let seen = observe(&mut engine, WINDOW_NS);
        engine.apply(&Action::Unpark { tenant: CORUNNER });
        let parked_ns = engine.now_ns() - start_ns;
        spending.spend(start_ns, engine.now_ns());
        let window = Taken {
            seen: &seen,
            parked: &[CORUNNER],
            not_parked: &not_parked,
            parked_ns,
            leaked_ns: 0,
            subject_ended: engine.progress()[0].completions.first.is_some(),
        };
        if schedule.opened(&window).is_ok() {
            push(predictor, &seen, Label::Dedicated);
        }
    }
    let found = schedule.found().clone();
    let evidence = engine.trace().and_then(|trace| {
        let cpus = scenario.machine.machine.cpu_count();
        replayed(&run_log(trace, SUBJECT, cpus, engine.now_ns(), &[]), how.wake_up_ns, &all)
    });
    (evidence, found)
}

/// What a replay shows of a run log, which comes in windows as it does live, given what was seen besides.
pub fn replayed(log: &RunLog, wake_up_ns: u64, seen: &[Observation]) -> Option<AloneTime> {
    let mut replayer = Replayer::new((wake_up_ns > 0).then_some(wake_up_ns));
    for start_ns in (0..log.end_ns).step_by(SLOT_NS as usize) {
        let end_ns = (start_ns + SLOT_NS).min(log.end_ns);
        let is_in = |t_ns: u64| start_ns <= t_ns && (t_ns < end_ns || end_ns == log.end_ns);
        let events = log.events.iter().filter(|e| is_in(e.t_ns)).copied().collect();
        replayer.push(&RunLog { cpus: log.cpus, start_ns, end_ns, lost: log.lost, events });
    }
    seen.iter().for_each(|window| replayer.see(window, SUBJECT));
    replayer.evidence(true, true)
}

/// The truth of a case and what was predicted.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Time beside the co-runner by time alone.
    pub truth: f64,
    /// The estimate.
    pub estimate: Estimate,
}

impl Outcome {
    /// Relative error of the slowdown, at least 0.
    pub fn error(&self) -> f64 {
        (self.estimate.slowdown / self.truth - 1.0).abs()
    }

    /// Whether the interval holds the truth.
    pub fn is_covered(&self) -> bool {
        (self.estimate.interval[0]..=self.estimate.interval[1]).contains(&self.truth)
    }
}

/// Runs a case.
pub fn outcome(scenario: &Scenario, seed: u64, how: Sampling) -> Outcome {
    let co_ns = time_ns(scenario, seed, Participants::All);
    let alone_ns = time_ns(scenario, seed, Participants::Solo(0));
    let truth = co_ns as f64 / alone_ns as f64;
    let estimate = predict(scenario, seed, co_ns, how).unwrap_or_else(|e| panic!("{}: {e}", scenario.name));
    Outcome { truth, estimate }
}

/// The synthetic programs of so many threads: every way to depend on each other and to wait, three grains, even and uneven.
pub fn programs(threads: u32) -> Vec<(String, String)> {
    let kinds = [
        ("barrier", "sync = \"barrier\"", 1.0, true),
        ("barrier, sleeping", "sync = \"barrier\", sleep = \"GRAIN\"", 0.5, true),
        ("lock", "sync = \"lock\", critical = 0.2", 1.0, true),
        ("lock, always taken", "sync = \"lock\", critical = 0.6", 1.0, true),
        ("lock, devices", "sync = \"lock\", critical = 0.1, io = \"GRAIN\"", 0.5, true),
        ("pipeline", "sync = \"pipeline\", stages = THREADS", 1.0, true),
        ("pipeline, uneven", "sync = \"pipeline\", stages = FEWER", 1.0, true),
        ("queue", "sync = \"queue\"", f64::from(threads), false),
        ("work stealing", "sync = \"steal\"", f64::from(threads), false),
        ("independent", "sync = \"none\"", 1.0, false),
    ];
    let mut found = Vec::new();
    for (name, sync, length, waits) in kinds {
        for wait in ["spin", "block", "spin-then-block"].iter().filter(|w| waits || **w == "block") {
            for grain_us in [300u64, 3_000, 30_000] {
                for imbalance in [0.0, 0.3] {
                    let iterations = (6e6 / grain_us as f64 * length) as u64;
                    let sync = sync
                        .replace("GRAIN", &format!("{grain_us}us"))
                        .replace("THREADS", &threads.to_string())
                        .replace("FEWER", &(threads - 1).max(2).to_string());
                    let program = format!(
                        "threads = {threads}, {sync}, wait = \"{wait}\", grain = \"{grain_us}us\", \
                         imbalance = {imbalance}, iterations = {iterations}"
                    );
                    found.push((format!("{name} / {wait} / {grain_us} us / {imbalance}"), program));
                }
            }
        }
    }
    found
}

/// The interferers: one and as many as there are CPUs, steady, regular and irregular.
pub fn interferers(cpus: u32) -> Vec<String> {
    let one = std::iter::once(("persistent", 1));
    let many = ["persistent", "periodic", "intermittent"].map(|p| (p, cpus));
    one.chain(many).map(|(p, n)| format!("pattern = \"{p}\", threads = {n}")).collect()
}
