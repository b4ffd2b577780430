//! Options of policies: their units, ranges and defaults, and the check of given values.

use crate::scope::Scope;
use corun_model::duration::{human_ns, parse_ns};
use std::collections::BTreeMap;

/// The values of an option, in addition to its [`words`](OptionSpec::words).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A time in nanoseconds, within a range.
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
    /// Its default value.
    pub default: &'static str,
    /// The values that it takes.
    pub kind: Kind,
    /// Words that it also takes.
    pub words: &'static [&'static str],
    /// Its effect, in one clause.
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

    /// Its values, for people: "100 us to 1.00 s, or adaptive".
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

/// Why a policy cannot be made. Displayed, it is one sentence with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadPolicy {
    /// No policy has this name.
    Unknown {
        /// The name.
        name: String,
        /// The existing policies.
        known: Vec<&'static str>,
    },
    /// The policy has no such option.
    NoOption {
        /// The policy.
        policy: &'static str,
        /// The option.
        option: String,
        /// The existing options.
        known: Vec<&'static str>,
    },
    /// The option does not take this value.
    BadValue {
        /// The policy.
        policy: &'static str,
        /// The option.
        option: &'static OptionSpec,
        /// The value.
        value: String,
    },
    /// The least of two times is larger than the most.
    Exchanged {
        /// The policy.
        policy: &'static str,
        /// The options, with their times in nanoseconds.
        bounds: [(&'static str, u64); 2],
    },
    /// The time for which tenants have the machine alone is not shorter than its period.
    NotShorter {
        /// The policy.
        policy: &'static str,
        /// The options: the shorter one first.
        options: [&'static str; 2],
    },
}

impl BadPolicy {
    /// The options that are wrong.
    pub fn options(&self) -> Vec<&str> {
        match self {
            BadPolicy::Unknown { .. } => Vec::new(),
            BadPolicy::NoOption { option, .. } => vec![option],
            BadPolicy::BadValue { option, .. } => vec![option.name],
            BadPolicy::Exchanged { bounds, .. } => bounds.iter().map(|(name, _)| *name).collect(),
            BadPolicy::NotShorter { options, .. } => options.to_vec(),
        }
    }
}

impl std::fmt::Display for BadPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadPolicy::Unknown { name, known } => {
                write!(f, "there is no policy `{name}`; name one of {}", known.join(", "))
            }
            BadPolicy::NoOption { policy, option, known } if known.is_empty() => {
                write!(f, "{policy} has no options; leave `{option}` out")
            }
            BadPolicy::NoOption { policy, option, known } => {
                write!(f, "{policy} has no option `{option}`; it has {}", known.join(", "))
            }
            BadPolicy::BadValue { policy, option, value } => {
                let OptionSpec { name, default, .. } = option;
                write!(f, "{policy}: `{name}` is `{value}`; give {} (default {default})", option.range())
            }
            BadPolicy::Exchanged { policy, bounds: [(least, least_ns), (most, most_ns)] } => {
                let (low, high) = (human_ns(*least_ns), human_ns(*most_ns));
                write!(f, "{policy}: `{least}` is {low}, above `{most}`, which is {high}; exchange them")
            }
            BadPolicy::NotShorter { policy, options: [shorter, longer] } => {
                write!(f, "{policy}: `{shorter}` must be shorter than `{longer}`, or the others never run")
            }
        }
    }
}

impl std::error::Error for BadPolicy {}

/// The options for a policy as text, and its scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    given: BTreeMap<String, String>,
    /// The tenants that it may touch.
    pub scope: Scope,
}

impl Options {
    /// No options: all have their defaults.
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets an option, as text. The last value of a name counts. Values are checked when the policy is made.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Options {
        self.given.insert(name.into().replace('_', "-"), value.into());
        self
    }

    /// Sets the tenants that the policy may touch.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Options {
        self.scope = scope;
        self
    }

    /// The given options, by name.
    pub fn given(&self) -> impl Iterator<Item = (&str, &str)> {
        self.given.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Checks all given options against those of a policy.
    pub(crate) fn values(
        &self,
        policy: &'static str,
        specs: &'static [OptionSpec],
    ) -> Result<Values, BadPolicy> {
        if let Some(unknown) = self.given.keys().find(|name| specs.iter().all(|s| s.name != name.as_str())) {
            let known = specs.iter().map(|s| s.name).collect();
            return Err(BadPolicy::NoOption { policy, option: unknown.clone(), known });
        }
        let mut values = BTreeMap::new();
        for spec in specs {
            let text = self.given.get(spec.name).map_or(spec.default, String::as_str);
            let bad = || BadPolicy::BadValue { policy, option: spec, value: text.to_owned() };
            let value = spec.read(text).ok_or_else(bad)?;
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

/// The options of a policy, complete and in range.
pub(crate) struct Values {
    values: BTreeMap<&'static str, Value>,
    pub scope: Scope,
}

impl Values {
    /// A number, time or flag. `None` if a word was given.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.values.get(name) {
            Some(Value::Number(n)) => Some(*n),
            Some(_) => None,
            None => panic!("no policy asks for an option that it does not declare: {name}"),
        }
    }

    /// The given word, if any.
    pub fn word(&self, name: &str) -> Option<&'static str> {
        match self.values.get(name) {
            Some(Value::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// A tenant's name. `None` if a word was given.
    pub fn name(&self, name: &str) -> Option<String> {
        match self.values.get(name) {
            Some(Value::Name(text)) => Some(text.clone()),
            _ => None,
        }
    }
}
