//! A study of schedulers as written.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Spanned, Table};

/// The study that corun brings along.
pub const SCHEDULERS: &str = include_str!("../../../../studies/schedulers.toml");
/// The schema of a study file.
pub const SCHEMA: &str = "corun.schedulers-study/1";

/// A study as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SchedulersStudy {
    pub(super) schema: Spanned<String>,
    /// Its name.
    pub name: String,
    /// Its purpose, in a sentence.
    pub about: String,
    /// Programs that are not presets.
    #[serde(rename = "program", default)]
    pub programs: Vec<Program>,
    /// The figures.
    #[serde(rename = "figure")]
    pub figures: Vec<Figure>,
}

/// A program that is not a preset.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name in groups.
    pub name: String,
    /// Keys of a scenario's `[[tenant]]`. They come before those of the figure.
    pub tenant: Table,
    /// Length of its solo run, if it never ends and the figure has no `duration`.
    pub alone: Option<String>,
}

/// A figure: programs together on a machine, under some policies.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Figure {
    /// Its name. Its chart is `NAME.svg`.
    pub name: Spanned<String>,
    /// Its title, for people.
    pub title: String,
    /// The kind of table and chart.
    pub shows: Shows,
    /// The machine, as in a scenario.
    pub machine: String,
    /// The scheduler, as in a scenario.
    pub scheduler: Table,
    /// Keys of a scenario's `[[tenant]]` for every program.
    #[serde(default)]
    pub tenant: Table,
    /// Runs of every cell. The n-th run has seed n.
    pub repetitions: Spanned<u64>,
    /// The length of a run, as in a scenario. Without it, runs last until every program has ended.
    pub duration: Option<String>,
    /// The policies. All are compared with the first.
    #[serde(rename = "policy")]
    pub policies: Vec<PolicyUse>,
    /// The programs.
    #[serde(rename = "group")]
    pub groups: Vec<Group>,
    /// Numbers stated by the paper, or targets of corun.
    #[serde(default)]
    pub stated: Vec<Stated>,
}

/// The kind of table and chart of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shows {
    /// One program with another: the slowdowns of both.
    Pairs,
    /// Programs of equal rank: throughput, fairness, relative speed-up.
    Mixes,
    /// The same, and the energy of the machine until all have ended.
    Energy,
}

/// A policy with its options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyUse {
    /// Its name in tables.
    pub name: Spanned<String>,
    /// The policy. Without it no controller runs.
    pub policy: Option<String>,
    /// Its options, as in a scenario.
    #[serde(default)]
    pub options: Table,
    /// Replacements under this policy: programs that do the same work in another way, by the name of the one they replace.
    #[serde(default)]
    pub instead: BTreeMap<Spanned<String>, String>,
}

/// Programs that run together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Programs that take turns, one or several at a time.
    pub of: Vec<Spanned<String>>,
    /// Programs that always run.
    #[serde(default)]
    pub with: Vec<Spanned<String>>,
    /// Number of programs in a mix, including those of `with`. Without it each of `of` runs in turn, with all of `with`.
    pub size: Option<Spanned<usize>>,
    /// The most mixes that are drawn; 1 by default.
    pub mixes: Option<usize>,
}

/// A number that a paper or corun states.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Stated {
    /// A description of it.
    pub what: String,
    /// The place where it is stated.
    pub place: String,
    /// The measure that it is compared with.
    pub measure: Measure,
    /// Compares the largest value instead of the mean.
    #[serde(default)]
    pub most: bool,
    /// Only these policies. Without it all but the first.
    #[serde(default)]
    pub policies: Vec<Spanned<String>>,
    /// Only these groups. Without it all.
    #[serde(default)]
    pub groups: Vec<Spanned<String>>,
    /// Only cells whose first program is one of these. Without it all.
    #[serde(default)]
    pub programs: Vec<Spanned<String>>,
    /// The number, or the name of the policy with the highest mean.
    pub value: Value,
}

/// A stated number, or name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a value is a number, or the name of a policy in quotes")]
pub enum Value {
    /// In the unit of the measure. Shares are not in percent.
    Number(f64),
    /// A policy.
    Policy(String),
}

/// The measures of a policy, per cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Speed of the first program over that under the first policy, minus 1.
    Gain,
    /// The same for the geometric mean over all programs.
    OverallGain,
    /// Geometric mean of the slowdowns over the least under any other policy, minus 1.
    BehindBest,
    /// Standard deviation of the first program's speed over its mean, over seeds.
    Variation,
    /// System throughput over that under the first policy, minus 1.
    ThroughputGain,
    /// Jain's index of the slowdowns.
    Fairness,
    /// Relative speed-up over the first policy (Controlled Contention, equation 3).
    SpeedUp,
    /// 1 minus energy over that under the first policy, both until all have ended.
    EnergySaving,
}

impl SchedulersStudy {
    /// Keeps only one repetition of the first cell of every figure's first group.
    pub fn make_quick(&mut self) {
        for figure in &mut self.figures {
            *figure.repetitions.get_mut() = 1;
            figure.groups.truncate(1);
            figure.groups[0].mixes = Some(1);
            if figure.groups[0].size.is_none() {
                figure.groups[0].of.truncate(1);
            }
        }
    }
}
