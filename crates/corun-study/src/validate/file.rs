//! The study file (`corun.study/1`): which programs run with which interferers, how often, and when a live run counts. A bad file is
//! refused in one sentence with file, line and remedy.

use crate::study_file::{read, BadStudy};
use crate::validate::cell::{Cell, Half, Interferer, Subject};
use crate::validate::real_program::RealProgram;
use corun_model::duration::{parse_ns, written_ns};
use corun_model::workload::{line_of, Workload};
use serde::Deserialize;

/// Name and version of the format.
pub const SCHEMA: &str = "corun.study/1";

/// The study that corun brings along.
pub const VALIDATE: &str = include_str!("../../../../studies/validate.toml");

/// A bound, so that a typing error does not ask for a week of runs.
const MOST_CELLS: usize = 10_000;

/// A study as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ValidateStudy {
    /// Always `corun.study/1`.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its purpose, in a sentence.
    #[serde(default)]
    pub about: String,
    /// Live runs per cell.
    pub repetitions: u32,
    /// The share of the machine's CPU time that other programs may take in a live run that counts, 0 to 1.
    pub foreign: f64,
    /// How often a disturbed live run is repeated.
    pub retries: u32,
    /// How long a live run waits at most until the machine looks quiet, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub patience: u64,
    /// How long the interferer runs before the program, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub lead: u64,
    /// The most that is added to `lead`, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub spread: u64,
    /// Modelled runs per repetition.
    pub phases: u32,
    /// How cells are divided into halves; always `fnv1a-rank`.
    pub split: String,
    /// The programs.
    pub programs: Programs,
    /// The interferers.
    pub interferers: Interferers,
    /// Real programs. Each runs with every interferer.
    #[serde(default)]
    pub real: Vec<RealProgram>,
}

/// The programs: every combination of these.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Programs {
    /// Threads of each.
    pub threads: u32,
    /// `barrier`, `lock`.
    pub sync: Vec<String>,
    /// `spin`, `block`, `spin-then-block`.
    pub wait: Vec<String>,
    /// Work between two synchronizations, as people write it.
    pub grain: Vec<String>,
    /// Solo length, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub work: u64,
}

/// The interferers: every load with every number of threads.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Interferers {
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Loads.
    pub load: Vec<Load>,
}

/// A load.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Load {
    /// `persistent`, `periodic`, `intermittent`.
    pub pattern: String,
    /// Share of a CPU per thread; none for persistent.
    pub demand: Option<f64>,
}

impl ValidateStudy {
    /// Reads a study's text. Errors call the file `file`.
    ///
    /// # Errors
    /// [`BadStudy`] with file, line and remedy.
    pub fn parse(file: &str, text: &str) -> Result<ValidateStudy, BadStudy> {
        let at = |line, what: String| BadStudy { file: file.to_owned(), line, what };
        let study: ValidateStudy = read(file, text)?;
        study.check().map_err(|(key, what)| at(line_of(text, key), what))?;
        Ok(study)
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.schema != SCHEMA {
            return Err(("schema", format!("schema is `{}`, this corun reads `{SCHEMA}`", self.schema)));
        }
        if self.split != "fnv1a-rank" {
            return Err(("split", format!("split is `{}`; the only way is `fnv1a-rank`", self.split)));
        }
        if !(1..=1000).contains(&self.repetitions) {
            return Err(("repetitions", format!("repetitions is {}; give 1 to 1000", self.repetitions)));
        }
        if !(1..=1000).contains(&self.phases) {
            return Err(("phases", format!("phases is {}; give 1 to 1000", self.phases)));
        }
        if !(self.foreign > 0.0 && self.foreign <= 1.0) {
            return Err(("foreign", format!("foreign is {}; give a share above 0, up to 1", self.foreign)));
        }
        if self.programs.work == 0 {
            return Err(("work", "work is 0; give each program's length alone, such as 450ms".into()));
        }
        let p = &self.programs;
        let cells = p.sync.len()
            * p.wait.len()
            * p.grain.len()
            * self.interferers.load.len()
            * self.interferers.threads.len();
        if cells == 0 {
            return Err(("sync", "an axis of the matrix is empty; give each at least one value".into()));
        }
        if cells > MOST_CELLS {
            return Err(("sync", format!("the matrix has {cells} cells; at most {MOST_CELLS} are allowed")));
        }
        for subject in self.subjects() {
            let text = subject.workload();
            if let Err(bad) = Workload::parse("", &text) {
                let key = key_at(&text, bad.line, &["sync", "wait", "grain"]);
                return Err((key.unwrap_or("sync"), bad.what));
            }
        }
        if let Some(empty) = self.real.iter().find(|r| r.argv.is_empty() || r.name.is_empty()) {
            return Err(("real", format!("real program `{}` has no name or no command", empty.name)));
        }
        for interferer in self.interferers() {
            let text = interferer.workload(1);
            if let Err(bad) = Workload::parse("", &text) {
                return Err((key_at(&text, bad.line, &["demand"]).unwrap_or("pattern"), bad.what));
            }
        }
        Ok(())
    }

    /// The programs of the matrix, in the order of the file.
    pub fn subjects(&self) -> Vec<Subject> {
        let p = &self.programs;
        let mut all = Vec::new();
        for sync in &p.sync {
            for wait in &p.wait {
                for grain in &p.grain {
                    // A grain that cannot be read is refused together with its workload.
                    let grain_ns = parse_ns(grain).unwrap_or(0);
                    all.push(Subject {
                        sync: sync.clone(),
                        wait: wait.clone(),
                        grain: grain.clone(),
                        grain_ns,
                        threads: p.threads,
                        iterations: p.work.checked_div(grain_ns).unwrap_or(1).max(1),
                    });
                }
            }
        }
        all
    }

    /// The interferers of the matrix, in the order of the file.
    pub fn interferers(&self) -> Vec<Interferer> {
        let mut all = Vec::new();
        for load in &self.interferers.load {
            for &threads in &self.interferers.threads {
                all.push(Interferer { pattern: load.pattern.clone(), demand: load.demand, threads });
            }
        }
        all
    }

    /// Every cell of the matrix, program by program. Half of the cells are `fit`.
    pub fn cells(&self) -> Vec<Cell> {
        let interferers = self.interferers();
        let mut all = Vec::new();
        for subject in self.subjects() {
            let mut cells: Vec<Cell> =
                interferers.iter().map(|i| Cell::new(subject.clone(), i.clone())).collect();
            let mut ranked: Vec<usize> = (0..cells.len()).collect();
            ranked.sort_by_key(|&i| (cells[i].hash(), i));
            for &i in &ranked[..cells.len() / 2] {
                cells[i].half = Half::Fit;
            }
            all.extend(cells);
        }
        all
    }

    /// A part of the matrix with every program once, every interferer equally often, and both halves.
    pub fn quick_cells(&self) -> Vec<Cell> {
        let per_program = self.interferers.load.len() * self.interferers.threads.len();
        let cells = self.cells();
        // A step of 3 and an offset per turn go through all interferers before one comes again.
        let chosen = |program: usize| (program * 3 + program / per_program) % per_program;
        cells.chunks(per_program).enumerate().map(|(i, of_program)| of_program[chosen(i)].clone()).collect()
    }
}

/// The one of these keys that a line sets; lines count from 1.
fn key_at(text: &str, line: usize, keys: &[&'static str]) -> Option<&'static str> {
    let line = text.lines().nth(line.saturating_sub(1))?;
    let key = line.split('=').next()?.trim();
    keys.iter().copied().find(|known| *known == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_shipped_study_is_the_published_grid_with_two_equal_halves() {
        let study = ValidateStudy::parse("validate.toml", VALIDATE).unwrap();
        let cells = study.cells();
        assert_eq!((study.subjects().len(), study.interferers().len(), cells.len()), (24, 8, 192));
        let mut names: Vec<&str> = cells.iter().map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 192, "names are unique");
        for of_program in cells.chunks(8) {
            assert_eq!(of_program.iter().filter(|c| c.half == Half::Fit).count(), 4);
        }
        assert_eq!(cells, study.cells(), "the split is the same every time");
    }

    #[test]
    fn the_quick_part_has_every_program_once_and_every_interferer_equally_often() {
        let study = ValidateStudy::parse("validate.toml", VALIDATE).unwrap();
        let cells = study.quick_cells();
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        cells.iter().for_each(|c| *seen.entry(c.interferer.name()).or_default() += 1);
        assert_eq!(cells.len(), 24);
        assert!(seen.len() == 8 && seen.values().all(|&n| n == 3), "{seen:?}");
        let fit = cells.iter().filter(|c| c.half == Half::Fit).count();
        assert!((6..=18).contains(&fit), "{fit} of 24 are for fitting");
    }

    #[test]
    fn bad_studies_are_refused_with_line_and_remedy() {
        let refusal = |from: &str, to: &str| {
            ValidateStudy::parse("s.toml", &VALIDATE.replace(from, to)).unwrap_err().to_string()
        };
        let line_of = |key: &str| super::line_of(VALIDATE, key);
        assert_eq!(
            refusal("repetitions = 3", "repetitions = 0"),
            format!("s.toml:{}: repetitions is 0; give 1 to 1000", line_of("repetitions"))
        );
        assert!(refusal("\"barrier\", \"lock\"", "\"barriers\"").contains("barriers"));
        assert!(refusal("\"100us\"", "\"100\"").contains("`100` is not a time"));
        assert!(refusal("demand  = 0.3", "demand  = 1.3").contains("demand is 1.3; it is a share"));
        assert!(refusal("fnv1a-rank", "coin").contains("the only way is `fnv1a-rank`"));
        assert!(refusal("foreign  = 0.04", "foreign  = 0").contains("foreign is 0"));
        assert!(refusal("threads = [1, 2]", "threads = []").contains("an axis of the matrix is empty"));
        assert!(refusal("retries  = 4", "retry = 4").contains("unknown field `retry`"));
    }
}
