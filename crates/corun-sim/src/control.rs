//! A run under a policy: the control loop of [`corun_policy::controller`], which `corun control` runs on a live machine, with a
//! modelled machine as its host; and the counted results.

use crate::engine::Engine;
use crate::scenario::PolicySpec;
use corun_model::{Fate, Observation, Outcome, Refusal};
use corun_policy::controller::{Controller, Mode, Taken};
use std::collections::BTreeMap;

/// Decisions that are kept word by word: some 20 MB.
const KEPT: usize = 100_000;

/// The decisions of a policy in one run.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// The number of epochs.
    pub epochs: u64,
    /// The number of decisions.
    pub decisions: u64,
    /// The first of them; only for a recorded run.
    pub first: Vec<Taken>,
    /// Reasons for which decisions were not carried out, and how often.
    pub not_done: BTreeMap<Refusal, u64>,
}

/// A policy on the modelled machine, and its decisions so far.
pub(crate) struct Controlled {
    controller: Controller,
    kept: usize,
    did: Control,
}

impl Controlled {
    /// `keep`: its decisions are kept.
    pub(crate) fn new(spec: &PolicySpec, keep: bool) -> Controlled {
        let mode = Mode { epoch_ns: Some(spec.epoch_ns), guard: spec.guard, ..Mode::default() };
        let controller =
            Controller::new(spec.name, spec.options.clone(), mode).expect("the scenario was checked");
        Controlled { controller, kept: if keep { KEPT } else { 0 }, did: Control::default() }
    }

    /// How long it waits until it decides again.
    pub(crate) fn wait_ns(&self) -> u64 {
        self.controller.wait_ns()
    }

    /// Decides on the observation of the epoch that has just ended. The model protects no tenant.
    pub(crate) fn epoch(&mut self, engine: &mut Engine, seen: &mut Observation) {
        self.controller.look(seen, |_, _| false);
        let epoch = self.controller.epoch(engine, seen);
        self.did.epochs += 1;
        self.did.decisions += epoch.taken.len() as u64;
        for taken in epoch.taken {
            if let Fate::Applied(Outcome::Unsupported { why } | Outcome::Refused { why }) = &taken.fate {
                *self.did.not_done.entry(why.clone()).or_default() += 1;
            }
            if self.did.first.len() < self.kept {
                self.did.first.push(taken);
            }
        }
    }

    pub(crate) fn finish(self) -> Control {
        self.did
    }
}
