//! The facts of a record of the study of control.
//!
//! `GROUP.CELL.POLICY` is the programs' slowdown. With `.range` it is the least and the greatest of the repetitions, with `.whole`
//! both, and with `.kept` the share that the co-runner kept. `.speed-up`, `.throughput`, `.overall` and `.idle` are defined in
//! `outcome.rs`.
//! `GROUP.POLICY.between` is the least and the greatest slowdown of the group's cells. `.met` is how many of how many reach the study's
//! target. `.kept.least` is the least that the co-runner kept, and `.without.CELL` is the same without that cell.

use crate::control::file::{ControlStudy, Group, CONTROL, DEFAULT};
use crate::control::outcome::{CellSummary, ControlOutcome};
use crate::control::text::reaches;
use crate::programs::Catalogue;
use crate::quoted::{block, percent, slug, Facts};
use corun_report::table::Table;

fn times(x: Option<f64>) -> String {
    x.map_or("-".into(), |x| format!("{x:.2}×"))
}

fn whole_percent(x: Option<f64>) -> String {
    x.map_or("-".into(), |x| format!("{:.0} %", x * 100.0))
}

/// `1.95 to 2.10`.
fn range(of: impl Iterator<Item = f64> + Clone) -> Option<String> {
    let (least, most) = (of.clone().reduce(f64::min)?, of.reduce(f64::max)?);
    Some(format!("{least:.2} to {most:.2}"))
}

/// Reads the facts from the text of a `result.json`.
///
/// # Errors
/// The text is not such a result.
pub fn read(text: &str) -> serde_json::Result<Facts> {
    serde_json::from_str(text).map(|o| facts(&o))
}

/// All facts that a document may quote.
fn facts(o: &ControlOutcome) -> Facts {
    let mut facts = Facts::new();
    let all = o.summaries();
    let study =
        ControlStudy::parse("studies/control.toml", CONTROL, &Catalogue::own()).expect("corun's own study");
    for s in &all {
        let name = format!("{}.{}.{}", slug(&s.group), slug(&s.cell), slug(&s.policy));
        let [median, least, most] = s.slowdown.map_or([None; 3], |all| all.map(Some));
        facts.insert(format!("{name}.kept"), whole_percent(s.kept));
        facts.insert(format!("{name}.speed-up"), times(s.speed_up));
        facts.insert(
            format!("{name}.throughput"),
            s.more_throughput.map_or("-".into(), |x| format!("{:+.0} %", x * 100.0)),
        );
        facts.insert(format!("{name}.range"), format!("{} to {}", times(least), times(most)));
        facts.insert(format!("{name}.whole"), with_range(s).unwrap_or("-".into()));
        facts.insert(format!("{name}.overall"), times(s.overall));
        facts.insert(format!("{name}.idle"), whole_percent(s.idle));
        facts.insert(name, times(median));
    }
    let mut groups: Vec<&str> = Vec::new();
    all.iter().for_each(|s| {
        if !groups.contains(&s.group.as_str()) {
            groups.push(&s.group);
        }
    });
    for group in groups {
        let of_group: Vec<&CellSummary> = all.iter().filter(|s| s.group == group).collect();
        let planned = study.groups.iter().find(|g| g.name == group);
        for (name, value) in sums(&of_group, planned) {
            facts.insert(format!("{}.{name}", slug(group)), value);
        }
        facts.insert(format!("table.{}", slug(group)), block(&table(&of_group, planned).markdown()));
    }
    facts.insert("repetitions".into(), o.runs.iter().map(|r| r.repetition).max().unwrap_or(0).to_string());
    facts
}

/// The facts about a policy over all cells of a group, and over all but one.
fn sums(cells: &[&CellSummary], planned: Option<&Group>) -> Facts {
    let mut facts = Facts::new();
    let mut choices = vec![(String::new(), None)];
    choices.extend(cells.iter().map(|s| (format!(".without.{}", slug(&s.cell)), Some(s.cell.as_str()))));
    for (suffix, without) in choices {
        let of: Vec<&&CellSummary> = cells.iter().filter(|s| Some(s.cell.as_str()) != without).collect();
        let mut policies: Vec<&str> = of.iter().map(|s| s.policy.as_str()).collect();
        policies.dedup();
        policies.sort_unstable();
        policies.dedup();
        for policy in policies {
            let under = of.iter().filter(|s| s.policy == policy);
            let name = |what: &str| format!("{}.{what}{suffix}", slug(policy));
            if let Some(range) = range(under.clone().filter_map(|s| Some(s.slowdown?[0]))) {
                facts.insert(name("between"), range);
            }
            if let Some(least) = under.clone().filter_map(|s| s.kept).reduce(f64::min) {
                facts.insert(name("kept.least"), whole_percent(Some(least)));
            }
            let default = |cell: &str| of.iter().find(|s| s.cell == cell && s.policy == DEFAULT);
            let met = |s: &CellSummary| reaches(planned?.target, s, default(&s.cell)?);
            let judged: Vec<bool> = under.filter(|_| policy != DEFAULT).filter_map(|s| met(s)).collect();
            if !judged.is_empty() {
                let met = judged.iter().filter(|met| **met).count();
                facts.insert(name("met"), format!("{met} of {}", judged.len()));
            }
        }
    }
    facts
}

/// The cells and policies of a group, in the order of the study, or else in that of the runs.
fn order<'a>(cells: &[&'a CellSummary], planned: Option<&Group>) -> (Vec<&'a str>, Vec<&'a str>) {
    let met = |of: fn(&CellSummary) -> &str| {
        let mut names: Vec<&str> = Vec::new();
        for name in cells.iter().map(|s| of(s)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let (mut rows, mut policies) = (met(|s| &s.cell), met(|s| &s.policy));
    if let Some(group) = planned {
        let planned_as = |cell: &str| group.cells.iter().position(|c| c.join(" + ") == cell);
        rows.sort_by_key(|cell| planned_as(cell));
        let place = |policy: &str| group.policies.iter().position(|p| p == policy).unwrap_or(usize::MAX);
        policies.sort_by_key(|policy| (*policy != DEFAULT, place(policy)));
    }
    (rows, policies)
}

fn at_least(s: &CellSummary) -> &'static str {
    if 2 * s.cut_off > s.n {
        "≥ "
    } else {
        ""
    }
}

/// `1.98× (1.93 to 2.10)`. Without the range if there was one repetition.
fn with_range(s: &CellSummary) -> Option<String> {
    let [median, least, most] = s.slowdown?;
    let range = if s.n > 1 { format!(" ({least:.2} to {most:.2})") } else { String::new() };
    Some(format!("{}{median:.2}×{range}", at_least(s)))
}

/// A row per cell with the slowdown under each policy and what the co-runner kept. Without a co-runner, a row per cell and policy with
/// the metrics of mixes.
fn table(cells: &[&CellSummary], planned: Option<&Group>) -> Table {
    let (rows, policies) = order(cells, planned);
    let of = |cell: &str, policy: &str| cells.iter().find(|s| s.cell == cell && s.policy == policy);
    if cells.iter().all(|s| s.kept.is_none()) {
        let mut table =
            Table::new(&["programs", "policy", ">slowdown", ">speed-up", ">throughput", ">Jain", ">idle"]);
        for s in rows.iter().flat_map(|cell| policies.iter().filter_map(|policy| of(cell, policy))) {
            let by_default = of(&s.cell, DEFAULT).map_or("", |s| at_least(s));
            table.row([
                s.cell.clone(),
                s.policy.clone(),
                format!("{}{}", at_least(s), times(s.slowdown.map(|all| all[0]))),
                s.speed_up.map_or("-".into(), |x| format!("{by_default}{x:.2}×")),
                s.more_throughput.map_or("-".into(), |x| format!("{by_default}{:+.0} %", x * 100.0)),
                s.jain.map_or("-".into(), |x| format!("{x:.2}")),
                percent(s.idle),
            ]);
        }
        return table;
    }
    let keeps = policies.iter().map(|policy| format!(">co-runner keeps, {policy}"));
    let columns: Vec<String> = ["program".to_owned()]
        .into_iter()
        .chain(policies.iter().map(|policy| format!(">{policy}")))
        .chain(keeps)
        .collect();
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    for cell in rows {
        let slowdown = |policy: &&str| of(cell, policy).and_then(|s| with_range(s)).unwrap_or("-".into());
        let kept = |policy: &&str| whole_percent(of(cell, policy).and_then(|s| s.kept));
        let row = policies.iter().map(slowdown).chain(policies.iter().map(kept));
        table.row([format!("`{cell}`")].into_iter().chain(row));
    }
    table
}
