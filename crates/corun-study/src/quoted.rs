//! The facts of a record by name, and their form in a document.

use std::collections::BTreeMap;

/// The facts of a record by their names.
pub type Facts = BTreeMap<String, String>;

/// A table in a document is on lines of its own.
pub(crate) fn block(markdown: &str) -> String {
    format!("\n\n{}\n\n", markdown.trim())
}

pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.1} %", share * 100.0))
}

/// A name as part of a fact's name.
pub(crate) fn slug(name: &str) -> String {
    name.replace(" + ", "+").replace(' ', "-")
}
