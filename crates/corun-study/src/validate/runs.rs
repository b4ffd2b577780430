//! A run of the study: its cells live, then the one fitted number, then the cells and the real programs on the modelled machine. An
//! earlier result can replace the live runs.

use crate::study::{Earlier, Files, Listener, Place, Study, StudyError, StudyFile};
use crate::this_machine::this_machine;
use crate::validate::cell::{Cell, Half, Setting};
use crate::validate::cell_outcome::{CellOutcome, Live};
use crate::validate::file::ValidateStudy;
use crate::validate::outcome::{self, MachineNote, Outcome};
use crate::validate::real::RealOutcome;
use crate::validate::{fit, live, modelled, record, text, verdict};
use corun_linux::probe::LiveOptions;
use corun_linux::sched::autogroups_are_on;
use corun_linux::target::Subject;
use corun_linux::watcher::Watcher;
use corun_linux::{cpustat, Root};
use corun_model::Linux;
use corun_report::describe;
use corun_sim::machine_file::MachineModel;

/// The part of a study that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
    All,
    /// The synthetic grid.
    Grid,
    /// The real programs.
    Real,
}

/// The user's options.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The part.
    pub part: Part,
    /// Every program once and two repetitions.
    pub quick: bool,
    /// Only the cells whose name contains every one of these words.
    pub cells: Option<String>,
    /// The number of repetitions, if not that of the study.
    pub repetitions: Option<u32>,
    /// An earlier result that replaces the live runs.
    pub live: Option<Earlier>,
    /// Run live only, model nothing.
    pub live_only: bool,
    /// Leave the unseen half out of everything.
    pub fit_only: bool,
}

/// A study with the user's options.
pub struct Validation {
    study: ValidateStudy,
    options: Options,
    cells: Vec<Cell>,
    recorded: Option<Outcome>,
    outcome: Option<Outcome>,
}

impl Validation {
    /// Opens a study. Nothing runs.
    ///
    /// # Errors
    /// The file or the earlier result has an error, or lacks what the user asked for.
    pub fn open(file: &StudyFile<'_>, options: Options) -> Result<Validation, StudyError> {
        let mut study = ValidateStudy::parse(file.name, file.text)?;
        // Words and halves exist only in the grid.
        if options.part == Part::Grid || options.quick || options.fit_only || options.cells.is_some() {
            study.real.clear();
        }
        if options.quick {
            study.repetitions = study.repetitions.min(2);
        }
        study.repetitions = options.repetitions.unwrap_or(study.repetitions);
        let recorded = options.live.as_ref().map(recorded).transpose()?;
        let cells = chosen(&study, &options, recorded.as_ref())?;
        Ok(Validation { study, options, cells, recorded, outcome: None })
    }

    fn part(&self) -> String {
        let Options { part, quick, cells, fit_only, .. } = &self.options;
        let whole = match (part, quick) {
            (Part::Real, _) => "real programs",
            (_, true) => "quick",
            (Part::Grid, _) => "whole grid",
            (Part::All, _) => "whole grid and real programs",
        };
        let filter = cells.as_ref().map(|w| format!(", cells `{w}`")).unwrap_or_default();
        format!("{whole}{filter}{}", if *fit_only { ", fit half" } else { "" })
    }

    /// The live results, from now or from an earlier run.
    fn live(&self, place: &Place, at: &At<'_>, heard: Heard<'_>) -> Result<LiveResults, StudyError> {
        let Some(recorded) = &self.recorded else {
            return run_live(&self.study, &self.cells, place, at, heard);
        };
        let of = |cell: &Cell| recorded.cells.iter().find(|c| c.cell == *cell).and_then(|c| c.live.clone());
        Ok(LiveResults {
            lives: self.cells.iter().map(of).collect(),
            // Real programs that the study leaves out are left out of an earlier result too.
            real: if self.study.real.is_empty() { Vec::new() } else { recorded.real.clone() },
            note: recorded.machine.clone(),
            date: recorded.date.clone(),
        })
    }

    /// Tries the values of the fitted number, on those cells of the fit half that ran live.
    fn fit(
        &self,
        lives: &[Option<Live>],
        model: &MachineModel,
        setting: &Setting,
        heard: Heard<'_>,
    ) -> Result<Vec<fit::Tried>, StudyError> {
        let slowdown = |live: &Option<Live>| live.as_ref().and_then(Live::slowdown);
        let known: Vec<(Cell, f64)> = self
            .cells
            .iter()
            .zip(lives)
            .filter_map(|(cell, live)| Some((cell.clone(), slowdown(live)?)))
            .filter(|(cell, _)| cell.half == Half::Fit)
            .collect();
        let done = || heard(Some("fitting"));
        fit::newidle_ratio(&self.study, &known, model, setting, &done).map_err(failed)
    }
}

impl Study for Validation {
    fn runs(&self) -> u64 {
        let (cells, real) = (self.cells.len() as u64, self.study.real.len() as u64);
        let live = match self.recorded {
            Some(_) => 0,
            None => live::Arm::runs(&self.study, &self.cells) + real * live::Arm::real_runs(&self.study),
        };
        let fitted = self.cells.iter().filter(|cell| cell.half == Half::Fit).count() * fit::RATIOS.len();
        live + if self.options.live_only { 0 } else { fitted as u64 + cells + real }
    }

    fn run(&mut self, place: &Place, listener: &mut Listener<'_>) -> Result<(), StudyError> {
        let heard: Heard<'_> = listener.done;
        let root = Root::new("/");
        let model = this_machine(&root)
            .map_err(|e| StudyError::Failed(format!("reading the machine's shape: {e}")))?;
        let LiveResults { lives, mut real, mut note, date } =
            self.live(place, &At { root: &root, model: &model }, heard)?;
        note.assumed = model.assumed.iter().map(|&a| a.to_owned()).collect();
        let mut fitted = Vec::new();
        let mut models = vec![None; self.cells.len()];
        if !self.options.live_only {
            fitted = self.fit(&lives, &model, &note.setting, heard)?;
            note.setting.newidle_ratio = fit::best(&fitted).unwrap_or(note.setting.newidle_ratio);
            let done = || heard(Some("modelling"));
            let all =
                modelled::run(&self.study, &self.cells, &model, &note.setting, &done).map_err(failed)?;
            models = all.into_iter().map(Some).collect();
            for program in &mut real {
                program.model(&self.study, &model, &note.setting).map_err(failed)?;
                heard(Some("fitting real programs"));
            }
        }
        let cells: Vec<CellOutcome> = self
            .cells
            .iter()
            .cloned()
            .zip(lives)
            .zip(models)
            .map(|((cell, live), modelled)| CellOutcome { cell, live, modelled })
            .collect();
        self.outcome = Some(Outcome {
            schema: outcome::SCHEMA.into(),
            corun: place.version.into(),
            date,
            study: self.study.name.clone(),
            part: self.part(),
            machine: note,
            fitted,
            summary: verdict::summaries(&cells, &real),
            cells,
            real,
        });
        Ok(())
    }

    fn json(&self) -> String {
        self.outcome.as_ref().map_or_else(String::new, outcome::json)
    }

    fn text(&self) -> String {
        self.outcome
            .as_ref()
            .map_or_else(String::new, |outcome| text::terminal(outcome, self.options.fit_only))
    }

    fn files(&self, command: &str) -> Files {
        crate::study::named(
            self.outcome.as_ref().map_or_else(Vec::new, |outcome| record::files(outcome, command)),
        )
    }
}

/// Called after every run.
type Heard<'a> = &'a (dyn Fn(Option<&str>) + Sync);

/// The machine and its model.
struct At<'a> {
    root: &'a Root,
    model: &'a MachineModel,
}

/// The live results, from now or from an earlier run.
struct LiveResults {
    lives: Vec<Option<Live>>,
    real: Vec<RealOutcome>,
    note: MachineNote,
    date: Option<String>,
}

fn failed(error: impl std::fmt::Display) -> StudyError {
    StudyError::Failed(error.to_string())
}

fn recorded(earlier: &Earlier) -> Result<Outcome, StudyError> {
    let no_result = |what| {
        let place = earlier.place.display();
        StudyError::Usage(format!(
            "cannot use {place}: {what}; name the JSON of an earlier run of this study"
        ))
    };
    outcome::parse(&earlier.text).map_err(no_result)
}

fn chosen(
    study: &ValidateStudy,
    options: &Options,
    recorded: Option<&Outcome>,
) -> Result<Vec<Cell>, StudyError> {
    if options.part == Part::Real {
        return Ok(Vec::new());
    }
    let mut cells = if options.quick { study.quick_cells() } else { study.cells() };
    if let Some(words) = &options.cells {
        cells.retain(|c| c.matches(words));
    }
    if let Some(recorded) = recorded {
        cells.retain(|c| recorded.cells.iter().any(|r| r.cell == *c && r.live.is_some()));
    }
    if options.fit_only {
        cells.retain(|c| c.half == Half::Fit);
    }
    if cells.is_empty() {
        return Err(StudyError::NothingLeft { such_as: "barrier-spin-1ms + persistent x2" });
    }
    Ok(cells)
}

fn run_live(
    study: &ValidateStudy,
    cells: &[Cell],
    place: &Place,
    at: &At<'_>,
    heard: Heard<'_>,
) -> Result<LiveResults, StudyError> {
    let At { root, model } = at;
    let loops_per_ms = crate::pace::pace();
    let (mut watcher, _) = Watcher::start(root, LiveOptions::new(Subject::All), None).map_err(failed)?;
    let kernel = root.read("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let setting = Setting {
        // A kernel before EEVDF, or with its own name, is modelled as the usual one.
        kernel: Linux::of(&kernel)
            .filter(|l| *l >= Linux::FIRST_EEVDF)
            .map(|_| kernel.clone())
            .unwrap_or_default(),
        grouped: autogroups_are_on(root),
        newidle_ratio: 512,
        background: live::background(&mut watcher).map_err(failed)?,
    };
    let note = MachineNote {
        shape: describe(&model.machine),
        cpus: model.machine.cpu_count() as u64,
        processor: processor(root),
        kernel,
        is_virtual: cpustat::is_virtual(root),
        setting,
        source: Some(watcher.source().name().into()),
        loops_per_ms: Some(loops_per_ms),
        assumed: Vec::new(),
    };
    let mut done = |what: &str| heard(Some(what));
    let mut arm = live::Arm::new(study, &place.corun, loops_per_ms, &mut watcher).map_err(failed)?;
    let lives = arm.run(cells, &mut done).map_err(failed)?;
    let real: Result<Vec<RealOutcome>, _> = study.real.iter().map(|p| arm.real(p, &mut done)).collect();
    let lives = lives.into_iter().map(Some).collect();
    Ok(LiveResults { lives, real: real.map_err(failed)?, note, date: Some(place.date.clone()) })
}

fn processor(root: &Root) -> String {
    let text = root.read("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    name.map_or("unknown".into(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::file::VALIDATE;
    use std::path::Path;

    fn open(options: Options) -> Result<Validation, StudyError> {
        let file = StudyFile { name: "validate.toml", text: VALIDATE, folder: Path::new("") };
        Validation::open(&file, options)
    }

    #[test]
    fn a_study_has_the_runs_of_the_wanted_parts() {
        let runs = |options| open(options).unwrap().runs();
        let all = runs(Options::default());
        let grid = runs(Options { part: Part::Grid, ..Options::default() });
        let real = runs(Options { part: Part::Real, ..Options::default() });
        assert_eq!(grid + real, all);
        let words = || Some("lock spin 1ms".to_owned());
        let some = runs(Options { cells: words(), ..Options::default() });
        assert!(0 < some && some < grid);
        let once = runs(Options { cells: words(), live_only: true, ..Options::default() });
        assert!(once < some, "nothing is modelled");
        assert!(open(Options { cells: Some("no such words".into()), ..Options::default() }).is_err());
    }

    #[test]
    fn text_that_is_not_an_earlier_result_is_refused_with_its_path() {
        let live = Some(Earlier { place: "result.json".into(), text: "{}".into() });
        let refused = open(Options { live, ..Options::default() }).err().unwrap().to_string();
        assert!(refused.starts_with("cannot use result.json: "), "{refused}");
    }
}
