//! What `corun doctor` says: the wire schema `corun.doctor/1`, and a table for a terminal.

use crate::json;
use crate::terminal::Style;
use crate::words::printable;
use comfy_table::{presets, ContentArrangement, Table};
use corun_model::finding::{Answer, Finding, Part};
use serde_json::Value;

/// Name and version of the JSON form; names are added, never changed.
pub const SCHEMA: &str = "corun.doctor/1";

/// What was found of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorReport {
    /// How it would be watched, in one sentence.
    pub verdict: &'static str,
    /// All of it.
    pub findings: Vec<Finding>,
}

impl DoctorReport {
    /// As JSON.
    pub fn json(&self) -> String {
        json::indented(&value(self))
    }

    /// One table with a heading per part, then the verdict and what the symbols mean.
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
