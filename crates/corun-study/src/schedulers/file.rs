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
    /// What people call it.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Programs other than the presets.
    #[serde(rename = "program", default)]
    pub programs: Vec<Program>,
    /// The figures.
    #[serde(rename = "figure")]
    pub figures: Vec<Figure>,
}

/// A program other than the presets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// What groups call it.
    pub name: String,
    /// Keys of a scenario's `[[tenant]]`; they go before those of the figure.
    pub tenant: Table,
    /// How long it runs alone, if it never ends and the figure has no `duration`.
    pub alone: Option<String>,
}

/// A figure: programs together on a machine, under some policies.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Figure {
    /// What people call it; its chart is `NAME.svg`.
    pub name: Spanned<String>,
    /// What it shows, for people.
    pub title: String,
    /// How it is shown.
    pub shows: Shows,
    /// As in a scenario.
    pub machine: String,
    /// As in a scenario.
    pub scheduler: Table,
    /// Keys of a scenario's `[[tenant]]` for every program.
    #[serde(default)]
    pub tenant: Table,
    /// Runs of every cell; the n-th has seed n.
    pub repetitions: Spanned<u64>,
    /// As in a scenario; absent: until every program has ended.
    pub duration: Option<String>,
    /// The policies; the others are compared with the first.
    #[serde(rename = "policy")]
    pub policies: Vec<PolicyUse>,
    /// The programs.
    #[serde(rename = "group")]
    pub groups: Vec<Group>,
    /// What was stated of it, by the paper or by corun's own targets.
    #[serde(default)]
    pub stated: Vec<Stated>,
}

/// How a figure is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shows {
    /// One program beside another: the slowdowns of both.
    Pairs,
    /// Programs that are alike in rank: throughput, fairness, relative speed-up.
    Mixes,
    /// The same, and what the machine draws until all have ended.
    Energy,
}

/// A policy with its options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyUse {
    /// What the tables call it.
    pub name: Spanned<String>,
    /// The policy; absent: nobody controls anything.
    pub policy: Option<String>,
    /// Its options, as in a scenario.
    #[serde(default)]
    pub options: Table,
    /// Programs that do the same work another way, by the name of the one whose place they take under this policy.
    #[serde(default)]
    pub instead: BTreeMap<Spanned<String>, String>,
}

/// Programs that run together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// What people call it.
    pub name: String,
    /// One of these, or several.
    pub of: Vec<Spanned<String>>,
    /// These always.
    #[serde(default)]
    pub with: Vec<Spanned<String>>,
    /// Programs of a mix, those of `with` among them; absent: each of `of` in turn, beside all of `with`.
    pub size: Option<Spanned<usize>>,
    /// At most so many mixes are drawn (1).
    pub mixes: Option<usize>,
}

/// A number that somebody stated.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Stated {
    /// What it is.
    pub what: String,
    /// Where it stands.
    pub place: String,
    /// What of ours it is held against.
    pub measure: Measure,
    /// The most instead of the mean.
    #[serde(default)]
    pub most: bool,
    /// Only these policies; absent: all but the first.
    #[serde(default)]
    pub policies: Vec<Spanned<String>>,
    /// Only these groups; absent: all.
    #[serde(default)]
    pub groups: Vec<Spanned<String>>,
    /// Only where one of these is the first program; absent: all.
    #[serde(default)]
    pub programs: Vec<Spanned<String>>,
    /// The number; or the name of the policy for which the mean is highest.
    pub value: Value,
}

/// A stated number, or name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a value is a number, or the name of a policy in quotes")]
pub enum Value {
    /// In the unit of the measure; shares, not percent.
    Number(f64),
    /// A policy.
    Policy(String),
}

/// What a policy is judged by, per cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Speed of the first program over that under the first policy, less 1.
    Gain,
    /// The same of the geometric mean over all programs.
    OverallGain,
    /// The geometric mean of the slowdowns over the least under any other policy, the first included, less 1.
    BehindBest,
    /// Standard deviation of the first program's speed over its mean, over seeds.
    Variation,
    /// System throughput over that under the first policy, less 1.
    ThroughputGain,
    /// Jain's index of the slowdowns.
    Fairness,
    /// Relative speed-up over the first policy: Controlled Contention, equation 3.
    SpeedUp,
    /// 1 less energy over that under the first policy, both until all have ended.
    EnergySaving,
}

impl SchedulersStudy {
    /// Leaves one repetition of the first cell of every figure's first group.
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
