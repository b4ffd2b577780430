//! The HTML report: one self-contained file that needs no network and works from `file://`.
//!
//! Bars and the heat map are plain HTML, so they reflow and print; curves are SVG. One palette, safe for
//! color-blind readers (after Okabe and Ito), distinguishes the categories of time everywhere, light and
//! dark. The page's own content policy forbids every load; its script only saves or copies the embedded JSON.

mod breakdown;
mod distribution;
pub(crate) mod markup;
mod matrix;
pub(crate) mod measured;
mod modelled;
pub(crate) mod scale;
pub(crate) mod tenants;
pub(crate) mod timeline;
mod waits;

use crate::answer::{self, Lost};
use crate::json;
use crate::profile::schema::{Histogram, ProfileReport};
use crate::sim::SimReport;
use crate::words::{bound, count, percent};
use corun_model::duration::human_ns;
use markup::{script_json, section, sentence};
use tenants::Tenants;

pub use markup::escape;

/// The whole page.
pub fn render(report: &ProfileReport) -> String {
    page(report, "", "")
}

/// The page of a run on a modelled machine, with its caller's `more` sections before the one about the
/// measurement.
pub fn render_modelled(report: &SimReport, more: &str) -> String {
    page(&report.profile, &modelled::section_of(report), more)
}

/// The whole page, with sections after its head and before its end.
fn page(report: &ProfileReport, first: &str, more: &str) -> String {
    let tenants = Tenants::of(report);
    let body = [
        head(report),
        first.to_owned(),
        time(report, &tenants),
        thieves(report, &tenants),
        waits::section_of(report, &tenants),
        over_time(report, &tenants),
        shapes(report),
    ];
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n\
         <title>corun: {title}</title>\n<style>\n{css}</style>\n</head>\n<body>\n<main>\n{body}{more}{measured}</main>\n\
         <script type=\"application/json\" id=\"corun-profile\">{json}</script>\n<script>\n{js}</script>\n\
         </body>\n</html>\n",
        title = escape(&report.target),
        css = include_str!("page.css"),
        js = include_str!("page.js"),
        json = script_json(&json::compact(&report.listing_at_most(EMBEDDED))),
        body = body.concat(),
        measured = how(report),
    )
}

/// The most tasks of either list in the page; a page of tens of megabytes does not open anywhere.
const EMBEDDED: usize = 1000;

fn head(report: &ProfileReport) -> String {
    let answer = answer::answer(report);
    let causes = match answer.causes.as_slice() {
        [] => String::new(),
        causes => format!("<p class=\"causes\">{}.</p>\n", sentence(&causes.join(", "))),
    };
    let cautions: String = answer::cautions(report)
        .iter()
        .map(|caution| format!("<p class=\"caution\">{}</p>\n", sentence(caution)))
        .collect();
    let date = report.date.as_ref().map_or_else(String::new, |date| format!(", {}", escape(date)));
    format!(
        "<header>\n<p class=\"brand\">{}{date}</p>\n<p class=\"target\">{}</p>\n<h1>{}</h1>\n\
         {causes}{cautions}{}</header>\n",
        match report.host {
            crate::Host::Live => "<b>corun profile</b>, on a live machine",
            crate::Host::Sim => "<b>corun sim</b>, on a modelled machine",
        },
        escape(&report.target),
        sentence(&answer.verdict),
        tiles(report)
    )
}

fn tiles(report: &ProfileReport) -> String {
    let a = &report.subject.account;
    let lost = Lost::of(a);
    let slower = match a.ledger.compute_ns {
        0 => "no compute".to_owned(),
        compute_ns => format!("{} %", percent(lost.total_ns(), compute_ns)),
    };
    let wait = a.waits.as_ref().and_then(|h| h.p99).map_or_else(|| "not known".to_owned(), bound);
    let idle = report.idle_share().map_or_else(
        || "idle time not known".to_owned(),
        |share| format!("{} % of it idle", percent((share * 1e6) as u64, 1_000_000)),
    );
    [
        ("waited, by what it computed", slower, "stolen, throttled, parked, spinning".to_owned()),
        ("waited for a CPU", human_ns(a.ledger.steal_ns), waited_for(report, &lost)),
        ("99 % of its waits", wait, "the rest took longer".to_owned()),
        ("window", human_ns(report.window_ns), format!("on {}, {idle}", count(report.cpus, "CPU"))),
    ]
    .into_iter()
    .map(|(what, number, remark)| {
        format!(
            "<div class=\"tile\"><span>{what}</span><b>{number}</b><span>{}</span></div>",
            escape(&remark)
        )
    })
    .fold("<div class=\"tiles\">".to_owned(), |all, tile| all + &tile)
        + "</div>\n"
}

fn waited_for(report: &ProfileReport, lost: &Lost) -> String {
    let steal_ns = report.subject.account.ledger.steal_ns;
    if steal_ns == 0 {
        return "nobody was in its way".to_owned();
    }
    if answer::is_all(report) {
        return "summed over all tasks".to_owned();
    }
    if lost.stolen.is_empty() && lost.own_ns + lost.idle_ns == 0 {
        return "for whom is not known".to_owned();
    }
    format!("{} % of that for other tenants", percent(lost.stolen_ns(), steal_ns))
}

fn time(report: &ProfileReport, tenants: &Tenants) -> String {
    section("Where the time went", "", &(breakdown::subject(report) + &breakdown::tasks(report, tenants)))
}

fn thieves(report: &ProfileReport, tenants: &Tenants) -> String {
    let mut out = section(
        "Who held the CPU while it waited",
        "Each wait of a runnable task is charged, nanosecond by nanosecond, to whoever held that CPU meanwhile.",
        &breakdown::culprits(report, tenants),
    );
    let map = matrix::heat_map(report, tenants);
    if !map.is_empty() {
        out.push_str(&section(
            "Who steals from whom",
            "A row waited, a column held the CPU; darker is more. Dashed cells are tenants in their own way.",
            &map,
        ));
    }
    out
}

fn over_time(report: &ProfileReport, tenants: &Tenants) -> String {
    if report.timeline.is_empty() {
        return String::new();
    }
    let pictures = format!(
        "<figure><h3>What its tasks did</h3>\n{}</figure><figure><h3>Who held the CPUs</h3>\n{}</figure>",
        timeline::subject(report),
        timeline::holders(report, tenants)
    );
    let lead =
        "Above: how many of its tasks ran and how many waited (tasks that blocked voluntarily are in the tooltips). Below: who had the machine meanwhile. The empty part was idle.";
    section("Over time", lead, &pictures)
}

fn shapes(report: &ProfileReport) -> String {
    let a = &report.subject.account;
    let picture = |h: &Option<Histogram>, class: &str, label: &str| match h {
        Some(h) => distribution::histogram(h, &report.histogram_edges_ns, class, label),
        None => "<p class=\"lead\">This source cannot tell.</p>\n".to_owned(),
    };
    let content = format!(
        "<div class=\"two\"><div><h3>Waits for a CPU</h3>\n{}</div><div><h3>Stretches on a CPU</h3>\n{}</div></div>\n\
         <h3>Events</h3>\n{}",
        picture(&a.waits, "wait", "Histogram of run-queue waits"),
        picture(&a.stretches, "", "Histogram of stretches on a CPU"),
        measured::counts(report)
    );
    let lead =
        "How long single waits and single runs were, on a doubling scale, and how often things happened.";
    section("Lengths and counts", lead, &content)
}

fn how(report: &ProfileReport) -> String {
    let content = format!(
        "{}<button id=\"download\">Download the JSON</button><button id=\"copy\">Copy it</button>\n\
         <footer>corun {}, schema {}. Nothing on this page was loaded from anywhere.</footer>\n",
        measured::facts(report),
        escape(&report.corun),
        escape(&report.schema)
    );
    section("How this was measured, what was lost", "", &content)
}
