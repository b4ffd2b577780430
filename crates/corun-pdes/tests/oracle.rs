//! The oracle: with any mapping, disturbance and bounds, a run commits the same as the sequential engine.
//!
//! Each seed draws a model and options at random. `PDES_SEEDS=10000` tries that many; `PDES_FIRST` is the
//! first seed.

use corun_pdes::models::{Phold, Queueing};
use corun_pdes::{run, run_sequentially, Disturbance, Error, Idle, Mapping, Model, Options, Outcome, Rng};
use std::sync::{Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number of seeds"))
}

/// Draws for a test. The engine's own generator is seeded through a model, which would be roundabout here.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

fn options(draws: &mut Draws, lps: u32) -> Options {
    let workers = draws.one_of(&[1, 2, 2, 3, 4]).min(lps as usize);
    let disturbance = Disturbance {
        seed: draws.below(u64::MAX),
        pause_every: draws.one_of(&[0, 20, 100]),
        pause: Duration::from_micros(draws.one_of(&[0, 20, 200])),
        remap_every: draws.one_of(&[0, 5, 100]),
    };
    Options {
        seed: draws.below(1_000),
        workers,
        kps: draws.one_of(&[None, Some(workers as u32), Some(lps)]),
        mapping: draws.one_of(&[
            Mapping::Fixed { pin: false },
            Mapping::Fixed { pin: true },
            Mapping::Pool,
            Mapping::ladm(),
            Mapping::Ladm { stale_after: Duration::from_micros(20) },
        ]),
        idle: draws.one_of(&[Idle::Spin, Idle::Yield, Idle::Yield, Idle::Block]),
        checkpoint_every: draws.one_of(&[1, 2, 4, 13]),
        gvt_every: draws.one_of(&[1, 16, 256, 4_096]),
        window: draws.one_of(&[None, None, Some(0), Some(50), Some(5_000)]),
        disturbance: Some(disturbance).filter(|_| draws.below(4) > 0),
        ..Options::default()
    }
}

/// Runs a model on both engines. Returns the outcome of the parallel run.
fn hold_against_the_sequential_engine<M: Model>(
    seed: u64,
    model: &M,
    mut options: Options,
    tightness: u64,
) -> Outcome {
    let expected = run_sequentially(model, &options).expect("the sequential engine has memory enough");
    if tightness > 0 {
        options.memory = (expected.peak_held * tightness as usize).max(16);
    }
    let outcome = run(model, &options).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{options:#?}"));
    assert_eq!(outcome.traces, expected.traces, "seed {seed}: the traces differ\n{options:#?}");
    assert_eq!(outcome.committed, expected.committed, "seed {seed}");
    assert_eq!(
        outcome.handled,
        outcome.committed + outcome.undone,
        "seed {seed}: events are lost\n{outcome:?}"
    );
    assert_eq!(
        outcome.sent,
        outcome.committed + outcome.annihilated,
        "seed {seed}: what was sent was neither committed nor taken back\n{outcome:?}"
    );
    assert_eq!(outcome.anti, outcome.annihilated, "seed {seed}");
    outcome
}

/// PHOLD for 20,000 ticks.
fn hold_phold(model: &Phold, options: Options) -> Outcome {
    hold_against_the_sequential_engine(1, model, Options { until: 20_000, ..options }, 0)
}

fn try_seed(seed: u64) -> Outcome {
    let mut draws = Draws(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..8 {
        draws.below(2);
    }
    let tightness = draws.one_of(&[0, 0, 2, 6]);
    if draws.below(3) > 0 {
        let model = Phold {
            lps: draws.one_of(&[1, 2, 7, 64]),
            population: draws.one_of(&[1, 3, 8]),
            remote_ppm: draws.one_of(&[0, 100_000, 500_000, 1_000_000]),
            look_ahead: draws.one_of(&[1, 100]),
            mean_delay: draws.one_of(&[0, 3, 1_000]),
            grain: draws.one_of(&[0, 100]),
        };
        let mut options = options(&mut draws, model.lps);
        // Some hundred events, with any delays.
        let events = u64::from(model.lps * model.population);
        options.until = 1 + (model.look_ahead + model.mean_delay) * 1_000 / events;
        hold_against_the_sequential_engine(seed, &model, options, tightness)
    } else {
        let model = Queueing {
            stations: draws.one_of(&[1, 2, 9, 40]),
            customers: draws.one_of(&[1, 4]),
            service: draws.one_of(&[0, 10, 1_000]),
            way: draws.one_of(&[1, 200]),
            far_ppm: draws.one_of(&[0, 50_000, 1_000_000]),
        };
        let mut options = options(&mut draws, model.stations);
        options.until = 1 + (model.service + model.way) * 700 / u64::from(model.stations);
        hold_against_the_sequential_engine(seed, &model, options, tightness)
    }
}

#[test]
fn a_run_commits_what_the_sequential_engine_commits() {
    let (first, seeds) = (from_environment("PDES_FIRST", 0), from_environment("PDES_SEEDS", 300));
    let (mut undone, mut coasted, mut anti, mut recalls, mut committed) = (0, 0, 0, 0, 0);
    for seed in first..first + seeds {
        let outcome = try_seed(seed);
        undone += outcome.undone;
        coasted += outcome.coasted;
        anti += outcome.anti;
        recalls += outcome.recalls;
        committed += outcome.committed;
    }
    println!(
        "{seeds} seeds: {committed} committed, {undone} undone, {coasted} coasted, {anti} anti, {recalls} recalls"
    );
    // A test of something that never happens is none.
    if seeds >= 300 {
        assert!(undone > 1_000 && coasted > 1_000 && anti > 1_000 && recalls > 10);
    }
}

#[test]
fn every_mapping_takes_preempted_workers_and_moved_kernel_processes() {
    let model = Phold { lps: 64, remote_ppm: 500_000, ..Phold::default() };
    let disturbance =
        Disturbance { seed: 3, pause_every: 50, pause: Duration::from_millis(1), remap_every: 20 };
    for mapping in [Mapping::Fixed { pin: true }, Mapping::Pool, Mapping::ladm()] {
        for workers in [1, 2, 4] {
            let disturbance = Some(disturbance);
            hold_phold(&model, Options { workers, mapping, disturbance, ..Options::default() });
        }
    }
}

/// The first logical process stays in the middle of its event at 10 until `other` has handled its own at 100,
/// as if its worker were preempted. Then it sends to `other` for 20. So the worker that handles the events of
/// `other` meanwhile has to take one back.
struct HeldUp {
    other: u32,
    has_gone_on: (Mutex<bool>, Condvar),
    /// The sequential engine runs on this thread, and handles one event after the other.
    caller: ThreadId,
}

impl Model for HeldUp {
    type State = u64;
    type Event = ();

    fn lps(&self) -> u32 {
        4
    }

    fn start(&self, context: &mut corun_pdes::Context<'_, ()>) -> u64 {
        let lp = context.lp();
        match lp {
            0 => context.send(lp, 10, ()),
            lp if lp == self.other => context.send(lp, 100, ()),
            _ => {}
        }
        0
    }

    fn handle(&self, state: &mut u64, _: &(), context: &mut corun_pdes::Context<'_, ()>) {
        *state = *state * 1_000 + context.now();
        let (has_gone_on, went_on) = &self.has_gone_on;
        let is_in_parallel = thread::current().id() != self.caller;
        if is_in_parallel && context.now() == 10 {
            let patience = Duration::from_secs(60);
            let waited =
                went_on.wait_timeout_while(has_gone_on.lock().unwrap(), patience, |gone_on| !*gone_on);
            assert!(*waited.unwrap().0, "nobody handles what others have while one is held up");
        }
        if is_in_parallel && context.now() == 100 {
            *has_gone_on.lock().unwrap() = true;
            went_on.notify_all();
        }
        if context.lp() == 0 {
            context.send(self.other, 10, ());
        }
    }
}

#[test]
fn under_every_mapping_others_continue_past_a_held_worker_and_take_back_early_events() {
    // One that another worker begins with, and one of the held worker, which others take over if they may.
    let (far, near) = (3, 1);
    for (mapping, other) in [
        (Mapping::Fixed { pin: false }, far),
        (Mapping::Fixed { pin: true }, far),
        (Mapping::Pool, far),
        (Mapping::Pool, near),
        (Mapping::ladm(), far),
        (Mapping::ladm(), near),
    ] {
        for idle in [Idle::Spin, Idle::Yield, Idle::Block] {
            let has_gone_on = (Mutex::new(false), Condvar::new());
            let model = HeldUp { other, has_gone_on, caller: thread::current().id() };
            let options = Options { until: 1_000, workers: 2, mapping, idle, ..Options::default() };
            let outcome = hold_against_the_sequential_engine(1, &model, options, 0);
            assert_eq!((outcome.undone, outcome.committed), (1, 3), "{mapping:?}, {idle:?}: {outcome:?}");
        }
    }
}

#[test]
fn one_worker_never_takes_anything_back() {
    let model = Phold { lps: 100, ..Phold::default() };
    for kps in [1, 10, 100] {
        let outcome = hold_phold(&model, Options { workers: 1, kps: Some(kps), ..Options::default() });
        assert_eq!((outcome.undone, outcome.efficiency()), (0, 1.0));
    }
}

/// Each event sends two. So they double, and memory does not suffice.
struct Doubling;

impl Model for Doubling {
    type State = u64;
    type Event = ();

    fn lps(&self) -> u32 {
        16
    }

    fn start(&self, context: &mut corun_pdes::Context<'_, ()>) -> u64 {
        let lp = context.lp();
        context.send(lp, 1, ());
        0
    }

    fn handle(&self, state: &mut u64, _: &(), context: &mut corun_pdes::Context<'_, ()>) {
        *state += 1;
        for _ in 0..2 {
            let to = context.rng().below(16) as u32;
            context.send(to, 10, ());
        }
    }
}

#[test]
fn if_memory_is_too_small_for_any_engine_both_say_so() {
    let options = Options { until: 1_000, workers: 2, memory: 10_000, ..Options::default() };
    for error in [run_sequentially(&Doubling, &options).unwrap_err(), run(&Doubling, &options).unwrap_err()] {
        assert!(matches!(error, Error::OutOfMemory { limit: 10_000, .. }), "{error:?}");
    }
}

#[test]
fn memory_stays_within_its_bound_and_costs_only_time() {
    let model = Phold { lps: 64, remote_ppm: 900_000, ..Phold::default() };
    let disturbance =
        Disturbance { seed: 1, pause_every: 100, pause: Duration::from_micros(500), remap_every: 0 };
    for (workers, memory) in [(1, 700), (2, 700), (2, 2_000), (4, 1_000)] {
        let disturbance = Some(disturbance);
        let outcome = hold_phold(&model, Options { workers, memory, disturbance, ..Options::default() });
        assert!(outcome.peak_held <= memory + 2 * workers, "{} of {memory}", outcome.peak_held);
    }
}

#[test]
fn random_numbers_are_taken_back_with_the_state() {
    // If they were not, the oracle would fail as well. Here the cause is plain.
    let draw = |rng: &mut Rng| rng.bits();
    struct Drawing(fn(&mut Rng) -> u64);
    impl Model for Drawing {
        type State = u64;
        type Event = ();
        fn lps(&self) -> u32 {
            8
        }
        fn start(&self, context: &mut corun_pdes::Context<'_, ()>) -> u64 {
            let lp = context.lp();
            context.send(lp, 1, ());
            0
        }
        fn handle(&self, state: &mut u64, _: &(), context: &mut corun_pdes::Context<'_, ()>) {
            *state ^= (self.0)(context.rng());
            let (to, delay) = ((*state % 8) as u32, 1 + *state % 100);
            context.send(to, delay, ());
        }
    }
    let disturbance =
        Disturbance { seed: 5, pause_every: 30, pause: Duration::from_micros(200), remap_every: 0 };
    let options = Options {
        until: 30_000,
        workers: 2,
        checkpoint_every: 5,
        disturbance: Some(disturbance),
        ..Options::default()
    };
    hold_against_the_sequential_engine(5, &Drawing(draw), options, 0);
}
