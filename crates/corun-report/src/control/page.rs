//! The effects of a policy, as one self-contained page: whether it helped, who was parked when, periods with
//! and without it, what was decided and why, who got how much, and what was undone.
//!
//! The parts that a page of a profile has, too (who held the CPUs, how it was seen), are drawn by the same
//! code, from a profile of the whole time.
//!
//! **Fairness** is Jain's index over the part of its demand that each tenant achieved: useful CPU time
//! divided by all time in which it was not blocked. Limit: nobody knows whether a parked tenant would have
//! run. So for a tenant that often blocks, the parked time counts for more than it missed.

use super::history::{History, Period, Undone};
use super::lanes;
use super::{ControlSummary, Got, GuardLine};
use crate::html::markup::{escape, page, section, sentence};
use crate::html::tenants::Tenants;
use crate::html::{measured, timeline};
use crate::profile::schema::{ProfileReport, Section};
use crate::words::{count, percent, thousands};
use corun_model::duration::human_ns;
use corun_model::fairness::jain;
use corun_model::Fate;
use corun_model::TenantId;
use std::fmt::Write;

/// Lanes, columns and rows for at most this many tenants; the rest is counted.
const MOST_TENANTS: usize = 12;
const MOST_COLUMNS: usize = 6;
/// Rows of a table before the rest is folded.
const ROWS: usize = 24;

/// The controlled run.
#[derive(Clone, Debug)]
pub struct Controlled<'a> {
    /// The policy's name.
    pub policy: &'a str,
    /// `stock`, `sched_ext`, `sim`; `none` in a dry run.
    pub backend: &'a str,
    /// The guard's finding; `None` if it was off.
    pub guard: Option<GuardLine>,
    /// What happened.
    pub history: &'a History,
    /// What each tenant got.
    pub summary: &'a ControlSummary,
}

impl Controlled<'_> {
    /// Did it help? If nobody measured that: what did it do? A sentence without its end.
    pub fn answer(&self) -> String {
        let (policy, history) = (self.policy, self.history);
        let decisions = history.decisions();
        if let Some(guard) = self.guard.as_ref().filter(|_| decisions > 0) {
            let not_enough = || {
                let pairs = count(guard.pairs.unwrap_or(0) as u64, "pair");
                format!("{policy}: too little was seen to tell whether it helps ({pairs} of periods with and without it)")
            };
            return guard.sentence(policy).unwrap_or_else(not_enough);
        }
        if history.reasons().iter().any(|r| r.fate == Fate::Proposed) {
            return format!("{policy} would have tried slots; only a real run shows whether they help");
        }
        if let Some(found) = history.own_finding() {
            return format!("{policy} {found}");
        }
        let (dry, unknown) = match self.backend {
            "none" => ("would have ", ""),
            _ => ("", "; whether that helped was not measured, since the guard was off"),
        };
        let parked = history.ever_parked();
        let length_ns = history.length_ns();
        if !parked.is_empty() {
            let most_ns = parked.iter().map(|&t| history.parked_ns(t, 0, length_ns)).max().unwrap_or(0);
            let who = count(parked.len() as u64, "tenant");
            let share = percent(most_ns, length_ns);
            return format!(
                "{policy} {dry}parked {who} in turn, none for more than {share} % of the time{unknown}"
            );
        }
        match decisions {
            0 => format!("{policy} {dry}changed nothing"),
            n => format!("{policy} {dry}set knobs {}{unknown}", count(n, "time")),
        }
    }
}

/// The whole page. `profile` is one of everybody over the same time.
pub fn render(controlled: &Controlled, profile: &ProfileReport) -> String {
    let title = format!("control {}", controlled.policy);
    page(&title, &[head(controlled, profile), sections(controlled, profile), how(profile)].concat())
}

/// The part of the page between its head and its end, for a page with its own head and end.
pub fn sections(controlled: &Controlled, profile: &ProfileReport) -> String {
    let history = controlled.history;
    let shown = shown(history, profile);
    let tenants = Tenants::with_first(profile, &shown.iter().map(|t| t.0).collect::<Vec<_>>());
    [
        parked(history, &tenants, &shown, controlled.backend),
        held(profile, &tenants),
        periods(history, &tenants, &shown),
        reasons(history, &tenants),
        shares(controlled.summary, profile, &tenants),
        undone(history, &tenants, controlled.backend),
    ]
    .concat()
}

/// Covered tenants that ran or were parked, the one that ran most first.
fn shown(history: &History, profile: &ProfileReport) -> Vec<TenantId> {
    let (parked, covered) = (history.ever_parked(), history.covered());
    let noticed = |t: &&Section| {
        let id = TenantId(t.tenant.id);
        // A hundredth of one CPU.
        let ran = t.account.ledger.on_cpu_ns() * 100 >= profile.window_ns;
        parked.contains(&id) || covered.contains(&id) && ran
    };
    let mut all: Vec<&Section> = profile.tenants.iter().filter(noticed).collect();
    all.sort_by_key(|t| std::cmp::Reverse(t.account.ledger.on_cpu_ns()));
    all.iter().take(MOST_TENANTS).map(|t| TenantId(t.tenant.id)).collect()
}

fn head(c: &Controlled, profile: &ProfileReport) -> String {
    let notes: String =
        profile.notes.iter().map(|note| format!("<p class=\"caution\">{}</p>\n", sentence(note))).collect();
    let date = profile.date.as_ref().map_or_else(String::new, |d| format!(", {}", escape(d)));
    format!(
        "<header>\n<p class=\"brand\"><b>corun control</b>, {}{date}</p>\n<p class=\"target\">{}</p>\n<h1>{}</h1>\n{}{notes}\
         {}</header>\n",
        escape(&profile.machine.description),
        escape(&profile.target),
        sentence(&c.answer()),
        last_reason(c.history),
        tiles(c)
    )
}

fn last_reason(history: &History) -> String {
    let last = history.reasons().iter().max_by_key(|r| r.to_ns);
    last.map_or_else(String::new, |r| {
        format!(
            "<p class=\"causes\">Last, at {}: {}: {}.</p>\n",
            human_ns(r.to_ns),
            r.what,
            sentence(&r.because)
        )
    })
}

fn tiles(c: &Controlled) -> String {
    let history = c.history;
    let with_ns = history.in_force_ns();
    let all_ns: u64 = history.periods().iter().map(|p| p.to_ns - p.from_ns).sum();
    let fairness = fairness(&progress(c.summary));
    let tiles = [
        ("length", human_ns(history.length_ns()), format!("by {}", backend(c.backend))),
        ("policy in force", format!("{} %", percent(with_ns, all_ns)), "of the time".into()),
        (
            "decisions",
            thousands(history.decisions()),
            format!("for {}", count(history.reasons().len() as u64, "reason")),
        ),
        (
            "fairness",
            fairness.map_or_else(|| "not known".into(), |f| format!("{f:.2}")),
            "Jain's index, 1 is fair".into(),
        ),
    ];
    let tile = |(what, number, remark): (&str, String, String)| {
        format!(
            "<div class=\"tile\"><span>{what}</span><b>{number}</b><span>{}</span></div>",
            escape(&remark)
        )
    };
    format!("<div class=\"tiles\">{}</div>\n", tiles.map(tile).concat())
}

fn backend(name: &str) -> &str {
    match name {
        "none" => "nothing: a dry run",
        "stock" => "stock knobs",
        other => other,
    }
}

fn parked(history: &History, tenants: &Tenants, shown: &[TenantId], backend: &str) -> String {
    if history.ever_parked().is_empty() {
        return String::new();
    }
    let whole = lanes::lanes(history, tenants, shown, 0, history.length_ns(), "Who was parked when");
    let closer = lanes::closer(history).map_or_else(String::new, |(from_ns, to_ns)| {
        let title = format!("A closer look, from {}", human_ns(from_ns));
        let lanes = lanes::lanes(history, tenants, shown, from_ns, to_ns, &title);
        format!("<figure><h3>{title}</h3>\n{lanes}</figure>")
    });
    let left_out = history.ever_parked().iter().filter(|t| !shown.contains(t)).count() as u64;
    let more = match left_out {
        0 => String::new(),
        n => format!(" {} not drawn.", count(n, "more tenant")),
    };
    let dry = match backend {
        "none" => " Nobody was: this was a dry run, and shows who would have been.",
        _ => "",
    };
    let lead = format!(
        "Where slots are finer than this picture, the grey comes down by the part of the time in which it was parked.{more}{dry}"
    );
    section("Who was parked when", &lead, &format!("<figure>\n{whole}</figure>{closer}"))
}

fn held(profile: &ProfileReport, tenants: &Tenants) -> String {
    if profile.timeline.is_empty() {
        return String::new();
    }
    section("Who held the CPUs", "What is not filled was idle.", &timeline::holders(profile, tenants))
}

/// The periods of the guard; empty if the policy was always in force.
fn periods(history: &History, tenants: &Tenants, shown: &[TenantId]) -> String {
    if history.periods().len() < 2 {
        return String::new();
    }
    let columns = &shown[..shown.len().min(MOST_COLUMNS)];
    let cpus = |p: &Period, ns: u64| format!("{:.2}", ns as f64 / (p.to_ns - p.from_ns).max(1) as f64);
    let rows: Vec<String> = history
        .periods()
        .iter()
        .map(|p| {
            let of = |t: &TenantId| p.useful_ns.get(t).map_or("-".to_owned(), |&ns| cpus(p, ns));
            let cells: String = columns.iter().map(|t| format!("<td class=\"n\">{}</td>", of(t))).collect();
            format!(
                "<tr><td>{}</td><td>{} to {}</td>{cells}<td class=\"n\">{}</td></tr>",
                if p.with { "with" } else { "<span class=\"quiet\">without</span>" },
                human_ns(p.from_ns),
                human_ns(p.to_ns),
                cpus(p, p.all_useful_ns())
            )
        })
        .collect();
    let sums: String = [false, true].into_iter().map(|with| mean_row(history, columns, with)).collect();
    let names: String =
        columns.iter().map(|t| format!("<th class=\"n\">{}</th>", escape(&tenants.name(t.0)))).collect();
    let header = format!("<tr><th>policy</th><th></th>{names}<th class=\"n\">all</th></tr>");
    let lead = "The guard measures periods with and without the policy in turn: CPUs of useful work (on a CPU and not known \
                to spin) of each tenant, and of all that the policy may touch.";
    section("With and without the policy", lead, &folding(&header, &sums, &rows))
}

/// The work of a tenant per time over all periods with, or without.
fn mean_row(history: &History, columns: &[TenantId], with: bool) -> String {
    let periods: Vec<&Period> = history.periods().iter().filter(|p| p.with == with).collect();
    let all_ns: u64 = periods.iter().map(|p| p.to_ns - p.from_ns).sum();
    let cpus = |ns: u64| format!("<td class=\"n\"><b>{:.2}</b></td>", ns as f64 / all_ns.max(1) as f64);
    let of = |t: &TenantId| periods.iter().filter_map(|p| p.useful_ns.get(t)).sum::<u64>();
    let cells: String = columns.iter().map(|t| cpus(of(t))).collect();
    let sum = cpus(periods.iter().map(|p| p.all_useful_ns()).sum());
    let what = if with { "with" } else { "without" };
    format!("<tr><td><b>{what}</b></td><td>all periods, {}</td>{cells}{sum}</tr>", human_ns(all_ns))
}

fn reasons(history: &History, tenants: &Tenants) -> String {
    let row = |r: &super::history::Reason| {
        let whom = match r.who.len() {
            0 => "tasks".to_owned(),
            1..=3 => r.who.iter().map(|t| tenants.name(t.0)).collect::<Vec<_>>().join(", "),
            n => count(n as u64, "tenant"),
        };
        let when = match r.from_ns == r.to_ns {
            true => human_ns(r.from_ns),
            false => format!("{} to {}", human_ns(r.from_ns), human_ns(r.to_ns)),
        };
        let outcome = r.not_done().map_or_else(String::new, |outcome| format!(" ({outcome})"));
        format!(
            "<tr><td>{when}</td><td>{}</td><td class=\"name\" title=\"{whom}\">{whom}</td><td class=\"n\">{}</td>\
             <td class=\"wide\">{}{}</td></tr>",
            r.what,
            thousands(r.times),
            sentence(&r.because),
            sentence(&outcome),
            whom = escape(&whom),
        )
    };
    let rows: Vec<String> = history.reasons().iter().map(row).collect();
    if rows.is_empty() {
        return section("What was decided, and why", "Nothing.", "");
    }
    let header = "<tr><th>when</th><th>what</th><th>whom</th><th class=\"n\">times</th><th>because</th></tr>";
    let more = match history.left_out() {
        0 => String::new(),
        n => format!(" Here and above there was no room for {} more.", thousands(n)),
    };
    let lead = format!("Decisions of one reason that follow each other are one line.{more}");
    section("What was decided, and why", &lead, &folding(header, "", &rows))
}

/// A table whose further rows fold.
fn folding(header: &str, first: &str, rows: &[String]) -> String {
    let (shown, folded) = rows.split_at(rows.len().min(ROWS));
    let mut out = format!("<table>{header}{first}{}</table>\n", shown.concat());
    if !folded.is_empty() {
        let more = thousands(folded.len() as u64);
        let _ = writeln!(
            out,
            "<details><summary>{more} more</summary><table>{header}{}</table></details>",
            folded.concat()
        );
    }
    out
}

/// The part of its demand that each tenant achieved, 0..=1, the one that ran most first.
fn progress(summary: &ControlSummary) -> Vec<(&Got, f64)> {
    let of = |got: &Got| got.useful_ns as f64 / got.wanted_ns().max(1) as f64;
    // A tenant that wants less than a hundredth of one CPU is slowed down by chance.
    let counts = |got: &&Got| got.wanted_ns() * 100 >= summary.window_ns();
    summary.busiest().into_iter().filter(counts).map(|got| (got, of(got))).collect()
}

/// How evenly they did; a single tenant shares with nobody.
fn fairness(progress: &[(&Got, f64)]) -> Option<f64> {
    let did: Vec<f64> = progress.iter().filter(|p| !p.0.is_several()).map(|p| p.1).collect();
    jain(&did).filter(|_| did.len() > 1)
}

fn shares(summary: &ControlSummary, profile: &ProfileReport, tenants: &Tenants) -> String {
    let progress = progress(summary);
    // Its name in the lanes above.
    let called = |got: &Got| {
        let found = profile.tenants.iter().find(|t| t.key == got.key);
        found.map_or_else(|| got.name.clone(), |t| tenants.name(t.tenant.id))
    };
    let row = |(got, progress): &(&Got, f64)| {
        let share = |ns: u64| format!("{} %", percent(ns, got.life_ns));
        let spun = match got.judged_ns {
            0 => "not known".to_owned(),
            judged_ns => format!("{} %", percent(got.spin_ns, judged_ns)),
        };
        format!(
            "<tr><td class=\"name\" title=\"{}\">{}</td><td class=\"n\">{:.2}</td><td class=\"n\">{} %</td><td class=\"n\">{spun}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.0} %</td></tr>",
            escape(&got.key),
            escape(&called(got)),
            got.on_cpu_ns as f64 / summary.window_ns().max(1) as f64,
            percent(got.on_cpu_ns, summary.window_ns().saturating_mul(profile.cpus)),
            share(got.steal_ns),
            share(got.parked_ns),
            progress * 100.0
        )
    };
    let rows: Vec<String> = progress.iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let header = "<tr><th>tenant</th><th class=\"n\">CPUs</th><th class=\"n\">of the machine</th><th class=\"n\">spun</th>\
                  <th class=\"n\">waited for a CPU</th><th class=\"n\">parked</th><th class=\"n\">did of what it wanted</th></tr>";
    let fairness =
        fairness(&progress).map_or_else(String::new, |f| format!(" Jain's index over it is {f:.3}."));
    let lead = format!(
        "Spun is a part of the CPU time that could be judged, waited and parked are parts of its tasks' lives. What it did of \
         what it wanted is useful CPU time by all time in which it was not blocked.{fairness}"
    );
    section("Who got how much", &lead, &folding(header, "", &rows))
}

fn undone(history: &History, tenants: &Tenants, backend: &str) -> String {
    if backend == "none" {
        return section("What was undone", "A dry run: nothing was changed.", "");
    }
    let row = |u: &Undone| {
        let names: Vec<String> = u.released.iter().map(|t| tenants.name(t.0)).collect();
        let released = match names.len() {
            0 => "nobody was parked".to_owned(),
            1..=4 => format!("let go: {}", names.join(", ")),
            n => format!("let go: {}", count(n as u64, "tenant")),
        };
        let changed = match u.changed {
            0 => String::new(),
            n => format!("; other knobs put back: {}", thousands(n as u64)),
        };
        let failed = match &u.failed {
            None => "everything is as it was".to_owned(),
            Some(why) => format!("<b>{}</b>", sentence(why)),
        };
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{failed}</td></tr>",
            human_ns(u.at_ns),
            escape(u.why),
            escape(&(released + &changed))
        )
    };
    let rows: Vec<String> = history.all_undone().iter().rev().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    section("What was undone", "The last first.", &folding("", "", &rows))
}

fn how(profile: &ProfileReport) -> String {
    let footer = format!(
        "{}<footer>corun {}. Nothing on this page was loaded from anywhere.</footer>\n",
        measured::facts(profile),
        escape(&profile.corun)
    );
    section("How this was measured, what was lost", "", &footer)
}
