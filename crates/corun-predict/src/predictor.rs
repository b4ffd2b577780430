//! The predictor: windows in, an estimate out, or why there is none yet.
//!
//! It keeps what it needs of each window, at most [`SLOTS`] of them: when there are more, neighbours are merged two by
//! two. Two questions are answered: how slow is the program **now**, going by its present phase ([`Predictor::estimate`]:
//! what it will suffer if it goes on like this), and how slow was the run **so far**, all phases together
//! ([`Predictor::so_far`]). After a change of phase, where dedicated windows are in use, it asks for new ones, and the
//! present is what follows the change as soon as there is one.

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
use crate::stretch::Stretch;
use crate::stretch_estimate::StretchEstimate;
use crate::useful_work::{wall_ns, Window};
use corun_model::{Observation, TenantId, TenantKind, Unavailable, What, Why};
use std::collections::{BTreeMap, BTreeSet};

/// Limit: most windows that are kept apart. Each estimate walks all tasks of all of them.
pub const SLOTS: usize = 256;
/// Limit: tasks that live for less than this share of a slot are not kept apart once slots are merged, or are crowded.
const SHORT_LIVED: f64 = 0.05;
/// Limit: slots are crowded once they list more tasks, all together. Each estimate would take longer the longer the run is: of a program
/// that makes thousands of threads a second, a third of a second after some seconds.
const CROWD: usize = 2_000;
/// Limit: most windows in an estimate's summary.
const SUMMARIES: usize = 128;

/// What to assume, and how sure to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How often an interval should hold the outcome, 0..1.
    pub confidence: f64,
    /// How the program gives work to its tasks, where its user knows.
    pub assignment: Assignment,
    /// By which method.
    pub way: Way,
    /// Shared time that it takes for an estimate, in nanoseconds.
    pub least_ns: u64,
    /// How much longer tasks that wait for each other take, each time, where each has a CPU that sleeps while it waits than taking turns on
    /// one, in nanoseconds; 0: nobody knows.
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
    /// The program behaves otherwise than in those that there are.
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
    /// For how long it waited for nothing but the outside, of how long it was watched; `None`: a window could not tell.
    outside_ns: Option<[u64; 2]>,
    phases: Phases,
    /// When each phase but the first began.
    changes_ns: Vec<u64>,
}

/// Windows of one label, of bounded number.
#[derive(Clone, Debug, Default)]
struct Series {
    windows: Vec<Window>,
    /// When the first window ever pushed began.
    begin_ns: Option<u64>,
    /// Windows ever pushed, those that make a slot, and those in the last one.
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

    /// What comes next is not merged with what was.
    fn cut(&mut self) {
        self.in_last = self.per_slot;
    }

    /// Those that began in this time.
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
            phases: Phases::default(),
            changes_ns: Vec::new(),
        }
    }

    /// Takes a window. Returns a change of phase, if this window made it certain.
    pub fn push(&mut self, seen: &Observation, label: Label) -> Option<PhaseChange> {
        self.note_tenants(seen);
        self.push_window(Window::of(seen, self.subject), label)
    }

    /// Keeps who is who in a window, and what could not be seen in it.
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

    /// The least share of the time that it was watched in which it waited for nothing but processes, events and timers outside of it,
    /// 0..1: what delayed those is not seen. `None`: the source cannot tell.
    pub fn outside(&self) -> Option<f64> {
        let [outside_ns, all_ns] = self.outside_ns?;
        Some(outside_ns as f64 / all_ns.max(1) as f64)
    }

    /// Takes a window that was sorted before, such as one that was recorded. Its tenants have no names but those that
    /// were [noted](Predictor::note_tenants).
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

    /// Takes what is known of a stretch of the run by better means than sums.
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

    /// How slow the program is now, as far as it can be told: by the windows of its present phase.
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
    /// [`CannotTell`] with what is missing: what can be told of no phase can be told of none together.
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

    /// What the stretches between these times tell together.
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

    /// What the windows of the present phase tell, and when it began.
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

    /// Whether answers are kept within the bounds that hold of the whole program.
    fn is_bounded(&self) -> bool {
        self.options.assignment == Assignment::Dynamic && self.options.way == Way::Best
    }

    /// When the present phase began: the last one of which enough was seen, with a dedicated window where there are any.
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
        let [low, high] =
            interval(estimate.slowdown(), spread, estimate.evidence.bias, self.options.confidence);
        // What was stolen may have come out of a sleep: then the program was slower by as little as that.
        let interval = [low.min(estimate.least), high];
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
        let alone = (estimate.method == Method::Dedicated).then_some(dedicated);
        let mut windows = summary(&self.dedicated, from_ns, |_| None, Label::Dedicated);
        windows.extend(summary(&self.shared, from_ns, |w| estimate.slowdown_of(w), Label::Shared));
        windows.sort_by_key(|w| w.start_ns);
        Ok(Estimate {
            slowdown: estimate.slowdown(),
            interval,
            confidence: self.options.confidence,
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

/// The windows since `from_ns`, merged where they are many.
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

/// Limit: who took less than this share of all that was taken is no culprit.
const LEAST_SHARE: f64 = 1e-4;

/// A window's culprits by name: tenants of one name and kind (ten compilers) are one, most first.
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
mod tests {
    use super::*;
    use crate::useful_work::Spent;
    use corun_model::TaskId;

    const WINDOW_NS: u64 = 100_000_000;

    /// The `i`-th window of so many tasks, from each of which this share is stolen.
    fn window_of(tasks: u32, i: u64, stolen: f64) -> Window {
        let life_ns = WINDOW_NS as f64;
        let stolen_ns = stolen * life_ns;
        let spent = Spent { life_ns, compute_ns: life_ns - stolen_ns, stolen_ns, ..Spent::default() };
        let (start_ns, end_ns) = (i * WINDOW_NS, (i + 1) * WINDOW_NS);
        let tasks = (1..=tasks).map(|t| (TaskId(t), spent)).collect();
        Window { start_ns, end_ns, wall_ns: life_ns, tasks, cpus: 8, ..Window::default() }
    }

    fn window(i: u64, stolen: f64) -> Window {
        window_of(1, i, stolen)
    }

    #[test]
    fn the_beginning_counts_only_until_there_is_as_much_after_it() {
        let mut predictor = Predictor::new(TenantId(0), Options::default());
        let mut slowdown_after = |i| {
            predictor.push_window(window(i, if i < 5 { 0.5 } else { 0.0 }), Label::Shared);
            predictor.estimate().ok().map(|e| e.slowdown)
        };
        let slowdowns: Vec<Option<f64>> = (0..10).map(&mut slowdown_after).collect();
        assert_eq!(slowdowns[3], None, "half a second is the least");
        assert!((slowdowns[4].unwrap() - 2.0).abs() < 1e-9, "there is nothing else");
        assert!(slowdowns[8].unwrap() > 1.2);
        assert_eq!(slowdowns[9], Some(1.0));
    }

    #[test]
    fn who_took_next_to_nothing_is_no_culprit_and_shares_are_round() {
        let tenants = (0..3).map(|i| (TenantId(i), (format!("t{i}"), TenantKind::Command))).collect();
        let took = [(0, 2e9), (1, 1e9), (2, 3e4)].map(|(id, ns)| (Some(TenantId(id)), ns));
        let found = culprits(&Window { culprits: took.into(), ..Window::default() }, &tenants);
        let shares: Vec<(&str, f64)> =
            found.iter().map(|c| (c.tenant.as_deref().unwrap(), c.share)).collect();
        assert_eq!(shares, [("t0", 0.666_66), ("t1", 0.333_33)]);
    }

    #[test]
    fn of_too_few_windows_it_is_said_what_is_missing() {
        let mut predictor = Predictor::new(TenantId(0), Options::default());
        let cannot_tell = |predictor: &Predictor| predictor.estimate().unwrap_err();
        assert_eq!(cannot_tell(&predictor), CannotTell::NoTask);
        predictor.push_window(Window { wall_ns: 1_400_000.0, ..window(0, 0.5) }, Label::Shared);
        assert_eq!(cannot_tell(&predictor), CannotTell::TooShort { least_ns: 500_000_000 });
        predictor.push_window(Window { wall_ns: 1e9, ..window(1, 0.5) }, Label::Shared);
        assert_eq!(cannot_tell(&predictor), CannotTell::TooFewShared);
    }

    /// The `i`-th window of a task of whose life these shares are computed, throttled, stopped, frozen and stolen.
    fn kept(i: u64, [compute, throttled, stopped, frozen, stolen]: [f64; 5]) -> Window {
        let ns = |share: f64| share * WINDOW_NS as f64;
        let spent = Spent {
            life_ns: ns(1.0),
            compute_ns: ns(compute),
            throttled_ns: ns(throttled),
            held_ns: ns(stopped + frozen),
            frozen_ns: ns(frozen),
            other_ns: ns(throttled + stopped + frozen),
            stolen_ns: ns(stolen),
            ..Spent::default()
        };
        Window { tasks: [(TaskId(1), spent)].into(), ..window(i, 0.0) }
    }

    #[test]
    fn of_a_program_that_did_not_run_it_is_known_what_kept_it() {
        for shares in [[0.0, 0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.0, 1.0, 0.0], [0.0; 5]] {
            let mut predictor = Predictor::new(TenantId(0), Options::default());
            (0..20).for_each(|i| _ = predictor.push_window(kept(i, shares), Label::Shared));
            let Err(CannotTell::OnlyWaited(w)) = predictor.so_far() else { panic!("it did not run") };
            let found = [0, w.throttled_ns, w.stopped_ns, w.frozen_ns, w.stolen_ns];
            let [_, rest @ ..] = found.map(|ns| ns as f64 / w.life_ns as f64);
            assert!(
                rest.iter().zip(&shares[1..]).all(|(is, of)| (is - of).abs() < 1e-6),
                "{rest:?}: {shares:?}"
            );
        }
    }

    #[test]
    fn a_program_that_ran_only_at_the_beginning_did_run() {
        let mut predictor = Predictor::new(TenantId(0), Options::default());
        for i in 0..30 {
            let shares = if i < 4 { [1.0, 0.0, 0.0, 0.0, 0.0] } else { [0.0, 0.0, 0.0, 1.0, 0.0] };
            predictor.push_window(kept(i, shares), Label::Shared);
        }
        let run = predictor.so_far().unwrap();
        assert!((run.held - 26.0 / 30.0).abs() < 1e-6 && run.held == run.frozen, "{run:?}");
        assert!((run.slowdown - 1.0).abs() < 1e-6, "{run:?}");
    }

    /// Prepares for 4 s on one thread, from which nothing is taken, then goes on with four for 20 s, of which three
    /// quarters are. A dedicated window every second, or none.
    fn two_phases(dedicated: bool) -> Predictor {
        let mut predictor = Predictor::new(TenantId(0), Options::default());
        for i in 0..240 {
            let (tasks, stolen) = if i < 40 { (1, 0.0) } else { (4, 0.75) };
            if dedicated && i % 10 == 5 {
                predictor.push_window(window_of(tasks, i, 0.0), Label::Dedicated);
            }
            predictor.push_window(window_of(tasks, i, stolen), Label::Shared);
        }
        predictor
    }

    #[test]
    fn the_present_is_the_last_phase_and_the_run_is_all_of_them_by_the_time_they_would_take_alone() {
        for dedicated in [true, false] {
            let predictor = two_phases(dedicated);
            let (now, run) = (predictor.estimate().unwrap(), predictor.so_far().unwrap());
            assert_eq!((now.phases, run.phases), (2, 2));
            assert!((now.slowdown - 4.0).abs() < 1e-6, "{}", now.slowdown);
            // 24 s, of which alone 4 s and 5 s.
            assert!((run.slowdown - 24.0 / 9.0).abs() < 0.05, "dedicated {dedicated}: {}", run.slowdown);
            assert!(run.interval[0] < run.slowdown && run.slowdown < run.interval[1]);
            let of_parts = run.parts.steal + run.parts.sync + run.parts.other;
            assert!((of_parts - (run.slowdown - 1.0)).abs() < 1e-9, "the parts sum to it");
            let method = if dedicated { Method::Dedicated } else { Method::Ledger };
            assert_eq!((now.method, run.method), (method, method));
            let first = run.windows.iter().find(|w| w.label == Label::Shared).unwrap();
            assert!((first.slowdown.unwrap() - 1.0).abs() < 1e-9, "a window is told by its own phase");
        }
    }

    #[test]
    fn what_one_phase_gains_and_the_next_loses_is_judged_over_the_whole_run() {
        // Two threads, one of them alone on its CPU; when it has ended the other still needs as long again.
        let mut predictor = Predictor::new(TenantId(0), Options::default());
        for i in 0..160 {
            let mut window = window_of(2, i, 0.5);
            if i < 80 {
                window.tasks.insert(TaskId(1), window_of(1, i, 0.0).tasks[&TaskId(1)]);
            } else {
                window.tasks.remove(&TaskId(1));
            }
            predictor.push_window(window, Label::Shared);
        }
        let by_sums = predictor.so_far().unwrap();
        assert_eq!((by_sums.phases, by_sums.method), (2, Method::Ledger));
        assert!(by_sums.slowdown < 1.7, "{}", by_sums.slowdown);
        // Alone both would have ended after the first half: that is known of the two halves one after the other.
        let half_ns = 80 * WINDOW_NS;
        for (at, alone) in [(0, half_ns as f64), (half_ns, 0.0)] {
            let alone_ns = [alone; 3];
            predictor.push_evidence(AloneTime { start_ns: at, end_ns: at + half_ns, alone_ns, steal: 1.0 });
        }
        let run = predictor.so_far().unwrap();
        assert_eq!(run.method, Method::Replay);
        assert!((run.slowdown - 2.0).abs() < 0.01, "{}", run.slowdown);
        let of_parts = run.parts.steal + run.parts.sync + run.parts.other;
        assert!((of_parts - (run.slowdown - 1.0)).abs() < 1e-9, "the parts sum to it");
    }

    #[test]
    fn a_phase_that_lies_within_one_shared_window_does_not_spoil_the_run() {
        let mut predictor = two_phases(true);
        predictor.push_window(window_of(4, 243, 0.0), Label::Dedicated);
        // Two changes, between which no shared window begins.
        predictor.changes_ns.extend([242 * WINDOW_NS, 244 * WINDOW_NS]);
        predictor.push_window(Window { start_ns: 240 * WINDOW_NS, ..window_of(4, 244, 0.75) }, Label::Shared);
        for i in 245..270 {
            predictor.push_window(window_of(4, i, 0.75), Label::Shared);
        }
        let run = predictor.so_far().unwrap();
        assert!((2.5..3.2).contains(&run.slowdown), "{}", run.slowdown);
    }

    /// The `i`-th window of a task that lives all the time and of so many others that live for a thousandth of it.
    fn storm(i: u64, others: u32) -> Window {
        let mut window = window_of(1, i, 0.5);
        let ns = WINDOW_NS as f64 / 1_000.0;
        let moment = Spent { life_ns: ns, compute_ns: ns, ..Spent::default() };
        let id = |n: u32| TaskId(1_000_000 * (i as u32 + 1) + n);
        window.tasks.extend((0..others).map(|n| (id(n), moment)));
        window
    }

    #[test]
    fn a_storm_of_threads_is_not_kept_apart_and_those_that_live_are() {
        let mut predictor = Predictor::new(TenantId(0), Options::default());
        for i in 0..50 {
            predictor.push_window(storm(i, 400), Label::Shared);
            let listed: usize = predictor.shared.windows.iter().map(|w| w.tasks.len()).sum();
            assert!(listed <= CROWD, "{listed} after {i}");
            assert!(predictor.shared.windows.iter().all(|w| w.tasks.contains_key(&TaskId(1))));
        }
        let all = Window::sum(&predictor.shared.windows).total();
        let life_ns = 50.0 * WINDOW_NS as f64;
        assert!((all.life_ns / life_ns - 1.4).abs() < 1e-9, "no time is lost: {}", all.life_ns);
        // Fewer are kept apart, and threads that live are, however many.
        let mut few = Predictor::new(TenantId(0), Options::default());
        (0..5).for_each(|i| _ = few.push_window(storm(i, 300), Label::Shared));
        assert_eq!(few.shared.windows[4].tasks.len(), 301);
        let mut large = Predictor::new(TenantId(0), Options::default());
        (0..5).for_each(|i| _ = large.push_window(window_of(1_000, i, 0.0), Label::Shared));
        assert_eq!(large.shared.windows[4].tasks.len(), 1_000);
    }

    #[test]
    fn tasks_that_live_for_a_moment_are_not_kept_apart_for_ever() {
        let mut predictor = Predictor::new(TenantId(0), Options::default());
        let build = |i: u64| {
            let mut window = window_of(1, i, 0.5);
            let short = window.tasks[&TaskId(1)];
            window.tasks = [(TaskId(i as u32 + 10), short), (TaskId(1), short)].into();
            window
        };
        (0..64 * SLOTS as u64).for_each(|i| {
            let _ = predictor.push_window(build(i), Label::Shared);
        });
        let kept: usize = predictor.shared.windows.iter().map(|w| w.tasks.len()).sum();
        assert!(kept <= 24 * SLOTS, "{kept} of {} tasks", 64 * SLOTS);
        assert!((predictor.so_far().unwrap().slowdown - 2.0).abs() < 0.01, "their time counts all the same");
    }

    #[test]
    fn a_phase_without_a_dedicated_window_of_its_own_is_not_the_present_yet() {
        let mut predictor = Predictor::new(TenantId(0), Options::default());
        for i in 0..100 {
            let (tasks, stolen) = if i < 40 { (1, 0.5) } else { (4, 0.75) };
            if i < 40 && i % 10 == 5 {
                predictor.push_window(window_of(tasks, i, 0.0), Label::Dedicated);
            }
            predictor.push_window(window_of(tasks, i, stolen), Label::Shared);
        }
        assert_eq!(predictor.wants_dedicated(), Some(WantsDedicated::BehaviourChanged));
        let before = predictor.estimate().unwrap();
        predictor.push_window(window_of(4, 100, 0.0), Label::Dedicated);
        let after = predictor.estimate().unwrap();
        assert!(
            (after.slowdown - 4.0).abs() < 1e-6 && before.slowdown < 2.0,
            "{} {}",
            before.slowdown,
            after.slowdown
        );
        assert_eq!(predictor.wants_dedicated(), Some(WantsDedicated::BehaviourChanged), "one is not enough");
    }
}
