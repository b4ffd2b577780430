//! Real programs held against the model: each is profiled alone, a workload is fitted to that profile (see
//! [`crate::solo_fit`]), and only then it is run, live and modelled, beside every interferer. All its co-runs are
//! unseen.

use crate::cell::{self, Cell, Half, Interferer, Setting, Subject};
use crate::modelled::{ModelError, Stage};
use crate::outcome::{CellOutcome, Live, Modelled};
use crate::solo_fit::{self, Fitted, SoloProfile};
use crate::study::Study;
use corun_sim::experiment::all_or_first;
use corun_sim::machine_file::MachineModel;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};

/// Stands for the study's folder in `argv` and `prepare`.
const FOLDER: &str = "{dir}";

/// A real program, as the study file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RealProgram {
    /// What people call it.
    pub name: String,
    /// Program and arguments; `{dir}` is a folder for its input.
    pub argv: Vec<String>,
    /// What makes its input, in a shell; `{dir}` is the same folder.
    #[serde(default)]
    pub prepare: Option<String>,
}

/// A real program and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealOutcome {
    /// Which.
    pub program: RealProgram,
    /// What it did alone; `None`: it could not be run here.
    pub profile: Option<SoloProfile>,
    /// Why it could not be run.
    pub skipped: Option<String>,
    /// The workload that imitates it.
    pub fitted: Option<Fitted>,
    /// Its co-runs.
    pub beside: Vec<Beside>,
}

/// A real program beside an interferer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The interferer.
    pub interferer: Interferer,
    /// Live; `None`: not run.
    pub live: Option<Live>,
    /// Modelled; `None`: not run.
    pub modelled: Option<Modelled>,
}

impl Beside {
    /// Not yet run.
    pub fn new(interferer: Interferer) -> Beside {
        Beside { interferer, live: None, modelled: None }
    }
}

impl RealProgram {
    /// The name of its cell beside an interferer.
    pub fn beside(&self, interferer: &Interferer) -> String {
        format!("{} + {}", self.name, interferer.name())
    }

    /// Makes its input in `folder`.
    ///
    /// # Errors
    /// One sentence: the program is not installed, or its input cannot be made.
    pub fn ready(&self, folder: &Path) -> Result<(), String> {
        let program = self.argv.first().map_or("", String::as_str);
        let in_path = |dir: std::path::PathBuf| dir.join(program).is_file();
        if !std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(in_path)) {
            return Err(format!("`{program}` is not installed"));
        }
        let Some(script) = &self.prepare else { return Ok(()) };
        let script = script.replace(FOLDER, &folder.display().to_string());
        let made = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).status();
        match made {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("making its input failed ({status})")),
            Err(e) => Err(format!("making its input failed: {e}")),
        }
    }

    /// The command to run.
    pub fn command(&self, folder: &Path) -> Command {
        let folder = folder.display().to_string();
        let mut words = self.argv.iter().map(|w| w.replace(FOLDER, &folder));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).stderr(Stdio::null());
        command
    }
}

impl RealOutcome {
    /// A program that could not be run.
    pub fn skipped(program: RealProgram, why: String) -> RealOutcome {
        RealOutcome { program, profile: None, skipped: Some(why), fitted: None, beside: Vec::new() }
    }

    /// Fits the program to what it did alone, and models all its co-runs.
    ///
    /// # Errors
    /// [`ModelError`].
    pub fn model(
        &mut self,
        study: &Study,
        machine: &MachineModel,
        setting: &Setting,
    ) -> Result<(), ModelError> {
        let Some(profile) = &self.profile else { return Ok(()) };
        let fitted = solo_fit::fit(&self.program.name, profile, study, machine, setting)?;
        let model = |beside: &Beside| {
            let name = self.program.beside(&beside.interferer);
            let scenario = cell::scenario(&name, setting, &beside.interferer, &fitted.phase);
            Stage::new(study, &name, &scenario, machine, setting)?.modelled()
        };
        let all: Vec<Modelled> = all_or_first(self.beside.par_iter().map(model).collect())?;
        for (beside, modelled) in self.beside.iter_mut().zip(all) {
            beside.modelled = Some(modelled);
        }
        self.fitted = Some(fitted);
        Ok(())
    }

    /// Its co-runs as cells, for the tables that all cells are in: the subject has the program's name and no rhythm.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn program(argv: &[&str], prepare: Option<&str>) -> RealProgram {
        let argv = argv.iter().map(|w| (*w).to_owned()).collect();
        RealProgram { name: "p".into(), argv, prepare: prepare.map(str::to_owned) }
    }

    #[test]
    fn its_input_is_made_in_the_folder_that_its_arguments_name() {
        let folder = tempfile::tempdir().unwrap();
        let p = program(&["cat", "{dir}/in"], Some("seq 3 > {dir}/in"));
        p.ready(folder.path()).unwrap();
        let out = p.command(folder.path()).output().unwrap();
        assert_eq!(out.stdout, b"1\n2\n3\n");
    }

    #[test]
    fn a_program_that_is_not_here_is_said_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let why = program(&["no-such-program-at-all"], None).ready(folder.path()).unwrap_err();
        assert_eq!(why, "`no-such-program-at-all` is not installed");
        let why = program(&["cat"], Some("exit 3")).ready(folder.path()).unwrap_err();
        assert!(why.starts_with("making its input failed"), "{why}");
    }
}
