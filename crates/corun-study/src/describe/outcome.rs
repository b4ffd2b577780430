//! The result of a study of programs: their descriptions, and their co-runs live and modelled.

use super::choice::Described;
use crate::circumstances::RecordHead;
use crate::programs::Recipe;
use crate::statistics::median;
use serde::{Deserialize, Serialize};

/// A run counts as solo if other programs had at most this share of the machine.
pub const ALONE: f64 = 0.05;
/// The schema of a result.
pub const SCHEMA: &str = "corun.programs-study-result/1";

/// The result of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DescribeOutcome {
    /// Place and time of the runs, with [`SCHEMA`].
    #[serde(flatten)]
    pub head: RecordHead,
    /// How fair shares are grouped.
    pub shares: String,
    /// Its programs.
    pub programs: Vec<ProgramOutcome>,
}

/// The result of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramOutcome {
    /// Its name.
    pub name: String,
    /// A sentence about it.
    pub about: String,
    /// How it was run.
    pub recipe: Recipe,
    /// Why it was not described, or not run to its end.
    pub skipped: Option<String>,
    /// The number of events behind the description.
    pub events: u64,
    /// The share of the machine's CPU time that other programs had in the described run, 0 to 1.
    #[serde(default)]
    pub others: f64,
    /// Its description.
    pub is: Option<Described>,
    /// The same as a workload file.
    pub workload: String,
    /// Lengths of its solo runs, in nanoseconds.
    pub alone_ns: Vec<u64>,
    /// The solo length of the description on the modelled machine, in nanoseconds.
    pub modelled_alone_ns: Option<u64>,
    /// Its co-runs.
    pub beside: Vec<Beside>,
}

/// A program together with an interferer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The interferer.
    pub interferer: String,
    /// Lengths of the live co-runs, in nanoseconds.
    pub live_ns: Vec<u64>,
    /// Slowdown on the modelled machine.
    pub modelled: Option<f64>,
}

impl ProgramOutcome {
    /// The solo length, live.
    fn alone(&self) -> Option<f64> {
        median(&self.alone_ns.iter().map(|ns| *ns as f64).collect::<Vec<_>>())
    }

    /// The slowdowns of its co-runs, in ascending order.
    pub fn slowdowns(&self, beside: &Beside) -> Vec<f64> {
        let Some(alone_ns) = self.alone() else { return Vec::new() };
        let mut all: Vec<f64> = beside.live_ns.iter().map(|ns| *ns as f64 / alone_ns).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// The modelled slowdown over the live one, minus 1. `None` if one of them is missing.
    pub fn error(&self, beside: &Beside) -> Option<f64> {
        Some(beside.modelled? / median(&self.slowdowns(beside))? - 1.0)
    }

    /// The modelled solo length over the live one, minus 1.
    pub fn error_alone(&self) -> Option<f64> {
        Some(self.modelled_alone_ns? as f64 / self.alone()? - 1.0)
    }
}

impl DescribeOutcome {
    /// The absolute errors of all co-runs.
    pub fn errors(&self) -> Vec<f64> {
        let of =
            |p: &ProgramOutcome| p.beside.iter().filter_map(|b| p.error(b)).map(f64::abs).collect::<Vec<_>>();
        self.programs.iter().flat_map(of).collect()
    }
}
