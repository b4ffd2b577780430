//! What dedicated windows tell, weighed with what the ledger of the same shared windows does ([`crate::weight`] is the rule).
//!
//! Limits: both see the same shared windows, whose chance errors are added up and not their squares.

use crate::estimate::Parts;
use crate::interval::{chance, degrees, Spread};
use crate::stretch_estimate::StretchEstimate;
use crate::weight::Weight;

/// What dedicated windows tell, weighed with what the ledger of the same shared windows does.
pub(crate) fn weighed(dedicated: StretchEstimate, ledger: StretchEstimate) -> StretchEstimate {
    let (Some(of_dedicated), Some(of_ledger)) = (dedicated.spread, ledger.spread) else { return dedicated };
    let (d, l) = (dedicated.slowdown.ln(), ledger.slowdown.ln());
    let weight = Weight::of(d - l, chance(of_dedicated), chance(of_ledger), ledger.method_error);
    let share = weight.share;
    let mean = |of_dedicated, of_ledger| weight.mean(of_dedicated, of_ledger);
    let slowdown = mean(d, l).exp();
    let parts = Parts::of(
        slowdown,
        mean(dedicated.parts.steal, ledger.parts.steal),
        mean(dedicated.parts.sync, ledger.parts.sync),
        dedicated.parts.memory.map(|memory| share * memory),
    );
    let rules = if share < 0.5 { ledger.rules } else { dedicated.rules };
    StretchEstimate {
        slowdown,
        least: mean(dedicated.least.ln(), ledger.least.ln()).exp(),
        spread: Some(together(share, of_dedicated, of_ledger)),
        method_error: mean(dedicated.method_error, weight.ledger_error),
        parts,
        rules,
        ..dedicated
    }
}

/// The spread of the mean.
fn together(share: f64, dedicated: Spread, ledger: Spread) -> Spread {
    let part = |share: f64, s: Spread| Spread { error: share * s.error, ..s };
    let both = [part(share, dedicated), part(1.0 - share, ledger)];
    Spread { error: both[0].error + both[1].error, degrees: degrees(both.into_iter()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Method;

    fn estimate(slowdown: f64, error: f64, degrees: usize, method: Method) -> StretchEstimate {
        StretchEstimate {
            wall_ns: 1e9,
            slowdown,
            least: slowdown,
            spread: Some(Spread { error, degrees }),
            method_error: 0.08,
            parts: Parts::of(slowdown, 0.75 * (slowdown - 1.0), 0.25 * (slowdown - 1.0), None),
            method,
            slowest: None,
            missing: [].into(),
            rules: Vec::new(),
        }
    }

    /// What comes of dedicated windows that say 2 with this error of three windows, and a ledger that says this.
    fn of(error: f64, ledger: f64) -> StretchEstimate {
        weighed(estimate(2.0, error, 2, Method::Dedicated), estimate(ledger, 0.01, 15, Method::Ledger))
    }

    #[test]
    fn whoever_contradicts_a_certain_answer_has_no_say() {
        assert!((of(0.01, 4.0).slowdown - 2.0).abs() < 0.01);
        assert!((of(0.01, 1.0).slowdown - 2.0).abs() < 0.01);
    }

    #[test]
    fn an_answer_of_windows_that_scatter_gives_way_to_the_ledgers() {
        let found = of(0.5, 3.0);
        assert!(found.slowdown > 2.9, "{}", found.slowdown);
        assert_eq!(found.method, Method::Dedicated, "they have a say all the same");
        let spread = found.spread.unwrap();
        assert!(chance(spread) < 0.2, "and it is surer than they are: {spread:?}");
    }

    #[test]
    fn what_both_say_stands_and_the_parts_of_what_lies_between_sum_to_it() {
        assert!((of(0.1, 2.0).slowdown - 2.0).abs() < 1e-9);
        let found = of(0.1, 3.0);
        assert!(2.0 < found.slowdown && found.slowdown < 3.0);
        let Parts { steal, sync, other, .. } = found.parts;
        assert!((steal + sync + other - (found.slowdown - 1.0)).abs() < 1e-9);
    }

    #[test]
    fn where_chance_cannot_be_told_nothing_is_weighed() {
        let alone = StretchEstimate { spread: None, ..estimate(2.0, 0.0, 2, Method::Dedicated) };
        assert_eq!(weighed(alone, estimate(3.0, 0.01, 15, Method::Ledger)).slowdown, 2.0);
    }
}
