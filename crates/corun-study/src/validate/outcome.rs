//! The result of a study, as JSON of the schema `corun.validate/1`.
//!
//! Times are integers in nanoseconds. Shares are of task time unless stated otherwise. Unmeasured values are null.

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
    /// The part of the matrix: `all`, `quick`, or the filter.
    pub part: String,
    /// The machine.
    pub machine: MachineNote,
    /// The tried values of the model's one fitted number.
    pub fitted: Vec<Tried>,
    /// The cells.
    pub cells: Vec<CellOutcome>,
    /// Real programs.
    #[serde(default)]
    pub real: Vec<RealOutcome>,
    /// The errors over all cells.
    pub summary: Vec<Summary>,
}

/// The machine and its settings, without names or paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineNote {
    /// Its shape in words.
    pub shape: String,
    /// CPUs.
    pub cpus: u64,
    /// The processor's model name, from the kernel.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// Whether it is a virtual machine.
    pub is_virtual: bool,
    /// Its properties for the model, in addition to its shape.
    pub setting: Setting,
    /// How the ledgers were measured: `ebpf` or `schedstat`.
    pub source: Option<String>,
    /// Loops per millisecond of work; the same for all runs.
    pub loops_per_ms: Option<u64>,
    /// Figures of the model that were not measured here.
    pub assumed: Vec<String>,
}

/// Writes an outcome, indented, with a newline at the end.
pub fn json(outcome: &Outcome) -> String {
    json::indented(outcome)
}

/// Reads the text of [`json()`].
///
/// # Errors
/// One sentence: the error in the text.
pub fn parse(text: &str) -> Result<Outcome, String> {
    let outcome: Outcome =
        serde_json::from_str(text).map_err(|e| format!("not a result of `corun validate`: {e}"))?;
    match outcome.schema.as_str() {
        SCHEMA => Ok(outcome),
        other => Err(format!("its schema is `{other}`, this corun reads `{SCHEMA}`")),
    }
}
