//! The decisions of a scenario's policy: in the report, and as the sections and tracks of a live run under control.

use corun_model::Observation;
use corun_policy::controller::Taken;
use corun_report::control::history::History;
use corun_report::control::page::{self, Controlled};
use corun_report::control::{tracks, ControlSummary, Decided};
use corun_report::refusal::refusal;
use corun_report::sim::{SimDecision, SimPolicy};
use corun_report::ProfileReport;
use corun_sim::experiment::{self, Run};
use corun_sim::scenario::Scenario;
use std::collections::BTreeMap;

/// The most decisions that a report lists.
const LISTED: usize = 200;

/// The decisions of the policy over all seeds, with names from `seen`. `None` without a policy.
pub fn summary(scenario: &Scenario, outcome: &experiment::Outcome, seen: &Observation) -> Option<SimPolicy> {
    let spec = scenario.policy.as_ref()?;
    let runs: Vec<_> = outcome.runs.iter().filter_map(|r| r.control.as_ref()).collect();
    let mut not_done = BTreeMap::new();
    for (why, count) in runs.iter().flat_map(|c| &c.not_done) {
        *not_done.entry(refusal(why)).or_default() += count;
    }
    let decision = |t: &Taken| SimDecision {
        t_ns: t.at_ns,
        action: format!("{:?}", t.decision.action),
        decided: Decided::new(&t.decision, &t.fate, seen),
    };
    Some(SimPolicy {
        name: spec.name.into(),
        options: spec.options.given().map(|(name, value)| (name.into(), value.into())).collect(),
        epoch_ns: spec.epoch_ns,
        epochs: runs.iter().map(|c| c.epochs).sum(),
        decisions: runs.iter().map(|c| c.decisions).sum(),
        not_done,
        first: runs.first().map_or(Vec::new(), |c| c.first.iter().take(LISTED).map(decision).collect()),
    })
}

/// The decisions of the policy in the recorded run.
pub struct Kept {
    policy: &'static str,
    history: History,
    summary: ControlSummary,
}

impl Kept {
    /// From a recording, whole and in windows, and the run. `None` without a policy.
    pub fn of(
        scenario: &Scenario,
        (whole, windows): (&Observation, &[Observation]),
        run: &Run,
    ) -> Option<Kept> {
        let (spec, control) = (scenario.policy.as_ref()?, run.control.as_ref()?);
        let covers = |t: &corun_model::Tenant| spec.options.scope.covers(t);
        let (mut history, mut summary) = (History::new(whole.start_ns), ControlSummary::default());
        for window in windows {
            history.window(window, true, covers);
            summary.push(window, covers);
        }
        for Taken { at_ns, decision, fate } in &control.first {
            history.decided(*at_ns, decision, &Decided::new(decision, fate, whole));
        }
        Some(Kept { policy: spec.name, history, summary })
    }

    /// The sections of the HTML page.
    pub fn sections(&self, profile: &ProfileReport) -> String {
        let (policy, history, summary) = (self.policy, &self.history, &self.summary);
        page::sections(&Controlled { policy, backend: "sim", guard: None, history, summary }, profile)
    }

    /// The tracks of the trace.
    pub fn tracks(&self, profile: &ProfileReport) -> Vec<u8> {
        tracks::encode(self.policy, &self.history, profile)
    }
}
