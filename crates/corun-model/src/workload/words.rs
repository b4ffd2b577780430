//! Turns the messages of the TOML reader into words for the authors of such files, and finds the line.
//!
//! Limits: for an error in a table with a `kind` only the table is known. [`line_at`] searches the line in it.

use super::lines::{line_at, line_of};
use serde::de::DeserializeOwned;

/// The files that people write: the schema, its name, the command that reads it, and a typical key besides the schema.
const KINDS: [(&str, &str, &str, &str); 3] = [
    ("corun.workload/1", "a workload", "`corun load` runs", "a name and a [program]"),
    ("corun.scenario/1", "a scenario", "`corun sim` runs", "a machine and a [[tenant]] or several"),
    ("corun.machine/1", "a machine file", "scenarios name", "a name and a [shape]"),
];

/// Reads the text of a file with this schema. A wrong kind of file is reported before errors in it.
///
/// # Errors
/// As [`read_toml`].
pub fn read_file<T: DeserializeOwned>(schema: &str, text: &str) -> Result<T, (usize, String)> {
    match toml::from_str::<toml::Table>(text) {
        Ok(table) => check_schema(schema, &table).map_err(|what| (line_of(text, "schema"), what))?,
        // A text without a schema is not such a file, so its TOML errors do not matter.
        Err(_) if !text.lines().any(|line| line.trim_start().starts_with("schema")) => {
            let (_, a_kind, _, parts) = kind(schema);
            let what =
                format!("this is not {a_kind}: that is TOML, and has schema = \"{schema}\" and {parts}");
            return Err((1, what));
        }
        Err(_) => {}
    }
    read_toml(text)
}

/// The facts about files with a schema.
fn kind(schema: &str) -> (&str, &str, &str, &str) {
    let known = KINDS.into_iter().find(|k| k.0 == schema);
    known.unwrap_or((schema, "such a file", "", "its keys"))
}

fn check_schema(schema: &str, table: &toml::Table) -> Result<(), String> {
    let (_, a_kind, _, parts) = kind(schema);
    match table.get("schema") {
        Some(toml::Value::String(found)) if found == schema => Ok(()),
        Some(toml::Value::String(found)) => Err(match KINDS.into_iter().find(|k| k.0 == found) {
            Some((_, other, who, _)) => {
                format!("this is {other}, which {who}; {a_kind} has schema = \"{schema}\" and {parts}")
            }
            None => format!("schema is `{found}`, this corun reads `{schema}`"),
        }),
        // Another value is reported as for any other key.
        Some(_) => Ok(()),
        None if table.is_empty() => {
            Err(format!("the file is empty; {a_kind} has schema = \"{schema}\" and {parts}"))
        }
        None => Err(format!("`schema` is missing; {a_kind} begins with schema = \"{schema}\"")),
    }
}

/// Reads the text of a file.
///
/// # Errors
/// The line of the error, from 1, and one sentence with the error and the remedy.
pub fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, (usize, String)> {
    toml::from_str(text).map_err(|e| refusal(text, &e))
}

fn refusal(text: &str, error: &toml::de::Error) -> (usize, String) {
    let what = error.message().lines().collect::<Vec<_>>().join(" ");
    let start = error.span().map_or(0, |s| s.start.min(text.len()));
    (line_at(text, start, &what), in_words(&what, &text[start..]))
}

/// Type errors in plain words, without serde's names. `place` is the text from the error on.
fn in_words(what: &str, place: &str) -> String {
    let head = place.lines().next().unwrap_or("").split_inclusive(']').next().unwrap_or("");
    // For an error in a program only the place of the program is known.
    let is_its_own = head.starts_with('[') && !head.ends_with("program]");
    if what.contains("invalid type: map, expected a sequence") && is_its_own {
        return format!(
            "there can be several of these; write [{head}] instead of {head}, above each of them"
        );
    }
    if let Some((found, known)) = what.split_once(", expected ").filter(|_| what.starts_with("unknown ")) {
        let found = found.replace("unknown variant", "there is no");
        let known = known.trim_start_matches("one of ").replace(" or ", ", ").replace('`', "");
        return format!("{found}; name {}{known}", if known.contains(", ") { "one of " } else { "" });
    }
    if let Some(key) = what.strip_prefix("missing field ") {
        return format!("{key} is missing; give it");
    }
    if let Some((found, _)) = what.split_once("expected variant i") {
        return format!("{found}expected a text in quotes");
    }
    let names = [
        ("cannot recurse further; max recursion depth met", "lists are nested too deeply; remove some"),
        ("expected a sequence", "expected a list such as [1, 2]"),
        ("expected a string", "expected a text in quotes"),
        ("expected a map", "expected a table"),
        (" as i128, expected any value", ", which is too large"),
        (" as i128, expected u64", ", which is too large; give at most 18446744073709551615"),
        (" as i128, expected", ", expected"),
        ("invalid type: sequence", "invalid type: list"),
        ("invalid type: map", "invalid type: table"),
        ("expected string or map", "expected a text in quotes"),
        (
            "invalid value: map, expected map with a single key",
            "invalid type: table, expected a text in quotes",
        ),
        ("wanted string or table", "expected a text in quotes"),
        ("wanted exactly 1 element, found 0 elements", "expected a text in quotes"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number of at least 0"),
        ("expected usize", "expected a whole number of at least 0"),
        ("expected f64", "expected a number"),
        ("duplicate key", "this key occurs twice; remove one of them"),
    ];
    names.iter().fold(what.to_owned(), |what, (from, to)| what.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Sync;
    use std::collections::BTreeMap;

    /// The error for a file that should have values of this type.
    fn said<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> (usize, String) {
        read_toml::<BTreeMap<String, T>>(text).unwrap_err()
    }

    #[test]
    fn types_are_named_in_plain_words() {
        let seeds = |text: &str| said::<Vec<u64>>(text).1;
        assert_eq!(said::<String>("a = 7").1, "invalid type: integer `7`, expected a text in quotes");
        assert_eq!(said::<f64>("a = \"x\"").1, "invalid type: string \"x\", expected a number");
        assert_eq!(seeds("a = 1"), "invalid type: integer `1`, expected a list such as [1, 2]");
        assert_eq!(seeds("a = [-1]"), "invalid value: integer `-1`, expected a whole number of at least 0");
        assert_eq!(seeds("a = { b = 1 }"), "invalid type: table, expected a list such as [1, 2]");
        assert_eq!(said::<f64>("a = [1]").1, "invalid type: list, expected a number");
        for wrong in ["7", "[1]", "{}", "0.5", "true", "9223372036854775808"] {
            let what = said::<Sync>(&format!("a = {wrong}")).1;
            assert!(what.ends_with("expected a text in quotes") && !what.contains("map"), "{what}");
        }
        let large = "99999999999999999999";
        let what = format!("invalid type: integer `{large}`, expected a number");
        assert_eq!(said::<f64>(&format!("a = {large}")).1, what);
        let most = "which is too large; give at most 18446744073709551615";
        assert_eq!(seeds(&format!("a = [{large}]")), format!("invalid type: integer `{large}`, {most}"));
    }

    #[test]
    fn possible_values_are_named_and_missing_keys_are_requested() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Two {
            #[serde(rename = "first")]
            _first: bool,
            #[serde(rename = "second")]
            _second: Option<bool>,
        }
        assert!(said::<Sync>("a = \"x\"").1.starts_with("there is no `x`; name one of barrier, lock, "));
        assert_eq!(said::<Two>("a = { third = 1 }").1, "unknown field `third`; name one of first, second");
        assert_eq!(said::<Two>("a = {}").1, "`first` is missing; give it");
    }

    #[test]
    fn a_wrong_kind_of_file_is_reported_before_errors_in_it() {
        let said = |text: &str| read_file::<toml::Table>("corun.scenario/1", text).map(drop).unwrap_err();
        let parts = "a scenario has schema = \"corun.scenario/1\" and a machine and a [[tenant]] or several";
        let workload = "# a loop\nschema = \"corun.workload/1\"\nname = \"w\"\n[program]\n";
        assert_eq!(said(workload), (2, format!("this is a workload, which `corun load` runs; {parts}")));
        assert_eq!(said("\n# nothing\n"), (1, format!("the file is empty; {parts}")));
        let later = "schema is `corun.scenario/9`, this corun reads `corun.scenario/1`";
        assert_eq!(said("\nschema = \"corun.scenario/9\""), (2, later.into()));
        let none = "`schema` is missing; a scenario begins with schema = \"corun.scenario/1\"";
        assert_eq!(said("machine = \"host\""), (1, none.into()));
        assert!(read_file::<toml::Table>("corun.scenario/1", "schema = \"corun.scenario/1\"").is_ok());
        assert_eq!(said("schema = ").0, 1, "what is wrong in it is said by its reader");
        let passwd = said("root:x:0:0:root:/root:/bin/bash\n");
        assert!(passwd.1.starts_with("this is not a scenario: that is TOML, and has schema"), "{passwd:?}");
    }

    #[test]
    fn errors_name_the_line_and_single_brackets_and_repetitions_have_a_remedy() {
        let (line, what) = said::<Vec<u64>>("a = [1]\n[b]\nx = 1");
        let remedy = "there can be several of these; write [[b]] instead of [b], above each of them";
        assert_eq!((line, what.as_str()), (2, remedy));
        let (line, what) = said::<String>("a = \"x\"\na = \"y\"");
        assert_eq!((line, what.as_str()), (2, "this key occurs twice; remove one of them"));
    }
}
