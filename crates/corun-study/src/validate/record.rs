//! A dated record of a study as files: `README.md`, `summary.md`, `cells.csv`, `machine.json`, `result.json`, `scatter.svg`. It
//! describes the machine without the name of a host or a path.

use crate::validate::cell_outcome::{CellOutcome, CATEGORIES};
use crate::validate::figure;
use crate::validate::outcome::{json, MachineNote, Outcome};
use crate::validate::text;
use corun_report::json;
use std::borrow::Cow;
use std::fmt::Write;

/// The files of a record, by name. `command` is the command that makes the record again.
pub fn files(outcome: &Outcome, command: &str) -> Vec<(&'static str, String)> {
    let title = format!("Slowdowns, modelled against live: {} ({})", outcome.study, outcome.part);
    vec![
        ("README.md", readme(outcome, command)),
        ("summary.md", summary(outcome)),
        ("cells.csv", csv(&all_cells(outcome))),
        ("machine.json", machine(&outcome.machine)),
        ("result.json", json(outcome)),
        ("scatter.svg", figure::scatter(&title, &all_cells(outcome))),
    ]
}

/// The cells of the grid, then those of the real programs.
fn all_cells(outcome: &Outcome) -> Vec<CellOutcome> {
    outcome.cells.iter().cloned().chain(text::real_cells(outcome)).collect()
}

fn machine(note: &MachineNote) -> String {
    json::indented(note)
}

fn readme(outcome: &Outcome, command: &str) -> String {
    let m = &outcome.machine;
    let quoted = |what: &str, value: &str| format!("| {what} | {value} |\n");
    let mut out = format!(
        "# The study `{}`, {}\n\nMade {} by corun {} with\n\n```\n{command}\n```\n\n| machine | |\n| --- | --- |\n",
        outcome.study,
        outcome.part,
        outcome.date.as_deref().unwrap_or("at an unknown date"),
        outcome.corun
    );
    out += &quoted("shape", &m.shape);
    out += &quoted("processor", &m.processor);
    out += &quoted("kernel", &m.kernel);
    out += &quoted("virtual machine", if m.is_virtual { "yes" } else { "no" });
    out += &quoted("fair shares", crate::circumstances::fair_shares(m.setting.grouped));
    out += &quoted("ledgers by", m.source.as_deref().unwrap_or("not run live"));
    if let Some(pace) = m.loops_per_ms {
        out += &quoted("pace", &format!("{pace} loops are a millisecond of work"));
    }
    out += "\nEvery program and every interferer is a process in a session of its own. `summary.md` has the errors, \
            `cells.csv` one line per cell, `result.json` every repetition, `scatter.svg` the figure.\n";
    out
}

fn summary(outcome: &Outcome) -> String {
    let mut out = format!("# Errors of the modelled machine: {}\n\n", outcome.study);
    out += &text::summaries(&outcome.summary.iter().collect::<Vec<_>>()).markdown();
    let _ = write!(out, "\n{}\n", text::verdict(outcome, false));
    if let Some(table) = text::real_programs(&outcome.real) {
        let _ =
            write!(out, "## Real programs alone, and the workloads fitted to that\n\n{}\n", table.markdown());
    }
    let cells = all_cells(outcome);
    out + "## Cells\n\n" + &text::cells(&cells.iter().collect::<Vec<_>>()).markdown()
}

/// One line per cell. Unknown values are empty.
fn csv(cells: &[CellOutcome]) -> String {
    let mut out = String::from(
        "cell,half,sync,wait,grain_ns,pattern,demand,interferer_threads,\
         live_slowdown,live_min,live_max,live_runs,rejected,missing,model_slowdown,error,\
         live_interferer_demand,model_interferer_demand",
    );
    for side in ["live", "model"] {
        CATEGORIES.iter().for_each(|c| out += &format!(",{side}_{c}"));
    }
    out.push('\n');
    for c in cells {
        let (s, i) = (&c.cell.subject, &c.cell.interferer);
        let number = |x: Option<f64>| x.map_or(String::new(), |x| format!("{x:.4}"));
        let slowdowns: Vec<f64> = c.live.iter().flat_map(|l| &l.runs).map(|r| r.slowdown).collect();
        let edge = |f: fn(f64, f64) -> f64| number(slowdowns.iter().copied().reduce(f));
        let live = c.live.as_ref();
        let mut fields = vec![
            c.cell.name.clone(),
            c.cell.half.name().to_owned(),
            s.sync.clone(),
            s.wait.clone(),
            s.grain_ns.to_string(),
            i.pattern.clone(),
            number(i.demand),
            i.threads.to_string(),
            number(live.and_then(|l| l.slowdown())),
            edge(f64::min),
            edge(f64::max),
            slowdowns.len().to_string(),
            live.map_or(String::new(), |l| l.rejected.to_string()),
            live.map_or(String::new(), |l| l.missing.to_string()),
            number(c.modelled.as_ref().map(|m| m.slowdown)),
            number(c.error()),
            number(live.and_then(|l| l.interferer_demand())),
            number(c.modelled.as_ref().map(|m| m.interferer_demand)),
        ];
        for ledger in [live.and_then(|l| l.ledger()), c.modelled.as_ref().map(|m| m.ledger)] {
            fields.extend((0..CATEGORIES.len()).map(|k| number(ledger.map(|l| l.all()[k]))));
        }
        out += &fields.iter().map(|f| field(f)).collect::<Vec<_>>().join(",");
        out.push('\n');
    }
    out
}

/// A field of a line (RFC 4180), since names of programs may contain anything.
fn field(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::file::{ValidateStudy, VALIDATE};
    use crate::validate::outcome::{parse, SCHEMA};
    use crate::validate::verdict::summaries;

    fn outcome() -> Outcome {
        let cells = ValidateStudy::parse("v", VALIDATE).unwrap().quick_cells();
        let cells: Vec<CellOutcome> =
            cells.into_iter().map(|cell| CellOutcome { cell, live: None, modelled: None }).collect();
        Outcome {
            schema: SCHEMA.into(),
            corun: "0".into(),
            date: None,
            study: "validate".into(),
            part: "quick".into(),
            machine: MachineNote {
                shape: "2 CPUs".into(),
                cpus: 2,
                processor: "p".into(),
                kernel: "k".into(),
                is_virtual: true,
                setting: crate::validate::cell::Setting::default(),
                source: None,
                loops_per_ms: None,
                assumed: vec![],
            },
            fitted: Vec::new(),
            summary: summaries(&cells, &[]),
            cells,
            real: Vec::new(),
        }
    }

    #[test]
    fn a_record_has_one_line_per_cell_and_unknown_values_are_empty() {
        let files = files(&outcome(), "corun validate --quick");
        let csv = &files.iter().find(|(n, _)| *n == "cells.csv").unwrap().1;
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 25);
        let columns = lines[0].split(',').count();
        assert!(lines.iter().all(|l| l.split(',').count() == columns));
        assert!(lines[1].ends_with(",,,,,,,"), "{}", lines[1]);
    }

    #[test]
    fn a_programs_name_is_one_field_with_any_characters() {
        let mut outcome = outcome();
        outcome.cells[0].cell.name = "sort -k1,2 \"x\" + loop".into();
        let csv = csv(&outcome.cells);
        assert!(csv.lines().nth(1).unwrap().starts_with("\"sort -k1,2 \"\"x\"\" + loop\",fit,"), "{csv}");
    }

    #[test]
    fn a_written_result_is_read_back_and_other_text_is_refused() {
        let o = outcome();
        assert_eq!(parse(&json(&o)).unwrap(), o);
        assert!(parse(&json(&o).replace(SCHEMA, "corun.other/1")).unwrap_err().contains("corun.other/1"));
        assert!(parse("{}").unwrap_err().starts_with("not a result of `corun validate`"));
    }
}
