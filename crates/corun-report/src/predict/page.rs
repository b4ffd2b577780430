//! A prediction as one self-contained page: the slowdown over time with its interval, its parts, and its
//! culprits.

use super::line::{line, spun, LEAST};
use super::{Covers, PredictReport};
use crate::html::markup::{escape, page, script_json, section, sentence, Drawing};
use crate::html::scale::ticks;
use crate::words::count;
use corun_model::duration::human_ns;
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 44.0;
const BELOW: f64 = 24.0;

/// The page of a prediction: its reports in chronological order.
pub fn render(history: &[PredictReport]) -> String {
    let Some(last) = history.last() else { return String::new() };
    let time = section(
        "Slowdown over time",
        "The estimates as they were made while it ran, of its phase at that time, with their intervals; 1 is as fast as \
         alone. Each stroke is a stretch of the run by itself.",
        &over_time(history),
    );
    let json = format!(
        "<script type=\"application/json\" id=\"corun-predict\">{}</script>\n",
        script_json(&last.json_line())
    );
    page(
        &last.target,
        &[head(last), time, parts(last), culprits(last), spinning(last), how(last), json].concat(),
    )
}

fn head(last: &PredictReport) -> String {
    let date = last.date.as_ref().map_or_else(String::new, |d| format!(", {}", escape(d)));
    format!(
        "<header>\n<p class=\"brand\"><b>corun predict</b>, {}{date}</p>\n<p class=\"target\">{}</p>\n<h1>{}</h1>\n</header>\n",
        escape(&last.machine),
        escape(&last.target),
        sentence(&line(last))
    )
}

/// The estimates as a line in a band.
fn over_time(history: &[PredictReport]) -> String {
    let known: Vec<(f64, f64, [f64; 2])> =
        // The result of the whole run is above.
        history
            .iter()
            .filter(|r| r.covers == Covers::Present)
            .filter_map(|r| Some((r.elapsed_ns as f64 / 1e9, r.slowdown?, r.interval?)))
            .collect();
    let Some(&(end_s, ..)) = known.last() else {
        return "<p class=\"lead\">There was no estimate while it ran.</p>\n".to_owned();
    };
    let stretches = stretches(history);
    let end_s = stretches.iter().map(|s| s.1).fold(end_s, f64::max);
    // A first, wide interval must not flatten everything after it.
    let highest = known.iter().map(|k| k.1).fold(1.0, f64::max) * 1.5;
    let x = |s: f64| LEFT + (WIDTH - LEFT) * s / end_s.max(1e-9);
    let y = |v: f64| HEIGHT - (HEIGHT - 8.0) * (v / highest).clamp(0.0, 1.0);
    let mut d = Drawing::default();
    for tick in ticks(highest) {
        d.line("grid", (LEFT, y(tick)), (WIDTH, y(tick)));
        d.text("", "end", (LEFT - 8.0, y(tick) + 4.5), &format!("{tick}"));
    }
    let mut band: Vec<(f64, f64)> = known.iter().map(|(s, _, [low, _])| (x(*s), y(*low))).collect();
    band.extend(known.iter().rev().map(|(s, _, [_, high])| (x(*s), y(*high))));
    d.shape("block", &band);
    for (from_s, to_s, v) in stretches {
        d.line("stretch", (x(from_s), y(v)), (x(to_s), y(v)));
    }
    for pair in known.windows(2) {
        d.line("estimate", (x(pair[0].0), y(pair[0].1)), (x(pair[1].0), y(pair[1].1)));
    }
    d.line("axis", (LEFT, y(1.0)), (WIDTH, y(1.0)));
    for tick in ticks(end_s) {
        let anchor = if x(tick) > WIDTH - 20.0 { "end" } else { "middle" };
        d.text("", anchor, (x(tick), HEIGHT + 19.0), &format!("{tick} s"));
    }
    let step = (WIDTH - LEFT) / known.len() as f64;
    for (s, v, [low, high]) in &known {
        let title = format!("{s:.1} s: {v:.2}× ({low:.2}-{high:.2})");
        d.rect("hover", (x(*s) - step, 8.0), (step, HEIGHT - 8.0), &title);
    }
    d.finish(WIDTH, HEIGHT + BELOW, "The slowdown over time with its interval")
}

/// For every usable window its start and end, in seconds since the beginning, and its slowdown.
fn stretches(history: &[PredictReport]) -> Vec<(f64, f64, f64)> {
    let Some(last) = history.iter().rev().find(|r| !r.windows.is_empty()) else { return Vec::new() };
    // Windows are on the host's clock; the last one ends when the estimate is made.
    let end_ns = last.windows.iter().map(|w| w.end_ns).max().unwrap_or(0);
    let since_s = |ns: u64| (last.elapsed_ns as f64 - (end_ns - ns) as f64).max(0.0) / 1e9;
    let told =
        last.windows.iter().filter_map(|w| Some((since_s(w.start_ns), since_s(w.end_ns), w.slowdown?)));
    told.collect()
}

fn parts(last: &PredictReport) -> String {
    let (Some(parts), Some(slowdown)) = (last.parts, last.slowdown) else { return String::new() };
    let row = |what: &str, value: Option<f64>, means: &str| {
        let value = value.map_or("not known".to_owned(), |v| format!("{v:+.2}"));
        format!("<tr><td>{what}</td><td class=\"n\">{value}</td><td><small>{means}</small></td></tr>\n")
    };
    let rows = [
        row("steal", Some(parts.steal), "waiting for CPUs that others held"),
        row("waiting for siblings", Some(parts.sync), "spinning or blocked because a sibling was late"),
        row("memory", parts.memory, "stalls beyond the core"),
        row("other", Some(parts.other), "devices, another number of tasks"),
    ];
    let lead = match slowdown > 1.0 {
        true => format!("They sum to {:+.2}, the slowdown less 1.", slowdown - 1.0),
        false => "It is no slower than alone, so there is nothing to divide.".to_owned(),
    };
    section("Its parts", &lead, &format!("<table class=\"counts\">\n{}</table>\n", rows.concat()))
}

fn culprits(last: &PredictReport) -> String {
    if last.culprits.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    let (named, rest): (Vec<_>, Vec<_>) = last.culprits.iter().partition(|c| c.share >= LEAST);
    for c in named {
        let who = c.tenant.as_deref().unwrap_or("not known");
        let _ = writeln!(
            rows,
            "<tr><td class=\"name\">{}</td><td><small>{}</small></td><td class=\"n\">{:.1}\u{a0}%</td>\
             <td class=\"n\">{}</td></tr>",
            escape(who),
            escape(&c.kind),
            c.share * 100.0,
            human_ns(c.steal_ns)
        );
    }
    let more = match rest.len() {
        0 => String::new(),
        n => format!(" {} with less than {} % of it.", count(n as u64, "more tenant"), LEAST * 100.0),
    };
    section(
        "Who took the time",
        &sentence(&format!("Summed over its tasks.{more}")),
        &format!("<table class=\"counts\">\n{rows}</table>\n"),
    )
}

/// Most tasks in the table of spinning.
const SPINNERS: usize = 20;

fn spinning(last: &PredictReport) -> String {
    let Some(s) = &last.spinning else { return String::new() };
    let mut rows = String::new();
    for t in s.tasks.iter().take(SPINNERS) {
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        let share = t.share.map_or("not known".to_owned(), |x| format!("{}\u{a0}%", percent(x)));
        let between = t.interval.map_or_else(String::new, |i| i.map(percent).join("-"));
        let _ = writeln!(
            rows,
            "<tr><td class=\"n\">{}</td><td class=\"name\">{}</td><td class=\"n\">{share}</td>\
             <td class=\"n\">{between}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            t.tid,
            escape(&t.name),
            t.spin_ns.map_or("not known".to_owned(), human_ns),
            human_ns(t.on_cpu_ns)
        );
    }
    let more = match s.tasks.len().saturating_sub(SPINNERS) as u64 + s.unlisted_tasks {
        0 => String::new(),
        n => format!(" {} not shown.", count(n, "more task")),
    };
    let lead = format!(
        "{}, waiting for a sibling or a lock on a CPU instead of off it. The interval is what chance leaves open, at {:.0} %.{more}",
        spun(s),
        100.0 * s.confidence
    );
    let head = "<tr><th>tid</th><th>task</th><th>spinning</th><th>between</th><th>for</th><th>of</th></tr>\n";
    let table = format!("<table class=\"counts\">\n{head}{rows}</table>\n");
    section("How much it spins", &sentence(&lead), &table)
}

fn how(last: &PredictReport) -> String {
    let b = &last.baselines;
    let simpler = [
        ("CPU share", b.cpu_share),
        ("run-queue latency", b.runq_latency),
        ("CPI", b.cpi),
        ("MPKI", b.mpki),
        ("PACT'16", b.pact16),
    ];
    let mut rows = String::new();
    for (what, x) in simpler {
        let value = x.map_or("cannot say".to_owned(), |x| format!("{x:.2}×"));
        let _ = writeln!(rows, "<tr><td>{what}</td><td class=\"n\">{value}</td></tr>");
    }
    let missing: String = last
        .unavailable
        .iter()
        .map(|u| {
            format!("<p class=\"caution\">{}: {}</p>\n", escape(&u.what.name()), sentence(&u.why.to_string()))
        })
        .collect();
    let seen = format!(
        "The ledger was seen by {}; spinning was {}.",
        escape(&last.source),
        last.spin
            .as_deref()
            .map_or("not separated from computing".into(), |s| format!("found by {}", escape(s)))
    );
    section(
        "Results of simpler predictors, and unknowns",
        &seen,
        &format!(
            "<table class=\"counts\">\n{rows}</table>\n{missing}<footer>corun {}, schema {}. Nothing on this page was \
             loaded from anywhere.</footer>\n",
            escape(last.corun),
            escape(last.schema)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::example::{estimate, report, spinning as spinning_example};
    use super::*;
    use corun_predict::estimate::{CannotTell, Culprit, Label, Waited, WindowSummary};

    #[test]
    fn the_page_has_the_answer_the_curve_and_the_last_estimate_and_escapes_names() {
        let history = [report(Ok(estimate())), report(Ok(estimate()))];
        let page = render(&history);
        assert!(page.contains("1.93× slower than alone"));
        assert!(page.contains("<svg") && page.contains("class=\"estimate\""));
        assert!(page.contains("./solver &lt;in&gt;") && !page.contains("./solver <in>"));
        assert!(page.contains("corun.predict/1"));
    }

    #[test]
    fn each_window_is_a_stroke_where_it_was_in_the_run() {
        let mut r = report(Ok(estimate()));
        r.elapsed_ns = 10_000_000_000;
        let window = |start_s: u64, label, slowdown| WindowSummary {
            start_ns: (100 + start_s) * 1_000_000_000,
            end_ns: (101 + start_s) * 1_000_000_000,
            label,
            useful_cpus: 1.0,
            slowdown,
        };
        r.windows = vec![window(3, Label::Shared, Some(2.5)), window(9, Label::Dedicated, None)];
        assert_eq!(stretches(&[r.clone()]), [(3.0, 4.0, 2.5)]);
        assert!(render(&[r]).contains("class=\"stretch\""));
    }

    #[test]
    fn culprits_that_took_almost_nothing_are_counted_and_not_listed() {
        let mut e = estimate();
        let small =
            |name: &str| Culprit { tenant: Some(name.into()), share: 0.000_4, ..e.culprits[0].clone() };
        e.culprits = vec![e.culprits[0].clone(), small("sed"), small("awk")];
        let page = render(&[report(Ok(e))]);
        assert!(page.contains("2 more tenants with less than 0.1\u{a0}% of it."));
        assert!(!page.contains("<td class=\"name\">sed</td>"));
    }

    #[test]
    fn how_much_each_task_spins_is_a_table() {
        let mut r = report(Ok(estimate()));
        assert!(!render(&[r.clone()]).contains("How much it spins"));
        r.spinning = Some(spinning_example());
        let page = render(&[r]);
        for said in ["63\u{a0}% of its CPU time (61-65)", "worker &lt;1&gt;", "968 ms", "96.8\u{a0}%"] {
            assert!(page.contains(said), "{said} in {page}");
        }
    }

    #[test]
    fn a_prediction_without_an_estimate_is_a_page_too() {
        let page = render(&[report(Err(CannotTell::OnlyWaited(Waited::default())))]);
        assert!(page.contains("There was no estimate") && page.contains("it only waited"));
    }
}
