//! Who took from whom: victims down, culprits across. Rows sum to the victim's wait: culprits without a
//! column are in `rest`.

use super::{mark, page, time, Capabilities};
use crate::app::App;
use crate::fit::{cut, left, right};
use crate::snapshot::{Holder, Row, Snapshot};
use corun_model::{TakenBy, TenantId};
use ratatui::text::{Line, Span};
use std::collections::BTreeMap;

/// Columns of a figure.
const CELL: usize = 9;
/// Columns of a victim's name.
const NAME: usize = 16;

pub(super) fn lines(
    app: &App,
    snapshot: &Snapshot,
    caps: Capabilities,
    columns: usize,
    room: usize,
) -> Vec<Line<'static>> {
    let mut lines = vec![
        Line::styled("For how long each waited while each of the others held the CPU", caps.head()),
        Line::default(),
    ];
    if !snapshot.knows_culprits() {
        let missing = app.facts.missing.iter().flat_map(|why| crate::fit::wrap(why, columns, 3));
        lines.push(Line::raw("Who held the CPUs is not known."));
        lines.extend(missing.take(6).map(Line::raw));
        return lines;
    }
    // Whole figures only: own, kernel, rest and all always have a column.
    let cells = (columns - 2 - NAME) / CELL;
    let rows = app.rows();
    let culprits = largest(snapshot, &rows, cells.saturating_sub(4));
    let mut head = "  ".to_owned() + &left("WAITED", NAME);
    for id in &culprits {
        head += &right(&cut(snapshot.name(*id), CELL - 1), CELL);
    }
    for fixed in ["itself", "kernel", "the rest", "all"] {
        head += &right(fixed, CELL);
    }
    lines.push(Line::styled(head, caps.head()));
    let free = room.saturating_sub(lines.len());
    let list = if rows.len() > free { free.saturating_sub(1) } else { free }.max(1);
    let chosen = app.chosen_row();
    let first = page(chosen, list);
    for (at, row) in rows.iter().enumerate().skip(first).take(list) {
        let style = caps.row(at == chosen);
        let mut spans = vec![Span::styled(mark(at == chosen).to_owned() + &left(&row.name, NAME), style)];
        let account = snapshot.account(row.id).cloned().unwrap_or_default();
        let mut of: BTreeMap<Option<TenantId>, u64> = BTreeMap::new();
        let mut own_ns = 0;
        let mut kernel_ns = 0;
        for (holder, ns) in snapshot.holders(row.id, &account) {
            match holder {
                Holder::Own => own_ns += ns,
                Holder::Tenant(id) if culprits.contains(&id) => *of.entry(Some(id)).or_default() += ns,
                Holder::Tenant(id)
                    if matches!(snapshot.taken_by(row.id, id), TakenBy::Kernel | TakenBy::Watcher) =>
                {
                    kernel_ns += ns;
                }
                _ => *of.entry(None).or_default() += ns,
            }
        }
        let cell = |ns: u64| right(&time(ns), CELL);
        for id in &culprits {
            let ns = of.get(&Some(*id)).copied().unwrap_or(0);
            let colour = if ns > 0 { caps.stolen() } else { style };
            spans.push(Span::styled(cell(ns), style.patch(colour)));
        }
        let all_ns = account.culprits.total_ns();
        for ns in [own_ns, kernel_ns, of.get(&None).copied().unwrap_or(0), all_ns] {
            spans.push(Span::styled(cell(ns), style));
        }
        lines.push(Line::from(spans));
    }
    if rows.len() > list {
        let last = (first + list).min(rows.len());
        lines
            .push(Line::styled(format!("  {} to {last} of {} tenants", first + 1, rows.len()), caps.faint()));
    }
    lines
}

/// The main culprits of these, if they are worth a column.
fn largest(snapshot: &Snapshot, victims: &[&Row], most: usize) -> Vec<TenantId> {
    let mut took: BTreeMap<TenantId, u64> = BTreeMap::new();
    for victim in victims {
        let shares = snapshot.account(victim.id).map_or(&[][..], |account| account.culprits.shares());
        for share in shares {
            if snapshot.taken_by(victim.id, share.tenant) == TakenBy::CoRunner {
                *took.entry(share.tenant).or_default() += share.steal_ns;
            }
        }
    }
    let mut took: Vec<(TenantId, u64)> = took.into_iter().collect();
    took.sort_by_key(|(id, ns)| (std::cmp::Reverse(*ns), *id));
    took.into_iter().take(most).map(|(id, _)| id).collect()
}
