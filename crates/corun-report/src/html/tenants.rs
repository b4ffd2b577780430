//! One color per tenant, the same in every picture. The subject's is the color of compute; the busiest and
//! greediest others follow; all others are gray.

use crate::names::Names;
use crate::profile::schema::{OtherTask, ProfileReport};
use crate::words::percent;
use corun_model::TakenBy;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Colors after the subject's.
const CLASSES: [&str; 6] = ["t1", "t2", "t3", "t4", "t5", "t6"];
/// Everybody else.
pub const REST: &str = "rest";

/// Names and colors of a report's tenants.
pub struct Tenants<'a> {
    classes: BTreeMap<u32, &'static str>,
    names: Names,
    tasks: BTreeMap<u32, Vec<&'a OtherTask>>,
}

impl<'a> Tenants<'a> {
    /// Gives colors to the tenants that matter to the subject: by what they took from it, then by how much
    /// they ran.
    pub fn of(report: &'a ProfileReport) -> Tenants<'a> {
        Tenants::with_first(report, &[])
    }

    /// The same, with these before all others.
    pub fn with_first(report: &'a ProfileReport, first: &[u32]) -> Tenants<'a> {
        let subject = report.subject.tenant.id;
        let mut weight: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for t in &report.tenants {
            weight.entry(t.tenant.id).or_default().1 += t.account.ledger.on_cpu_ns();
        }
        for c in report.subject.account.culprits.iter().filter(|c| c.taken_by() != TakenBy::Idle) {
            weight.entry(c.tenant.id).or_default().0 += c.steal_ns;
        }
        weight.remove(&subject);
        let place = |id: u32| first.iter().position(|f| *f == id).unwrap_or(usize::MAX);
        let mut ranked: Vec<(u32, (u64, u64))> = weight.into_iter().collect();
        ranked.sort_by_key(|&(id, weight)| (place(id), Reverse(weight), id));
        let mut classes: BTreeMap<u32, &str> =
            ranked.iter().zip(CLASSES).map(|(&(id, _), class)| (id, class)).collect();
        classes.insert(subject, "t0");
        let mut tasks: BTreeMap<u32, Vec<&OtherTask>> = BTreeMap::new();
        for t in &report.others {
            tasks.entry(t.tenant).or_default().push(t);
        }
        Tenants { classes, names: Names::of(report), tasks }
    }

    /// The class of a tenant's color.
    pub fn class(&self, id: u32) -> &'static str {
        self.classes.get(&id).copied().unwrap_or(REST)
    }

    /// What tenants are called.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The full name of a tenant.
    pub fn name(&self, id: u32) -> String {
        self.names.whole(id)
    }

    /// The same, short enough for a column.
    pub fn short(&self, id: u32, width: usize) -> String {
        self.names.within(id, width)
    }

    /// The tenants with a color of their own, the subject first.
    pub fn coloured(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.classes.keys().copied().collect();
        ids.sort_by_key(|id| self.classes[id]);
        ids
    }

    /// A tenant's busiest tasks in a line, with their part of its CPU time; empty for the subject itself.
    pub fn busiest(&self, id: u32) -> String {
        let Some(tasks) = self.tasks.get(&id) else { return String::new() };
        let all_ns: u64 = tasks.iter().map(|t| t.ledger.on_cpu_ns()).sum();
        let said: Vec<String> = tasks
            .iter()
            .filter(|t| t.ledger.on_cpu_ns() > 0)
            .take(5)
            .map(|t| format!("{} {} %", t.name, percent(t.ledger.on_cpu_ns(), all_ns)))
            .collect();
        said.join(", ")
    }
}
