//! A study's runs on the modelled machine: the same two workloads, each process in its own session, on the model of this machine, with
//! the background that was measured on it.
//!
//! Every repetition runs several times, with the random lengths of the live repetition of that number. The
//! phases differ: those of the tick, of the interferer, of the background, and of the moment at which the
//! program starts. On the live machine these are chance. The model draws them, so the same study gives the
//! same result. Solo runs are made in the same way.

use crate::hash::fnv1a;
use crate::statistics::median;
use crate::validate::cell::{Cell, Setting};
use crate::validate::cell_outcome::{Modelled, Shares};
use crate::validate::file::ValidateStudy;
use corun_model::workload::draw;
use corun_model::{TenantId, Trace};
use corun_sim::engine::{Engine, Fault};
use corun_sim::experiment::all_or_first;
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Files, Participants, Scenario, TenantSpec};
use rayon::prelude::*;
use thiserror::Error;

/// How long after its first thread a process has its other threads, in nanoseconds.
const OTHERS_AFTER_NS: u64 = 2_200_000;

/// The model cannot run a cell.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ModelError {
    /// The scenario of the cell has an error.
    #[error("{cell}: {what}")]
    Scenario {
        /// The cell.
        cell: String,
        /// The error.
        what: String,
    },
    /// A checker of the modelled machine fired.
    #[error("the modelled machine is wrong: {what} ({cell}, seed {seed}, phase {phase})")]
    Bug {
        /// The cell.
        cell: String,
        /// Seed of the run.
        seed: u64,
        /// The phase of the run.
        phase: u64,
        /// The checker, and what it found.
        what: String,
    },
}

/// Provides the machine that scenarios call `host`. They name no other files.
struct HostOnly<'a>(&'a MachineModel);

impl Files for HostOnly<'_> {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        Err(format!("a cell names no files, but `{path}` was asked for"))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Ok(self.0.clone())
    }
}

/// A cell ready to be run.
pub struct PreparedCell<'a> {
    study: &'a ValidateStudy,
    name: String,
    setting: &'a Setting,
    scenario: Scenario,
}

/// One run of a cell.
#[derive(Clone, Copy)]
pub struct Take {
    /// Seed of the random lengths.
    pub seed: u64,
    /// The number of the phases of tick, interferer and background.
    pub phase: u64,
    /// Without the interferer.
    pub alone: bool,
}

/// One run of the model.
pub struct Run {
    /// Length of the program, in nanoseconds.
    pub wall_ns: u64,
    /// The shares of its task time.
    pub ledger: Shares,
    /// How often its threads left the CPU voluntarily.
    pub yields: u64,
    /// CPU time of the interferer, as a share of one CPU.
    pub interferer_demand: f64,
}

/// Runs every cell on `machine`, with all CPUs of the real one. Calls `done` once per cell, from any thread.
///
/// # Errors
/// [`ModelError`]; of several, that of the first cell.
pub fn run(
    study: &ValidateStudy,
    cells: &[Cell],
    machine: &MachineModel,
    setting: &Setting,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Modelled>, ModelError> {
    let of = |cell: &Cell| {
        let modelled = PreparedCell::of_cell(study, cell, machine, setting)?.modelled();
        done();
        modelled
    };
    all_or_first(cells.par_iter().map(of).collect())
}

/// The trace of one run of a cell (seed 1), with at most `limit` events, for inspection.
///
/// # Errors
/// As [`run`].
pub fn trace(
    study: &ValidateStudy,
    cell: &Cell,
    machine: &MachineModel,
    setting: &Setting,
    phase: u64,
    limit: usize,
) -> Result<Trace, ModelError> {
    let prepared = PreparedCell::of_cell(study, cell, machine, setting)?;
    let take = Take { seed: 1, phase, alone: false };
    let (mut engine, _) = prepared.engine(take, limit)?;
    engine.run_to_end(prepared.scenario.horizon_ns).map_err(|f| prepared.fault(take, f))?;
    Ok(engine.trace().cloned().unwrap_or_default())
}

impl<'a> PreparedCell<'a> {
    fn of_cell(
        study: &'a ValidateStudy,
        cell: &Cell,
        machine: &MachineModel,
        setting: &'a Setting,
    ) -> Result<PreparedCell<'a>, ModelError> {
        PreparedCell::new(study, &cell.name, &cell.scenario(setting), machine, setting)
    }

    /// Prepares a scenario made by [`crate::validate::cell::scenario`], under the name of its cell.
    ///
    /// # Errors
    /// [`ModelError`]: the scenario has an error.
    pub fn new(
        study: &'a ValidateStudy,
        name: &str,
        scenario: &str,
        machine: &MachineModel,
        setting: &'a Setting,
    ) -> Result<PreparedCell<'a>, ModelError> {
        let scenario = Scenario::parse("cell", scenario, &HostOnly(machine))
            .map_err(|e| ModelError::Scenario { cell: name.to_owned(), what: e.to_string() })?;
        Ok(PreparedCell { study, name: name.to_owned(), setting, scenario })
    }

    /// Makes all runs of the cell.
    ///
    /// # Errors
    /// [`ModelError`].
    pub fn modelled(&self) -> Result<Modelled, ModelError> {
        let (mut solos, mut runs) = (Vec::new(), Vec::new());
        for seed in 1..=u64::from(self.study.repetitions) {
            for phase in 0..u64::from(self.study.phases) {
                solos.push(self.run(Take { seed, phase, alone: true })?);
                runs.push(self.run(Take { seed, phase, alone: false })?);
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

    /// Makes one run.
    ///
    /// # Errors
    /// [`ModelError`].
    pub fn run(&self, take: Take) -> Result<Run, ModelError> {
        let fault = |f: Fault| self.fault(take, f);
        let bad = |what: &str| self.bad(what.to_owned());
        let (mut engine, begin_ns) = self.engine(take, 0)?;
        // Activity before the program does not belong to its window.
        engine.run_until(begin_ns).map_err(fault)?;
        engine.observe();
        if !engine.run_to_end(self.scenario.horizon_ns).map_err(fault)? {
            return Err(bad("it has not ended at the horizon"));
        }
        let seen = engine.try_observe().map_err(fault)?;
        let progress = engine.progress();
        let account_of = |name: &str| {
            let tenant = progress.iter().position(|p| p.name == name)?;
            let id = TenantId(tenant as u32);
            seen.by_tenant.iter().find(|t| t.id == id).map(|t| &t.account)
        };
        let subject = account_of("subject").ok_or_else(|| bad("its program did not run"))?;
        let parts = subject.ledger.parts();
        let shares = Shares::of(parts.compute_ns, parts.spin_ns.unwrap_or(0), parts.block_ns, parts.steal_ns);
        let ended = progress.iter().find(|p| p.name == "subject").and_then(|p| p.completions.first);
        let ended = ended.ok_or_else(|| bad("its program did not end"))?;
        let interferer_ns = account_of("interferer").map_or(0, |a| a.ledger.on_cpu_ns());
        Ok(Run {
            wall_ns: ended.end_ns - ended.last_phase_ns,
            ledger: shares.ok_or_else(|| bad("its program did not run"))?,
            yields: subject.events.blocked.unwrap_or(0),
            interferer_demand: interferer_ns as f64 / seen.window_ns().max(1) as f64,
        })
    }

    /// The machine before its first event, and the time at which the program's process starts.
    fn engine(&self, take: Take, trace_limit: usize) -> Result<(Engine, u64), ModelError> {
        let name = fnv1a(self.name.as_bytes());
        let draw = |index: u64, below: u64| draw::bits(take.phase, name, index) % below.max(1);
        let mut scenario = self.scenario.clone();
        let tick_ns = scenario.scheduler.tick.map_or(scenario.machine.tick_ns, |t| t.0);
        let first_ns = draw(0, tick_ns);
        let begin_ns = first_ns + self.study.lead + draw(1, self.study.spread);
        let mut start = |tenant: &mut TenantSpec| {
            let process_ns = if tenant.name.starts_with("subject") { begin_ns } else { first_ns };
            tenant.start_ns =
                match tenant.name.strip_prefix("background ").and_then(|i| i.parse::<usize>().ok()) {
                    Some(i) => draw(2 + i as u64, self.setting.background[i].every_ns),
                    None if tenant.name.ends_with("first thread") => process_ns,
                    None => process_ns + OTHERS_AFTER_NS,
                };
        };
        scenario.tenants.retain(|t| !take.alone || !t.name.starts_with("interferer"));
        scenario.tenants.iter_mut().for_each(&mut start);
        let engine = scenario.engine(take.seed, Participants::All, trace_limit);
        Ok((engine.map_err(|e| self.bad(e.to_string()))?, begin_ns))
    }

    fn bad(&self, what: String) -> ModelError {
        ModelError::Scenario { cell: self.name.clone(), what }
    }

    fn fault(&self, take: Take, fault: Fault) -> ModelError {
        let Take { seed, phase, .. } = take;
        match fault {
            Fault::Scenario(what) => self.bad(what),
            bug => ModelError::Bug { cell: self.name.clone(), seed, phase, what: bug.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::file::VALIDATE;
    use corun_model::Machine;

    fn study() -> ValidateStudy {
        let study = ValidateStudy::parse("v", VALIDATE).unwrap();
        ValidateStudy { repetitions: 2, phases: 2, ..study }
    }

    fn model(filter: &str) -> Vec<(Cell, Modelled)> {
        let study = study();
        let machine = MachineModel::of(Machine::synthetic(1, 1, 2, 1));
        let cells: Vec<Cell> = study.cells().into_iter().filter(|c| c.matches(filter)).collect();
        let modelled = run(
            &study,
            &cells,
            &machine,
            &Setting { grouped: true, newidle_ratio: 512, ..Setting::default() },
            &|| (),
        )
        .unwrap();
        cells.into_iter().zip(modelled).collect()
    }

    #[test]
    fn a_busy_neighbor_slows_a_program_down_and_two_slow_it_down_more() {
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
