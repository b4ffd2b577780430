//! The output of `corun doctor`: the wire schema `corun.doctor/1`, and a table for a terminal.

use crate::json;
use crate::terminal::Style;
use crate::words::printable;
use comfy_table::{presets, ContentArrangement, Table};
use corun_model::finding::{Answer, Finding, Part};
use serde_json::Value;
use std::path::PathBuf;

/// Name and version of the JSON form; names are added, never changed.
pub const SCHEMA: &str = "corun.doctor/1";

/// The findings about a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorReport {
    /// How the machine would be watched, in one sentence.
    pub verdict: &'static str,
    /// All of it.
    pub findings: Vec<Finding>,
}

/// An agent's ring in its present state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingFound {
    /// Its folder.
    pub folder: PathBuf,
    /// The most disk space that it takes.
    pub most_bytes: u64,
    /// The disk space that it takes; `None` if it could not be opened.
    pub used_bytes: Option<u64>,
    /// When the oldest window in the ring began, as in RFC 3339; `None` if there is none yet.
    pub oldest: Option<String>,
    /// Why the last interval was not written; `None` if it was.
    pub why_not: Option<String>,
}

impl DoctorReport {
    /// As JSON.
    pub fn json(&self) -> String {
        json::indented(&value(self))
    }

    /// As JSON, with the ring of the agent that answers, if it has one.
    pub fn json_of_agent(&self, ring: Option<&RingFound>) -> String {
        let mut value = value(self);
        value["ring"] = ring.map_or(Value::Null, |ring| {
            serde_json::json!({
                "folder": ring.folder.display().to_string(),
                "most_bytes": ring.most_bytes,
                "used_bytes": ring.used_bytes,
                "oldest": ring.oldest,
                "is_written": ring.why_not.is_none(),
                "why_not": ring.why_not,
            })
        });
        json::indented(&value)
    }

    /// One table with a heading per part, then the verdict and the meaning of the symbols.
    pub fn table(&self, style: &Style) -> String {
        table(self, style)
    }
}

fn value(report: &DoctorReport) -> Value {
    let finding = |f: &Finding| {
        serde_json::json!({
            "part": f.part.name(),
            "what": f.what,
            "answer": f.answer.name(),
            "found": f.found,
            "remedy": f.remedy,
        })
    };
    serde_json::json!({
        "schema": SCHEMA,
        "verdict": report.verdict,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn table(report: &DoctorReport, style: &Style) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(style.width.try_into().unwrap_or(u16::MAX));
    for (part, heading) in [
        (Part::See, "What can be seen"),
        (Part::Act, "What can be done"),
        (Part::Allow, "What may be started"),
        (Part::Machine, "This machine"),
    ] {
        table.add_row(["", heading, ""]);
        for f in report.findings.iter().filter(|f| f.part == part) {
            let remedy = f.remedy.as_ref().map_or(String::new(), |r| format!("\n{} {r}", arrow(style)));
            table.add_row([symbol(f.answer, style), f.what, &printable(&format!("{}{remedy}", f.found))]);
        }
    }
    let rows: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    let legend: Vec<String> = [Answer::Yes, Answer::Partly, Answer::No]
        .map(|a| format!("{} {}", symbol(a, style), a.name()))
        .into();
    format!("{rows}\n{}.\n{}   {} what would help\n", report.verdict, legend.join("   "), arrow(style))
}

fn symbol(answer: Answer, style: &Style) -> &'static str {
    match (answer, style.unicode) {
        (Answer::Yes, true) => "✓",
        (Answer::Partly, true) => "◐",
        (Answer::No, true) => "✗",
        (Answer::Fact, true) => "·",
        (Answer::Yes, false) => "+",
        (Answer::Partly, false) => "~",
        (Answer::No, false) => "-",
        (Answer::Fact, false) => ".",
    }
}

fn arrow(style: &Style) -> &'static str {
    if style.unicode {
        "→"
    } else {
        "->"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> DoctorReport {
        let finding = |part, what, answer, remedy: Option<&str>| Finding {
            part,
            what,
            answer,
            found: format!("about {what}"),
            remedy: remedy.map(str::to_owned),
        };
        let findings = vec![
            finding(Part::See, "eBPF", Answer::No, Some("run as root")),
            finding(Part::Act, "slices", Answer::Partly, Some("use a newer kernel")),
            finding(Part::Machine, "topology", Answer::Fact, None),
        ];
        DoctorReport { verdict: "`corun profile` uses schedstat here", findings }
    }

    #[test]
    fn the_table_shows_reason_and_remedy_under_the_heading_of_each_part() {
        let text = report().table(&Style::plain(80));
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no `{part}` in:\n{text}"));
        let order =
            ["What can be seen", "✗", "about eBPF", "→ run as root", "What can be done", "◐", "topology"];
        assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{text}");
        let ascii = Style { unicode: false, ..Style::plain(80) };
        assert!(report().table(&ascii).is_ascii());
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut long = report();
        long.findings[0].found = "word ".repeat(60);
        for width in [60, 80, 120] {
            let text = long.table(&Style::plain(width));
            assert!(text.lines().all(|l| l.chars().count() <= width.max(90)), "{text}");
        }
    }

    #[test]
    fn the_json_names_its_schema_and_every_finding() {
        let value = value(&report());
        assert_eq!(value["schema"], "corun.doctor/1");
        assert_eq!(value["findings"][0]["answer"], "no");
        assert_eq!(value["findings"][2]["remedy"], serde_json::Value::Null);
        assert!(value["verdict"].as_str().unwrap().contains("corun profile"));
    }
}
