//! Who has series of its own where there is no room for all: first whoever is asked for by its name, as a container or a step of Slurm
//! is, then who wanted most of the CPUs lately.
//!
//! **Lately** is a sum that halves every ten minutes. To take another one's place somebody must have wanted twice as much: places are
//! not to go to and fro.

use corun_model::{Ledger, TenantKind};
use std::cmp::Ordering;

/// How much more somebody must have wanted lately to take a place.
const MARGIN: f64 = 2.0;

/// What speaks for series of one's own.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    is_asked_for: bool,
    lately_ns: f64,
}

impl Claim {
    /// Of a tenant that has done nothing so far.
    pub fn new(kind: TenantKind) -> Claim {
        Claim { is_asked_for: is_asked_for(kind), lately_ns: 0.0 }
    }

    /// The same after a window in which it did this: what it got of the CPUs counts, and what it was kept from.
    #[must_use]
    pub fn after(self, did: &Ledger) -> Claim {
        let kept_ns = did.parts().steal_ns + did.parts().throttled_ns;
        Claim { lately_ns: self.lately_ns + (did.on_cpu_ns() + kept_ns) as f64, ..self }
    }

    /// Time has passed, of which so much is left.
    pub fn pass(&mut self, left: f64) {
        self.lately_ns *= left;
    }

    /// Whether it takes the place of one that has this claim.
    pub fn beats(&self, holder: &Claim) -> bool {
        match self.is_asked_for.cmp(&holder.is_asked_for) {
            Ordering::Equal => self.lately_ns > MARGIN * holder.lately_ns,
            other => other == Ordering::Greater,
        }
    }

    /// Which of two comes first where both want a place: that is the greater one.
    pub fn compare(&self, other: &Claim) -> Ordering {
        self.is_asked_for.cmp(&other.is_asked_for).then(self.lately_ns.total_cmp(&other.lately_ns))
    }
}

/// Whether whoever made it asks for it by its name, from its first moment on.
pub fn is_asked_for(kind: TenantKind) -> bool {
    use TenantKind::{Container, Pod, SlurmStep, Vm, VmIo};
    matches!(kind, Container | Pod | SlurmStep | Vm | VmIo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_asked_for_comes_first_and_among_equals_who_wanted_twice_as_much() {
        let claim = |kind, lately_ns| Claim { lately_ns, ..Claim::new(kind) };
        let step = |lately_ns| claim(TenantKind::SlurmStep, lately_ns);
        let unit = |lately_ns| claim(TenantKind::Unit, lately_ns);
        assert!(step(0.0).beats(&unit(9.0)) && !unit(9.0).beats(&step(0.0)));
        assert!(unit(9.0).beats(&unit(4.0)) && !unit(8.0).beats(&unit(4.0)));
        assert!(!unit(0.0).beats(&unit(0.0)) && unit(1.0).beats(&unit(0.0)));
        // Whoever takes a place is not sent away by the one that it was taken from.
        assert!(!unit(4.0).beats(&unit(9.0)));
        assert_eq!(step(0.0).compare(&unit(9.0)), Ordering::Greater);
    }
}
