//! What every file of a study has in common: it is TOML, and what is wrong with it is said with file, line and remedy.

use corun_model::workload::{line_of, read_toml};
use serde::de::DeserializeOwned;
use thiserror::Error;

/// A study file that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}:{line}: {what}")]
pub struct BadStudy {
    /// The file as named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and what to do, in one sentence.
    pub what: String,
}

/// The first name that is there a second time.
pub fn twice(names: &[String]) -> Option<&String> {
    (1..names.len()).find_map(|i| names[..i].contains(&names[i]).then(|| &names[i]))
}

/// The line of what is said of a list's `key`: where the name is that it quotes, in the list or in a later one of that key; the
/// first that sets the key where it quotes none.
pub fn line_naming(text: &str, key: &str, what: &str) -> usize {
    let first = line_of(text, key);
    let quoted = what.split('`').nth(1).map(|name| format!("\"{name}\""));
    let from = text.lines().skip(first - 1);
    quoted.and_then(|name| from.clone().position(|line| line.contains(&name))).unwrap_or(0) + first
}

/// Reads the text of a file, whose name is only for errors; what its values mean is the caller's to check.
///
/// # Errors
/// [`BadStudy`] where the text is no TOML, or has not the fields of `T`.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, BadStudy> {
    read_toml(text).map_err(|(line, what)| BadStudy { file: file.to_owned(), line, what })
}
