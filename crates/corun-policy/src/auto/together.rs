//! Who has a slot together.

use crate::controlled_contention::fitting;
use crate::slots::Member;
use corun_model::TenantId;

/// Who runs with the first in the queue: with one whom slots are for, each that still has a CPU for each of its CPU-bound
/// tasks; with one who loses nothing by sharing, all of its kind.
pub(super) fn together(queue: &[Member], cpus: u64, needs_slots: impl Fn(TenantId) -> bool) -> Vec<TenantId> {
    match queue.first() {
        Some(first) if !needs_slots(first.id) => {
            queue.iter().map(|m| m.id).filter(|id| !needs_slots(*id)).collect()
        }
        _ => fitting(queue, cpus),
    }
}
