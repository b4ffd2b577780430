//! Reading a workload file's text, with the checks that need more than a type. Bad input is one sentence that
//! names file, line and remedy.

use super::bad_key::BadKey;
use super::character::Character;
use super::program::Program;
use super::variation::{OnMachine, Phase};
use super::words::read_file;
use serde::Deserialize;
use thiserror::Error;

/// A program described once.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Workload {
    /// Always `corun.workload/1`.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// A sentence on what it represents, and which values are measured or assumed.
    #[serde(default)]
    pub about: String,
    /// Its program.
    pub program: Program,
    /// How it uses core and memory; read by the modelled machine only.
    #[serde(default)]
    pub character: Character,
    /// Phases with their own characters, in turn. Empty if `character` holds all the time.
    #[serde(default)]
    pub phase: Vec<Phase>,
    /// Its size on particular machines.
    #[serde(default)]
    pub on: Vec<OnMachine>,
}

/// A workload file that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}:{line}: {what}")]
pub struct BadWorkload {
    /// The file's name as given.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The error and the remedy, in one sentence.
    pub what: String,
}

impl Workload {
    /// The program for a machine: with that machine's `[[on]]`, if there is one.
    #[must_use]
    pub fn for_machine(&self, machine: &str) -> Workload {
        let on = self.on.iter().find(|on| on.machine == machine);
        let program = on.map_or_else(|| self.program.clone(), |on| on.sized(&self.program));
        Workload { program, ..self.clone() }
    }

    /// Checks the program, its characters and its sizes.
    fn check(&self) -> Result<(), BadKey> {
        self.program.check()?;
        self.character.check()?;
        self.phase.iter().try_for_each(Phase::check)?;
        self.on.iter().try_for_each(|on| on.check(&self.program))
    }

    /// Reads the text of a workload file. Errors call the file `file`.
    ///
    /// # Errors
    /// [`BadWorkload`] with file, line and remedy.
    pub fn parse(file: &str, text: &str) -> Result<Workload, BadWorkload> {
        let at = |line, what: String| BadWorkload { file: file.to_string(), line, what };
        let workload: Workload =
            read_file("corun.workload/1", text).map_err(|(line, what)| at(line, what))?;
        let checks = workload.check();
        checks.map_err(|bad| at(bad.line(text), bad.what))?;
        Ok(workload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{BusyBy, Length, Sharing, Wait};

    const BARRIER: &str = r#"
schema = "corun.workload/1"
name = "fine-barrier"

[program]
kind = "parallel"
threads = 4
sync = "barrier"
wait = "spin-then-block"
grain = "500us"
iterations = 100
footprint = "64KiB"
sharing = "false"
"#;

    #[test]
    fn a_parallel_program_is_read_with_units_and_defaults() {
        let w = Workload::parse("w.toml", BARRIER).unwrap();
        let Program::Parallel(p) = w.program else { panic!("not parallel") };
        assert_eq!((p.threads, p.wait, p.grain, p.footprint), (4, Wait::SpinThenBlock, 500_000, 65_536));
        assert_eq!((p.length(), p.sharing, p.spin), (Length::Iterations(100), Sharing::False, 50_000));
    }

    fn refusal(from: &str, to: &str) -> String {
        Workload::parse("w.toml", &BARRIER.replace(from, to)).unwrap_err().to_string()
    }

    #[test]
    fn bad_input_is_one_sentence_with_file_and_line() {
        assert_eq!(
            refusal("threads = 4", "threads = 0"),
            "w.toml:7: threads is 0; a program needs at least 1"
        );
        assert_eq!(
            refusal("\"500us\"", "\"500\""),
            "w.toml:10: `500` is not a time with its unit, such as 500us, 10ms or 2s"
        );
        assert!(refusal("wait =", "weight =").contains("unknown field `weight`"));
        assert!(refusal("workload/1", "workload/9").starts_with("w.toml:2: schema is `corun.workload/9`"));
        assert!(refusal("sync = \"barrier\"", "sync = \"pipeline\"\nstages = 9").contains("9 stages need"));
        assert!(refusal("name =", "name").starts_with("w.toml:3:"));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused_at_its_line_with_the_expected_type() {
        let time = "expected a time in quotes with its unit, such as \"10ms\"";
        let said = refusal("\"500us\"", "500");
        assert_eq!(said, format!("w.toml:10: invalid type: integer `500`, {time}"));
        let size = "expected a size in quotes with its unit, such as \"64KiB\"";
        let said = refusal("\"64KiB\"", "64");
        assert_eq!(said, format!("w.toml:12: invalid type: integer `64`, {size}"));
        let said = refusal("footprint = \"64KiB\"", "cpus = \"0-3\"");
        assert!(said.starts_with("w.toml:12: invalid type: string \"0-3\", expected a list"), "{said}");
        let said = refusal("footprint = \"64KiB\"", "cpus = [\"0-3\"]");
        assert!(said.contains("w.toml:12: invalid type: string \"0-3\", expected a whole number"), "{said}");
    }

    #[test]
    fn interference_defaults_are_those_of_the_paper() {
        let text = "schema = \"corun.workload/1\"\nname = \"i\"\n[program]\nkind = \"interference\"\npattern = \"intermittent\"\n";
        let Program::Interference(i) = Workload::parse("i.toml", text).unwrap().program else { panic!() };
        assert_eq!((i.busy, i.busy_min, i.busy_max, i.demand), (10_000_000, 1_000_000, 40_000_000, 0.5));
        assert_eq!(i.busy_by, BusyBy::Cpu);
        let by_wall = format!("{text}busy-by = \"wall\"\n");
        let Program::Interference(i) = Workload::parse("i.toml", &by_wall).unwrap().program else { panic!() };
        assert_eq!(i.busy_by, BusyBy::Wall);
    }

    #[test]
    fn interference_that_would_hardly_ever_run_is_refused() {
        let of = |demand: &str| {
            let text = format!("schema = \"corun.workload/1\"\nname = \"i\"\n[program]\nkind = \"interference\"\npattern = \"periodic\"\ndemand = {demand}\n");
            Workload::parse("i.toml", &text).map_err(|bad| bad.to_string())
        };
        assert!(of("0.000001").is_ok());
        let said = of("1e-300").unwrap_err();
        assert!(said.starts_with("i.toml:6: demand is 1e-300, so it would be idle"), "{said}");
        assert!(said.ends_with("be idle for more than 1000 h after 10.0 ms; give a larger share"), "{said}");
    }

    #[test]
    fn phases_may_repeat_if_each_has_an_end() {
        let of = |iterations: &str, phase: &str| {
            let text = format!("schema = \"corun.workload/1\"\nname = \"c\"\n[program]\nkind = \"command\"\nargv = [\"c\"]\n{iterations}\n{phase}");
            let command = |w: Workload| match w.program {
                Program::Command(c) => (c.iterations, c.is_endless()),
                _ => panic!("it is a command"),
            };
            Workload::parse("c.toml", &text).map(command).map_err(|bad| bad.to_string())
        };
        let ends = "[[program.model]]\nthreads = 4\niterations = 3\n[[program.model]]\nduration = \"5ms\"\n";
        assert_eq!(of("", ends), Ok((1, false)));
        assert_eq!(of("iterations = 250", ends), Ok((250, false)));
        assert_eq!(of("iterations = 0", ends), Ok((0, true)));
        let endless = "[[program.model]]\nthreads = 4\n";
        assert_eq!(of("", endless), Ok((1, true)));
        let said = of("iterations = 250", &format!("{ends}{endless}")).unwrap_err();
        assert!(said.starts_with("c.toml:6: iterations is 250, but phase 3 never ends"), "{said}");
        let said = of("iterations = 250", "").unwrap_err();
        assert!(said.starts_with("c.toml:6: iterations is 250, but there are no phases"), "{said}");
    }

    #[test]
    fn pairs_need_an_even_number_of_threads() {
        let text = "schema = \"corun.workload/1\"\nname = \"h\"\n[program]\nkind = \"micro\"\nname = \"hubench\"\nthreads = 3\n";
        assert!(Workload::parse("h.toml", text)
            .unwrap_err()
            .to_string()
            .starts_with("h.toml:6: threads is 3"));
    }
}
