//! The texts about a policy on a terminal: during its work, and at the end.

use super::notices::of_nothing;
use super::page::Controlled;
use super::GuardLine;
use corun_model::duration::human_ns;
use corun_model::{Notice, Policy};

/// The line of an epoch with this many decisions.
pub fn progress(
    t_ns: u64,
    policy: &str,
    is_in_force: bool,
    decisions: usize,
    guard: Option<&GuardLine>,
) -> String {
    format!(
        "{} {policy}: {}, {decisions} decisions{}",
        human_ns(t_ns),
        if is_in_force { "in force" } else { "not in force" },
        guard.map_or(String::new(), |g| format!(", guard: {}", g.state))
    )
}

/// Whether it helped, the result for each tenant, and what was decided and why. `explain`: all reasons, not
/// only the most frequent ones; `idle`: why nobody could be controlled at the start, if so.
pub fn conclusion(
    controlled: &Controlled,
    policy: &dyn Policy,
    is_interrupted: bool,
    explain: bool,
    idle: Option<&Notice>,
) -> String {
    let name = policy.name();
    let by = match controlled.backend {
        "none" => ", a dry run: nothing was touched".to_owned(),
        backend => format!(" by {backend}"),
    };
    let interrupted = if is_interrupted { ", interrupted" } else { "" };
    let Controlled { summary, history, .. } = controlled;
    let mut out = format!("corun control: {name}{by}{interrupted}\n\n");
    if history.reasons().is_empty() {
        out += &format!(
            "Nothing to do for {name}: {}.\n",
            of_nothing(policy, idle, controlled.history.in_force_ns())
        );
    } else {
        out += &format!("{}.\n", controlled.answer());
    }
    out += &format!("\n{}{}", summary.text(), history.text(explain));
    if let Some(energy) = summary.energy() {
        out += &format!("{energy}\n");
        let per_work = [(true, "with"), (false, "without")].map(|(with, word)| {
            let joules = history.joules_per_useful_s(with)?;
            Some(format!("{joules:.2} J {word} the policy"))
        });
        let per_work: Vec<String> = per_work.into_iter().flatten().collect();
        if !per_work.is_empty() {
            out += &format!("For a second of the tenants' useful CPU time: {}.\n", per_work.join(", "));
        }
    }
    if history.has_changed() {
        out += "Everything that was changed is as it was.\n";
    }
    out
}
