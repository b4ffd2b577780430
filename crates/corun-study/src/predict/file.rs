//! A study of pairs (`corun.pairs/1`, such as `studies/predict.toml`): which programs of the catalogue run with which interferers, how
//! often, and when a run counts. A bad file is refused in one sentence with file, line and remedy.

use crate::programs::{Catalogue, Interferer, Program};
use crate::study_file::{read, twice, BadStudy, Wrong};
use corun_model::duration::written_ns;
use serde::Deserialize;

/// Name and version of the schema, the first field of every file.
pub const SCHEMA: &str = "corun.pairs/1";

/// The study of predictions that corun brings along.
pub const PREDICT: &str = include_str!("../../../../studies/predict.toml");

/// A study as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Pairs {
    schema: String,
    /// Its name.
    pub name: String,
    /// Its purpose, in a sentence.
    pub about: String,
    /// Runs of every pair.
    pub repetitions: u32,
    /// Programs do this many times the work of the catalogue.
    pub length: f64,
    /// The last prediction before this share of a co-run counts.
    pub predict_by: f64,
    /// The share of the machine's CPU time that other programs may take in a run that counts, 0 to 1.
    pub foreign: f64,
    /// How long a run waits at most until the machine looks quiet, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub patience: u64,
    /// A slowdown counts as known if its standard error is at most this, as a share.
    pub known_to: f64,
    /// How often a disturbed run is repeated.
    pub retries: u32,
    /// How long the interferer runs before the program, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub lead: u64,
    /// The most that is added to `lead`, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub spread: u64,
    /// A co-run that takes this many times as long as the program alone is cut off.
    pub most_slowdown: f64,
    /// Names of programs.
    pub programs: Vec<String>,
    /// Names of interferers.
    pub interferers: Vec<String>,
    /// The interferers that start again and again, and so are not steady.
    #[serde(default)]
    pub restarting: Vec<String>,
}

impl Pairs {
    /// Reads a study's text, with the programs and interferers of `catalogue`. Errors call the file `file`.
    ///
    /// # Errors
    /// [`BadStudy`] with file, line and remedy.
    pub fn parse(file: &str, text: &str, catalogue: &Catalogue) -> Result<Pairs, BadStudy> {
        let at = |line, what: String| BadStudy { file: file.to_owned(), line, what };
        let pairs: Pairs = read(file, text)?;
        pairs.check(catalogue).map_err(|bad| at(bad.line(text), bad.what))?;
        Ok(pairs)
    }

    fn check(&self, catalogue: &Catalogue) -> Result<(), Wrong> {
        let share = |x: f64| x > 0.0 && x <= 1.0;
        let refuse = |key, what: String| Err(Wrong::key(key, what));
        let nobody = |key, name: &str, what: String| Err(Wrong::name(key, name, what));
        if self.schema != SCHEMA {
            return refuse("schema", format!("schema is `{}`, this corun reads `{SCHEMA}`", self.schema));
        }
        if !(1..=1000).contains(&self.repetitions) {
            return refuse("repetitions", format!("repetitions is {}; give 1 to 1000", self.repetitions));
        }
        if !share(self.predict_by) {
            return refuse(
                "predict-by",
                format!("predict-by is {}; give a share above 0, up to 1", self.predict_by),
            );
        }
        if !share(self.foreign) {
            return refuse("foreign", format!("foreign is {}; give a share above 0, up to 1", self.foreign));
        }
        if !(0.1..=1000.0).contains(&self.length) {
            return refuse("length", format!("length is {}; give 0.1 to 1000", self.length));
        }
        if !share(self.known_to) {
            return refuse(
                "known-to",
                format!("known-to is {}; give a share above 0, up to 1", self.known_to),
            );
        }
        if !(self.most_slowdown >= 1.0 && self.most_slowdown <= 1000.0) {
            return refuse(
                "most-slowdown",
                format!("most-slowdown is {}; give 1 to 1000", self.most_slowdown),
            );
        }
        if let Some(name) = self.programs.iter().find(|name| catalogue.program(name).is_none()) {
            return nobody(
                "programs",
                name,
                format!("no program `{name}` in programs.toml; add it or choose another"),
            );
        }
        if let Some(name) = self.interferers.iter().find(|name| catalogue.interferer(name).is_none()) {
            return nobody(
                "interferers",
                name,
                format!("no interferer `{name}` in programs.toml; add it or choose another"),
            );
        }
        for (key, names) in [("programs", &self.programs), ("interferers", &self.interferers)] {
            if let Some(name) = twice(names) {
                return nobody(
                    key,
                    name,
                    format!("`{name}` occurs twice; each pair is run `repetitions` times anyway"),
                );
            }
        }
        if let Some(name) = self.restarting.iter().find(|name| !self.interferers.contains(name)) {
            return nobody(
                "restarting",
                name,
                format!("`{name}` is not an interferer of the study; choose from those"),
            );
        }
        if self.programs.is_empty() || self.interferers.is_empty() {
            return refuse("programs", "a study needs at least one program and one interferer".into());
        }
        Ok(())
    }

    /// Its programs, in its order.
    pub fn programs<'c>(&self, catalogue: &'c Catalogue) -> Vec<&'c Program> {
        self.programs.iter().filter_map(|name| catalogue.program(name)).collect()
    }

    /// Its interferers, in its order.
    pub fn interferers<'c>(&self, catalogue: &'c Catalogue) -> Vec<&'c Interferer> {
        self.interferers.iter().filter_map(|name| catalogue.interferer(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Pairs, BadStudy> {
        Pairs::parse("p.toml", text, &Catalogue::own())
    }

    #[test]
    fn the_study_of_predictions_has_real_and_known_programs_and_five_interferers() {
        let (own, pairs) = (Catalogue::own(), read(PREDICT).unwrap());
        let real = pairs.programs(&own).iter().filter(|p| p.kind == crate::programs::Kind::Real).count();
        assert!(pairs.programs(&own).len() >= 12 && real >= 6);
        assert!(pairs.interferers(&own).len() >= 5);
    }

    #[test]
    fn studies_of_programs_held_out_have_none_of_the_others() {
        let (own, seen) = (Catalogue::own(), read(PREDICT).unwrap());
        let is_seen = |name: &String| seen.programs(&own).iter().any(|p| p.name == *name);
        for held_out in [
            include_str!("../../../../studies/predict-held-out.toml"),
            include_str!("../../../../studies/predict-sleepers.toml"),
        ] {
            let held_out = read(held_out).unwrap();
            let names: Vec<String> = held_out.programs(&own).iter().map(|p| p.name.clone()).collect();
            assert!(names.len() >= 6 && !names.iter().any(is_seen), "{names:?}");
        }
    }

    #[test]
    fn bad_input_is_named_with_its_line_and_the_remedy() {
        let refusal = |from: &str, to: &str| read(&PREDICT.replace(from, to)).unwrap_err().to_string();
        assert!(refusal("\"gcc\"", "\"clang\"").contains("no program `clang` in programs.toml"));
        assert!(refusal("\"gcc-again\"", "\"gcc\"").contains("no interferer `gcc`"));
        assert!(refusal("predict-by = 0.33", "predict-by = 33").contains("predict-by is 33; give a share"));
        assert!(refusal("restarting = [", "restarting = [\"triad\", ")
            .contains("`triad` is not an interferer of the study"));
        assert!(refusal("\"gcc\",", "\"gcc\", \"gcc\",").contains("`gcc` occurs twice"));
        assert!(refusal("retries  = 3", "retry = 3").contains("unknown field `retry`"));
        // In a list over several lines the error names the right one.
        let (line, last) =
            PREDICT.lines().enumerate().filter(|(_, l)| l.contains("\"steal-block\"")).last().unwrap();
        let said =
            read(&PREDICT.replace(last, &last.replace("steal-block", "steal"))).unwrap_err().to_string();
        assert!(said.starts_with(&format!("p.toml:{}: no program `steal`", line + 1)), "{said}");
        let line = PREDICT.lines().position(|l| l.starts_with("foreign")).unwrap() + 1;
        assert!(
            refusal("foreign  = 0.04", "foreign = 0.0").starts_with(&format!("p.toml:{line}: foreign is 0"))
        );
    }
}
