//! JSON: the format of everything that corun reports to programs, and the contract of `profile --json`.
//! Writing cannot fail; reading back checks everything that a profile promises.
//!
//! Characters that could control a terminal are escaped. JSON is viewed on terminals, too, and a process may
//! have any name. A program that reads the JSON gets the original name.

use crate::profile::schema::{ProfileReport, SCHEMA};
use crate::words::steers;
use serde::Serialize;
use std::fmt::Write;
use thiserror::Error;

/// A file that is not a profile, or one that contradicts itself.
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

/// Plain data as JSON, indented, with a newline at the end; the same data give the same bytes.
pub fn indented(data: &impl Serialize) -> String {
    escaped(&serde_json::to_string_pretty(data).expect("everything told is plain data")) + "\n"
}

/// The same on one line, without the newline.
pub fn compact(data: &impl Serialize) -> String {
    escaped(&serde_json::to_string(data).expect("everything told is plain data"))
}

/// Serde escapes what JSON requires: nothing above ASCII, and all such characters are inside strings.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // All of these have four digits.
            c if c > '~' && steers(c) => write!(out, "\\u{:04x}", u32::from(c)).expect("text takes text"),
            c => out.push(c),
        }
    }
    out
}

/// Reads a report back and checks it.
///
/// # Errors
/// [`ReadError`] if the text is not a profile of this schema, or if its numbers do not sum.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_json_cannot_control_the_terminal_and_is_read_back_unchanged() {
        let name = "a\u{1b}[2Jb\u{7f}\u{9b}2J\u{202e}c\u{feff}\"\n\u{e9}\u{1f600}".to_owned();
        for text in [indented(&[&name]), compact(&[&name])] {
            assert!(!text.chars().any(|c| c != '\n' && steers(c)), "{text:?}");
            assert!(text.contains("\\u009b2J\\u202ec\\ufeff") && text.contains("\u{e9}\u{1f600}"), "{text}");
            assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [name.as_str()]);
        }
    }
}
