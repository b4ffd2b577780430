//! The nine categories of a nanosecond: one order, one name and one style in every picture.

use crate::profile::schema::Ledger;

/// A part of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// On a CPU, and useful as far as is known.
    Compute,
    /// On a CPU, waiting for a lock or barrier.
    Spin,
    /// Runnable, something else held the CPU.
    Steal,
    /// A CPU budget of its own was used up.
    Throttled,
    /// Stopped by a signal or a tracer.
    Stopped,
    /// Frozen with its cgroup or the system.
    Frozen,
    /// Stopped by corun.
    Parked,
    /// Off the CPU voluntarily.
    Block,
    /// Not shown by the kernel.
    Unknown,
}

impl Category {
    /// All of them: first running, then lost, then voluntary, then unseen time.
    pub const ALL: [Category; 9] = [
        Category::Compute,
        Category::Spin,
        Category::Steal,
        Category::Throttled,
        Category::Stopped,
        Category::Frozen,
        Category::Parked,
        Category::Block,
        Category::Unknown,
    ];

    /// Its name in legends and tables.
    pub fn name(self) -> &'static str {
        match self {
            Category::Compute => "compute",
            Category::Spin => "spin",
            Category::Steal => "stolen",
            Category::Throttled => "throttled",
            Category::Stopped => "stopped",
            Category::Frozen => "frozen",
            Category::Parked => "parked",
            Category::Block => "blocked",
            Category::Unknown => "unknown",
        }
    }

    /// The meaning, for people who see it for the first time.
    pub fn meaning(self) -> &'static str {
        match self {
            Category::Compute => "on a CPU",
            Category::Spin => "on a CPU, but only waiting for a lock or barrier",
            Category::Steal => "ready to run, but something else held the CPU",
            Category::Throttled => {
                "the CPU budget that it is under was used up (a quota, or real-time runtime)"
            }
            Category::Stopped => "stopped by a signal or a debugger",
            Category::Frozen => "frozen with its cgroup or the whole system",
            Category::Parked => "stopped by corun itself",
            Category::Block => "off the CPU by its own wish: waiting for a lock, I/O, a timer",
            Category::Unknown => "not shown by the kernel",
        }
    }

    /// Its part of a ledger in nanoseconds; `None` if it was not measured.
    pub fn of(self, l: &Ledger) -> Option<u64> {
        match self {
            Category::Compute => Some(l.compute_ns),
            Category::Spin => l.spin_ns,
            Category::Steal => Some(l.steal_ns),
            Category::Throttled => Some(l.throttled_ns),
            Category::Stopped => l.stopped_ns,
            Category::Frozen => l.frozen_ns,
            Category::Parked => Some(l.parked_ns),
            Category::Block => Some(l.block_ns),
            Category::Unknown => Some(l.unknown_ns),
        }
    }
}

/// The non-empty parts of a ledger, in the same order.
pub fn parts(l: &Ledger) -> impl Iterator<Item = (Category, u64)> + '_ {
    Category::ALL.into_iter().filter_map(|c| c.of(l).filter(|&ns| ns > 0).map(|ns| (c, ns)))
}
