//! Placement and balancing as in the Linux of a paper's time: 2.6.32, 3.8 and 3.14, under CFS.
//!
//! The later kernels look for any idle CPU under a cache and compare numbers of tasks. These weigh loads, move running tasks by
//! force where that has failed often enough (active balance), and go idle beside a waiting task where that ran a moment ago.
//! There is one balancer; what differs from release to release is in a table.
//!
//! | file | holds | after |
//! | --- | --- | --- |
//! | [`kernel`] | in what the releases differ | |
//! | [`domains`] | spans of CPUs, and their groups | `build_sched_domains`, `sched_init_numa` |
//! | [`loads`] | what a CPU's load is | `weighted_cpuload`, `source_load`, `target_load`, `effective_load` |
//! | [`placement`] | where a waking or new task goes | `select_task_rq_fair`, `wake_affine`, `select_idle_sibling`, `find_idlest_group` |
//! | [`imbalance`] | which group to take from, and how much | `find_busiest_group` |
//! | [`balance`] | when, and whom; active balance | `rebalance_domains`, `load_balance`, `idle_balance`, `nohz_kick_needed` |
//!
//! Limits: no synchronous wake-ups (pipes), no buddies, no NUMA balancing (its pages have no homes here), no power saving; of
//! tasks that may be moved the one that ran longest ago goes first, where the kernel takes the one that was queued last; a
//! balance costs no time and comes at once.

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

/// What this balancer keeps of a CPU.
#[derive(Clone, Debug, Default)]
struct Own {
    load: Average,
    /// By domain: when it was balanced last, in ticks.
    balanced: Vec<u64>,
    /// By domain: the interval between balances, in milliseconds.
    interval_ms: Vec<u64>,
    /// By domain: balances in a row that found an imbalance and moved nothing.
    failed: Vec<u32>,
    /// Where its running task is to be moved by force.
    push_to: Option<CpuIx>,
}

/// The balancer's state; empty where a later kernel places and balances.
#[derive(Clone, Debug)]
pub struct Vintage {
    kernel: Kernel,
    domains: Domains,
    cpus: Vec<Own>,
}

impl Vintage {
    /// That of a machine.
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
