//! The goal of calibrated interference: a share of steal, or a slowdown.
//!
//! * **Steal**: the share of the time in which the victim's tasks wanted a CPU and did not have one: wait in the run queue ÷ (wait +
//!   time on a CPU), summed over its tasks.
//! * **Slowdown**: how many times longer the victim takes than alone. For a program with a fixed amount of computing, it is its solo
//!   rate of computing ÷ its present rate.
//!
//! Inside, both are one number, the share of its progress that the victim *loses*: steal itself, and 1 − 1 ÷ slowdown. A program that
//! never blocks loses a quarter of its progress to 25 % of steal, and then takes 1.33 times as long.

use crate::LoadError;
use serde::Serialize;
use std::fmt::{Display, Formatter};

/// A smaller loss disappears in the program's own variation.
const LEAST_LOST: f64 = 0.01;

/// No scheduler class for ordinary programs can take more from another.
const MOST_LOST: f64 = 0.95;

/// The goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// This share of steal, above 0 and below 1.
    Steal(f64),
    /// This slowdown, above 1.
    Slowdown(f64),
}

/// The unit of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// A share of steal.
    Steal,
    /// A slowdown.
    Slowdown,
}

impl Measure {
    /// Converts a loss of progress to this measure. The loss is limited below 1, so that the slowdown is finite.
    pub fn of_lost(self, lost: f64) -> f64 {
        match self {
            Measure::Steal => lost,
            Measure::Slowdown => 1.0 / (1.0 - lost).max(1e-3),
        }
    }

    /// `value` for people: `24.8 %`, `1.52×`.
    pub fn text(self, value: f64) -> String {
        match self {
            Measure::Steal => format!("{:.1} %", value * 100.0),
            Measure::Slowdown => format!("{value:.2}×"),
        }
    }
}

impl Goal {
    /// Checks whether it is possible.
    ///
    /// # Errors
    /// [`LoadError::Program`]: one sentence with the possible range.
    pub fn check(self) -> Result<(), LoadError> {
        let good = (LEAST_LOST - 1e-9..=MOST_LOST + 1e-9).contains(&self.lost());
        let what = match self {
            Goal::Steal(share) => {
                format!("a steal of {} cannot be held; ask for 1 % to 95 %", trimmed(share * 100.0, " %"))
            }
            Goal::Slowdown(times) => format!("a slowdown of {times} cannot be held; ask for 1.02 to 20"),
        };
        let key = "target";
        good.then_some(()).ok_or(LoadError::Program { key, what })
    }

    /// The unit of the goal.
    pub fn measure(self) -> Measure {
        match self {
            Goal::Steal(_) => Measure::Steal,
            Goal::Slowdown(_) => Measure::Slowdown,
        }
    }

    /// The requested number.
    pub fn value(self) -> f64 {
        match self {
            Goal::Steal(value) | Goal::Slowdown(value) => value,
        }
    }

    /// The share of its progress that the victim should lose.
    pub fn lost(self) -> f64 {
        match self {
            Goal::Steal(share) => share,
            Goal::Slowdown(times) => 1.0 - 1.0 / times,
        }
    }

    /// The band that counts as held: for steal 2 points or a tenth of it to either side, whichever is larger; for slowdown 5 %.
    pub fn band(self) -> (f64, f64) {
        let reach = match self {
            Goal::Steal(share) => (0.1 * share).max(0.02),
            Goal::Slowdown(times) => 0.05 * times,
        };
        (self.value() - reach, self.value() + reach)
    }

    /// Whether a loss is inside the band.
    pub fn is_held_by(self, lost: f64) -> bool {
        let (low, high) = self.band();
        (low..=high).contains(&self.measure().of_lost(lost))
    }

    /// Threads per CPU with which fair share alone would exceed the goal. Of `n` threads of equal weight together with one of the
    /// victim's, `n ÷ (n + 1)` of the CPU can be theirs.
    pub fn threads_per_cpu(self) -> u32 {
        let lost = self.lost();
        (lost / (1.0 - lost) + 1e-9).floor() as u32 + 1
    }
}

impl Display for Goal {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        match self {
            Goal::Steal(share) => write!(f, "{} steal", trimmed(share * 100.0, " %")),
            Goal::Slowdown(times) => write!(f, "{} slowdown", trimmed(*times, "×")),
        }
    }
}

/// At most three decimals, without trailing zeros.
fn trimmed(value: f64, unit: &str) -> String {
    let digits = format!("{value:.3}");
    format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_and_slowdown_are_the_same_loss_to_a_program_that_never_blocks() {
        assert!((Goal::Slowdown(4.0 / 3.0).lost() - Goal::Steal(0.25).lost()).abs() < 1e-12);
        assert!((Measure::Slowdown.of_lost(Goal::Slowdown(1.8).lost()) - 1.8).abs() < 1e-12);
    }

    #[test]
    fn fair_share_determines_how_many_threads_a_goal_needs() {
        let needs = |goal: Goal| goal.threads_per_cpu();
        assert_eq!([0.1, 0.4, 0.5, 0.6, 0.75].map(|s| needs(Goal::Steal(s))), [1, 1, 2, 2, 4]);
        assert_eq!([1.25, 1.8, 2.0, 3.5, 5.0].map(|s| needs(Goal::Slowdown(s))), [1, 1, 2, 3, 5]);
    }

    #[test]
    fn the_band_is_wide_enough_for_a_small_goal_and_narrow_for_a_large_one() {
        let near = |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() < 1e-9 && (b - d).abs() < 1e-9;
        assert!(near(Goal::Steal(0.1).band(), (0.08, 0.12)));
        assert!(near(Goal::Steal(0.4).band(), (0.36, 0.44)));
        assert!(near(Goal::Slowdown(1.5).band(), (1.425, 1.575)));
        assert!(Goal::Slowdown(1.5).is_held_by(1.0 / 3.0) && !Goal::Slowdown(1.5).is_held_by(0.25));
    }

    #[test]
    fn impossible_goals_are_refused_with_the_possible_range() {
        for bad in [0.0, -0.1, 0.99, 1.0, 25.0, f64::NAN] {
            let refusal = Goal::Steal(bad).check().unwrap_err();
            assert!(refusal.is_usage() && refusal.to_string().contains("ask for 1 % to 95 %"), "{refusal}");
        }
        for bad in [0.5, 1.0, 21.0, f64::INFINITY, f64::NAN] {
            let refusal = Goal::Slowdown(bad).check().unwrap_err().to_string();
            assert!(refusal.contains("ask for 1.02 to 20"), "{bad}: {refusal}");
        }
        for good in [Goal::Steal(0.01), Goal::Steal(0.95), Goal::Slowdown(1.02), Goal::Slowdown(20.0)] {
            good.check().unwrap();
        }
    }

    #[test]
    fn a_goal_is_printed_as_it_was_typed() {
        let said = [Goal::Steal(0.25), Goal::Steal(0.125), Goal::Slowdown(1.5), Goal::Slowdown(2.0)];
        assert_eq!(
            said.map(|g| g.to_string()),
            ["25 % steal", "12.5 % steal", "1.5× slowdown", "2× slowdown"]
        );
    }
}
