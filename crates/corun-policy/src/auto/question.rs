//! The question: do slots help? A sequential test ([`crate::sequential`]) on pairs of a period in which all tenants share and one in
//! which they take turns.
//!
//! **Rates** are useful CPU time (on a CPU and not known to spin) over the capacity of the same time. A tenant is **entitled** to its
//! fair share `f`, or to its rate while all shared if that is less. In slots its rate is its rate `r` while it runs, times the part of
//! the time that its party gets (`allocate.rs`). A random excess of slots does not count.
//!
//! ```text
//! before = min(without, f)     after = min(r part, f)
//! g_i = ln(after / before)     of a tenant that slots are for
//! g_i = min(0, ln(after / before))   of any other: what else it gains is for the kernel to give
//! g   = Σ w g_i / Σ w
//! ```
//!
//! Time beyond a fair share is not counted, so nobody loses anything that was not its own. The weight of a pair is the slots of its
//! first half times the tenants, since the mean of many scatters less. Slots are kept if the test says that `g` is above 0, and no
//! tenant is left more than [`NOTICEABLE_PERCENT`] below its entitlement.
//!
//! **If spinning cannot be seen**, `g` shows no gain for a program that waits busily. If there may be such a program, the test is about
//! the cost of slots: they are kept once it says that `-g` is not above [`NOTICEABLE_PERCENT`].

use super::numbers::{NOTICEABLE_PERCENT, SCATTER_PERCENT};
use super::period::Period;
use crate::census;
use crate::sequential::{Test, Verdict};
use corun_model::reason::Kept;
use corun_model::{Observation, TenantId};
use std::collections::BTreeMap;

/// A tenant in a question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub weight: u64,
    /// In thousandths of the capacity.
    pub fair_milli: u64,
    /// The part of the time in which its party runs, in thousandths.
    pub part_milli: u64,
    /// Whether slots are for it.
    pub needs: bool,
}

/// Rates in thousandths of the capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    pub share: Share,
    pub without: u64,
    pub within: u64,
}

impl Rates {
    fn entitled(&self) -> u64 {
        self.without.min(self.share.fair_milli)
    }

    /// What slots leave it of its entitlement, in thousandths.
    pub fn kept_milli(&self) -> u64 {
        self.within * 1_000 / self.entitled().max(1)
    }

    fn log_gain(&self) -> f64 {
        // A thousandth of a CPU is almost nothing, and its multiples have no meaning.
        let log = |rate: u64| (rate.max(1) as f64).ln();
        let gain = log(self.within.min(self.share.fair_milli)) - log(self.entitled());
        if self.share.needs {
            gain
        } else {
            gain.min(0.0)
        }
    }
}

/// The rates of each tenant without slots and with slots.
pub(super) fn rates(
    without: &Period,
    within: &Period,
    shares: &BTreeMap<TenantId, Share>,
) -> BTreeMap<TenantId, Rates> {
    let of = |(id, share): (&TenantId, &Share)| {
        let (without, running) = (without.of(*id)?.useful_milli(), within.of(*id)?.useful_milli());
        Some((*id, Rates { share: *share, without, within: running * share.part_milli / 1_000 }))
    };
    shares.iter().filter_map(of).collect()
}

/// The reason to keep slots: the rates of the tenant with the largest gain.
pub(super) fn why_kept(seen: &Observation, all: &BTreeMap<TenantId, Rates>, gain_milli: i64) -> Kept {
    let times_percent = |r: &Rates| r.within * 100 / r.without.max(1);
    let needs = all.iter().filter(|(_, r)| r.share.needs);
    match needs.max_by_key(|(_, r)| times_percent(r)).filter(|_| gain_milli > 0) {
        Some((id, r)) if times_percent(r) >= 10_000 => Kept::NothingWithout { who: census::name(seen, *id) },
        Some((id, r)) => Kept::More { who: census::name(seen, *id), times_percent: times_percent(r) },
        None => Kept::Free,
    }
}

/// The state of the question.
#[derive(Clone, Debug)]
pub(super) struct Question {
    helps: Test,
    costs: Test,
}

impl Default for Question {
    fn default() -> Question {
        let scatter = SCATTER_PERCENT as f64 / 100.0;
        let test = |least| Test::new(scatter, least);
        Question { helps: test(0.0), costs: test(NOTICEABLE_PERCENT as f64 / 100.0) }
    }
}

impl Question {
    pub fn pairs(&self) -> usize {
        self.helps.pairs()
    }

    /// The mean gain, in thousandths.
    pub fn gain_milli(&self) -> i64 {
        ((self.helps.mean().exp() - 1.0) * 1_000.0) as i64
    }

    /// Takes in a pair. `slots` is the number of slots in its first half.
    pub fn pair(&mut self, rates: &BTreeMap<TenantId, Rates>, slots: f64) {
        let weights: f64 = rates.values().map(|r| r.share.weight as f64).sum();
        let logs: f64 = rates.values().map(|r| r.share.weight as f64 * r.log_gain()).sum();
        if weights > 0.0 {
            let weight = slots * rates.len() as f64;
            self.helps.push(logs / weights, weight);
            self.costs.push(-logs / weights, weight);
        }
    }

    /// The answer. `may_spin` says that a tenant may spin unseen.
    pub fn verdict(&self, may_spin: bool) -> Verdict {
        match (self.helps.verdict(), may_spin) {
            (Verdict::Helps, _) => Verdict::Helps,
            (verdict, false) => verdict,
            (_, true) => match self.costs.verdict() {
                Verdict::Helps => Verdict::DoesNotHelp,
                Verdict::DoesNotHelp => Verdict::Helps,
                Verdict::Open => Verdict::Open,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenant with half of the machine as its fair share, and rates in thousandths.
    fn of(needs: bool, without: u64, within: u64) -> Rates {
        Rates { share: Share { weight: 100, fair_milli: 500, part_milli: 500, needs }, without, within }
    }

    fn asked(pairs: &[[Rates; 2]]) -> Question {
        let mut question = Question::default();
        for pair in pairs {
            let rates = pair.iter().enumerate().map(|(i, r)| (TenantId(i as u32), *r)).collect();
            question.pair(&rates, 4.0);
        }
        question
    }

    #[test]
    fn a_large_gain_is_kept_after_one_pair_and_a_smaller_one_after_several() {
        let large = [of(true, 200, 490), of(false, 660, 495)];
        assert_eq!(asked(&[large]).verdict(false), Verdict::Helps);
        let small = [of(true, 420, 490), of(false, 500, 495)];
        assert_eq!(asked(&[small]).verdict(false), Verdict::Open);
        assert_eq!(asked(&[small; 4]).verdict(false), Verdict::Helps);
    }

    #[test]
    fn beyond_a_fair_share_nothing_is_a_loss_and_without_a_need_nothing_is_a_gain() {
        let others_lose_what_was_not_theirs = [of(true, 200, 490), of(false, 900, 500)];
        assert_eq!(asked(&[others_lose_what_was_not_theirs]).gain_milli(), 565);
        let only_the_others_gain = [of(true, 480, 480), of(false, 300, 490)];
        assert_eq!(asked(&[only_the_others_gain; 2]).verdict(false), Verdict::DoesNotHelp);
    }

    #[test]
    fn if_spinning_may_be_hidden_slots_are_kept_unless_they_cost_something() {
        let free = [of(true, 500, 490), of(false, 500, 495)];
        assert_eq!(asked(&[free; 2]).verdict(false), Verdict::DoesNotHelp);
        assert_eq!(asked(&[free; 2]).verdict(true), Verdict::Helps);
        let dear = [of(true, 500, 490), of(false, 500, 300)];
        assert_eq!(asked(&[dear; 2]).verdict(true), Verdict::DoesNotHelp);
    }
}
