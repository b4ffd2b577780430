//! The result of the study of predictions in words and tables, and as the files of a dated record.

use crate::predicting::{CoRun, PredictOutcome, Quality, PREDICTORS};
use corun_report::table::Table;
use std::collections::BTreeSet;
use std::fmt::Write;

fn percent(x: Option<f64>) -> String {
    x.map_or("-".into(), |x| format!("{:.1} %", x * 100.0))
}

/// Error by a key of the co-runs: a row per key, a column per predictor, `n` first.
fn by(outcome: &PredictOutcome, what: &str, key: &dyn Fn(&CoRun) -> String) -> Table {
    let columns: Vec<String> = PREDICTORS.iter().map(|p| format!(">{p}")).collect();
    let mut names = vec![what, ">co-runs", ">slowdown"];
    names.extend(columns.iter().map(String::as_str));
    let mut table = Table::new(&names);
    let mut keys: Vec<String> = Vec::new();
    outcome.runs.iter().map(key).for_each(|k| {
        if !keys.contains(&k) {
            keys.push(k);
        }
    });
    for k in keys {
        let of_key = |r: &CoRun| key(r) == k;
        let slowdowns: Vec<f64> =
            outcome.runs.iter().filter(|r| of_key(r) && outcome.counts(r)).map(|r| r.slowdown).collect();
        let mean = slowdowns.iter().map(|s| s.ln()).sum::<f64>() / slowdowns.len().max(1) as f64;
        let slowdown = match slowdowns.is_empty() {
            true => "-".into(),
            false => format!("{:.2}×", mean.exp()),
        };
        let mut row = vec![k.clone(), slowdowns.len().to_string(), slowdown];
        row.extend(
            (0..PREDICTORS.len())
                .map(|i| percent(outcome.quality(|r| r.predicted[i], of_key).map(|q| q.mape))),
        );
        table.row(row);
    }
    table
}

/// Everything, for a terminal or as Markdown.
pub fn text(outcome: &PredictOutcome, markdown: bool) -> String {
    let show = |t: Table| if markdown { t.markdown() } else { t.text() };
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Mean absolute percentage error of the slowdown predicted in the first third of the run.\n"
    );
    out += &show(by(outcome, "program", &|r| r.program.clone()));
    out.push('\n');
    out += &show(by(outcome, "beside", &|r| r.interferer.clone()));
    out.push('\n');
    let mut table =
        Table::new(&["predictor", ">co-runs", ">MAPE", ">median", ">bias", ">MAPE at the end", ">bias"]);
    for (i, name) in PREDICTORS.iter().enumerate() {
        let at_end = outcome.quality(|r| r.at_end[i], |_| true);
        let bias = |q: Quality| format!("{:+.1} %", q.bias * 100.0);
        if let Some(q) = outcome.quality(|r| r.predicted[i], |_| true) {
            table.row([
                (*name).to_owned(),
                q.n.to_string(),
                percent(Some(q.mape)),
                percent(Some(q.median)),
                bias(q),
                percent(at_end.map(|q| q.mape)),
                at_end.map_or("-".into(), bias),
            ]);
        }
    }
    out += &show(table);
    let (held, with) = outcome.coverage();
    let share = percent((with > 0).then(|| held as f64 / with as f64));
    let _ =
        writeln!(out, "\nIntervals of 95 %: {held} of {with} hold the slowdown of the whole run ({share}).");
    let solo: Vec<f64> = outcome.solos.iter().filter_map(|s| s.predicted).collect();
    let worst = solo.iter().map(|p| (p - 1.0).abs()).fold(0.0, f64::max);
    let mean = solo.iter().map(|p| p - 1.0).sum::<f64>() / solo.len().max(1) as f64;
    let _ = writeln!(
        out,
        "Predicted for {} runs alone: {:+.1} % on average, at most {:.1} % off (0 is right).",
        solo.len(),
        mean * 100.0,
        worst * 100.0
    );
    let cut = outcome.runs.iter().filter(|r| r.cut_off).count();
    let silent = outcome.runs.iter().filter(|r| r.predicted_at_ns.is_none()).count();
    let unknown = outcome.runs.iter().filter(|r| !r.cut_off && !outcome.counts(r)).count();
    let _ = writeln!(
        out,
        "{} co-runs. Not counted: {cut} were cut off, and around {unknown} the runs alone lay more than {:.0} % apart, so \
         that nobody knows their slowdown. For {silent} there was no prediction in time.",
        outcome.runs.len(),
        outcome.solos_apart * 100.0
    );
    for (what, why) in &outcome.skipped {
        let _ = writeln!(out, "skipped: {what}: {why}");
    }
    out
}

/// The files of a record, by name; `command` is what makes them again.
pub fn files(outcome: &PredictOutcome, command: &str) -> Vec<(&'static str, String)> {
    let programs: BTreeSet<&str> = outcome.runs.iter().map(|r| r.program.as_str()).collect();
    let readme = format!(
        "# Slowdowns predicted while they happen\n\nMade {} by corun {} with\n\n```\n{command}\n```\n\n| | |\n| --- | --- |\n\
         | machine | {} |\n| kernel | {} |\n| fair shares | {} |\n| programs | {} |\n\nEvery program and every \
         interferer is in a session of its own; `result.json` has every run.\n\n{}",
        outcome.date.as_deref().unwrap_or("at an unknown date"),
        outcome.corun,
        outcome.machine,
        outcome.kernel,
        outcome.shares,
        programs.len(),
        text(outcome, true)
    );
    let json = serde_json::to_string_pretty(outcome).expect("every field is plain data") + "\n";
    vec![("README.md", readme), ("result.json", json)]
}
