//! Placement and balancing as in the Linux of the papers' time: 2.6.32, 3.8 and 3.14, under CFS.
//!
//! Later kernels search for any idle CPU under a cache, and compare numbers of tasks. These weigh loads. They move running tasks by
//! force if moves have failed often enough (active balance). They go idle although a task waits, if that ran a moment ago. There is one
//! balancer; the differences of the releases are in a table.
//!
//! | file | holds | after |
//! | --- | --- | --- |
//! | [`kernel`] | the differences of the releases | |
//! | [`domains`] | spans of CPUs, and their groups | `build_sched_domains`, `sched_init_numa` |
//! | [`loads`] | the load of a CPU | `weighted_cpuload`, `source_load`, `target_load`, `effective_load` |
//! | [`placement`] | the CPU of a waking or new task | `select_task_rq_fair`, `wake_affine`, `select_idle_sibling`, `find_idlest_group`
//! |
//! | [`imbalance`] | the group to take from, and how much | `find_busiest_group` |
//! | [`balance`] | the times, and the tasks; active balance | `rebalance_domains`, `load_balance`, `idle_balance`, `nohz_kick_needed` |
//!
//! Limits: no synchronous wake-ups (pipes), no buddies, no NUMA balancing (pages have no homes here), no
//! power saving. Of the tasks that may be moved, the one that ran longest ago goes first; the kernel takes
//! the one that was queued last. A balance takes no time.

pub mod balance;
pub mod domains;
mod imbalance;
pub mod kernel;
mod loads;
mod placement;

use crate::sched::CpuIx;
use corun_model::Machine;
use domains::Domains;
use kernel::Kernel;
use loads::Average;

/// This balancer's data of a CPU.
#[derive(Clone, Debug, Default)]
struct Own {
    load: Average,
    /// By domain: when it was balanced last, in ticks.
    balanced: Vec<u64>,
    /// By domain: the interval between balances, in milliseconds.
    interval_ms: Vec<u64>,
    /// By domain: balances in a row that found an imbalance and moved nothing.
    failed: Vec<u32>,
    /// The target, if its running task is to be moved by force.
    push_to: Option<CpuIx>,
}

/// The balancer's state; empty if a later kernel places and balances.
#[derive(Clone, Debug)]
pub struct Vintage {
    kernel: Kernel,
    domains: Domains,
    cpus: Vec<Own>,
}

impl Vintage {
    /// The state for a machine.
    pub fn of(machine: &Machine, kernel: Kernel) -> Vintage {
        let domains = Domains::of(machine, &kernel);
        let own = |places: &Vec<domains::Place>| Own {
            balanced: vec![0; places.len()],
            interval_ms: places.iter().map(|p| domains.all[p.domain].level.least_ms).collect(),
            failed: vec![0; places.len()],
            ..Own::default()
        };
        let cpus = domains.of_cpu.iter().map(own).collect();
        Vintage { kernel, domains, cpus }
    }
}

impl Default for Vintage {
    fn default() -> Vintage {
        Vintage { kernel: Kernel::ALL[0], domains: Domains::default(), cpus: Vec::new() }
    }
}
