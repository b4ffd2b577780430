//! The terminal report: one screen, the answer first.
//!
//! A pure function of the report and the [`Style`]; nothing is read from the environment while rendering.
//! Names are cleaned of control characters before they get here or when they are printed.

mod bar;
mod busiest;
mod footer;
mod style;
mod waits;

pub(crate) use footer::{lost, probe_cost};
pub use style::Style;

use crate::answer::{self, is_all};
use crate::category::{parts, Category};
use crate::names::Names;
use crate::profile::schema::{Account, Block, Culprit, Ledger, ProfileReport, Section};
use crate::table::Table;
use crate::words::{count, name, percent, wrap};
use corun_model::duration::human_ns;
use corun_model::TakenBy;
use std::cmp::Reverse;

/// The most culprits and tasks in the lists.
const CULPRITS: usize = 5;
const TASKS: usize = 6;
/// For everybody, this many tenants, and fewer culprits; their tasks are in the other outputs.
const VICTIMS: usize = 10;
const CULPRITS_OF_ALL: usize = 3;

/// The report as text for a terminal, at most about 38 lines.
pub fn render(report: &ProfileReport, style: &Style) -> String {
    let names = Names::of(report);
    let parts = [
        head(report, style),
        breakdown(report, style),
        victims(report, &names, style),
        culprits(report, &names, style),
        tasks(report, &names, style),
        waits::lines(report, &names, style),
        footer::distributions(report, style),
        footer::measured(report, style),
    ];
    let shown: Vec<&str> = parts.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
    let text = shown.join("\n");
    if style.unicode {
        text
    } else {
        ascii(&text)
    }
}

fn ascii(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            'µ' => 'u',
            c if c.is_ascii() => c,
            _ => '?',
        })
        .collect()
}

fn head(report: &ProfileReport, style: &Style) -> String {
    let mut out = String::new();
    let title = format!("corun profile: {}", name(&report.target, style.width - 15));
    out.push_str(&style.faint(&title));
    out.push('\n');
    for line in wrap(&answer::headline(report), style.width) {
        out.push_str(&style.bold(&line));
        out.push('\n');
    }
    for caution in answer::cautions(report) {
        for line in wrap(&format!("! {}", name(&caution, 400)), style.width) {
            out.push_str(&line);
            out.push('\n');
        }
    }
    out
}

fn breakdown(report: &ProfileReport, style: &Style) -> String {
    let s = &report.subject;
    let l = &s.account.ledger;
    if l.total_ns == 0 {
        return String::new();
    }
    let title = format!(
        "{}: {}, {} of task time in a window of {}",
        name(&s.tenant.name, 28),
        count(s.task_count, "task"),
        human_ns(l.total_ns),
        human_ns(report.window_ns)
    );
    let title = wrap(&title, style.width).join("\n");
    let mut out = format!("{title}\n{}\n", bar::ledger(l, style.width, style));
    out.push_str(&legend(&s.account, style));
    out
}

/// The key to the bar, as many entries a line as fit.
fn legend(a: &Account, style: &Style) -> String {
    let total_ns = a.ledger.total_ns;
    let (mut out, mut column) = (String::new(), 0);
    for (c, ns) in parts(&a.ledger) {
        let text = format!("{} {} %{}", c.name(), percent(ns, total_ns), remark(c, a));
        let long = text.chars().count() + 2;
        if column > 0 && column + 3 + long > style.width {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push_str("   ");
            column += 3;
        }
        out.push_str(&format!("{} {text}", style.category(c, &style.fill(c).to_string())));
        column += long;
    }
    out.push('\n');
    out
}

/// The additions of a legend to a category: the reasons for blocking, and a note that spinning is still
/// inside compute.
fn remark(c: Category, a: &Account) -> String {
    match (c, &a.block) {
        (Category::Block, Some(b)) => reasons(b, a.ledger.total_ns),
        (Category::Compute, _) if a.ledger.spin_ns.is_none() => " (spinning included)".to_owned(),
        _ => String::new(),
    }
}

fn reasons(b: &Block, total_ns: u64) -> String {
    let mut named: Vec<(&str, u64)> = b.named().into_iter().filter(|(_, ns)| *ns > 0).collect();
    named.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let said: Vec<String> =
        named.iter().take(3).map(|(what, ns)| format!("{what} {}", percent(*ns, total_ns))).collect();
    format!(" ({})", said.join(", "))
}

/// Who steals from whom, for everybody: each victim's lost share of its time, and its main culprit.
fn victims(report: &ProfileReport, names: &Names, style: &Style) -> String {
    if !is_all(report) {
        return String::new();
    }
    let mut victims: Vec<&Section> =
        report.tenants.iter().filter(|t| lost_ns(&t.account.ledger) > 0).collect();
    if victims.is_empty() {
        return String::new();
    }
    victims.sort_by_key(|t| (Reverse(lost_ns(&t.account.ledger)), t.tenant.id));
    let mut table = Table::new(&["tenant", ">lost", ">of its time", "mostly to"]);
    for t in victims.iter().take(VICTIMS) {
        let (a, lost_ns) = (&t.account, lost_ns(&t.account.ledger));
        table.row([
            names.within(t.tenant.id, 28),
            human_ns(lost_ns),
            format!("{} %", percent(lost_ns, a.ledger.total_ns)),
            mostly(a, names, 24),
        ]);
    }
    let lines = table.lines();
    let mut out = format!("{}\n", style.faint(lines[0].trim_end()));
    out.extend(lines[1..].iter().map(|line| format!("{}\n", line.trim_end())));
    out + &more(victims.len(), VICTIMS, "tenant")
}

/// Useless time: waiting for a CPU, stopped, spinning.
fn lost_ns(l: &Ledger) -> u64 {
    l.spin_ns.unwrap_or(0) + l.steal_ns + l.throttled_ns + l.parked_ns
}

fn culprits(report: &ProfileReport, names: &Names, style: &Style) -> String {
    let a = &report.subject.account;
    if a.culprits.is_empty() {
        return String::new();
    }
    let mut rows: Vec<(String, String, u64)> =
        a.culprits.iter().map(|c| (names.within(c.tenant.id, 28), role(c).to_owned(), c.steal_ns)).collect();
    if a.unattributed_ns > 0 {
        rows.push(("not resolved".to_owned(), "unattributed".to_owned(), a.unattributed_ns));
    }
    let shown = if is_all(report) { CULPRITS_OF_ALL } else { CULPRITS };
    let mut table = Table::new(&["Held the CPU while it waited", "", ">for", ">share"]);
    for (who, what, ns) in rows.iter().take(shown) {
        table.row([
            who.clone(),
            what.clone(),
            human_ns(*ns),
            format!("{} %", percent(*ns, a.ledger.steal_ns)),
        ]);
    }
    let bars = rows.iter().take(shown).map(|(_, _, ns)| {
        let free = style.width.saturating_sub(table_width(&table));
        bar::share(*ns, a.ledger.steal_ns, free.min(30), style)
    });
    let mut out = with_bars(&table, bars, style);
    out.push_str(&more(rows.len(), shown, "tenant"));
    out.push_str(&busiest::lines(report, names, style));
    out
}

fn role(culprit: &Culprit) -> &str {
    match culprit.taken_by() {
        TakenBy::Own => "its own tasks",
        TakenBy::Idle => "nobody: CPU waking up",
        _ => &culprit.tenant.kind,
    }
}

fn tasks(report: &ProfileReport, names: &Names, style: &Style) -> String {
    if report.tasks.len() < 2 || is_all(report) {
        return String::new();
    }
    let has_counters = report.tasks.iter().any(|t| t.account.counters.is_some());
    let mut columns = vec![">tid", "task", ">lived", ">compute", ">lost", ">blocked", "mostly to"];
    if has_counters {
        columns.insert(4, ">IPC");
    }
    let mut table = Table::new(&columns);
    for t in report.tasks.iter().take(TASKS) {
        let (l, pc) = (&t.account.ledger, |ns| format!("{} %", percent(ns, t.lifetime_ns)));
        let mut row = vec![
            t.tid.to_string(),
            name(&t.name, 15),
            human_ns(t.lifetime_ns),
            pc(l.compute_ns),
            pc(lost_ns(l)),
            pc(l.block_ns),
            mostly(&t.account, names, 14),
        ];
        if has_counters {
            let ipc = t.account.counters.as_ref().and_then(footer::ipc);
            row.insert(4, ipc.map_or("-".to_owned(), |ipc| format!("{ipc:.2}")));
        }
        table.row(row);
    }
    let free = style.width.saturating_sub(table_width(&table));
    let bars = report.tasks.iter().take(TASKS).map(|t| bar::ledger(&t.account.ledger, free.min(30), style));
    let mut out = with_bars(&table, bars, style);
    out.push_str(&more(report.tasks.len(), TASKS, "task"));
    out
}

/// What took most of the lost time.
fn mostly(a: &Account, names: &Names, width: usize) -> String {
    let culprit = a.culprits.first().map_or(("-".to_owned(), 0), |c| {
        (if c.own { "itself".to_owned() } else { names.within(c.tenant.id, width) }, c.steal_ns)
    });
    let others = [
        ("not known".to_owned(), a.unattributed_ns),
        ("its own budget".to_owned(), a.ledger.throttled_ns),
        ("corun".to_owned(), a.ledger.parked_ns),
        ("spinning".to_owned(), a.ledger.spin_ns.unwrap_or(0)),
    ];
    others.into_iter().fold(culprit, |most, other| if other.1 > most.1 { other } else { most }).0
}

fn table_width(table: &Table) -> usize {
    table.lines().first().map_or(0, |line| line.chars().count())
}

/// A table's lines, the header faint, each row followed by its bar.
fn with_bars(table: &Table, bars: impl Iterator<Item = String>, style: &Style) -> String {
    let lines = table.lines();
    let mut out = format!("{}\n", style.faint(lines[0].trim_end()));
    for (line, bar) in lines[1..].iter().zip(bars) {
        out.push_str(format!("{line}{bar}").trim_end());
        out.push('\n');
    }
    out
}

fn more(all: usize, shown: usize, one: &str) -> String {
    if all > shown {
        format!("and {}\n", count((all - shown) as u64, &format!("more {one}")))
    } else {
        String::new()
    }
}
