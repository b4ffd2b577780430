//! What every CPU did in a window: busy, idle.

use super::window::Window;
use corun_bpf::layout::{CpuAcc, CpuHead, NO_TID};
use corun_model::observation::CpuTime;
use corun_model::Machine;
use std::collections::BTreeMap;

/// The sums of every CPU up to the last edge.
#[derive(Default)]
pub(super) struct Cpus(Vec<CpuAcc>);

impl Cpus {
    /// Adds what every CPU did up to the window's end. `at_start` are those that have been busy since the probe started at
    /// `start_ns` and have not switched.
    pub(super) fn add(
        &mut self,
        window: &mut Window,
        machine: &Machine,
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
        for cpu in machine.cpus() {
            let i = cpu.id.0 as usize;
            let Some(now) = sums.get(i) else { continue };
            let base = self.0.get(i).copied().unwrap_or_default();
            let window_ns = window.end_ns - window.start_ns;
            let idle_ns = now.idle_ns.saturating_sub(base.idle_ns).min(window_ns);
            let busy_ns = now.busy_ns.saturating_sub(base.busy_ns).min(window_ns - idle_ns);
            window.cpus.push(CpuTime {
                cpu: cpu.id,
                idle_ns,
                busy_ns,
                unknown_ns: window_ns - idle_ns - busy_ns,
            });
        }
        self.0 = sums;
    }
}
