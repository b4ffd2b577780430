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

    /// How often it opens a window, in nanoseconds, where it does nothing until the first is due; `None`: it may act at every epoch.
    fn windows_every_ns(&self) -> Option<u64> {
        None
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

impl Fate {
    /// Whether somebody is treated in another way for an action that came to this. Who is let go is treated as before, and a delay of
    /// none, which every new task is told, is what it had.
    pub fn is_change(&self, action: &Action) -> bool {
        let changes = !matches!(action, Action::Unpark { .. } | Action::PreemptDelay { delay_ns: 0, .. });
        changes && *self == Fate::Applied(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Refusal;
    use crate::tenant::{TaskId, TenantId};

    #[test]
    fn only_what_was_done_and_treats_somebody_in_another_way_is_a_change() {
        let (task, tenant) = (TaskId(7), TenantId(2));
        let done = Fate::Applied(Outcome::Done);
        for (action, is_change) in [
            (Action::Park { tenant }, true),
            (Action::Unpark { tenant }, false),
            (Action::PreemptDelay { task, delay_ns: 1 }, true),
            (Action::PreemptDelay { task, delay_ns: 0 }, false),
            (Action::Slice { task, min_ns: 1, max_ns: 1 }, true),
            (Action::Weight { tenant, weight: 100 }, true),
        ] {
            assert_eq!(done.is_change(&action), is_change, "{action:?}");
            let refused = Fate::Applied(Outcome::from(Refusal::NobodyLeft));
            for not_done in [refused, Fate::DryRun, Fate::Proposed] {
                assert!(!not_done.is_change(&action), "{not_done:?}");
            }
        }
    }
}
