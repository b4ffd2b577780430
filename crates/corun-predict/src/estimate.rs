//! The answers of the predictor: plain data that serializes to `corun.predict/1`.

use crate::useful_work::Spent;
use corun_model::Unavailable;
use serde::{Deserialize, Serialize};

/// How a window was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Label {
    /// Every co-runner was parked for all of it.
    Dedicated,
    /// Co-runners ran, or might have.
    Shared,
}

/// How an estimate was made, the better way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Useful work in dedicated windows against useful work in shared ones (PACT'16 §4).
    Dedicated,
    /// By replaying the subject's shared windows without its co-runners, if that weighs more than the ledger.
    Replay,
    /// From shared windows alone: the subject's own ledger, with a wider interval.
    Ledger,
}

impl Method {
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Method::Dedicated => "dedicated",
            Method::Replay => "replay",
            Method::Ledger => "ledger",
        }
    }
}

/// How a program gives work to its tasks, in the words of OpenMP and the paper. It matters only for tasks that do not wait for each other:
/// nobody can tell from outside whether the others take over a slow task's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Assignment {
    /// Whoever is free takes the next piece (work stealing, a shared queue): all tasks' useful work counts together.
    #[default]
    Dynamic,
    /// Each task has its part from the beginning, so the program ends with the slowest.
    Static,
}

/// The method for a slowdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Everything that is known.
    #[default]
    Best,
    /// PACT'16 §4 and nothing else: total less steal, synchronization and memory, for all tasks together, alone divided by shared. No
    /// instructions, no ledger, no blockings.
    Pact16,
}

/// A slowdown compared with running alone, with its interval and its parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Time with the co-runners divided by time alone for the same work: 1 is undisturbed, 2 takes twice as long.
    pub slowdown: f64,
    /// Low and high end of the interval.
    pub interval: [f64; 2],
    /// How often the interval should hold the slowdown that a whole run shows, 0..1.
    pub confidence: f64,
    /// Whether its tasks may have spun unseen while they waited for each other. Then it is slower by that much at least, and nobody knows
    /// how much more. The interval is then that of the least.
    pub may_have_spun: bool,
    /// Where the slowdown comes from.
    pub parts: Parts,
    /// Who took the time, most first.
    pub culprits: Vec<Culprit>,
    /// The answers of simpler predictors for the same windows.
    pub baselines: Baselines,
    /// The windows that this rests on, merged if there were many, oldest first.
    pub windows: Vec<WindowSummary>,
    /// What could not be known, with the reason.
    pub unavailable: Vec<Unavailable>,
    /// How it was made.
    pub method: Method,
    /// The slowdown of the slowest task, if tasks do not wait for each other and fare differently: that of the program if its work was dealt
    /// out at the beginning. `None`: the tasks are bound together or alike.
    pub slowest_task: Option<f64>,
    /// Phases of the program so far: 1 until its behavior changed for the first time.
    pub phases: usize,
    /// The share of its tasks' lives in which its own CPU budgets stopped them, 0..=1. They would do so alone, too.
    pub throttled: f64,
    /// The share in which somebody stopped or froze them.
    pub held: f64,
    /// The part of that in which they were frozen.
    pub frozen: f64,
}

/// The parts of `slowdown - 1`; they sum to it. None is negative. Some things take less time with co-runners (tasks queue less behind each
/// other if fewer of them are ready, and wait less for CPUs to wake up), and make up for a part of the rest. If a program is no slower
/// than alone, all parts are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// Waiting for CPUs that others held.
    pub steal: f64,
    /// Waiting for siblings, spinning or blocked, and switching.
    pub sync: f64,
    /// Memory stalls; for a program that does not spin, anything that made the same instructions take longer. `None`: not counted.
    pub memory: Option<f64>,
    /// Anything else: waits for devices, another number of tasks.
    pub other: f64,
}

/// Limit: a smaller difference is rounding.
const ROUNDING: f64 = 1e-12;

impl Parts {
    /// These parts of a slowdown; the rest of `slowdown - 1` is `other`.
    pub(crate) fn of(slowdown: f64, steal: f64, sync: f64, memory: Option<f64>) -> Parts {
        let other = slowdown - 1.0 - steal - sync - memory.unwrap_or(0.0);
        // A difference that is only rounding is no part.
        Parts { steal, sync, memory, other: if other.abs() < ROUNDING { 0.0 } else { other } }
    }

    /// The same, with the negative parts taken out of the positive ones, in proportion.
    pub(crate) fn net(self) -> Parts {
        let Parts { steal, sync, memory, other } = self;
        let all = [steal, sync, memory.unwrap_or(0.0), other];
        let more: f64 = all.iter().map(|part| part.max(0.0)).sum();
        let kept = if more > 0.0 { (all.iter().sum::<f64>() / more).max(0.0) } else { 0.0 };
        let net = |part: f64| part.max(0.0) * kept;
        Parts { steal: net(steal), sync: net(sync), memory: memory.map(net), other: net(other) }
    }
}

/// A co-runner that took time from the subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Culprit {
    /// Its name; `None`: steal that could not be charged to anyone.
    pub tenant: Option<String>,
    /// What sort of tenant it is, as in the profile's JSON.
    pub kind: String,
    /// How long it held CPUs that the subject waited for, in nanoseconds, summed over the subject's tasks.
    pub steal_ns: u64,
    /// Its share of all steal, 0..=1.
    pub share: f64,
}

/// Other predictors, fed with the same windows. Each is a slowdown; `None`: it cannot say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Baselines {
    /// Cycles per instruction, shared divided by alone.
    pub cpi: Option<f64>,
    /// Misses of the last-level cache per thousand instructions, shared divided by alone.
    pub mpki: Option<f64>,
    /// Useful work alone divided by useful work shared, with PACT'16's own formula ([`Way::Pact16`]); `None`: memory stalls were not counted.
    pub pact16: Option<f64>,
    /// CPU time alone divided by CPU time shared; without dedicated windows, CPU time wanted divided by CPU time received.
    pub cpu_share: Option<f64>,
    /// Lifetime divided by lifetime without waiting for a CPU.
    pub runq_latency: Option<f64>,
}

/// One window, or several merged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WindowSummary {
    /// Start on the host's clock.
    pub start_ns: u64,
    /// End on the host's clock.
    pub end_ns: u64,
    /// How it was taken.
    pub label: Label,
    /// Time computing per wall time: the number of CPUs that it used.
    pub useful_cpus: f64,
    /// Slowdown in it; `None` for dedicated windows, and if the subject did nothing.
    pub slowdown: Option<f64>,
}

/// What a program waited for that did not run: parts of the lives of its tasks, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// All of their lives.
    pub life_ns: u64,
    /// Its own CPU budgets stopped them.
    pub throttled_ns: u64,
    /// A signal or a debugger stopped them.
    pub stopped_ns: u64,
    /// They were frozen.
    pub frozen_ns: u64,
    /// Co-runners, or somebody unknown, had their CPUs.
    pub stolen_ns: u64,
}

impl Waited {
    /// That of this sum of tasks.
    pub(crate) fn of(all: &Spent) -> Waited {
        Waited {
            life_ns: all.life_ns as u64,
            throttled_ns: all.throttled_ns as u64,
            stopped_ns: (all.held_ns - all.frozen_ns).max(0.0) as u64,
            frozen_ns: all.frozen_ns as u64,
            stolen_ns: all.stolen_ns as u64,
        }
    }
}

/// Why there is no estimate yet; `corun-report` makes the sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotTell {
    /// The program had no task in a shared window.
    NoTask,
    /// It has not run yet, and only waited.
    OnlyWaited(Waited),
    /// There is no shared window in the stretch.
    NoSharedWindow,
    /// It did no useful work in the shared windows, or in the dedicated ones.
    NoUsefulWork,
    /// Shared windows with the same behavior are shorter than this, all together.
    TooShort {
        /// The least, in nanoseconds.
        least_ns: u64,
    },
    /// There are too few shared windows for an interval.
    TooFewShared,
    /// There are too few windows of all kinds for an interval.
    TooFewWindows,
    /// The requested way needs dedicated windows, and there are too few yet.
    TooFewDedicated,
}

impl CannotTell {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            CannotTell::NoTask => "no_task",
            CannotTell::OnlyWaited(_) => "only_waited",
            CannotTell::NoSharedWindow => "no_shared_window",
            CannotTell::NoUsefulWork => "no_useful_work",
            CannotTell::TooShort { .. } => "too_short",
            CannotTell::TooFewShared => "too_few_shared",
            CannotTell::TooFewWindows => "too_few_windows",
            CannotTell::TooFewDedicated => "too_few_dedicated",
        }
    }
}

impl std::fmt::Display for CannotTell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot tell yet: {}", self.name())
    }
}

impl std::error::Error for CannotTell {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_is_negative_and_they_sum_to_what_it_is_slower_by() {
        let net = |steal, sync, memory, other| Parts { steal, sync, memory, other }.net();
        let found = net(0.6, -0.1, Some(0.2), -0.2);
        assert!((found.steal - 0.375).abs() < 1e-12 && (found.memory.unwrap() - 0.125).abs() < 1e-12);
        assert_eq!((found.sync, found.other), (0.0, 0.0));
        assert_eq!(net(0.3, 0.2, None, 0.0), Parts { steal: 0.3, sync: 0.2, memory: None, other: 0.0 });
        assert_eq!(net(-0.1, 0.0, Some(-0.1), 0.0), Parts { memory: Some(0.0), ..Parts::default() });
        assert_eq!(net(0.1, -0.2, None, 0.0), Parts::default(), "faster than alone");
    }
}
