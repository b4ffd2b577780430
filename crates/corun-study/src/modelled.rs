//! A study's runs on the modelled machine: the same two workloads, the interferer first, each in a session of its
//! own, on the model of this machine.
//!
//! Every repetition is run several times, with the random lengths of the live repetition of that number and with
//! other phases: of the tick, of the interferer, and of the moment at which the program starts. Live these are
//! chance; the model draws them, so the same study gives the same result. Solo runs are made likewise.

use crate::cell::{fnv1a, Cell, Kernel};
use crate::outcome::{Modelled, Shares};
use crate::study::Study;
use crate::verdict::median;
use corun_model::workload::draw;
use corun_model::{Host, TenantId, Trace};
use corun_sim::engine::{Engine, Fault};
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Cast, Files, Scenario};
use rayon::prelude::*;
use thiserror::Error;

const INTERFERER: usize = 0;
const SUBJECT: usize = 1;
/// Behind the programs, in the same order, come the first threads of their processes.
const FIRST_THREADS: usize = 2;
/// How long after its first thread a process has its others.
const OTHERS_AFTER_NS: u64 = 2_200_000;

/// The model cannot run a cell.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ModelError {
    /// The cell's scenario is at fault.
    #[error("{cell}: {what}")]
    Scenario {
        /// Which cell.
        cell: String,
        /// What is wrong with it.
        what: String,
    },
    /// A checker of the modelled machine fired.
    #[error("the modelled machine is wrong: {what} ({cell}, seed {seed}, phase {phase})")]
    Bug {
        /// Which cell.
        cell: String,
        /// Seed of the run.
        seed: u64,
        /// Its phase.
        phase: u64,
        /// Checker and finding.
        what: String,
    },
}

/// The machine that scenarios call `host`; they name no files.
struct Here<'a>(&'a MachineModel);

impl Files for Here<'_> {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        Err(format!("a cell names no files, but `{path}` was asked for"))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Ok(self.0.clone())
    }
}

/// One run of the model.
struct Run {
    wall_ns: u64,
    ledger: Shares,
    interferer_demand: f64,
}

/// Runs every cell on `machine`, on all CPUs of the real one. `done` is called once per cell, from any thread.
///
/// # Errors
/// [`ModelError`]; of several, that of the first cell.
pub fn run(
    study: &Study,
    cells: &[Cell],
    machine: &MachineModel,
    kernel: &Kernel,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Modelled>, ModelError> {
    let of = |cell: &Cell| {
        let modelled = cell_on(study, cell, machine, kernel);
        done();
        modelled
    };
    cells.par_iter().map(of).collect()
}

fn cell_on(
    study: &Study,
    cell: &Cell,
    machine: &MachineModel,
    kernel: &Kernel,
) -> Result<Modelled, ModelError> {
    let scenario = parse(cell, machine, kernel)?;
    let (mut solos, mut runs) = (Vec::new(), Vec::new());
    for seed in 1..=u64::from(study.repetitions) {
        for phase in 0..u64::from(study.phases) {
            solos.push(one(study, cell, &scenario, seed, phase, true)?);
            runs.push(one(study, cell, &scenario, seed, phase, false)?);
        }
    }
    let of = |runs: &[Run], f: fn(&Run) -> f64| runs.iter().map(f).collect::<Vec<_>>();
    let solo_ns = median(&of(&solos, |r| r.wall_ns as f64)).expect("a run was made");
    let slowdowns: Vec<f64> = of(&runs, |r| r.wall_ns as f64).iter().map(|w| w / solo_ns).collect();
    Ok(Modelled {
        solo_ns: solo_ns.round() as u64,
        slowdown: median(&slowdowns).expect("a run was made"),
        slowdowns,
        ledger: Shares::mean(&runs.iter().map(|r| r.ledger).collect::<Vec<_>>()).expect("a run was made"),
        interferer_demand: of(&runs, |r| r.interferer_demand).iter().sum::<f64>() / runs.len() as f64,
    })
}

/// Who runs where in one run of a cell (seed 1), of at most `limit` events: to look into.
///
/// # Errors
/// As [`run`].
pub fn trace(
    study: &Study,
    cell: &Cell,
    machine: &MachineModel,
    kernel: &Kernel,
    phase: u64,
    limit: usize,
) -> Result<Trace, ModelError> {
    let scenario = parse(cell, machine, kernel)?;
    let (mut engine, _) = start(study, cell, &scenario, 1, phase, Cast::All, limit)?;
    engine.run_to_end(scenario.horizon_ns).map_err(|e| scenario_error(cell, e.to_string()))?;
    Ok(engine.trace().cloned().unwrap_or_default())
}

fn one(
    study: &Study,
    cell: &Cell,
    scenario: &Scenario,
    seed: u64,
    phase: u64,
    alone: bool,
) -> Result<Run, ModelError> {
    let bad = |what: String| scenario_error(cell, what);
    let fault = |fault: Fault| match fault {
        Fault::Scenario(what) => bad(what),
        bug => ModelError::Bug { cell: cell.name.clone(), seed, phase, what: bug.to_string() },
    };
    let (cast, subject) = if alone { (Cast::Solo(SUBJECT), 0) } else { (Cast::All, SUBJECT) };
    let (mut engine, begin_ns) = start(study, cell, scenario, seed, phase, cast, 0)?;
    if !alone {
        engine.run_until(begin_ns).map_err(fault)?;
        engine.observe();
    }
    let ended = engine.run_to_end(scenario.horizon_ns).map_err(fault)?;
    if !ended {
        return Err(bad("it has not ended at the horizon".into()));
    }
    let seen = Host::observe(&mut engine).map_err(|e| bad(e.to_string()))?;
    let progress = engine.progress();
    let run = progress[subject].completions.first().ok_or_else(|| bad("its program did not end".into()))?;
    let of = |tenant: usize| seen.by_tenant.iter().find(|t| t.id == TenantId(tenant as u32));
    let ledger = of(subject).map(|t| *t.account.ledger.parts()).unwrap_or_default();
    let shares = Shares::of(ledger.compute_ns, ledger.spin_ns.unwrap_or(0), ledger.block_ns, ledger.steal_ns);
    let interferer_ns = if alone { 0 } else { of(INTERFERER).map_or(0, |t| t.account.ledger.on_cpu_ns()) };
    Ok(Run {
        wall_ns: run.end_ns - run.last_phase_ns,
        ledger: shares.ok_or_else(|| bad("its program did not run".into()))?,
        interferer_demand: interferer_ns as f64 / seen.window_ns().max(1) as f64,
    })
}

/// The machine before its first event, and when the program will start at the earliest.
fn start(
    study: &Study,
    cell: &Cell,
    scenario: &Scenario,
    seed: u64,
    phase: u64,
    cast: Cast,
    trace_limit: usize,
) -> Result<(Engine, u64), ModelError> {
    let draw = |index: u64, below: u64| draw::bits(phase, fnv1a(cell.name.as_bytes()), index) % below.max(1);
    let mut scenario = scenario.clone();
    let first_ns = draw(0, machine_tick_ns(&scenario));
    let begin_ns = first_ns + study.lead + draw(1, study.spread);
    for (process, start_ns) in [(INTERFERER, first_ns), (SUBJECT, begin_ns)] {
        scenario.tenants[process].start_ns = start_ns + OTHERS_AFTER_NS;
        scenario.tenants[process + FIRST_THREADS].start_ns = start_ns;
    }
    let engine = scenario.engine(seed, cast, trace_limit).map_err(|e| scenario_error(cell, e.to_string()))?;
    Ok((engine, begin_ns))
}

fn parse(cell: &Cell, machine: &MachineModel, kernel: &Kernel) -> Result<Scenario, ModelError> {
    Scenario::parse("cell", &cell.scenario(kernel), &Here(machine))
        .map_err(|e| scenario_error(cell, e.to_string()))
}

fn scenario_error(cell: &Cell, what: String) -> ModelError {
    ModelError::Scenario { cell: cell.name.clone(), what }
}

fn machine_tick_ns(scenario: &Scenario) -> u64 {
    scenario.scheduler.tick.map_or(scenario.machine.tick_ns, |t| t.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::VALIDATE;
    use corun_model::Machine;

    fn study() -> Study {
        let study = Study::parse("v", VALIDATE).unwrap();
        Study { repetitions: 2, phases: 2, ..study }
    }

    fn model(filter: &str) -> Vec<(Cell, Modelled)> {
        let study = study();
        let machine = MachineModel::of(Machine::synthetic(1, 1, 2, 1));
        let cells: Vec<Cell> = study.cells().into_iter().filter(|c| c.matches(filter)).collect();
        let modelled =
            run(&study, &cells, &machine, &Kernel { grouped: true, newidle_ratio: 512 }, &|| ()).unwrap();
        cells.into_iter().zip(modelled).collect()
    }

    #[test]
    fn a_busy_neighbour_slows_a_program_down_and_two_slow_it_down_more() {
        let cells = model("barrier-block-10ms + persistent");
        let [one, two] = [&cells[0].1, &cells[1].1];
        assert_eq!(one.slowdowns.len(), 4);
        assert!(one.slowdown > 1.2 && two.slowdown > one.slowdown, "{} {}", one.slowdown, two.slowdown);
        assert!(one.solo_ns > 440_000_000 && one.solo_ns < 480_000_000, "{}", one.solo_ns);
        assert!(two.ledger.steal > 0.1 && two.ledger.spin == 0.0);
        assert!((two.ledger.all().iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_same_study_gives_the_same_result() {
        let filter = "lock-spin-1ms + intermittent 50% x2";
        assert_eq!(model(filter), model(filter));
    }
}
