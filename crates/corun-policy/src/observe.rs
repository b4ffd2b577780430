//! `observe`: does nothing. It is the default, and the baseline of every other policy.

use corun_model::{Decision, Knob, Machine, Observation, Policy};

/// Decides nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observe;

impl Policy for Observe {
    fn name(&self) -> &'static str {
        "observe"
    }

    fn knobs(&self) -> &'static [Knob] {
        &[]
    }

    fn decide(&mut self, _: &Machine, _: &Observation) -> Vec<Decision> {
        Vec::new()
    }
}
