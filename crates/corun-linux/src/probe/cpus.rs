//! The time of every CPU in a window: busy, idle.

use super::window::Window;
use corun_bpf::layout::{CpuAcc, CpuHead, NO_TID};
use corun_model::observation::CpuTime;
use corun_model::{CpuId, Machine};
use std::collections::{BTreeMap, BTreeSet};

/// The sums of every CPU up to the last edge.
#[derive(Default)]
pub(super) struct Cpus {
    sums: Vec<CpuAcc>,
    /// The CPUs that were switched on then; `None` at the first edge, or if this machine does not say.
    online: Option<BTreeSet<CpuId>>,
}

impl Cpus {
    /// The CPUs that were switched on at the last edge; `None` if there was none, or this machine does not
    /// say.
    pub(super) fn online(&self) -> Option<&BTreeSet<CpuId>> {
        self.online.as_ref()
    }

    /// Adds the time of every CPU up to the window's end. `at_start` lists those that have been busy since
    /// the probe started at `start_ns` and have not switched; `online` lists those that are switched on now.
    /// A CPU that is off looks idle to the probe.
    pub(super) fn add(
        &mut self,
        window: &mut Window,
        machine: &Machine,
        online: &Option<BTreeSet<CpuId>>,
        cpus: &[CpuHead],
        at_start: &BTreeMap<u32, u32>,
        start_ns: u64,
    ) {
        let mut sums = Vec::with_capacity(cpus.len());
        for (i, c) in cpus.iter().enumerate() {
            let mut at = c.cur;
            if c.edge_ns == window.end_ns {
                at = c.snap;
            } else {
                let since_ns = if c.tid == NO_TID { start_ns } else { c.since_ns };
                let open_ns = window.end_ns.saturating_sub(since_ns);
                match (c.tid, at_start.get(&(i as u32))) {
                    (0, _) | (NO_TID, None) => at.idle_ns += open_ns,
                    _ => at.busy_ns += open_ns,
                }
            }
            sums.push(at);
        }
        // Some may have come since the start.
        let known: BTreeSet<CpuId> =
            machine.cpus().iter().map(|c| c.id).chain(online.iter().flatten().copied()).collect();
        for cpu in known {
            let i = cpu.0 as usize;
            let Some(now) = sums.get(i) else { continue };
            let base = self.sums.get(i).copied().unwrap_or_default();
            let window_ns = window.end_ns - window.start_ns;
            let mut idle_ns = now.idle_ns.saturating_sub(base.idle_ns).min(window_ns);
            let mut busy_ns = now.busy_ns.saturating_sub(base.busy_ns).min(window_ns - idle_ns);
            // The last task on it, such as the kernel thread that took it offline, never leaves it.
            let is_on = |online: &Option<BTreeSet<CpuId>>| online.as_ref().is_none_or(|on| on.contains(&cpu));
            match (is_on(&self.online), is_on(online)) {
                (true, true) => {}
                (false, false) => (idle_ns, busy_ns) = (0, 0),
                // Nobody knows when in the window it was switched.
                _ => idle_ns = 0,
            }
            let unknown_ns = window_ns - idle_ns - busy_ns;
            window.cpus.push(CpuTime { cpu, idle_ns, busy_ns, unknown_ns, host_steal_ns: None });
        }
        self.sums = sums;
        self.online.clone_from(online);
    }
}
