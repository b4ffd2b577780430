//! A dry run of a policy that judges the results of its own turns, or is still searching.
//!
//! Nobody is parked in a dry run. So what such a policy measures "in slots" is in fact without slots, and its conclusions would be
//! false. So its first proposal to park is reported with its reason, as something to try, and the policy starts again. Later proposals
//! are reported when other tenants compete.

use corun_model::{Action, Decision, Machine, Observation, Policy, Reason, TenantId};
use std::collections::BTreeSet;

/// A tenant that wants less than a twentieth of one CPU does not compete.
const PART_OF_A_CPU: u64 = 20;
/// The most sets of tenants that are remembered. Further sets are not reported.
const MOST: usize = 1_000;

fn is_park(decision: &Decision) -> bool {
    matches!(decision.action, Action::Park { .. })
}

/// The decisions of a policy.
#[derive(Debug, PartialEq, Eq)]
pub enum Decided {
    /// In force from now on.
    InForce(Vec<Decision>),
    /// To be reported, but not in force.
    Proposed(Vec<Decision>),
}

/// The proposals so far.
#[derive(Debug, Default)]
pub struct Proposals {
    told: BTreeSet<BTreeSet<TenantId>>,
}

impl Proposals {
    /// Lets a policy decide. If it proposes something that it would judge by its results, it starts again: `anew` makes a new one of
    /// its name. Then only the proposal is reported.
    pub fn decide(
        &mut self,
        policy: &mut Box<dyn Policy>,
        anew: impl FnOnce(&str) -> Box<dyn Policy>,
        machine: &Machine,
        seen: &Observation,
        covered: &BTreeSet<TenantId>,
    ) -> Decided {
        let decisions = policy.decide(machine, seen);
        let judges = policy.judges_itself() || policy.is_searching();
        if !judges || !decisions.iter().any(is_park) {
            return Decided::InForce(decisions);
        }
        *policy = anew(policy.name());
        Decided::Proposed(self.tell(decisions, seen, covered))
    }

    /// The part of a proposal that is reported: nothing if there was one for the same tenants.
    fn tell(
        &mut self,
        decisions: Vec<Decision>,
        seen: &Observation,
        covered: &BTreeSet<TenantId>,
    ) -> Vec<Decision> {
        let competes = |id: &TenantId| {
            let ledger = seen.by_tenant.iter().find(|t| t.id == *id).map(|t| &t.account.ledger);
            let wanted_ns = ledger.map_or(0, |l| l.on_cpu_ns() + l.parts().steal_ns);
            wanted_ns * PART_OF_A_CPU >= seen.window_ns()
        };
        let who: BTreeSet<TenantId> = covered.iter().copied().filter(competes).collect();
        if self.told.len() == MOST || !self.told.insert(who) {
            return Vec::new();
        }
        decisions.into_iter().filter(is_park).map(would_try).collect()
    }
}

fn would_try(decision: Decision) -> Decision {
    Decision { because: Reason::WouldTry(Box::new(decision.because)), ..decision }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::{Account, TenantObservation};
    use corun_model::reason::{Kept, Rule, SlotPart};
    use corun_model::{Knob, Ledger, Parts};

    fn slot(number: u64, rule: Rule) -> Reason {
        Reason::Slot { number: Some(number), part: SlotPart::Waits, rule }
    }

    fn tried() -> Reason {
        slot(1, Rule::Tried { who: Some("solver".into()), percent: 19 })
    }

    fn would_try(what: Reason) -> Reason {
        Reason::WouldTry(Box::new(what))
    }

    /// A window in which each of these tenants had half a CPU.
    fn window(tenants: &[u32]) -> Observation {
        let parts = Parts { compute_ns: 50, block_ns: 50, ..Parts::default() };
        let account = || Account { ledger: Ledger::new(parts, 100).unwrap(), ..Account::default() };
        let of = |id: &u32| TenantObservation { id: TenantId(*id), tasks: 1, account: account() };
        let by_tenant = tenants.iter().map(of).collect();
        Observation { end_ns: 100, by_tenant, ..Observation::default() }
    }

    /// Parks in its second window, and then reports a gain, as `auto` does.
    struct Tries {
        judges: bool,
        windows: u32,
    }

    impl Policy for Tries {
        fn name(&self) -> &'static str {
            "tries"
        }

        fn judges_itself(&self) -> bool {
            self.judges
        }

        fn knobs(&self) -> &'static [Knob] {
            &[Knob::Park]
        }

        fn decide(&mut self, _: &Machine, _: &Observation) -> Vec<Decision> {
            self.windows += 1;
            let because = match self.windows {
                1 => return Vec::new(),
                2 => tried(),
                _ => slot(2, Rule::Kept(Kept::More { who: "solver".into(), times_percent: 121 })),
            };
            vec![Decision { action: Action::Park { tenant: TenantId(2) }, because }]
        }
    }

    /// The decisions in six windows.
    fn six(judges: bool) -> Vec<Decided> {
        let (mut proposals, machine) = (Proposals::default(), Machine::synthetic(1, 1, 2, 1));
        let make = || -> Box<dyn Policy> { Box::new(Tries { judges, windows: 0 }) };
        let covered = BTreeSet::from([1, 2].map(TenantId));
        let mut policy = make();
        let mut decide = |_| proposals.decide(&mut policy, |_| make(), &machine, &window(&[1, 2]), &covered);
        (0..6).map(&mut decide).collect()
    }

    #[test]
    fn a_policy_that_judges_by_slots_concludes_nothing_without_slots() {
        let decided = six(true);
        let reasons: Vec<&Reason> = decided
            .iter()
            .flat_map(|d| match d {
                Decided::InForce(all) | Decided::Proposed(all) => all.iter().map(|d| &d.because),
            })
            .collect();
        assert_eq!(reasons, [&would_try(tried())]);
        assert!(matches!(&decided[1], Decided::Proposed(told) if told.len() == 1), "{decided:?}");
        // All decisions of a policy that takes turns in any case are reported.
        let goes_on = six(false);
        assert!(
            goes_on[1..].iter().all(|d| matches!(d, Decided::InForce(all) if all.len() == 1)),
            "{goes_on:?}"
        );
    }

    #[test]
    fn a_proposal_is_reported_with_its_reason_and_once_for_the_same_tenants() {
        let mut proposals = Proposals::default();
        let covered = BTreeSet::from([1, 2, 3, 4].map(TenantId));
        let mut told = |tenants: &[u32], because: Reason| {
            let decisions = [Action::Unpark { tenant: TenantId(1) }, Action::Park { tenant: TenantId(2) }];
            let decisions = decisions.map(|action| Decision { action, because: because.clone() }).to_vec();
            let told = proposals.tell(decisions, &window(tenants), &covered);
            told.into_iter().map(|d| d.because).collect::<Vec<_>>()
        };
        assert_eq!(told(&[1, 2], tried()), [would_try(tried())]);
        assert_eq!(told(&[1, 2], tried()), []);
        // A tenant that is not covered makes no difference. A new one does.
        assert_eq!(told(&[1, 2, 5], tried()), []);
        assert_eq!(told(&[1, 2, 3], slot(1, Rule::Single)), [would_try(slot(1, Rule::Single))]);
    }
}
