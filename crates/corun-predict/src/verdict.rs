//! Was a run disturbed? By how much, when and by whom: what `corun verify` answers.
//!
//! Method: the windows of the run, judged by its own ledger ([`crate::alone`]): `1 - 1 / slowdown` of its wall time would
//! not have been needed without co-runners. Windows are merged to at least [`SLOT_NS`], and consecutive ones above the
//! limit form an interval. Time that the kernel's own threads or an idle CPU's wake-up took is as it would be alone and
//! disturbs nobody, and what is below the limit over the whole run is no disturbance whatever single windows say, so an
//! idle machine's background does not raise an alarm.
//!
//! Limits: as those of the ledger alone: a co-runner that only slows memory down is not seen.

use crate::alone;
use crate::estimate::{Culprit, Unavailable};
use crate::predictor::culprits;
use crate::useful_work::Window;
use corun_model::{Observation, TenantId, TenantKind};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Shortest time that is judged on its own, in nanoseconds.
pub const SLOT_NS: u64 = 50_000_000;
/// The default of `--max-disturbance`.
pub const MAX_DISTURBANCE: f64 = 0.02;

/// Clean or disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ruling {
    /// Not disturbed by more than was allowed.
    Clean,
    /// Disturbed by more.
    Disturbed,
}

/// What is said of a run; serialises to `corun.verify/1`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The answer.
    pub verdict: Ruling,
    /// Share of the wall time that would not have been needed undisturbed, 0..1.
    pub disturbance: f64,
    /// What was allowed.
    pub max_disturbance: f64,
    /// How long the run was, in nanoseconds.
    pub wall_ns: u64,
    /// How long it would have been undisturbed.
    pub undisturbed_ns: u64,
    /// Who took the time, most first.
    pub culprits: Vec<Culprit>,
    /// When it was disturbed by more than was allowed, oldest first.
    pub intervals: Vec<Disturbance>,
    /// What could not be known.
    pub unavailable: Vec<Unavailable>,
}

/// A stretch of the run that was disturbed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disturbance {
    /// From the start of the run, in nanoseconds.
    pub start_ns: u64,
    /// From the start of the run.
    pub end_ns: u64,
    /// Share of its wall time that would not have been needed.
    pub disturbance: f64,
    /// Who took most of it; `None`: not known.
    pub culprit: Option<String>,
}

/// Judges a run as its windows come in.
#[derive(Clone, Debug)]
pub struct Judge {
    subject: TenantId,
    max_disturbance: f64,
    slots: Vec<Window>,
    whole: Window,
    tenants: BTreeMap<TenantId, (String, TenantKind)>,
    unavailable: BTreeSet<Unavailable>,
}

impl Judge {
    /// A judge of this tenant's run who allows this share of its time to be disturbed, 0..1.
    pub fn new(subject: TenantId, max_disturbance: f64) -> Judge {
        Judge {
            subject,
            max_disturbance,
            slots: Vec::new(),
            whole: Window::default(),
            tenants: BTreeMap::new(),
            unavailable: BTreeSet::new(),
        }
    }

    /// Takes the next window of the run.
    pub fn push(&mut self, seen: &Observation) {
        for t in &seen.tenants {
            self.tenants.insert(t.id, (t.name.clone(), t.kind));
        }
        let reasons =
            seen.unavailable.iter().map(|u| Unavailable { what: u.what.clone(), why: u.why.clone() });
        self.unavailable.extend(reasons);
        let window = Window::of(seen, self.subject);
        self.whole.add(&window);
        match self.slots.last_mut() {
            Some(last) if last.wall_ns < SLOT_NS as f64 => last.add(&window),
            _ => self.slots.push(window),
        }
    }

    /// The verdict on the run so far. `ran_ns` is how long the command really ran, where that is less than the windows
    /// cover (it ended within the last).
    pub fn verdict(&self, ran_ns: Option<u64>) -> Verdict {
        let wall_ns = ran_ns.unwrap_or(self.whole.wall_ns as u64);
        // What the windows lost is the run's loss, also when the last of them reaches beyond its end.
        let lost_ns: f64 = lost(&self.whole) * self.whole.wall_ns;
        let disturbance = if wall_ns > 0 { (lost_ns / wall_ns as f64).clamp(0.0, 1.0) } else { 0.0 };
        let is_clean = disturbance <= self.max_disturbance;
        Verdict {
            verdict: if is_clean { Ruling::Clean } else { Ruling::Disturbed },
            disturbance,
            max_disturbance: self.max_disturbance,
            wall_ns,
            undisturbed_ns: (wall_ns as f64 * (1.0 - disturbance)) as u64,
            culprits: culprits(&self.whole, &self.tenants),
            intervals: self.intervals(),
            unavailable: self.unavailable.iter().cloned().collect(),
        }
    }

    fn intervals(&self) -> Vec<Disturbance> {
        let begin_ns = self.slots.first().map_or(0, |s| s.start_ns);
        let mut found: Vec<Disturbance> = Vec::new();
        let mut open = Window::default();
        let close = |open: &mut Window, found: &mut Vec<Disturbance>| {
            let w = std::mem::take(open);
            if w.wall_ns > 0.0 {
                found.push(Disturbance {
                    start_ns: w.start_ns - begin_ns,
                    end_ns: w.end_ns - begin_ns,
                    disturbance: lost(&w),
                    culprit: culprits(&w, &self.tenants).into_iter().find_map(|c| c.tenant),
                });
            }
        };
        for slot in &self.slots {
            if lost(slot) > self.max_disturbance {
                open.add(slot);
            } else {
                close(&mut open, &mut found);
            }
        }
        close(&mut open, &mut found);
        found
    }
}

/// Share of a window that would not have been needed undisturbed.
fn lost(window: &Window) -> f64 {
    alone::from_ledger(window, alone::Hints::default()).map_or(0.0, |a| 1.0 - 1.0 / a.slowdown.max(1.0))
}
