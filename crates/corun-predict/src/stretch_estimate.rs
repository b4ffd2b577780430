//! The estimate for a stretch of a run, or for several stretches together: its evidence ([`crate::combine`]), and what else is known.

use crate::alone::{self, Hints};
use crate::bounds::Bounds;
use crate::calibrated::REPLAY;
use crate::combine::{Evidence, Weight};
use crate::counterfactual::Counterfactual;
use crate::dedicated::Speed;
use crate::estimate::{Method, Parts};
use crate::interval::{degrees, Spread, MANY};
use crate::loss::Loss;
use crate::useful_work::Window;
use corun_model::{Unavailable, What, Why};
use std::collections::BTreeSet;

/// The estimate for a stretch, or for several.
#[derive(Clone, Debug)]
pub(crate) struct StretchEstimate {
    /// Time shared.
    pub wall_ns: f64,
    pub evidence: Evidence,
    /// The ends of what is open. At least: all theft that may have come out of a sleep did. At most: theft from siblings caused all waiting
    /// that it may have caused.
    pub least: f64,
    pub most: f64,
    pub method: Method,
    pub slowest: Option<f64>,
    pub missing: BTreeSet<Unavailable>,
    /// How to tell the slowdown of a part of it, and since when, in the order of time.
    pub(crate) rules: Vec<(u64, Rule)>,
}

/// The parts of a slowdown that was found without dedicated windows.
pub(crate) fn parts_of(loss: &Loss, slowdown: f64) -> Parts {
    // If nothing was lost, any change in waits is waiting for siblings.
    let share = if loss.lost_ns[1] > 0.0 { loss.steal_ns / loss.lost_ns[1] } else { 0.0 };
    let steal = share * (slowdown - 1.0);
    Parts { steal, sync: slowdown - 1.0 - steal, memory: None, other: 0.0 }
}

/// A note that only this many dedicated windows were taken, and what replaces them.
pub(crate) fn no_dedicated(taken: usize, method: Method) -> Unavailable {
    let by_replay = method == Method::Replay;
    Unavailable { what: What::DedicatedWindows, why: Why::TooFewDedicated { taken, by_replay } }
}

/// How to tell a window's slowdown.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    Dedicated {
        speed: Speed,
        fast: f64,
    },
    /// With this factor for its loss.
    Ledger(Hints, f64),
}

/// Limit: a window that was all but lost is this many times slower at most.
const MOST: f64 = 1_000.0;

impl StretchEstimate {
    /// Time by time alone.
    pub fn slowdown(&self) -> f64 {
        self.evidence.slowdown()
    }

    /// This combined with an estimator that sees `less` of the same stretch.
    pub fn with(self, less: StretchEstimate) -> StretchEstimate {
        if self.evidence.spread().and(less.evidence.spread()).is_none() {
            return self;
        }
        let (evidence, weight) = self.evidence.with(&less.evidence);
        let mean = |own: f64, of_less: f64| weight.mean(own.ln(), of_less.ln()).exp();
        let (least, most) = (mean(self.least, less.least), mean(self.most, less.most));
        let rules = if weight.share < 0.5 { less.rules } else { self.rules };
        StretchEstimate { evidence, least, most, rules, ..self }
    }

    /// The slowdown in a window, or in several merged; `None`: the subject did nothing in it.
    pub fn slowdown_of(&self, window: &Window) -> Option<f64> {
        let after = self.rules.partition_point(|(from_ns, _)| *from_ns <= window.start_ns);
        match &self.rules.get(after.max(1) - 1)?.1 {
            Rule::Dedicated { speed, fast } => Some(fast / speed.rate(window)).filter(|s| s.is_finite()),
            Rule::Ledger(hints, kept) => alone::likely(window, *hints).map(|a| match *kept {
                1.0 => a.slowdown,
                kept => 1.0 / (1.0 - (1.0 - 1.0 / a.slowdown) * kept).max(1.0 / MOST),
            }),
        }
    }

    /// The same for a run without dedicated windows for which there is evidence. One stretch may pay for another, so the evidence is
    /// compared with the whole run. `loss`: that of all windows; `dedicated`: how many dedicated windows were taken.
    pub fn by_evidence(mut self, loss: &Loss, dedicated: usize) -> StretchEstimate {
        let own = self.slowdown();
        let Some(evident) = loss.evident else {
            return StretchEstimate { least: loss.slowdowns()[0].min(own), ..self };
        };
        // If nobody can tell chance in the sums, they have no say.
        let is_told = self.evidence.spread().is_some();
        let weight = if is_told { evident.weight } else { Weight { share: 1.0, ..evident.weight } };
        // What the log leaves open is in the ends: chance in windows does not move a replay.
        let certain = Spread { error: 0.0, degrees: MANY };
        let replayed = loss.slowdown_at(evident.lost_ns[1]);
        let replay = Evidence::new(replayed, Some(certain), REPLAY, parts_of(loss, replayed));
        let both = replay.weighed(&self.evidence, weight);
        let likely = both.slowdown();
        // If evidence is unsure, what the sums leave open stays open.
        let most = weight.mean(loss.slowdown_at(evident.lost_ns[2]).ln(), self.most.ln()).exp();
        let method = if weight.share > 0.5 { Method::Replay } else { Method::Ledger };
        let lost = |slowdown: f64| 1.0 - 1.0 / slowdown;
        let ratio = if own > 1.0 { lost(likely) / lost(own) } else { 1.0 };
        for (_, rule) in &mut self.rules {
            if let Rule::Ledger(_, kept) = rule {
                *kept *= ratio;
            }
        }
        self.missing.retain(|u| u.what != What::DedicatedWindows);
        self.missing.insert(no_dedicated(dedicated, method));
        StretchEstimate {
            evidence: Evidence { parts: parts_of(loss, likely), ..both },
            least: loss.slowdowns()[0].min(likely),
            most: most.max(likely),
            method,
            ..self
        }
    }

    /// The same within the bounds that hold for these windows in any case ([`crate::bounds`]). None of them has the cost of memory.
    pub fn within(self, windows: &Window, known: &Counterfactual) -> StretchEstimate {
        let left = 1.0 - Bounds::most_lost_ns(windows, known) / windows.wall_ns.max(1.0);
        let (own, parts) = (self.slowdown(), self.evidence.parts);
        let memory = parts.memory.unwrap_or(0.0).max(0.0);
        let most = 1.0 / left.max(f64::MIN_POSITIVE) + memory;
        if own <= most {
            return StretchEstimate { most: self.most.min(most), ..self };
        }
        let kept = (most - 1.0) / (own - 1.0);
        let Parts { steal, sync, memory, .. } = parts;
        let parts = Parts::of(most, steal * kept, sync * kept, memory.map(|part| part * kept));
        let evidence = Evidence { log_slowdown: most.ln(), parts, ..self.evidence };
        StretchEstimate { evidence, least: self.least.min(most), most, ..self }
    }

    /// How long it would have taken alone.
    fn alone_ns(&self) -> f64 {
        self.wall_ns / self.slowdown()
    }

    /// The estimate for consecutive stretches together; `None`: there are none.
    pub fn sum(stretches: &[StretchEstimate]) -> Option<StretchEstimate> {
        let alone_ns: f64 = stretches.iter().map(StretchEstimate::alone_ns).sum();
        let wall_ns: f64 = stretches.iter().map(|t| t.wall_ns).sum();
        let mean = |get: &dyn Fn(&StretchEstimate) -> f64| {
            stretches.iter().map(|t| t.alone_ns() / alone_ns * get(t)).sum::<f64>()
        };
        let parts = |t: &StretchEstimate| t.evidence.parts;
        let known_memory = stretches.iter().all(|t| parts(t).memory.is_some());
        let memory = known_memory.then(|| mean(&|t| parts(t).memory.unwrap_or(0.0)));
        let (steal, sync) = (mean(&|t| parts(t).steal), mean(&|t| parts(t).sync));
        let slowdown = wall_ns / alone_ns;
        // A beginning without dedicated windows is no lack of them.
        let best = stretches.iter().map(|t| t.method).min()?;
        let of_best = || stretches.iter().filter(|t| t.method == best);
        Some(StretchEstimate {
            wall_ns,
            evidence: Evidence::new(
                slowdown,
                spread(stretches, alone_ns),
                mean(&|t| t.evidence.bias),
                Parts::of(slowdown, steal, sync, memory),
            ),
            least: wall_ns / stretches.iter().map(|t| t.wall_ns / t.least).sum::<f64>(),
            most: wall_ns / stretches.iter().map(|t| t.wall_ns / t.most).sum::<f64>(),
            method: best,
            slowest: stretches
                .iter()
                .any(|t| t.slowest.is_some())
                .then(|| mean(&|t| t.slowest.unwrap_or(t.slowdown()))),
            missing: of_best().flat_map(|t| t.missing.iter().cloned()).collect(),
            rules: stretches.iter().flat_map(|t| t.rules.iter().cloned()).collect(),
        })
    }
}

/// The spread of a sum: squares add up, and Welch and Satterthwaite give the degrees of freedom. A stretch too short to tell how far it
/// scatters is assumed to scatter as the others do in as much time. `None`: none of them tells.
fn spread(stretches: &[StretchEstimate], alone_ns: f64) -> Option<Spread> {
    let known = || stretches.iter().filter_map(|t| Some((t.wall_ns, t.evidence.spread()?)));
    let weight = |(_, s): (f64, Spread)| s.degrees as f64;
    let in_all = known().map(weight).sum::<f64>();
    let fewest = known().map(|k| k.1.degrees).min()?;
    let of_time = known().map(|k| weight(k) * k.0 * k.1.error.powi(2)).sum::<f64>() / in_all;
    let of = |t: &StretchEstimate| Spread { error: (of_time / t.wall_ns).sqrt(), degrees: fewest };
    let all = stretches.iter().map(|t| {
        let own = t.evidence.spread().unwrap_or_else(|| of(t));
        Spread { error: t.alone_ns() / alone_ns * own.error, ..own }
    });
    let sum: f64 = all.clone().map(|s| s.error * s.error).sum();
    Some(Spread { error: sum.sqrt(), degrees: degrees(all) })
}
