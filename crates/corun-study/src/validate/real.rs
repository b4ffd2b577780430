//! Compares real programs with the model. Each is profiled in a solo run, and a workload is fitted to that profile (see
//! [`crate::validate::solo_fit`]). Only then it runs, live and modelled, with every interferer. All its co-runs are unseen.

use crate::validate::cell::{self, Cell, Half, Interferer, Setting, Subject};
use crate::validate::cell_outcome::{CellOutcome, Live, Modelled};
use crate::validate::file::ValidateStudy;
use crate::validate::modelled::{ModelError, PreparedCell};
use crate::validate::real_program::RealProgram;
use crate::validate::solo_fit::{self, Fitted, SoloProfile};
use corun_sim::experiment::all_or_first;
use corun_sim::machine_file::MachineModel;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// A real program, and its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealOutcome {
    /// The program.
    pub program: RealProgram,
    /// The profile of its solo run. `None` if it could not run here.
    pub profile: Option<SoloProfile>,
    /// Why it could not be run.
    pub skipped: Option<String>,
    /// The workload that imitates it.
    pub fitted: Option<Fitted>,
    /// Its co-runs.
    pub beside: Vec<Beside>,
}

/// A real program with an interferer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The interferer.
    pub interferer: Interferer,
    /// The live runs. `None` if not run.
    pub live: Option<Live>,
    /// The modelled runs. `None` if not run.
    pub modelled: Option<Modelled>,
}

impl Beside {
    /// An entry without runs.
    pub fn new(interferer: Interferer) -> Beside {
        Beside { interferer, live: None, modelled: None }
    }
}

impl RealOutcome {
    /// A program that could not be run.
    pub fn skipped(program: RealProgram, why: String) -> RealOutcome {
        RealOutcome { program, profile: None, skipped: Some(why), fitted: None, beside: Vec::new() }
    }

    /// Fits a workload to the program's profile, and models all its co-runs.
    ///
    /// # Errors
    /// [`ModelError`].
    pub fn model(
        &mut self,
        study: &ValidateStudy,
        machine: &MachineModel,
        setting: &Setting,
    ) -> Result<(), ModelError> {
        let Some(profile) = &self.profile else { return Ok(()) };
        let fitted = solo_fit::fit(&self.program.name, profile, study, machine, setting)?;
        let model = |beside: &Beside| {
            let name = self.program.beside(&beside.interferer);
            let scenario = cell::scenario(&name, setting, &beside.interferer, &fitted.phase);
            PreparedCell::new(study, &name, &scenario, machine, setting)?.modelled()
        };
        let all: Vec<Modelled> = all_or_first(self.beside.par_iter().map(model).collect())?;
        for (beside, modelled) in self.beside.iter_mut().zip(all) {
            beside.modelled = Some(modelled);
        }
        self.fitted = Some(fitted);
        Ok(())
    }

    /// Its co-runs as cells, for the tables of all cells: the subject has the program's name, and nothing else.
    pub fn cells(&self) -> Vec<CellOutcome> {
        let subject = || Subject {
            sync: self.program.name.clone(),
            wait: String::new(),
            grain: String::new(),
            grain_ns: 0,
            threads: self.profile.as_ref().map_or(0, |p| p.threads),
            iterations: 0,
        };
        let of = |b: &Beside| CellOutcome {
            cell: Cell {
                name: self.program.beside(&b.interferer),
                subject: subject(),
                interferer: b.interferer.clone(),
                half: Half::Unseen,
            },
            live: b.live.clone(),
            modelled: b.modelled.clone(),
        };
        self.beside.iter().map(of).collect()
    }
}
