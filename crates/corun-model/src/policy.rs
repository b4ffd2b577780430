//! `Policy`: decides, once an epoch, which knobs to turn. Passive and pure: same observations, same decisions.

use crate::action::{Action, Knob, Outcome};
use crate::machine::Machine;
use crate::observation::Observation;
use crate::reason::Reason;

/// A scheduling policy. It sees only what a [`Host`](crate::Host) observed and cannot tell which host that was.
pub trait Policy {
    /// Its name, as in the papers and on the command line: `gang`, `delayed_preemption`.
    fn name(&self) -> &'static str;

    /// The knobs it may turn; a host that lacks one of them can say so before anything starts.
    fn knobs(&self) -> &'static [Knob];

    /// How often it wants to decide, in nanoseconds, where nobody says otherwise.
    fn epoch_ns(&self) -> u64 {
        100_000_000
    }

    /// How many epochs may pass now until it decides again: more than one while it only waits for something to change.
    fn epochs_to_wait(&self) -> u64 {
        1
    }

    /// What to do, given the last epoch. Actions already in force need not be repeated.
    fn decide(&mut self, machine: &Machine, seen: &Observation) -> Vec<Decision>;

    /// Whether it still tries out what to do: what is gained meanwhile says nothing of what will be.
    fn is_searching(&self) -> bool {
        false
    }

    /// Whether it measures by itself that what it does helps, and leaves off where it does not. A guard over it would measure
    /// its measuring, and a dry run, in which nothing comes of anything, shows only what it would try.
    fn judges_itself(&self) -> bool {
        false
    }

    /// The tenant, by name or key, that it was told to serve; it must be there, and need not be one that it may touch.
    fn subject(&self) -> Option<&str> {
        None
    }

    /// One like it for when all that it had set was undone by somebody else: it knows what this one has found out, and
    /// that nothing is in force. `None`: a fresh one knows as much.
    fn renewed(&self) -> Option<Box<dyn Policy>> {
        None
    }
}

/// An action with the observation that caused it (invariant 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// Why, with its figures.
    pub because: Reason,
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was applied, and this came of it.
    Applied(Outcome),
    /// A dry run: it was not applied, and the policy takes it as in force.
    DryRun,
    /// A dry run of a policy that would judge it by what came of it: whether it helps, only a real run tells.
    Proposed,
}
