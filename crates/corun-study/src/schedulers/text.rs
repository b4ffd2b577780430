//! The result of a study of schedulers in tables and charts, and as the files of a record.

use super::file::{Measure, Shows, Value};
use super::outcome::{mean, CellOutcome, FigureOutcome, GroupOutcome, SchedulersOutcome};
use crate::bars::{chart, Bar, Group, Part};
use corun_report::json;
use corun_report::table::Table;
use corun_sim::metrics::geometric_mean;
use std::fmt::Write;

/// Colors that color-blind readers can tell apart, after Okabe and Ito.
const COLOURS: [&str; 8] =
    ["#d55e00", "#0072b2", "#f0c000", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555"];

/// A measure of a mix: its name, and its function.
type Judged = (&'static str, fn(&CellOutcome, usize) -> f64);

const JUDGED: [Judged; 4] = [
    ("throughput", CellOutcome::throughput),
    ("fairness", |c, p| c.measure(Measure::Fairness, p)),
    ("relative speed-up", |c, p| c.measure(Measure::SpeedUp, p)),
    ("energy", |c, p| 1.0 - c.measure(Measure::EnergySaving, p)),
];

/// The measures of the mixes of a figure.
fn judged(figure: &FigureOutcome) -> &'static [Judged] {
    match figure.shows {
        Shows::Energy => &JUDGED,
        Shows::Mixes | Shows::Pairs => &JUDGED[..3],
    }
}

fn percent(x: f64, digits: usize) -> String {
    format!("{:+.digits$} %", x * 100.0)
}

fn value(value: Option<&Value>, measure: Measure) -> String {
    match value {
        None => "-".into(),
        Some(Value::Policy(name)) => name.clone(),
        Some(Value::Number(x)) => match measure {
            Measure::Fairness | Measure::SpeedUp => format!("{x:.2}"),
            Measure::Variation => format!("{:.2} %", x * 100.0),
            _ => percent(*x, 0),
        },
    }
}

/// Stated numbers, next to the results.
fn stated(figure: &FigureOutcome) -> Table {
    let mut table = Table::new(&["stated", "where", ">there", ">here"]);
    for b in &figure.stated {
        let (there, here) = (value(Some(&b.stated), b.measure), value(b.ours.as_ref(), b.measure));
        table.row([b.what.clone(), b.place.clone(), there, here]);
    }
    table
}

/// Slowdowns of both programs of every pair, gains, variation, and the means.
fn pairs(figure: &FigureOutcome, group: &GroupOutcome) -> Table {
    let varies = figure.repetitions > 1;
    let mut columns = vec!["program".to_owned()];
    columns.extend(figure.policies.iter().map(|p| format!(">{p}")));
    columns.extend(figure.policies.iter().skip(1).map(|p| format!(">gain, {p}")));
    if varies {
        columns.extend(figure.policies.iter().map(|p| format!(">variation, {p}")));
    }
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    let all = || 0..figure.policies.len();
    let variation = |x: f64| format!("{:.2} %", x * 100.0);
    for cell in &group.cells {
        let mut row = vec![cell.programs[0].clone()];
        row.extend(all().map(|p| joined(cell.slowdowns(p))));
        row.extend(all().skip(1).map(|p| percent(cell.measure(Measure::Gain, p), 0)));
        if varies {
            row.extend(all().map(|p| variation(cell.measure(Measure::Variation, p))));
        }
        table.row(row);
    }
    let over = |f: &dyn Fn(&CellOutcome) -> f64| mean(&group.cells.iter().map(f).collect::<Vec<_>>());
    let mut row = vec!["overall".to_owned()];
    let overall = |p: usize| geometric_mean(&group.cells.iter().map(|c| c.overall(p)).collect::<Vec<_>>());
    row.extend(all().map(|p| format!("{:.3}", overall(p).unwrap_or(f64::NAN))));
    row.extend(all().skip(1).map(|p| percent(over(&|c| c.measure(Measure::Gain, p)), 0)));
    if varies {
        row.extend(all().map(|p| variation(over(&|c| c.measure(Measure::Variation, p)))));
    }
    table.row(row);
    table
}

fn joined(values: impl IntoIterator<Item = f64>) -> String {
    values.into_iter().map(|v| format!("{v:.2}")).collect::<Vec<_>>().join(" / ")
}

/// An empty table with these columns and the measures of mixes.
fn judging(figure: &FigureOutcome, columns: &[&str]) -> Table {
    let judged: Vec<String> = judged(figure).iter().map(|(what, _)| format!(">{what}")).collect();
    Table::new(&columns.iter().copied().chain(judged.iter().map(String::as_str)).collect::<Vec<_>>())
}

/// Means over the mixes of each group, a row per policy.
fn mixes(figure: &FigureOutcome) -> Table {
    let mut table = judging(figure, &["programs", ">mixes", "policy"]);
    for group in &figure.groups {
        for (p, policy) in figure.policies.iter().enumerate() {
            let (name, mixes) = match p {
                0 => (group.name.clone(), group.cells.len().to_string()),
                _ => Default::default(),
            };
            let of = |(_, f): &Judged| mean(&group.cells.iter().map(|c| f(c, p)).collect::<Vec<_>>());
            let numbers = judged(figure).iter().map(|judged| format!("{:.2}", of(judged)));
            table.row([name, mixes, policy.clone()].into_iter().chain(numbers));
        }
    }
    table
}

/// Every mix, each cell with all policies.
fn mix_by_mix(figure: &FigureOutcome) -> Table {
    let mut table = judging(figure, &["mix"]);
    for cell in figure.groups.iter().flat_map(|g| &g.cells) {
        let all = |f: fn(&CellOutcome, usize) -> f64| joined((0..figure.policies.len()).map(|p| f(cell, p)));
        table
            .row(std::iter::once(cell.programs.join(" ")).chain(judged(figure).iter().map(|(_, f)| all(*f))));
    }
    table
}

/// A figure's tables, each under a heading.
fn tables(figure: &FigureOutcome, in_full: bool) -> Vec<(String, Table)> {
    let policies = figure.policies.join(" / ");
    let mut all: Vec<(String, Table)> = match figure.shows {
        Shows::Pairs => {
            let heading = |g: &GroupOutcome| format!("{}: slowdown of the program / of the other", g.name);
            figure.groups.iter().map(|g| (heading(g), pairs(figure, g))).collect()
        }
        Shows::Mixes | Shows::Energy => vec![("Means over mixes".into(), mixes(figure))],
    };
    if in_full && figure.shows != Shows::Pairs {
        all.push((format!("Mix by mix: {policies}"), mix_by_mix(figure)));
    }
    if !figure.stated.is_empty() {
        all.push(("Stated numbers, and the results here".into(), stated(figure)));
    }
    all
}

fn about(figure: &FigureOutcome) -> String {
    let runs = match figure.repetitions {
        1 => "one run".to_owned(),
        n => format!("{n} runs"),
    };
    let long = figure.duration.as_ref().map_or("until all have ended".to_owned(), |d| format!("of {d}"));
    format!("On {}, {runs} of each {long}, compared with {}.", figure.machine, figure.policies[0])
}

/// All figures, for a terminal.
pub fn text(outcome: &SchedulersOutcome) -> String {
    let mut out = String::new();
    for figure in &outcome.figures {
        let _ = writeln!(out, "{} ({})\n{}\n", figure.title, figure.name, about(figure));
        for (heading, table) in tables(figure, false) {
            let _ = writeln!(out, "{heading}\n{}", table.text());
        }
    }
    out
}

/// A figure's chart: slowdowns of the first programs, or the measures of mixes.
pub fn svg(figure: &FigureOutcome) -> String {
    let part =
        |p: usize| Part { name: figure.policies[p].clone().into(), colour: COLOURS[p % COLOURS.len()] };
    let bars = |height: &dyn Fn(usize) -> f64| -> Vec<Bar> {
        let bar = |p: usize| Bar {
            name: figure.policies[p].clone(),
            parts: vec![(part(p), height(p))],
            paper: None,
        };
        (0..figure.policies.len()).map(bar).collect()
    };
    let (groups, unit): (Vec<Group>, &str) = match figure.shows {
        Shows::Pairs => {
            let of = |g: &GroupOutcome| -> Vec<Group> {
                let one = |c: &CellOutcome| Group {
                    name: c.programs.join(" / "),
                    bars: bars(&|p| c.slowdowns(p)[0]),
                };
                g.cells.iter().map(one).collect()
            };
            (figure.groups.iter().flat_map(of).collect(), "slowdown of the first")
        }
        Shows::Mixes | Shows::Energy => {
            let of = |(what, f): &Judged| -> Vec<Group> {
                let one = |g: &GroupOutcome| Group {
                    name: format!("{what}, {}", g.name),
                    bars: bars(&|p| mean(&g.cells.iter().map(|c| f(c, p)).collect::<Vec<_>>())),
                };
                figure.groups.iter().map(one).collect()
            };
            (judged(figure).iter().flat_map(of).collect(), "tenants' worth; index; ratio")
        }
    };
    chart(&format!("{} (modelled)", figure.title), unit, &groups)
}

/// The files of a record: `README.md`, `result.json` and a chart per figure. `command` is the command that makes the record again.
pub fn files(outcome: &SchedulersOutcome, command: &str) -> Vec<(String, String)> {
    let mut readme = format!(
        "# The study `{}`\n\n{}\n\nMade by corun {} with\n\n```\n{command}\n```\n",
        outcome.study,
        outcome.about.trim(),
        outcome.corun
    );
    for figure in &outcome.figures {
        let _ = write!(readme, "\n## {}\n\n{}\n\n", figure.title, about(figure));
        let _ = writeln!(readme, "![{}]({}.svg)", figure.name, figure.name);
        for (heading, table) in tables(figure, true) {
            let _ = write!(readme, "\n{heading}\n\n{}", table.markdown());
        }
    }
    let json = json::indented(outcome);
    let charts = outcome.figures.iter().map(|f| (format!("{}.svg", f.name), svg(f)));
    [("README.md".to_owned(), readme), ("result.json".to_owned(), json)].into_iter().chain(charts).collect()
}
