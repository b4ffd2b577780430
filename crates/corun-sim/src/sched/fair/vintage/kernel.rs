//! The differences of the older kernels, in one table for the other files.
//!
//! Sources: `kernel/sched.c`, `kernel/sched_fair.c` and the initializers of domains (`SD_SIBLING_INIT` and so on) of
//! Linux 2.6.32.67; `kernel/sched/fair.c`, `kernel/sched/core.c` and `include/linux/topology.h` of 3.8.13 and 3.14.1.

use corun_model::Linux;

/// The load of a CPU (`weighted_cpuload`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loads {
    /// The weights that are queued right now.
    Weights,
    /// The decaying averages of the entities that are queued (`runnable_load_avg`, since 3.10).
    Averages,
}

/// Where `select_idle_sibling` looks for an idle CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleSibling {
    /// The first idle CPU of each domain within the cache, up to the one that spans waker and previous CPU.
    AnyUpToWaker,
    /// A core that is idle as a whole, else an idle CPU of the target's core.
    WholeGroup,
}

/// The condition for a group that is unbalanced in itself (`group_imb`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupImbalance {
    /// Its CPUs differ by more than two tasks' load, and the busiest of them has more than one task.
    TwoTasks,
    /// They differ by a task's load, and by more than one task.
    OneTask,
    /// A balance within it failed because tasks are pinned.
    Pinned,
}

/// When a busy CPU balances idle ones whose ticks have stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kick {
    /// An idle CPU does it at each tick while any CPU is busy.
    Always,
    /// It has two tasks, or more than one CPU of a group within its cache is busy.
    BusyGroup,
    /// It has two tasks, or there is more than one cache and more than one CPU of its own is busy.
    BusyCache,
}

/// How domains beyond the node are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// One, of up to sixteen nodes.
    OneLevel,
    /// One for each distance in the firmware's table. Its groups are the sets of its CPUs one level below, so groups may overlap.
    ByDistance,
}

/// The properties of a kernel's balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The release.
    pub linux: Linux,
    /// See [`Loads`].
    pub loads: Loads,
    /// See [`IdleSibling`].
    pub idle_sibling: IdleSibling,
    /// A waker of very many tasks does not pull them (`wake_wide`).
    pub wide_wakers: bool,
    /// See [`GroupImbalance`].
    pub group_imbalance: GroupImbalance,
    /// Whether a group that is unbalanced in itself is balanced at any load.
    pub forces_unbalanced: bool,
    /// A group holds as many tasks as it has cores (`sg_capacity`); else as many as its power is worth, which hyperthreads
    /// make more than cores.
    pub counts_cores: bool,
    /// An idle CPU takes only from groups with fewer idle CPUs, by this many.
    pub fewer_idle: u64,
    /// Whether an idle hyperthread next to a busy one balances beyond its core as if it were busy.
    pub busy_sibling: bool,
    /// Caches spread tasks over their groups, not only nodes.
    pub caches_prefer_siblings: bool,
    /// See [`Kick`].
    pub kick: Kick,
    /// See [`Nodes`].
    pub nodes: Nodes,
}

const V2_6_32: Kernel = Kernel {
    linux: Linux(2, 6),
    loads: Loads::Weights,
    idle_sibling: IdleSibling::AnyUpToWaker,
    wide_wakers: false,
    group_imbalance: GroupImbalance::TwoTasks,
    forces_unbalanced: false,
    counts_cores: false,
    fewer_idle: 2,
    busy_sibling: true,
    caches_prefer_siblings: true,
    kick: Kick::Always,
    nodes: Nodes::OneLevel,
};

const V3_8: Kernel = Kernel {
    linux: Linux(3, 8),
    idle_sibling: IdleSibling::WholeGroup,
    group_imbalance: GroupImbalance::OneTask,
    forces_unbalanced: true,
    busy_sibling: false,
    caches_prefer_siblings: false,
    kick: Kick::BusyGroup,
    nodes: Nodes::ByDistance,
    ..V2_6_32
};

const V3_14: Kernel = Kernel {
    linux: Linux(3, 14),
    loads: Loads::Averages,
    wide_wakers: true,
    group_imbalance: GroupImbalance::Pinned,
    counts_cores: true,
    fewer_idle: 0,
    kick: Kick::BusyCache,
    ..V3_8
};

impl Kernel {
    /// Those that are modelled.
    pub const ALL: [Kernel; 3] = [V2_6_32, V3_8, V3_14];

    /// The balancer of a release, if it is one of these. 2.6 is 2.6.32.
    pub fn of(linux: Linux) -> Option<Kernel> {
        Kernel::ALL.into_iter().find(|kernel| kernel.linux == linux)
    }
}
