//! A parallel discrete-event simulation: PHOLD with events of calibrated work, on the engine of `corun-pdes`.
//!
//! The workers are threads of the crew, so they are named, pinned, counted and stopped like those of any load. An iteration is a
//! committed event. Work counts everything that was done, including events that were taken back later and those handled again to
//! restore a state.

use crate::crew::Crew;
use crate::kernel::Kernel;
use crate::load_thread::Pace;
use crate::plan::{threads, Plan};
use crate::watch::{Ended, Watch};
use crate::{affinity, LoadError};
use corun_model::duration::human_ns;
use corun_model::workload::{Idle, Mapping, Pdes};
use corun_pdes::models::Phold;
use corun_pdes::{Context, Model, Options, Run};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Work of a worker between two rounds of global virtual time, for short events. Progress is reported at this interval.
const ROUND_NS: u64 = 5_000_000;

/// The plan of `program`.
///
/// # Errors
/// The CPUs that this process may use cannot be read.
pub fn plan(program: &Pdes) -> Result<Plan, LoadError> {
    // Fixed mapping also maps workers to CPUs.
    let cpus = match program.mapping {
        Mapping::Fm if program.cpus.is_empty() => affinity::allowed_cpus().map_err(LoadError::Affinity)?,
        _ => program.cpus.clone(),
    };
    Ok(Plan {
        what: describe(program),
        unit: "event",
        threads: Plan::alike("pdes", program.threads),
        cpus,
        length: program.length(),
        demand: None,
        waits: false,
        works: true,
    })
}

fn describe(p: &Pdes) -> String {
    let mapping = match p.mapping {
        Mapping::Fm => "fixed mapping",
        Mapping::Pool => "a work pool",
        Mapping::Ladm => "LADM",
    };
    let (workers, grain) = (threads(p.threads), human_ns(p.grain));
    format!("simulation (Time Warp), {mapping}, {workers}, {} LPs, grain {grain}", p.lps)
}

/// PHOLD with events of a given duration.
struct Calibrated<'a> {
    phold: Phold,
    loops: u64,
    cut: &'a AtomicBool,
}

thread_local! {
    /// Loops of the kernel on this thread.
    static LOOPS: Cell<u64> = const { Cell::new(0) };
}

impl Model for Calibrated<'_> {
    type State = u64;
    type Event = ();

    fn lps(&self) -> u32 {
        self.phold.lps
    }

    fn start(&self, context: &mut Context<'_, ()>) -> u64 {
        self.phold.start(context)
    }

    fn handle(&self, state: &mut u64, event: &(), context: &mut Context<'_, ()>) {
        // Events that an ended run still handles need no work.
        if self.loops > 0 && !self.cut.load(Relaxed) {
            Kernel::registers().run(self.loops);
            LOOPS.set(LOOPS.get() + self.loops);
        }
        self.phold.handle(state, event, context);
    }
}

fn options(p: &Pdes) -> Options {
    let rounds = (ROUND_NS / p.grain.max(1)).clamp(1, 4_096) as u32;
    Options {
        until: p.until(),
        seed: p.seed,
        workers: p.threads as usize,
        kps: Some(p.kernel_processes()),
        // The crew pins.
        mapping: match p.mapping {
            Mapping::Fm => corun_pdes::Mapping::Fixed { pin: false },
            Mapping::Pool => corun_pdes::Mapping::Pool,
            Mapping::Ladm => corun_pdes::Mapping::ladm(),
        },
        idle: match p.idle {
            Idle::Spin => corun_pdes::Idle::Spin,
            Idle::Yield => corun_pdes::Idle::Yield,
            Idle::Block => corun_pdes::Idle::Block,
        },
        window: (p.window > 0).then_some(p.window),
        gvt_every: rounds,
        ..Options::default()
    }
}

/// Runs `program`. Events that are committed at the end, and were not reported before, count for the first worker.
///
/// # Errors
/// As [`Crew::run`], or the engine's error.
pub fn run(program: &Pdes, pace: Pace, crew: &Crew, watch: &mut Watch) -> Result<Ended, LoadError> {
    let model = Calibrated {
        phold: Phold {
            lps: program.lps,
            population: program.population,
            remote_ppm: (program.remote * 1e6).round() as u32,
            look_ahead: program.look_ahead,
            mean_delay: program.mean_delay,
            grain: 0,
        },
        loops: pace.loops(program.grain),
        cut: &crew.cut,
    };
    let options = options(program);
    let run = Run::new(&model, &options).map_err(LoadError::Pdes)?;
    let ended = crew.run(watch, |number| {
        let (run, tally) = (&run, &crew.tallies[number]);
        move || {
            run.work(number, |committed| {
                tally.iterations.add(committed);
                !crew.is_cut()
            });
            tally.loops.add(LOOPS.take());
        }
    })?;
    let outcome = run.finish().map_err(LoadError::Pdes)?;
    let told: u64 = crew.tallies.iter().map(|tally| tally.iterations.get()).sum();
    crew.tallies[0].iterations.add(outcome.committed - told);
    Ok(ended)
}
