//! Why slots are kept, in a sentence.

use crate::census;
use crate::trial::Rates;
use corun_model::{Observation, TenantId};
use std::collections::BTreeMap;

/// By what whoever gains most does with slots and without.
pub(super) fn kept(seen: &Observation, rates: &BTreeMap<TenantId, Rates>, gain_milli: i64) -> String {
    let times = |r: &Rates| r.within * 100 / r.without.max(1);
    match rates.iter().max_by_key(|(_, r)| times(r)) {
        Some((id, r)) if gain_milli > 0 && times(r) >= 10_000 => {
            format!("kept: {} does next to nothing without", census::name(seen, *id))
        }
        Some((id, r)) if gain_milli > 0 => format!(
            "kept: {} does {}.{:02} times as much as without",
            census::name(seen, *id),
            times(r) / 100,
            times(r) % 100
        ),
        _ => "kept: they cost nobody anything, and what spins here cannot be seen".into(),
    }
}
