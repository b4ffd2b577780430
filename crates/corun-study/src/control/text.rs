//! The result of a study of control in words and tables, and as the files of a dated record.

use crate::control::file::{ControlStudy, Group, Target, DEFAULT};
use crate::control::outcome::{CellSummary, ControlOutcome};
use crate::quoted::percent;
use crate::statistics::median;
use corun_report::json;
use corun_report::table::Table;
use corun_sim::metrics::geometric_mean;
use serde::Serialize;
use std::fmt::Write;

fn times(x: Option<f64>) -> String {
    x.map_or("-".into(), |x| format!("{x:.2}×"))
}

fn number(x: Option<f64>) -> String {
    x.map_or("-".into(), |x| format!("{x:.2}"))
}

/// The cells of a group that were run, each with its summary under each of the group's policies.
fn cells<'a>(outcome: &ControlOutcome, group: &'a Group) -> Vec<(String, Vec<(&'a str, CellSummary)>)> {
    let mut names: Vec<String> = Vec::new();
    for planned in &group.cells {
        // The name of a cell lacks programs that were skipped.
        let is_it = |cell: &str| cell.split(" + ").all(|p| planned.iter().any(|q| q == p));
        let ran = outcome.runs.iter().filter(|r| r.group == group.name).map(|r| &r.cell);
        if let Some(name) = ran.into_iter().find(|c| is_it(c) && !names.contains(c)) {
            names.push(name.clone());
        }
    }
    names
        .into_iter()
        .map(|cell| {
            let of = |p: &'a String| (p.as_str(), outcome.summary(&group.name, &cell, p));
            let summaries = group.policies.iter().map(of).filter(|(_, s)| s.n > 0).collect();
            (cell, summaries)
        })
        .collect()
}

/// The group's policies under which a cell of it was run.
fn policies<'a>(outcome: &ControlOutcome, group: &'a Group) -> Vec<&'a String> {
    let ran = |policy: &&String| outcome.runs.iter().any(|r| r.group == group.name && r.policy == **policy);
    group.policies.iter().filter(ran).collect()
}

/// Slowdown under every policy, and what the co-runner kept: a row per cell.
fn overview(outcome: &ControlOutcome, group: &Group) -> Table {
    let policies = policies(outcome, group);
    let mut columns = vec!["programs".to_owned(), ">alone".to_owned()];
    columns.extend(policies.iter().map(|p| format!(">{p}")));
    let beside = !group.co_runner.is_empty();
    if beside {
        columns.extend(policies.iter().map(|p| format!(">kept, {p}")));
    }
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    for (cell, summaries) in cells(outcome, group) {
        let alone: Vec<f64> = cell
            .split(" + ")
            .filter_map(|p| {
                let of: Vec<f64> =
                    outcome.solos.iter().filter(|s| s.program == p).map(|s| s.wall_ns as f64 / 1e9).collect();
                median(&of)
            })
            .collect();
        let mut row = vec![cell.clone(), geometric_mean(&alone).map_or("-".into(), |s| format!("{s:.2} s"))];
        let find = |policy: &str| summaries.iter().find(|(p, _)| *p == policy).map(|(_, s)| s);
        row.extend(policies.iter().map(|p| {
            let s = find(p);
            let at_least = if s.is_some_and(|s| 2 * s.cut_off > s.n) { "≥ " } else { "" };
            let median = s.and_then(|s| s.slowdown).map(|[median, ..]| median);
            format!("{at_least}{}", times(median))
        }));
        if beside {
            row.extend(policies.iter().map(|p| percent(find(p).and_then(|s| s.kept))));
        }
        table.row(row);
    }
    table
}

/// Every metric: a row per cell and policy.
fn metrics(outcome: &ControlOutcome, group: &Group) -> Table {
    let has_energy = outcome.runs.iter().any(|run| run.package_uj.is_some());
    let mut columns = vec![
        "programs",
        "policy",
        ">slowdown",
        ">min",
        ">max",
        ">variation",
        ">geometric mean",
        ">Jain",
        ">throughput",
        ">speed-up",
        ">overall",
        ">idle",
        ">preempted /s",
        ">controller",
    ];
    columns.extend(has_energy.then_some(">J per work s"));
    let mut table = Table::new(&columns);
    for (cell, summaries) in cells(outcome, group) {
        for (policy, s) in summaries {
            let of = |i: usize| s.slowdown.map(|all| all[i]);
            let mut row = vec![
                cell.clone(),
                policy.to_owned(),
                times(of(0)),
                times(of(1)),
                times(of(2)),
                percent(s.variation),
                times(s.geometric_mean),
                number(s.jain),
                number(s.throughput),
                times(s.speed_up),
                times(s.overall),
                percent(s.idle),
                s.preemptions_per_s.map_or("-".into(), |x| format!("{x:.0}")),
                percent(s.controller),
            ];
            row.extend(has_energy.then(|| number(s.joules_per_work_s)));
            table.row(row);
        }
    }
    table
}

/// Slowdowns of the single tenants of cells with several programs.
fn tenants(outcome: &ControlOutcome, group: &Group) -> Option<Table> {
    let several: Vec<_> =
        cells(outcome, group).into_iter().filter(|(cell, _)| cell.contains(" + ")).collect();
    let policies = policies(outcome, group);
    let mut columns = vec!["tenant".to_owned()];
    columns.extend(policies.iter().map(|p| format!(">{p}")));
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    for (i, (_, summaries)) in several.iter().enumerate() {
        let mix = if several.len() > 1 { format!(" (mix {})", i + 1) } else { String::new() };
        let names = summaries
            .first()
            .map_or(Vec::new(), |(_, s)| s.slowdowns.iter().map(|(n, _)| n.clone()).collect());
        for name in names {
            let mut row = vec![format!("{name}{mix}")];
            row.extend(policies.iter().map(|p| {
                let summary = summaries.iter().find(|(q, _)| q == *p).map(|(_, s)| s);
                times(summary.and_then(|s| s.slowdowns.iter().find(|(n, _)| *n == name)).map(|(_, x)| *x))
            }));
            table.row(row);
        }
    }
    (!table.is_empty()).then_some(table)
}

/// How many cells reach the targets of the study, a sentence per policy.
fn verdict(outcome: &ControlOutcome, group: &Group) -> String {
    let all = cells(outcome, group);
    let mut out = String::new();
    for policy in group.policies.iter().filter(|p| *p != DEFAULT) {
        let judged: Vec<(&str, bool)> = all
            .iter()
            .filter_map(|(cell, summaries)| {
                let of = |name: &str| summaries.iter().find(|(p, _)| *p == name).map(|(_, s)| s);
                Some((cell.as_str(), reaches(group.target, of(policy)?, of(DEFAULT)?)?))
            })
            .collect();
        if judged.is_empty() {
            continue;
        }
        let missed: Vec<&str> = judged.iter().filter(|(_, met)| !met).map(|(cell, _)| *cell).collect();
        let _ = write!(out, "{policy}: {} of {} ", judged.len() - missed.len(), judged.len());
        let _ = write!(out, "{}", hope(group.target));
        let _ = match &missed[..] {
            [] => writeln!(out, "."),
            missed => writeln!(out, "; not {}.", missed.join(", ")),
        };
    }
    out
}

/// Whether a cell under a policy reaches the target. `None` without a target or without enough measurements.
pub(crate) fn reaches(target: Target, s: &CellSummary, default: &CellSummary) -> Option<bool> {
    let [slowdown, ..] = s.slowdown?;
    let by_default = default.slowdown?[0];
    let judged = [
        target.slowdown.map(|most| slowdown <= most && s.cut_off == 0),
        target.kept.map(|least| s.kept.is_some_and(|kept| kept >= least)),
        target.loss.map(|most| slowdown <= by_default * (1.0 + most)),
        target.speed_up.map(|least| s.speed_up.is_some_and(|x| x >= least)),
        target.throughput.map(|least| s.more_throughput.is_some_and(|x| x >= least)),
    ];
    let judged: Vec<bool> = judged.into_iter().flatten().collect();
    (!judged.is_empty()).then(|| judged.iter().all(|met| *met))
}

/// The target in words.
fn hope(target: Target) -> String {
    let parts = [
        target.slowdown.map(|x| format!("are slowed down at most {x:.2} times")),
        target.kept.map(|x| format!("leave the co-runner at least {:.0} % of its fair share", x * 100.0)),
        target.loss.map(|x| format!("lose at most {:.0} % compared with the default", x * 100.0)),
        target.speed_up.map(|x| format!("have a relative speed-up of at least {x:.2}")),
        target.throughput.map(|x| format!("get at least {:.0} % more done", x * 100.0)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// Everything, for a terminal or as Markdown.
pub fn text(study: &ControlStudy, outcome: &ControlOutcome, markdown: bool) -> String {
    let show = |t: Table| if markdown { t.markdown() } else { t.text() };
    let mut out = String::new();
    for group in &study.groups {
        if !outcome.runs.iter().any(|r| r.group == group.name) {
            continue;
        }
        let head = if markdown { "## " } else { "" };
        let _ = writeln!(out, "{head}{}\n\n{}\n", group.name, group.about.trim());
        out += &show(overview(outcome, group));
        let _ = writeln!(out, "\n{}", verdict(outcome, group));
        if let Some(table) = tenants(outcome, group) {
            out += &show(table);
            out.push('\n');
        }
        out += &show(metrics(outcome, group));
        out.push('\n');
    }
    let rejected: u32 = outcome.runs.iter().map(|r| r.rejected).sum();
    let disturbed = outcome.runs.iter().filter(|r| r.foreign > study.foreign).count();
    let cut = outcome.runs.iter().filter(|r| r.cut_off).count();
    let _ = writeln!(
        out,
        "{} runs of cells, {} alone; {rejected} made again because others used the machine, {disturbed} count although \
         they did; {cut} cut off; {} tenants left frozen.",
        outcome.runs.len(),
        outcome.solos.len(),
        outcome.left_frozen()
    );
    if let Some(why) = outcome.no_energy() {
        let _ = writeln!(out, "\nEnergy of the machine: unavailable: {why}.");
    }
    for (what, why) in &outcome.skipped {
        let _ = writeln!(out, "\nskipped: {what}: {why}");
    }
    for why in &outcome.failed {
        let _ = writeln!(out, "\nfailed: {why}");
    }
    out
}

/// The result with the metrics of its cells.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    outcome: &'a ControlOutcome,
    cells: Vec<CellSummary>,
}

/// The result as JSON, with the metrics of every cell under every policy as `cells`.
pub fn json(outcome: &ControlOutcome) -> String {
    let whole = Whole { outcome, cells: outcome.summaries() };
    json::indented(&whole)
}

/// The files of a record, by name. `command` is the command that makes the record again.
pub fn files(study: &ControlStudy, outcome: &ControlOutcome, command: &str) -> Vec<(&'static str, String)> {
    let repetitions = outcome.runs.iter().map(|r| r.repetition).max().unwrap_or(0);
    let readme = format!(
        "# The gains of `corun control`: the study `{}`\n\nMade {} by corun {} with\n\n```\n{command}\n```\n\n| | |\n| --- | --- |\n\
         | machine | {} |\n| kernel | {} |\n| fair shares | {} |\n| backend | {} |\n| repetitions | {repetitions} |\n\n\
         slowdown: of the programs, against being alone in the same repetition, geometric mean where there are several. \
         kept: the co-runner's CPU time by its fair share. throughput: runs alone that were done in the time of one. \
         speed-up: relative, over the default, all tenants (harmonic mean). overall: of their geometric means. Jain: of all tenants' slowdowns. Medians over repetitions; `result.json` has every run.\n\n{}",
        outcome.study,
        outcome.head.when(),
        outcome.head.corun,
        outcome.head.machine,
        outcome.head.kernel,
        outcome.layout,
        outcome.backend,
        text(study, outcome, true)
    );
    vec![("README.md", readme), ("result.json", json(outcome))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::file::CONTROL;
    use crate::control::outcome::{ControlRun, SoloRun, TenantRun};
    use crate::programs::Catalogue;

    fn run(cell: &str, policy: &str, slowdown: f64, kept: f64) -> ControlRun {
        let tenant = |name: &str, slowdown, kept| TenantRun {
            name: name.into(),
            slowdown: Some(slowdown),
            kept,
            ..TenantRun::default()
        };
        ControlRun {
            group: "fair share".into(),
            cell: cell.into(),
            policy: policy.into(),
            repetition: 1,
            wall_ns: 1_000_000_000,
            tenants: vec![tenant(cell, slowdown, None), tenant("co-runner", 2.0 / kept, Some(kept))],
            ..ControlRun::default()
        }
    }

    #[test]
    fn a_policy_is_judged_by_the_studys_targets_and_misses_are_named() {
        let study = ControlStudy::parse("c", CONTROL, &Catalogue::own()).unwrap();
        let runs = vec![
            run("lu-active", "default", 6.3, 1.2),
            run("lu-active", "gang", 2.0, 1.0),
            run("rbm", "default", 6.3, 1.2),
            run("rbm", "gang", 2.1, 1.0),
            run("hpcc", "default", 3.0, 1.2),
            run("hpcc", "gang", 1.9, 0.8),
        ];
        let solos = vec![SoloRun { program: "rbm".into(), repetition: 1, wall_ns: 2_500_000_000, cpu_ns: 1 }];
        let outcome = ControlOutcome { runs, solos, ..ControlOutcome::default() };
        let shown = text(&study, &outcome, false);
        assert!(
            !shown.contains("J per work s") && !shown.contains("Energy"),
            "an older record says nothing of it"
        );
        let mut metered = outcome.clone();
        metered.runs[0].package_uj = Some(50_000_000);
        metered.runs[1].no_energy = Some("it stood still".into());
        let shown = text(&study, &metered, false);
        assert!(shown.contains("J per work s"), "{shown}");
        assert!(shown.contains("Energy of the machine: unavailable: it stood still."), "{shown}");
        let text = text(&study, &outcome, false);
        assert!(text.contains(
            "gang: 1 of 3 are slowed down at most 2.05 times and leave the co-runner at least 95 %"
        ));
        assert!(text.contains("; not rbm, hpcc."), "{text}");
        assert!(text.contains("2.50 s") && text.contains("6.30×") && text.contains("80.0 %"), "{text}");
        assert!(!text.contains("auto: "), "what was not run is not judged");
        let value: serde_json::Value = serde_json::from_str(&json(&outcome)).unwrap();
        assert_eq!(value["cells"].as_array().unwrap().len(), 6);
        assert_eq!(value["cells"][1]["speed_up"], value["cells"][1]["speed_up"].as_f64().unwrap());
    }
}
