//! The errors of the model: per cell, and over the halves of the matrix.
//!
//! | figure | formula |
//! | --- | --- |
//! | error of a slowdown | modelled median / live median - 1 |
//! | error of a category | modelled share - live share, in points of task time |
//! | quantile | nearest rank of the absolute errors |
//! | repeatability | one live repetition compared with the median of the cell's others: no model can do
//! better on average |

use crate::statistics::{median, quantile};
use crate::validate::cell::Half;
use crate::validate::cell_outcome::{CellOutcome, CATEGORIES};
use crate::validate::real::RealOutcome;
use serde::{Deserialize, Serialize};

impl CellOutcome {
    /// Error of the modelled slowdown, as a share of the live one.
    pub fn error(&self) -> Option<f64> {
        Some(self.modelled.as_ref()?.slowdown / self.live.as_ref()?.slowdown()? - 1.0)
    }

    /// Error of each category, in points of task time: 1 is one percent of it.
    pub fn ledger_errors(&self) -> Option<[f64; 4]> {
        let (modelled, live) = (self.modelled.as_ref()?.ledger.all(), self.live.as_ref()?.ledger()?.all());
        Some(std::array::from_fn(|i| (modelled[i] - live[i]) * 100.0))
    }

    /// Each live repetition's slowdown compared with the median of the others, as absolute errors.
    fn repeatability(&self) -> Vec<f64> {
        let all: Vec<f64> = self.live.iter().flat_map(|l| &l.runs).map(|r| r.slowdown).collect();
        let others = |i: usize| -> Vec<f64> {
            all.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, s)| *s).collect()
        };
        all.iter().enumerate().filter_map(|(i, s)| Some((s / median(&others(i))? - 1.0).abs())).collect()
    }
}

/// Errors over some cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The name of the set of cells.
    pub cells: String,
    /// How many of them have both a live and a modelled slowdown.
    pub n: usize,
    /// Median of the absolute errors of the slowdown.
    pub median: Option<f64>,
    /// Their 90th percentile.
    pub p90: Option<f64>,
    /// Their largest.
    pub worst: Option<f64>,
    /// Median of the signed errors. Above 0 the model's slowdown is too large.
    pub bias: Option<f64>,
    /// Median absolute error of each category, in points of task time.
    pub ledger_median: Vec<CategoryError>,
    /// 90th percentile of the same.
    pub ledger_p90: Vec<CategoryError>,
    /// Median of how far one live repetition is from the others of its cell.
    pub repeatability: Option<f64>,
    /// 90th percentile of the same.
    pub repeatability_p90: Option<f64>,
}

/// The error of one category.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CategoryError {
    /// The category.
    pub category: String,
    /// The error, in points of task time.
    pub points: f64,
}

/// Summaries of the grid's fit half, of its unseen half, of both, and of the real programs. Empty sets are left out.
pub fn summaries(cells: &[CellOutcome], real: &[RealOutcome]) -> Vec<Summary> {
    let half = |h: Half| cells.iter().filter(move |c| c.cell.half == h).collect::<Vec<_>>();
    let real: Vec<CellOutcome> = real.iter().flat_map(RealOutcome::cells).collect();
    let mut all = Vec::new();
    if !cells.is_empty() {
        all.push(summary(Half::Fit.name(), &half(Half::Fit)));
        all.push(summary(Half::Unseen.name(), &half(Half::Unseen)));
        all.push(summary("all", &cells.iter().collect::<Vec<_>>()));
    }
    if !real.is_empty() {
        all.push(summary(REAL, &real.iter().collect::<Vec<_>>()));
    }
    all
}

/// The name of the set of real programs, which are all unseen.
pub const REAL: &str = "real programs";

/// The errors over some cells.
pub fn summary(name: &str, cells: &[&CellOutcome]) -> Summary {
    let errors: Vec<f64> = cells.iter().filter_map(|c| c.error()).collect();
    let absolute: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
    let ledgers: Vec<[f64; 4]> = cells.iter().filter_map(|c| c.ledger_errors()).collect();
    let categories = |q: &dyn Fn(&[f64]) -> Option<f64>| -> Vec<CategoryError> {
        let of = |i: usize| q(&ledgers.iter().map(|l| l[i].abs()).collect::<Vec<_>>());
        let named = CATEGORIES.iter().enumerate();
        named.filter_map(|(i, c)| Some(CategoryError { category: (*c).to_owned(), points: of(i)? })).collect()
    };
    let repeats: Vec<f64> = cells.iter().flat_map(|c| c.repeatability()).collect();
    Summary {
        cells: name.to_owned(),
        n: errors.len(),
        median: median(&absolute),
        p90: quantile(&absolute, 0.9),
        worst: quantile(&absolute, 1.0),
        bias: median(&errors),
        ledger_median: categories(&|v| median(v)),
        ledger_p90: categories(&|v| quantile(v, 0.9)),
        repeatability: median(&repeats),
        repeatability_p90: quantile(&repeats, 0.9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::cell_outcome::{Live, LiveRun, Modelled, Shares};
    use crate::validate::file::{ValidateStudy, VALIDATE};

    fn cell(live: &[f64], modelled: f64, half: Half) -> CellOutcome {
        let mut cell = ValidateStudy::parse("v", VALIDATE).unwrap().cells()[0].clone();
        cell.half = half;
        let run = |&slowdown: &f64| LiveRun {
            seed: 1,
            wall_ns: 1,
            solo_ns: 1,
            slowdown,
            ledger: Shares::of(50, 0, 20, 30),
            interferer_demand: 1.0,
            foreign: 0.0,
            cut_off: false,
        };
        CellOutcome {
            cell,
            live: Some(Live { runs: live.iter().map(run).collect(), ..Live::default() }),
            modelled: Some(Modelled {
                solo_ns: 1,
                slowdown: modelled,
                slowdowns: vec![modelled],
                ledger: Shares::of(60, 0, 20, 20).unwrap(),
                interferer_demand: 1.0,
            }),
        }
    }

    #[test]
    fn quantiles_are_nearest_ranks_and_an_empty_list_has_none() {
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(
            (quantile(&ten, 0.9), quantile(&ten, 1.0), quantile(&ten, 0.0)),
            (Some(9.0), Some(10.0), Some(1.0))
        );
        assert_eq!((median(&ten), median(&[3.0, 1.0, 2.0]), median(&[])), (Some(5.5), Some(2.0), None));
    }

    #[test]
    fn errors_are_relative_to_the_live_median_and_halves_are_separate() {
        let cells = [cell(&[2.0, 2.1, 9.0], 2.31, Half::Fit), cell(&[2.0], 1.0, Half::Unseen)];
        let close = |x: Option<f64>, y: f64| (x.unwrap() - y).abs() < 1e-9;
        assert!(close(cells[0].error(), 0.1));
        let [fit, unseen, all] = summaries(&cells, &[]).try_into().unwrap();
        assert!(close(fit.median, 0.1) && close(unseen.median, 0.5) && close(unseen.bias, -0.5));
        assert_eq!((fit.n, unseen.n, all.n), (1, 1, 2));
        let steal = fit.ledger_median.iter().find(|c| c.category == "steal").unwrap();
        assert!((steal.points - 10.0).abs() < 1e-9);
    }

    #[test]
    fn repeatability_compares_each_repetition_with_the_others() {
        let s = summary("x", &[&cell(&[1.0, 1.0, 2.0], 1.0, Half::Fit)]);
        // 1 against the median of 1 and 2, twice, and 2 against the median of 1 and 1.
        assert!((s.repeatability.unwrap() - 1.0 / 3.0).abs() < 1e-9 && s.repeatability_p90 == Some(1.0));
        assert_eq!(summary("x", &[&cell(&[1.0], 1.0, Half::Fit)]).repeatability, None);
    }
}
