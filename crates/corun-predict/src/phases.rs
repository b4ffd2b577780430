//! Changes of phase: when a program's behavior is no longer the same, so that an earlier dedicated window misleads.
//!
//! Method: shared windows are merged into blocks of at least [`BLOCK_NS`]. Each block has some features that steal does not change by itself:
//! on how many tasks computing is spread, how often they block and how long they wait for devices and timers per time computing, and with
//! counters the instructions per cycle outside memory stalls. The first [`LEARN`] blocks of a phase give each feature's mean and spread.
//! From then on, two cumulative sums per feature (Page 1954) add up how far blocks lie above and below that mean, less a slack of half the
//! spread. If one exceeds [`LIMIT`] spreads, the mean has moved. A single odd block is not enough.
//!
//! Limits: a program that alternates faster than it takes to learn is one phase, with a large spread. A feature must move by about a spread
//! to be seen. A change that is over within two seconds goes unnoticed.

use crate::calibrated::OTHER_PHASE;
use crate::definitions::NEGLIGIBLE;
use crate::useful_work::Window;

/// Definition: the shortest block.
pub const BLOCK_NS: f64 = 500_000_000.0;
/// Definition: blocks from which a phase is learnt.
pub const LEARN: usize = 8;
/// Definition: spreads that a cumulative sum may reach. If nothing changes, one feature reaches this once in ten hours or more (Siegmund
/// 1985, for this slack).
pub const LIMIT: f64 = 10.0;
/// Definition: slack. It is half of the least shift to be found, which is one spread (Page 1954).
const SLACK: f64 = 0.5;
/// Definition: blocks that must have gone into a sum: fewer are an incident, not a phase.
const LASTING: f64 = 4.0;

/// A feature of a program's behavior.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// On how many tasks computing is spread.
    SpreadOn,
    /// Blockings per millisecond of compute.
    Blockings,
    /// Its own waits per time computing.
    OwnWaits,
    /// Instructions per cycle.
    InstructionsPerCycle,
}

/// The features. All are logarithms, and spread by [`OTHER_PHASE`] at least: smaller movements mean nothing to a prediction.
const FEATURES: [Feature; 4] =
    [Feature::SpreadOn, Feature::Blockings, Feature::OwnWaits, Feature::InstructionsPerCycle];

type Features = [Option<f64>; FEATURES.len()];

/// A change of phase, for the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseChange {
    /// Since when the program has behaved differently, as far as can be told; on the host's clock.
    pub since_ns: u64,
    /// When that became certain.
    pub at_ns: u64,
    /// What changed.
    pub what: Feature,
    /// The value before.
    pub from: f64,
    /// The value since.
    pub to: f64,
}

/// Watches for changes of phase.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    block: Window,
    learnt: Vec<Features>,
    watches: Option<[Option<Watch>; FEATURES.len()]>,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    mean: f64,
    spread: f64,
    above: f64,
    below: f64,
    /// Sum and number of the values since both cumulative sums were last zero, and when that was. They give the feature's present value.
    sum: f64,
    n: f64,
    since_ns: u64,
}

impl Phases {
    /// Takes the next shared window. A change forgets the old phase; the new one begins with this block.
    pub fn push(&mut self, window: &Window) -> Option<PhaseChange> {
        self.block.add(window);
        if self.block.wall_ns < BLOCK_NS {
            return None;
        }
        let block = std::mem::take(&mut self.block);
        let features = features(&block)?;
        let Some(watches) = &mut self.watches else {
            self.learnt.push(features);
            if self.learnt.len() == LEARN {
                self.watches = Some(std::array::from_fn(|i| learn(&self.learnt, i)));
            }
            return None;
        };
        for (i, watch) in watches.iter_mut().enumerate() {
            let (Some(w), Some(value)) = (watch, features[i]) else { continue };
            if let Some(now) = w.add(value, block.start_ns) {
                let change = PhaseChange {
                    since_ns: w.since_ns,
                    at_ns: window.end_ns,
                    what: FEATURES[i],
                    from: w.mean.exp(),
                    to: now.exp(),
                };
                *self = Phases { learnt: vec![features], ..Phases::default() };
                return Some(change);
            }
        }
        None
    }
}

impl Watch {
    /// Adds the value of a block; `Some` with the recent mean when it has moved for certain.
    fn add(&mut self, value: f64, start_ns: u64) -> Option<f64> {
        let z = (value - self.mean) / self.spread;
        self.above = (self.above + z - SLACK).max(0.0);
        self.below = (self.below - z - SLACK).max(0.0);
        if self.above == 0.0 && self.below == 0.0 {
            (self.sum, self.n) = (0.0, 0.0);
        } else {
            self.since_ns = if self.n == 0.0 { start_ns } else { self.since_ns };
            (self.sum, self.n) = (self.sum + value, self.n + 1.0);
        }
        (self.above.max(self.below) > LIMIT && self.n >= LASTING).then(|| self.sum / self.n)
    }
}

fn learn(learnt: &[Features], i: usize) -> Option<Watch> {
    let values: Option<Vec<f64>> = learnt.iter().map(|f| f[i]).collect();
    let values = values?;
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
    let spread = variance.sqrt().max(OTHER_PHASE);
    Some(Watch { mean, spread, above: 0.0, below: 0.0, sum: 0.0, n: 0.0, since_ns: 0 })
}

/// The features of a block; `None`: the subject computed next to nothing in it, so it does not show its behavior.
fn features(block: &Window) -> Option<Features> {
    let all = block.total();
    if all.compute_ns < NEGLIGIBLE * block.wall_ns {
        return None;
    }
    let compute_ms = all.compute_ns / 1e6;
    let per_cycle = all.per_instruction(all.cycles).filter(|cpi| *cpi > 0.0).map(|cpi| {
        let stalled = if all.knows_memory() { all.stalled_ns() / all.on_cpu_ns() } else { 0.0 };
        -(cpi * (1.0 - stalled)).ln()
    });
    Some([
        Some(block.spread_on().max(1.0).ln()),
        all.blockings.map(|n| (n / compute_ms + NEGLIGIBLE).ln()),
        Some((all.own_ns / all.compute_ns + NEGLIGIBLE).ln()),
        per_cycle.filter(|x| x.is_finite()),
    ])
}
