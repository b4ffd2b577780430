//! The control loop: runs a policy on a host, under a guard. `corun control` runs it on this machine, `corun
//! sim` on the modelled one.
//!
//! One epoch has three steps. The host is observed. [`Controller::look`] notes newcomers and the tenants that
//! the host would refuse. [`Controller::epoch`] asks the guard, lets the policy decide, and applies its
//! decisions. [`Controller::turn`] does all of it, for callers that add nothing in between.
//!
//! - **Guard.** If a policy turns knobs and does not judge itself ([`Policy::judges_itself`]), periods with
//!   and without it alternate and are compared ([`guard`](crate::guard)). For a period without it, everything
//!   is undone.
//! - **Renewal.** After such a period, the policy starts again. It keeps its findings, and knows that nothing
//!   is in force.
//! - **Refusals.** A policy that did not know the refused tenants would keep slots for them ([`refusals`]).
//! - **Dry run.** Nothing is applied. What a policy would have to try is only proposed ([`dry`]).

pub mod dry;
pub mod refusals;

use crate::guard::{Arm, Finding, Guard};
use crate::options::{BadPolicy, Options};
use crate::registry::by_name;
use crate::scope::Scope;
use corun_model::{Decision, Fate, Host, HostError, Observation, Policy, Tenant, TenantId};
use dry::{Decided, Proposals};
use refusals::Refusals;
use std::collections::BTreeSet;

/// The longest epoch, an hour: a period of the guard has several of them.
pub const MOST_EPOCH_NS: u64 = 3_600_000_000_000;

/// The way in which a policy runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// Measures whether the policy helps, unless it does so itself, and stops it if not.
    pub guard: bool,
    /// Decide, but apply nothing.
    pub dry_run: bool,
    /// Time between two decisions in nanoseconds; `None`: as the policy wants.
    pub epoch_ns: Option<u64>,
}

/// A decision and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its time, on the host's clock.
    pub at_ns: u64,
    /// The decision with its reason.
    pub decision: Decision,
    /// Its outcome.
    pub fate: Fate,
}

/// What happened at the end of an epoch.
#[derive(Debug, Default)]
pub struct Epoch {
    /// Whether everything was undone for a period without the policy, and the result of that.
    pub undone: Option<Result<(), HostError>>,
    /// The decisions, in the order in which they were applied.
    pub taken: Vec<Taken>,
}

/// A running policy.
pub struct Controller {
    policy: Box<dyn Policy>,
    options: Options,
    epoch_ns: u64,
    guard: Option<Guard>,
    /// Whether the policy's decisions are in force.
    in_force: bool,
    refusals: Refusals,
    /// The tenants in the scope, of those seen last.
    covered: BTreeSet<TenantId>,
    /// The proposals of a dry run; `None`: decisions are applied.
    proposals: Option<Proposals>,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("policy", &self.policy.name()).finish_non_exhaustive()
    }
}

impl Controller {
    /// A policy by its name, with its options, which include the scope. Nothing is in force yet.
    ///
    /// # Errors
    /// As [`by_name`].
    pub fn new(name: &str, options: Options, mode: Mode) -> Result<Controller, BadPolicy> {
        let policy = by_name(name, &options)?;
        let epoch_ns = mode.epoch_ns.unwrap_or(policy.epoch_ns());
        let guarded = mode.guard && !mode.dry_run && !policy.judges_itself() && !policy.knobs().is_empty();
        let guard = guarded.then(|| Guard::over(policy.as_ref(), epoch_ns));
        Ok(Controller {
            policy,
            options,
            epoch_ns,
            guard,
            in_force: !guarded,
            refusals: Refusals::default(),
            covered: BTreeSet::new(),
            proposals: mode.dry_run.then(Proposals::default),
        })
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        self.policy.as_ref()
    }

    /// The tenants that it may touch.
    pub fn scope(&self) -> &Scope {
        &self.options.scope
    }

    /// The tenants that it may touch, of those seen last.
    pub fn covered(&self) -> &BTreeSet<TenantId> {
        &self.covered
    }

    /// Time between two decisions, in nanoseconds.
    pub fn epoch_ns(&self) -> u64 {
        self.epoch_ns
    }

    /// How long to wait until the next epoch ends, in nanoseconds.
    pub fn wait_ns(&self) -> u64 {
        self.epoch_ns.saturating_mul(self.policy.epochs_to_wait())
    }

    /// Whether the policy's decisions are in force now.
    pub fn is_in_force(&self) -> bool {
        self.in_force
    }

    /// The guard, if there is one.
    pub fn guard(&self) -> Option<&Guard> {
        self.guard.as_ref()
    }

    /// The guard's finding; `None`: there is no guard.
    pub fn finding(&self) -> Option<Finding> {
        self.guard.as_ref().map(Guard::finding)
    }

    /// Takes in newcomers, and notes in the observation which tenants the host would refuse. `refuses` asks
    /// the host about one tenant.
    pub fn look(&mut self, seen: &mut Observation, refuses: impl Fn(&Observation, &Tenant) -> bool) {
        self.refusals.fill(seen, &self.options.scope, refuses);
        self.covered = self.options.scope.covered(seen);
    }

    /// Decides about the observation, and applies the decisions as far as the guard allows.
    pub fn epoch(&mut self, host: &mut dyn Host, seen: &Observation) -> Epoch {
        if self.ask_the_guard(seen) == Arm::Without {
            let undone = std::mem::replace(&mut self.in_force, false).then(|| host.undo_all());
            return Epoch { undone, taken: Vec::new() };
        }
        if !std::mem::replace(&mut self.in_force, true) {
            // A policy that was interrupted does not know what was undone.
            self.policy = self.policy.renewed().unwrap_or_else(|| anew(self.policy.name(), &self.options));
        }
        let (decisions, unapplied) = match &mut self.proposals {
            None => (self.policy.decide(host.machine(), seen), None),
            Some(proposals) => {
                let anew = |name: &str| anew(name, &self.options);
                match proposals.decide(&mut self.policy, anew, host.machine(), seen, &self.covered) {
                    Decided::InForce(decisions) => (decisions, Some(Fate::DryRun)),
                    Decided::Proposed(decisions) => (decisions, Some(Fate::Proposed)),
                }
            }
        };
        let mut take = |decision: Decision| {
            let fate = unapplied.clone().unwrap_or_else(|| {
                let outcome = host.apply(&decision.action);
                self.refusals.note(seen, &decision.action, &outcome);
                Fate::Applied(outcome)
            });
            Taken { at_ns: host.now_ns(), decision, fate }
        };
        let taken: Vec<Taken> = decisions.into_iter().map(&mut take).collect();
        let is_change = |t: &Taken| t.fate.is_change(&t.decision.action);
        if let Some(guard) = self.guard.as_mut().filter(|_| taken.iter().any(is_change)) {
            guard.acted();
        }
        Epoch { undone: None, taken }
    }

    /// One whole epoch: waits, observes, looks and decides. Also returns the observation.
    ///
    /// # Errors
    /// Those of the host.
    pub fn turn(
        &mut self,
        host: &mut dyn Host,
        refuses: impl Fn(&Observation, &Tenant) -> bool,
    ) -> Result<(Observation, Epoch), HostError> {
        host.advance(self.wait_ns())?;
        let mut seen = host.observe()?;
        self.look(&mut seen, refuses);
        let epoch = self.epoch(host, &seen);
        Ok((seen, epoch))
    }

    /// What the guard wants after this epoch.
    fn ask_the_guard(&mut self, seen: &Observation) -> Arm {
        let Some(guard) = &mut self.guard else { return Arm::With };
        let covers = |t: &Tenant| self.covered.contains(&t.id);
        match self.in_force && self.policy.is_searching() {
            true => guard.push_trial(seen, covers),
            false => guard.push(seen, covers),
        }
    }
}

/// A policy in its initial state.
fn anew(name: &str, options: &Options) -> Box<dyn Policy> {
    by_name(name, options).expect("these options have made this policy before")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::period_ns;
    use crate::registry::ALL;

    #[test]
    fn a_policy_that_turns_knobs_and_does_not_judge_itself_has_a_guard_if_requested() {
        for entry in ALL {
            let policy = by_name(entry.name, &Options::new()).unwrap();
            let needs_one = !entry.knobs.is_empty() && !policy.judges_itself();
            for (guard, dry_run) in [(true, false), (true, true), (false, false)] {
                let mode = Mode { guard, dry_run, epoch_ns: None };
                let controller = Controller::new(entry.name, Options::new(), mode).unwrap();
                let has_one = guard && !dry_run && needs_one;
                assert_eq!(controller.guard().is_some(), has_one, "{} {mode:?}", entry.name);
                assert_eq!(controller.is_in_force(), !has_one, "a guard begins without the policy");
            }
        }
    }

    #[test]
    fn a_period_of_the_guard_is_longer_than_its_policys_wait_for_a_window() {
        let every = |time| Options::new().set("every", time);
        for (name, options) in
            [("gang", Options::new()), ("dedicated", Options::new()), ("dedicated", every("9s"))]
        {
            let policy = by_name(name, &options).unwrap();
            let waits_ns = policy.windows_every_ns().unwrap_or(0) + policy.epoch_ns();
            assert!(period_ns(policy.as_ref(), policy.epoch_ns()) > waits_ns, "{name}");
        }
    }
}
