//! Output for GitHub: a summary in Markdown, and annotations as workflow commands.

use super::{human_s, Outcome, State, TestVerdict};
use std::fmt::Write;

/// The level of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Red: the step fails.
    Error,
    /// Yellow.
    Warning,
    /// Grey.
    Notice,
}

/// The most rows of a table, since a summary may have a megabyte.
const MOST_ROWS: usize = 200;

/// An outcome in Markdown, to be appended to the file that `$GITHUB_STEP_SUMMARY` names.
pub fn summary(outcome: &Outcome) -> String {
    let mut out = format!("### corun verify: {}\n\n", outcome.state.word());
    let _ = writeln!(out, "{}: {}\n", code(&outcome.command), cell(&outcome.sentence));
    if !outcome.benchmarks.is_empty() {
        out.push_str("| benchmark | raw mean | mean of clean ones | iterations | disturbed | cannot tell | mostly by |\n");
        out.push_str("| --- | ---: | ---: | ---: | ---: | ---: | --- |\n");
        for measured in outcome.benchmarks.iter().take(MOST_ROWS) {
            let cleaned = measured.cleaned.map_or("none".to_owned(), |spread| human_s(spread.mean_s));
            let _ = writeln!(
                out,
                "| {} | {} | {cleaned} | {} | {} | {} | {} |",
                code(&measured.name),
                human_s(measured.raw.mean_s),
                measured.raw.count,
                measured.disturbed,
                measured.unclear,
                measured.culprit.as_deref().map_or(String::new(), code)
            );
        }
        out.push_str(&more(outcome.benchmarks.len()));
    }
    if !outcome.tests.is_empty() {
        out.push_str("| failed test | verdict | why |\n| --- | --- | --- |\n");
        for test in outcome.tests.iter().take(MOST_ROWS) {
            let _ = writeln!(
                out,
                "| {} | {} | {} |",
                code(&test.name),
                cell(test.verdict.name()),
                cell(&test.why)
            );
        }
        out.push_str(&more(outcome.tests.len()));
    }
    out
}

fn more(rows: usize) -> String {
    match rows.saturating_sub(MOST_ROWS) {
        0 => "\n".to_owned(),
        more => format!("\nand {more} more\n\n"),
    }
}

/// The lines that make GitHub show annotations. Disturbed runs have the level `level`; a clean run has none.
pub fn annotations(outcome: &Outcome, level: Level) -> String {
    let mut out = String::new();
    let mut annotate = |level: Level, title: &str, message: &str| {
        let command = match level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Notice => "notice",
        };
        let _ = writeln!(out, "::{command} title={}::{}", property(title), message_of(message));
    };
    match outcome.state {
        State::Disturbed => annotate(level, "disturbed run", &outcome.sentence),
        State::Unclear if outcome.is_failure => annotate(level, "unclear run", &outcome.sentence),
        State::Unclear => annotate(Level::Notice, "unclear run", &outcome.sentence),
        State::Clean | State::Failed => {}
    }
    for test in outcome.tests.iter().filter(|test| test.verdict != TestVerdict::NotStarved).take(MOST_ROWS) {
        annotate(Level::Notice, &format!("{}: {}", test.verdict.name(), test.name), &test.why);
    }
    out
}

/// Escapes text for a workflow command, which is one line.
fn message_of(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property, which ends at a comma or colon.
fn property(text: &str) -> String {
    message_of(text).replace(':', "%3A").replace(',', "%2C")
}

/// Escapes text for a table cell, so that nothing in it is Markdown or HTML.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' | '@' => {
                out.push_str(&format!("&#{};", u32::from(c)));
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The same, as code.
fn code(text: &str) -> String {
    format!("<code>{}</code>", cell(text))
}
