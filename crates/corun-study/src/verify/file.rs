//! A study of verdicts as written (`corun.verify-study/1`). A bad file is refused in one sentence with file, line and remedy.

use crate::programs::Interferer;
use crate::study_file::{read, BadStudy};
use corun_model::duration::written_ns;
use corun_model::workload::line_of;
use serde::Deserialize;
use std::collections::BTreeSet;

/// The schema of a study file.
pub const SCHEMA: &str = "corun.verify-study/1";
/// The study that corun brings along.
pub const VERIFY: &str = include_str!("../../../../studies/verify.toml");

/// A study as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct VerifyStudy {
    schema: String,
    /// Its name.
    pub name: String,
    /// Its purpose, in a sentence.
    pub about: String,
    /// Runs of every program with every co-runner, and as many solo runs.
    pub repetitions: u32,
    /// The share of a run's time that others may cost it, 0 to 1.
    pub max_disturbance: f64,
    /// A disturbance that must be found, as a share of the run's time.
    pub noticeable: f64,
    /// How long a co-runner runs before the program, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub lead: u64,
    /// The most that is added to `lead`, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub spread: u64,
    /// The programs.
    #[serde(rename = "program")]
    pub programs: Vec<Interferer>,
    /// The co-runners.
    #[serde(rename = "co-runner")]
    pub corunners: Vec<Interferer>,
}

impl VerifyStudy {
    /// Reads a study's text. Errors call the file `file`.
    ///
    /// # Errors
    /// [`BadStudy`] with file, line and remedy.
    pub fn parse(file: &str, text: &str) -> Result<VerifyStudy, BadStudy> {
        let at = |line, what: String| BadStudy { file: file.to_owned(), line, what };
        let study: VerifyStudy = read(file, text)?;
        let share = |x: f64| x > 0.0 && x < 1.0;
        let bad = [
            (study.schema != SCHEMA, "schema", format!("schema is `{}`, give `{SCHEMA}`", study.schema)),
            (
                !(1..=1000).contains(&study.repetitions),
                "repetitions",
                format!("repetitions is {}; give 1 to 1000", study.repetitions),
            ),
            (
                !share(study.max_disturbance),
                "max-disturbance",
                "max-disturbance is not a share; give one such as 0.02".into(),
            ),
            (
                !share(study.noticeable),
                "noticeable",
                "noticeable is not a share; give one such as 0.05".into(),
            ),
            (study.programs.is_empty(), "name", "there is no [[program]]; give one".into()),
        ];
        if let Some((_, key, what)) = bad.into_iter().find(|(bad, ..)| *bad) {
            return Err(at(line_of(text, key), what));
        }
        // For a name that occurs twice, the error names the second one.
        let line = |name: &str| {
            let names = |l: &str| l.trim_start().starts_with("name") && l.contains(&format!("\"{name}\""));
            text.lines().enumerate().filter(|(_, l)| names(l)).last().map_or(1, |(at, _)| at + 1)
        };
        for list in [&study.programs, &study.corunners] {
            let mut names = BTreeSet::new();
            for Interferer { name, recipe, .. } in list {
                if recipe.argv.is_empty() {
                    let what = format!("`{name}` has no argv; give the program and its arguments");
                    return Err(at(line(name), what));
                }
                if !names.insert(name) {
                    let what = format!("`{name}` occurs twice; give each its own name");
                    return Err(at(line(name), what));
                }
            }
        }
        Ok(study)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_study_is_named_with_its_line() {
        let refusal = |text: &str| VerifyStudy::parse("v.toml", text).unwrap_err().to_string();
        let text = VERIFY.replace("noticeable = 0.05", "noticeable = 5");
        assert!(refusal(&text).contains("noticeable is not a share"), "{}", refusal(&text));
        assert!(refusal(&VERIFY.replace(SCHEMA, "x")).starts_with("v.toml:1: schema is `x`"));
        assert!(refusal(&VERIFY.replace("repetitions = 16", "repetitions = 0")).contains("is 0; give 1 to"));
        let line = |name: &str| VERIFY.lines().position(|l| l.contains(name)).unwrap() + 1;
        let said = refusal(&VERIFY.replace("\"pigz-long\"", "\"pigz-short\""));
        assert!(said.starts_with(&format!("v.toml:{}: `pigz-short` occurs twice", line("\"pigz-long\""))));
        let argv = "argv = [\"{corun}\", \"load\", \"persistent\", \"--cpus\"";
        let said = refusal(&VERIFY.replace(argv, "argv = [] # ["));
        assert!(said.starts_with(&format!("v.toml:{}: `pinned` has no argv", line("\"pinned\""))), "{said}");
    }
}
