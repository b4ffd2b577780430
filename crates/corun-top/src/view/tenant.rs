//! One tenant: where its time went, now and in the windows before, who held the CPU meanwhile, how long its
//! waits were, and which of its threads waited.

use super::{mark, page, sentence_lines, share, taken_time, time, Capabilities};
use crate::app::{App, Focus};
use crate::fit::{cut, left, right, width, wrap};
use crate::sentence::{self, percent};
use crate::snapshot::{Holder, Row, Snapshot};
use corun_model::duration::human_ns;
use corun_model::histogram::Quantile;
use corun_model::observation::Account;
use corun_model::{Histogram, TakenBy, TenantId};
use corun_report::one_line;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Which rows are chosen.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    pub(super) focus: Focus,
    pub(super) culprit: usize,
    pub(super) thread: usize,
}

/// Columns in front of a chart.
const LABEL: usize = 12;
/// Rows of culprits, at most.
const CULPRITS: usize = 5;
/// Columns of the culprits, next to the waits.
const LEFT: usize = 46;

pub(super) fn lines(
    app: &App,
    snapshot: &Snapshot,
    id: TenantId,
    chosen: Chosen,
    caps: Capabilities,
    columns: usize,
    room: usize,
) -> Vec<Line<'static>> {
    let (Some(row), Some(account)) = (snapshot.row(id), snapshot.account(id)) else {
        let name = snapshot.name(id);
        return vec![Line::raw(cut(&format!("{name} had no task in this window."), columns))];
    };
    let tasks = if row.tasks == 1 { "task" } else { "tasks" };
    let title = format!("{} ({}, {} {tasks})", row.name, row.kind.name(), row.tasks);
    let mut lines = vec![Line::styled(cut(&title, columns), caps.head())];
    lines.extend(sentence_lines(app, snapshot, caps, &sentence::of_tenant(snapshot, row), columns));
    lines.extend(wrap(&ledger(row, account), columns, 2).into_iter().map(Line::raw));
    lines.extend(chart(app, id, caps, columns));
    lines.extend(culprits_and_waits(snapshot, id, account, chosen, caps, columns));
    lines.extend(threads(snapshot, id, chosen, caps, columns, room.saturating_sub(lines.len())));
    lines
}

/// The ledger in a line: its parts with their shares of the tasks' lives.
fn ledger(row: &Row, account: &Account) -> String {
    let total_ns = account.ledger.total_ns();
    let parts = account.ledger.parts();
    let lost = &row.lost;
    let said = [
        ("ran", row.ran_ns),
        ("stolen", lost.stolen_ns),
        ("waited for its own tasks", lost.own_ns),
        ("woke up", lost.idle_ns),
        ("waited for the kernel or corun", lost.kernel_ns),
        ("waited for an unknown tenant", lost.unknown_ns),
        ("throttled", lost.throttled_ns),
        ("parked", lost.parked_ns),
        ("stopped or frozen", parts.held_ns()),
        ("blocked", parts.block_ns),
        ("not shown", parts.unknown_ns),
    ];
    let part = |(what, ns): &(&str, u64)| format!("{what} {} %", percent(*ns, total_ns));
    let said: Vec<String> = said.iter().filter(|(_, ns)| *ns > 0).map(part).collect();
    format!("Of its time: {}.", said.join(", "))
}

/// Its time in the windows before, a column each, and the occupant of the CPU in each.
fn chart(app: &App, id: TenantId, caps: Capabilities, columns: usize) -> Vec<Line<'static>> {
    let most = columns.saturating_sub(LABEL + 1);
    let before: Vec<_> = app.history.until(app.place(), most).collect();
    let rows: Vec<Option<&Row>> = before.iter().map(|snapshot| snapshot.row(id)).collect();
    let scale_ns = rows.iter().flatten().map(|row| row.ran_ns + row.lost.total_ns()).max().unwrap_or(0);
    type Part = (&'static str, fn(&Row) -> u64, Style);
    // If the occupant is unknown, the tenant itself may have had the CPU.
    let taken =
        if app.shown().is_none_or(|snapshot| snapshot.knows_culprits()) { "stolen" } else { "waited" };
    let parts: [Part; 4] = [
        ("ran", |row| row.ran_ns, caps.ran()),
        (taken, |row| row.lost.by_others_ns(), caps.stolen()),
        ("own tasks", |row| row.lost.own_ns, caps.lost()),
        ("throttled", |row| row.lost.throttled_ns, caps.lost()),
    ];
    let is_worth_a_line =
        |of: fn(&Row) -> u64| rows.iter().flatten().any(|row| of(row) * 16 >= scale_ns && of(row) > 0);
    let mut lines = Vec::new();
    for (n, (what, of, style)) in parts.into_iter().enumerate() {
        // Its running and stolen time are always shown.
        if n > 1 && !is_worth_a_line(of) {
            continue;
        }
        let cell = |row: &Option<&Row>| match row.map_or(0, of) {
            0 => ' ',
            ns => caps.column(((ns * 8).div_ceil(scale_ns.max(1)) as usize).max(1)),
        };
        let cells: String = rows.iter().map(cell).collect();
        lines.push(Line::from(vec![Span::raw(left(what, LABEL)), Span::styled(cells, style)]));
    }
    let mut legend: Vec<TenantId> = Vec::new();
    let mut letters = String::new();
    for (snapshot, row) in before.iter().zip(&rows) {
        let culprit = row.filter(|row| row.lost.stolen_ns > 0).and_then(|row| {
            let account = snapshot.account(row.id)?;
            snapshot.holders(row.id, account).into_iter().find_map(|(holder, _)| match holder {
                Holder::Tenant(id) if snapshot.taken_by(row.id, id) == TakenBy::CoRunner => Some(id),
                _ => None,
            })
        });
        letters.push(match culprit {
            None => ' ',
            Some(id) => {
                let at = legend.iter().position(|known| *known == id).unwrap_or_else(|| {
                    legend.push(id);
                    legend.len() - 1
                });
                // A culprit for which no letter is left is one of many.
                u8::try_from(at).ok().filter(|at| *at < 26).map_or('*', |at| char::from(b'A' + at))
            }
        });
    }
    if !legend.is_empty() {
        lines.push(Line::raw(left("stolen by", LABEL) + &letters));
    }
    let window = app.shown().map_or(0, |snapshot| snapshot.seen.window_ns());
    let mut said = format!("a column is {}, full height {}", human_ns(window), human_ns(scale_ns));
    let newest = before.last();
    for (at, id) in legend.iter().enumerate().take(26) {
        let name = before.iter().rev().find(|m| m.row(*id).is_some()).or(newest).map_or("", |m| m.name(*id));
        let more = format!("; {} {}", char::from(b'A' + at as u8), cut(name, 20));
        if LABEL + width(&said) + width(&more) > columns {
            break;
        }
        said += &more;
    }
    lines.push(Line::styled(" ".repeat(LABEL) + &cut(&said, columns - LABEL), caps.faint()));
    lines
}

/// The occupants of the CPU, and next to them how long its waits were and why it was blocked.
fn culprits_and_waits(
    snapshot: &Snapshot,
    id: TenantId,
    account: &Account,
    chosen: Chosen,
    caps: Capabilities,
    columns: usize,
) -> Vec<Line<'static>> {
    let holders = snapshot.holders(id, account);
    let total_ns = account.culprits.total_ns();
    let at = chosen.culprit.min(holders.len().saturating_sub(1));
    let first = page(at, CULPRITS);
    let name = LEFT - 2 - 8 - 6 - 6;
    let mut list: Vec<(String, Style)> = vec![("  HELD THE CPU MEANWHILE".to_owned(), caps.head())];
    for (n, (holder, ns)) in holders.iter().enumerate().skip(first).take(CULPRITS) {
        let is_chosen = chosen.focus == Focus::Culprits && n == at;
        let line = format!(
            "{}{} {} {} {}",
            mark(is_chosen),
            left(snapshot.called(*holder), name),
            time(*ns),
            share(*ns, total_ns),
            caps.bar(*ns, total_ns, 5)
        );
        list.push((line, caps.row(is_chosen)));
    }
    if holders.is_empty() {
        list.push(("  Nobody: it did not wait.".to_owned(), Style::new()));
    }
    let facts = facts(account, columns.saturating_sub(LEFT + 2));
    let rows = list.len().max(facts.len());
    let line = |n: usize| {
        let (text, style) = list.get(n).cloned().unwrap_or_default();
        let fact = facts.get(n).map_or("", String::as_str);
        let fact_style = if n == 0 { caps.head() } else { Style::new() };
        Line::from(vec![
            Span::styled(left(&text, LEFT), style),
            Span::raw("  "),
            Span::styled(cut(fact, columns.saturating_sub(LEFT + 2)), fact_style),
        ])
    };
    (0..rows).map(line).collect()
}

/// How long its waits were, why it was blocked, and how often each event happened.
fn facts(account: &Account, columns: usize) -> Vec<String> {
    let mut said = vec!["WAITS FOR A CPU".to_owned()];
    match &account.waits {
        None => said.push("not counted without eBPF".to_owned()),
        Some(waits) if waits.total() == 0 => said.push("none".to_owned()),
        Some(waits) => {
            let (half, most) = (bound(waits, 0.5), bound(waits, 0.99));
            said.extend(wrap(&format!("{} in all, half {half}, 99 % {most}", waits.total()), columns, 3));
        }
    }
    if account.block.is_none() {
        said.extend(wrap("What it was blocked for is not known without eBPF", columns, 2));
    }
    if let Some(block) = account.block {
        let total_ns = block.sum_ns();
        let mut named: Vec<(&str, u64)> = block.named().into_iter().filter(|(_, ns)| *ns > 0).collect();
        named.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let named: Vec<String> =
            named.iter().map(|(what, ns)| format!("{what} {} %", percent(*ns, total_ns))).collect();
        if !named.is_empty() {
            said.extend(wrap(&format!("Blocked: {}", named.join(", ")), columns, 2));
        }
    }
    said
}

/// A quantile, as exactly as it is known.
fn bound(histogram: &Histogram, q: f64) -> String {
    match histogram.quantile(q) {
        None => "-".to_owned(),
        Some(Quantile::Below(ns)) => format!("under {}", human_ns(ns)),
        Some(Quantile::AtLeast(ns)) => format!("at least {}", human_ns(ns)),
    }
}

fn threads(
    snapshot: &Snapshot,
    id: TenantId,
    chosen: Chosen,
    caps: Capabilities,
    columns: usize,
    room: usize,
) -> Vec<Line<'static>> {
    let tasks = snapshot.tasks(id);
    let name = 16;
    let mostly = columns.saturating_sub(2 + 8 + name + 4 * 8 + 6 + 4 + 2);
    let head = format!(
        "  {} {}{}{}{}{}{}{}  {}",
        right("TID", 7),
        left("THREAD", name),
        right("RAN", 8),
        right("WAITED", 8),
        right("STOLEN", 8),
        right("%", 6),
        right("P99", 8),
        right("CPU", 4),
        left("MOSTLY FOR", mostly)
    );
    let asleep = snapshot.row(id).map_or(0, |row| row.tasks).saturating_sub(tasks.len() as u64);
    let mut lines = vec![Line::styled(cut(&head, columns), caps.head())];
    let free = room.saturating_sub(1);
    let is_cut = tasks.len() > free || asleep > 0;
    let list = if is_cut { free.saturating_sub(1) } else { free }.max(1);
    let at = chosen.thread.min(tasks.len().saturating_sub(1));
    let first = page(at, list);
    for (n, task) in tasks.iter().enumerate().skip(first).take(list) {
        let is_chosen = chosen.focus == Focus::Threads && n == at;
        let style = caps.row(is_chosen);
        let lost = snapshot.lost(id, &task.account);
        let ran_ns = task.account.ledger.on_cpu_ns();
        let stolen_ns = if snapshot.knows_culprits() { lost.stolen_ns } else { lost.unknown_ns };
        let stolen = if stolen_ns > 0 { style.patch(caps.stolen()) } else { style };
        let p99 =
            task.account.waits.as_ref().and_then(|waits| waits.quantile(0.99)).map_or("-".to_owned(), |q| {
                match q {
                    Quantile::Below(ns) => format!("<{}", human_ns(ns).replace(' ', "")),
                    Quantile::AtLeast(ns) => format!(">{}", human_ns(ns).replace(' ', "")),
                }
            });
        let mostly_for = snapshot
            .holders(id, &task.account)
            .first()
            .map_or("", |(holder, _)| snapshot.called(*holder))
            .to_owned();
        lines.push(Line::from(vec![
            Span::styled(
                format!(
                    "{}{} {}",
                    mark(is_chosen),
                    right(&task.id.to_string(), 7),
                    left(&one_line(&task.name), name)
                ),
                style,
            ),
            Span::styled(format!(" {} {}", time(ran_ns), time(lost.total_ns())), style),
            Span::styled(
                format!(
                    " {} {}",
                    taken_time(snapshot, stolen_ns),
                    share(stolen_ns, ran_ns + lost.total_ns())
                ),
                stolen,
            ),
            Span::styled(right(&p99, 8), style),
            Span::styled(right(&task.last_cpu.map_or("-".to_owned(), |cpu| cpu.0.to_string()), 4), style),
            Span::styled("  ".to_owned() + &left(&mostly_for, mostly), style),
        ]));
    }
    if is_cut {
        let last = (first + list).min(tasks.len());
        let said = match (tasks.len(), asleep) {
            (0, _) => format!("  {asleep} slept all the time"),
            (all, 0) => format!("  {} to {last} of {all}", first + 1),
            (all, _) => format!("  {} to {last} of {all}; {asleep} more slept all the time", first + 1),
        };
        lines.push(Line::styled(cut(&said, columns), caps.faint()));
    }
    lines
}
