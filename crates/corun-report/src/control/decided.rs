//! A decision and its outcome: as JSON, and as a line for people.
//!
//! A line reads `slice 10 to 30 ms for corun/cpu-0 (12217)`: the knob in words, then a tenant, or a task
//! after its tenant. If two tenants have one name, their keys distinguish them.

use super::because::because;
use crate::names::what_tells;
use crate::refusal::refusal;
use crate::words::name;
use corun_model::duration::human_ns;
use corun_model::{Action, CpuId, Decision, Fate, Observation, Outcome, TaskId, TenantId};
use serde::Serialize;

/// One decision and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decided {
    /// The target of the knob: a tenant's name; for a task's knob, the name of its tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// That tenant's key, which is unique: names may be shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whose knob: a task's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<u32>,
    /// That task's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_name: Option<String>,
    /// Which knob.
    pub knob: &'static str,
    /// Its new value.
    pub value: serde_json::Value,
    /// The kind of the reason.
    pub reason: &'static str,
    /// The observation that caused it, without the name of the target.
    pub because: String,
    /// `done`, `dry_run`, `dry_run: why nothing would be in force yet`, `unsupported: why` or `refused: why`.
    pub outcome: String,
    /// The kind of reason why it was not carried out; absent if it was, or was not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<&'static str>,
    /// Its outcome, as a fact.
    #[serde(skip)]
    pub fate: Fate,
    /// The decision and its target, for people.
    #[serde(skip)]
    what: String,
}

impl Decided {
    /// A decision and its outcome, with names from the observation that led to it.
    pub fn new(decision: &Decision, fate: &Fate, seen: &Observation) -> Decided {
        let action = &decision.action;
        let whom = Whom::of(action, seen);
        let value = match action {
            Action::Park { .. } => serde_json::json!(true),
            Action::Unpark { .. } => serde_json::json!(false),
            Action::Weight { weight, .. } => serde_json::json!(weight),
            Action::Slice { min_ns, max_ns, .. } => serde_json::json!({"min_ns": min_ns, "max_ns": max_ns}),
            Action::PreemptDelay { delay_ns, .. } => serde_json::json!({"delay_ns": delay_ns}),
            Action::Cpus { cpus, .. } => serde_json::json!(cpus.iter().map(|c| c.0).collect::<Vec<_>>()),
        };
        let outcome = match fate {
            Fate::DryRun => "dry_run".to_owned(),
            Fate::Proposed => "dry_run: only a real run shows whether it helps".to_owned(),
            Fate::Applied(Outcome::Done) => "done".to_owned(),
            Fate::Applied(Outcome::Unsupported { why }) => format!("unsupported: {}", refusal(why)),
            Fate::Applied(Outcome::Refused { why }) => format!("refused: {}", refusal(why)),
        };
        let refusal = match fate {
            Fate::Applied(Outcome::Unsupported { why } | Outcome::Refused { why }) => Some(why.name()),
            _ => None,
        };
        let reason = decision.because.name();
        let because = because(&decision.because);
        let (what, knob) = (what(action, &whom.called()), action.knob().name());
        let Whom { tenant, key, task, .. } = whom;
        let (task, task_name) = task.map_or((None, None), |(id, name)| (Some(id.0), name));
        Decided {
            tenant,
            key,
            task,
            task_name,
            knob,
            value,
            reason,
            because,
            outcome,
            refusal,
            fate: fate.clone(),
            what,
        }
    }

    /// For people: `12.3 s  park ffmpeg: the dedicated window is over (done)`.
    pub fn line(&self, t_ns: u64) -> String {
        // Both quote the names of processes.
        let (why, outcome) = (name(&self.because, usize::MAX), name(&self.outcome, usize::MAX));
        format!("{:>9}  {}: {why} ({outcome})", human_ns(t_ns), self.what)
    }
}

/// The target of the knob, as far as it is known.
struct Whom {
    tenant: Option<String>,
    key: Option<String>,
    task: Option<(TaskId, Option<String>)>,
    /// Whether another tenant has the same name, so that people need the key to distinguish them.
    shares_name: bool,
}

impl Whom {
    fn of(action: &Action, seen: &Observation) -> Whom {
        let (id, task) = match action {
            Action::Park { tenant } | Action::Unpark { tenant } | Action::Weight { tenant, .. } => {
                (Some(*tenant), None)
            }
            Action::Slice { task, .. } | Action::PreemptDelay { task, .. } | Action::Cpus { task, .. } => {
                let found = seen.tasks.binary_search_by_key(task, |t| t.id).ok().map(|at| &seen.tasks[at]);
                (found.map(|t| t.tenant), Some((*task, found.map(|t| t.name.to_string()))))
            }
        };
        let known = id.and_then(|id| seen.tenant(id));
        let is_namesake = |of: &corun_model::Tenant| {
            seen.tenants.iter().any(|other| other.name == of.name && other.id != of.id)
        };
        let unnamed = |id: TenantId| format!("tenant {}", id.0);
        Whom {
            tenant: id.map(|id| known.map_or_else(|| unnamed(id), |t| t.name.clone())),
            key: known.map(|t| t.key.clone()),
            task,
            shares_name: known.is_some_and(is_namesake),
        }
    }

    /// For people.
    fn called(&self) -> String {
        let key = self.key.as_deref().filter(|_| self.shares_name);
        let tenant = self.tenant.as_deref().map(|tenant| called(tenant, key));
        match (&self.task, tenant) {
            (Some((id, Some(task))), Some(tenant)) => format!("{tenant}/{} ({id})", name(task, 20)),
            (Some((id, _)), _) => format!("task {id}"),
            (None, tenant) => tenant.unwrap_or_else(|| "nobody".into()),
        }
    }
}

/// A tenant for people: its name, with its key if the name alone is ambiguous.
pub(crate) fn called(tenant: &str, key: Option<&str>) -> String {
    match key {
        Some(key) => format!("{} ({})", name(tenant, 40), name(&what_tells(key), 60)),
        None => name(tenant, 40),
    }
}

/// The decision and its target, for people.
fn what(action: &Action, whom: &str) -> String {
    match action {
        Action::Park { .. } => format!("park {whom}"),
        Action::Unpark { .. } => format!("unpark {whom}"),
        Action::Weight { weight, .. } => format!("weight {weight} for {whom}"),
        Action::Slice { min_ns, max_ns, .. } => format!("slice {} for {whom}", range(*min_ns, *max_ns)),
        Action::PreemptDelay { delay_ns: 0, .. } => format!("no preemption delay for {whom}"),
        Action::PreemptDelay { delay_ns, .. } => format!("preemption delay {} for {whom}", short(*delay_ns)),
        Action::Cpus { cpus, .. } => format!("{} for {whom}", these(cpus)),
    }
}

/// A time without meaningless digits: `2 ms`, `1.5 ms`.
fn short(ns: u64) -> String {
    let written = human_ns(ns);
    match written.split_once(' ') {
        Some((digits, unit)) if digits.contains('.') => {
            format!("{} {unit}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => written,
    }
}

/// `10 to 30 ms`, with both units if they differ.
fn range(least_ns: u64, most_ns: u64) -> String {
    let (least, most) = (short(least_ns), short(most_ns));
    if least == most {
        return most;
    }
    match (least.split_once(' '), most.split_once(' ')) {
        (Some((digits, unit)), Some((_, other))) if unit == other => format!("{digits} to {most}"),
        _ => format!("{least} to {most}"),
    }
}

/// `CPU 1`, `CPUs 0-3, 8`.
fn these(cpus: &[CpuId]) -> String {
    if cpus.is_empty() {
        return "no CPU".into();
    }
    let mut all: Vec<u32> = cpus.iter().map(|c| c.0).collect();
    all.sort_unstable();
    all.dedup();
    let runs = all.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    let runs: Vec<String> = runs.collect();
    format!("CPU{} {}", if all.len() == 1 { "" } else { "s" }, runs.join(", "))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::json;
    use corun_model::observation::{Account, TaskObservation};
    use corun_model::reason::Release;
    use corun_model::{Reason, Refusal, Tenant, TenantKind};

    pub fn seen() -> Observation {
        let tenant =
            Tenant { id: TenantId(3), kind: TenantKind::Command, key: "k".into(), name: "ffmpeg".into() };
        Observation { tenants: vec![tenant], end_ns: 10, ..Observation::default() }
    }

    pub fn decision(action: Action) -> Decision {
        Decision { action, because: Reason::Release(Release::WindowIsOver) }
    }

    #[test]
    fn a_line_names_the_knob_in_words_and_for_a_task_its_tenant_and_name() {
        let task = TaskId(12_217);
        let worker = TaskObservation {
            id: task,
            tenant: TenantId(3),
            name: "cpu-0".into(),
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: Account::default().into(),
        };
        let mut seen = seen();
        seen.tasks.push(worker);
        let ms = 1_000_000;
        let cpus = |all: &[u32]| all.iter().map(|c| CpuId(*c)).collect();
        for (action, told) in [
            (
                Action::Slice { task, min_ns: 10 * ms, max_ns: 30 * ms },
                "slice 10 to 30 ms for ffmpeg/cpu-0 (12217)",
            ),
            (
                Action::Slice { task, min_ns: ms / 2, max_ns: 3 * ms },
                "slice 500 µs to 3 ms for ffmpeg/cpu-0 (12217)",
            ),
            (Action::Slice { task, min_ns: ms, max_ns: ms }, "slice 1 ms for ffmpeg/cpu-0 (12217)"),
            (
                Action::PreemptDelay { task, delay_ns: 2 * ms },
                "preemption delay 2 ms for ffmpeg/cpu-0 (12217)",
            ),
            (Action::PreemptDelay { task, delay_ns: 0 }, "no preemption delay for ffmpeg/cpu-0 (12217)"),
            (Action::Cpus { task, cpus: cpus(&[8, 0, 1, 2]) }, "CPUs 0-2, 8 for ffmpeg/cpu-0 (12217)"),
            (Action::Weight { tenant: TenantId(3), weight: 50 }, "weight 50 for ffmpeg"),
        ] {
            let decided = Decided::new(&decision(action), &Fate::Applied(Outcome::Done), &seen);
            assert_eq!(decided.line(0), format!("      0 s  {told}: the dedicated window is over (done)"));
            let json: serde_json::Value = serde_json::from_str(&json::compact(&decided)).unwrap();
            assert_eq!((&json["tenant"], &json["key"]), (&"ffmpeg".into(), &"k".into()), "{json}");
            let is_of_task = json.get("task").is_some();
            assert_eq!(json.get("task_name").is_some_and(|name| name == "cpu-0"), is_of_task, "{json}");
        }
    }

    #[test]
    fn two_tenants_with_one_name_are_shown_with_their_keys() {
        let mut two = seen();
        two.tenants.push(Tenant { id: TenantId(4), key: "other".into(), ..two.tenants[0].clone() });
        let decided = Decided::new(&decision(Action::Unpark { tenant: TenantId(4) }), &Fate::DryRun, &two);
        assert_eq!(
            decided.line(0),
            "      0 s  unpark ffmpeg (other): the dedicated window is over (dry_run)"
        );
    }

    #[test]
    fn decisions_about_tasks_name_the_task_and_failed_ones_say_why() {
        let cpus = decision(Action::Cpus { task: TaskId(7), cpus: vec![CpuId(1)] });
        let why = Outcome::from(Refusal::NobodyLeft);
        let decided = Decided::new(&cpus, &Fate::Applied(why), &seen());
        assert_eq!((decided.task, decided.outcome.as_str()), (Some(7), "refused: no process of it is left"));
        assert_eq!((decided.reason, decided.refusal), ("release", Some("nobody_left")));
        assert_eq!(
            decided.line(1_500_000_000),
            "   1.50 s  CPU 1 for task 7: the dedicated window is over (refused: no process of it is left)"
        );
        let dry = Decided::new(&decision(Action::Unpark { tenant: TenantId(3) }), &Fate::DryRun, &seen());
        assert_eq!(dry.line(0), "      0 s  unpark ffmpeg: the dedicated window is over (dry_run)");
        let steers = Decided { because: "a\x1b[2Jb".into(), outcome: "refused: \x1b[2J".into(), ..dry };
        assert!(!steers.line(0).contains('\x1b'));
    }
}
