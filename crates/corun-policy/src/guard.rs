//! The guard: does a policy help? Short periods with and without it alternate, and the guard measures its
//! gain.
//!
//! Method: the value of a period for a tenant is its share of useful CPU time (on a CPU and not known to
//! spin). A pair is a period without the policy and the following one with it. Its gain is the mean over
//! tenants of `ln(with / without)`, so that no gain at another tenant's cost goes unnoticed. After each pair,
//! from the second on, a sequential test (`sequential.rs`) says whether the mean gain is above
//! [`LEAST_GAIN`]. One pair does not show how much pairs scatter here. If the gain is above it, the policy is
//! kept. The policy is stopped if it is not, or if [`PAIRS`] pairs have not shown it. A kept policy is
//! measured again after a while, which doubles each time.
//!
//! A pair does not count if the policy did nothing in it, or if a tenant that wants CPUs came or went: then
//! the gain of others is not the policy's. The guard waits for a policy that is still searching (`dc=auto`),
//! up to [`PATIENCE`] periods: its gain during trials does not show its later gain.
//!
//! A tenant may get no useful time in one of the two periods. If it had no work then, like a server without
//! requests, it does not count. If it wanted a CPU in vain for at least [`LEAST_PER_MILLE`] of a CPU, it
//! counts as a loss or a gain. In vain means runnable but not running, spinning, or parked all along.
//! Anything below [`NEXT_TO_NOTHING`] counts as that much, since zero has no logarithm.
//!
//! Limits: useful time is as good as the host's knowledge of spinning. If a program changes faster than a
//! period, chance decides. The guard does not see a gain in latency alone. If a tenant is parked all along
//! and its sleeping tasks are not parked with it (sched_ext), it is unknown whether the tenant has work.

use crate::sequential::{Test, Verdict};
use corun_model::ledger::Parts;
use corun_model::{Observation, Policy, Tenant, TenantId};
use std::collections::BTreeMap;

/// The most pairs of periods for a finding.
pub use crate::sequential::PAIRS;
/// The least gain of a policy that is kept.
pub const LEAST_GAIN: f64 = 0.01;
/// How much the log gain of a pair scatters by chance.
const SCATTER: f64 = 0.05;
/// This many pairs show how much they scatter.
const FEWEST: usize = 2;
/// Tenants below this share of one CPU, in thousandths, do not count.
const LEAST_PER_MILLE: u64 = 20;
const LEAST: f64 = LEAST_PER_MILLE as f64 / 1000.0;
/// A share of one CPU that counts as nothing.
const NEXT_TO_NOTHING: f64 = 0.001;
/// How long a finding holds at first, in periods.
const HOLD: u64 = 20;
/// How long the guard waits for a policy that searches, in periods over all.
const PATIENCE: u64 = 30;

/// The length of a period: this many epochs, this many times the distance of the policy's windows, and at
/// least [`PERIOD_NS`].
const PERIOD_EPOCHS: u64 = 16;
const PERIOD_WINDOWS: u64 = 2;
const PERIOD_NS: u64 = 1_000_000_000;

/// The length of a period over a policy that decides once in `epoch_ns`, in nanoseconds.
pub fn period_ns(policy: &dyn Policy, epoch_ns: u64) -> u64 {
    let windows_ns = PERIOD_WINDOWS.saturating_mul(policy.windows_every_ns().unwrap_or(0));
    PERIOD_NS.max(PERIOD_EPOCHS.saturating_mul(epoch_ns)).max(windows_ns)
}

/// What the guard wants for the next epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// The policy decides.
    With,
    /// Everything is as without the policy.
    Without,
}

/// The result so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finding {
    /// The observations do not suffice yet.
    Measuring {
        /// Complete pairs so far.
        pairs: usize,
    },
    /// It helps. A mean gain of 0.2 is a fifth more useful time.
    Helps {
        /// The mean gain.
        gain: f64,
    },
    /// It does not help, and is stopped for good.
    DoesNotHelp {
        /// The mean gain.
        gain: f64,
    },
}

/// A tenant's CPU time and unmet demand in a period: shares of one CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    useful: f64,
    /// The time in which it wanted a CPU in vain.
    in_vain: f64,
}

impl Share {
    fn of(parts: &Parts, period_ns: u64) -> Share {
        // A parked task may have had nothing to do. If it sleeps voluntarily when it is released, that is the
        // case.
        let is_parked_all_along = parts.block_ns * 1_000 < LEAST_PER_MILLE * period_ns;
        let parked_ns = if is_parked_all_along { parts.parked_ns } else { 0 };
        let share = |ns: u64| ns as f64 / period_ns as f64;
        let in_vain = share(parts.steal_ns + parts.spin_ns.unwrap_or(0) + parked_ns);
        Share { useful: share(parts.compute_ns), in_vain }
    }

    /// Whether it had work, done or not.
    fn wanted(&self) -> bool {
        self.useful > 0.0 || self.in_vain >= LEAST
    }
}

/// The data of a pair of periods until it is complete.
#[derive(Clone, Debug, Default)]
struct Pair {
    /// The shares of tenants in its first period, once that is over.
    without: Option<BTreeMap<TenantId, Share>>,
    /// The number of its epochs in which each tenant was there, and the number of all its epochs.
    present: BTreeMap<TenantId, u32>,
    epochs: u32,
    /// Whether the policy has done anything in it.
    has_acted: bool,
}

impl Pair {
    /// Whether a tenant was there all the time, or wanted almost no CPU time.
    fn stayed(&self, id: TenantId, share: &Share) -> bool {
        share.useful + share.in_vain < LEAST || self.present.get(&id) == Some(&self.epochs)
    }
}

/// Watches over a policy.
#[derive(Clone, Debug)]
pub struct Guard {
    period_ns: u64,
    arm: Arm,
    spent_ns: u64,
    spent: BTreeMap<TenantId, Parts>,
    pair: Pair,
    test: Test,
    finding: Finding,
    hold: u64,
    held_ns: u64,
    searched_ns: u64,
}

impl Guard {
    /// A guard whose periods have this length, in nanoseconds: long against the policy's epochs and slots.
    pub fn new(period_ns: u64) -> Guard {
        Guard {
            period_ns: period_ns.max(1),
            arm: Arm::Without,
            spent_ns: 0,
            spent: BTreeMap::new(),
            pair: Pair::default(),
            test: new_test(),
            finding: Finding::Measuring { pairs: 0 },
            hold: HOLD,
            held_ns: 0,
            searched_ns: 0,
        }
    }

    /// A guard for a policy that decides once in `epoch_ns`.
    pub fn over(policy: &dyn Policy, epoch_ns: u64) -> Guard {
        Guard::new(period_ns(policy, epoch_ns))
    }

    /// Its wish for now.
    pub fn arm(&self) -> Arm {
        self.arm
    }

    /// Its finding.
    pub fn finding(&self) -> Finding {
        self.finding
    }

    /// The policy has changed something.
    pub fn acted(&mut self) {
        self.pair.has_acted = true;
    }

    /// Takes in an epoch that followed its wish; `counts` says which tenants count.
    pub fn push(&mut self, seen: &Observation, counts: impl Fn(&Tenant) -> bool) -> Arm {
        if let Finding::DoesNotHelp { .. } = self.finding {
            return Arm::Without;
        }
        if let Finding::Helps { .. } = self.finding {
            self.held_ns += seen.window_ns();
            if self.held_ns >= self.hold * self.period_ns {
                self.hold *= 2;
                self.begin_again();
            }
            return self.arm;
        }
        self.spent_ns += seen.window_ns();
        self.pair.epochs += 1;
        for t in &seen.by_tenant {
            if seen.tenant(t.id).is_some_and(&counts) {
                *self.pair.present.entry(t.id).or_default() += 1;
                let (sum, more) = (self.spent.entry(t.id).or_default(), t.account.ledger.parts());
                sum.compute_ns += more.compute_ns;
                *sum.spin_ns.get_or_insert(0) += more.spin_ns.unwrap_or(0);
                sum.block_ns += more.block_ns;
                sum.steal_ns += more.steal_ns;
                sum.parked_ns += more.parked_ns;
            }
        }
        if self.spent_ns >= self.period_ns {
            self.close();
        }
        self.arm
    }

    /// Takes in an epoch in which the policy only tried something. Like [`push`](Guard::push), but the period
    /// starts again.
    pub fn push_trial(&mut self, seen: &Observation, counts: impl Fn(&Tenant) -> bool) -> Arm {
        let measures = matches!(self.finding, Finding::Measuring { .. }) && self.arm == Arm::With;
        if !measures || self.searched_ns >= PATIENCE * self.period_ns {
            return self.push(seen, counts);
        }
        self.searched_ns += seen.window_ns();
        self.next(Arm::With);
        self.arm
    }

    fn begin_again(&mut self) {
        self.held_ns = 0;
        self.test = new_test();
        self.pair = Pair::default();
        self.finding = Finding::Measuring { pairs: 0 };
        self.next(Arm::Without);
    }

    fn next(&mut self, arm: Arm) {
        self.arm = arm;
        self.spent_ns = 0;
        self.spent.clear();
    }

    fn close(&mut self) {
        let shares: BTreeMap<TenantId, Share> =
            self.spent.iter().map(|(id, parts)| (*id, Share::of(parts, self.spent_ns))).collect();
        match self.pair.without.take() {
            None => {
                self.pair.without = Some(shares);
                self.next(Arm::With);
            }
            Some(without) => {
                let pair = std::mem::take(&mut self.pair);
                // A pair that shows nothing is not counted.
                let is_like =
                    pair.has_acted && without.iter().chain(&shares).all(|(id, s)| pair.stayed(*id, s));
                if let Some(gain) = log_gain(&without, &shares).filter(|_| is_like) {
                    self.test.push(gain, 1.0);
                }
                self.judge();
            }
        }
    }

    fn judge(&mut self) {
        let gain = self.test.mean().exp() - 1.0;
        let verdict = if self.test.pairs() >= FEWEST { self.test.verdict() } else { Verdict::Open };
        let (finding, arm) = match verdict {
            Verdict::Open => (Finding::Measuring { pairs: self.test.pairs() }, Arm::Without),
            Verdict::Helps => (Finding::Helps { gain }, Arm::With),
            Verdict::DoesNotHelp => (Finding::DoesNotHelp { gain }, Arm::Without),
        };
        self.finding = finding;
        self.next(arm);
    }
}

fn new_test() -> Test {
    Test::new(SCATTER, LEAST_GAIN.ln_1p())
}

/// The mean of `ln(with / without)` over the tenants that had work in both; `None` without any.
fn log_gain(without: &BTreeMap<TenantId, Share>, with: &BTreeMap<TenantId, Share>) -> Option<f64> {
    let logs: Vec<f64> = without
        .iter()
        .filter_map(|(id, before)| Some((*before, *with.get(id)?)))
        .filter(|(before, after)| before.wanted() && after.wanted())
        .map(|(before, after)| (before.useful, after.useful))
        .filter(|(before, after)| before.max(*after) >= LEAST)
        .map(|(before, after)| (after.max(NEXT_TO_NOTHING) / before.max(NEXT_TO_NOTHING)).ln())
        .collect();
    (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::{Account, TenantObservation};
    use corun_model::{Ledger, TenantKind};

    const EPOCH_NS: u64 = 100;

    /// An epoch in which tenants computed this much.
    fn epoch(compute_ns: &[u64]) -> Observation {
        let computed = |ns: &u64| Parts { compute_ns: *ns, ..Parts::default() };
        epoch_of(&compute_ns.iter().map(computed).collect::<Vec<_>>())
    }

    /// An epoch in which tenants spent their time like this.
    fn epoch_of(spent: &[Parts]) -> Observation {
        let tenant = |i: usize| Tenant {
            id: TenantId(i as u32),
            kind: TenantKind::Command,
            key: format!("k{i}"),
            name: format!("t{i}"),
        };
        let account = |parts: &Parts| Account {
            ledger: Ledger::new(*parts, parts.sum_ns()).unwrap(),
            ..Account::default()
        };
        Observation {
            start_ns: 0,
            end_ns: EPOCH_NS,
            tenants: (0..spent.len()).map(tenant).collect(),
            by_tenant: spent
                .iter()
                .enumerate()
                .map(|(i, of)| TenantObservation { id: TenantId(i as u32), tasks: 1, account: account(of) })
                .collect(),
            ..Observation::default()
        }
    }

    /// Runs the guard on a machine that gives tenants this much useful time with and without the policy.
    fn run(without: &[u64], with: &[u64], epochs: usize) -> Guard {
        let mut guard = Guard::new(5 * EPOCH_NS);
        for _ in 0..epochs {
            let seen = epoch(if guard.arm() == Arm::With { with } else { without });
            guard.acted();
            guard.push(&seen, |_| true);
        }
        guard
    }

    #[test]
    fn a_policy_that_gives_all_tenants_more_useful_time_is_kept() {
        let guard = run(&[40, 40], &[60, 50], 30);
        let Finding::Helps { gain } = guard.finding() else { panic!("{:?}", guard.finding()) };
        assert!((gain - (1.5f64 * 1.25).sqrt() + 1.0).abs() < 1e-9, "{gain}");
        assert_eq!(guard.arm(), Arm::With);
    }

    #[test]
    fn a_policy_that_only_moves_time_from_one_to_another_is_stopped_for_good() {
        let guard = run(&[50, 50], &[90, 10], 300);
        assert!(matches!(guard.finding(), Finding::DoesNotHelp { gain } if gain < 0.0));
        assert_eq!(guard.arm(), Arm::Without);
    }

    /// The guard's finding if one tenant computes half of the time without the policy and all of it with it.
    /// Another computes for `had` without the policy, and spends its time like this with it.
    fn beside(had: u64, spends: Parts) -> Finding {
        let mut guard = Guard::new(5 * EPOCH_NS);
        let computes = |compute_ns| Parts { compute_ns, ..Parts::default() };
        for _ in 0..30 {
            let with = guard.arm() == Arm::With;
            let spent = if with { [computes(100), spends] } else { [computes(50), computes(had)] };
            guard.acted();
            guard.push(&epoch_of(&spent), |_| true);
        }
        guard.finding()
    }

    #[test]
    fn a_tenant_that_gets_nothing_under_a_policy_counts_as_a_loss() {
        let nothing = Parts::default();
        for starved in [
            Parts { steal_ns: 100, ..nothing },
            Parts { steal_ns: 20, block_ns: 80, ..nothing },
            Parts { parked_ns: 100, ..nothing },
            Parts { spin_ns: Some(100), ..nothing },
        ] {
            let found = beside(50, starved);
            assert!(matches!(found, Finding::DoesNotHelp { gain } if gain < -0.9), "{starved:?}: {found:?}");
        }
    }

    #[test]
    fn a_tenant_without_work_does_not_count_as_starved() {
        let nothing = Parts::default();
        for idle in [
            Parts { block_ns: 100, ..nothing },
            Parts { block_ns: 99, steal_ns: 1, ..nothing },
            // It was parked in the slots of others, and slept in its own.
            Parts { block_ns: 25, parked_ns: 75, ..nothing },
            nothing,
        ] {
            let found = beside(50, idle);
            assert!(matches!(found, Finding::Helps { gain } if gain > 0.9), "{idle:?}: {found:?}");
        }
        // It was parked all along, but it had almost no work before either.
        let found = beside(1, Parts { parked_ns: 100, ..nothing });
        assert!(matches!(found, Finding::Helps { .. }), "{found:?}");
    }

    #[test]
    fn a_policy_that_ends_starvation_gains_much_but_within_bounds() {
        let mut guard = Guard::new(5 * EPOCH_NS);
        let nothing = Parts::default();
        for _ in 0..30 {
            let with = guard.arm() == Arm::With;
            let starved = Parts { steal_ns: 100, ..nothing };
            let spent = if with { Parts { compute_ns: 50, ..nothing } } else { starved };
            guard.acted();
            guard.push(&epoch_of(&[Parts { compute_ns: 50, ..nothing }, spent]), |_| true);
        }
        let Finding::Helps { gain } = guard.finding() else { panic!("{:?}", guard.finding()) };
        assert!((gain - 500f64.sqrt() + 1.0).abs() < 1e-6, "{gain}");
    }

    #[test]
    fn the_guard_alternates_with_and_without_before_a_finding() {
        let guard = run(&[40, 40], &[44, 44], 11);
        assert_eq!(guard.finding(), Finding::Measuring { pairs: 1 });
        let guard = run(&[40, 40], &[44, 44], 10 * PAIRS);
        assert!(matches!(guard.finding(), Finding::Helps { .. }), "{:?}", guard.finding());
    }

    #[test]
    fn a_large_gain_is_believed_after_two_pairs_and_not_after_one() {
        assert_eq!(run(&[40, 40], &[60, 50], 10).finding(), Finding::Measuring { pairs: 1 });
        assert!(matches!(run(&[40, 40], &[60, 50], 20).finding(), Finding::Helps { .. }));
    }

    #[test]
    fn a_policy_that_did_nothing_has_gained_nothing() {
        let mut guard = Guard::new(5 * EPOCH_NS);
        for _ in 0..40 {
            guard.push(&epoch(if guard.arm() == Arm::With { &[60, 50] } else { &[40, 40] }), |_| true);
        }
        assert_eq!(guard.finding(), Finding::Measuring { pairs: 0 });
    }

    #[test]
    fn a_gain_since_another_tenant_came_or_went_is_not_the_policys() {
        for (without, with) in [(&[50, 50][..], &[90][..]), (&[90], &[50, 50])] {
            assert_eq!(run(without, with, 40).finding(), Finding::Measuring { pairs: 0 }, "{with:?}");
        }
        // It ends in the middle of a period.
        let mut guard = Guard::new(5 * EPOCH_NS);
        for n in 0..10 {
            guard.acted();
            guard.push(&epoch(if n < 7 { &[50, 50] } else { &[90] }), |_| true);
        }
        assert_eq!(guard.finding(), Finding::Measuring { pairs: 0 });
        assert!(
            matches!(run(&[50, 1], &[90], 40).finding(), Finding::Helps { .. }),
            "it wanted next to nothing"
        );
    }

    #[test]
    fn a_policy_that_searches_is_judged_by_its_result_but_the_guard_does_not_wait_for_ever() {
        let trials = 2 * 5;
        let mut guard = Guard::new(5 * EPOCH_NS);
        let mut tried = 0;
        for _ in 0..40 {
            guard.acted();
            if guard.arm() == Arm::With && tried < trials {
                tried += 1;
                guard.push_trial(&epoch(&[1, 1]), |_| true);
            } else {
                let with = guard.arm() == Arm::With;
                guard.push(&epoch(if with { &[60, 50] } else { &[40, 40] }), |_| true);
            }
        }
        assert!(tried == trials && matches!(guard.finding(), Finding::Helps { .. }), "{:?}", guard.finding());
        let mut guard = Guard::new(5 * EPOCH_NS);
        for _ in 0..5 * (PATIENCE + 10) {
            guard.acted();
            guard.push_trial(&epoch(&[40, 40]), |_| true);
        }
        assert!(matches!(guard.finding(), Finding::DoesNotHelp { .. }), "{:?}", guard.finding());
    }

    #[test]
    fn a_kept_policy_is_measured_again() {
        let mut guard = run(&[40], &[60], 30);
        let holds = HOLD * 5;
        let arms: Vec<Arm> = (0..holds).map(|_| guard.push(&epoch(&[60]), |_| true)).collect();
        assert!(arms.contains(&Arm::Without));
    }

    #[test]
    fn tenants_out_of_scope_and_idle_ones_do_not_count() {
        let mut guard = Guard::new(EPOCH_NS);
        for _ in 0..20 {
            guard.acted();
            guard.push(&epoch(&[1, 1]), |t| t.name == "t0");
        }
        assert_eq!(guard.finding(), Finding::Measuring { pairs: 0 });
    }
}
