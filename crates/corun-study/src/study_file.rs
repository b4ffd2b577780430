//! Common to all study files: they are TOML, and errors name file, line and remedy.

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

/// The first name that occurs twice.
pub fn twice(names: &[String]) -> Option<&String> {
    (1..names.len()).find_map(|i| names[..i].contains(&names[i]).then(|| &names[i]))
}

/// A wrong value in a study: its place, and the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The key.
    pub key: &'static str,
    /// The wrong name in the list of that key, if it is a list.
    pub name: Option<String>,
    /// What is wrong and what to do, in one sentence.
    pub what: String,
}

impl Wrong {
    /// An error of a key.
    pub fn key(key: &'static str, what: impl Into<String>) -> Wrong {
        Wrong { key, name: None, what: what.into() }
    }

    /// An error of a name in the list of a key.
    pub fn name(key: &'static str, name: &str, what: impl Into<String>) -> Wrong {
        Wrong { name: Some(name.to_owned()), ..Wrong::key(key, what) }
    }

    /// The line of the name, in the list or in a later list of that key. Otherwise the first line that sets the key.
    pub fn line(&self, text: &str) -> usize {
        let first = line_of(text, self.key);
        let quoted = self.name.as_ref().map(|name| format!("\"{name}\""));
        let mut from = text.lines().skip(first - 1);
        quoted.and_then(|name| from.position(|line| line.contains(&name))).unwrap_or(0) + first
    }
}

/// Reads the text of a file. Errors call the file `file`. The caller checks the values.
///
/// # Errors
/// [`BadStudy`] if the text is not TOML, or does not have the fields of `T`.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, BadStudy> {
    read_toml(text).map_err(|(line, what)| BadStudy { file: file.to_owned(), line, what })
}
