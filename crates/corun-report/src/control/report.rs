//! The final output of `corun control --json` (`corun.control-report/1`): which tenants the policy touched,
//! why, and what each tenant got, with the profile of the same time inside.

use super::history::{AdvisedAt, Reason};
use super::page::Controlled;
use super::{Got, GuardLine};
use crate::json;
use crate::profile::schema::ProfileReport;
use serde::Serialize;

/// Name and version of the schema, the first field of the file.
pub const SCHEMA: &str = "corun.control-report/1";

/// The whole file. Times are in nanoseconds; instants count from the beginning.
#[derive(Debug, Serialize)]
pub struct ControlReport<'a> {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The policy's name.
    pub policy: &'a str,
    /// `stock`, `sched_ext`; `none` in a dry run.
    pub backend: &'a str,
    /// How long it took.
    pub length_ns: u64,
    /// The guard's finding; `None` if it was off.
    pub guard: Option<&'a GuardLine>,
    /// All tenants that the policy might touch and that ran, the one that ran most first.
    pub tenants: Vec<&'a Got>,
    /// The decisions and their reasons, in the order of their first occurrence.
    pub reasons: &'a [Reason],
    /// Widths advised to programs that share a page, whenever the width changed.
    pub advice: &'a [AdvisedAt],
    /// Alternating times with and without the policy.
    pub periods: Vec<PeriodLine>,
    /// When everything was undone.
    pub undone: Vec<UndoneLine>,
    /// Reasons, advice, periods and stretches that found no room.
    pub left_out: u64,
    /// Where everybody's time went.
    pub profile: &'a ProfileReport,
}

/// A stretch of time with, or without, the policy.
#[derive(Debug, Serialize)]
pub struct PeriodLine {
    /// When it began.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// Whether the policy was in force.
    pub with: bool,
    /// Useful CPU time of all tenants that the policy might touch.
    pub useful_ns: u64,
    /// The energy of the machine's packages in it, in microjoules; `None` if unknown.
    pub package_uj: Option<u64>,
}

/// An instant at which everything was undone.
#[derive(Debug, Serialize)]
pub struct UndoneLine {
    /// When.
    pub at_ns: u64,
    /// Why: the guard, or the end.
    pub why: &'static str,
    /// Names of the tenants that were parked until then.
    pub released: Vec<String>,
    /// Their keys, in the same order: names may be shared. `None` for one that is not listed in the profile
    /// any more.
    pub released_keys: Vec<Option<String>>,
    /// Tasks and tenants with other undone changes.
    pub changed: usize,
    /// What stayed changed, and why.
    pub failed: Option<String>,
}

impl<'a> ControlReport<'a> {
    /// The events; `profile` is one of everybody over the same time.
    pub fn new(controlled: &'a Controlled<'a>, profile: &'a ProfileReport) -> ControlReport<'a> {
        let history = controlled.history;
        ControlReport {
            schema: SCHEMA,
            policy: controlled.policy,
            backend: controlled.backend,
            length_ns: history.length_ns(),
            guard: controlled.guard.as_ref(),
            tenants: controlled.summary.busiest(),
            reasons: history.reasons(),
            advice: history.advice(),
            periods: history
                .periods()
                .iter()
                .map(|p| PeriodLine {
                    from_ns: p.from_ns,
                    to_ns: p.to_ns,
                    with: p.with,
                    useful_ns: p.all_useful_ns(),
                    package_uj: p.package_uj,
                })
                .collect(),
            undone: history
                .all_undone()
                .iter()
                .map(|u| UndoneLine {
                    at_ns: u.at_ns,
                    why: u.why,
                    released: u.released.iter().map(|&id| profile.tenant_name(id)).collect(),
                    released_keys: u.released.iter().map(|&id| profile.tenant_key(id)).collect(),
                    changed: u.changed,
                    failed: u.failed.clone(),
                })
                .collect(),
            left_out: history.left_out(),
            profile,
        }
    }

    /// The file: JSON, with a newline at the end.
    pub fn json(&self) -> String {
        json::indented(self)
    }
}
