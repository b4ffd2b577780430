//! The output of `corun policies`: the wire schema `corun.policies/1`, and two tables for a terminal.

use crate::json;
use crate::table::Table;
use serde::Serialize;

/// Name and version of the JSON form; names are added, never changed.
pub const SCHEMA: &str = "corun.policies/1";

/// Every policy, with what this machine supports of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Version of corun that wrote this.
    pub corun: &'static str,
    /// The policies.
    pub policies: Vec<Listed>,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// Its effect.
    pub about: &'static str,
    /// The paper that it is from.
    pub source: &'static str,
    /// The knobs that it turns.
    pub knobs: Vec<&'static str>,
    /// The counters that it decides by.
    pub counters: Vec<&'static str>,
    /// Why they cannot be counted here; `None` if they can, or none is needed.
    pub no_counters: Option<String>,
    /// Its options.
    pub options: Vec<ListedOption>,
    /// The possible backends.
    pub backends: Vec<ListedBackend>,
}

/// An option of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedOption {
    /// Its name.
    pub name: &'static str,
    /// Its default.
    pub default: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// Its range.
    pub range: String,
    /// Its effect.
    pub about: &'static str,
}

/// A backend that could carry out a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedBackend {
    /// Its name.
    pub name: &'static str,
    /// Whether it can.
    pub can: bool,
    /// Per knob: how it is set, or why it cannot be.
    pub knobs: Vec<ListedKnob>,
}

/// A knob under a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedKnob {
    /// Which.
    pub knob: &'static str,
    /// Whether it can be set.
    pub can: bool,
    /// How, or why not.
    pub how: String,
}

#[derive(Serialize)]
struct Wire<'a> {
    schema: &'static str,
    corun: &'static str,
    policies: &'a [Listed],
}

impl Listing {
    /// As JSON.
    pub fn json(&self) -> String {
        json::indented(&Wire { schema: SCHEMA, corun: self.corun, policies: &self.policies })
    }

    /// As two tables: the policies, and their options.
    pub fn text(&self) -> String {
        let mut table = Table::new(&["policy", "what it does", "knobs", "here", "from"]);
        for p in &self.policies {
            let (can, cannot): (Vec<_>, Vec<_>) = p.backends.iter().partition(|b| b.can);
            let names = |all: &[&ListedBackend]| all.iter().map(|b| b.name).collect::<Vec<_>>().join(", ");
            let here = match (can.as_slice(), cannot.as_slice()) {
                _ if p.no_counters.is_some() => "no (hardware counters)".to_owned(),
                ([], _) => "no".to_owned(),
                (_, []) => names(&can),
                _ => format!("{} (not {})", names(&can), names(&cannot)),
            };
            table.row([p.name.into(), p.about.into(), p.knobs.join(", "), here, p.source.into()]);
        }
        let policies = table.text();
        let mut table = Table::new(&["policy", "option", "default", "takes", "what it does"]);
        for p in &self.policies {
            for o in &p.options {
                table.row([p.name.into(), o.name.into(), o.default.into(), o.range.clone(), o.about.into()]);
            }
        }
        format!("{policies}\n{}\n", table.text())
    }
}
