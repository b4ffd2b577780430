//! A value of a JSON file that knows its place, so that errors can name it.

use crate::unread::Problem;
use serde_json::Value;

/// A value and its place.
#[derive(Clone)]
pub(crate) struct Field<'a> {
    value: &'a Value,
    key: String,
}

impl<'a> Field<'a> {
    /// The whole file.
    pub fn root(value: &'a Value) -> Field<'a> {
        Field { value, key: String::new() }
    }

    /// A member, if it exists and is not null.
    pub fn find(&self, name: &str) -> Option<Field<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        let dot = if self.key.is_empty() { "" } else { "." };
        Some(Field { value, key: format!("{}{dot}{name}", self.key) })
    }

    /// A member that must exist.
    pub fn get(&self, name: &str) -> Result<Field<'a>, Problem> {
        let dot = if self.key.is_empty() { "" } else { "." };
        let key = format!("{}{dot}{name}", self.key);
        self.find(name).ok_or(Problem::Value { key, wanted: "there" })
    }

    /// The elements of a list.
    pub fn list(&self) -> Result<Vec<Field<'a>>, Problem> {
        let list = self.value.as_array().ok_or_else(|| self.is_not("a list"))?;
        let element = |(n, value)| Field { value, key: format!("{}[{n}]", self.key) };
        Ok(list.iter().enumerate().map(element).collect())
    }

    pub fn text(&self) -> Result<&'a str, Problem> {
        self.value.as_str().ok_or_else(|| self.is_not("a text"))
    }

    /// A number of at least 0.
    pub fn amount(&self) -> Result<f64, Problem> {
        let amount = self.value.as_f64().filter(|x| x.is_finite() && *x >= 0.0);
        amount.ok_or_else(|| self.is_not("a number of at least 0"))
    }

    pub fn amounts(&self) -> Result<Vec<f64>, Problem> {
        self.list()?.iter().map(Field::amount).collect()
    }

    /// Its JSON text.
    pub fn json(&self) -> String {
        self.value.to_string()
    }

    pub fn is_not(&self, wanted: &'static str) -> Problem {
        Problem::Value { key: self.key.clone(), wanted }
    }

    /// The error that this version is unknown.
    pub fn is_unknown_version(&self, known: &'static str) -> Problem {
        Problem::Version { key: self.key.clone(), found: self.value.to_string(), known }
    }
}
