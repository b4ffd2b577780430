//! `corun doctor`: what can be seen and done on this machine, as a table or as JSON. It changes nothing.

use crate::date::now;
use crate::lines;
use crate::target::SourceFlag;
use crate::usage::{check_files, interrupted, stop_on_signals};
use crate::values::length_ns;
use comfy_table::{presets, ContentArrangement, Table};
use corun_linux::doctor::{self, Answer, Finding, Part, Probes};
use corun_linux::Root;
use corun_model::duration::human_ns;
use corun_predict::MAX_DISTURBANCE;
use corun_report::noise::{self, NoiseReport};
use corun_report::output::write_file;
use corun_report::terminal::Style;
use corun_report::{describe, printable};
use corun_session::noise::Noise;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Name and version of the JSON form; names are added, never changed.
const SCHEMA: &str = "corun.doctor/1";

const EXAMPLES: &str = "\
Examples:
  corun doctor                what can be seen and done here, and why not
  sudo corun doctor           the same for root, who may do more
  corun doctor --json -       for scripts (schema corun.doctor/1)
  corun doctor --noise 30s    how much a program that computes would lose here now, and to whom
  corun doctor --noise 30s --json -
                              the same for scripts (schema corun.noise/1)

Nothing is changed. --noise keeps CPUs busy for as long as it measures, with ordinary threads that others share CPUs with.
Exit status: 0, whatever is found.";

/// Tell what can be seen and done on this machine, and why not
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Write the findings as JSON (schema corun.doctor/1, with --noise corun.noise/1); `-` is standard output, instead of
    /// the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Instead, compute for so long and tell what was taken: half of the time with one thread, half with a thread on each CPU
    #[arg(long, value_name = "TIME", value_parser = noise_ns)]
    noise: Option<u64>,
    /// How to see who took it: eBPF where possible, schedstat (no root, no names) otherwise
    #[arg(long, value_enum, default_value = "auto", requires = "noise")]
    source: SourceFlag,
}

/// The least and the most that --noise takes: a benchmark of a second is what it tells about, and it keeps CPUs busy.
const NOISE_NS: [u64; 2] = [2_000_000_000, 3_600_000_000_000];

fn noise_ns(text: &str) -> Result<u64, String> {
    let [least, most] = NOISE_NS;
    match length_ns(text)? {
        ns if ns < least => Err(format!("{text} is too short to tell; give at least {}", human_ns(least))),
        ns if ns > most => {
            Err(format!("{text} is long for keeping CPUs busy; give at most {}", human_ns(most)))
        }
        ns => Ok(ns),
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    check_files(&args.json)?;
    if let Some(length_ns) = args.noise {
        return measure_noise(&args, length_ns);
    }
    let findings = doctor::examine(&Root::new("/"), &Probes::ask());
    if let Some(path) = &args.json {
        write_file(path, corun_report::json::indented(&json(&findings)).as_bytes())?;
    }
    if args.json.as_deref() != Some("-".as_ref()) {
        write_file("-".as_ref(), table(&findings, &Style::of_stdout()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is found, as JSON.
pub fn as_json() -> String {
    corun_report::json::indented(&json(&doctor::examine(&Root::new("/"), &Probes::ask())))
}

fn measure_noise(args: &Args, length_ns: u64) -> anyhow::Result<ExitCode> {
    let stop = stop_on_signals()?;
    lines::say(&format!("corun doctor: keeping CPUs busy for {} to see who takes them", human_ns(length_ns)));
    let noise = Noise::measure(length_ns, args.source.wanted(), &stop)?;
    let report = NoiseReport {
        schema: noise::SCHEMA,
        corun: env!("CARGO_PKG_VERSION"),
        date: Some(now()),
        machine: noise.machine.as_ref().map(describe),
        source: noise.source.map(|source| source.name().into()),
        max_disturbance: MAX_DISTURBANCE,
        programs: noise.programs.iter().map(|program| program.summary(MAX_DISTURBANCE)).collect(),
        is_interrupted: noise.is_interrupted,
        unavailable: noise.missing.clone(),
    };
    if let Some(path) = &args.json {
        write_file(path, report.json().as_bytes())?;
    }
    if args.json.as_deref() != Some("-".as_ref()) {
        write_file("-".as_ref(), report.text().as_bytes())?;
    }
    Ok(if noise.is_interrupted { interrupted(&stop) } else { ExitCode::SUCCESS })
}

fn json(findings: &[Finding]) -> serde_json::Value {
    let finding = |f: &Finding| {
        json!({
            "part": f.part.name(),
            "what": f.what,
            "answer": f.answer.name(),
            "found": f.found,
            "remedy": f.remedy,
        })
    };
    json!({
        "schema": SCHEMA,
        "verdict": doctor::verdict(findings),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

/// One table with a heading per part, then the verdict and what the symbols mean.
fn table(findings: &[Finding], style: &Style) -> String {
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
        for f in findings.iter().filter(|f| f.part == part) {
            let remedy = f.remedy.as_ref().map_or(String::new(), |r| format!("\n{} {r}", arrow(style)));
            table.add_row([symbol(f.answer, style), f.what, &printable(&format!("{}{remedy}", f.found))]);
        }
    }
    let rows: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    let legend: Vec<String> = [Answer::Yes, Answer::Partly, Answer::No]
        .map(|a| format!("{} {}", symbol(a, style), a.name()))
        .into();
    format!(
        "{rows}\n{}.\n{}   {} what would help\n",
        doctor::verdict(findings),
        legend.join("   "),
        arrow(style)
    )
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

    fn findings() -> Vec<Finding> {
        let finding = |part, what, answer, remedy: Option<&str>| Finding {
            part,
            what,
            answer,
            found: format!("about {what}"),
            remedy: remedy.map(str::to_owned),
        };
        vec![
            finding(Part::See, "eBPF", Answer::No, Some("run as root")),
            finding(Part::Act, "slices", Answer::Partly, Some("use a newer kernel")),
            finding(Part::Machine, "topology", Answer::Fact, None),
        ]
    }

    #[test]
    fn the_table_shows_reason_and_remedy_under_the_heading_of_each_part() {
        let text = table(&findings(), &Style::plain(80));
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no `{part}` in:\n{text}"));
        let order =
            ["What can be seen", "✗", "about eBPF", "→ run as root", "What can be done", "◐", "topology"];
        assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{text}");
        let ascii = Style { unicode: false, ..Style::plain(80) };
        assert!(table(&findings(), &ascii).is_ascii());
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut long = findings();
        long[0].found = "word ".repeat(60);
        for width in [60, 80, 120] {
            let text = table(&long, &Style::plain(width));
            assert!(text.lines().all(|l| l.chars().count() <= width.max(90)), "{text}");
        }
    }

    #[test]
    fn the_json_names_its_schema_and_every_finding() {
        let value = json(&findings());
        assert_eq!(value["schema"], "corun.doctor/1");
        assert_eq!(value["findings"][0]["answer"], "no");
        assert_eq!(value["findings"][2]["remedy"], serde_json::Value::Null);
        assert!(value["verdict"].as_str().unwrap().contains("corun profile"));
    }
}
