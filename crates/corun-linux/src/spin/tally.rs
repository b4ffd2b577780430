//! From judged samples to spin time with an interval. Pure.
//!
//! Samples are spread evenly over a task's time on a CPU. So the spinning part of the samples is the spinning
//! part of the time. The interval is Wilson's, which stays inside 0 to 1 and keeps its width at either end.
//! Samples that could not be judged may be either, and widen the interval on both sides. Samples that were
//! skipped because they were alone in their place do so, too, but hardly spin: a spinning task visits the
//! same few places again and again.

use super::outcome::Outcome;
use corun_model::proportion::wilson;
use corun_model::spin::{SpinEstimate, SpinMethod};
use std::collections::BTreeMap;

/// A loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoopId {
    /// Its process.
    pub pid: u32,
    /// Its lowest address.
    pub at: u64,
    /// Whether it pauses when it waits.
    pub pauses: bool,
}

/// How samples in one loop continued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    stays: u64,
    leaves: u64,
    open: u64,
    paused: u64,
}

/// A task's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    useful: u64,
    waits: BTreeMap<LoopId, Outcomes>,
    passed_over: u64,
    unjudged: u64,
    sampled_ns: u64,
    system: u64,
}

impl Tally {
    /// Of the samples that do not wait, one in the kernel.
    pub fn in_kernel(&mut self) {
        self.system += 1;
    }

    /// A sample that worked.
    pub fn useful(&mut self, period_ns: u64) {
        self.useful += 1;
        self.sampled_ns += period_ns;
    }

    /// A sample, alone in its place, for which there was no time.
    pub fn passed_over(&mut self) {
        self.passed_over += 1;
    }

    /// A sample whose code could not be read.
    pub fn unjudged(&mut self) {
        self.unjudged += 1;
    }

    /// A sample in a loop that can wait.
    pub fn waiting(&mut self, id: LoopId, outcome: Outcome, period_ns: u64) {
        let outcomes = self.waits.entry(id).or_default();
        match outcome {
            Outcome::Stays => outcomes.stays += 1,
            Outcome::Leaves => outcomes.leaves += 1,
            Outcome::Open => outcomes.open += 1,
            Outcome::Paused => outcomes.paused += 1,
        }
        self.sampled_ns += period_ns;
    }
}

/// The expectation for samples in a loop that have yet to look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Staying {
    /// The fraction that stays, of those anywhere.
    open: f64,
    /// The fraction that stays, of those after a PAUSE.
    paused: f64,
}

/// The number of samples that have yet to look and will stay, by loop: the same fraction as of those that
/// have looked. Samples after a PAUSE count as having looked, unless as many are about to leave. A waiting
/// thread leaves once after many PAUSEs, but a compiler may have put the PAUSE before the first look. If no
/// sample has looked, a loop with a PAUSE was passed rather than waited in: a PAUSE takes longer than the
/// rest of its loop.
pub fn staying<'a>(tallies: impl IntoIterator<Item = &'a Tally>) -> BTreeMap<LoopId, Staying> {
    let mut sums: BTreeMap<LoopId, Outcomes> = BTreeMap::new();
    for (id, outcomes) in tallies.into_iter().flat_map(|t| &t.waits) {
        let sum = sums.entry(*id).or_default();
        sum.stays += outcomes.stays;
        sum.leaves += outcomes.leaves;
        sum.paused += outcomes.paused;
    }
    let expected = |id: LoopId, o: Outcomes| {
        let waits = o.paused > 2 * o.leaves;
        let stay = o.stays + if waits { o.paused } else { 0 };
        let open = match stay + o.leaves {
            0 if id.pauses => 0.0,
            0 => 1.0,
            decided => stay as f64 / decided as f64,
        };
        Staying { open, paused: if waits { 1.0 } else { open } }
    };
    sums.into_iter().map(|(id, sum)| (id, expected(id, sum))).collect()
}

/// The result of the samples for a time on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    spinning: f64,
    judged: u64,
    passed_over: u64,
    unjudged: u64,
    sampled_ns: u64,
    system: u64,
}

impl Counted {
    /// A task's samples, counted.
    pub fn of(tally: &Tally, staying: &BTreeMap<LoopId, Staying>) -> Counted {
        let waits = || tally.waits.iter();
        let spins = waits().map(|(id, o)| {
            let expected = staying.get(id).copied().unwrap_or(Staying { open: 1.0, paused: 1.0 });
            o.stays as f64 + o.open as f64 * expected.open + o.paused as f64 * expected.paused
        });
        Counted {
            spinning: spins.sum(),
            judged: tally.useful + waits().map(|(_, o)| o.stays + o.leaves + o.open + o.paused).sum::<u64>(),
            passed_over: tally.passed_over,
            unjudged: tally.unjudged,
            sampled_ns: tally.sampled_ns,
            system: tally.system,
        }
    }

    /// The samples of two tasks together.
    #[must_use]
    pub fn plus(self, other: Counted) -> Counted {
        Counted {
            spinning: self.spinning + other.spinning,
            judged: self.judged + other.judged,
            passed_over: self.passed_over + other.passed_over,
            unjudged: self.unjudged + other.unjudged,
            sampled_ns: self.sampled_ns + other.sampled_ns,
            system: self.system + other.system,
        }
    }

    /// Whether any sample was judged.
    pub fn is_known(self) -> bool {
        self.judged > 0
    }

    /// Spin time of a task that was on a CPU for `on_cpu_ns`; `None` if no sample of it was judged.
    pub fn estimate(self, on_cpu_ns: u64) -> Option<SpinEstimate> {
        if !self.is_known() {
            return None;
        }
        let (low, high) = wilson(self.spinning, self.judged as f64);
        let all = (self.judged + self.passed_over + self.unjudged) as f64;
        let judged = self.judged as f64 / all;
        let part = |share: f64| ((share * on_cpu_ns as f64).round() as u64).min(on_cpu_ns);
        let spin_ns = part(self.spinning / (self.judged + self.passed_over) as f64);
        Some(SpinEstimate {
            observed_ns: self.sampled_ns.min(on_cpu_ns),
            unjudged_ns: part(1.0 - judged),
            spin_ns,
            low_ns: part(low * judged).min(spin_ns),
            high_ns: part(high * judged + (1.0 - judged)).max(spin_ns),
            system_ns: Some(part(self.system as f64 / all)),
            method: SpinMethod::Samples,
        })
    }

    /// Spin time of a task without samples, given those of its siblings. The best guess is that it behaves
    /// like them. If they have none either, nothing has run long enough to be seen, and the guess is zero.
    /// The interval is from nothing to everything. `None` if there were samples and not one could be judged.
    pub fn estimate_of_sibling(self, on_cpu_ns: u64) -> Option<SpinEstimate> {
        let (low_ns, high_ns, method) = (0, on_cpu_ns, SpinMethod::Samples);
        let (spin_ns, system_ns) = match self.estimate(on_cpu_ns) {
            Some(like) => (like.spin_ns, like.system_ns),
            None if self.unjudged + self.passed_over == 0 => (0, None),
            None => return None,
        };
        Some(SpinEstimate {
            observed_ns: 0,
            unjudged_ns: on_cpu_ns,
            spin_ns,
            low_ns,
            high_ns,
            system_ns,
            method,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(useful: u64, stays: u64, leaves: u64, open: u64) -> Tally {
        let id = LoopId { pid: 1, at: 0x1000, pauses: false };
        let waits = BTreeMap::from([(id, Outcomes { stays, leaves, open, paused: 0 })]);
        Tally { useful, waits, sampled_ns: (useful + stays + leaves + open) * 1_000_000, ..Tally::default() }
    }

    fn share(tally: &Tally) -> f64 {
        let counted = Counted::of(tally, &staying([tally]));
        counted.estimate(1_000_000_000).unwrap().spin_ns as f64 / 1e9
    }

    #[test]
    fn samples_that_have_yet_to_look_are_divided_like_those_that_looked() {
        assert_eq!(share(&tally(0, 30, 10, 60)), 0.75);
        assert_eq!(share(&tally(50, 0, 20, 30)), 0.0, "a lock that was always free");
        assert_eq!(share(&tally(50, 0, 0, 50)), 0.5, "nothing contradicts");
    }

    #[test]
    fn time_in_the_kernel_has_the_share_of_its_samples_among_all_judged_or_not() {
        let mut t = tally(60, 20, 0, 0);
        (0..20).for_each(|_| t.unjudged());
        (0..30).for_each(|_| t.in_kernel());
        let counted = Counted::of(&t, &BTreeMap::new());
        assert_eq!(counted.estimate(1_000_000).unwrap().system_ns, Some(300_000));
        assert_eq!(counted.estimate_of_sibling(1_000).unwrap().system_ns, Some(300));
        assert_eq!(Counted::default().estimate_of_sibling(1_000).unwrap().system_ns, None, "nobody ran");
    }

    #[test]
    fn a_loop_with_a_pause_counts_as_waiting_only_if_a_sample_is_found_at_the_pause() {
        let id = LoopId { pid: 1, at: 0x1000, pauses: true };
        let of = |outcomes: &[Outcome]| {
            let mut tally = Tally::default();
            outcomes.iter().for_each(|o| tally.waiting(id, *o, 1000));
            share(&tally)
        };
        use Outcome::{Leaves, Open, Paused, Stays};
        assert_eq!(of(&[Open, Open]), 0.0);
        assert_eq!(of(&[Open, Paused]), 1.0);
        assert_eq!(of(&[Paused, Leaves]), 0.0, "the registers are better evidence");
        assert_eq!(of(&[Paused, Stays]), 1.0);
    }

    #[test]
    fn siblings_samples_of_a_loop_count_for_a_task_that_saw_little_of_it() {
        let (much, little) = (tally(0, 99, 1, 0), tally(0, 0, 0, 10));
        let known = staying([&much, &little]);
        let counted = Counted::of(&little, &known);
        assert_eq!(counted.estimate(100_000).unwrap().spin_ns, 99_000);
    }

    #[test]
    fn samples_that_could_not_be_judged_widen_the_interval_on_both_sides() {
        let mut t = tally(500, 500, 0, 0);
        let sure = Counted::of(&t, &BTreeMap::new()).estimate(1_000_000).unwrap();
        t.unjudged = 1000;
        let unsure = Counted::of(&t, &BTreeMap::new()).estimate(1_000_000).unwrap();
        assert_eq!((sure.spin_ns, unsure.spin_ns), (500_000, 500_000));
        assert!(sure.low_ns > 460_000 && sure.high_ns < 540_000);
        assert!(unsure.low_ns < 240_000 && unsure.high_ns > 760_000);
    }

    #[test]
    fn a_sample_skipped_alone_in_its_place_is_not_assumed_to_spin_but_may_have() {
        let mut t = tally(500, 500, 0, 0);
        (0..1000).for_each(|_| t.passed_over());
        let found = Counted::of(&t, &BTreeMap::new()).estimate(1_000_000).unwrap();
        assert_eq!(found.spin_ns, 250_000);
        assert!(found.low_ns < 240_000 && found.high_ns > 760_000);
    }

    #[test]
    fn without_a_sample_there_is_no_estimate_and_a_siblings_gives_no_certainty() {
        let none = Counted::of(&Tally { unjudged: 9, ..Tally::default() }, &BTreeMap::new());
        assert_eq!((none.estimate(1000), none.estimate_of_sibling(1000)), (None, None));
        let sibling = Counted::of(&tally(50, 50, 0, 0), &BTreeMap::new()).estimate_of_sibling(1000).unwrap();
        assert_eq!(
            (sibling.observed_ns, sibling.spin_ns, sibling.low_ns, sibling.high_ns),
            (0, 500, 0, 1000)
        );
    }
}
