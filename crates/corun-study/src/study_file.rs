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

/// A value of a study that cannot be: where it stands, and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The key.
    pub key: &'static str,
    /// The name in its list that is meant, where it is one.
    pub name: Option<String>,
    /// What is wrong and what to do, in one sentence.
    pub what: String,
}

impl Wrong {
    /// What is wrong with a key.
    pub fn key(key: &'static str, what: impl Into<String>) -> Wrong {
        Wrong { key, name: None, what: what.into() }
    }

    /// What is wrong with a name that a key's list has.
    pub fn name(key: &'static str, name: &str, what: impl Into<String>) -> Wrong {
        Wrong { name: Some(name.to_owned()), ..Wrong::key(key, what) }
    }

    /// The line: where the name is, in the list or in a later one of that key; else the first that sets the key.
    pub fn line(&self, text: &str) -> usize {
        let first = line_of(text, self.key);
        let quoted = self.name.as_ref().map(|name| format!("\"{name}\""));
        let mut from = text.lines().skip(first - 1);
        quoted.and_then(|name| from.position(|line| line.contains(&name))).unwrap_or(0) + first
    }
}

/// Reads the text of a file, whose name is only for errors; what its values mean is the caller's to check.
///
/// # Errors
/// [`BadStudy`] where the text is no TOML, or has not the fields of `T`.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, BadStudy> {
    read_toml(text).map_err(|(line, what)| BadStudy { file: file.to_owned(), line, what })
}
