//! `Policy`: decides once an epoch which knobs to turn. Passive and pure: same observations, same decisions.

use crate::action::{Action, Knob, Outcome};
use crate::machine::Machine;
use crate::observation::Observation;
use crate::reason::Reason;

/// A scheduling policy. It sees only what a [`Host`](crate::Host) observed and cannot tell which host that was.
pub trait Policy {
    /// Its name, as in the papers and on the command line: `gang`, `delayed_preemption`.
    fn name(&self) -> &'static str;

    /// The knobs that it may turn. A host that lacks one of them can say so before anything starts.
    fn knobs(&self) -> &'static [Knob];

    /// How often it wants to decide, in nanoseconds, unless the user sets it.
    fn epoch_ns(&self) -> u64 {
        100_000_000
    }

    /// How many epochs may pass until it decides again: more than one while it only waits for a change.
    fn epochs_to_wait(&self) -> u64 {
        1
    }

    /// Decides about the last epoch. Actions already in force need not be repeated.
    fn decide(&mut self, machine: &Machine, seen: &Observation) -> Vec<Decision>;

    /// Whether it is still searching. The gain during a search does not show the later gain.
    fn is_searching(&self) -> bool {
        false
    }

    /// Whether it measures if it helps, and stops if not. A guard would measure its measurements. A dry run,
    /// in which nothing has an effect, shows only what it would try.
    fn judges_itself(&self) -> bool {
        false
    }

    /// How often it opens a window, in nanoseconds, if it does nothing before the first one; `None`: it may
    /// act at every epoch.
    fn windows_every_ns(&self) -> Option<u64> {
        None
    }

    /// The tenant that it serves, by name or key. The tenant must exist, and need not be one that the policy
    /// may touch.
    fn subject(&self) -> Option<&str> {
        None
    }

    /// A copy of it for when somebody else has undone its settings: it keeps its findings, and knows that
    /// nothing is in force. `None`: a new policy is equally good.
    fn renewed(&self) -> Option<Box<dyn Policy>> {
        None
    }
}

/// An action with the observation that caused it (invariant 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The action.
    pub action: Action,
    /// The reason, with its figures.
    pub because: Reason,
}

/// The outcome of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was applied, with this outcome.
    Applied(Outcome),
    /// A dry run: it was not applied, and the policy assumes that it is in force.
    DryRun,
    /// A dry run of a policy that would judge the decision by its outcome. Only a real run shows whether it
    /// helps.
    Proposed,
}

impl Fate {
    /// Whether an action with this outcome treats a task or tenant differently. A released tenant is treated
    /// as before. A delay of zero, which every new task gets, changes nothing.
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
    fn only_applied_actions_that_treat_somebody_differently_are_changes() {
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
