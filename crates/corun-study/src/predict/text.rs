//! The result of the study of predictions in words and tables, and as the files of a dated record.

use crate::predict::outcome::{CoRun, PredictOutcome, Quality, PREDICTORS};
use crate::quoted::percent;
use corun_report::json;
use corun_report::table::Table;
use corun_sim::metrics::geometric_mean;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Error by a key of the co-runs: a row per key, a column per predictor, `n` first.
fn by(outcome: &PredictOutcome, what: &str, key: &dyn Fn(&CoRun) -> String) -> Table {
    let columns: Vec<String> = PREDICTORS.iter().map(|p| format!(">{p}")).collect();
    let mut names = vec![what, ">co-runs", ">slowdown"];
    names.extend(columns.iter().map(String::as_str));
    names.push(">intervals that hold it");
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
        let slowdown = geometric_mean(&slowdowns).map_or("-".into(), |s| format!("{s:.2}×"));
        let mut row = vec![k.clone(), slowdowns.len().to_string(), slowdown];
        row.extend(
            (0..PREDICTORS.len())
                .map(|i| percent(outcome.quality(|r| r.predicted[i], of_key).map(|q| q.mape))),
        );
        row.push(outcome.coverage(of_key).said());
        table.row(row);
    }
    table
}

/// A row per predictor, over the co-runs that are `wanted`.
fn whole(outcome: &PredictOutcome, wanted: &dyn Fn(&CoRun) -> bool) -> Table {
    let mut table = Table::new(&[
        "predictor",
        ">co-runs",
        ">MAPE",
        ">median",
        ">bias",
        ">intervals that hold it",
        ">MAPE at the end",
        ">bias ",
        ">intervals ",
    ]);
    for (i, name) in PREDICTORS.iter().enumerate() {
        let at_end = outcome.quality(|r| r.at_end[i], wanted);
        let bias = |q: Quality| format!("{:+.1} %", q.bias * 100.0);
        let held = |of: fn(&CoRun) -> [Option<[f64; 2]>; 2]| {
            let of = |r: &CoRun| of(r).get(i).copied().flatten();
            outcome.coverage_of(of, wanted).said()
        };
        if let Some(q) = outcome.quality(|r| r.predicted[i], wanted) {
            table.row([
                (*name).to_owned(),
                q.n.to_string(),
                percent(Some(q.mape)),
                percent(Some(q.median)),
                bias(q),
                held(CoRun::intervals),
                percent(at_end.map(|q| q.mape)),
                at_end.map_or("-".into(), bias),
                held(|r| r.at_end_intervals),
            ]);
        }
    }
    table
}

type Group<'a> = (String, Box<dyn Fn(&CoRun) -> bool + 'a>);

/// The groups of the summary: all co-runs, and those that need a summary of their own.
fn groups(outcome: &PredictOutcome) -> Vec<Group<'_>> {
    let known = format!("Slowdown known to {:.0} %", outcome.known_to * 100.0);
    vec![
        ("All".into(), Box::new(|_| true)),
        (known.clone(), Box::new(|r| outcome.is_known(r))),
        ("Interferer the same all the time".into(), Box::new(|r| outcome.is_steady(r))),
        (
            format!("Interferer the same all the time, {}", known.to_lowercase()),
            Box::new(|r| outcome.is_steady(r) && outcome.is_known(r)),
        ),
        ("Interferer that starts again and again".into(), Box::new(|r| !outcome.is_steady(r))),
    ]
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
    out += &show(by(outcome, "next to", &|r| r.interferer.clone()));
    out.push('\n');
    for (which, wanted) in groups(outcome) {
        let count = outcome.runs.iter().filter(|r| outcome.counts(r) && wanted(r)).count();
        let _ = writeln!(out, "{which} ({count} co-runs):\n");
        out += &show(whole(outcome, &*wanted));
        let found = outcome.coverage(&*wanted);
        let share = |n: usize| percent((found.all > 0).then(|| n as f64 / found.all as f64));
        let _ = writeln!(
            out,
            "\n95 % intervals: {} of {} contain the measured slowdown ({}), and {} contain a possible one ({}). \
             Chance in the solo runs and in the co-run makes {} of these errors, however good the prediction.\n",
            found.held,
            found.all,
            share(found.held),
            found.may_hold,
            share(found.may_hold),
            percent(outcome.by_chance(&*wanted)),
        );
    }
    let solo: Vec<f64> = outcome.solos.iter().filter_map(|s| s.predicted).collect();
    let worst = solo.iter().map(|p| (p - 1.0).abs()).fold(0.0, f64::max);
    let mean = solo.iter().map(|p| p - 1.0).sum::<f64>() / solo.len().max(1) as f64;
    let _ = writeln!(
        out,
        "Predicted for {} solo runs: {:+.1} % on average, at most {:.1} % off (0 is right).",
        solo.len(),
        mean * 100.0,
        worst * 100.0
    );
    let cut = outcome.runs.iter().filter(|r| r.cut_off).count();
    let silent = outcome.runs.iter().filter(|r| r.predicted_at_ns.is_none()).count();
    let _ = writeln!(
        out,
        "{} co-runs, of which {cut} were cut off and do not count. For {silent} there was no prediction in time.",
        outcome.runs.len(),
    );
    for (what, why) in &outcome.skipped {
        let _ = writeln!(out, "skipped: {what}: {why}");
    }
    out
}

/// Whether the co-runs of a record can be predicted again.
pub fn windows_kept(outcome: &PredictOutcome) -> String {
    let kept = outcome.runs.iter().filter(|r| r.windows.is_some()).count();
    match kept {
        0 => "It keeps no windows, so its co-runs cannot be predicted again.".to_owned(),
        n if n == outcome.runs.len() => {
            "It keeps the windows of all of them (`corun predict --again`).".to_owned()
        }
        n => format!(
            "It keeps the windows of {n} of its {} co-runs (`corun predict --again`).",
            outcome.runs.len()
        ),
    }
}

/// The files of a record, by name. `command` is the command that makes the record again.
pub fn files(outcome: &PredictOutcome, command: &str) -> Vec<(&'static str, String)> {
    let programs: BTreeSet<&str> = outcome.runs.iter().map(|r| r.program.as_str()).collect();
    let readme = format!(
        "# Slowdowns predicted while they happen\n\nMade {} by corun {} with\n\n```\n{command}\n```\n\n| | |\n| --- | --- |\n\
         | machine | {} |\n| kernel | {} |\n| fair shares | {} |\n| programs | {} |\n\nEvery program and every \
         interferer is in a session of its own; `result.json` has every run. {}\n\n{}",
        outcome.head.when(),
        outcome.head.corun,
        outcome.head.machine,
        outcome.head.kernel,
        outcome.shares,
        programs.len(),
        windows_kept(outcome),
        text(outcome, true)
    );
    let json = json::indented(outcome);
    vec![("README.md", readme), ("result.json", json)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(interferer: &str, error: f64, predicted: f64) -> CoRun {
        CoRun {
            program: "p".into(),
            interferer: interferer.into(),
            repetition: 1,
            wake_up_ns: None,
            wall_ns: 2,
            solo_ns: 1,
            error: Some(error),
            parked_ns: 0,
            slowdown: 2.0,
            predicted_at_ns: Some(1),
            method: Some("ledger".into()),
            predicted: [None, Some(predicted), None, None],
            at_end: [None, Some(2.0), None, None],
            interval: Some([1.9, 2.3]),
            ..CoRun::default()
        }
    }

    #[test]
    fn every_group_has_its_own_errors_and_intervals() {
        let outcome = PredictOutcome {
            known_to: 0.06,
            restarting: vec!["again".into()],
            runs: vec![run("loop", 0.01, 2.2), run("loop", 0.2, 2.0), run("again", 0.01, 3.0)],
            ..PredictOutcome::default()
        };
        let text = text(&outcome, true);
        let after = |heading: &str| text.split_once(heading).unwrap().1;
        let row = |heading: &str| {
            after(heading).lines().find(|l| l.starts_with("| ledger alone")).unwrap().to_owned()
        };
        assert!(row("All (3 co-runs)").starts_with("| ledger alone | 3 | 20.0 % | 10.0 % |"));
        assert!(row("Slowdown known to 6 % (2 co-runs)").contains("| 30.0 % |"));
        assert!(row("Interferer the same all the time (2 co-runs)").contains("| 5.0 % |"));
        assert!(row("Interferer that starts again and again (1 co-runs)").contains("| 50.0 % |"));
        assert!(after("All (3").contains("3 of 3 contain the measured slowdown (100.0 %)"));
    }
}
