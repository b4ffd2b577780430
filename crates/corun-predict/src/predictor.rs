//! The predictor: windows in, an estimate out, or the reason why there is none yet.
//!
//! It keeps a summary of each window, at most [`SLOTS`] of them. If there are more, neighbors are merged two by two. It answers two
//! questions. How slow is the program **now**, in its present phase ([`Predictor::estimate`]: how much it will suffer if it goes on like
//! this)? And how slow was the run **so far**, all phases together ([`Predictor::so_far`])? After a change of phase, if dedicated windows
//! are in use, it asks for new ones. The present begins with the change as soon as there is one of them.

use crate::alone::Hints;
use crate::baselines::baselines;
use crate::beginning;
use crate::counterfactual::{AloneTime, Counterfactual};
use crate::definitions::{CONFIDENCE, NEGLIGIBLE};
use crate::estimate::{Assignment, CannotTell, Culprit, Estimate, Label, Method, Waited, Way, WindowSummary};
use crate::hypervisor::Hypervisor;
use crate::interval::{interval, FEWEST};
use crate::loss::Losses;
use crate::phases::{PhaseChange, Phases};
use crate::reach::Set;
use crate::servers::Server;
use crate::stretch::Stretch;
use crate::stretch_estimate::StretchEstimate;
use crate::useful_work::{wall_ns, Window};
use corun_model::{Observation, TenantId, TenantKind, Unavailable, What, Why};
use std::collections::{BTreeMap, BTreeSet};

/// Limit: most windows that are kept apart. Each estimate walks all tasks of all of them.
pub const SLOTS: usize = 256;
/// Limit: tasks that live for less than this share of a slot are not kept apart once slots are merged, or are crowded.
const SHORT_LIVED: f64 = 0.05;
/// Limit: slots are crowded once they list more tasks than this, all together. Otherwise each estimate would take longer the longer the run
/// is: a third of a second after some seconds of a program that makes thousands of threads a second.
const CROWD: usize = 2_000;
/// Limit: most windows in an estimate's summary.
const SUMMARIES: usize = 128;

/// What to assume, and how certain to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How often an interval should hold the outcome, 0..1.
    pub confidence: f64,
    /// How the program gives work to its tasks, if its user knows.
    pub assignment: Assignment,
    /// The method.
    pub way: Way,
    /// The least shared time for an estimate, in nanoseconds.
    pub least_ns: u64,
    /// How long a wake-up takes, in nanoseconds: tasks that wait for each other take so much longer each time if each has a CPU that sleeps
    /// meanwhile than if they take turns on one CPU. 0: nobody knows.
    pub wake_up_ns: u64,
}

impl Default for Options {
    fn default() -> Options {
        let (assignment, way) = (Assignment::Dynamic, Way::Best);
        Options { confidence: CONFIDENCE, assignment, way, least_ns: 500_000_000, wake_up_ns: 0 }
    }
}

/// Why a dedicated window would help now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantsDedicated {
    /// There are too few for an interval.
    TooFew,
    /// The program behaves differently from those that there are.
    BehaviourChanged,
}

/// Predicts the slowdown of one subject.
#[derive(Clone, Debug)]
pub struct Predictor {
    options: Options,
    subject: TenantId,
    dedicated: Series,
    shared: Series,
    tenants: BTreeMap<TenantId, (String, TenantKind)>,
    unavailable: BTreeSet<Unavailable>,
    known: Counterfactual,
    hypervisor: Hypervisor,
    /// How long it waited only for the outside, and how long it was watched; `None`: a window could not tell.
    outside_ns: Option<[u64; 2]>,
    servers: Option<Vec<Server>>,
    phases: Phases,
    /// When each phase but the first began.
    changes_ns: Vec<u64>,
}

/// Windows of one label, a bounded number of them.
#[derive(Clone, Debug, Default)]
struct Series {
    windows: Vec<Window>,
    /// When the first window ever pushed began.
    begin_ns: Option<u64>,
    /// How many windows were ever pushed, make a slot, and are in the last slot.
    pushed: usize,
    per_slot: usize,
    in_last: usize,
    is_crowded: bool,
}

impl Series {
    fn push(&mut self, mut window: Window) {
        if self.is_crowded {
            window.unlist(SHORT_LIVED);
        }
        self.add(window);
        let listed: usize = self.windows.iter().map(|w| w.tasks.len()).sum();
        if !self.is_crowded && listed > CROWD {
            self.is_crowded = true;
            self.windows.iter_mut().for_each(|w| w.unlist(SHORT_LIVED));
        }
    }

    fn add(&mut self, window: Window) {
        self.pushed += 1;
        self.per_slot = self.per_slot.max(1);
        self.begin_ns.get_or_insert(window.start_ns);
        if self.in_last > 0 && self.in_last < self.per_slot {
            self.in_last += 1;
            self.windows.last_mut().expect("a slot has begun").add(&window);
            return;
        }
        if self.windows.len() == SLOTS {
            self.windows = self.windows.chunks(2).map(Window::sum).collect();
            self.windows.iter_mut().for_each(|w| w.unlist(SHORT_LIVED));
            // Slots that were cut hold fewer, and must not make the others longer.
            self.per_slot = (self.pushed / (SLOTS / 2)).max(1);
        } else if self.per_slot > 1 {
            self.windows.last_mut().into_iter().for_each(|w| w.unlist(SHORT_LIVED));
        }
        self.windows.push(window);
        self.in_last = 1;
    }

    /// The next window is not merged with those before it.
    fn cut(&mut self) {
        self.in_last = self.per_slot;
    }

    /// The windows that began in this time.
    fn between(&self, from_ns: u64, to_ns: u64) -> &[Window] {
        let before = |ns: u64| self.windows.partition_point(|w| w.start_ns < ns);
        let begin = before(from_ns);
        &self.windows[begin..before(to_ns).max(begin)]
    }
}

impl Predictor {
    /// A predictor for this tenant.
    pub fn new(subject: TenantId, options: Options) -> Predictor {
        Predictor {
            options,
            subject,
            dedicated: Series::default(),
            shared: Series::default(),
            tenants: BTreeMap::new(),
            unavailable: BTreeSet::new(),
            known: Counterfactual::default(),
            hypervisor: Hypervisor::default(),
            outside_ns: Some([0; 2]),
            servers: None,
            phases: Phases::default(),
            changes_ns: Vec::new(),
        }
    }

    /// Takes a window. Returns a change of phase, if this window made it certain.
    pub fn push(&mut self, seen: &Observation, label: Label) -> Option<PhaseChange> {
        self.note_tenants(seen);
        self.push_window(Window::of(seen, self.subject), label)
    }

    /// Keeps the names of tenants in a window, and what could not be seen in it.
    pub fn note_tenants(&mut self, seen: &Observation) {
        for t in &seen.tenants {
            self.tenants.insert(t.id, (t.name.clone(), t.kind));
        }
        self.unavailable.extend(seen.unavailable.iter().cloned());
        self.hypervisor.add(seen, &Set::new());
        if let Some(own) = seen.by_tenant.iter().find(|t| t.id == self.subject) {
            let outside_ns = own.account.waited_outside_ns(seen.window_ns());
            self.outside_ns = self
                .outside_ns
                .zip(outside_ns)
                .map(|([outside_ns, all_ns], more_ns)| [outside_ns + more_ns, all_ns + seen.window_ns()]);
        }
    }

    /// The least share of the watched time in which it waited only for processes, events and timers outside of it, 0..1. Nobody sees what
    /// delayed those. `None`: the source cannot tell.
    pub fn outside(&self) -> Option<f64> {
        let [outside_ns, all_ns] = self.outside_ns?;
        Some(((outside_ns as f64 + self.known.looked_ns()) / all_ns.max(1) as f64).min(1.0))
    }

    /// Takes whom outside of it the program has waited for so far; `None`: it is not known.
    pub fn know_servers(&mut self, servers: Option<Vec<Server>>) {
        self.servers = servers;
    }

    /// Those, the ones first for which it waited longest.
    pub fn servers(&self) -> Option<&[Server]> {
        self.servers.as_deref()
    }

    /// Takes a window that was sorted before, such as a recorded one. Its tenants have only those names that were
    /// [noted](Predictor::note_tenants).
    pub fn push_window(&mut self, window: Window, label: Label) -> Option<PhaseChange> {
        if window.wall_ns <= 0.0 {
            return None;
        }
        if label == Label::Dedicated {
            self.dedicated.push(window);
            return None;
        }
        let change = self.phases.push(&window);
        if let Some(change) = &change {
            self.changes_ns.push(change.since_ns);
            self.shared.cut();
            self.dedicated.cut();
        }
        self.shared.push(window);
        change
    }

    /// Takes what is known about a stretch of the run by better means than sums.
    pub fn push_evidence(&mut self, evidence: AloneTime) {
        self.known.push(evidence);
    }

    /// Why a dedicated window should be taken now; `None`: none is needed, or none has ever been taken.
    pub fn wants_dedicated(&self) -> Option<WantsDedicated> {
        let of_phase = |since_ns: u64| self.dedicated.between(since_ns, u64::MAX).len() < FEWEST;
        match (self.dedicated.windows.len(), self.changes_ns.last()) {
            (0, _) => None,
            (n, _) if n < FEWEST => Some(WantsDedicated::TooFew),
            (_, Some(&since_ns)) if of_phase(since_ns) => Some(WantsDedicated::BehaviourChanged),
            _ => None,
        }
    }

    /// How slow the program is now, according to the windows of its present phase.
    ///
    /// # Errors
    /// [`CannotTell`] with what is missing.
    pub fn estimate(&self) -> Result<Estimate, CannotTell> {
        let (from_ns, now) = self.now()?;
        self.finish(now, from_ns)
    }

    /// How slow the run was so far, from its beginning, through all phases.
    ///
    /// # Errors
    /// [`CannotTell`] with what is missing.
    pub fn so_far(&self) -> Result<Estimate, CannotTell> {
        self.both().map(|(_, so_far)| so_far)
    }

    /// How slow the program is now, and how slow the run was so far.
    ///
    /// # Errors
    /// [`CannotTell`] with what is missing. If no phase has an answer, all of them together have none.
    pub fn both(&self) -> Result<(Estimate, Estimate), CannotTell> {
        let (from_ns, now) = self.now()?;
        let begin_ns = self.shared.begin_ns.unwrap_or(0);
        let mut bounds_ns = vec![begin_ns];
        bounds_ns.extend(self.begun_ns());
        let last_ns = bounds_ns[bounds_ns.len() - 1];
        bounds_ns.extend(self.changes_ns.iter().filter(|ns| **ns > last_ns));
        bounds_ns.push(u64::MAX);
        let run = self.run(&bounds_ns).unwrap_or_else(|| now.clone());
        let whole = || Window::sum(&self.shared.windows);
        let run = if self.is_bounded() { run.within(&whole(), &self.known) } else { run };
        Ok((self.finish(now, from_ns)?, self.finish(run, 0)?))
    }

    /// The estimate for the stretches between these times together.
    fn run(&self, bounds_ns: &[u64]) -> Option<StretchEstimate> {
        let is_by_sums = self.dedicated.windows.len() < FEWEST;
        let nothing = Counterfactual::default();
        let known = if is_by_sums { &nothing } else { &self.known };
        let stretches = || bounds_ns.windows(2).map(|b| Stretch { known, ..self.stretch(b[0], b[1]) });
        let run = StretchEstimate::sum(
            &stretches().filter_map(|s| s.estimate().ok()).collect::<Vec<StretchEstimate>>(),
        )?;
        if !is_by_sums || self.options.assignment == Assignment::Static {
            return Some(run);
        }
        let mut losses = Losses::default();
        for s in stretches() {
            losses.extend(s.shared, Hints::of(s.shared, s.wake_up_ns));
        }
        Some(run.by_evidence(&losses.total(&self.known).0, self.dedicated.windows.len()))
    }

    /// The estimate for the windows of the present phase, and when it began.
    fn now(&self) -> Result<(u64, StretchEstimate), CannotTell> {
        let from_ns = self.present_ns();
        let stretch = self.stretch(from_ns, u64::MAX);
        let shared = Window::sum(stretch.shared);
        if shared.wall_ns == 0.0 || shared.all().next().is_none() {
            return Err(CannotTell::NoTask);
        }
        let all = shared.total();
        if all.compute_ns <= 0.0 {
            return Err(CannotTell::OnlyWaited(Waited::of(&all)));
        }
        if shared.wall_ns < self.options.least_ns as f64 {
            return Err(CannotTell::TooShort { least_ns: self.options.least_ns });
        }
        if stretch.shared.len() < FEWEST {
            return Err(CannotTell::TooFewShared);
        }
        let estimate = stretch.estimate()?;
        Ok((from_ns, if self.is_bounded() { estimate.within(&shared, &self.known) } else { estimate }))
    }

    /// Whether answers are kept within the bounds that hold for the whole program.
    fn is_bounded(&self) -> bool {
        self.options.assignment == Assignment::Dynamic && self.options.way == Way::Best
    }

    /// When the present phase began: the last one of which enough was seen, with a dedicated window if there are any.
    fn present_ns(&self) -> u64 {
        let is_enough = |from_ns: &&u64| {
            let Stretch { shared, dedicated, .. } = self.stretch(**from_ns, u64::MAX);
            wall_ns(shared) >= self.options.least_ns as f64
                && shared.len() >= FEWEST
                && (!dedicated.is_empty() || self.dedicated.windows.is_empty())
        };
        let last = self.changes_ns.iter().rev().find(is_enough).copied();
        last.or_else(|| self.begun_ns()).unwrap_or(0)
    }

    /// When the program had begun; `None`: there is not as much after it.
    fn begun_ns(&self) -> Option<u64> {
        let begin_ns = self.shared.begin_ns?;
        let first_ns = self.changes_ns.first().copied().unwrap_or(u64::MAX);
        beginning::over_ns(self.shared.between(0, first_ns), begin_ns)
    }

    fn stretch(&self, from_ns: u64, to_ns: u64) -> Stretch<'_> {
        // Dedicated windows from before the program had begun are better than none.
        let phase_ns = self.changes_ns.iter().rev().find(|ns| **ns <= from_ns).copied().unwrap_or(0);
        let own = self.dedicated.between(from_ns, to_ns);
        let dedicated = if own.is_empty() { self.dedicated.between(phase_ns, to_ns) } else { own };
        Stretch {
            shared: self.shared.between(from_ns, to_ns),
            dedicated,
            all_dedicated: &self.dedicated.windows,
            known: &self.known,
            assignment: self.options.assignment,
            way: self.options.way,
            wake_up_ns: self.options.wake_up_ns as f64,
        }
    }

    /// The estimate that windows since `from_ns` make.
    fn finish(&self, estimate: StretchEstimate, from_ns: u64) -> Result<Estimate, CannotTell> {
        let spread = estimate.evidence.spread().ok_or(CannotTell::TooFewWindows)?;
        // Theft may have come out of a sleep: then the program was only slower by the rest. And it may have been slower by all the time that
        // tasks waited while others were stolen from.
        let ends = [estimate.least, estimate.slowdown(), estimate.most];
        let interval = interval(ends, spread, estimate.evidence.bias, self.options.confidence);
        let Stretch { shared, dedicated, .. } = self.stretch(from_ns, u64::MAX);
        let (shared, dedicated) = (Window::sum(shared), Window::sum(dedicated));
        let all = shared.total();
        let mut unavailable = self.unavailable.clone();
        unavailable.extend(estimate.missing.iter().cloned());
        if let Some(share) = self.hypervisor.share().filter(|share| *share >= NEGLIGIBLE) {
            let why = Why::HypervisorTook { percent: (100.0 * share).round() as u64 };
            unavailable.insert(Unavailable { what: What::Hypervisor, why });
        }
        if all.unjudged_ns > 0.0 {
            unavailable.insert(Unavailable::new(What::SpinTime, Why::SpinningNotTold));
        }
        // A replay tries out that they did.
        let may_have_spun = estimate.method != Method::Replay && waited_unseen(&shared);
        let alone = (estimate.method == Method::Dedicated).then_some(dedicated);
        let mut windows = summary(&self.dedicated, from_ns, |_| None, Label::Dedicated);
        windows.extend(summary(&self.shared, from_ns, |w| estimate.slowdown_of(w), Label::Shared));
        windows.sort_by_key(|w| w.start_ns);
        Ok(Estimate {
            slowdown: estimate.slowdown(),
            interval,
            confidence: self.options.confidence,
            may_have_spun,
            parts: estimate.evidence.parts.net(),
            culprits: culprits(&shared, &self.tenants),
            baselines: baselines(alone.as_ref(), &shared),
            windows,
            unavailable: unavailable.into_iter().collect(),
            method: estimate.method,
            slowest_task: estimate.slowest,
            phases: self.changes_ns.len() + 1,
            throttled: all.throttled_ns / all.life_ns.max(1.0),
            held: all.held_ns / all.life_ns.max(1.0),
            frozen: all.frozen_ns / all.life_ns.max(1.0),
        })
    }
}

/// Whether one of its tasks may have waited on its CPU, unseen, for another that was stolen from.
fn waited_unseen(window: &Window) -> bool {
    let (all, workers) = (window.total(), window.workers().count());
    let much = |ns: f64, of_ns: f64| ns > NEGLIGIBLE * of_ns;
    workers > 1 && much(all.unjudged_ns, all.on_cpu_ns()) && much(all.stolen_ns, all.life_ns)
}

/// The windows since `from_ns`, merged if there are many.
fn summary(
    series: &Series,
    from_ns: u64,
    slowdown: impl Fn(&Window) -> Option<f64>,
    label: Label,
) -> Vec<WindowSummary> {
    let windows = series.between(from_ns, u64::MAX);
    let each = windows.len().div_ceil(SUMMARIES).max(1);
    let summary = |w: Window| WindowSummary {
        start_ns: w.start_ns,
        end_ns: w.end_ns,
        label,
        useful_cpus: w.total().compute_ns / w.wall_ns,
        slowdown: slowdown(&w),
    };
    windows.chunks(each).map(Window::sum).map(summary).collect()
}

/// Limit: a tenant that took less than this share of all steal is no culprit.
const LEAST_SHARE: f64 = 1e-4;

/// A window's culprits, by name, the largest first. Tenants of one name and kind (ten compilers) are one.
pub(crate) fn culprits(window: &Window, tenants: &BTreeMap<TenantId, (String, TenantKind)>) -> Vec<Culprit> {
    let all: f64 = window.culprits.values().sum();
    let mut sums: BTreeMap<(Option<&str>, &str), f64> = BTreeMap::new();
    for (id, ns) in &window.culprits {
        let known = id.and_then(|id| tenants.get(&id));
        let key = match known {
            Some((name, kind)) => (Some(name.as_str()), kind.name()),
            None => (None, "unknown"),
        };
        *sums.entry(key).or_default() += ns;
    }
    let mut found: Vec<Culprit> = sums
        .into_iter()
        .filter(|(_, ns)| *ns >= LEAST_SHARE * all && *ns > 0.0)
        .map(|((tenant, kind), ns)| Culprit {
            tenant: tenant.map(str::to_owned),
            kind: kind.to_owned(),
            steal_ns: ns as u64,
            share: (ns / all * 1e6).round() / 1e6,
        })
        .collect();
    found.sort_by(|a, b| b.steal_ns.cmp(&a.steal_ns).then_with(|| a.tenant.cmp(&b.tenant)));
    found
}

#[cfg(test)]
mod tests;
