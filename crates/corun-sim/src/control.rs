//! A run under a policy: each epoch the machine is observed, the policy decides, and what it decided is applied; the loop
//! that `corun control` runs on a live machine.

use crate::engine::Engine;
use crate::scenario::PolicySpec;
use corun_model::{Decision, Host, Observation, Outcome, Policy};
use std::collections::BTreeMap;

/// Decisions that are kept word by word: some 20 MB.
const KEPT: usize = 100_000;

/// What a policy did in one run.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Epochs.
    pub epochs: u64,
    /// Decisions, all together.
    pub decisions: u64,
    /// The first of them, with the time on the modelled machine's clock in nanoseconds and what came of them; only of a run
    /// that is recorded.
    pub first: Vec<(u64, Decision, Outcome)>,
    /// Reasons for which decisions were not carried out, and how often.
    pub not_done: BTreeMap<String, u64>,
}

/// A policy at work on the modelled machine.
pub(crate) struct Controller {
    policy: Box<dyn Policy>,
    epoch_ns: u64,
    kept: usize,
    did: Control,
}

impl Controller {
    /// `keep`: its decisions are kept.
    pub(crate) fn new(spec: &PolicySpec, keep: bool) -> Controller {
        let policy = corun_policy::by_name(spec.name, &spec.options).expect("the scenario was checked");
        let kept = if keep { KEPT } else { 0 };
        Controller { policy, epoch_ns: spec.epoch_ns, kept, did: Control::default() }
    }

    /// How long it waits until it decides again.
    pub(crate) fn wait_ns(&self) -> u64 {
        self.epoch_ns * self.policy.epochs_to_wait()
    }

    /// Decides on what was seen in the epoch that has just ended.
    pub(crate) fn epoch(&mut self, engine: &mut Engine, seen: &Observation) {
        let decisions = self.policy.decide(engine.machine(), seen);
        self.did.epochs += 1;
        self.did.decisions += decisions.len() as u64;
        for decision in decisions {
            let outcome = engine.apply(&decision.action);
            if let Outcome::Unsupported { why } | Outcome::Refused { why } = &outcome {
                *self.did.not_done.entry(why.clone()).or_default() += 1;
            }
            if self.did.first.len() < self.kept {
                self.did.first.push((seen.end_ns, decision, outcome));
            }
        }
    }

    pub(crate) fn finish(self) -> Control {
        self.did
    }
}
