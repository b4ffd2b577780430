//! The present tenants, since when they are here, and what is remembered of each.

use crate::census::TenantUse;
use corun_model::{Observation, TenantId};
use std::collections::BTreeMap;

/// A present tenant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// It is a newcomer until then; 0 if it was there from the beginning.
    pub begun_ns: u64,
    seen_ns: u64,
    /// Whether it took part when slots were tried.
    pub tried: bool,
    /// It is left alone until then, because slots cost it too much: it waits for other things than CPUs.
    pub alone_until_ns: u64,
    alone_ns: u64,
}

/// All present tenants.
#[derive(Clone, Debug, Default)]
pub(super) struct Everybody {
    of: BTreeMap<TenantId, Known>,
    has_looked: bool,
}

impl Everybody {
    /// Takes in a window. A tenant is a newcomer for `beginning_ns`. One that is not seen for twice as long has gone: a program that is
    /// started again is absent for a moment.
    pub fn look(&mut self, seen: &Observation, uses: &[TenantUse], beginning_ns: u64) {
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let came_ns = |id: TenantId| {
            let born = seen.tasks.iter().filter(|t| t.tenant == id).map(|t| t.born_ns.max(seen.start_ns));
            born.min().unwrap_or(seen.start_ns)
        };
        for u in uses {
            let begun_ns = || if is_first { 0 } else { came_ns(u.id) + beginning_ns };
            let new = || Known { begun_ns: begun_ns(), ..Known::default() };
            self.of.entry(u.id).or_insert_with(new).seen_ns = seen.end_ns;
        }
        self.of.retain(|_, known| seen.end_ns <= known.seen_ns + 2 * beginning_ns);
    }

    pub fn is_here(&self, id: TenantId) -> bool {
        self.of.contains_key(&id)
    }

    /// Nothing is known about an absent tenant.
    pub fn get(&self, id: TenantId) -> Known {
        self.of.get(&id).copied().unwrap_or_default()
    }

    pub fn tried(&mut self, id: TenantId) {
        self.of.entry(id).or_default().tried = true;
    }

    /// Leaves a tenant alone, for twice as long each time.
    pub fn leave_alone(&mut self, id: TenantId, now_ns: u64, first_ns: u64, longest_ns: u64) {
        let known = self.of.entry(id).or_default();
        known.alone_ns = (2 * known.alone_ns).clamp(first_ns, longest_ns);
        known.alone_until_ns = now_ns + known.alone_ns;
    }
}
