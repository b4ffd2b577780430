//! The result of each tenant on a modelled machine compared with running alone: the terminal's table as the
//! top of the page, with a bar per tenant, and the overall figures.
//!
//! Bars share one scale that starts at 0; the line at 1 is running alone. A whisker is the 95 % interval of
//! the mean over the seeds.

use super::markup::{escape, section, sentence, Drawing};
use super::scale::ticks;
use super::tenants::{Tenants, REST};
use crate::sim::{figures, time, times, Estimate, SimReport, SimTenant};
use crate::words::{count, thousands};
use std::fmt::Write;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 22.0;
/// Rows before the rest is folded, and the number of folded ones; the JSON has all.
const ROWS: usize = 24;
const FOLDED: usize = 500;

/// The section for the top of a run's page.
pub fn section_of(report: &SimReport) -> String {
    let scale = Scale::of(report);
    let tenants = Tenants::of(&report.profile);
    let rows: Vec<String> =
        report.tenants.iter().take(ROWS + FOLDED).map(|t| row(report, t, &tenants, &scale)).collect();
    let (shown, folded) = rows.split_at(rows.len().min(ROWS));
    let table = |rows: &[String]| format!("<table>{}{}</table>\n", header(report, &scale), rows.concat());
    let mut content = table(shown);
    if !folded.is_empty() {
        let more = thousands(folded.len() as u64);
        let _ = writeln!(content, "<details><summary>{more} more</summary>{}</details>", table(folded));
    }
    let left = report.tenants.len() - rows.len();
    if left > 0 {
        let _ = writeln!(
            content,
            "<p class=\"lead\">{} are in the JSON only.</p>",
            count(left as u64, "more tenant")
        );
    }
    content.push_str(&tiles(report));
    for u in &report.unavailable {
        let _ = writeln!(
            content,
            "<p class=\"lead\">Not known, {}: {}.</p>",
            sentence(&u.what.name()),
            sentence(&u.why.to_string())
        );
    }
    section("How much slower than alone", &lead(report), &content)
}

fn lead(report: &SimReport) -> String {
    let under = report.policy.as_ref().map_or(String::new(), |p| format!(" under the policy {}", p.name));
    let seeds = match report.seeds.len() {
        1 => "One seed, so without intervals.".to_owned(),
        n => format!("Means over {n} seeds with their 95 % interval (the whiskers)."),
    };
    let baseline = report.baseline.as_ref().map_or(String::new(), |b| format!(" The dashed mark is {b}."));
    let what = format!(
        "{} on {}, scheduled by {}{under}: time next to the others divided by time alone; for programs that do not end, the rate of work alone divided by that next to them. {seeds}{baseline}",
        report.scenario, report.machine, report.scheduler
    );
    sentence(&what)
}

/// From a slowdown to a place, over all tenants.
struct Scale {
    highest: f64,
}

impl Scale {
    fn of(report: &SimReport) -> Scale {
        let ends = |e: &Estimate| e.mean + e.half_width.unwrap_or(0.0);
        let all = report.tenants.iter().flat_map(|t| [&t.slowdown, &t.baseline_slowdown]).flatten();
        Scale { highest: all.map(ends).fold(1.0, f64::max) * 1.02 }
    }

    fn x(&self, slowdown: f64) -> f64 {
        // A few pixels at the end, so that a whisker's cap and the last number are visible.
        (WIDTH - 12.0) * (slowdown / self.highest).clamp(0.0, 1.0)
    }
}

fn header(report: &SimReport, scale: &Scale) -> String {
    let mut d = Drawing::default();
    for tick in ticks(scale.highest) {
        d.text("", if tick == 0.0 { "start" } else { "middle" }, (scale.x(tick), 15.0), &format!("{tick}x"));
    }
    let baseline = if report.baseline.is_some() { "<th class=\"n\">baseline</th>" } else { "" };
    format!(
        "<tr><th>tenant</th><th class=\"n\">runs</th><th class=\"n\">alone</th><th class=\"n\">here</th>\
         <th class=\"n\">slowdown</th>{baseline}<th>{}</th></tr>",
        d.finish(WIDTH, HEIGHT, "Scale of slowdowns")
    )
}

fn row(report: &SimReport, t: &SimTenant, tenants: &Tenants, scale: &Scale) -> String {
    let key = format!("sim/{}", t.name);
    let class =
        report.profile.tenants.iter().find(|p| p.key == key).map_or(REST, |p| tenants.class(p.tenant.id));
    let background = if t.background { " <small>(background)</small>" } else { "" };
    let baseline = match report.baseline {
        Some(_) => format!("<td class=\"n\">{}</td>", times(t.baseline_slowdown)),
        None => String::new(),
    };
    format!(
        "<tr><td class=\"name\" title=\"{name}\">{name}{background}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td class=\"n\"><b>{}</b></td>{baseline}<td class=\"wide\">{}</td></tr>",
        t.completed,
        time(t.solo_ns),
        time(t.time_ns),
        times(t.slowdown),
        bar(t, class, scale),
        name = escape(&t.name),
    )
}

fn bar(t: &SimTenant, class: &str, scale: &Scale) -> String {
    let mut d = Drawing::default();
    let label = format!("{}: slowdown {}", t.name, times(t.slowdown));
    if let Some(e) = t.slowdown {
        d.rect(class, (0.0, 4.0), (scale.x(e.mean), HEIGHT - 8.0), &label);
        if let Some(half) = e.half_width {
            let (low, high) = (scale.x(e.mean - half), scale.x(e.mean + half));
            let middle = HEIGHT / 2.0;
            d.line("whisker", (low, middle), (high, middle));
            for x in [low, high] {
                d.line("whisker", (x, middle - 4.5), (x, middle + 4.5));
            }
        }
    }
    d.line("axis", (scale.x(1.0), 0.0), (scale.x(1.0), HEIGHT));
    if let Some(e) = t.baseline_slowdown {
        d.line("mark", (scale.x(e.mean), 0.0), (scale.x(e.mean), HEIGHT));
    }
    d.finish(WIDTH, HEIGHT, &label)
}

fn tiles(report: &SimReport) -> String {
    let tile = |(what, value, remark): (&str, String, String)| {
        format!(
            "<div class=\"tile\"><span>{what}</span><b>{}</b><span>{}</span></div>",
            escape(&value),
            escape(&remark)
        )
    };
    let all: String = figures(report).into_iter().map(|f| tile((f.what, f.value, f.remark))).collect();
    format!("<div class=\"tiles three\">{all}</div>\n")
}
