//! Intervals from sub-windows: the delete-one jackknife on the logarithm of the slowdown.
//!
//! Method: consecutive windows are merged into at most [`BATCHES`] batches of about equal length. These are long compared with the
//! scheduler's slices, so batches hardly depend on each other (batch means). The estimate is repeated without each batch. The spread of
//! the results gives a standard error that is right for ratios, too, and needs no random numbers (Quenouille 1949, Tukey 1958). On the
//! logarithm, twice as slow and half as slow are equally far from 1. Errors of dedicated and shared windows add in squares. Student's t
//! with the fewer degrees of freedom gives the width.
//!
//! A program may be fast or slow for seconds at a time, for example if the kernel leaves two of its threads on one CPU. Then neighboring
//! windows are alike, and there are fewer independent windows than it seems. So batches are merged two by two as long as the variance
//! between the longer batches exceeds that within them by more than chance (Flyvbjerg and Petersen 1989, with the F test of an analysis of
//! variance).
//!
//! Sub-windows do not show two errors: the method itself is not exact, and the rest of a run is not like its beginning. The caller gives
//! these errors, as a standard deviation of the logarithm. `docs/accuracy.md` has how often intervals hold the truth in modelled runs.

use crate::definitions::CONFIDENCE;
use crate::useful_work::Window;
use statrs::distribution::{ContinuousCDF, FisherSnedecor, StudentsT};

/// Limit: most batches.
pub const BATCHES: usize = 16;
/// Definition: fewest batches from which a spread is computed.
pub const FEWEST: usize = 3;

/// How far off an estimate may be: the standard error of its logarithm, and the degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Standard error of the logarithm.
    pub error: f64,
    /// Degrees of freedom.
    pub degrees: usize,
}

/// The degrees of freedom of a sum of independent errors, according to Welch and Satterthwaite; [`FEWEST`] if there are none.
pub(crate) fn degrees(of: impl Iterator<Item = Spread> + Clone) -> usize {
    let variance = |s: Spread| s.error * s.error;
    let sum: f64 = of.clone().map(variance).sum();
    let weighted: f64 = of.map(|s| variance(s).powi(2) / s.degrees as f64).sum();
    if weighted > 0.0 {
        (sum * sum / weighted).max(1.0) as usize
    } else {
        FEWEST
    }
}

/// Merges windows into at most [`BATCHES`] batches of about equal wall time, in their order.
pub fn batches<'a>(windows: impl Iterator<Item = &'a Window> + Clone) -> Vec<Window> {
    let whole_ns: f64 = windows.clone().map(|w| w.wall_ns).sum();
    let target_ns = whole_ns / BATCHES as f64;
    let mut found: Vec<Window> = Vec::new();
    let mut passed_ns = 0.0;
    for window in windows {
        let place = ((passed_ns + window.wall_ns / 2.0) / target_ns) as usize;
        passed_ns += window.wall_ns;
        let is_next = found.is_empty() || place >= found.len() && found.len() < BATCHES;
        if is_next {
            found.push(window.clone());
        } else if let Some(last) = found.last_mut() {
            last.add(window);
        }
    }
    found
}

/// The jackknife spread of the logarithm of `value` over batches. `None`: too few batches, or no value without one.
pub fn jackknife(batches: &[Window], value: impl Fn(&Window) -> Option<f64>) -> Option<Spread> {
    let n = batches.len();
    if n < FEWEST {
        return None;
    }
    let logs: Option<Vec<f64>> = (0..n)
        .map(|out| {
            let rest = batches.iter().enumerate().filter(|(i, _)| *i != out).map(|(_, w)| w);
            value(&Window::sum(rest)).filter(|v| *v > 0.0).map(f64::ln)
        })
        .collect();
    let logs = logs?;
    let mean = logs.iter().sum::<f64>() / n as f64;
    let squares = logs.iter().map(|l| (l - mean) * (l - mean)).sum::<f64>();
    Some(Spread { error: (squares * (n - 1) as f64 / n as f64).sqrt(), degrees: n - 1 })
}

/// The spread of the logarithm of `value` over consecutive windows, and whether it is fast or slow for longer than a batch. `None`: as
/// in [`jackknife`].
pub fn spread(windows: &[Window], value: impl Fn(&Window) -> Option<f64>) -> Option<(Spread, bool)> {
    let mut parts = batches(windows.iter());
    let count = parts.len();
    let each = jackknife(&parts, &value)?;
    let mut found = (each, false);
    while parts.len() / 2 > FEWEST {
        parts = parts.chunks(2).map(Window::sum).collect();
        let Some(longer) = jackknife(&parts, &value) else { break };
        if differ(longer, each, count) {
            found = (longer, true);
        }
    }
    Some(found)
}

/// Whether batches differ by more than chance in the `count` shorter batches within them explains. Both spreads are standard errors of the
/// same mean.
fn differ(batches: Spread, each: Spread, count: usize) -> bool {
    let (between, all, n) = (batches.degrees as f64, each.degrees as f64, count as f64);
    let within = all - between;
    // Sums of squares: of all, and of those between batches.
    let (all, between_all) = (all * n * each.error.powi(2), between * n * batches.error.powi(2));
    let f = (between_all / between) / ((all - between_all).max(0.0) / within);
    FisherSnedecor::new(between, within).is_ok_and(|by_chance| f > by_chance.inverse_cdf(CONFIDENCE))
}

/// The interval of this confidence around a slowdown, for every verb. What is left open reaches from `least` to `most`; chance in the
/// windows and the error of the method itself come on top. These are independent of each other, so they add in squares.
pub fn interval(
    [least, slowdown, most]: [f64; 3],
    sampling: Spread,
    method_error: f64,
    confidence: f64,
) -> [f64; 2] {
    let chance = quantile(sampling.degrees, confidence) * sampling.error;
    let half = chance.hypot(quantile(MANY, confidence) * method_error);
    let reach = |open: f64| half.hypot(open.max(0.0));
    let [below, above] = [reach((slowdown / least).ln()), reach((most / slowdown).ln())];
    [slowdown * (-below).exp(), slowdown * above.exp()]
}

/// How far off an answer may be on the side of another, as a standard deviation, if the truth may be anywhere between two ends: low,
/// answer, high.
pub(crate) fn towards([low, answer, high]: [f64; 3], another: f64) -> f64 {
    let reach = if another > answer { high - answer } else { answer - low };
    // The root mean square of a uniform distribution from the answer to that end.
    reach.max(0.0) / 3f64.sqrt()
}

/// A sampling error as the standard deviation of a normal distribution with the same 95 % interval. For a few windows that is more than
/// their standard error.
pub(crate) fn chance(sampling: Spread) -> f64 {
    sampling.error * quantile(sampling.degrees, CONFIDENCE) / quantile(MANY, CONFIDENCE)
}

/// Limit: from this many degrees of freedom on, Student's distribution is the normal one.
pub(crate) const MANY: usize = 1_000;

/// Limit: no interval has a higher confidence.
const SUREST: f64 = 0.999_999;

/// How many standard errors to either side include this share of Student's t distribution.
pub(crate) fn quantile(degrees: usize, confidence: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees.min(MANY) as f64)
        .map_or(f64::INFINITY, |t| t.inverse_cdf(0.5 + confidence.clamp(0.0, SUREST) / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::useful_work::Spent;
    use corun_model::TaskId;

    fn window(start_ns: u64, compute_ns: f64) -> Window {
        let spent = Spent { life_ns: 10.0, compute_ns, ..Spent::default() };
        let tasks = [(TaskId(1), spent)].into();
        Window { start_ns, end_ns: start_ns + 10, wall_ns: 10.0, tasks, ..Window::default() }
    }

    #[test]
    fn batches_are_few_equal_and_lose_nothing() {
        let windows: Vec<Window> = (0..100).map(|i| window(i * 10, 5.0)).collect();
        let found = batches(windows.iter());
        assert_eq!(found.len(), BATCHES);
        assert_eq!(found.iter().map(|w| w.wall_ns).sum::<f64>(), 1_000.0);
        assert!(found.iter().all(|w| (60.0..=70.0).contains(&w.wall_ns)));
        assert_eq!(batches(windows[..4].iter()).len(), 4);
    }

    #[test]
    fn the_jackknife_of_a_mean_is_its_standard_error() {
        let values = [1.0, 2.0, 4.0, 5.0];
        let windows: Vec<Window> = values.iter().map(|v| window(0, *v)).collect();
        // The logarithm of exp(mean) is the mean.
        let spread = jackknife(&windows, |w| Some((w.total().compute_ns / w.wall_ns).exp())).unwrap();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        assert!((spread.error - (variance / n).sqrt() / 10.0).abs() < 1e-12);
        assert_eq!(spread.degrees, 3);
        assert_eq!(jackknife(&windows[..2], |_| Some(1.0)), None);
    }

    /// Windows of which so many in a row compute for 2 and for 6 of 10 in turn, give or take 1.
    fn in_turn(windows: u64, row: u64) -> Vec<Window> {
        let compute_ns =
            |i: u64| if (i / row).is_multiple_of(2) { 2.0 } else { 6.0 } + [0.0, 1.0, -1.0][i as usize % 3];
        (0..windows).map(|i| window(i * 10, compute_ns(i))).collect()
    }

    #[test]
    fn a_program_that_is_slow_for_long_and_fast_for_long_has_been_seen_but_a_few_times() {
        let of = |row| spread(&in_turn(32, row), |w| Some(w.total().compute_ns / w.wall_ns)).unwrap();
        let (changes, lasts) = (of(1), of(8));
        assert!(!changes.1 && lasts.1, "{changes:?} {lasts:?}");
        assert_eq!((changes.0.degrees, lasts.0.degrees), (15, 3));
        // Four times 8 windows, two of either kind.
        assert!((lasts.0.error / (2.0 / 4.0 / 3.0f64.sqrt()) - 1.0).abs() < 0.2, "{lasts:?}");
        assert_eq!(spread(&in_turn(2, 1), |_| Some(1.0)), None);
        assert_eq!(spread(&in_turn(6, 3), |_| Some(1.0)).unwrap().0.degrees, 5, "too few to be merged");
        assert!(!spread(&in_turn(32, 8), |_| Some(1.0)).unwrap().1, "nothing differs");
    }

    #[test]
    fn an_interval_is_as_wide_as_students_t_and_the_methods_own_error_say() {
        let three = Spread { error: 0.01, degrees: 3 };
        let [low, high] = interval([2.0; 3], three, 0.0, 0.95);
        assert!((high / 2.0).ln() - 3.182 * 0.01 < 1e-4 && (low * high - 4.0).abs() < 1e-9);
        let wider = interval([2.0; 3], three, 0.05, 0.95);
        assert!(wider[0] < low && wider[1] > high);
    }

    #[test]
    fn an_interval_reaches_to_the_ends_of_what_is_open_and_beyond_them_by_the_methods_error() {
        let certain = Spread { error: 0.0, degrees: MANY };
        let near = |is: f64, wanted: f64| assert!((is / wanted - 1.0).abs() < 1e-3, "{is} {wanted}");
        let [low, high] = interval([1.0, 2.0, 2.0], certain, 0.0, 0.95);
        near(low, 1.0);
        near(high, 2.0);
        // 1.96 times 5 % to the side where nothing is open; on the other it hardly adds to a factor of two.
        let [low, high] = interval([1.0, 2.0, 2.0], certain, 0.05, 0.95);
        near(high, 2.0 * 0.098f64.exp());
        near(low, 2.0 * (-2f64.ln().hypot(0.098)).exp());
        assert!(low < 1.0 && low > 0.98, "{low}");
    }
}
