//! Culprits: which tenants held the CPU while a task waited for it.
//!
//! Like the ledger, [`Culprits`] can only be made if it is exact: shares plus `unattributed_ns` equal the steal (invariant 1).
//! Unresolved steal counts as unattributed, and is never spread.

use crate::tenant::TenantId;
use thiserror::Error;

/// One tenant's part of a task's steal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The tenant that held the CPU.
    pub tenant: TenantId,
    /// How long it held the CPU while the victim waited, in nanoseconds.
    pub steal_ns: u64,
}

/// The tenants that held the CPU during a victim's waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Culprits {
    /// Ordered by tenant; each tenant occurs once.
    shares: Vec<Share>,
    unattributed_ns: u64,
}

/// Shares and unattributed time do not sum to the steal they explain.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("culprits and unattributed sum to {sum_ns} ns but the steal is {steal_ns} ns")]
pub struct Unexplained {
    /// The sum.
    pub sum_ns: u64,
    /// The steal to explain.
    pub steal_ns: u64,
}

impl Culprits {
    /// Makes the account. Merges shares of the same tenant, and drops empty ones.
    ///
    /// # Errors
    /// [`Unexplained`] if shares and `unattributed_ns` do not sum to `steal_ns`.
    pub fn new(
        shares: impl IntoIterator<Item = Share>,
        unattributed_ns: u64,
        steal_ns: u64,
    ) -> Result<Culprits, Unexplained> {
        let made = Culprits::merge(shares, unattributed_ns);
        let sum_ns = made.total_ns();
        if sum_ns == steal_ns {
            Ok(made)
        } else {
            Err(Unexplained { sum_ns, steal_ns })
        }
    }

    /// An account without known culprits: all of `steal_ns` is unattributed.
    pub fn unknown(steal_ns: u64) -> Culprits {
        Culprits { shares: Vec::new(), unattributed_ns: steal_ns }
    }

    fn merge(shares: impl IntoIterator<Item = Share>, unattributed_ns: u64) -> Culprits {
        // Most tasks of a machine never wait. Nothing is allocated for them.
        let mut shares: Vec<Share> = shares.into_iter().filter(|s| s.steal_ns > 0).collect();
        shares.sort_unstable_by_key(|s| s.tenant);
        shares.dedup_by(|later, first| {
            let is_same = later.tenant == first.tenant;
            first.steal_ns += if is_same { later.steal_ns } else { 0 };
            is_same
        });
        Culprits { shares, unattributed_ns }
    }

    /// The culprits of `steal_ns`, an unspecified part of this steal: each share in proportion, rounded down. The rest from rounding is
    /// unattributed. A `steal_ns` above the total changes nothing.
    #[must_use]
    pub fn scaled_to(&self, steal_ns: u64) -> Culprits {
        let total_ns = self.total_ns();
        if steal_ns >= total_ns {
            return self.clone();
        }
        let scaled = |ns: u64| (u128::from(ns) * u128::from(steal_ns) / u128::from(total_ns)) as u64;
        let shares: Vec<Share> =
            self.shares.iter().map(|s| Share { steal_ns: scaled(s.steal_ns), ..*s }).collect();
        let given_ns: u64 = shares.iter().map(|s| s.steal_ns).sum();
        Culprits::merge(shares, steal_ns - given_ns)
    }

    /// The shares, by tenant.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// The shares, largest first; ties by tenant, so the order is stable.
    pub fn largest_first(&self) -> Vec<Share> {
        let mut shares = self.shares.clone();
        shares.sort_by_key(|s| (std::cmp::Reverse(s.steal_ns), s.tenant));
        shares
    }

    /// Unattributed steal, in nanoseconds.
    pub fn unattributed_ns(&self) -> u64 {
        self.unattributed_ns
    }

    /// The steal that this explains, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.unattributed_ns + self.shares.iter().map(|s| s.steal_ns).sum::<u64>()
    }

    /// One tenant's share in nanoseconds; 0 if it has none.
    pub fn of_ns(&self, tenant: TenantId) -> u64 {
        self.shares.binary_search_by_key(&tenant, |s| s.tenant).map_or(0, |i| self.shares[i].steal_ns)
    }

    /// Adds another account, in as many steps as both have shares: where hundreds share a CPU, each has hundreds of culprits in every
    /// window.
    pub fn add(&mut self, other: &Culprits) {
        self.unattributed_ns += other.unattributed_ns;
        let mut at = 0;
        let mut new: Vec<Share> = Vec::new();
        for share in &other.shares {
            while self.shares.get(at).is_some_and(|s| s.tenant < share.tenant) {
                at += 1;
            }
            match self.shares.get_mut(at).filter(|s| s.tenant == share.tenant) {
                Some(known) => known.steal_ns += share.steal_ns,
                None => new.push(*share),
            }
        }
        if !new.is_empty() {
            self.shares.extend(new);
            // Two ordered sequences, which a stable sort merges.
            self.shares.sort_by_key(|s| s.tenant);
        }
    }

    /// The sum of two accounts.
    #[must_use]
    pub fn plus(&self, other: &Culprits) -> Culprits {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(tenant: u32, steal_ns: u64) -> Share {
        Share { tenant: TenantId(tenant), steal_ns }
    }

    #[test]
    fn shares_that_do_not_explain_the_steal_are_refused() {
        assert!(Culprits::new([share(1, 10)], 5, 15).is_ok());
        let refused = Culprits::new([share(1, 10)], 4, 15).unwrap_err();
        assert_eq!(refused, Unexplained { sum_ns: 14, steal_ns: 15 });
    }

    #[test]
    fn shares_of_one_tenant_are_merged_and_can_be_had_by_tenant_or_the_largest_first() {
        let c = Culprits::new([share(2, 5), share(1, 1), share(1, 3), share(3, 0)], 0, 9).unwrap();
        assert_eq!(c.shares(), [share(1, 4), share(2, 5)]);
        assert_eq!(c.largest_first(), [share(2, 5), share(1, 4)]);
        assert_eq!(c.of_ns(TenantId(2)), 5);
        assert_eq!(c.of_ns(TenantId(9)), 0);
    }

    #[test]
    fn a_part_of_a_steal_is_blamed_in_proportion() {
        let all = Culprits::new([share(1, 60), share(2, 30)], 10, 100).unwrap();
        let part = all.scaled_to(51);
        assert_eq!((part.shares(), part.unattributed_ns()), (&[share(1, 30), share(2, 15)][..], 6));
        assert_eq!(all.scaled_to(200), all);
        assert_eq!(all.scaled_to(0), Culprits::unknown(0));
    }

    #[test]
    fn sums_keep_every_nanosecond() {
        let a = Culprits::new([share(1, 4)], 1, 5).unwrap();
        let b = Culprits::new([share(1, 2), share(2, 9)], 3, 14).unwrap();
        assert_eq!(a.plus(&b).total_ns(), 19);
        assert_eq!(a.plus(&b).of_ns(TenantId(1)), 6);
        assert_eq!(a.plus(&b), b.plus(&a));
        let c = Culprits::new([share(0, 1), share(3, 7)], 0, 8).unwrap();
        let sum = a.plus(&b).plus(&c);
        assert_eq!(sum.shares(), [share(0, 1), share(1, 6), share(2, 9), share(3, 7)]);
    }
}
