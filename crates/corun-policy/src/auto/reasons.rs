//! Why slots are kept.

use crate::census;
use crate::trial::Rates;
use corun_model::reason::Kept;
use corun_model::{Observation, TenantId};
use std::collections::BTreeMap;

/// By what whoever gains most does with slots and without.
pub(super) fn kept(seen: &Observation, rates: &BTreeMap<TenantId, Rates>, gain_milli: i64) -> Kept {
    let times_percent = |r: &Rates| r.within * 100 / r.without.max(1);
    match rates.iter().max_by_key(|(_, r)| times_percent(r)).filter(|_| gain_milli > 0) {
        Some((id, r)) if times_percent(r) >= 10_000 => Kept::NothingWithout { who: census::name(seen, *id) },
        Some((id, r)) => Kept::More { who: census::name(seen, *id), times_percent: times_percent(r) },
        None => Kept::Free,
    }
}
