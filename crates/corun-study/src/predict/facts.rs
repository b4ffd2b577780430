//! The facts of a record of predictions.
//!
//! `MOMENT.PREDICTOR.CO-RUNS` is a mean absolute error, and with `.median` the median. MOMENT is `first-third` or `end`, and PREDICTOR
//! is `dedicated` or `ledger`. CO-RUNS is `all`, `known`, `steady`, `steady-known`, `calibration`, `held-out`, `of.PROGRAM` or
//! `without.PROGRAM`. `intervals.PREDICTOR.CO-RUNS` is how many intervals contain the slowdown.

use crate::predict::again::Half;
use crate::predict::outcome::{CoRun, PredictOutcome};
use crate::quoted::{block, percent, Facts};
use corun_report::table::Table;
use corun_sim::metrics::geometric_mean;

/// A predictor by its column in [`CoRun::predicted`].
const PREDICTORS: [(&str, &str, usize); 2] =
    [("dedicated", "dedicated windows", 0), ("ledger", "the ledger alone", 1)];

type Said = fn(&CoRun) -> &[Option<f64>; 4];
const MOMENTS: [(&str, Said); 2] = [("first-third", |r| &r.predicted), ("end", |r| &r.at_end)];

type Wanted<'a> = Box<dyn Fn(&CoRun) -> bool + 'a>;

fn groups(o: &PredictOutcome) -> Vec<(&'static str, &'static str, Wanted<'_>)> {
    vec![
        ("all", "all", Box::new(|_| true)),
        ("known", "slowdown known", Box::new(|r| o.is_known(r))),
        ("steady", "steady interferer", Box::new(|r| o.is_steady(r))),
        ("steady-known", "steady interferer, slowdown known", Box::new(|r| o.is_steady(r) && o.is_known(r))),
    ]
}

/// The groups, and the two halves of the programs.
fn groups_and_halves(o: &PredictOutcome) -> Vec<(&'static str, Wanted<'_>)> {
    let halves: [(&str, Wanted<'_>); 2] = [
        ("calibration", Box::new(|r| Half::of(&r.program) == Half::Calibration)),
        ("held-out", Box::new(|r| Half::of(&r.program) == Half::HeldOut)),
    ];
    groups(o).into_iter().map(|(which, _, wanted)| (which, wanted)).chain(halves).collect()
}

/// The programs in the order of the runs.
fn programs(o: &PredictOutcome) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for run in &o.runs {
        if !names.contains(&run.program.as_str()) {
            names.push(&run.program);
        }
    }
    names
}

/// Reads the facts from the text of a `result.json`.
///
/// # Errors
/// The text is not such a result.
pub fn read(text: &str) -> serde_json::Result<Facts> {
    serde_json::from_str(text).map(|o| facts(&o))
}

/// All facts that a document may quote.
fn facts(o: &PredictOutcome) -> Facts {
    let mut facts = Facts::new();
    let mut say = |name: String, value: String| facts.insert(name, value);
    let count = |wanted: &dyn Fn(&CoRun) -> bool| o.runs.iter().filter(|r| o.counts(r) && wanted(r)).count();
    let errors = |say: &mut dyn FnMut(String, String), which: &str, wanted: &dyn Fn(&CoRun) -> bool| {
        for (predictor, _, column) in PREDICTORS {
            for (moment, said) in MOMENTS {
                let quality = o.quality(|r| said(r)[column], wanted);
                let name = format!("{moment}.{predictor}.{which}");
                say(format!("{name}.median"), percent(quality.map(|q| q.median)));
                say(name, percent(quality.map(|q| q.mape)));
            }
        }
    };
    for (which, wanted) in groups_and_halves(o) {
        say(format!("co-runs.{which}"), count(&*wanted).to_string());
        for (predictor, _, column) in PREDICTORS {
            let found = o.coverage_of(|r| r.intervals()[column], &*wanted);
            say(format!("intervals.{predictor}.{which}"), found.said());
            let share = (found.all > 0).then(|| found.held as f64 / found.all as f64);
            say(format!("intervals.{predictor}.{which}.share"), percent(share));
        }
        say(format!("chance.{which}"), percent(o.by_chance(&*wanted)));
        let found = o.coverage(&*wanted);
        say(format!("intervals.{which}"), format!("{} of {}", found.held, found.all));
        say(
            format!("intervals.{which}.share"),
            percent((found.all > 0).then(|| found.held as f64 / found.all as f64)),
        );
        errors(&mut |n, v| drop(say(n, v)), which, &*wanted);
    }
    for program in programs(o) {
        errors(&mut |n, v| drop(say(n, v)), &format!("of.{program}"), &|r| r.program == program);
        errors(&mut |n, v| drop(say(n, v)), &format!("without.{program}"), &|r| r.program != program);
    }
    say("programs".into(), programs(o).len().to_string());
    say("cut-off".into(), o.runs.iter().filter(|r| !o.counts(r)).count().to_string());
    say("table.predictors".into(), block(&predictors(o).markdown()));
    say("table.programs".into(), block(&by_program(o).markdown()));
    facts
}

/// A row per predictor and choice of co-runs.
fn predictors(o: &PredictOutcome) -> Table {
    let mut table = Table::new(&[
        "predictor",
        "co-runs",
        ">n",
        ">first third: mean",
        ">median",
        ">end: mean",
        ">median ",
        ">intervals that hold it",
    ]);
    for (_, predictor, column) in PREDICTORS {
        let mut counts = Vec::new();
        for (_, which, wanted) in groups(o) {
            let [third, end] = MOMENTS.map(|(_, said)| o.quality(|r| said(r)[column], &*wanted));
            let n = end.map_or(0, |q| q.n);
            // If every interferer is steady, or every slowdown known, do not show the same co-runs twice.
            if n == 0 || counts.contains(&n) {
                continue;
            }
            counts.push(n);
            let of = |q: Option<super::outcome::Quality>| {
                [percent(q.map(|q| q.mape)), percent(q.map(|q| q.median))]
            };
            let row = [predictor.to_owned(), which.to_owned(), n.to_string()];
            let held = o.coverage_of(|r| r.intervals()[column], &*wanted).said();
            table.row(row.into_iter().chain(of(third)).chain(of(end)).chain([held]));
        }
    }
    table
}

/// A row per program: how much slower it is, and the mean errors.
fn by_program(o: &PredictOutcome) -> Table {
    let mut table = Table::new(&[
        "program",
        ">co-runs",
        ">slowdown",
        ">dedicated windows: first third",
        ">end",
        ">intervals that hold it",
        ">the ledger alone: first third",
        ">end ",
    ]);
    for program in programs(o) {
        let wanted = |r: &CoRun| r.program == program;
        let counting = o.runs.iter().filter(|r| o.counts(r) && wanted(r));
        let slowdowns: Vec<f64> = counting.map(|r| r.slowdown).collect();
        let mut row = vec![
            format!("`{program}`"),
            slowdowns.len().to_string(),
            geometric_mean(&slowdowns).map_or("-".into(), |s| format!("{s:.2}×")),
        ];
        for (name, _, column) in PREDICTORS {
            for (_, said) in MOMENTS {
                row.push(percent(o.quality(|r| said(r)[column], wanted).map(|q| q.mape)));
            }
            if name == "dedicated" {
                row.push(o.coverage(wanted).said());
            }
        }
        table.row(row);
    }
    table
}
