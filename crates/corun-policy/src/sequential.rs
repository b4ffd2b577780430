//! Does it help? A sequential test on paired log gains. The guard uses it for policies (`guard.rs`).
//!
//! **A pair** is a time without and a time with. Its gain `g` is the mean over tenants of `ln(with / without)`. So a gain of one tenant
//! at an equal cost to another is no gain. The weight of a pair is its length: `w`.
//!
//! **The statistic.** After `n` pairs the mean gain is `m = Σ w g / Σ w`. The scatter of pairs of weight 1 is known beforehand: the
//! standard deviation `σ`. It counts as [`KNOWN`] degrees of freedom in addition to those of the pairs:
//!
//! ```text
//! s² = (KNOWN σ² + Σ w (g - m)²) / (KNOWN + n - 1)
//! t  = (m - least) / (s / √Σw)            Student, KNOWN + n - 1 degrees of freedom
//! ```
//!
//! **The rule.** It helps if the tail probability of `t` is below `ERROR / PAIRS`. So over all looks together, something that gains at
//! most `least` is kept with a probability of at most `ERROR`. It does not help if two or more pairs gain at most `least` on average,
//! or if [`PAIRS`] pairs have not shown that it does. Otherwise another pair is needed.
//!
//! Limits: the error rate holds for gains around one mean that scatter as `σ` says, or as the pairs show. If a program changes between
//! the two times of a pair, that counts as a gain or a loss.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The probability that something useless is kept, in percent. Without it one lucky pair would decide.
pub const ERROR_PERCENT: u64 = 5;
/// After this many pairs without a proof, it is given up. Without it a question might never end.
pub const PAIRS: usize = 5;
/// The degrees of freedom of the scatter that is known beforehand: as many as all pairs. Without it one pair could show nothing.
const KNOWN: usize = PAIRS;
/// Pairs without a gain end the question from this number on, since the time of the first pair was not random.
const LEAST_PAIRS: usize = 2;

/// The result of a test so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It helps.
    Helps,
    /// It does not help, or has not been shown to help.
    DoesNotHelp,
    /// Another pair is needed.
    Open,
}

/// A test.
#[derive(Clone, Debug)]
pub struct Test {
    /// Standard deviation of the gain of a pair of weight 1.
    scatter: f64,
    /// A mean log gain up to this is not enough.
    least: f64,
    /// The gain and weight of each pair.
    pairs: Vec<(f64, f64)>,
}

impl Test {
    /// Tests whether the mean log gain is above `least`. The gain of a pair of weight 1 has the standard deviation `scatter`.
    pub fn new(scatter: f64, least: f64) -> Test {
        Test { scatter, least, pairs: Vec::new() }
    }

    /// Takes in a pair.
    pub fn push(&mut self, log_gain: f64, weight: f64) {
        self.pairs.push((log_gain, weight));
    }

    /// Pairs so far.
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }

    fn weight(&self) -> f64 {
        self.pairs.iter().map(|(_, w)| w).sum()
    }

    /// The mean log gain; 0 before the first pair.
    pub fn mean(&self) -> f64 {
        if self.pairs.is_empty() {
            return 0.0;
        }
        self.pairs.iter().map(|(g, w)| g * w).sum::<f64>() / self.weight()
    }

    /// The probability of such a gain, or a greater one, from something that gains `least`; 1 before the first pair.
    pub fn chance(&self) -> f64 {
        if self.pairs.is_empty() {
            return 1.0;
        }
        let mean = self.mean();
        let seen: f64 = self.pairs.iter().map(|(g, w)| w * (g - mean) * (g - mean)).sum();
        let freedom = KNOWN + self.pairs.len() - 1;
        let variance = (KNOWN as f64 * self.scatter * self.scatter + seen) / freedom as f64;
        upper_tail((mean - self.least) / (variance / self.weight()).sqrt(), freedom)
    }

    /// The result so far.
    pub fn verdict(&self) -> Verdict {
        let pairs = self.pairs.len();
        let allowed = ERROR_PERCENT as f64 / 100.0 / PAIRS as f64;
        if self.chance() < allowed {
            Verdict::Helps
        } else if pairs >= PAIRS || pairs >= LEAST_PAIRS && self.mean() <= self.least {
            Verdict::DoesNotHelp
        } else {
            Verdict::Open
        }
    }
}

/// The probability that Student's t with `freedom` degrees of freedom is above `t`.
fn upper_tail(t: f64, freedom: usize) -> f64 {
    StudentsT::new(0.0, 1.0, freedom as f64).expect("degrees of freedom are positive").sf(t)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(gains: &[f64]) -> Test {
        let mut test = Test::new(0.2, 0.0);
        gains.iter().for_each(|g| test.push(*g, 1.0));
        test
    }

    #[test]
    fn the_tail_of_students_t_is_that_of_the_tables() {
        for (t, freedom, tail) in [
            (6.314, 1, 0.05),
            (2.920, 2, 0.05),
            (3.182, 3, 0.025),
            (3.747, 4, 0.01),
            (2.015, 5, 0.05),
            (2.306, 8, 0.025),
        ] {
            assert!(
                (upper_tail(t, freedom) - tail).abs() < 1e-4,
                "{t}, {freedom}: {}",
                upper_tail(t, freedom)
            );
        }
        assert!((upper_tail(-2.920, 2) - 0.95).abs() < 1e-4);
    }

    #[test]
    fn a_large_gain_is_found_at_once_and_a_small_one_needs_more_pairs() {
        assert_eq!(after(&[1.0]).verdict(), Verdict::Helps);
        assert_eq!(after(&[0.3]).verdict(), Verdict::Open);
        assert_eq!(after(&[0.3; 4]).verdict(), Verdict::Helps);
    }

    #[test]
    fn no_gain_in_two_pairs_or_a_small_one_in_all_is_given_up() {
        assert_eq!(after(&[-0.5]).verdict(), Verdict::Open, "one pair may be chance");
        assert_eq!(after(&[0.3, -0.4]).verdict(), Verdict::DoesNotHelp);
        assert_eq!(after(&[0.02; PAIRS]).verdict(), Verdict::DoesNotHelp);
    }

    #[test]
    fn gains_that_contradict_each_other_count_for_less() {
        assert!(after(&[0.3, 0.3, 0.3]).chance() < after(&[1.2, -0.5, 0.2]).chance());
    }

    #[test]
    fn a_longer_pair_says_more() {
        let mut long = Test::new(0.2, 0.0);
        long.push(0.3, 4.0);
        assert!(long.chance() < after(&[0.3]).chance());
    }

    #[test]
    fn a_useless_change_is_kept_no_more_often_than_the_error_rate() {
        // Sums of twelve uniform draws are nearly normal.
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let questions = 4_000;
        let kept = (0..questions).filter(|_| {
            let mut test = Test::new(0.2, 0.0);
            loop {
                test.push(0.2 * normal(), 1.0);
                match test.verdict() {
                    Verdict::Open => {}
                    verdict => return verdict == Verdict::Helps,
                }
            }
        });
        assert!(kept.count() * 100 <= questions * ERROR_PERCENT as usize);
    }
}
