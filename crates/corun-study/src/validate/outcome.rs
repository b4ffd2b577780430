//! What came of a study, as it is written and read back: schema `corun.validate/1`.
//!
//! Times are integers in nanoseconds, shares are of task time unless said otherwise. What was not measured is null.

use crate::validate::cell::Setting;
use crate::validate::cell_outcome::CellOutcome;
use crate::validate::fit::Tried;
use crate::validate::real::RealOutcome;
use crate::validate::verdict::Summary;
use corun_report::json;
use serde::{Deserialize, Serialize};

/// The schema's name.
pub const SCHEMA: &str = "corun.validate/1";

/// A study's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Always `corun.validate/1`.
    pub schema: String,
    /// The version of corun.
    pub corun: String,
    /// When the live runs were made, for people.
    pub date: Option<String>,
    /// The study's name.
    pub study: String,
    /// Which part of the matrix: `all`, `quick`, or the filter.
    pub part: String,
    /// Where.
    pub machine: MachineNote,
    /// What the model's one fitted number was chosen from.
    pub fitted: Vec<Tried>,
    /// The cells.
    pub cells: Vec<CellOutcome>,
    /// Real programs.
    #[serde(default)]
    pub real: Vec<RealOutcome>,
    /// Errors overall.
    pub summary: Vec<Summary>,
}

/// The machine and how it was set, without names or paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineNote {
    /// Its shape in words.
    pub shape: String,
    /// CPUs.
    pub cpus: u64,
    /// The processor's model name, as the kernel tells it.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// Whether it is a virtual machine.
    pub is_virtual: bool,
    /// What the model is told of it beside its shape.
    pub setting: Setting,
    /// How the ledgers were measured: `ebpf` or `schedstat`.
    pub source: Option<String>,
    /// Loops that are a millisecond of work; the same for all runs.
    pub loops_per_ms: Option<u64>,
    /// Figures of the model that nobody measured here.
    pub assumed: Vec<String>,
}

/// Writes an outcome, indented, with a newline at the end.
pub fn json(outcome: &Outcome) -> String {
    json::indented(outcome)
}

/// Reads what [`json()`] wrote.
///
/// # Errors
/// One sentence: what is wrong with it.
pub fn parse(text: &str) -> Result<Outcome, String> {
    let outcome: Outcome =
        serde_json::from_str(text).map_err(|e| format!("not a result of `corun validate`: {e}"))?;
    match outcome.schema.as_str() {
        SCHEMA => Ok(outcome),
        other => Err(format!("its schema is `{other}`, this corun reads `{SCHEMA}`")),
    }
}
