//! The CPUs' logs of occupants, for the waits that are still open when a window closes.

use corun_bpf::layout::{self, state, CpuHead, Occupancy, TaskBrief, NO_TID};
use corun_bpf::Probe;
use std::collections::BTreeMap;

/// For CPUs that have not switched since the probe started: the group of the task that has been running there
/// all the time. A CPU that is not listed was idle.
pub(super) fn running_since_start<'a>(
    cpus: &[CpuHead],
    tasks: impl Iterator<Item = &'a TaskBrief>,
) -> BTreeMap<u32, u32> {
    tasks
        .filter(|t| t.state as usize == state::NEVER && t.guess as usize == state::RUN)
        .filter(|t| cpus.get(t.cpu as usize).is_some_and(|c| c.tid == NO_TID))
        .map(|t| (t.cpu, t.group))
        .collect()
}

/// The occupants of a CPU since then, oldest first. For a CPU without a log, nothing is known.
pub(super) fn occupants(
    probe: &Probe,
    at_start: &BTreeMap<u32, u32>,
    cpu: u32,
    since_ns: u64,
) -> Vec<Occupancy> {
    match probe.occupancies(cpu as usize, since_ns) {
        log if log.is_empty() && (cpu as usize) < probe.cpu_count() => {
            let group = at_start.get(&cpu).copied().unwrap_or(layout::group::IDLE);
            vec![Occupancy::new(0, group)]
        }
        log => log,
    }
}
