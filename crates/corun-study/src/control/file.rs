//! A study of control (`corun.control-study/1`, such as `studies/control.toml`): which programs run together, under which policies, how
//! often, and the targets. A bad file is refused in one sentence with file, line and remedy.

use crate::programs::Catalogue;
use crate::study_file::{read, twice, BadStudy, Wrong};
use corun_model::duration::written_ns;
use corun_model::workload::draw;
use serde::Deserialize;

/// The live study that corun brings along.
pub const CONTROL: &str = include_str!("../../../../studies/control.toml");
/// The study for the test guest, whose kernel has sched_ext.
pub const CONTROL_GUEST: &str = include_str!("../../../../studies/control-guest.toml");

/// The schema of a study file.
pub const SCHEMA: &str = "corun.control-study/1";
/// The policy that is always known: the kernel alone, without corun.
pub const DEFAULT: &str = "default";

/// A study as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ControlStudy {
    schema: String,
    /// Its name.
    pub name: String,
    /// Its purpose, in a sentence.
    pub about: String,
    /// The backend that sets knobs: `auto`, `stock` or `sched_ext`.
    pub backend: String,
    /// Runs of every cell.
    pub repetitions: u32,
    /// The share of the machine's CPU time that other programs may take in a run that counts, 0 to 1.
    pub foreign: f64,
    /// How long a run waits at most until the machine looks quiet, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub patience: u64,
    /// How often a disturbed run is repeated.
    pub retries: u32,
    /// How long the co-runner runs before the controller and the programs, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub lead: u64,
    /// A run is cut off after this many times the solo length of its longest program.
    pub most_slowdown: f64,
    /// The policies.
    #[serde(rename = "policy")]
    pub policies: Vec<PolicyUse>,
    /// The cells, by group.
    #[serde(rename = "group")]
    pub groups: Vec<Group>,
}

/// A policy with its options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyUse {
    /// Its name in tables.
    pub name: String,
    /// The arguments for `corun control`: the policy and its options.
    pub argv: Vec<String>,
}

/// Cells with the same policies, co-runner and targets.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its purpose, in a sentence.
    pub about: String,
    /// The names of its policies; `default` is the kernel alone.
    pub policies: Vec<String>,
    /// Interferers, each in its own session. Together they are one more tenant.
    #[serde(default)]
    pub co_runner: Vec<String>,
    /// The programs of each cell; every program is one tenant.
    pub cells: Vec<Vec<String>>,
    /// The target for its policies.
    #[serde(default)]
    pub target: Target,
}

/// The target that a policy should reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Target {
    /// The slowdown is at most this.
    pub slowdown: Option<f64>,
    /// The co-runner keeps at least this share of its fair share.
    pub kept: Option<f64>,
    /// No program takes longer than under the default by more than this share.
    pub loss: Option<f64>,
    /// The relative speed-up over the default is at least this.
    pub speed_up: Option<f64>,
    /// System throughput over that of the default is at least this.
    pub throughput: Option<f64>,
}

impl ControlStudy {
    /// Reads a study's text, with the programs and interferers of `catalogue`. Errors call the file `file`.
    ///
    /// # Errors
    /// [`BadStudy`] with file, line and remedy.
    pub fn parse(file: &str, text: &str, catalogue: &Catalogue) -> Result<ControlStudy, BadStudy> {
        let at = |line, what: String| BadStudy { file: file.to_owned(), line, what };
        let study: ControlStudy = read(file, text)?;
        study.check(catalogue).map_err(|bad| at(bad.line(text), bad.what))?;
        Ok(study)
    }

    fn check(&self, catalogue: &Catalogue) -> Result<(), Wrong> {
        let refuse = |key, what: String| Err(Wrong::key(key, what));
        let nobody = |key, name: &str, what: String| Err(Wrong::name(key, name, what));
        if self.schema != SCHEMA {
            return refuse("schema", format!("schema is `{}`, this corun reads `{SCHEMA}`", self.schema));
        }
        if !["auto", "stock", "sched_ext"].contains(&self.backend.as_str()) {
            return refuse(
                "backend",
                format!("backend is `{}`; give auto, stock or sched_ext", self.backend),
            );
        }
        if !(1..=1000).contains(&self.repetitions) {
            return refuse("repetitions", format!("repetitions is {}; give 1 to 1000", self.repetitions));
        }
        if !(self.foreign > 0.0 && self.foreign <= 1.0) {
            return refuse("foreign", format!("foreign is {}; give a share above 0, up to 1", self.foreign));
        }
        if !(self.most_slowdown >= 1.0 && self.most_slowdown <= 1000.0) {
            return refuse(
                "most-slowdown",
                format!("most-slowdown is {}; give 1 to 1000", self.most_slowdown),
            );
        }
        if let Some(bare) = self.policies.iter().find(|p| p.argv.is_empty() || p.name == DEFAULT) {
            let what = "needs an argv, and a name other than `default`, which is the kernel alone";
            return nobody("argv", &bare.name, format!("policy `{}` {what}", bare.name));
        }
        for group in &self.groups {
            let known = |p: &&String| *p == DEFAULT || self.policy(p).is_some();
            if let Some(name) = group.policies.iter().find(|p| !known(p)) {
                let what = format!("no policy `{name}`; add a [[policy]] or choose another");
                return nobody("policies", name, what);
            }
            if let Some(name) = group.co_runner.iter().find(|n| catalogue.interferer(n).is_none()) {
                let what = format!("no interferer `{name}` in programs.toml; add it or choose another");
                return nobody("co-runner", name, what);
            }
            if let Some(name) = group.cells.iter().flatten().find(|n| catalogue.program(n).is_none()) {
                let what = format!("no program `{name}` in programs.toml; add it or choose another");
                return nobody("cells", name, what);
            }
            if let Some(cell) = group.cells.iter().find(|c| c.is_empty() || twice(c).is_some()) {
                let what =
                    format!("the cell `{}` of `{}` needs programs, each once", cell.join(" + "), group.name);
                return refuse("cells", what);
            }
        }
        if self.groups.iter().all(|g| g.cells.is_empty() || g.policies.is_empty()) {
            return refuse("group", "a study needs a group with a cell and a policy".into());
        }
        Ok(())
    }

    /// The arguments of `corun control` for a policy. `None` for the default and for unknown policies.
    pub fn policy(&self, name: &str) -> Option<&PolicyUse> {
        self.policies.iter().find(|p| p.name == name)
    }

    /// Keeps only one repetition of the first cell of each group.
    pub fn make_quick(&mut self) {
        self.repetitions = 1;
        self.groups.iter_mut().for_each(|g| g.cells.truncate(1));
    }

    /// An order of `n` things, different for each `of`, so that a drifting machine favors none of them.
    pub fn order(of: u64, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|&i| draw::bits(of, 2, i as u64));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Kind;

    fn read(text: &str) -> Result<ControlStudy, BadStudy> {
        ControlStudy::parse("c.toml", text, &Catalogue::own())
    }

    #[test]
    fn the_live_study_has_pairs_and_groups_of_real_and_synthetic_programs() {
        let (own, study) = (Catalogue::own(), read(CONTROL).unwrap());
        let pairs = study.groups.iter().filter(|g| !g.co_runner.is_empty()).flat_map(|g| &g.cells);
        assert!(pairs.count() >= 8);
        let together = study.groups.iter().filter(|g| g.co_runner.is_empty()).flat_map(|g| &g.cells);
        let together: Vec<usize> = together.map(Vec::len).collect();
        assert!(together.contains(&2) && together.iter().any(|n| (4..=8).contains(n)), "{together:?}");
        let kinds: Vec<Kind> = study
            .groups
            .iter()
            .flat_map(|g| g.cells.iter().flatten())
            .map(|n| own.program(n).unwrap().kind)
            .collect();
        assert!(kinds.contains(&Kind::Real) && kinds.contains(&Kind::Kernel) && study.repetitions >= 7);
        assert!(study.groups.iter().all(|g| g.policies[0] == DEFAULT));
    }

    #[test]
    fn the_guests_study_needs_only_corun_itself() {
        let (own, study) = (Catalogue::own(), read(CONTROL_GUEST).unwrap());
        assert_eq!(study.backend, "sched_ext");
        let programs = study.groups.iter().flat_map(|g| g.cells.iter().flatten());
        assert!(programs.clone().count() > 0);
        assert!(programs.map(|n| own.program(n).unwrap()).all(|p| p.kind == Kind::Load));
    }

    #[test]
    fn bad_input_is_named_with_its_line_and_the_remedy() {
        let refusal = |from: &str, to: &str| read(&CONTROL.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(refusal("\"lu-active\"", "\"clang\"").contains("no program `clang` in programs.toml"));
        assert!(refusal("\"persistent-1\"", "\"none\"").contains("no interferer `none`"));
        assert!(refusal("\"default\", \"auto\"", "\"default\", \"autos\"").contains("no policy `autos`"));
        assert!(refusal("backend = \"stock\"", "backend = \"vm\"").contains("give auto, stock or sched_ext"));
        assert!(refusal("[\"lu-active\"]", "[\"lu-active\", \"lu-active\"]").contains("each once"));
        // If several groups could be meant, the error names the line of the right one.
        let (at, last) =
            CONTROL.lines().enumerate().filter(|(_, l)| l.starts_with("co-runner")).last().unwrap();
        let slip = format!(
            "{}\nco-runner = [\"nobody\"]\n",
            CONTROL.lines().take(at).collect::<Vec<_>>().join("\n")
        );
        let said = read(&(slip + &CONTROL.lines().skip(at + 1).collect::<Vec<_>>().join("\n")))
            .unwrap_err()
            .to_string();
        assert!(said.starts_with(&format!("c.toml:{}: no interferer `nobody`", at + 1)), "{said} {last}");
        let line = CONTROL.lines().position(|l| l.starts_with("foreign")).unwrap() + 1;
        let foreign = CONTROL.lines().nth(line - 1).unwrap();
        assert!(refusal(foreign, "foreign = 0.0").starts_with(&format!("c.toml:{line}: foreign is 0")));
    }

    #[test]
    fn every_repetition_has_its_own_order() {
        let mut sorted = ControlStudy::order(1, 11);
        assert!(sorted != ControlStudy::order(2, 11) && sorted == ControlStudy::order(1, 11));
        sorted.sort_unstable();
        assert_eq!(sorted, (0..11).collect::<Vec<_>>());
    }
}
