//! Machine files: a machine's shape with its sizes, latencies, bandwidths, costs and power.

use corun_model::Machine;

/// A modelled machine.
#[derive(Clone, Debug)]
pub struct MachineModel {
    /// Its shape.
    pub machine: Machine,
    /// The scheduler's tick in nanoseconds (4 ms at HZ=250).
    pub tick_ns: u64,
    /// What the kernel's own work costs.
    pub costs: Costs,
}

/// What the kernel's own work costs, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A context switch: charged to the task that comes.
    pub switch_ns: u64,
    /// Waking one task: charged to the waker.
    pub wake_ns: u64,
    /// Going to sleep in the kernel: charged to the sleeper.
    pub block_ns: u64,
    /// From the wake-up of a task on an idle CPU to its first instruction (idle exit, interrupt).
    pub idle_exit_ns: u64,
    /// From a preemption's decision on another busy CPU to the switch (interrupt).
    pub preempt_ns: u64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs { switch_ns: 1_500, wake_ns: 1_500, block_ns: 800, idle_exit_ns: 4_000, preempt_ns: 1_500 }
    }
}
