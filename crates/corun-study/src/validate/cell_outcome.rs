//! The result of one cell, on either host.

use crate::statistics::median;
use crate::validate::cell::Cell;
use serde::{Deserialize, Serialize};

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellOutcome {
    /// The cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// The live runs. `None` if not run.
    pub live: Option<Live>,
    /// The modelled runs. `None` if not run.
    pub modelled: Option<Modelled>,
}

/// A cell on the live machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// The repetitions that count.
    pub runs: Vec<LiveRun>,
    /// Runs that did not count, because other programs took too much CPU time.
    pub rejected: u32,
    /// Repetitions without a quiet moment.
    pub missing: u32,
}

/// One live repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveRun {
    /// Seed of the random lengths: the number of the repetition, from 1.
    pub seed: u64,
    /// Length of the co-run, in nanoseconds.
    pub wall_ns: u64,
    /// Mean length of the solo runs before and after it, in nanoseconds.
    pub solo_ns: u64,
    /// `wall_ns / solo_ns`.
    pub slowdown: f64,
    /// The shares of the program's task time. `None` if some of it was not seen.
    pub ledger: Option<Shares>,
    /// CPU time of the interferer, as a share of one CPU.
    pub interferer_demand: f64,
    /// CPU time of other programs, as a share of the machine's.
    pub foreign: f64,
    /// Whether the run was cut off before the program ended.
    pub cut_off: bool,
}

/// A cell on the modelled machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Modelled {
    /// Length of the solo run, in nanoseconds.
    pub solo_ns: u64,
    /// Median slowdown.
    pub slowdown: f64,
    /// Slowdown of each run: by seed, then by phase.
    pub slowdowns: Vec<f64>,
    /// The shares of the program's task time, over all runs.
    pub ledger: Shares,
    /// CPU time of the interferer over all runs, as a share of one CPU.
    pub interferer_demand: f64,
}

/// Shares of task time, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Running and useful.
    pub compute: f64,
    /// Running but waiting.
    pub spin: f64,
    /// Off the CPU voluntarily.
    pub block: f64,
    /// Runnable but not running.
    pub steal: f64,
}

/// The names of the categories, in the order of [`Shares::all`].
pub const CATEGORIES: [&str; 4] = ["compute", "spin", "block", "steal"];

impl Shares {
    /// Makes shares of nanoseconds. `None` if all are 0.
    pub fn of(compute_ns: u64, spin_ns: u64, block_ns: u64, steal_ns: u64) -> Option<Shares> {
        let total = (compute_ns + spin_ns + block_ns + steal_ns) as f64;
        let share = |ns: u64| ns as f64 / total;
        (total > 0.0).then(|| Shares {
            compute: share(compute_ns),
            spin: share(spin_ns),
            block: share(block_ns),
            steal: share(steal_ns),
        })
    }

    /// In the order of [`CATEGORIES`].
    pub fn all(&self) -> [f64; 4] {
        [self.compute, self.spin, self.block, self.steal]
    }

    /// The mean. `None` for an empty list.
    pub fn mean(of: &[Shares]) -> Option<Shares> {
        let n = of.len() as f64;
        let mean = |f: fn(&Shares) -> f64| of.iter().map(f).sum::<f64>() / n;
        (!of.is_empty()).then(|| Shares {
            compute: mean(|s| s.compute),
            spin: mean(|s| s.spin),
            block: mean(|s| s.block),
            steal: mean(|s| s.steal),
        })
    }
}

impl Live {
    /// Median slowdown of the runs that count; `None` without any.
    pub fn slowdown(&self) -> Option<f64> {
        median(&self.runs.iter().map(|r| r.slowdown).collect::<Vec<_>>())
    }

    /// The shares of the program's task time, as the mean over the runs. `None` if the ledger of some run is unknown.
    pub fn ledger(&self) -> Option<Shares> {
        let all: Option<Vec<Shares>> = self.runs.iter().map(|r| r.ledger).collect();
        all.and_then(|all| Shares::mean(&all))
    }

    /// Mean CPU time of the interferer, as a share of one CPU.
    pub fn interferer_demand(&self) -> Option<f64> {
        let n = self.runs.len() as f64;
        (n > 0.0).then(|| self.runs.iter().map(|r| r.interferer_demand).sum::<f64>() / n)
    }
}
