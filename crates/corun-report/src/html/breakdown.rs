//! Bars: where the time of the subject and of each of its tasks went, and who held the CPU while it waited.

use super::markup::{class, escape, key};
use super::tenants::{Tenants, REST};
use crate::category::{parts, Category};
use crate::profile::schema::{Account, Ledger, ProfileReport, Task};
use crate::words::{count, percent, thousands};
use corun_model::duration::human_ns;
use corun_model::TakenBy;

/// The number of tasks shown at once; the rest unfolds.
const TASKS: usize = 16;
/// The number that unfolds: ten thousand rows are too many for a page.
const TASKS_UNFOLDED: usize = 500;

/// The subject's own bar with its legend.
pub fn subject(report: &ProfileReport) -> String {
    let a = &report.subject.account;
    if a.ledger.total_ns == 0 {
        return "<p class=\"lead\">None of its tasks lived in this window.</p>\n".to_owned();
    }
    let lead = format!(
        "{} of {} lived {} together in a window of {}. Every nanosecond is in exactly one place.",
        count(report.subject.task_count, "task"),
        escape(&report.subject.tenant.name),
        human_ns(a.ledger.total_ns),
        human_ns(report.window_ns)
    );
    let bar = bar(&a.ledger, a.ledger.total_ns, true);
    let legend: String = parts(&a.ledger).map(|(c, ns)| legend_entry(c, ns, a)).collect();
    format!("<p class=\"lead\">{lead}</p>\n{bar}<ul class=\"legend\">{legend}</ul>\n")
}

fn legend_entry(c: Category, ns: u64, a: &Account) -> String {
    format!(
        "<li title=\"{}\">{}{} <b>{} %</b> <small>{}{}</small></li>",
        escape(c.meaning()),
        key(class(c)),
        c.name(),
        percent(ns, a.ledger.total_ns),
        human_ns(ns),
        remark(c, a)
    )
}

fn remark(c: Category, a: &Account) -> String {
    match (c, &a.block) {
        (Category::Compute, _) if a.ledger.spin_ns.is_none() => ", spinning included".to_owned(),
        (Category::Block, Some(b)) => {
            let mut named: Vec<(&str, u64)> = b.named().into_iter().filter(|(_, ns)| *ns > 0).collect();
            named.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
            named.iter().map(|(what, ns)| format!(", {what} {}", human_ns(*ns))).collect()
        }
        _ => String::new(),
    }
}

/// A stacked bar; its full width is `whole_ns`.
fn bar(l: &Ledger, whole_ns: u64, big: bool) -> String {
    let pieces: String = parts(l)
        .map(|(c, ns)| {
            let share = ns as f64 * 100.0 / whole_ns as f64;
            let label = if big && share > 7.0 { c.name() } else { "" };
            let title = format!("{}: {} ({} %)", c.name(), human_ns(ns), percent(ns, l.total_ns));
            format!(
                "<i class=\"{}\" style=\"width:{share:.3}%\" title=\"{}\">{label}</i>",
                class(c),
                escape(&title)
            )
        })
        .collect();
    format!("<div class=\"bar{}\">{pieces}</div>\n", if big { " big" } else { "" })
}

/// One bar per task, as long as the task lived. If they belong to several tenants, the tenant of each.
pub fn tasks(report: &ProfileReport, tenants: &Tenants) -> String {
    if report.tasks.len() < 2 {
        return String::new();
    }
    let is_of_several = report.tasks.iter().any(|t| t.tenant != report.tasks[0].tenant);
    let whose = |t: &Task| is_of_several.then(|| tenants.name(t.tenant));
    let rows: Vec<String> = report
        .tasks
        .iter()
        .take(TASKS + TASKS_UNFOLDED)
        .map(|t| task_row(t, whose(t), report.window_ns))
        .collect();
    let (shown, folded) = rows.split_at(rows.len().min(TASKS));
    let table = |rows: &[String]| {
        format!(
            "<table class=\"tasks\"><tr><th>task</th>{}<th class=\"n\">lived</th><th class=\"n\">ran</th>\
             <th class=\"n\">lost</th><th></th></tr>{}</table>\n",
            if is_of_several { "<th>tenant</th>" } else { "" },
            rows.concat()
        )
    };
    let mut out = format!("<h3>Task by task, most time lost first</h3>\n{}", table(shown));
    if !folded.is_empty() {
        let more = thousands(folded.len() as u64);
        out.push_str(&format!("<details><summary>{more} more</summary>{}</details>\n", table(folded)));
    }
    let left = report.tasks.len() - rows.len();
    if left > 0 {
        out.push_str(&format!(
            "<p class=\"lead\">{} that lost less are in the JSON only.</p>\n",
            count(left as u64, "more task")
        ));
    }
    out
}

fn task_row(t: &Task, tenant: Option<String>, window_ns: u64) -> String {
    let l = &t.account.ledger;
    let lost_ns = l.spin_ns.unwrap_or(0) + l.steal_ns + l.throttled_ns + l.parked_ns;
    let tenant = tenant.map_or_else(String::new, |whose| {
        let whose = escape(&whose);
        format!("<td class=\"name\" title=\"{whose}\"><small>{whose}</small></td>")
    });
    format!(
        "<tr><td class=\"name\" title=\"{name}\">{name} <small>{}</small></td>{tenant}<td class=\"n\">{}</td>\
         <td class=\"n\">{} %</td><td class=\"n\">{} %</td><td class=\"wide\">{}</td></tr>",
        t.tid,
        human_ns(t.lifetime_ns),
        percent(l.compute_ns, t.lifetime_ns),
        percent(lost_ns, t.lifetime_ns),
        bar(l, window_ns.max(1), false),
        name = escape(&t.name),
    )
}

/// Who held the CPU while the subject waited, as bars.
pub fn culprits(report: &ProfileReport, tenants: &Tenants) -> String {
    let a = &report.subject.account;
    let steal_ns = a.ledger.steal_ns;
    if steal_ns == 0 {
        return "<p class=\"lead\">It never waited for a CPU.</p>\n".to_owned();
    }
    let largest_ns = a.culprits.first().map_or(0, |c| c.steal_ns).max(a.unattributed_ns);
    let mut rows: String = a
        .culprits
        .iter()
        .take(TASKS)
        .map(|c| {
            let what = match c.taken_by() {
                TakenBy::Own => "its own tasks",
                TakenBy::Idle => "nobody, CPU waking up",
                _ => &c.tenant.kind,
            };
            let title = tenants.busiest(c.tenant.id);
            culprit_row(
                &tenants.name(c.tenant.id),
                what,
                tenants.class(c.tenant.id),
                c.steal_ns,
                (steal_ns, largest_ns),
                &title,
            )
        })
        .collect();
    let rest = a.culprits.get(TASKS..).unwrap_or_default();
    if !rest.is_empty() {
        let rest_ns = rest.iter().map(|c| c.steal_ns).sum();
        let who = count(rest.len() as u64, "more tenant");
        rows.push_str(&culprit_row(&who, "", REST, rest_ns, (steal_ns, largest_ns), ""));
    }
    if a.unattributed_ns > 0 {
        let what = "not resolved";
        rows.push_str(&culprit_row(
            "unattributed",
            what,
            "unknown",
            a.unattributed_ns,
            (steal_ns, largest_ns),
            "",
        ));
    }
    format!(
        "<table><tr><th>tenant</th><th></th><th class=\"n\">held it for</th><th class=\"n\">of its waits</th>\
         <th></th></tr>{rows}</table>\n"
    )
}

fn culprit_row(
    who: &str,
    what: &str,
    class: &str,
    ns: u64,
    (steal_ns, largest_ns): (u64, u64),
    title: &str,
) -> String {
    format!(
        "<tr title=\"{}\"><td class=\"name\">{}{}</td><td><small>{}</small></td><td class=\"n\">{}</td>\
         <td class=\"n\">{} %</td><td class=\"wide\"><div class=\"bar\">\
         <i class=\"{class}\" style=\"width:{:.3}%\"></i></div></td></tr>",
        escape(title),
        key(class),
        escape(who),
        escape(what),
        human_ns(ns),
        percent(ns, steal_ns),
        ns as f64 * 100.0 / largest_ns.max(1) as f64
    )
}
