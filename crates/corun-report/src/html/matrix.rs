//! Who steals from whom: one row per victim, one column per culprit, darker is more.

use super::markup::escape;
use super::tenants::Tenants;
use crate::profile::schema::{ProfileReport, Section};
use crate::words::{count, name, percent};
use corun_model::duration::human_ns;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Rows and columns at most; the rest is summed, never left out.
const LINES: usize = 8;

/// A column: a tenant, the sum of the small ones, or time without a known culprit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Tenant(u32),
    Rest,
    Unattributed,
}

struct Matrix<'a> {
    victims: Vec<&'a Section>,
    left_out: Vec<&'a Section>,
    columns: Vec<Column>,
    tenants: &'a Tenants<'a>,
    culprits: usize,
}

/// The heat map; empty when nobody waited or no culprit is known.
pub fn heat_map(report: &ProfileReport, tenants: &Tenants) -> String {
    let m = Matrix::of(report, tenants);
    if m.victims.is_empty() || m.culprits == 0 {
        return String::new();
    }
    let largest_ns =
        m.victims.iter().flat_map(|v| m.columns.iter().map(|c| m.cell_ns(v, *c))).max().unwrap_or(0);
    let head: String = m.columns.iter().map(|c| m.column_head(*c)).collect();
    let rows: String = m.victims.iter().map(|v| m.row(v, largest_ns)).collect();
    format!(
        "<div class=\"matrix\"><table style=\"max-width:{}px\"><thead><tr><th class=\"row axis\">waited \u{2193} \u{a0} held CPU \u{2192}</th>{head}<th class=\"axis\">all waits</th></tr></thead>{rows}</table></div>\n{}",
        190 + 108 * (m.columns.len() + 1),
        m.left_out_line()
    )
}

impl<'a> Matrix<'a> {
    fn of(report: &'a ProfileReport, tenants: &'a Tenants) -> Matrix<'a> {
        let mut victims: Vec<&Section> =
            report.tenants.iter().filter(|t| t.account.ledger.steal_ns > 0).collect();
        let subject = report.subject.tenant.id;
        victims.sort_by_key(|t| (t.tenant.id != subject, Reverse(t.account.ledger.steal_ns), t.tenant.id));
        let left_out = victims.split_off(victims.len().min(LINES));
        let mut took: BTreeMap<u32, u64> = BTreeMap::new();
        for c in victims.iter().flat_map(|v| &v.account.culprits) {
            *took.entry(c.tenant.id).or_default() += c.steal_ns;
        }
        let mut ranked: Vec<(u32, u64)> = took.into_iter().collect();
        ranked.sort_by_key(|&(id, ns)| (Reverse(ns), id));
        let mut columns: Vec<Column> = ranked.iter().take(LINES).map(|&(id, _)| Column::Tenant(id)).collect();
        if ranked.len() > LINES {
            columns.push(Column::Rest);
        }
        if victims.iter().any(|v| v.account.unattributed_ns > 0) {
            columns.push(Column::Unattributed);
        }
        Matrix { victims, left_out, columns, tenants, culprits: ranked.len() }
    }

    fn cell_ns(&self, victim: &Section, column: Column) -> u64 {
        let shares = victim.account.culprits.iter();
        match column {
            Column::Tenant(id) => shares.filter(|c| c.tenant.id == id).map(|c| c.steal_ns).sum(),
            Column::Rest => shares
                .filter(|c| !self.columns.contains(&Column::Tenant(c.tenant.id)))
                .map(|c| c.steal_ns)
                .sum(),
            Column::Unattributed => victim.account.unattributed_ns,
        }
    }

    fn column_name(&self, column: Column) -> String {
        match column {
            Column::Tenant(id) => self.tenants.name(id),
            Column::Rest => format!("{} more", self.culprits - LINES),
            Column::Unattributed => "unattributed".to_owned(),
        }
    }

    fn column_head(&self, column: Column) -> String {
        let whole = self.column_name(column);
        let short = match column {
            Column::Tenant(id) => self.tenants.short(id, 30),
            _ => name(&whole, 30),
        };
        format!("<th title=\"{}\">{}</th>", escape(&whole), escape(&short))
    }

    fn row(&self, victim: &Section, largest_ns: u64) -> String {
        let name = escape(&self.tenants.name(victim.tenant.id));
        let cells: String = self.columns.iter().map(|c| self.cell(victim, *c, largest_ns)).collect();
        format!(
            "<tr><th class=\"row\" title=\"{name} {}\">{name}</th>{cells}<td class=\"sum\">{}</td></tr>\n",
            escape(&victim.key),
            human_ns(victim.account.ledger.steal_ns)
        )
    }

    fn cell(&self, victim: &Section, column: Column, largest_ns: u64) -> String {
        let ns = self.cell_ns(victim, column);
        if ns == 0 {
            return "<td class=\"none\">\u{b7}</td>".to_owned();
        }
        // The eye judges colored areas in steps: the square root keeps small thefts visible.
        let depth = (ns as f64 / largest_ns as f64).sqrt();
        let own = column == Column::Tenant(victim.tenant.id);
        let title = format!(
            "{} waited {} while {} held the CPU: {} % of its waits",
            self.tenants.name(victim.tenant.id),
            human_ns(ns),
            if own { "another task of its own".to_owned() } else { self.column_name(column) },
            percent(ns, victim.account.ledger.steal_ns)
        );
        format!(
            "<td class=\"{}{}\" style=\"background:rgba(var(--heat),{:.2})\" title=\"{}\">{}</td>",
            if own { "own " } else { "" },
            if depth > 0.72 { "deep" } else { "" },
            0.06 + 0.94 * depth,
            escape(&title),
            human_ns(ns)
        )
    }

    fn left_out_line(&self) -> String {
        if self.left_out.is_empty() {
            return String::new();
        }
        let ns = self.left_out.iter().map(|v| v.account.ledger.steal_ns).sum();
        let who = count(self.left_out.len() as u64, "more tenant");
        format!("<p class=\"lead\">{who} waited {} together.</p>\n", human_ns(ns))
    }
}
