//! All tenants, those that lost most to others first, under the sentence.

use super::{mark, page, plain, sentence_lines, share, taken_time, time, Capabilities};
use crate::app::{App, Sort, SORTS};
use crate::fit::{left, right};
use crate::sentence;
use crate::snapshot::{Holder, Row, Snapshot};
use corun_model::TakenBy;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

/// Columns of everything but the two names.
const FIXED: usize = 2 + 6 + 4 * 8 + 6 + 2;

pub(super) fn lines(
    app: &App,
    snapshot: &Snapshot,
    caps: Capabilities,
    columns: usize,
    room: usize,
) -> Vec<Line<'static>> {
    let mut lines = sentence_lines(app, snapshot, caps, &sentence::of_everybody(snapshot), columns);
    lines.push(Line::default());
    let rows = app.rows();
    let names = columns - FIXED;
    let name = (names * 3 / 5).clamp(16, 40);
    let widths = (name, (names - name).min(40));
    lines.push(head(app, caps, widths));
    if rows.is_empty() {
        let said = match app.filter.is_empty() {
            true => "  Nobody had a task in this window.".to_owned(),
            false => format!("  No tenant has `{}` in its name.", app.filter),
        };
        lines.push(Line::raw(crate::fit::cut(&said, columns)));
        return lines;
    }
    // The last row gives the number of tenants if not all of them fit.
    let free = room.saturating_sub(lines.len());
    let list = if rows.len() > free { free.saturating_sub(1) } else { free }.max(1);
    let chosen = app.chosen_row();
    let first = page(chosen, list);
    for (at, row) in rows.iter().enumerate().skip(first).take(list) {
        lines.push(line(snapshot, row, caps, widths, at == chosen));
    }
    if rows.len() > list {
        let last = (first + list).min(rows.len());
        lines
            .push(Line::styled(format!("  {} to {last} of {} tenants", first + 1, rows.len()), caps.faint()));
    }
    lines
}

fn head(app: &App, caps: Capabilities, (name, mostly): (usize, usize)) -> Line<'static> {
    let title = |sort: Sort| match sort {
        Sort::Name => left("TENANT", name),
        Sort::Tasks => right("TASKS", 6),
        Sort::Ran => right("RAN", 8),
        Sort::Lost => right("WAITED", 8),
        Sort::ToOthers => right("STOLEN", 8) + &right("%", 6),
        Sort::Took => right("TOOK", 8),
    };
    let filter = if app.filter.is_empty() { String::new() } else { format!(" /{}", app.filter) };
    let mut spans = vec![plain("  ".to_owned())];
    for sort in SORTS {
        let style =
            if sort == app.sort { caps.head().add_modifier(Modifier::UNDERLINED) } else { caps.head() };
        let text = title(sort);
        let blank = text.len() - text.trim_start().len();
        spans.push(plain(text[..blank].to_owned()));
        spans.push(Span::styled(text[blank..].to_owned(), style));
    }
    spans.push(Span::styled("  ".to_owned() + &left(&format!("MOSTLY FOR{filter}"), mostly), caps.head()));
    Line::from(spans)
}

fn line(
    snapshot: &Snapshot,
    row: &Row,
    caps: Capabilities,
    (name, mostly): (usize, usize),
    is_chosen: bool,
) -> Line<'static> {
    let base = caps.row(is_chosen);
    let stolen_ns = row.lost.by_others_ns();
    let wanted_ns = row.ran_ns + row.lost.total_ns();
    // The kernel's threads wait, too, and nobody minds.
    let stolen_ns = if snapshot.knows_culprits() { row.lost.stolen_ns } else { stolen_ns };
    let stolen = if row.kind.is_co_runner() && stolen_ns > 0 { caps.stolen() } else { base };
    let whom = match row.mostly {
        _ if row.lost.throttled_ns > stolen_ns.max(row.lost.own_ns) => "its own CPU budget",
        Some(Holder::Tenant(id)) if snapshot.taken_by(row.id, id) == TakenBy::Idle => "waking up",
        Some(holder) => snapshot.called(holder),
        None => "",
    };
    Line::from(vec![
        Span::styled(mark(is_chosen).to_owned() + &left(&row.name, name), base),
        Span::styled(right(&row.tasks.to_string(), 6), base),
        Span::styled(" ".to_owned() + &time(row.ran_ns), base),
        Span::styled(" ".to_owned() + &time(row.lost.total_ns()), base),
        Span::styled(" ".to_owned() + &taken_time(snapshot, stolen_ns), base.patch(stolen)),
        Span::styled(" ".to_owned() + &share(stolen_ns, wanted_ns), base.patch(stolen)),
        Span::styled(" ".to_owned() + &taken_time(snapshot, row.took_ns), base),
        Span::styled("  ".to_owned() + &left(whom, mostly), base),
    ])
}
