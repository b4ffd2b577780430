//! Tenants that are here, since when, and what is remembered of each.

use crate::census::TenantUse;
use corun_model::{Observation, TenantId};
use std::collections::BTreeMap;

/// A tenant that is here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// Until when it is a newcomer; 0: it was there from the first.
    pub begun_ns: u64,
    seen_ns: u64,
    /// It was thought of when slots were tried.
    pub tried: bool,
    /// Slots cost it too much, since it waits for other things than CPUs: it is left alone until then.
    pub alone_until_ns: u64,
    alone_ns: u64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Everybody {
    of: BTreeMap<TenantId, Known>,
    has_looked: bool,
}

impl Everybody {
    /// Takes a window in. A newcomer's beginning is so long. Who is seen no more for twice as long has gone: a program that is
    /// started again is not there for a moment.
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

    /// Nothing is known of who is not here.
    pub fn get(&self, id: TenantId) -> Known {
        self.of.get(&id).copied().unwrap_or_default()
    }

    pub fn tried(&mut self, id: TenantId) {
        self.of.entry(id).or_default().tried = true;
    }

    /// Leaves one alone, for twice as long each time.
    pub fn leave_alone(&mut self, id: TenantId, now_ns: u64, first_ns: u64, longest_ns: u64) {
        let known = self.of.entry(id).or_default();
        known.alone_ns = (2 * known.alone_ns).clamp(first_ns, longest_ns);
        known.alone_until_ns = now_ns + known.alone_ns;
    }
}
