//! A study's result in words and tables, for a terminal or as Markdown.

use crate::validate::cell::Half;
use crate::validate::cell_outcome::{CellOutcome, Live, CATEGORIES};
use crate::validate::fit;
use crate::validate::outcome::Outcome;
use crate::validate::real::RealOutcome;
use crate::validate::verdict::{CategoryError, Summary, REAL};
use corun_report::table::Table;

/// The targets of the model on the unseen half: median and 90th percentile of the error.
pub const TARGETS: (f64, f64) = (0.05, 0.15);

/// The text at the end of a run: all cells, then the errors over all cells.
pub fn terminal(outcome: &Outcome, fit_only: bool) -> String {
    let real = real_cells(outcome);
    let shown: Vec<&CellOutcome> = of_interest(&outcome.cells, fit_only).into_iter().chain(&real).collect();
    format!(
        "corun validate: {} ({}), on {}\n\n{}\n{}{}\n{}",
        outcome.study,
        outcome.part,
        outcome.machine.shape,
        cells(&shown).text(),
        real_programs(&outcome.real).map_or(String::new(), |t| t.text() + "\n"),
        summaries(&of_halves(&outcome.summary, fit_only)).text(),
        verdict(outcome, fit_only)
    )
}

/// The co-runs of the real programs, as cells.
pub fn real_cells(outcome: &Outcome) -> Vec<CellOutcome> {
    outcome.real.iter().flat_map(RealOutcome::cells).collect()
}

/// The solo runs of the real programs: the profile, and the workload that imitates them. `None` without any.
pub fn real_programs(all: &[RealOutcome]) -> Option<Table> {
    let mut table = Table::new(&[
        "real program",
        ">threads",
        ">alone",
        ">modelled",
        ">blocked",
        ">modelled ",
        ">blockings",
        ">modelled  ",
        "workload",
    ]);
    let ms = |ns: u64| format!("{:.0} ms", ns as f64 / 1e6);
    for real in all {
        let Some(p) = &real.profile else {
            let why = real.skipped.as_deref().unwrap_or("");
            let mut row = vec![real.program.name.clone()];
            row.extend(std::iter::repeat_n("-".to_owned(), 7));
            row.push(format!("skipped: {why}"));
            table.row(row);
            continue;
        };
        let f = real.fitted.as_ref();
        let or_none = |x: Option<String>| x.unwrap_or_else(|| "-".into());
        let workload = f.map(|f| {
            let wanted =
                |l: &&str| ["sync", "critical", "grain", "imbalance"].iter().any(|k| l.starts_with(k));
            let own = f.phase.lines().filter(wanted).map(|l| l.replace([' ', '"'], ""));
            let helpers = (p.helpers.threads > 0).then(|| {
                let hz = p.helpers.yields as f64 / (p.wall_ns.max(1) as f64 / 1e9);
                format!("and {} that help {hz:.0} times a second", p.helpers.threads)
            });
            own.chain(helpers).collect::<Vec<_>>().join(" ")
        });
        table.row(vec![
            real.program.name.clone(),
            p.threads.to_string(),
            ms(p.wall_ns),
            or_none(f.map(|f| ms(f.wall_ns))),
            format!("{:.1} %", p.block() * 100.0),
            or_none(f.map(|f| format!("{:.1} %", f.block * 100.0))),
            p.yields.to_string(),
            or_none(f.map(|f| f.yields.to_string())),
            or_none(workload),
        ]);
    }
    (!all.is_empty()).then_some(table)
}

fn of_interest(cells: &[CellOutcome], fit_only: bool) -> Vec<&CellOutcome> {
    cells.iter().filter(|c| !fit_only || c.cell.half == Half::Fit).collect()
}

fn of_halves(summaries: &[Summary], fit_only: bool) -> Vec<&Summary> {
    summaries.iter().filter(|s| !fit_only || s.cells == Half::Fit.name()).collect()
}

/// The cells: slowdowns, their error, and the error of each category in points of task time.
pub fn cells(cells: &[&CellOutcome]) -> Table {
    let mut columns = vec!["program", "next to", "half", ">live", ">min", ">max", ">model", ">error"];
    let categories = CATEGORIES.map(|c| format!(">{c}"));
    columns.extend(categories.iter().map(String::as_str));
    columns.push(">rejected");
    let mut table = Table::new(&columns);
    for c in cells {
        let live = c.live.as_ref();
        let slowdowns: Vec<f64> = live.map_or(Vec::new(), |l| l.runs.iter().map(|r| r.slowdown).collect());
        let edge = |f: fn(f64, f64) -> f64| slowdowns.iter().copied().reduce(f);
        let mut row = vec![
            c.cell.subject.name(),
            c.cell.interferer.name(),
            c.cell.half.name().to_owned(),
            times(live.and_then(|l| l.slowdown())),
            times(edge(f64::min)),
            times(edge(f64::max)),
            times(c.modelled.as_ref().map(|m| m.slowdown)),
            percent(c.error()),
        ];
        let ledger = c.ledger_errors();
        row.extend((0..CATEGORIES.len()).map(|i| ledger.map_or("-".into(), |l| format!("{:+.1}", l[i]))));
        row.push(live.map_or("-".into(), |l| l.rejected.to_string()));
        table.row(row);
    }
    table
}

/// The errors over the halves.
pub fn summaries(summaries: &[&Summary]) -> Table {
    let mut columns = vec![">cells", ">median", ">p90", ">worst", ">bias", ">live again", ">p90 of it"];
    columns.insert(0, "half");
    let categories = CATEGORIES.map(|c| format!(">{c}"));
    columns.extend(categories.iter().map(String::as_str));
    let mut table = Table::new(&columns);
    for s in summaries {
        let absolute = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.1} %", x * 100.0));
        let mut row = vec![
            s.cells.clone(),
            s.n.to_string(),
            absolute(s.median),
            absolute(s.p90),
            absolute(s.worst),
            percent(s.bias),
            absolute(s.repeatability),
            absolute(s.repeatability_p90),
        ];
        let of =
            |errors: &[CategoryError], c: &str| errors.iter().find(|e| e.category == c).map(|e| e.points);
        row.extend(CATEGORIES.iter().map(|c| match (of(&s.ledger_median, c), of(&s.ledger_p90, c)) {
            (Some(median), Some(p90)) => format!("{median:.1}, {p90:.1}"),
            _ => "-".into(),
        }));
        table.row(row);
    }
    table
}

/// The meaning of the columns, whether the targets were met, and the runs that did not count.
pub fn verdict(outcome: &Outcome, fit_only: bool) -> String {
    let mut out = String::from(
        "error: modelled slowdown over live one, less 1. Categories: error in points of task time (below: median, p90).\n\
         live again: how far one live repetition is from the others of its cell, which no model can beat.\n",
    );
    let unseen = outcome.summary.iter().find(|s| s.cells == Half::Unseen.name() && !fit_only);
    if let Some((median, p90)) = unseen.and_then(|s| Some((s.median?, s.p90?))) {
        let met = |x: f64, target: f64| if x <= target { "met" } else { "not met" };
        out += &format!(
            "On the unseen half: median {:.1} % (target {:.0} %: {}), 90th percentile {:.1} % (target {:.0} %: {}).\n",
            median * 100.0,
            TARGETS.0 * 100.0,
            met(median, TARGETS.0),
            p90 * 100.0,
            TARGETS.1 * 100.0,
            met(p90, TARGETS.1)
        );
    }
    if let Some(ratio) = fit::best(&outcome.fitted) {
        let tried: Vec<String> =
            outcome.fitted.iter().map(|t| format!("{}: {:.1} %", t.newidle_ratio, t.error * 100.0)).collect();
        out += &format!(
            "Fitted on the fit half: a newly idle CPU looks for a task {ratio} times in 1024 (mean error with {}).\n",
            tried.join(", ")
        );
    }
    if let Some((median, p90)) =
        outcome.summary.iter().find(|s| s.cells == REAL).and_then(|s| Some((s.median?, s.p90?)))
    {
        out += &format!(
            "On the real programs: median {:.1} %, 90th percentile {:.1} %; none of their co-runs had a part in the fit.\n",
            median * 100.0,
            p90 * 100.0
        );
    }
    let real = outcome.real.iter().flat_map(|r| r.beside.iter().filter_map(|b| b.live.as_ref()));
    let live: Vec<&Live> = outcome.cells.iter().filter_map(|c| c.live.as_ref()).chain(real).collect();
    let (made, rejected): (usize, u32) =
        (live.iter().map(|l| l.runs.len()).sum(), live.iter().map(|l| l.rejected).sum());
    let missing: u32 = live.iter().map(|l| l.missing).sum();
    let cut_off = live.iter().flat_map(|l| &l.runs).filter(|r| r.cut_off).count();
    out += &format!(
        "{made} live co-runs count; {rejected} did not, because others used the machine; \
         {missing} repetitions never got a quiet moment.\n"
    );
    if cut_off > 0 {
        out += &format!(
            "{cut_off} co-runs were cut off before their program ended: their slowdown is too small.\n"
        );
    }
    if outcome.machine.source.as_deref() == Some("schedstat") {
        out +=
            "Ledgers are from schedstat, without eBPF: what a task did after the last look is not in them.\n";
    }
    out
}

fn times(x: Option<f64>) -> String {
    x.map_or("-".into(), |x| format!("{x:.2}"))
}

fn percent(x: Option<f64>) -> String {
    x.map_or("-".into(), |x| format!("{:+.1} %", x * 100.0))
}
