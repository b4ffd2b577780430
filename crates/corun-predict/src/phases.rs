//! Changes of phase: when a program's behaviour is no longer what it was, so that old windows mislead.
//!
//! Method: of each shared window some features that steal itself does not change are taken: the share of time not
//! stolen that is spent computing, the share spent spinning, blockings per compute time, and with counters instructions
//! per cycle outside memory stalls. The first [`LEARN`] windows of a phase give each feature's mean and spread. From then on two
//! cumulative sums per feature (Page 1954) add up how far windows lie above and below that mean, less a slack of half
//! the spread; one that exceeds [`LIMIT`] spreads means that the mean has moved: a single odd window does not do it.
//!
//! Limits: a program that alternates faster than it takes to learn is one phase, whose spread is large; features must
//! move by about a spread to be seen.

use crate::predictor::PhaseChange;
use crate::useful_work::Window;

/// Windows from which a phase is learnt.
pub const LEARN: usize = 16;
/// Spreads that a cumulative sum may reach.
pub const LIMIT: f64 = 10.0;
/// Slack: drift of less than this many spreads is none.
const SLACK: f64 = 0.5;

/// Names of the features, and the least spread of each: smaller movements mean nothing to a prediction.
const FEATURES: [(&str, f64); 4] = [
    ("compute per time not stolen", 0.05),
    ("spin per time not stolen", 0.05),
    ("log of blockings per compute time", 0.25),
    ("instructions per cycle", 0.1),
];

/// Watches for changes of phase.
#[derive(Clone, Debug, Default)]
pub struct Phases {
    learnt: Vec<[Option<f64>; FEATURES.len()]>,
    watches: Option<[Option<Watch>; FEATURES.len()]>,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    mean: f64,
    spread: f64,
    above: f64,
    below: f64,
    /// Mean of the windows since a sum was last zero: what the feature is now.
    sum: f64,
    n: f64,
}

impl Phases {
    /// Takes the next shared window; a change forgets the old phase, and the new one begins with this window.
    pub fn push(&mut self, window: &Window) -> Option<PhaseChange> {
        let features = features(window)?;
        let Some(watches) = &mut self.watches else {
            self.learnt.push(features);
            if self.learnt.len() == LEARN {
                self.watches = Some(std::array::from_fn(|i| learn(&self.learnt, i)));
            }
            return None;
        };
        for (i, watch) in watches.iter_mut().enumerate() {
            let (Some(w), Some(value)) = (watch, features[i]) else { continue };
            if let Some(now) = w.add(value) {
                let because = format!("{} went from {:.2} to {now:.2}", FEATURES[i].0, w.mean);
                *self = Phases { learnt: vec![features], watches: None };
                return Some(PhaseChange { at_ns: window.end_ns, because });
            }
        }
        None
    }
}

impl Watch {
    /// Adds a value; `Some` with the recent mean when it has moved for certain.
    fn add(&mut self, value: f64) -> Option<f64> {
        let z = (value - self.mean) / self.spread;
        self.above = (self.above + z - SLACK).max(0.0);
        self.below = (self.below - z - SLACK).max(0.0);
        if self.above == 0.0 && self.below == 0.0 {
            (self.sum, self.n) = (0.0, 0.0);
        } else {
            (self.sum, self.n) = (self.sum + value, self.n + 1.0);
        }
        // At least three windows: one or two are an incident, not a phase.
        (self.above.max(self.below) > LIMIT && self.n >= 3.0).then(|| self.sum / self.n)
    }
}

fn learn(learnt: &[[Option<f64>; FEATURES.len()]], i: usize) -> Option<Watch> {
    let values: Option<Vec<f64>> = learnt.iter().map(|f| f[i]).collect();
    let values = values?;
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
    let least = if FEATURES[i].0.starts_with("instructions") { FEATURES[i].1 * mean } else { FEATURES[i].1 };
    Some(Watch { mean, spread: variance.sqrt().max(least), above: 0.0, below: 0.0, sum: 0.0, n: 0.0 })
}

/// The features of a window; `None`: the subject hardly had a CPU in it, so it says nothing of its behaviour.
fn features(window: &Window) -> Option<[Option<f64>; FEATURES.len()]> {
    let all = window.total();
    let there_ns = all.life_ns - all.stolen_ns - all.queued_ns - all.other_ns;
    if there_ns <= 0.05 * all.life_ns || all.compute_ns <= 0.0 {
        return None;
    }
    let per_ms = |n: f64| (n / (all.compute_ns / 1e6) + 0.01).ln();
    let busy = all.cycles.map(|c| c - all.memory_ns.unwrap_or(0.0) / all.on_cpu_ns().max(1.0) * c);
    Some([
        Some(all.compute_ns / there_ns),
        (all.unjudged_ns == 0.0).then(|| all.spin_ns / there_ns),
        all.blockings.map(per_ms),
        all.instructions.zip(busy).filter(|(_, c)| *c > 0.0).map(|(i, c)| i / c),
    ])
}
