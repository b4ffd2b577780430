//! The solo length of a program, from solo runs that alternate with its co-runs, and its error.
//!
//! Method. The solo length for a co-run is the median of the nearest solo runs, [`NEAR`] on either side. So one disturbed run does not
//! count, and slow drift of the machine is followed. The differences of successive solo runs show how far one run lies off by chance.
//! Half their mean square is the variance, without the part that a slow drift adds (von Neumann and others, 1941). The co-run has that
//! chance error itself, as every solo run has. So the standard error of the slowdown is `√(1 + π/2n)` times the deviation of one run.
//!
//! Limits: errors are taken to be normal, and as large in co-runs as in solo runs. The deviation of six solo runs is itself uncertain
//! by a third.

use crate::statistics::median;

/// Solo runs on either side of a co-run that go into its solo length.
pub const NEAR: usize = 2;

/// The solo length of a program at the time of a co-run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alone {
    /// The median of the runs near it, in nanoseconds.
    pub wall_ns: u64,
    /// Standard error of a slowdown with this length, as a share. `None` for a single run.
    pub error: Option<f64>,
}

/// The solo length for the co-run after `runs[before]`. A run that failed is `None`.
pub fn alone(runs: &[Option<u64>], before: usize) -> Option<Alone> {
    let near = runs.iter().take(before + 1 + NEAR).skip((before + 1).saturating_sub(NEAR));
    let near: Vec<f64> = near.flatten().map(|&ns| ns as f64).collect();
    let wall = median(&near)?;
    let spread = (1.0 + std::f64::consts::FRAC_PI_2 / near.len() as f64).sqrt();
    Some(Alone { wall_ns: wall.round() as u64, error: deviation(runs).map(|d| d * spread) })
}

/// The chance error of one run, as a share, from successive runs.
fn deviation(runs: &[Option<u64>]) -> Option<f64> {
    let all: Vec<f64> = runs.iter().flatten().map(|&ns| ns as f64).collect();
    let squares: Vec<f64> = all.windows(2).map(|pair| (pair[0] - pair[1]).powi(2)).collect();
    let mean = squares.iter().sum::<f64>() / squares.len().max(1) as f64;
    (!squares.is_empty()).then(|| (mean / 2.0).sqrt() * all.len() as f64 / all.iter().sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_solo_run_does_not_count_and_a_drift_is_followed() {
        let disturbed = [100, 300, 102, 98, 100].map(Some);
        assert_eq!(alone(&disturbed, 1).unwrap().wall_ns, 101);
        let drifting = [100, 110, 120, 130, 140, 150].map(Some);
        assert_eq!((alone(&drifting, 0).unwrap().wall_ns, alone(&drifting, 4).unwrap().wall_ns), (110, 140));
        assert_eq!(alone(&[None, Some(90), None], 0).unwrap().wall_ns, 90);
        assert_eq!(alone(&[None, None], 0), None);
    }

    #[test]
    fn the_error_is_the_difference_of_runs_without_the_drift_of_the_machine() {
        let error = |runs: &[u64]| {
            let runs: Vec<Option<u64>> = runs.iter().copied().map(Some).collect();
            alone(&runs, 1).unwrap().error.unwrap()
        };
        // A deviation of 14.1 from successive runs, times √(1 + π/8) for four of them around the co-run.
        let by_turns = error(&[90, 110, 90, 110]);
        assert!((by_turns - 0.1669).abs() < 1e-3, "{by_turns}");
        assert!(error(&[90, 96, 102, 108]) < by_turns / 3.0, "as far from the first to the last, but slowly");
        assert_eq!(alone(&[Some(100)], 0).unwrap().error, None);
    }
}
