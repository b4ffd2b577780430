//! Tenants that the host would refuse to park. A policy that did not know them would keep slots for them, in which nobody else runs.
//!
//! A new tenant is checked once: it may be protected, or one of its processes may be, or it may belong to a user whom this one may not
//! touch. A refused attempt to park is remembered too: such a tenant cannot be stopped without harm, such as a terminal's foreground
//! job. Both may change, so a refusal holds for a while, and twice as long each time it is repeated. Then the check, or the attempt, is
//! repeated.

use crate::scope::Scope;
use corun_model::{Action, Observation, Outcome, Tenant, TenantId};
use std::collections::BTreeMap;

/// How long a refusal holds, at first and at most. A policy starts again when a tenant comes, and would do so here.
const FIRST_HOLD_NS: u64 = 1_000_000_000;
const LONGEST_HOLD_NS: u64 = 300_000_000_000;

/// What is known of a tenant that was checked.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Its last refusal holds until then. `None` if it may be touched.
    until_ns: Option<u64>,
    /// How long that refusal held; 0 without one.
    hold_ns: u64,
}

impl Known {
    fn refuse(&mut self, now_ns: u64) {
        self.hold_ns = (2 * self.hold_ns).clamp(FIRST_HOLD_NS, LONGEST_HOLD_NS);
        self.until_ns = Some(now_ns + self.hold_ns);
    }
}

/// The known refusals.
#[derive(Debug, Default)]
pub struct Refusals {
    known: BTreeMap<TenantId, Known>,
}

impl Refusals {
    /// Fills in the tenants of the scope that would be refused. Calls `refuses` for tenants without a valid answer.
    pub fn fill(
        &mut self,
        seen: &mut Observation,
        scope: &Scope,
        refuses: impl Fn(&Observation, &Tenant) -> bool,
    ) {
        self.known.retain(|id, _| seen.tenants.binary_search_by_key(id, |t| t.id).is_ok());
        let is_due = |id: &TenantId| match self.known.get(id) {
            Some(known) => known.until_ns.is_some_and(|until_ns| until_ns <= seen.end_ns),
            // A tenant without a task in the window cannot be checked yet.
            None => seen.by_tenant.binary_search_by_key(id, |t| t.id).is_ok(),
        };
        let due: Vec<_> = seen.tenants.iter().filter(|t| is_due(&t.id) && scope.covers(t)).collect();
        for tenant in due {
            let known = self.known.entry(tenant.id).or_default();
            known.until_ns = None;
            if refuses(seen, tenant) {
                known.refuse(seen.end_ns);
            }
        }
        seen.refused = self.known.iter().filter(|(_, k)| k.until_ns.is_some()).map(|(id, _)| *id).collect();
    }

    /// Takes in the outcome of an action after an observation.
    pub fn note(&mut self, seen: &Observation, action: &Action, outcome: &Outcome) {
        let Action::Park { tenant } = action else { return };
        match outcome {
            Outcome::Refused { .. } => self.known.entry(*tenant).or_default().refuse(seen.end_ns),
            Outcome::Done => drop(self.known.insert(*tenant, Known::default())),
            Outcome::Unsupported { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::TenantObservation;
    use corun_model::{Refusal, TenantKind};

    /// A tenant that the host refuses, and one that it does not.
    const INIT: u32 = 1;
    const STRANGER: u32 = 7;

    /// A window with each of these tenants.
    fn window(end_ns: u64, who: &[u32]) -> Observation {
        let tenant = |&id: &u32| Tenant {
            id: TenantId(id),
            kind: TenantKind::Command,
            key: format!("pgid:{id}"),
            name: format!("t{id}"),
        };
        let of = |&id: &u32| TenantObservation { id: TenantId(id), tasks: 1, account: Default::default() };
        Observation {
            end_ns,
            tenants: who.iter().map(tenant).collect(),
            by_tenant: who.iter().map(of).collect(),
            ..Observation::default()
        }
    }

    /// The tenants that a policy may plan with.
    fn covered(refusals: &mut Refusals, end_ns: u64, who: &[u32]) -> Vec<u32> {
        let (scope, mut seen) = (Scope::everyone(), window(end_ns, who));
        refusals.fill(&mut seen, &scope, |_, t| t.id == TenantId(INIT));
        scope.covered(&seen).iter().map(|id| id.0).collect()
    }

    #[test]
    fn a_tenant_that_the_host_refuses_is_left_out_whenever_it_comes() {
        let mut refusals = Refusals::default();
        assert_eq!(covered(&mut refusals, 1, &[STRANGER]), [STRANGER]);
        assert_eq!(covered(&mut refusals, 2, &[INIT, STRANGER]), [STRANGER]);
        assert_eq!(
            covered(&mut refusals, 3 * FIRST_HOLD_NS, &[INIT, STRANGER]),
            [STRANGER],
            "it is asked again"
        );
    }

    #[test]
    fn a_tenant_is_left_alone_for_longer_after_each_refused_park() {
        let mut refusals = Refusals::default();
        let (park, seen) = (Action::Park { tenant: TenantId(STRANGER) }, |ns| window(ns, &[STRANGER]));
        let no = Outcome::Refused { why: Refusal::ForegroundJob { name: "vi".into(), pid: 7 } };
        let mut now_ns = 0;
        for hold_ns in [FIRST_HOLD_NS, 2 * FIRST_HOLD_NS, 4 * FIRST_HOLD_NS] {
            assert_eq!(covered(&mut refusals, now_ns, &[STRANGER]), [STRANGER]);
            refusals.note(&seen(now_ns), &park, &no);
            assert_eq!(covered(&mut refusals, now_ns + hold_ns - 1, &[STRANGER]), [0; 0]);
            now_ns += hold_ns;
        }
        assert_eq!(covered(&mut refusals, now_ns, &[STRANGER]), [STRANGER]);
        refusals.note(&seen(now_ns), &park, &Outcome::Done);
        refusals.note(&seen(now_ns), &park, &no);
        assert_eq!(covered(&mut refusals, now_ns + FIRST_HOLD_NS, &[STRANGER]), [STRANGER], "as at first");
    }
}
