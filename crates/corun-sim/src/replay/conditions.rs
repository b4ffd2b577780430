//! The conditions of a replay, and how it treats what a script leaves open.

use super::script::{By, Change, Ends, Spinning, Switched};
use crate::sched::FairOptions;

/// What a program would have in a solo run, and how to treat what its script leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// The time from a wake-up to running, for a task that is woken on a sleeping CPU, in nanoseconds.
    pub wake_up_ns: u64,
    /// What ends a wait, if the script does not know.
    pub either: Ends,
    /// Who changes a limit, if the script does not know.
    pub changed_by: By,
    /// When a CPU comes or goes, if that is not known exactly.
    pub switches: Switches,
    /// Whether uncertain sleeps were looks at what others had done; `None`: each as is likely.
    pub looks: Option<bool>,
    /// How much of the computing of tasks counts as spinning, which a solo run does not have.
    pub spun: Spinning,
    /// Whether an idle CPU takes over half of a sibling's remaining computing up to its next wait.
    pub shares_work: bool,
    /// How often in 1,024 a CPU that runs out of tasks first looks for one that waits on another CPU. The
    /// kernel learns this number.
    pub newidle_ratio: u32,
}

impl Conditions {
    /// Whether an uncertain sleep is a look.
    pub(super) fn looks(&self, likely: bool) -> bool {
        self.looks.unwrap_or(likely)
    }

    /// Who made this change.
    pub(super) fn maker(&self, change: &Change) -> By {
        change.by.unwrap_or(self.changed_by)
    }
}

/// How long a wake-up takes on a sleeping CPU if nobody has measured it, in nanoseconds. On the virtual
/// machine where replays were tried, it took 19 to 45 us, and it varied.
const WAKE_UP_NS: u64 = 25_000;

impl Default for Conditions {
    fn default() -> Conditions {
        Conditions {
            wake_up_ns: WAKE_UP_NS,
            either: Ends::Either,
            changed_by: By::Others,
            switches: Switches::Midway,
            looks: None,
            spun: Spinning::Likely,
            shares_work: false,
            newidle_ratio: FairOptions::default().newidle_ratio,
        }
    }
}

/// When CPUs come and go, within the known bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switches {
    /// In the middle.
    Midway,
    /// As early as possible when they come, and as late as possible when they go.
    Kindest,
    /// As late as possible when they come, and as early as possible when they go.
    Harshest,
}

impl Switches {
    /// When that CPU comes or goes.
    pub(super) fn when_ns(self, s: &Switched) -> u64 {
        let [early, late] = s.between_ns;
        match (self, s.is_on) {
            (Switches::Midway, _) => early + late.saturating_sub(early) / 2,
            (Switches::Kindest, true) | (Switches::Harshest, false) => early,
            (Switches::Kindest, false) | (Switches::Harshest, true) => late,
        }
    }
}
