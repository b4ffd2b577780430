//! Which tenants get series of their own if there is no room for all. First come those that people ask for by
//! name, such as a container or a step of Slurm; then those that wanted most of the CPUs lately.
//!
//! **Lately** is a sum that halves every ten minutes. A tenant must have wanted twice as much to take another
//! one's place, so that places do not flip back and forth.

use corun_model::{Ledger, TenantKind};
use std::cmp::Ordering;

/// How much more a tenant must have wanted lately to take a place.
const MARGIN: f64 = 2.0;

/// A tenant's claim to series of its own.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    is_asked_for: bool,
    lately_ns: f64,
}

impl Claim {
    /// The claim of a tenant that has done nothing so far.
    pub fn new(kind: TenantKind) -> Claim {
        Claim { is_asked_for: is_asked_for(kind), lately_ns: 0.0 }
    }

    /// The claim after a window with this activity: the CPU time that it got counts, and the time that it was
    /// kept from.
    #[must_use]
    pub fn after(self, did: &Ledger) -> Claim {
        let kept_ns = did.parts().steal_ns + did.parts().throttled_ns;
        Claim { lately_ns: self.lately_ns + (did.on_cpu_ns() + kept_ns) as f64, ..self }
    }

    /// Time has passed, so this factor of it is left.
    pub fn pass(&mut self, left: f64) {
        self.lately_ns *= left;
    }

    /// Whether it takes the place of one with this claim.
    pub fn beats(&self, holder: &Claim) -> bool {
        match self.is_asked_for.cmp(&holder.is_asked_for) {
            Ordering::Equal => self.lately_ns > MARGIN * holder.lately_ns,
            other => other == Ordering::Greater,
        }
    }

    /// The order of two that want a place: the greater one comes first.
    pub fn compare(&self, other: &Claim) -> Ordering {
        self.is_asked_for.cmp(&other.is_asked_for).then(self.lately_ns.total_cmp(&other.lately_ns))
    }
}

/// Whether people ask for it by name, from its first moment on.
pub fn is_asked_for(kind: TenantKind) -> bool {
    use TenantKind::{Container, Pod, SlurmStep, Vm, VmIo};
    matches!(kind, Container | Pod | SlurmStep | Vm | VmIo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_with_a_known_name_comes_first_and_among_equals_the_one_that_wanted_twice_as_much() {
        let claim = |kind, lately_ns| Claim { lately_ns, ..Claim::new(kind) };
        let step = |lately_ns| claim(TenantKind::SlurmStep, lately_ns);
        let unit = |lately_ns| claim(TenantKind::Unit, lately_ns);
        assert!(step(0.0).beats(&unit(9.0)) && !unit(9.0).beats(&step(0.0)));
        assert!(unit(9.0).beats(&unit(4.0)) && !unit(8.0).beats(&unit(4.0)));
        assert!(!unit(0.0).beats(&unit(0.0)) && unit(1.0).beats(&unit(0.0)));
        // A tenant that takes a place does not lose it to the previous owner.
        assert!(!unit(4.0).beats(&unit(9.0)));
        assert_eq!(step(0.0).compare(&unit(9.0)), Ordering::Greater);
    }
}
