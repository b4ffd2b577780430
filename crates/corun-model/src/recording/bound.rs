//! A bound on one window with any number of tenants and tasks. The rest is summed, and nothing is lost from sums.

use super::together::{lesser_into_others, others};
use crate::culprit::{Culprits, Share};
use crate::observation::{Account, Observation, TaskObservation};
use crate::tenant::{Tenant, TenantId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How much of a window is kept in detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Tenants. Beyond this, those that ran least become `others`.
    pub tenants: usize,
    /// Tasks. Beyond this, those that ran and waited least are only in the sums of tenants.
    pub tasks: usize,
    /// Culprits of one account. Beyond this, those with the least become `others`.
    pub culprits: usize,
}

/// Reduces a window to at most that.
pub fn bound(seen: &mut Observation, most: &Most) {
    while seen.tenants.len() > most.tenants {
        let before = seen.tenants.len();
        lesser_into_others(seen, |t| t.kind.is_controllable());
        if seen.tenants.len() >= before {
            break;
        }
    }
    if seen.tasks.len() > most.tasks {
        let stirred_ns =
            |t: &TaskObservation| t.account.ledger.total_ns() - t.account.ledger.parts().block_ns;
        let mut order: Vec<usize> = (0..seen.tasks.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(stirred_ns(&seen.tasks[at])));
        let gone: BTreeSet<usize> = order.into_iter().skip(most.tasks).collect();
        let mut at = 0;
        seen.tasks.retain(|_| {
            at += 1;
            !gone.contains(&(at - 1))
        });
        seen.loss.unlisted_tasks += gone.len() as u64;
    }
    let others = others(seen);
    let mut is_needed = false;
    let mut accounts: Vec<&mut Account> = seen.by_tenant.iter_mut().map(|t| &mut t.account).collect();
    for task in &mut seen.tasks {
        if task.account.culprits.shares().len() > most.culprits {
            accounts.push(Arc::make_mut(&mut task.account));
        }
    }
    for account in accounts {
        if let Some(culprits) = bounded(&account.culprits, most.culprits, others.id) {
            account.culprits = culprits;
            is_needed = true;
        }
    }
    add_tenant(seen, others, is_needed);
}

fn add_tenant(seen: &mut Observation, others: Tenant, is_needed: bool) {
    if let (Err(at), true) = (seen.tenants.binary_search_by_key(&others.id, |t| t.id), is_needed) {
        seen.tenants.insert(at, others);
    }
}

/// The culprits, with the smallest ones joined. `None` if there are not too many.
fn bounded(culprits: &Culprits, most: usize, others: TenantId) -> Option<Culprits> {
    if culprits.shares().len() <= most {
        return None;
    }
    let mut shares = culprits.largest_first();
    let rest_ns = shares.drain(most.saturating_sub(1)..).map(|s| s.steal_ns).sum();
    shares.push(Share { tenant: others, steal_ns: rest_ns });
    let made = Culprits::new(shares, culprits.unattributed_ns(), culprits.total_ns());
    Some(made.expect("the same shares under fewer names"))
}
