//! What a run lost and when, slot by slot, for a verdict.

use crate::alone::Hints;
use crate::counterfactual::Counterfactual;
use crate::loss::{Loss, Losses, SLOT_NS};
use crate::predictor::culprits;
use crate::ruling::resolution;
use crate::useful_work::Window;
use corun_model::{TenantId, TenantKind};
use serde::Serialize;
use std::collections::BTreeMap;

/// A stretch of the run that was disturbed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disturbance {
    /// From the start of the run, in nanoseconds.
    pub start_ns: u64,
    /// From the start of the run.
    pub end_ns: u64,
    /// The share of its wall time that would not have been needed.
    pub disturbance: f64,
    /// Who took most of it; `None`: not known.
    pub culprit: Option<String>,
}

impl Disturbance {
    /// How long it would have taken less undisturbed, in nanoseconds.
    pub fn lost_ns(&self) -> f64 {
        (self.end_ns - self.start_ns) as f64 * self.disturbance
    }

    /// Makes it end with the run, in which it lost everything that it lost. Returns whether it is in the run at all.
    pub(crate) fn ends_by(&mut self, end_ns: u64) -> bool {
        if self.start_ns < end_ns && end_ns < self.end_ns {
            let stretched = (self.end_ns - self.start_ns) as f64 / (end_ns - self.start_ns) as f64;
            self.disturbance = (self.disturbance * stretched).min(1.0);
            self.end_ns = end_ns;
        }
        self.start_ns < end_ns
    }
}

/// What a run lost and when, found as the run goes on: a long one has many windows, and none of them is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossOverTime {
    begin_ns: Option<u64>,
    pub known: Counterfactual,
    /// The slot before the present one. If the present one is the last and too short, it becomes a part of this.
    before: Window,
    /// The present slot.
    slot: Window,
    pub losses: Losses,
    /// Consecutive disturbed slots, and their loss.
    pub open: Window,
    open_lost_ns: f64,
    found: Vec<Disturbance>,
}

pub(crate) type Tenants = BTreeMap<TenantId, (String, TenantKind)>;

impl LossOverTime {
    pub fn push(&mut self, window: Window, allowed: f64, tenants: &Tenants) {
        self.begin_ns.get_or_insert(window.start_ns);
        if self.slot.wall_ns >= SLOT_NS as f64 {
            let slot = std::mem::replace(&mut self.slot, window);
            let before = std::mem::replace(&mut self.before, slot);
            self.judge(&before, allowed, tenants);
        } else {
            self.slot.add(&window);
        }
    }

    /// A slot is over.
    fn judge(&mut self, slot: &Window, allowed: f64, tenants: &Tenants) {
        if slot.wall_ns <= 0.0 {
            return self.close(tenants);
        }
        let loss = Loss::of(slot, Hints::default());
        self.losses.push(slot, &loss);
        if loss.shares()[1] > allowed.max(resolution(slot.wall_ns as u64)) {
            self.open.add(slot);
            self.open_lost_ns += loss.lost_ns[1];
        } else {
            self.close(tenants);
        }
    }

    /// The disturbance is over.
    fn close(&mut self, tenants: &Tenants) {
        let w = std::mem::take(&mut self.open);
        let lost_ns = std::mem::take(&mut self.open_lost_ns);
        let begin_ns = self.begin_ns.unwrap_or(0);
        if w.wall_ns > 0.0 {
            self.found.push(Disturbance {
                start_ns: w.start_ns - begin_ns,
                end_ns: w.end_ns - begin_ns,
                disturbance: (lost_ns / w.wall_ns).min(1.0),
                culprit: culprits(&w, tenants).into_iter().find_map(|c| c.tenant),
            });
        }
    }

    /// The run is over: its loss, and when it lost more than was allowed.
    pub fn end(mut self, allowed: f64, tenants: &Tenants) -> (Loss, Window, Vec<Disturbance>) {
        let (mut before, slot) = (std::mem::take(&mut self.before), std::mem::take(&mut self.slot));
        if slot.wall_ns < SLOT_NS as f64 {
            before.add(&slot);
            self.judge(&before, allowed, tenants);
        } else {
            self.judge(&before, allowed, tenants);
            self.judge(&slot, allowed, tenants);
        }
        self.close(tenants);
        let (loss, kept) = self.losses.total(&self.known);
        // The intervals come from the sums. If the run lost another amount, it lost it at another time.
        if loss.differs_from_sums(allowed) {
            self.found.clear();
        }
        // If the whole lost less than its parts by themselves, each of them did.
        self.found.retain_mut(|interval| {
            interval.disturbance = (interval.disturbance * kept).min(1.0);
            kept == 1.0 || interval.disturbance > allowed
        });
        (loss, self.losses.whole().clone(), self.found)
    }
}
