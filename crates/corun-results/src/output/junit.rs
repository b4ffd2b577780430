//! JUnit XML with one test case. It fails if the run was disturbed, is skipped if the verdict is unclear, and is in error if the
//! command itself failed.

use super::{Outcome, State};
use crate::annotate::attribute;
use std::fmt::Write;

/// An outcome as a JUnit file of its own.
pub fn write(outcome: &Outcome) -> String {
    let is_failed = outcome.state == State::Failed;
    let is_failure = outcome.is_failure && !is_failed;
    let element = match outcome.state {
        State::Failed => Some("error"),
        _ if is_failure => Some("failure"),
        State::Unclear => Some("skipped"),
        State::Clean | State::Disturbed => None,
    };
    let seconds = outcome.wall_ns as f64 / 1e9;
    let counts = format!(
        "tests=\"1\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\"",
        u8::from(is_failure),
        u8::from(is_failed),
        u8::from(element == Some("skipped")),
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(out, "<testsuites name=\"corun\" {counts}>");
    let _ = writeln!(out, "    <testsuite name=\"corun verify\" {counts}>");
    let name = attribute(&outcome.command);
    let _ =
        write!(out, "        <testcase name=\"{name}\" classname=\"corun.verify\" time=\"{seconds:.3}\">");
    if let Some(element) = element {
        let (message, kind) = (attribute(&outcome.sentence), outcome.state.word());
        // Text keeps its lines; only attributes cannot contain them.
        let text: Vec<String> = outcome.text.lines().map(attribute).collect();
        let _ = write!(
            out,
            "\n            <{element} message=\"{message}\" type=\"{kind}\">{}</{element}>\n        ",
            text.join("\n")
        );
    }
    out.push_str("</testcase>\n    </testsuite>\n</testsuites>\n");
    out
}
