//! The contents of a culprit: a job of several programs has one row and one name, and its busiest tasks tell
//! more.

use super::Style;
use crate::names::Names;
use crate::profile::schema::{Culprit, OtherTask, ProfileReport};
use crate::words::{name, wrap};
use corun_model::duration::human_ns;
use corun_model::{TakenBy, TenantKind};

/// Culprits with less than one in this many parts of the stolen time are not examined.
const NOTABLE: u64 = 10;
/// Tasks with less than one in this many parts of the busiest task's CPU time are not named.
const BUSY: u64 = 10;
/// The most culprits that are examined, and the most tasks of each that are named.
const CULPRITS: usize = 2;
const TASKS: usize = 4;

/// A line for each culprit whose name does not say what runs in it: several tasks, or one with another name.
pub(super) fn lines(report: &ProfileReport, names: &Names, style: &Style) -> String {
    let a = &report.subject.account;
    let has_parts = |c: &&Culprit| {
        let is_one = matches!(
            TenantKind::from_name(&c.tenant.kind),
            Some(TenantKind::Others | TenantKind::Vm | TenantKind::VmIo)
        );
        c.taken_by() == TakenBy::CoRunner && !is_one
    };
    let notable = |c: &&Culprit| c.steal_ns > 0 && c.steal_ns >= a.ledger.steal_ns / NOTABLE;
    let mut out = String::new();
    for culprit in a.culprits.iter().filter(has_parts).filter(notable).take(CULPRITS) {
        let tasks = busy(report, culprit.tenant.id);
        let is_said = match tasks[..] {
            [] => true,
            [only] => only.name == culprit.tenant.name,
            _ => false,
        };
        if is_said {
            continue;
        }
        let said =
            |t: &&OtherTask| format!("{} ({}) {}", name(&t.name, 15), t.tid, human_ns(t.ledger.on_cpu_ns()));
        let named: Vec<String> = tasks.iter().take(TASKS).map(said).collect();
        let more = match tasks.len().saturating_sub(TASKS) {
            0 => String::new(),
            more => format!(", {more} more"),
        };
        let who = names.within(culprit.tenant.id, 28);
        let line = format!("Ran in {who}: {}{more}", named.join(", "));
        wrap(&line, style.width).iter().for_each(|line| out.push_str(&format!("{line}\n")));
    }
    out
}

/// The busy tasks of a tenant, the busiest first.
fn busy(report: &ProfileReport, tenant: u32) -> Vec<&OtherTask> {
    let on_cpu_ns = |t: &OtherTask| t.ledger.on_cpu_ns();
    let own: Vec<&OtherTask> = report.others.iter().filter(|t| t.tenant == tenant).collect();
    let most_ns = own.iter().map(|t| on_cpu_ns(t)).max().unwrap_or(0);
    own.into_iter().filter(|t| on_cpu_ns(t) > 0 && on_cpu_ns(t) >= most_ns / BUSY).collect()
}
