//! The answer of an estimator, and the one rule that combines several answers.
//!
//! Every way to a slowdown is an estimator: dedicated windows with each meter, a replay, the ledger, PACT'16's own formula. Each returns
//! [`Evidence`]: the logarithm `y` of the slowdown, its standard error `s` with the degrees of freedom, and its bias `b`, which is how far
//! off the method may be whatever chance does. An estimator that does not apply says why ([`crate::CannotTell`]), or loses because of its
//! standard error.
//!
//! Method: inverse variance with a variance between estimators (as between studies in a meta-analysis, DerSimonian and Laird 1986).
//! One of two estimators sees more: dedicated windows see memory, a replay sees the order of events, the ledger sees sums. So if they
//! differ by more than chance in the first explains, the second is wrong:
//!
//! ```text
//! τ² = max(0, (y₁ - y₂)² - s₁²)
//! v₁ = s₁²      v₂ = s₂² + max(b₂², τ²)
//! y  = (y₁/v₁ + y₂/v₂) / (1/v₁ + 1/v₂)
//! ```
//!
//! An estimator that contradicts a certain answer has no weight. One that scatters has none against a steady one. If there are three, the
//! result of the two that see less is the second. Two meters of the same windows share their chance, so `s₁` is the error of their
//! difference, and `s₂` and `b₂` are 0. The weight of the first is then `1 - (s₁ / (y₁ - y₂))²`: the positive-part estimator of James and
//! Stein (1961).
//!
//! A replay has no chance in it, but its log leaves something open. That is its `s` in the weights. In the interval it is one of the ends.
//!
//! Limits: estimators that see the same shared windows have chance in common. So in the result their errors add up, and not their squares.

use crate::estimate::Parts;
use crate::interval::{chance, degrees, Spread};

/// An estimator's answer for a stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// The logarithm of the slowdown.
    pub log_slowdown: f64,
    /// How far chance may have moved it: a standard error.
    pub standard_error: f64,
    /// The degrees of freedom of that; 0: there are too few windows to tell how far they scatter, and `standard_error` says nothing.
    pub degrees_of_freedom: usize,
    /// How far off the method itself may be: a standard deviation.
    pub bias: f64,
    /// The parts of the slowdown.
    pub parts: Parts,
}

impl Evidence {
    pub(crate) fn new(slowdown: f64, spread: Option<Spread>, bias: f64, parts: Parts) -> Evidence {
        let Spread { error, degrees } = spread.unwrap_or(Spread { error: 0.0, degrees: 0 });
        Evidence {
            log_slowdown: slowdown.ln(),
            standard_error: error,
            degrees_of_freedom: degrees,
            bias,
            parts,
        }
    }

    /// Time by time alone.
    pub fn slowdown(&self) -> f64 {
        self.log_slowdown.exp()
    }

    /// How far chance may have moved it; `None`: nobody can tell.
    pub(crate) fn spread(&self) -> Option<Spread> {
        let Evidence { standard_error: error, degrees_of_freedom: degrees, .. } = *self;
        (degrees > 0).then_some(Spread { error, degrees })
    }

    /// This combined with an answer that sees `less`. If nobody can tell how far one of them scatters, this stands.
    pub(crate) fn with(&self, less: &Evidence) -> (Evidence, Weight) {
        match self.spread().zip(less.spread()) {
            Some((own, of_less)) => {
                let apart = self.log_slowdown - less.log_slowdown;
                let weight = Weight::of(apart, chance(own), chance(of_less), less.bias);
                (self.weighed(less, weight), weight)
            }
            None => (*self, Weight::of(0.0, 0.0, 0.0, 0.0)),
        }
    }

    /// The same with a weight that was found before.
    pub(crate) fn weighed(&self, less: &Evidence, weight: Weight) -> Evidence {
        let share = weight.share;
        let log_slowdown = weight.mean(self.log_slowdown, less.log_slowdown);
        let part = |share: f64, of: &Evidence| {
            let Spread { error, degrees } = of.spread().unwrap_or(Spread { error: 0.0, degrees: usize::MAX });
            Spread { error: share * error, degrees }
        };
        let both = [part(share, self), part(1.0 - share, less)];
        Evidence {
            log_slowdown,
            standard_error: both[0].error + both[1].error,
            degrees_of_freedom: degrees(both.into_iter()),
            bias: weight.mean(self.bias, weight.bias_of_less),
            parts: Parts::of(
                log_slowdown.exp(),
                weight.mean(self.parts.steal, less.parts.steal),
                weight.mean(self.parts.sync, less.parts.sync),
                self.parts.memory.map(|memory| share * memory),
            ),
        }
    }
}

/// How an answer that sees more is weighed against an answer that sees less. Errors are standard deviations of logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// The share of the answer that sees more, 0..=1.
    pub share: f64,
    /// How far chance may have moved it.
    pub error: f64,
    /// The same for the answer that sees less.
    pub error_of_less: f64,
    /// How far off the answer that sees less is, apart from chance, as the difference shows.
    pub bias_of_less: f64,
}

impl Weight {
    /// For an answer with this `error` that lies `apart` from one that sees less.
    pub(crate) fn of(apart: f64, error: f64, error_of_less: f64, bias_of_less: f64) -> Weight {
        let contradicts = (apart.powi(2) - error.powi(2)).max(0.0).sqrt();
        let bias_of_less = bias_of_less.max(contradicts);
        Weight { share: 1.0, error, error_of_less, bias_of_less }.by_variance()
    }

    /// The same if the answer that sees less cannot be off by more than this.
    pub(crate) fn at_most(self, bias: f64) -> Weight {
        Weight { bias_of_less: self.bias_of_less.min(bias), ..self }.by_variance()
    }

    fn by_variance(self) -> Weight {
        let own = self.error.powi(2);
        let of_less = self.error_of_less.powi(2) + self.bias_of_less.powi(2);
        let share = if own + of_less > 0.0 { of_less / (own + of_less) } else { 1.0 };
        Weight { share, ..self }
    }

    /// The weighted mean of both.
    pub(crate) fn mean(&self, more: f64, less: f64) -> f64 {
        self.share * more + (1.0 - self.share) * less
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(slowdown: f64, error: f64, degrees: usize) -> Evidence {
        let parts = Parts::of(slowdown, 0.75 * (slowdown - 1.0), 0.25 * (slowdown - 1.0), None);
        Evidence::new(slowdown, Some(Spread { error, degrees }), 0.08, parts)
    }

    /// What comes of dedicated windows that say 2 with this error of three windows, and a ledger that says this.
    fn of(error: f64, ledger: f64) -> Evidence {
        evidence(2.0, error, 2).with(&evidence(ledger, 0.01, 15)).0
    }

    #[test]
    fn whoever_contradicts_a_certain_answer_has_no_say() {
        assert!((of(0.01, 4.0).slowdown() - 2.0).abs() < 0.01);
        assert!((of(0.01, 1.0).slowdown() - 2.0).abs() < 0.01);
    }

    #[test]
    fn an_answer_of_windows_that_scatter_gives_way_to_the_ledgers() {
        let found = of(0.5, 3.0);
        assert!(found.slowdown() > 2.9, "{}", found.slowdown());
        let spread = found.spread().unwrap();
        assert!(chance(spread) < 0.2, "and it is surer than they are: {spread:?}");
    }

    #[test]
    fn what_both_say_stands_and_the_parts_of_what_lies_between_sum_to_it() {
        assert!((of(0.1, 2.0).slowdown() - 2.0).abs() < 1e-9);
        let found = of(0.1, 3.0);
        assert!(2.0 < found.slowdown() && found.slowdown() < 3.0);
        let Parts { steal, sync, other, .. } = found.parts;
        assert!((steal + sync + other - (found.slowdown() - 1.0)).abs() < 1e-9);
    }

    #[test]
    fn where_chance_cannot_be_told_nothing_is_weighed() {
        let alone = Evidence::new(2.0, None, 0.08, Parts::of(2.0, 1.0, 0.0, None));
        assert_eq!(alone.with(&evidence(3.0, 0.01, 15)).0, alone);
    }

    #[test]
    fn a_meter_counts_as_far_as_its_difference_exceeds_its_own_noise() {
        let share = |apart: f64, error: f64| Weight::of(apart, error, 0.0, 0.0).share;
        assert!((share(0.2, 0.1) - 0.75).abs() < 1e-9, "James and Stein: 1 - (0.1 / 0.2)²");
        assert_eq!(share(0.1, 0.2), 0.0, "a change smaller than its error is noise");
        assert_eq!(share(0.1, 0.0), 1.0);
    }
}
