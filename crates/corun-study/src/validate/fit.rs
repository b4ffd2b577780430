//! Fits the one number that the model needs and a live kernel does not show: how often a newly idle CPU looks for a task. The kernel
//! learns it from its own success (see `corun_sim::sched`). So it depends on everything that the machine has run before, and only
//! debugfs would show it.
//!
//! Method: the cells of the fit half are modelled with each of a few values. The value with the least mean of `|ln(modelled / live)|`
//! is taken. The unseen half is not used.

use crate::validate::cell::{Cell, Half, Setting};
use crate::validate::file::ValidateStudy;
use crate::validate::modelled::{self, ModelError};
use corun_sim::machine_file::MachineModel;
use serde::{Deserialize, Serialize};

/// The tried values, out of 1024.
pub const RATIOS: [u32; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];
/// Modelled runs per repetition during the fit.
const PHASES: u32 = 3;

/// A tried value, and its error on the fit half.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The chances out of 1024 that a newly idle CPU takes.
    pub newidle_ratio: u32,
    /// Mean of `|ln(modelled / live)|` over the fit half.
    pub error: f64,
}

/// Tries every value on the cells of the fit half, given with their live slowdowns. Calls `done` once per cell and value. Returns an
/// empty list without such cells.
///
/// # Errors
/// As [`modelled::run`].
pub fn newidle_ratio(
    study: &ValidateStudy,
    cells: &[(Cell, f64)],
    machine: &MachineModel,
    setting: &Setting,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Tried>, ModelError> {
    let (cells, live): (Vec<Cell>, Vec<f64>) =
        cells.iter().filter(|(c, _)| c.half == Half::Fit).cloned().unzip();
    if cells.is_empty() {
        return Ok(Vec::new());
    }
    let study = ValidateStudy { phases: study.phases.min(PHASES), ..study.clone() };
    let tried = RATIOS.iter().map(|&newidle_ratio| {
        let setting = Setting { newidle_ratio, ..setting.clone() };
        let modelled = modelled::run(&study, &cells, machine, &setting, done)?;
        let off = modelled.iter().zip(&live).map(|(m, live)| (m.slowdown / live).ln().abs());
        Ok(Tried { newidle_ratio, error: off.sum::<f64>() / live.len() as f64 })
    });
    tried.collect()
}

/// The value with the least error.
pub fn best(tried: &[Tried]) -> Option<u32> {
    tried.iter().min_by(|a, b| a.error.total_cmp(&b.error)).map(|t| t.newidle_ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::file::VALIDATE;
    use corun_model::Machine;

    #[test]
    fn the_value_that_a_machine_was_modelled_with_is_found_again() {
        let study =
            ValidateStudy { repetitions: 1, phases: 3, ..ValidateStudy::parse("v", VALIDATE).unwrap() };
        let machine = MachineModel::of(Machine::synthetic(1, 1, 2, 1));
        let cells: Vec<Cell> = study
            .cells()
            .into_iter()
            .filter(|c| c.half == Half::Fit && c.matches("barrier-block-10ms"))
            .collect();
        let truth = Setting { grouped: true, newidle_ratio: 1024, ..Setting::default() };
        let live = modelled::run(&study, &cells, &machine, &truth, &|| ()).unwrap();
        let known: Vec<(Cell, f64)> = cells.into_iter().zip(live.iter().map(|m| m.slowdown)).collect();
        let tried = newidle_ratio(&study, &known, &machine, &truth, &|| ()).unwrap();
        assert_eq!(best(&tried), Some(1024), "{tried:?}");
        assert!(tried.iter().any(|t| t.error > 0.02), "the value matters: {tried:?}");
    }

    #[test]
    fn without_a_cell_to_fit_on_nothing_is_fitted() {
        let study = ValidateStudy::parse("v", VALIDATE).unwrap();
        let machine = MachineModel::of(Machine::synthetic(1, 1, 2, 1));
        let tried = newidle_ratio(&study, &[], &machine, &Setting::default(), &|| ()).unwrap();
        assert_eq!((tried.len(), best(&tried)), (0, None));
    }
}
