//! The result of the study of verdicts in words and tables, and as the files of a dated record.

use crate::verify::outcome::{Judged, Rate, VerifyOutcome};
use corun_model::duration::human_ns;
use corun_report::json;
use corun_report::table::Table;
use std::collections::BTreeSet;
use std::fmt::Write;

fn percent(x: f64) -> String {
    format!("{:.1} %", x * 100.0)
}

/// The value below which `percent` of `values` lie.
fn quantile(mut values: Vec<f64>, percent: usize) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get((values.len() * percent / 100).min(values.len().checked_sub(1)?)).copied()
}

fn of(values: Vec<f64>, at: usize) -> String {
    quantile(values, at).map_or("-".into(), percent)
}

/// The names from `what`, in the order of the runs.
fn names<'a>(o: &'a VerifyOutcome, what: impl Fn(&'a Judged) -> Option<&'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    o.runs.iter().filter_map(what).filter(|n| seen.insert(*n)).collect()
}

fn alone(o: &VerifyOutcome) -> Table {
    let mut table = Table::new(&[
        "alone",
        ">runs",
        ">median",
        ">95th",
        ">verdict, median",
        ">95th",
        ">corun itself",
        ">alarms",
    ]);
    for program in names(o, |r| Some(&r.program)) {
        let Some(walls) = o.alone(program) else { continue };
        let runs = || o.runs.iter().filter(|r| r.is_idle(o.max_disturbance) && r.program == program);
        let watching = runs().filter_map(|r| Some(r.watcher_ns? as f64 / r.wall_ns as f64)).collect();
        let said = || runs().map(|r| r.disturbance).collect();
        table.row([
            program.to_owned(),
            runs().count().to_string(),
            human_ns(walls.median_ns),
            human_ns(walls.slow_ns),
            of(said(), 50),
            of(said(), 95),
            of(watching, 50),
            o.false_alarms(|r| r.program == program).count.to_string(),
        ]);
    }
    table
}

fn beside(o: &VerifyOutcome) -> Table {
    let mut table = Table::new(&[
        "next to",
        ">runs",
        ">disturbed",
        ">truth, median",
        ">verdict, median",
        ">least",
        ">missed",
    ]);
    for corunner in names(o, |r| r.beside.as_deref()) {
        let runs = || o.runs.iter().filter(|r| r.beside.as_deref() == Some(corunner));
        let disturbed = || runs().filter(|r| o.is_noticeable(r));
        let misses = o.misses(|r| r.beside.as_deref() == Some(corunner));
        table.row([
            corunner.to_owned(),
            runs().count().to_string(),
            misses.of.to_string(),
            of(disturbed().filter_map(|r| o.truth(r)).collect(), 50),
            of(disturbed().map(|r| r.disturbance).collect(), 50),
            of(disturbed().map(|r| r.disturbance).collect(), 0),
            misses.count.to_string(),
        ]);
    }
    table
}

fn rate(r: Rate) -> String {
    format!("{} of {} (at most {} with 95 % confidence)", r.count, r.of, percent(r.at_most()))
}

/// Everything, for a terminal or as Markdown.
pub fn text(o: &VerifyOutcome, markdown: bool) -> String {
    let show = |t: Table| if markdown { t.markdown() } else { t.text() };
    let slow_alarms = o.false_alarms(|r| o.is_noticeable(r)).count;
    let mut out = String::new();
    let _ = writeln!(out, "`corun verify --max-disturbance {}` on short runs.\n", percent(o.max_disturbance));
    out += &show(alone(o));
    out.push('\n');
    out += &show(beside(o));
    let _ = writeln!(
        out,
        "\nFalse alarms in solo runs: {}; {slow_alarms} of these runs were also slow by the clock.",
        rate(o.false_alarms(|_| true))
    );
    let others = o.runs.iter().filter(|r| r.beside.is_none() && !r.is_idle(o.max_disturbance));
    let alarms = others.clone().filter(|r| r.alarm).count();
    let _ = writeln!(
        out,
        "Others had CPUs for more than {} of the length of {} further solo runs: {alarms} alarms.",
        percent(o.max_disturbance),
        others.count()
    );
    let _ = writeln!(
        out,
        "Alarms in solo runs that were not slow by the clock: {}.",
        rate(o.alarms_against_the_clock())
    );
    let _ = writeln!(
        out,
        "Misses, disturbed by {} or more: {}.",
        percent(o.noticeable),
        rate(o.misses(|_| true))
    );
    let [alone, disturbed] = o.unclear();
    let _ = writeln!(
        out,
        "The verdict cannot tell for {} of {} solo runs, and for {} of the {} disturbed runs.",
        alone.count, alone.of, disturbed.count, disturbed.of
    );
    for r in o.runs.iter().filter(|r| r.alarm && r.beside.is_none()) {
        let who = r.culprit.as_deref().unwrap_or("not known");
        let _ = writeln!(
            out,
            "  alarm: {} of {}, {}, by {who}",
            percent(r.disturbance),
            human_ns(r.wall_ns),
            r.program
        );
    }
    for r in o.runs.iter().filter(|r| !r.alarm && !r.unclear && r.beside.is_some() && o.is_noticeable(r)) {
        let (program, beside) = (&r.program, r.beside.as_deref().unwrap_or_default());
        let truth = percent(o.truth(r).unwrap_or_default());
        let _ = writeln!(
            out,
            "  missed: {} said, {truth} true, {program} next to {beside}",
            percent(r.disturbance)
        );
    }
    for (name, why) in &o.skipped {
        let _ = writeln!(out, "skipped {name}: {why}");
    }
    out
}

/// The files of a record. `command` is the command that makes the record again.
pub fn files(o: &VerifyOutcome, command: &str) -> Vec<(&'static str, String)> {
    let made = o.head.date.as_ref().map_or(String::new(), |d| format!(" {d}"));
    let readme = format!(
        "# Are verdicts on short runs right?\n\nMade{made} by corun {} with\n\n```\n{command}\n```\n\n\
         | | |\n| --- | --- |\n| machine | {} |\n| kernel | {} |\n| fair shares | {} |\n\n\
         `studies/verify.toml` says how; `result.json` has every run.\n\n{}",
        o.head.corun,
        o.head.machine,
        o.head.kernel,
        o.shares,
        text(o, true)
    );
    let json = json::indented(o);
    vec![("README.md", readme), ("result.json", json)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(beside: Option<&str>, wall_ns: u64, alarm: bool) -> Judged {
        Judged {
            program: "p".into(),
            beside: beside.map(str::to_owned),
            wall_ns,
            disturbance: if alarm { 0.3 } else { 0.01 },
            resolution: 0.02,
            alarm,
            unclear: false,
            corunners_ns: 0,
            watcher_ns: Some(1_000_000),
            culprit: Some("loop".into()),
        }
    }

    #[test]
    fn false_alarms_and_misses_are_counted_and_named() {
        let runs = vec![
            run(None, 100_000_000, false),
            run(None, 101_000_000, true),
            run(Some("c"), 150_000_000, true),
            run(Some("c"), 150_000_000, false),
        ];
        let o = VerifyOutcome { runs, noticeable: 0.05, max_disturbance: 0.02, ..VerifyOutcome::default() };
        let text = text(&o, false);
        for said in [
            "False alarms in solo runs: 1 of 2",
            "Misses, disturbed by 5.0 % or more: 1 of 2",
            "alarm: 30.0 % of 101 ms, p, by loop",
            "missed: 1.0 % said, 32.7 % true, p next to c",
        ] {
            assert!(text.contains(said), "`{said}` is not in\n{text}");
        }
    }
}
