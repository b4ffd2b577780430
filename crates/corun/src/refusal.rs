//! Errors of clap in corun's style: one sentence that names the flag and the remedy.
//!
//! Method: up to its first empty line, clap's message says what is wrong, and perhaps what would be right. Of
//! its tips only those about similar names are useful here. Limits: it depends on the text that clap 4
//! renders.

use clap::error::ErrorKind;
use clap::{Arg, Command, Error};

/// The sentence; `None` if help or the version is to be shown. `given` is the command line without the
/// program.
pub fn sentence(error: &Error, command: &Command, given: &[String]) -> Option<String> {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | DisplayVersion) {
        return None;
    }
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let what = first.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    let (verb, found) = verb(command, given);
    if let Some(word) = unexpected(what).filter(|word| takes_command(found) && !word.starts_with('-')) {
        // The text as typed, with its arguments, and the position where clap stumbled.
        let at = given.iter().position(|w| w == word).unwrap_or(given.len());
        let rest: Vec<String> = given[at..].iter().map(|word| quoted(word)).collect();
        return Some(format!(
            "a command to run goes behind `--`: corun {} -- {}",
            given[..at].join(" "),
            rest.join(" ")
        ));
    }
    let what = in_words(what);
    let mut tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
    let tip = tips.find(|tip| tip.contains(" similar ")).map_or_else(String::new, |tip| format!("; {tip}"));
    Some(format!("{what}{tip}; `{verb} --help` tells more"))
}

/// A word quoted for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-+=./:,@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The word that clap did not expect.
fn unexpected(what: &str) -> Option<&str> {
    what.strip_prefix("unexpected argument '").and_then(|rest| rest.split('\'').next())
}

/// Whether a command to run may follow its `--`.
fn takes_command(verb: &Command) -> bool {
    verb.get_positionals().any(Arg::is_last_set)
}

/// Clap's message, for people who know neither its words nor the standard library's.
fn in_words(what: &str) -> String {
    if let Some(number) = unexpected(what).filter(|a| a.strip_prefix('-').is_some_and(begins_with_digit)) {
        return format!("no flag takes a number below 0, such as '{number}'");
    }
    if let Some((what, values)) = what.split_once(" [possible values: ") {
        return format!("{what}; give one of {}", values.trim_end_matches(']'));
    }
    if let Some((what, range)) = what.rsplit_once(" is not in ") {
        if let Some((least, most)) = range.split_once("..=") {
            return format!("{what} is out of range; give a number from {least} to {most}");
        }
    }
    let names = [
        (
            "invalid UTF-8 was detected in one or more arguments",
            "a word is not UTF-8; only commands, files and names of tenants need not be",
        ),
        ("invalid digit found in string", "it is no whole number"),
        ("number too large to fit in target type", "it is too large"),
        ("invalid float literal", "it is no number; give one such as 0.5"),
        ("cannot parse integer from empty string", "it is empty"),
        ("cannot parse float from empty string", "it is empty"),
    ];
    names.iter().fold(what.to_owned(), |what, (from, to)| what.replace(from, to))
}

fn begins_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// The intended verb, as far as it is known: `corun load parallel`, and its definition.
fn verb<'a>(command: &'a Command, given: &[String]) -> (String, &'a Command) {
    let (mut at, mut path) = (command, String::from("corun"));
    for word in given {
        let Some(below) = at.find_subcommand(word) else { break };
        at = below;
        path = format!("{path} {word}");
    }
    (path, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{CommandFactory, Parser};

    fn said(line: &str) -> Option<String> {
        let given: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let words = std::iter::once("corun".to_owned()).chain(given.clone());
        sentence(&Cli::try_parse_from(words).unwrap_err(), &Cli::command(), &given)
    }

    #[test]
    fn every_refusal_is_one_line_that_names_the_flag_and_the_remedy() {
        for (line, what, verb) in [
            ("sim a --seeds abc", "invalid value 'abc' for '--seeds <N>': it is no whole number", "sim"),
            ("sim a --seeds -1", "no flag takes a number below 0, such as '-1'", "sim"),
            (
                "load cpu --loops-per-ms 0",
                "invalid value '0' for '--loops-per-ms <N>': 0 is out of range; give a number from 1 to 100000000",
                "load cpu",
            ),
            (
                "load periodic --demand 30%",
                "invalid value '30%' for '--demand <SHARE>': it is no number; give one such as 0.5",
                "load periodic",
            ),
            (
                "sim a --seeds 2 --seed 3",
                "the argument '--seeds <N>' cannot be used with '--seed <SEED>'",
                "sim",
            ),
            (
                "policies --jsonn",
                "unexpected argument '--jsonn' found; a similar argument exists: '--json'",
                "policies",
            ),
            ("load parallel --frobnicate", "unexpected argument '--frobnicate' found", "load parallel"),
            ("verify", "the following required arguments were not provided: <CMD>...", "verify"),
            ("generate pdf x", "invalid value 'pdf' for '<WHAT>'; give one of man, completions", "generate"),
        ] {
            assert_eq!(said(line), Some(format!("{what}; `corun {verb} --help` tells more")), "{line}");
        }
        let similar = said("profile --all --source ebfp").unwrap();
        assert!(similar.contains("; give one of auto, ebpf, schedstat; a similar value exists: 'ebpf'; "));
    }

    #[test]
    fn a_command_without_the_dashes_before_it_gets_a_hint_about_them() {
        for (given, right) in [
            ("profile make -j8", "profile -- make -j8"),
            ("predict ./burn 0.1", "predict -- ./burn 0.1"),
            ("verify make make", "verify -- make make"),
            ("profile --quiet ./burn *", "profile --quiet -- ./burn '*'"),
            ("profile --json a ./burn", "profile --json a -- ./burn"),
        ] {
            let what = format!("a command to run goes behind `--`: corun {right}");
            assert_eq!(said(given), Some(what));
        }
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn non_text_is_refused_where_text_is_required_and_allowed_in_names_and_commands() {
        use std::os::unix::ffi::OsStringExt;
        let parsed = |line: &[&str]| {
            let bytes = |word: &&str| std::ffi::OsString::from_vec(word.replace('?', "\u{1}").into_bytes());
            let words = line.iter().map(bytes).map(|w| {
                let bytes = w.into_vec().into_iter().map(|b| if b == 1 { 0xff } else { b }).collect();
                std::ffi::OsString::from_vec(bytes)
            });
            Cli::try_parse_from(words)
                .map_err(|e| sentence(&e, &Cli::command(), &["sim".to_owned()]).unwrap())
        };
        for line in [
            &["corun", "profile", "--json", "?", "--", "c?", "?"][..],
            &["corun", "predict", "--dedicated", "--park", "?", "--protect", "?", "--cgroup", "?"],
            &["corun", "verify", "--junit", "?", "--", "?"],
            &["corun", "control", "gang", "--tenant", "?", "--protect", "?", "--html", "?"],
            &["corun", "profile", "--vm", "?"],
            &["corun", "sim", "?"],
        ] {
            assert!(parsed(line).is_ok(), "{line:?}");
        }
        let refused = parsed(&["corun", "sim", "a", "--machine", "?"]).unwrap_err();
        assert!(refused.starts_with("a word is not UTF-8; only commands"), "{refused}");
    }

    #[test]
    fn help_and_version_are_no_errors() {
        for line in ["--help", "--version", "sim --help", "sim", ""] {
            assert_eq!(said(line), None, "{line}");
        }
    }
}
