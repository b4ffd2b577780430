//! Loads: programs with known behavior that corun runs itself, as real threads of the calling process. Use them as the target of a
//! profile, to disturb another program, or to validate a model.
//!
//! ```no_run
//! use corun_load::{run, Options, Stop};
//! use corun_model::workload::{Parallel, Program};
//!
//! let program = Program::Parallel(Parallel { iterations: 1000, ..Parallel::default() });
//! let report = run(&program, &Options::default(), &Stop::new(), |_| {})?;
//! println!("{report}");
//! # Ok::<(), corun_load::LoadError>(())
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`interference`] | persistent, periodic, intermittent (PACT'16 §2.4) |
//! | [`hold`] | calibrated interference: holds a steal or a slowdown of a victim, in a closed loop |
//! | [`goal`], [`sensor`], [`controller`], [`holding`] | its goal, its observations, its decisions, its result: all pure |
//! | [`parallel`] | barrier, lock, pipeline, queue, independent threads |
//! | [`pdes`] | a parallel discrete-event simulation (Time Warp) |
//! | [`micro`] | hubench, lubench, membench, cpu (ATC'16 §5.1) |
//! | [`command`] | a real command |
//! | [`kernel`], [`memory`], [`load_thread`], [`calibration`] | work: computing, and how much of it is a millisecond |
//! | [`eventcount`], [`barrier`], [`lock`], [`queue`] | synchronization, all with one way to wait … |
//! | [`waiting`], [`futex`] | … with an exact policy, and with an account of its cost |
//! | [`crew`], [`gate`], [`watch`], [`stop`], [`tally`] | running threads: start together, count, stop |
//! | [`plan`], [`progress`], [`report`], [`text`] | the outside of a program, its progress, its results |
//! | [`affinity`], [`clock`], [`error`] | CPUs, clocks, refusals |
//!
//! Invariants: a spinning thread makes no system call. Interference touches no memory. The same program with the same pace and seed
//! does the same work, solo and in a co-run. When [`run`] returns, none of its threads or processes is left.

pub mod affinity;
pub mod barrier;
pub mod calibration;
pub mod clock;
pub mod command;
pub mod controller;
pub mod crew;
pub mod error;
pub mod eventcount;
pub mod futex;
pub mod gate;
pub mod goal;
pub mod hold;
pub mod holding;
pub mod interference;
pub mod kernel;
pub mod load_thread;
pub mod lock;
pub mod memory;
pub mod micro;
pub mod parallel;
pub mod pdes;
pub mod plan;
pub mod progress;
pub mod queue;
pub mod report;
pub mod sensor;
pub mod stop;
pub mod tally;
pub mod text;
pub mod waiting;
pub mod watch;

pub use calibration::Calibration;
pub use error::LoadError;
pub use goal::Goal;
pub use hold::Hold;
pub use progress::Progress;
pub use report::Report;
pub use sensor::{Sample, Sensor};
pub use stop::Stop;
pub use watch::Ended;

use corun_model::workload::{Parallel, Program};
use crew::Crew;
use kernel::Kernel;
use watch::Watch;

/// How to run a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The pace of the work. `None`: measure it first (about 35 ms). Compared runs need the same pace.
    pub loops_per_ms: Option<u64>,
    /// Ends the run after this many nanoseconds. `None`: the program's own length.
    pub limit_ns: Option<u64>,
    /// Call `on_progress` this often, in nanoseconds; `None`: never.
    pub progress_every_ns: Option<u64>,
}

/// Runs `program`, and returns when it has ended by itself, by its time or by `stop`.
///
/// # Errors
/// [`LoadError`]; then nothing has run, or it has been ended.
pub fn run(
    program: &Program,
    options: &Options,
    stop: &Stop,
    mut on_progress: impl FnMut(&Progress),
) -> Result<Report, LoadError> {
    program.check().map_err(|bad| LoadError::Program { key: bad.key, what: bad.what })?;
    let mut watch = Watch::new(stop, options.limit_ns, options.progress_every_ns, &mut on_progress);
    let (plan, needed_bytes) = match program {
        Program::Command(c) => return command::run(c, options.limit_ns, &mut watch),
        Program::Interference(i) => (interference::plan(i), 0),
        Program::Parallel(p) => (parallel::plan(p), parallel::needed_bytes(p)),
        Program::Micro(m) => (micro::plan(m), micro::needed_bytes(m)),
        Program::Pdes(p) => (pdes::plan(p)?, 0),
    };
    affinity::check(&plan.cpus)?;
    memory::check(needed_bytes)?;
    let shared = match program {
        Program::Parallel(p) => parallel::shared(p),
        _ => Vec::new(),
    };
    let calibration = match options.loops_per_ms {
        Some(given) => Calibration::given(given),
        None => match program {
            Program::Parallel(p) => Calibration::measure(&mut sample(p, &shared)),
            _ => Calibration::measure(&mut Kernel::registers()),
        },
    };
    let (pace, crew) = (calibration.pace(), Crew::new(plan));
    let ended = match program {
        Program::Interference(i) => interference::run(i, pace, &crew, &mut watch)?,
        Program::Parallel(p) => parallel::run(p, &shared, pace, &crew, &mut watch)?,
        Program::Micro(m) => micro::run(m, pace, &crew, &mut watch)?,
        Program::Pdes(p) => pdes::run(p, pace, &crew, &mut watch)?,
        Program::Command(_) => unreachable!("returned above"),
    };
    Ok(Report::of(&crew, ended, crew.plan.works.then_some(calibration)))
}

/// The kernel to calibrate `program` with: that of its first thread, with at most the private memory that can be walked through in the
/// time. A longer walk is not slower per line.
fn sample<'a>(program: &Parallel, shared: &'a [memory::Line]) -> Kernel<'a> {
    const ENOUGH: u64 = 256 << 20;
    parallel::kernel(&Parallel { footprint: program.footprint.min(ENOUGH), ..program.clone() }, shared, 0)
}
