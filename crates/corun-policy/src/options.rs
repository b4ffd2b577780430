//! Options of policies: what each has, with unit, range and default; and what was given, checked against that.

use crate::scope::Scope;
use corun_model::duration::{human_ns, parse_ns};
use std::collections::BTreeMap;

/// What values an option takes, besides its [`words`](OptionSpec::words).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A time, in nanoseconds from here to there.
    Time {
        /// The least.
        least_ns: u64,
        /// The most.
        most_ns: u64,
    },
    /// A whole number.
    Whole {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
        /// Its unit: "percent", "CPU-bound tasks".
        unit: &'static str,
    },
    /// `true` or `false`.
    Flag,
    /// A tenant's name.
    Name,
}

/// One option of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name in files and on the command line.
    pub name: &'static str,
    /// What it is where nobody says.
    pub default: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Words that it takes beside them.
    pub words: &'static [&'static str],
    /// What it does, in one clause.
    pub about: &'static str,
}

impl OptionSpec {
    /// Its unit, for people: "time", "percent".
    pub fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Time { .. } => "time",
            Kind::Whole { unit, .. } => unit,
            Kind::Flag => "true or false",
            Kind::Name => "tenant",
        }
    }

    /// What it takes, for people: "100 us to 1.00 s, or adaptive".
    pub fn range(&self) -> String {
        let mut parts = match self.kind {
            Kind::Time { least_ns, most_ns } => {
                vec![format!("{} to {}", human_ns(least_ns), human_ns(most_ns))]
            }
            Kind::Whole { least, most, unit } => vec![format!("{least} to {most} {unit}")],
            Kind::Flag => vec!["true or false".into()],
            Kind::Name => vec!["a tenant's name".into()],
        };
        parts.extend(self.words.iter().map(|w| (*w).to_owned()));
        parts.join(", or ")
    }

    fn read(&self, text: &str) -> Option<Value> {
        if let Some(word) = self.words.iter().find(|w| **w == text) {
            return Some(Value::Word(word));
        }
        match self.kind {
            Kind::Time { least_ns, most_ns } => {
                parse_ns(text).ok().filter(|ns| (least_ns..=most_ns).contains(ns)).map(Value::Number)
            }
            Kind::Whole { least, most, .. } => {
                text.parse().ok().filter(|n| (least..=most).contains(n)).map(Value::Number)
            }
            Kind::Flag => text.parse().ok().map(|yes: bool| Value::Number(u64::from(yes))),
            Kind::Name => (!text.is_empty()).then(|| Value::Name(text.to_owned())),
        }
    }
}

/// What was given to a policy: option texts, and whom it may touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    given: BTreeMap<String, String>,
    /// Whom it may touch.
    pub scope: Scope,
}

impl Options {
    /// Nothing given: every option has its default.
    pub fn new() -> Options {
        Options::default()
    }

    /// Gives an option, as text; the last one of a name counts. It is checked when the policy is made.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Options {
        self.given.insert(name.into().replace('_', "-"), value.into());
        self
    }

    /// Whom the policy may touch.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Options {
        self.scope = scope;
        self
    }

    /// What was given, by name.
    pub fn given(&self) -> impl Iterator<Item = (&str, &str)> {
        self.given.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Checks everything that was given against what a policy has.
    pub(crate) fn values(&self, policy: &str, specs: &'static [OptionSpec]) -> Result<Values, String> {
        if let Some(unknown) = self.given.keys().find(|name| specs.iter().all(|s| s.name != name.as_str())) {
            let known: Vec<&str> = specs.iter().map(|s| s.name).collect();
            return Err(match known.is_empty() {
                true => format!("{policy} has no options; leave `{unknown}` out"),
                false => format!("{policy} has no option `{unknown}`; it has {}", known.join(", ")),
            });
        }
        let mut values = BTreeMap::new();
        for spec in specs {
            let text = self.given.get(spec.name).map_or(spec.default, String::as_str);
            let value = spec.read(text).ok_or_else(|| {
                format!(
                    "{policy}: `{}` is `{text}`; give {} (default {})",
                    spec.name,
                    spec.range(),
                    spec.default
                )
            })?;
            values.insert(spec.name, value);
        }
        Ok(Values { values, scope: self.scope.clone() })
    }
}

#[derive(Clone, Debug)]
enum Value {
    Number(u64),
    Word(&'static str),
    Name(String),
}

/// A policy's options, all of them there and in range.
pub(crate) struct Values {
    values: BTreeMap<&'static str, Value>,
    pub scope: Scope,
}

impl Values {
    /// A number, time or flag; `None` where one of the option's words was given.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.values.get(name) {
            Some(Value::Number(n)) => Some(*n),
            Some(_) => None,
            None => panic!("no policy asks for an option that it does not declare: {name}"),
        }
    }

    /// The word that was given, if one was.
    pub fn word(&self, name: &str) -> Option<&'static str> {
        match self.values.get(name) {
            Some(Value::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// A tenant's name; `None` where a word was given.
    pub fn name(&self, name: &str) -> Option<String> {
        match self.values.get(name) {
            Some(Value::Name(text)) => Some(text.clone()),
            _ => None,
        }
    }
}
