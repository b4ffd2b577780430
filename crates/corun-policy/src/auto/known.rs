//! Tenants that are here, since when, and what is remembered of each.

use crate::census::TenantUse;
use crate::trial::Shared;
use corun_model::{Observation, TenantId};
use std::collections::BTreeMap;

/// Who has less than this part of its fair share, in hundredths, in so many long watches on end is left out by the kernel.
const LEFT_OUT_PERCENT: u64 = 33;
const LEFT_OUT_WATCHES: u32 = 5;

/// A tenant that is here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// Until when it is a newcomer; 0: it was there from the first.
    pub(super) begun_ns: u64,
    /// When it was last seen.
    seen_ns: u64,
    /// It was thought of when slots were tried.
    pub(super) tried: bool,
    /// It fell below what it is entitled to and waits for other things than CPUs: it is left alone until then.
    pub(super) alone_until_ns: u64,
    pub(super) alone_ns: u64,
    /// Long watches on end in which it had next to nothing.
    left_out: u32,
}

impl Known {
    /// It is kept from its share for so long that it is to be helped whether its tasks wait for each other or not.
    pub(super) fn is_left_out(&self) -> bool {
        self.left_out >= LEFT_OUT_WATCHES
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Everybody {
    of: BTreeMap<TenantId, Known>,
    has_looked: bool,
}

impl Everybody {
    /// Takes a window in. A newcomer's beginning is so long; who is seen no more for `gone_ns` has gone: programs that are
    /// started again are not there for a moment.
    pub(super) fn look(&mut self, seen: &Observation, uses: &[TenantUse], beginning_ns: u64, gone_ns: u64) {
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let came_ns = |id: TenantId| {
            let born = seen.tasks.iter().filter(|t| t.tenant == id).map(|t| t.born_ns.max(seen.start_ns));
            born.min().unwrap_or(seen.start_ns)
        };
        for u in uses {
            let begun_ns = || if is_first { 0 } else { came_ns(u.id) + beginning_ns };
            let known =
                self.of.entry(u.id).or_insert_with(|| Known { begun_ns: begun_ns(), ..Known::default() });
            known.seen_ns = seen.end_ns;
        }
        self.of.retain(|_, known| seen.end_ns <= known.seen_ns + gone_ns);
    }

    pub(super) fn has_looked(&self) -> bool {
        self.has_looked
    }

    pub(super) fn is_here(&self, id: TenantId) -> bool {
        self.of.contains_key(&id)
    }

    /// Nothing is known of who is not here.
    pub(super) fn get(&self, id: TenantId) -> Known {
        self.of.get(&id).copied().unwrap_or_default()
    }

    pub(super) fn tried(&mut self, id: TenantId) {
        self.of.entry(id).or_default().tried = true;
    }

    /// Remembers who had next to nothing in a long watch.
    pub(super) fn weigh(&mut self, found: &[(TenantId, Shared)]) {
        for (id, shared) in found {
            let had_nothing = shared.useful_milli * 100 < shared.fair_milli * LEFT_OUT_PERCENT;
            let known = self.of.entry(*id).or_default();
            known.left_out = if had_nothing { known.left_out + 1 } else { 0 };
        }
    }

    /// Leaves one alone, for twice as long each time.
    pub(super) fn leave_alone(&mut self, id: TenantId, now_ns: u64, first_ns: u64, longest_ns: u64) {
        let known = self.of.entry(id).or_default();
        known.alone_ns = (2 * known.alone_ns).clamp(first_ns, longest_ns);
        known.alone_until_ns = now_ns + known.alone_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Waits;

    const ID: TenantId = TenantId(1);

    /// What a long watch found of one that should have a CPU.
    fn had(useful_milli: u64) -> [(TenantId, Shared); 1] {
        let shared = Shared {
            weight: 100,
            want_milli: 2_000,
            fair_milli: 1_000,
            useful_milli,
            waits: Waits::No,
            may_spin: false,
        };
        [(ID, shared)]
    }

    #[test]
    fn who_has_next_to_nothing_for_a_second_is_left_out_and_no_more_once_it_has_its_share() {
        let mut everybody = Everybody::default();
        let is_left_out = |everybody: &Everybody| everybody.get(ID).is_left_out();
        for _ in 1..LEFT_OUT_WATCHES {
            everybody.weigh(&had(200));
        }
        assert!(!is_left_out(&everybody), "for a moment anybody may be");
        everybody.weigh(&had(200));
        assert!(is_left_out(&everybody));
        everybody.weigh(&had(600));
        assert!(!is_left_out(&everybody));
    }
}
