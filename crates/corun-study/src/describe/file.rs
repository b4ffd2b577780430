//! A study of programs as written (`corun.programs-study/1`). A bad file is refused in one sentence with file, line and remedy.

use crate::programs::{Catalogue, Interferer as Given, Recipe};
use crate::study_file::{read, twice, BadStudy, Wrong};
use crate::validate::cell::Interferer;
use serde::Deserialize;

/// The schema of a study file.
pub const SCHEMA: &str = "corun.programs-study/1";
/// The study that corun brings along.
pub const DESCRIBE: &str = include_str!("../../../../studies/describe.toml");

/// A study as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DescribeStudy {
    schema: String,
    /// Its name.
    pub name: String,
    /// Its purpose, in a sentence.
    pub about: String,
    /// Solo runs of every program, and co-runs with each interferer.
    pub repetitions: u32,
    /// Names of programs of the catalogue.
    #[serde(default)]
    programs: Vec<String>,
    /// Programs that are not in the catalogue.
    #[serde(default)]
    program: Vec<Given>,
    /// Loops for the co-runs, which no description has seen. Without any there are no co-runs.
    #[serde(rename = "interferer", default)]
    pub interferers: Vec<Interferer>,
}

impl DescribeStudy {
    /// Reads a study's text. Errors call the file `file`.
    ///
    /// # Errors
    /// [`BadStudy`] with file, line and remedy.
    pub fn parse(file: &str, text: &str) -> Result<DescribeStudy, BadStudy> {
        let study: DescribeStudy = read(file, text)?;
        study.check().map_err(|bad| BadStudy {
            file: file.to_owned(),
            line: bad.line(text),
            what: bad.what,
        })?;
        Ok(study)
    }

    fn check(&self) -> Result<(), Wrong> {
        if self.schema != SCHEMA {
            let what = format!("schema is `{}`, this corun reads `{SCHEMA}`", self.schema);
            return Err(Wrong::key("schema", what));
        }
        if !(1..=1000).contains(&self.repetitions) {
            let what = format!("repetitions is {}; give 1 to 1000", self.repetitions);
            return Err(Wrong::key("repetitions", what));
        }
        let own = Catalogue::own();
        if let Some(name) = self.programs.iter().find(|name| own.program(name).is_none()) {
            let what = format!("no program `{name}` in programs.toml; describe it as a [[program]]");
            return Err(Wrong::name("programs", name, what));
        }
        if let Some(empty) = self.program.iter().find(|p| p.recipe.argv.is_empty()) {
            let what = format!("`{}` has no argv; give the program and its arguments", empty.name);
            return Err(Wrong::name("name", &empty.name, what));
        }
        // The name of a program becomes the name of a file.
        let fits = |name: &String| !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        if let Some(bad) = self.program.iter().find(|p| !fits(&p.name)) {
            let what = format!("`{}` names no file; give a name without a slash or a leading dot", bad.name);
            return Err(Wrong::name("name", &bad.name, what));
        }
        let names: Vec<String> = self.programs().into_iter().map(|p| p.name).collect();
        if let Some(name) = twice(&names) {
            return Err(Wrong::name("name", name, format!("`{name}` occurs twice; give each its own name")));
        }
        if names.is_empty() {
            return Err(Wrong::key("name", "there is no program; give `programs`, or a [[program]]"));
        }
        let patterns = ["persistent", "periodic", "intermittent"];
        match self.interferers.iter().find(|i| !patterns.contains(&&*i.pattern) || i.threads == 0) {
            Some(bad) => {
                let what = format!(
                    "`{}` is not an interferer; give a pattern of {} and threads",
                    bad.name(),
                    patterns.join(", ")
                );
                Err(Wrong::name("pattern", &bad.pattern, what))
            }
            None => Ok(()),
        }
    }

    /// Its programs: those of the catalogue, then its own.
    pub fn programs(&self) -> Vec<Given> {
        let own = Catalogue::own();
        let of = |name: &String| {
            let p = own.program(name)?;
            Some(Given { name: p.name.clone(), about: p.about.clone(), recipe: p.recipe.clone() })
        };
        self.programs.iter().filter_map(of).chain(self.program.iter().cloned()).collect()
    }

    /// Keeps only these of its programs.
    pub fn keep(&mut self, programs: Vec<Given>) {
        self.programs.clear();
        self.program = programs;
    }

    /// Replaces the programs by one command, whose name the study gets.
    pub fn with_command(mut self, argv: Vec<String>) -> DescribeStudy {
        let program = argv.first().map_or("", String::as_str);
        let name = program
            .rsplit('/')
            .next()
            .filter(|name| !name.is_empty() && !name.starts_with('.'))
            .unwrap_or("command")
            .to_owned();
        self.programs.clear();
        let recipe = Recipe { argv, ..Recipe::default() };
        self.program = vec![Given { name, about: String::new(), recipe }];
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_input_is_named_with_its_line_and_the_remedy() {
        let refusal = |from: &str, to: &str| {
            assert!(DESCRIBE.contains(from), "{from}");
            DescribeStudy::parse("d.toml", &DESCRIBE.replacen(from, to, 1)).unwrap_err().to_string()
        };
        assert!(refusal("\"pigz\"", "\"gzip\"").contains("no program `gzip` in programs.toml; describe it"));
        assert!(refusal("\"pigz\"", "\"x264\"").contains("`x264` occurs twice"));
        assert!(refusal("pattern = \"persistent\"", "pattern = \"random\"")
            .contains("`random x1` is not an interferer"));
        assert!(refusal("repetitions = 5", "repetitions = 5000").contains("give 1 to 1000"));
        assert!(refusal("repetitions = 5", "repetition = 5").contains("unknown field `repetition`"));
        let own = "\n[[program]]\nname = \"a/b\"\nabout = \"\"\nargv = [\"true\"]\n";
        let said = DescribeStudy::parse("d.toml", &(DESCRIBE.to_owned() + own)).unwrap_err().to_string();
        let line = DESCRIBE.lines().count() + 3;
        assert!(said.starts_with(&format!("d.toml:{line}: `a/b` names no file")), "{said}");
    }

    #[test]
    fn a_command_replaces_the_programs_and_gives_its_name() {
        let study = DescribeStudy::parse("d.toml", DESCRIBE).unwrap();
        let argv = ["./bin/solver", "in.dat"].map(String::from).to_vec();
        let programs = study.with_command(argv.clone()).programs();
        assert_eq!((programs.len(), &*programs[0].name, &programs[0].recipe.argv), (1, "solver", &argv));
    }
}
