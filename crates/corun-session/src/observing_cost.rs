//! The cost of watching: this process's own CPU time, and that of the probe by the kernel's count.

use corun_linux::clock::process_cpu_ns;
use corun_linux::watcher::Watcher;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long the kernel counts the cost of the probe: counting has a cost, too.
const COUNTED: Duration = Duration::from_millis(500);

/// What watching has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservingCost {
    /// This process's CPU time, in nanoseconds. It excludes loading the probe, which comes before the first
    /// window.
    pub cpu_ns: u64,
    /// The cost of the probe, if it was counted.
    pub probe: Option<ProbeCost>,
}

/// The cost of the probe during the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeCost {
    /// CPU time, in nanoseconds.
    pub ns: u64,
    /// Context switches that it saw.
    pub switches: u64,
    /// How long it was counted.
    pub counted_for: Duration,
}

impl ProbeCost {
    /// The cost of one context switch, in nanoseconds.
    pub fn ns_per_switch(&self) -> Option<u64> {
        self.ns.checked_div(self.switches)
    }

    /// Millionths of the time of `cpus` CPUs.
    pub fn ppm(&self, cpus: u64) -> Option<u64> {
        let all_ns = self.counted_for.as_nanos() * u128::from(cpus);
        (u128::from(self.ns) * 1_000_000).checked_div(all_ns).and_then(|ppm| ppm.try_into().ok())
    }

    /// Context switches in a second.
    pub fn switches_per_s(&self) -> Option<u64> {
        let per_s = (u128::from(self.switches) * 1_000_000_000).checked_div(self.counted_for.as_nanos())?;
        per_s.try_into().ok()
    }
}

/// Measures what watching costs.
pub struct CostMeter {
    cpu_ns_before: u64,
    cost: ObservingCost,
    /// The kernel counts while this is held.
    kernel_counts: Option<OwnedFd>,
}

impl CostMeter {
    /// The first window begins now.
    pub fn of_what_begins_now(kernel_counts: Option<OwnedFd>) -> CostMeter {
        CostMeter { cpu_ns_before: process_cpu_ns(), cost: ObservingCost::default(), kernel_counts }
    }

    /// Reads both, `counted_for` after the watcher was armed.
    pub fn sample(&mut self, watcher: &Watcher, counted_for: Duration) {
        self.cost.cpu_ns = process_cpu_ns() - self.cpu_ns_before;
        let (Watcher::Ebpf(host), Some(_)) = (watcher, &self.kernel_counts) else { return };
        let (ns, switches) = (host.probe_cost().1, host.switches());
        self.cost.probe = Some(ProbeCost { ns, switches, counted_for });
        if counted_for > COUNTED {
            self.kernel_counts = None;
        }
    }

    /// The value at the last sample.
    pub fn cost(&self) -> ObservingCost {
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_saw_nothing_has_no_cost_per_switch_and_one_that_did_has() {
        let cost = ProbeCost { ns: 0, switches: 0, counted_for: Duration::ZERO };
        assert_eq!((cost.ns_per_switch(), cost.ppm(2), cost.switches_per_s()), (None, None, None));
        let cost = ProbeCost { ns: 1_000_000, switches: 2_000, counted_for: Duration::from_millis(500) };
        assert_eq!(
            (cost.ns_per_switch(), cost.ppm(2), cost.switches_per_s()),
            (Some(500), Some(1000), Some(4000))
        );
    }
}
