//! What `corun control` says: one JSON line per epoch in which something was decided (`corun.control/1`), a line for
//! people per decision, a table at the end, and a page and a trace of all of it.
//!
//! | file | does |
//! | --- | --- |
//! | `history` | keeps what happened |
//! | `page`, `lanes` | the page, and its picture of who was parked when |
//! | `tracks` | the same in a trace for ui.perfetto.dev |
//! | here | lines and the table |

pub mod history;
mod lanes;
pub mod page;
pub mod tracks;

use crate::table::Table;
use crate::words::name;
use corun_model::duration::human_ns;
use corun_model::{Action, Decision, Observation, Outcome, TaskId, TenantId};
use serde::Serialize;
use std::collections::BTreeMap;

/// Name and version of the schema, the first field of every line.
pub const SCHEMA: &str = "corun.control/1";

/// One epoch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ControlLine {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Since the beginning, in nanoseconds.
    pub t_ns: u64,
    /// The policy's name.
    pub policy: String,
    /// `stock`, `sched_ext`; `none` in a dry run.
    pub backend: String,
    /// What was decided.
    pub decision: Vec<Decided>,
    /// What the guard says; `None`: it is off.
    pub guard: Option<GuardLine>,
}

/// One decision and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decided {
    /// Whose knob: a tenant's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Whose knob: a task's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<u32>,
    /// Which knob.
    pub knob: &'static str,
    /// What it was set to.
    pub value: serde_json::Value,
    /// The observation that caused it.
    pub because: String,
    /// `done`, `dry_run`, `unsupported: why` or `refused: why`.
    pub outcome: String,
}

/// What the guard says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GuardLine {
    /// `measuring`, `helps` or `reverted`.
    pub state: &'static str,
    /// The mean gain in useful time, once it is known.
    pub gain: Option<f64>,
    /// Complete pairs of periods so far.
    pub pairs: Option<usize>,
}

impl Decided {
    /// A decision, with names from the observation that led to it. `outcome` is `None` in a dry run.
    pub fn new(decision: &Decision, outcome: Option<&Outcome>, seen: &Observation) -> Decided {
        let tenant_name = |id: TenantId| {
            Some(seen.tenant(id).map_or_else(|| format!("tenant {}", id.0), |t| t.name.clone()))
        };
        let of_task = |task: &TaskId| (None, Some(task.0));
        let (tenant, task) = match &decision.action {
            Action::Park { tenant } | Action::Unpark { tenant } | Action::Weight { tenant, .. } => {
                (tenant_name(*tenant), None)
            }
            Action::Slice { task, .. } | Action::PreemptDelay { task, .. } | Action::Cpus { task, .. } => {
                of_task(task)
            }
        };
        let value = match &decision.action {
            Action::Park { .. } => serde_json::json!(true),
            Action::Unpark { .. } => serde_json::json!(false),
            Action::Weight { weight, .. } => serde_json::json!(weight),
            Action::Slice { min_ns, max_ns, .. } => serde_json::json!({"min_ns": min_ns, "max_ns": max_ns}),
            Action::PreemptDelay { delay_ns, .. } => serde_json::json!({"delay_ns": delay_ns}),
            Action::Cpus { cpus, .. } => serde_json::json!(cpus.iter().map(|c| c.0).collect::<Vec<_>>()),
        };
        let outcome = match outcome {
            None => "dry_run".to_owned(),
            Some(Outcome::Done) => "done".to_owned(),
            Some(Outcome::Unsupported { why }) => format!("unsupported: {why}"),
            Some(Outcome::Refused { why }) => format!("refused: {why}"),
        };
        let because = decision.because.clone();
        Decided { tenant, task, knob: decision.action.knob().name(), value, because, outcome }
    }

    /// For people: `12.3 s  park ffmpeg: its slot is over (done)`.
    pub fn line(&self, t_ns: u64) -> String {
        let whom = match (&self.tenant, self.task) {
            (Some(tenant), _) => name(tenant, 40),
            (None, Some(task)) => format!("task {task}"),
            (None, None) => "nobody".to_owned(),
        };
        let what = match (self.knob, &self.value) {
            ("park", serde_json::Value::Bool(true)) => "park".to_owned(),
            ("park", _) => "unpark".to_owned(),
            (knob, value) => format!("{knob} {value} of"),
        };
        format!("{:>9}  {what} {whom}: {} ({})", human_ns(t_ns), self.because, self.outcome)
    }
}

impl ControlLine {
    /// JSON on one line, with a newline at the end.
    pub fn json_line(&self) -> String {
        serde_json::to_string(self).expect("every field is plain data") + "\n"
    }
}

/// What became of everybody, over the whole time.
#[derive(Clone, Debug, Default)]
pub struct ControlSummary {
    tenants: BTreeMap<TenantId, Got>,
    window_ns: u64,
}

/// What a tenant got over the whole time: sums over its tasks, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Got {
    /// What people call it.
    pub name: String,
    /// On a CPU.
    pub on_cpu_ns: u64,
    /// On a CPU and not known to spin.
    pub useful_ns: u64,
    /// On a CPU in windows in which spinning was told from computing.
    pub judged_ns: u64,
    /// Of these, spinning.
    pub spin_ns: u64,
    /// Runnable, but something else held the CPU.
    pub steal_ns: u64,
    /// Stopped by its own quota.
    pub throttled_ns: u64,
    /// Stopped by corun.
    pub parked_ns: u64,
    /// All of its tasks' lives.
    pub life_ns: u64,
}

impl Got {
    /// When it was not blocked: on a CPU, or kept from one.
    pub fn wanted_ns(&self) -> u64 {
        self.on_cpu_ns + self.steal_ns + self.throttled_ns + self.parked_ns
    }
}

impl ControlSummary {
    /// How long all of it took, in nanoseconds.
    pub fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// What each tenant got that ran at all, who ran most first.
    pub fn busiest(&self) -> Vec<&Got> {
        let mut all: Vec<&Got> = self.tenants.values().filter(|s| s.on_cpu_ns > 0).collect();
        all.sort_by_key(|s| std::cmp::Reverse(s.on_cpu_ns));
        all
    }

    /// Takes an epoch; `counts` says which tenants are listed.
    pub fn push(&mut self, seen: &Observation, counts: impl Fn(&corun_model::Tenant) -> bool) {
        self.window_ns += seen.window_ns();
        for t in &seen.by_tenant {
            let Some(tenant) = seen.tenant(t.id).filter(|t| counts(t)) else { continue };
            let parts = t.account.ledger.parts();
            let got = self.tenants.entry(t.id).or_default();
            got.name.clone_from(&tenant.name);
            got.on_cpu_ns += t.account.ledger.on_cpu_ns();
            got.useful_ns += parts.compute_ns;
            if let Some(spin_ns) = parts.spin_ns {
                got.judged_ns += parts.compute_ns + spin_ns;
                got.spin_ns += spin_ns;
            }
            got.steal_ns += parts.steal_ns;
            got.throttled_ns += parts.throttled_ns;
            got.parked_ns += parts.parked_ns;
            got.life_ns += t.account.ledger.total_ns();
        }
    }

    /// For a terminal: who got how much.
    pub fn text(&self) -> String {
        let mut table = Table::new(&["tenant", ">CPUs", ">waited", ">parked"]);
        let cpus = |ns: u64| format!("{:.2}", ns as f64 / self.window_ns.max(1) as f64);
        let share = |ns: u64, of: u64| format!("{:.1} %", ns as f64 * 100.0 / of.max(1) as f64);
        for s in self.busiest().iter().take(20) {
            table.row([
                name(&s.name, 40),
                cpus(s.on_cpu_ns),
                share(s.steal_ns, s.life_ns),
                share(s.parked_ns, s.life_ns),
            ]);
        }
        table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::{CpuId, Tenant, TenantKind};

    fn seen() -> Observation {
        let tenant =
            Tenant { id: TenantId(3), kind: TenantKind::Command, key: "k".into(), name: "ffmpeg".into() };
        Observation { tenants: vec![tenant], end_ns: 10, ..Observation::default() }
    }

    fn decision(action: Action) -> Decision {
        Decision { action, because: "its slot is over".into() }
    }

    #[test]
    fn a_line_has_the_fields_of_the_contract() {
        let park = decision(Action::Park { tenant: TenantId(3) });
        let line = ControlLine {
            schema: SCHEMA,
            t_ns: 5,
            policy: "gang".into(),
            backend: "stock".into(),
            decision: vec![Decided::new(&park, Some(&Outcome::Done), &seen())],
            guard: Some(GuardLine { state: "measuring", gain: None, pairs: Some(1) }),
        };
        let value: serde_json::Value = serde_json::from_str(&line.json_line()).unwrap();
        assert_eq!(value["schema"], "corun.control/1");
        assert_eq!(value["decision"][0]["tenant"], "ffmpeg");
        assert_eq!(value["decision"][0]["knob"], "park");
        assert_eq!(value["decision"][0]["value"], true);
        assert_eq!(value["decision"][0]["because"], "its slot is over");
        assert_eq!(value["guard"]["state"], "measuring");
        assert!(value["decision"][0].get("task").is_none());
    }

    #[test]
    fn decisions_about_tasks_name_the_task_and_what_could_not_be_done_says_why() {
        let cpus = decision(Action::Cpus { task: TaskId(7), cpus: vec![CpuId(1)] });
        let why = Outcome::Refused { why: "it is protected".into() };
        let decided = Decided::new(&cpus, Some(&why), &seen());
        assert_eq!((decided.task, decided.outcome.as_str()), (Some(7), "refused: it is protected"));
        assert_eq!(
            decided.line(1_500_000_000),
            "   1.50 s  cpus [1] of task 7: its slot is over (refused: it is protected)"
        );
        let dry = Decided::new(&decision(Action::Unpark { tenant: TenantId(3) }), None, &seen());
        assert_eq!(dry.line(0), "     0 ns  unpark ffmpeg: its slot is over (dry_run)");
    }
}
