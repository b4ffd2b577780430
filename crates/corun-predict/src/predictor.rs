//! The predictor: windows in, an estimate out, or why there is none yet.
//!
//! It keeps what it needs of each window, at most [`SLOTS`] of them: when there are more, neighbours are merged two by
//! two. After a change of phase, where dedicated windows are in use, it asks for a new one; when that comes, it forgets what
//! was before the change. Until then, and without dedicated windows, all windows count: a ledger needs no reference.

use crate::alone::{self, Alone, Hints};
use crate::baselines::baselines;
use crate::dedicated::{self, Speed};
use crate::estimate::{
    Assignment, CannotTell, Culprit, Estimate, Label, Method, Parts, Unavailable, WindowSummary,
};
use crate::interval::{batches, interval, jackknife, FEWEST};
use crate::phases::{PhaseChange, Phases};
use crate::useful_work::{switch_cost_ns, Spent, Window};
use crate::yardstick::{spin_stalls, Yardstick};
use corun_model::{Observation, TenantId, TenantKind};
use std::collections::{BTreeMap, BTreeSet};

/// Most windows that are kept apart.
pub const SLOTS: usize = 1_024;
/// Most windows in an estimate's summary.
const SUMMARIES: usize = 128;
/// A subject's first windows do not count once others do: its threads have yet to start, and the kernel's averages of their
/// load, by which it shares CPUs, take 0.35 s to fill.
const BEGINNING_NS: u64 = 500_000_000;
/// The method's own error with dedicated windows, as a standard deviation of the logarithm: how unlike its beginning the
/// rest of a run is. Set so that intervals held the outcome of about 95 % of recorded runs on a live machine, which are
/// not those of the study (`docs/prediction.md`); modelled runs would do with a quarter of it.
const DEDICATED_ERROR: f64 = 0.08;
/// The same without them, for programs whose tasks do not wait for each other.
const LEDGER_ERROR: f64 = 0.09;
/// And for those that do: this share of the distance between the two bounds on induced waiting.
const BOUND_SHARE: f64 = 0.35;

/// What to assume, and how sure to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How often an interval should hold the outcome, 0..1.
    pub confidence: f64,
    /// How the program gives work to its tasks, where its user knows.
    pub assignment: Assignment,
    /// Shared time that it takes for an estimate, in nanoseconds.
    pub least_ns: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { confidence: 0.95, assignment: Assignment::Dynamic, least_ns: 500_000_000 }
    }
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
    phases: Phases,
    changes: usize,
    /// The phase has changed since the last dedicated window; how many shared windows there were before that.
    outdated: Option<usize>,
    /// Dedicated windows were seen at some time, so they may be asked for.
    uses_dedicated: bool,
}

/// Windows of one label, of bounded number.
#[derive(Clone, Debug, Default)]
struct Series {
    windows: Vec<Window>,
    /// When the first window ever pushed began.
    begin_ns: Option<u64>,
    per_slot: usize,
    in_last: usize,
}

impl Series {
    fn push(&mut self, window: Window) {
        self.per_slot = self.per_slot.max(1);
        self.begin_ns.get_or_insert(window.start_ns);
        if self.in_last > 0 && self.in_last < self.per_slot {
            self.in_last += 1;
            self.windows.last_mut().expect("a slot has begun").add(&window);
            return;
        }
        if self.windows.len() == SLOTS {
            self.windows = self.windows.chunks(2).map(Window::sum).collect();
            self.per_slot *= 2;
        }
        self.windows.push(window);
        self.in_last = 1;
    }

    /// Forgets the first so many windows, but keeps the last.
    fn forget(&mut self, n: usize) {
        self.windows.drain(..n.min(self.windows.len().saturating_sub(1)));
    }

    /// Without those that began within [`BEGINNING_NS`] of the first, if the rest covers as much time.
    fn settled(&self) -> &[Window] {
        let begin_ns = self.begin_ns.unwrap_or(0);
        let n = self.windows.partition_point(|w| w.start_ns < begin_ns + BEGINNING_NS);
        let rest = &self.windows[n..];
        let wall_ns: f64 = rest.iter().map(|w| w.wall_ns).sum();
        match wall_ns >= BEGINNING_NS as f64 {
            true => rest,
            false => &self.windows,
        }
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
            phases: Phases::default(),
            changes: 0,
            outdated: None,
            uses_dedicated: false,
        }
    }

    /// Takes a window. Returns a change of phase, if this window made it certain.
    pub fn push(&mut self, seen: &Observation, label: Label) -> Option<PhaseChange> {
        self.hear_of(seen);
        self.push_window(Window::of(seen, self.subject), label)
    }

    /// Keeps who is who in a window, and what could not be seen in it.
    pub fn hear_of(&mut self, seen: &Observation) {
        for t in &seen.tenants {
            self.tenants.insert(t.id, (t.name.clone(), t.kind));
        }
        let reasons =
            seen.unavailable.iter().map(|u| Unavailable { what: u.what.clone(), why: u.why.clone() });
        self.unavailable.extend(reasons);
    }

    /// Takes a window that was sorted before, such as one that was recorded. Its tenants have no names but those that
    /// were [heard of](Predictor::hear_of).
    pub fn push_window(&mut self, window: Window, label: Label) -> Option<PhaseChange> {
        if window.wall_ns <= 0.0 {
            return None;
        }
        if label == Label::Dedicated {
            self.uses_dedicated = true;
            if let Some(before) = self.outdated.take() {
                self.dedicated = Series::default();
                self.shared.forget(before);
            }
            self.dedicated.push(window);
            return None;
        }
        let change = self.phases.push(&window);
        if change.is_some() {
            self.changes += 1;
            self.outdated = Some(self.shared.windows.len());
        }
        self.shared.push(window);
        change
    }

    /// Why a dedicated window should be taken now; `None`: none is needed, or none has ever been taken.
    pub fn wants_dedicated(&self) -> Option<&'static str> {
        match (self.uses_dedicated, self.outdated, self.dedicated.windows.len()) {
            (false, ..) => None,
            (true, Some(_), _) => Some("the program's behaviour changed"),
            (true, None, n) if n < FEWEST => Some("there are too few dedicated windows for an interval"),
            _ => None,
        }
    }

    /// The slowdown, as far as it can be told.
    ///
    /// # Errors
    /// [`CannotTell`] with what is missing.
    pub fn estimate(&self) -> Result<Estimate, CannotTell> {
        let cannot = |why: &str| Err(CannotTell { why: why.to_owned() });
        let windows = self.shared.settled();
        let shared = Window::sum(windows);
        if shared.wall_ns == 0.0 || shared.all().next().is_none() {
            return cannot("the program had no task in a shared window");
        }
        if shared.total().compute_ns <= 0.0 {
            return cannot("the program has not run yet; it only waited");
        }
        if shared.wall_ns < self.options.least_ns as f64 {
            let least = corun_model::duration::human_ns(self.options.least_ns);
            return cannot(&format!("it takes {least} of shared windows with the same behaviour"));
        }
        if windows.len() < FEWEST {
            return cannot("it takes three shared windows for an interval");
        }
        let alone = Window::sum(&self.dedicated.windows);
        if self.dedicated.windows.len() >= FEWEST && alone.total().compute_ns > 0.0 {
            self.by_dedicated(&alone, &shared, windows)
        } else {
            self.by_ledger(&shared, windows)
        }
    }

    /// `shared` is the sum of `windows`.
    fn by_dedicated(
        &self,
        alone: &Window,
        shared: &Window,
        windows: &[Window],
    ) -> Result<Estimate, CannotTell> {
        let mut unavailable = self.unavailable.clone();
        let switch_ns = switch_cost_ns(alone).or_else(|_| switch_cost_ns(shared));
        if let Err(why) = switch_ns {
            let what = "cost of context switches".to_owned();
            unavailable.insert(Unavailable { what, why: format!("{why}; it stays inside useful work") });
        }
        let switch_ns = switch_ns.unwrap_or(0.0);
        let (share, unsure) = spin_stalls(windows).unzip();
        let by = Yardstick::of(&alone.total(), &shared.total(), switch_ns, share);
        let critical = dedicated::critical_tasks(alone);
        let critical = critical.as_ref().filter(|ids| {
            // They must have gone on to live in the shared windows.
            ids.iter().all(|id| shared.tasks.contains_key(id))
        });
        let speed = Speed::of(
            &self.dedicated.windows,
            windows,
            by,
            unsure.unwrap_or(0.0),
            Yardstick::blind(switch_ns),
            critical,
        );
        let rate = |w: &Window| speed.rate(w);
        let (fast, slow) = (rate(alone), rate(shared));
        if fast <= 0.0 || slow <= 0.0 {
            return Err(CannotTell { why: "the program did no useful work in one kind of window".into() });
        }
        let mut slowdown = fast / slow;
        let slowest = self.apart(alone).then(|| dedicated::slowest(alone, shared, by)).flatten();
        if let (Assignment::Static, Some(s)) = (self.options.assignment, slowest) {
            slowdown = s;
        }
        let of = |w: &Window| Some(rate(w));
        let spreads = [&self.dedicated.windows[..], windows].map(|w| jackknife(&batches(w.iter()), of));
        let [Some(a), Some(b)] = spreads else {
            return Err(CannotTell { why: "there are too few windows for an interval".into() });
        };
        let interval = interval(slowdown, &[a, b], DEDICATED_ERROR, self.options.confidence);
        let parts = speed.parts(alone, shared, slowdown);
        if parts.memory.is_none() {
            unavailable.insert(no_memory(
                &shared.total(),
                "it spins, and either stalls on memory for nearly all the rest, so that too little is left to be \
                 compared, or always spins alike, so that nobody can tell which stalls are those of spinning",
            ));
        }
        Ok(self.finish(Method::Dedicated, slowdown, interval, parts, slowest, shared, unavailable, |w| {
            Some(fast / rate(w)).filter(|s| s.is_finite())
        }))
    }

    /// `shared` is the sum of `windows`.
    fn by_ledger(&self, shared: &Window, windows: &[Window]) -> Result<Estimate, CannotTell> {
        let hints = Hints::of(windows);
        let found = alone::likely(shared, hints)
            .ok_or(CannotTell { why: "the program has not run yet; it only waited".into() })?;
        let is_static = self.options.assignment == Assignment::Static && self.apart(shared);
        let value = |a: Alone| if is_static { a.slowest } else { a.slowdown };
        let slowdown = value(found);
        let of = |w: &Window| alone::likely(w, hints).map(value);
        let spread = jackknife(&batches(windows.iter()), of)
            .ok_or(CannotTell { why: "there are too few windows for an interval".into() })?;
        // How much of the waiting is the program's own is not known: a share of the distance between the bounds.
        let unbound = alone::from_ledger(shared, Hints::all_its_own()).map_or(slowdown, value);
        let method_error = LEDGER_ERROR.hypot(BOUND_SHARE * (slowdown / unbound).ln());
        let interval = interval(slowdown, &[spread], method_error, self.options.confidence);
        let scale = if found.slowdown > 1.0 { (slowdown - 1.0) / (found.slowdown - 1.0) } else { 1.0 };
        let parts = Parts { steal: found.steal * scale, sync: found.sync * scale, memory: None, other: 0.0 };
        let mut unavailable = self.unavailable.clone();
        let alone = "how long it stalls alone is not known without dedicated windows";
        unavailable.insert(no_memory(&shared.total(), alone));
        unavailable.insert(Unavailable {
            what: "dedicated windows".into(),
            why: "none was taken, so what the program would do alone is derived from its ledger; the interval is wider"
                .into(),
        });
        let slowest = self.apart(shared).then_some(found.slowest);
        Ok(self.finish(Method::Ledger, slowdown, interval, parts, slowest, shared, unavailable, |w| of(w)))
    }

    /// Whether tasks hardly wait for each other, so that each goes its own way.
    fn apart(&self, window: &Window) -> bool {
        let all = window.total();
        all.life_ns > 0.0 && all.waiting_ns() < 0.02 * all.life_ns && window.tasks.len() > 1
    }

    #[allow(clippy::too_many_arguments)]
    fn finish(
        &self,
        method: Method,
        slowdown: f64,
        interval: [f64; 2],
        parts: Parts,
        slowest_task: Option<f64>,
        shared: &Window,
        mut unavailable: BTreeSet<Unavailable>,
        of: impl Fn(&Window) -> Option<f64>,
    ) -> Estimate {
        let all = shared.total();
        if all.unjudged_ns > 0.0 {
            unavailable.insert(Unavailable {
                what: "spin time".into(),
                why: "nobody told spinning from computing for some of the time, so the slowdown of a program that spins is understated".into(),
            });
        }
        let alone = (method == Method::Dedicated).then(|| Window::sum(&self.dedicated.windows));
        let summary = |label: Label, series: &Series| {
            let each = series.windows.len().div_ceil(SUMMARIES).max(1);
            let merged: Vec<WindowSummary> = series
                .windows
                .chunks(each)
                .map(Window::sum)
                .map(|w| WindowSummary {
                    start_ns: w.start_ns,
                    end_ns: w.end_ns,
                    label,
                    useful_cpus: w.total().compute_ns / w.wall_ns,
                    slowdown: if label == Label::Shared { of(&w) } else { None },
                })
                .collect();
            merged
        };
        let mut windows = summary(Label::Dedicated, &self.dedicated);
        windows.extend(summary(Label::Shared, &self.shared));
        windows.sort_by_key(|w| w.start_ns);
        Estimate {
            slowdown,
            interval,
            confidence: self.options.confidence,
            parts,
            culprits: culprits(shared, &self.tenants),
            baselines: baselines(alone.as_ref(), shared),
            windows,
            unavailable: unavailable.into_iter().collect(),
            method,
            slowest_task,
            phases: self.changes + 1,
        }
    }
}

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
        .filter(|(_, ns)| *ns > 0.0)
        .map(|((tenant, kind), ns)| Culprit {
            tenant: tenant.map(str::to_owned),
            kind: kind.to_owned(),
            steal_ns: ns as u64,
            share: ns / all,
        })
        .collect();
    found.sort_by(|a, b| b.steal_ns.cmp(&a.steal_ns).then_with(|| a.tenant.cmp(&b.tenant)));
    found
}

/// Why there is no memory part. `counted`: why not although events were counted.
fn no_memory(shared: &Spent, counted: &str) -> Unavailable {
    let part = 100.0 * shared.memory.in_ns / shared.on_cpu_ns().max(1.0);
    let why = if shared.memory.in_ns == 0.0 {
        "without hardware counters memory stalls are part of compute, so their change is not seen".to_owned()
    } else if !shared.knows_memory() {
        format!("events were counted in only {part:.0} % of its time on a CPU, since its tasks begin and end too fast")
    } else {
        counted.to_owned()
    };
    Unavailable { what: "memory".into(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::TaskId;

    const WINDOW_NS: u64 = 100_000_000;

    /// The `i`-th window of a task from which this share is stolen.
    fn window(i: u64, stolen: f64) -> Window {
        let life_ns = WINDOW_NS as f64;
        let stolen_ns = stolen * life_ns;
        let spent = Spent { life_ns, compute_ns: life_ns - stolen_ns, stolen_ns, ..Spent::default() };
        let (start_ns, end_ns) = (i * WINDOW_NS, (i + 1) * WINDOW_NS);
        let tasks = [(TaskId(1), spent)].into();
        Window { start_ns, end_ns, wall_ns: life_ns, tasks, ..Window::default() }
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
}
