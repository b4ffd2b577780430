//! What a program has when its run is replayed, and what is made of what its script leaves open.

use super::script::{By, Change, Ends, Spinning, Switched};
use crate::sched::FairOptions;

/// What a program would have alone, and what to make of what its script leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// How long it takes a task to run that is woken where a CPU sleeps, in nanoseconds.
    pub wake_up_ns: u64,
    /// What ends waits of which that is not known.
    pub either: Ends,
    /// Who changes limits of which that is not known.
    pub changed_by: By,
    /// When CPUs come and go of which that is not known exactly.
    pub switches: Switches,
    /// Whether sleeps of which that is not known were looks at what others had done; `None`: as is likely of each.
    pub looks: Option<bool>,
    /// How much of what tasks computed is taken for spinning: that is gone.
    pub spun: Spinning,
    /// Whether a CPU that has nothing to do takes over half of what a sibling has left to compute until it waits next.
    pub shares_work: bool,
    /// Of 1,024 times that a CPU runs dry, how often it looks at first whether a task waits at another. The kernel has learnt that.
    pub newidle_ratio: u32,
}

impl Conditions {
    /// Whether a sleep is a look of which that is likely, or is not.
    pub(super) fn looks(&self, likely: bool) -> bool {
        self.looks.unwrap_or(likely)
    }

    /// Who made this change.
    pub(super) fn maker(&self, change: &Change) -> By {
        change.by.unwrap_or(self.changed_by)
    }
}

/// What a wake-up takes where a CPU sleeps if nobody has measured it, in nanoseconds: it was 19 to 45 us on the virtual machine where
/// replay was tried, and none is certain.
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

/// When CPUs come and go, within the times between which they did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switches {
    /// In the middle.
    Midway,
    /// They come as early, and go as late, as they may have.
    Kindest,
    /// They come as late, and go as early, as they may have.
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
