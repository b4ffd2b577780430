//! What came of a study of programs: their descriptions, and their co-runs live and modelled.

use super::choice::Described;
use crate::circumstances::RecordHead;
use crate::programs::Recipe;
use crate::statistics::median;
use serde::{Deserialize, Serialize};

/// A run was alone if others had no more than this share of the machine.
pub const ALONE: f64 = 0.05;
/// The schema of a result.
pub const SCHEMA: &str = "corun.programs-study-result/1";

/// What came of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DescribeOutcome {
    /// Where and when, with [`SCHEMA`].
    #[serde(flatten)]
    pub head: RecordHead,
    /// How fair shares are grouped.
    pub shares: String,
    /// Its programs.
    pub programs: Vec<ProgramOutcome>,
}

/// What came of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramOutcome {
    /// Which.
    pub name: String,
    /// What it is.
    pub about: String,
    /// How it was run.
    pub recipe: Recipe,
    /// Why it was not described, or not run to its end.
    pub skipped: Option<String>,
    /// Events that the description was made from.
    pub events: u64,
    /// The share of the machine's CPU time that others had in the run that it was made from.
    #[serde(default)]
    pub others: f64,
    /// Its description.
    pub is: Option<Described>,
    /// The same as a workload file.
    pub workload: String,
    /// Its runs alone, in nanoseconds.
    pub alone_ns: Vec<u64>,
    /// The description's alone, on the modelled machine.
    pub modelled_alone_ns: Option<u64>,
    /// Its co-runs.
    pub beside: Vec<Beside>,
}

/// A program beside an interferer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The interferer.
    pub interferer: String,
    /// Live, in nanoseconds.
    pub live_ns: Vec<u64>,
    /// Times as long as alone, on the modelled machine.
    pub modelled: Option<f64>,
}

impl ProgramOutcome {
    /// A length alone, live.
    fn alone(&self) -> Option<f64> {
        median(&self.alone_ns.iter().map(|ns| *ns as f64).collect::<Vec<_>>())
    }

    /// How many times as long its co-runs took, each, in order of size.
    pub fn slowdowns(&self, beside: &Beside) -> Vec<f64> {
        let Some(alone_ns) = self.alone() else { return Vec::new() };
        let mut all: Vec<f64> = beside.live_ns.iter().map(|ns| *ns as f64 / alone_ns).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// The modelled slowdown divided by the live one, less 1; `None`: one of them is missing.
    pub fn error(&self, beside: &Beside) -> Option<f64> {
        Some(beside.modelled? / median(&self.slowdowns(beside))? - 1.0)
    }

    /// The modelled length alone divided by the live one, less 1.
    pub fn error_alone(&self) -> Option<f64> {
        Some(self.modelled_alone_ns? as f64 / self.alone()? - 1.0)
    }
}

impl DescribeOutcome {
    /// The errors of all co-runs, without their sign.
    pub fn errors(&self) -> Vec<f64> {
        let of =
            |p: &ProgramOutcome| p.beside.iter().filter_map(|b| p.error(b)).map(f64::abs).collect::<Vec<_>>();
        self.programs.iter().flat_map(of).collect()
    }
}
