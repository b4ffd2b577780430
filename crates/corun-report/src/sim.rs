//! A modelled scenario's report: the wire schema `corun.sim/1` and its table for a terminal.
//!
//! Names are a contract, as in [`crate::profile::schema`]; `None` is written as `null` and means *unknown*, and
//! [`SimReport::unavailable`] says why.

use crate::control::Decided;
use crate::json;
use crate::profile::schema::ProfileReport;
use crate::table::Table;
use corun_model::duration::human_ns;
use corun_model::Unavailable;
use serde::Serialize;
use std::collections::BTreeMap;

/// Name and version of the schema, the first field of every report.
pub const SCHEMA: &str = "corun.sim/1";

/// What came of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of corun that wrote this.
    pub corun: String,
    /// The scenario's name.
    pub scenario: String,
    /// The replayed recording; `None` if a scenario ran.
    pub recorded: Option<SimRecorded>,
    /// The machine in one line.
    pub machine: String,
    /// Its number of CPUs.
    pub cpus: u64,
    /// The scheduler under it.
    pub scheduler: String,
    /// The policy in all runs except those alone and the baseline; `None` if nobody controlled anything.
    pub policy: Option<SimPolicy>,
    /// The scheduler that `relative_speedup` compares with.
    pub baseline: Option<String>,
    /// Seeds, one run each.
    pub seeds: Vec<u64>,
    /// Lengths of the runs with all tenants, in nanoseconds of modelled time.
    pub length_ns: Estimate,
    /// Per tenant.
    pub tenants: Vec<SimTenant>,
    /// Jain's fairness index over the tenants' slowdowns, 0..=1.
    pub fairness: Option<Estimate>,
    /// System throughput: the sum of the tenants' progress relative to running alone.
    pub throughput: Option<Estimate>,
    /// Harmonic mean of the tenants' speed-ups over the baseline.
    pub relative_speedup: Option<Estimate>,
    /// Geometric mean of the tenants' speed-ups over running alone (1 / slowdown).
    pub speedup_mean: Option<f64>,
    /// The least of them.
    pub speedup_min: Option<f64>,
    /// The largest of them.
    pub speedup_max: Option<f64>,
    /// Energy of a run in joules.
    pub energy_j: Option<Estimate>,
    /// The model's work for it, over all runs with all tenants.
    pub work: SimWork,
    /// Where the time of the first seed's run went.
    pub profile: ProfileReport,
    /// The unknowns, and why.
    pub unavailable: Vec<Unavailable>,
}

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimRecorded {
    /// What ran, in words.
    pub command: String,
    /// CPUs of the recorded machine.
    pub cpus: u64,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// How long it would have taken alone there, in nanoseconds: at least, most likely, at most, according to
    /// the gaps in the recording.
    pub alone_ns: [u64; 3],
    /// Whether its tasks may have spun unseen while they waited for each other: then it would have taken less
    /// time alone.
    pub may_have_spun: bool,
    /// Events in the recording.
    pub events: u64,
    /// How much of its end was left out because events were lost there, in nanoseconds.
    pub left_out_ns: u64,
    /// Who else wanted CPUs, as loops.
    pub co_runners: Vec<Loops>,
}

/// A co-runner of a recorded run, as loops.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loops {
    /// Its name.
    pub name: String,
    /// How many loops.
    pub tasks: u32,
    /// The part of the time for which each wants a CPU, 0..=1.
    pub demand: f64,
}

impl SimRecorded {
    /// What was recorded, which part of it is certain without a model of a machine, and the value of the
    /// model's figures.
    fn text(&self) -> String {
        let SimRecorded { command, cpus, took_ns, alone_ns: [least, likely, most], .. } = self;
        let others: Vec<String> = self
            .co_runners
            .iter()
            .take(3)
            .map(|l| format!("{} ({} x {:.0} % of a CPU)", l.name, l.tasks, 100.0 * l.demand))
            .collect();
        let more = self.co_runners.len().saturating_sub(others.len());
        let others = match (&others[..], more) {
            ([], _) => "alone".to_owned(),
            (named, 0) => format!("next to {}", named.join(", ")),
            (named, more) => format!("next to {} and {more} more", named.join(", ")),
        };
        let slower = |alone_ns: u64| *took_ns as f64 / alone_ns.max(1) as f64;
        let alone = human_ns(*likely);
        let replayed = match self.may_have_spun {
            false => format!(
                "{alone} ({} to {}), so it was {:.2} times as long",
                human_ns(*least),
                human_ns(*most),
                slower(*likely)
            ),
            true => format!(
                "{alone} (at most {}), so it was at least {:.2} times as long\n  \
                 A recording does not separate spinning from computing: if its tasks spin while they wait for\n  \
                 each other, others slowed it more than that",
                human_ns(*most),
                slower(*most)
            ),
        };
        format!(
            "recorded: {command} took {} on {cpus} CPU{} {others}\nreplayed without them: {replayed}\n\
             modelled, its co-runners as loops (see the table): what a policy, a scheduler or other CPUs change\n",
            human_ns(*took_ns),
            if *cpus == 1 { "" } else { "s" },
        )
    }
}

/// The policy of a scenario and its actions, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimPolicy {
    /// Its name.
    pub name: String,
    /// The given options, as text.
    pub options: BTreeMap<String, String>,
    /// How often it decided, in nanoseconds.
    pub epoch_ns: u64,
    /// Epochs.
    pub epochs: u64,
    /// Decisions.
    pub decisions: u64,
    /// Decisions that were not carried out, by reason.
    pub not_done: BTreeMap<String, u64>,
    /// The first decisions of the first seed's run.
    pub first: Vec<SimDecision>,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimDecision {
    /// When, on the modelled machine's clock in nanoseconds.
    pub t_ns: u64,
    /// The action in the words of corun's own code, which no contract covers: the fields below contain the
    /// same.
    pub action: String,
    /// The target, the knob, its value, the reason and the outcome, as in `corun.control/1`.
    #[serde(flatten)]
    pub decided: Decided,
}

/// One tenant of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimTenant {
    /// Its name.
    pub name: String,
    /// Nobody waited for its end.
    pub background: bool,
    /// Its complete runs, over all seeds.
    pub completed: u64,
    /// Time alone on the machine, in nanoseconds; `None` if it does not end by itself.
    pub solo_ns: Option<Estimate>,
    /// Time next to the others; `None` if it did not end.
    pub time_ns: Option<Estimate>,
    /// Time, or inverse rate of work, relative to alone.
    pub slowdown: Option<Estimate>,
    /// The same under the baseline scheduler.
    pub baseline_slowdown: Option<Estimate>,
}

/// A figure over the seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the mean's 95 % interval; `None` from a single seed.
    pub half_width: Option<f64>,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Number of seeds.
    pub n: u64,
}

/// What the model did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SimWork {
    /// Events.
    pub events: u64,
    /// Context switches.
    pub switches: u64,
    /// Wake-ups.
    pub wakeups: u64,
}

/// Writes a report, indented, with a newline at the end; the same report gives the same bytes.
pub fn json(report: &SimReport) -> String {
    json::indented(report)
}

/// The tenants' table and the overall figures, for a terminal.
pub fn text(report: &SimReport) -> String {
    let mut table = Table::new(&["tenant", ">runs", ">alone", ">here", ">slowdown", ">baseline"]);
    // The co-runners of a recording are loops, which say nothing about the model's accuracy.
    let is_shown = |t: &&SimTenant| report.recorded.is_none() || !t.background;
    for t in report.tenants.iter().filter(is_shown) {
        table.row([
            if t.background { format!("{} (background)", t.name) } else { t.name.clone() },
            t.completed.to_string(),
            time(t.solo_ns),
            time(t.time_ns),
            times(t.slowdown),
            times(t.baseline_slowdown),
        ]);
    }
    let seeds = report.seeds.len();
    let mut out = format!(
        "corun sim: {} on {}, {}{}, {} seed{}\n{}\n{}\n",
        report.scenario,
        report.machine,
        report.scheduler,
        report.policy.as_ref().map_or(String::new(), |p| format!(" under {}", p.name)),
        seeds,
        if seeds == 1 { "" } else { "s" },
        report.recorded.as_ref().map_or_else(String::new, SimRecorded::text),
        table.text()
    );
    let mut line = |what: &str, value: String| out.push_str(&format!("{what:<22}{value}\n"));
    let of_scenario = figures(report).into_iter().filter(|_| report.recorded.is_none());
    for Figure { what, value, remark } in of_scenario {
        line(what, [value, remark].join(" ").trim_end().to_owned());
    }
    if let Some(p) = &report.policy {
        line(
            "policy",
            format!("{} decisions in {} epochs of {}", p.decisions, p.epochs, human_ns(p.epoch_ns)),
        );
        for (why, count) in &p.not_done {
            line("", format!("{count} not carried out: {why}"));
        }
    }
    for u in &report.unavailable {
        out.push_str(&format!("! {}: {}\n", u.what, u.why));
    }
    out
}

/// A figure of the whole.
pub(crate) struct Figure {
    pub what: &'static str,
    pub value: String,
    /// Further words on it; may be empty.
    pub remark: String,
}

/// The known overall figures, in display order.
pub(crate) fn figures(report: &SimReport) -> Vec<Figure> {
    let of = |what, value: Option<String>, remark: String| value.map(|value| Figure { what, value, remark });
    let over = report.baseline.as_ref().map_or(String::new(), |b| format!("over {b}"));
    let extremes = match (report.speedup_min, report.speedup_max) {
        (Some(min), Some(max)) => format!("(geometric mean), {min:.3} to {max:.3}"),
        _ => String::new(),
    };
    [
        of("fairness (Jain)", report.fairness.map(figure), String::new()),
        of("system throughput", report.throughput.map(figure), String::new()),
        of("relative speed-up", report.relative_speedup.map(figure), over),
        of("speed-up over alone", report.speedup_mean.map(|mean| format!("{mean:.3}")), extremes),
        of("energy", report.energy_j.map(joules), String::new()),
        of("length", Some(time(Some(report.length_ns))), String::new()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn figure(e: Estimate) -> String {
    match e.half_width {
        Some(h) => format!("{:.3} ± {h:.3}", e.mean),
        None => format!("{:.3}", e.mean),
    }
}

/// Energy with as many digits as are meaningful: down to the second digit of the interval's half width, or
/// four digits without an interval.
fn joules(e: Estimate) -> String {
    let digits_to = |x: f64, digits: i32| digits - 1 - if x > 0.0 { x.log10().floor() as i32 } else { 0 };
    let decimals = match e.half_width {
        Some(h) if h > 0.0 => digits_to(h, 2),
        _ => digits_to(e.mean, 4),
    };
    let places = decimals.clamp(0, 6) as usize;
    match e.half_width {
        Some(h) => format!("{:.places$} ± {h:.places$} J", e.mean),
        None => format!("{:.places$} J", e.mean),
    }
}

pub(crate) fn times(e: Option<Estimate>) -> String {
    match e {
        None => "-".into(),
        Some(Estimate { mean, half_width: Some(h), .. }) => format!("{mean:.2}x ± {h:.2}"),
        Some(e) => format!("{:.2}x", e.mean),
    }
}

pub(crate) fn time(e: Option<Estimate>) -> String {
    e.map_or("-".into(), |e| human_ns(e.mean.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_has_the_meaningful_digits() {
        let of = |mean, half_width| joules(Estimate { mean, half_width, min: mean, max: mean, n: 3 });
        assert_eq!(of(2249.578, Some(44.417)), "2250 ± 44 J");
        assert_eq!(of(12.3456, Some(0.0523)), "12.346 ± 0.052 J");
        assert_eq!(of(51_234.6, Some(444.4)), "51235 ± 444 J");
        assert_eq!((of(2249.578, None), of(0.012345, None)), ("2250 J".into(), "0.01235 J".to_string()));
        assert_eq!((of(7.5, Some(0.0)), of(0.0, None)), ("7.500 ± 0.000 J".into(), "0.000 J".to_string()));
    }

    #[test]
    fn a_figure_from_one_seed_has_no_interval_and_an_unknown_one_is_a_dash() {
        let one = Estimate { mean: 2.0, half_width: None, min: 2.0, max: 2.0, n: 1 };
        let three = Estimate { half_width: Some(0.125), n: 3, ..one };
        assert_eq!(
            (times(Some(one)), times(Some(three)), times(None)),
            ("2.00x".into(), "2.00x ± 0.12".into(), "-".to_string())
        );
        assert_eq!(figure(three), "2.000 ± 0.125");
        assert_eq!(time(Some(Estimate { mean: 1.5e9, ..one })), "1.50 s");
    }
}
