//! The output for a step of a GitHub workflow: a summary and annotations.

use crate::lines;
use crate::usage::Usage;
use anyhow::Context;
use corun_results::output::github::{annotations, summary, Level};
use corun_results::Outcome;
use std::io::Write;
use std::path::PathBuf;

/// The variable with GitHub's file for the summary of this step.
const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// GitHub's file for the summary.
///
/// # Errors
/// If this is no step of a workflow.
pub fn summary_file() -> Result<PathBuf, Usage> {
    let file = std::env::var_os(SUMMARY).filter(|file| !file.is_empty());
    let none =
        || Usage(format!("--github needs {SUMMARY}, which GitHub sets in a step; leave it out elsewhere"));
    file.map(PathBuf::from).ok_or_else(none)
}

/// Shows an outcome in this step.
pub fn show(outcome: &Outcome, level: Level) -> anyhow::Result<()> {
    let path = summary_file()?;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let written = file.as_mut().map_err(|e| std::io::Error::new(e.kind(), e.to_string()));
    written
        .and_then(|file| file.write_all(summary(outcome).as_bytes()))
        .with_context(|| format!("writing the summary to {}", path.display()))?;
    // The runner reads workflow commands from standard error, too, and standard output belongs to the
    // command.
    lines::tell(&annotations(outcome, level)).map(drop)
}
