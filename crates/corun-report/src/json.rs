//! JSON: the contract of `--json`. Writing cannot fail; reading back checks everything a profile promises.

use crate::profile::schema::{ProfileReport, SCHEMA};
use thiserror::Error;

/// A file that is no profile, or one that contradicts itself.
#[derive(Debug, Error)]
pub enum ReadError {
    /// Not JSON, or not the fields of a profile.
    #[error("not a profile: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Another schema, or another version.
    #[error("the schema is `{0}`, this corun reads `{SCHEMA}`")]
    Schema(String),
    /// The numbers contradict each other.
    #[error("the profile contradicts itself: {}", .0.join("; "))]
    Contradiction(Vec<String>),
}

/// Writes a report, indented, with a newline at the end; the same report gives the same bytes.
pub fn write(report: &ProfileReport) -> String {
    let mut text = serde_json::to_string_pretty(report).expect("every field of a report is plain data");
    text.push('\n');
    text
}

/// The same on one line, for embedding.
pub fn write_compact(report: &ProfileReport) -> String {
    serde_json::to_string(report).expect("every field of a report is plain data")
}

/// Reads a report back and checks it.
///
/// # Errors
/// [`ReadError`] when the text is no profile of this schema, or when its numbers do not sum.
pub fn read(text: &str) -> Result<ProfileReport, ReadError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    let head: Head = serde_json::from_str(text)?;
    if head.schema != SCHEMA {
        return Err(ReadError::Schema(head.schema));
    }
    let report: ProfileReport = serde_json::from_str(text)?;
    report.check().map_err(ReadError::Contradiction)?;
    Ok(report)
}
