//! Who would be refused: a policy that did not know would keep slots for them, in which nobody else runs.
//!
//! Whoever is met for the first time is asked about (protected by what it is, or by one of its processes, or another user's
//! whom this one may not touch), and whose parking was refused is taken at its word: it cannot be stopped without harm, such
//! as a terminal's job in the foreground. Both may change, so a refusal holds for a while, twice as long each time it is
//! repeated; then the first is asked again, and the second tried again.

use super::whom::{may_be_stopped, why_not};
use corun_linux::protected::Protection;
use corun_linux::Root;
use corun_model::{Action, Observation, Outcome, TenantId};
use corun_policy::Scope;
use std::collections::BTreeMap;

/// How long a refusal holds at first, and at most. A policy begins anew where somebody comes, and so would it here.
const FIRST_HOLD_NS: u64 = 1_000_000_000;
const LONGEST_HOLD_NS: u64 = 300_000_000_000;

/// What is known of a tenant that was asked about.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Until when its last refusal holds; `None`: nothing speaks against touching it.
    until_ns: Option<u64>,
    /// How long that one held; 0: there was none.
    hold_ns: u64,
}

impl Known {
    fn refuse(&mut self, now_ns: u64) {
        self.hold_ns = (2 * self.hold_ns).clamp(FIRST_HOLD_NS, LONGEST_HOLD_NS);
        self.until_ns = Some(now_ns + self.hold_ns);
    }
}

/// Who would be refused, as far as that is known.
#[derive(Debug)]
pub struct Refused {
    root: Root,
    protection: Protection,
    /// Whether anybody is going to be touched, which this user must be allowed to do.
    acts: bool,
    known: BTreeMap<TenantId, Known>,
}

impl Refused {
    /// Nobody was met yet; `protect`: what the user named; `acts`: whether anybody is going to be touched.
    pub fn new(root: &Root, protect: &[String], acts: bool) -> Refused {
        let protection = Protection::new(root, protect);
        Refused { root: root.clone(), protection, acts, known: BTreeMap::new() }
    }

    /// Fills in who of the scope would be refused; asks about those of whom nothing is known, or no more.
    pub fn fill(&mut self, seen: &mut Observation, scope: &Scope) {
        self.known.retain(|id, _| seen.tenants.binary_search_by_key(id, |t| t.id).is_ok());
        let is_due = |id: &TenantId| match self.known.get(id) {
            Some(known) => known.until_ns.is_some_and(|until_ns| until_ns <= seen.end_ns),
            // Without a task in the window there is nothing to ask about yet.
            None => seen.by_tenant.binary_search_by_key(id, |t| t.id).is_ok(),
        };
        let due: Vec<_> = seen.tenants.iter().filter(|t| is_due(&t.id) && scope.covers(t)).collect();
        for tenant in due {
            let known = self.known.entry(tenant.id).or_default();
            known.until_ns = None;
            let is_protected = why_not(&self.root, &self.protection, seen, tenant).is_some();
            if is_protected || self.acts && !may_be_stopped(&self.root, seen, tenant.id) {
                known.refuse(seen.end_ns);
            }
        }
        seen.refused = self.known.iter().filter(|(_, k)| k.until_ns.is_some()).map(|(id, _)| *id).collect();
    }

    /// Takes what came of an action after an observation.
    pub fn told(&mut self, seen: &Observation, action: &Action, outcome: &Outcome) {
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
    use corun_model::observation::{TaskObservation, TenantObservation};
    use corun_model::{TaskId, Tenant, TenantKind};

    /// The first process, and a stranger.
    const INIT: u32 = 1;

    /// A process that is nobody's, ended when dropped.
    struct Sleeper(std::process::Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn sleeper() -> Sleeper {
        Sleeper(std::process::Command::new("sleep").arg("60").spawn().unwrap())
    }

    /// A window in which each of these processes is a tenant.
    fn window(end_ns: u64, pids: &[u32]) -> Observation {
        let tenant = |&pid: &u32| Tenant {
            id: TenantId(pid),
            kind: TenantKind::Command,
            key: format!("pgid:{pid}"),
            name: format!("t{pid}"),
        };
        let task = |&pid: &u32| TaskObservation {
            id: TaskId(pid),
            name: "x".into(),
            tenant: TenantId(pid),
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: Default::default(),
        };
        let of = |&pid: &u32| TenantObservation { id: TenantId(pid), tasks: 1, account: Default::default() };
        Observation {
            end_ns,
            tenants: pids.iter().map(tenant).collect(),
            tasks: pids.iter().map(task).collect(),
            by_tenant: pids.iter().map(of).collect(),
            ..Observation::default()
        }
    }

    /// Whom a policy may plan with.
    fn covered(refused: &mut Refused, end_ns: u64, pids: &[u32]) -> Vec<u32> {
        let (scope, mut seen) = (Scope::everyone(), window(end_ns, pids));
        refused.fill(&mut seen, &scope);
        scope.covered(&seen).iter().map(|id| id.0).collect()
    }

    #[test]
    fn all_is_everybody_but_who_is_protected_whenever_it_comes() {
        let other = sleeper();
        let stranger = other.0.id();
        let mut refused = Refused::new(&Root::new("/"), &[], true);
        assert_eq!(covered(&mut refused, 1, &[stranger]), [stranger]);
        assert_eq!(covered(&mut refused, 2, &[INIT, stranger]), [stranger]);
        assert_eq!(
            covered(&mut refused, 3 * FIRST_HOLD_NS, &[INIT, stranger]),
            [stranger],
            "it is asked again"
        );
    }

    #[test]
    fn whose_parking_was_refused_is_left_alone_for_longer_each_time() {
        let other = sleeper();
        let (stranger, tenant) = (other.0.id(), TenantId(other.0.id()));
        let mut refused = Refused::new(&Root::new("/"), &[], true);
        let no = Outcome::Refused { why: "a job in the foreground".into() };
        let mut now_ns = 0;
        for hold_ns in [FIRST_HOLD_NS, 2 * FIRST_HOLD_NS, 4 * FIRST_HOLD_NS] {
            assert_eq!(covered(&mut refused, now_ns, &[stranger]), [stranger]);
            refused.told(&window(now_ns, &[stranger]), &Action::Park { tenant }, &no);
            assert_eq!(covered(&mut refused, now_ns + hold_ns - 1, &[stranger]), [0; 0]);
            now_ns += hold_ns;
        }
        assert_eq!(covered(&mut refused, now_ns, &[stranger]), [stranger]);
        refused.told(&window(now_ns, &[stranger]), &Action::Park { tenant }, &Outcome::Done);
        refused.told(&window(now_ns, &[stranger]), &Action::Park { tenant }, &no);
        assert_eq!(covered(&mut refused, now_ns + FIRST_HOLD_NS, &[stranger]), [stranger], "as at first");
    }
}
