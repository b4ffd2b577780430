//! An error in a value of a file that people write: a fact, with its sentence. The fact determines the line, so the wording of the
//! sentence is free.

use super::lines::line_of;
use std::fmt::Display;

/// A key with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadKey {
    /// The key.
    pub key: &'static str,
    /// The place that is meant, if several set the key.
    pub given: Given,
    /// The error and the remedy, in one sentence.
    pub what: String,
}

/// Identifies one of several places that set a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// The first place.
    First,
    /// The place that sets the key to this number or word.
    Value(String),
    /// The place that sets the key to this text in quotes, possibly followed by `/s`.
    Text(String),
    /// The last place that gives this name.
    Name(String),
}

impl BadKey {
    /// An error at the first place that sets the key.
    pub fn new(key: &'static str, what: impl Into<String>) -> BadKey {
        BadKey { key, given: Given::First, what: what.into() }
    }

    /// An invalid value: "KEY is VALUE", and the rest of the sentence with its comma or semicolon.
    pub fn is(key: &'static str, value: impl Display, rest: impl Display) -> BadKey {
        let value = value.to_string();
        BadKey { key, what: format!("{key} is {value}{rest}"), given: Given::Value(value) }
    }

    /// An error in this text of the key.
    pub fn text(key: &'static str, text: &str, what: impl Into<String>) -> BadKey {
        BadKey { key, given: Given::Text(text.to_owned()), what: what.into() }
    }

    /// An error in the last entry with this name.
    pub fn named(key: &'static str, name: &str, what: impl Into<String>) -> BadKey {
        BadKey { key, given: Given::Name(name.to_owned()), what: what.into() }
    }

    /// The line of the error in a file's text, from 1.
    pub fn line(&self, text: &str) -> usize {
        let found = match &self.given {
            Given::First => None,
            Given::Name(name) => {
                text.lines().enumerate().filter(|(_, l)| names(l, name)).last().map(|(i, _)| i)
            }
            Given::Value(value) => self.sets(text, |written| is_value(written, value)),
            Given::Text(quoted) => self.sets(text, |written| is_text(written, quoted)),
        };
        found.map_or_else(|| line_of(text, self.key), |i| i + 1)
    }

    /// The first line that sets the key to a value that is meant.
    fn sets(&self, text: &str, is_meant: impl Fn(&str) -> bool) -> Option<usize> {
        let says = |line: &str| {
            let after = line.split(self.key).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('='));
            after.map(str::trim_start).any(&is_meant)
        };
        text.lines().position(says)
    }
}

/// Whether a line gives this name.
fn names(line: &str, name: &str) -> bool {
    let quoted = format!("\"{name}\"");
    line.split("name").skip(1).any(|rest| rest.trim_start_matches([' ', '=']).starts_with(&quoted))
}

fn is_value(written: &str, value: &str) -> bool {
    let token = written.split([',', '}', '#', ' ']).next().unwrap_or("");
    let number = |t: &str| t.parse::<f64>().ok();
    token == value || (number(value).is_some() && number(token) == number(value))
}

fn is_text(written: &str, quoted: &str) -> bool {
    // A bandwidth is compared without its `/s`.
    let after = written.strip_prefix('"').and_then(|w| w.strip_prefix(quoted));
    after.is_some_and(|rest| rest.starts_with(['"', '/']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_by_the_value_and_not_by_the_wording() {
        let text = "[program]\nthreads = 2\n[[on]]\nthreads = 0 # none\n[cache]\nllc = \"7\"\nnode-bandwidth = \"9x/s\"\n\
                    [[stage]]\nname = \"a\"\n[[stage]]\nname = \"a\"\n";
        let reworded = |bad: BadKey| BadKey { what: "no good".into(), ..bad }.line(text);
        assert_eq!(reworded(BadKey::is("threads", 0, "; give more")), 4);
        assert_eq!(reworded(BadKey::is("threads", 2, "; give more")), 2);
        assert_eq!(reworded(BadKey::is("threads", "0.0", "; give more")), 4);
        assert_eq!(reworded(BadKey::new("threads", "too many")), 2);
        assert_eq!(reworded(BadKey::text("llc", "7", "`7` is no size")), 6);
        assert_eq!(reworded(BadKey::text("node-bandwidth", "9x", "`9x` is no size")), 7);
        assert_eq!(reworded(BadKey::named("name", "a", "it is there twice")), 11);
        assert_eq!(
            reworded(BadKey::is("wait", 3, "; leave it out")),
            1,
            "what the file leaves out has no line"
        );
    }
}
