//! A profile report: its input from the caller, its assembly, and its conditions.

pub(crate) mod assemble;
mod check;
pub mod notes;
pub mod schema;
pub mod waits;

pub use schema::{Host, LostTime, ProfileReport, SelfCost, Source, SCHEMA};

use crate::words::count;
use corun_model::{Machine, Observation, TenantId};
use corun_predict::Server;
use std::borrow::Cow;

/// What a report needs beyond an observation.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileMeta {
    /// Where the tasks ran.
    pub host: Host,
    /// What saw them.
    pub source: Source,
    /// The target as the user named it: the command line, `pid 123`, `cgroup /web`, the scenario file.
    pub target: String,
    /// The machine for people; [`describe`] makes one.
    pub machine: String,
    /// Number of CPUs of the machine.
    pub cpus: u64,
    /// Date and time for people. `None`: reports of the same input are byte-identical.
    pub date: Option<String>,
    /// Exit status of the command (128 + signal if it was killed); `None` without a command or while it runs.
    pub exit_status: Option<i32>,
    /// The cost of measuring, as far as known.
    pub self_cost: SelfCost,
    /// The loss of wall time; `None` if there is no subject, or it was not judged.
    pub lost: Option<LostTime>,
    /// Whom outside of it the subject waited for; `None` if not known.
    pub servers: Option<Vec<Server>>,
    /// Events that a trace had no room for; `None` if no trace was taken.
    pub trace_lost: Option<u64>,
    /// The longest waits for a CPU, longest first; `None` if nobody asked for them.
    pub worst_waits: Option<Vec<corun_model::waits::Wait>>,
    /// Sentences that a reader must see: "interrupted after 3.2 s; this is what was seen until then".
    pub notes: Vec<String>,
}

impl ProfileMeta {
    /// What is known before the measurement; the rest starts as unknown, and the caller fills in what it
    /// knows.
    pub fn new(host: Host, source: Source, target: impl Into<String>, machine: &Machine) -> ProfileMeta {
        ProfileMeta::of_described(host, source, target, describe(machine), machine.cpu_count() as u64)
    }

    /// The same for a machine that has been described, with this many CPUs.
    pub fn of_described(
        host: Host,
        source: Source,
        target: impl Into<String>,
        machine: String,
        cpus: u64,
    ) -> ProfileMeta {
        ProfileMeta {
            host,
            source,
            target: target.into(),
            machine,
            cpus,
            date: None,
            exit_status: None,
            self_cost: SelfCost::default(),
            lost: None,
            servers: None,
            trace_lost: None,
            worst_waits: None,
            notes: Vec::new(),
        }
    }
}

/// Whose time is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One tenant.
    Tenant(TenantId),
    /// Every tenant together (`--all`).
    All,
}

impl From<TenantId> for Subject {
    fn from(id: TenantId) -> Subject {
        Subject::Tenant(id)
    }
}

impl ProfileReport {
    /// Makes the report of one window.
    ///
    /// `timeline` has consecutive parts of the window (it may be empty); `seen` is the whole of it. A subject
    /// without tasks in the window has an empty account; the report says so instead of failing.
    pub fn new(
        meta: &ProfileMeta,
        seen: &Observation,
        subject: impl Into<Subject>,
        timeline: &[Observation],
    ) -> ProfileReport {
        assemble::report(meta, seen, subject.into(), timeline)
    }

    /// What people call a tenant.
    pub fn tenant_name(&self, id: TenantId) -> String {
        let known = self.tenants.iter().find(|t| t.tenant.id == id.0);
        known.map_or_else(|| format!("tenant {}", id.0), |t| t.tenant.name.clone())
    }

    /// A tenant's key, if it is listed separately.
    pub fn tenant_key(&self, id: TenantId) -> Option<String> {
        self.tenants.iter().find(|t| t.tenant.id == id.0).map(|t| t.key.clone())
    }

    /// The report with at most `most` tasks in either list: those with the most time on a CPU or lost. The
    /// others are still in the sums, and counted as unlisted.
    pub fn listing_at_most(&self, most: usize) -> Cow<'_, ProfileReport> {
        let beyond = |n: usize| n.saturating_sub(most) as u64;
        let left_out = beyond(self.tasks.len()) + beyond(self.others.len());
        if left_out == 0 {
            return Cow::Borrowed(self);
        }
        let stirred_ns = |t: &schema::Task| {
            let l = &t.account.ledger;
            l.total_ns.saturating_sub(l.block_ns.saturating_add(l.unknown_ns))
        };
        let mut by_time: Vec<usize> = (0..self.tasks.len()).collect();
        by_time.sort_by_key(|&i| std::cmp::Reverse(stirred_ns(&self.tasks[i])));
        let mut kept = by_time[..most.min(by_time.len())].to_vec();
        kept.sort_unstable();
        Cow::Owned(ProfileReport {
            tasks: kept.into_iter().map(|i| self.tasks[i].clone()).collect(),
            others: self.others[..most.min(self.others.len())].to_vec(),
            loss: schema::Loss { unlisted_tasks: self.loss.unlisted_tasks + left_out, ..self.loss },
            notes: [self.notes.as_slice(), &[format!("{} not listed one by one", count(left_out, "task"))]]
                .concat(),
            ..self.clone()
        })
    }

    /// The idle part of the window over all CPUs, 0..=1; `None` if the source does not have it.
    pub fn idle_share(&self) -> Option<f64> {
        let (idle, busy) = (self.machine.idle_ns?, self.machine.busy_ns?);
        let all = idle + busy + self.machine.unknown_ns.unwrap_or(0);
        (all > 0).then(|| idle as f64 / all as f64)
    }
}

/// A machine in one line for people: its name, CPUs and shared caches.
pub fn describe(machine: &Machine) -> String {
    let level = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    format!(
        "{}: {} on {}, {}, {}, {}",
        machine.name,
        level(machine.cpu_count(), "CPU"),
        level(machine.count(|c| c.core), "core"),
        level(machine.count(|c| c.llc), "LLC domain"),
        level(machine.count(|c| c.socket), "socket"),
        level(machine.count(|c| c.node), "NUMA node"),
    )
}
