//! Runs PHOLD from the command line, to measure the engine and to try options. Arguments are `key=value …`; without any, the
//! defaults hold.
//!
//! `engine=sequential` runs the sequential engine. A tick is a thousandth of PHOLD's unit of time.

use corun_pdes::{models::Phold, run, run_sequentially, Idle, Mapping, Options};
use std::process::ExitCode;

/// Sets the option that `word` names, `key=value`. Returns `None` for a key or a value that does not exist.
fn set(word: &str, model: &mut Phold, options: &mut Options, is_sequential: &mut bool) -> Option<()> {
    let (key, value) = word.split_once('=')?;
    match (key, value) {
        ("engine", engine) => *is_sequential = engine == "sequential",
        ("lps", n) => model.lps = n.parse().ok()?,
        ("population", n) => model.population = n.parse().ok()?,
        ("remote_ppm", n) => model.remote_ppm = n.parse().ok()?,
        ("look_ahead", n) => model.look_ahead = n.parse().ok()?,
        ("mean_delay", n) => model.mean_delay = n.parse().ok()?,
        ("grain_ns", n) => model.grain = Phold::rounds_for(n.parse().ok()?),
        ("until", n) => options.until = n.parse().ok()?,
        ("seed", n) => options.seed = n.parse().ok()?,
        ("workers", n) => options.workers = n.parse().ok()?,
        ("kps", n) => options.kps = Some(n.parse().ok()?),
        ("checkpoint_every", n) => options.checkpoint_every = n.parse().ok()?,
        ("gvt_every", n) => options.gvt_every = n.parse().ok()?,
        ("window", n) => options.window = Some(n.parse().ok()?),
        ("memory", n) => options.memory = n.parse().ok()?,
        ("mapping", "fixed") => options.mapping = Mapping::Fixed { pin: true },
        ("mapping", "pool") => options.mapping = Mapping::Pool,
        ("mapping", "ladm") => options.mapping = Mapping::ladm(),
        ("idle", "spin") => options.idle = Idle::Spin,
        ("idle", "yield") => options.idle = Idle::Yield,
        ("idle", "block") => options.idle = Idle::Block,
        _ => return None,
    }
    Some(())
}

fn main() -> ExitCode {
    let (mut model, mut is_sequential) = (Phold::default(), false);
    let mut options = Options { until: 200_000, ..Options::default() };
    for word in std::env::args().skip(1) {
        if set(&word, &mut model, &mut options, &mut is_sequential).is_none() {
            eprintln!("phold: {word} is not understood; the keys and values are those of examples/phold.rs");
            return ExitCode::from(2);
        }
    }
    let outcome = if is_sequential { run_sequentially(&model, &options) } else { run(&model, &options) };
    match outcome {
        Ok(outcome) => {
            println!(
                "{:.0} events/s  {} committed in {:.3} s  {:.1} % efficient  {} rollbacks  {} rounds  digest {:016x}",
                outcome.rate(),
                outcome.committed,
                outcome.wall.as_secs_f64(),
                100.0 * outcome.efficiency(),
                outcome.rollbacks,
                outcome.rounds,
                outcome.digest()
            );
            println!("{:?}", outcome.workers);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("phold: {error}");
            ExitCode::from(2)
        }
    }
}
