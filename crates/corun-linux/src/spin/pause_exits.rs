//! Virtual CPUs that spin, seen from the host: KVM takes a CPU away from a guest that executes PAUSE for too
//! long.
//!
//! With pause-loop exiting, the processor leaves the guest when PAUSEs follow each other closely for a window
//! of cycles (Intel: `ple_window`) or in a certain number (AMD: `pause_filter_count`). Each such exit means
//! at least one window of spinning. So the vCPU has spun for at least the number of exits times the window. A
//! filter on the tracepoint `kvm:kvm_exit` counts them in the kernel, with one counter per vCPU: nothing is
//! recorded.
//!
//! Limits: waits of the guest that are shorter than the window, or without PAUSE, cause no exit. So the upper
//! end of the interval is all the time on a CPU. KVM widens the window of a vCPU that exits often; this is
//! ignored. AMD counts PAUSEs, whose length differs between models; [`PAUSE_CYCLES`] is assumed.

use super::event::Event;
use super::sampler::SpinError;
use crate::root::Root;
use corun_model::spin::{SpinEstimate, SpinMethod};
use corun_model::{Observation, TaskId, Unavailable, What, Why};
use std::collections::BTreeMap;

/// Assumed cycles of one PAUSE: a low value, so that the result is too low rather than too high.
const PAUSE_CYCLES: u64 = 10;

/// No processor that KVM runs on is faster than this, in kHz: so a number of cycles takes at least a certain
/// time.
const CLOCK_KHZ_MAX: u64 = 6_000_000;

/// PAUSE exits on Intel (`isa` 1) and AMD (`isa` 2).
const FILTER: &std::ffi::CStr = c"(isa == 1 && exit_reason == 40) || (isa == 2 && exit_reason == 119)";

/// What one exit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The least time of spinning before an exit, at the processor's clock, in nanoseconds.
    pub window_ns: u64,
    /// The same at the fastest possible clock.
    pub window_ns_min: u64,
}

impl Window {
    /// Reads how KVM is set up.
    ///
    /// # Errors
    /// Why exits are unavailable or meaningless.
    pub fn read(root: &Root) -> Result<Window, Why> {
        let parameter = |path: &str| root.value::<u64>(format!("/sys/module/{path}"), "a number").ok();
        let intel = parameter("kvm_intel/parameters/ple_window");
        let amd = parameter("kvm_amd/parameters/pause_filter_count").map(|n| n * PAUSE_CYCLES);
        let cycles = match (intel, amd) {
            (Some(0), _) | (None, Some(0)) => return Err(Why::NoPauseExits),
            (Some(cycles), _) | (None, Some(cycles)) => cycles,
            (None, None) => return Err(Why::NoKvm),
        };
        let cpuinfo = root.read("/proc/cpuinfo").map_err(|e| Why::Said(e.to_string()))?;
        let megahertz =
            cpuinfo.lines().find_map(|l| l.strip_prefix("cpu MHz")?.split(':').nth(1)?.trim().parse().ok());
        let clock_khz = megahertz.map_or(CLOCK_KHZ_MAX, |mhz: f64| (mhz * 1000.0) as u64).max(1);
        Ok(Window {
            window_ns: cycles * 1_000_000 / clock_khz.min(CLOCK_KHZ_MAX),
            window_ns_min: cycles * 1_000_000 / CLOCK_KHZ_MAX,
        })
    }

    /// What `exits` mean for a vCPU that was on a CPU for `on_cpu_ns`.
    pub fn estimate(self, exits: u64, on_cpu_ns: u64) -> SpinEstimate {
        let spun_ns = |window_ns: u64| exits.saturating_mul(window_ns).min(on_cpu_ns);
        SpinEstimate {
            observed_ns: on_cpu_ns,
            unjudged_ns: 0,
            spin_ns: spun_ns(self.window_ns),
            low_ns: spun_ns(self.window_ns_min),
            high_ns: on_cpu_ns,
            system_ns: None,
            method: SpinMethod::PauseExits,
        }
    }
}

/// Counts the PAUSE exits of vCPUs.
pub struct PauseExits {
    window: Window,
    counters: BTreeMap<TaskId, (Event, u64)>,
}

impl PauseExits {
    /// Counts for `vcpus`, the threads that run guest code, from now on.
    ///
    /// # Errors
    /// Why there are no such counts here.
    pub fn start(root: &Root, vcpus: &[TaskId]) -> Result<PauseExits, Unavailable> {
        let because = |why: Why| Unavailable { what: What::SpinOfVirtualCpus, why };
        let is_emulated = |vcpu: &TaskId| {
            root.read(format!("/proc/{}/comm", vcpu.0)).is_ok_and(|comm| comm.trim_end().ends_with("/TCG"))
        };
        if vcpus.iter().any(is_emulated) {
            return Err(because(Why::Emulated));
        }
        let tracepoint: u64 = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
            .iter()
            .find_map(|at| root.value(format!("{at}/events/kvm/kvm_exit/id"), "a number").ok())
            .ok_or_else(|| because(Why::NoKvmTracepoint))?;
        let window = Window::read(root).map_err(because)?;
        let counters = vcpus
            .iter()
            .map(|&vcpu| Ok((vcpu, (Event::counting(vcpu.0, tracepoint, FILTER)?, 0))))
            .collect::<std::io::Result<_>>()
            .map_err(|e| because(Why::Said(SpinError::of(e).to_string())))?;
        Ok(PauseExits { window, counters })
    }

    /// Spin time of the vCPUs in the window that `seen` observed.
    pub fn collect(&mut self, seen: &Observation) -> BTreeMap<TaskId, SpinEstimate> {
        let mut found = BTreeMap::new();
        for task in &seen.tasks {
            let Some((counter, before)) = self.counters.get_mut(&task.id) else { continue };
            let Ok(exits) = counter.count() else { continue };
            let since = exits - std::mem::replace(before, exits);
            found.insert(task.id, self.window.estimate(since, task.account.ledger.on_cpu_ns()));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::new(dir.path());
        (dir, root)
    }

    #[test]
    fn an_exit_means_a_window_of_cycles_on_intel_and_a_number_of_pauses_on_amd() {
        let clock = ("proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2000.000\n");
        let (_dir, intel) = machine(&[clock, ("sys/module/kvm_intel/parameters/ple_window", "4096\n")]);
        assert_eq!(Window::read(&intel).unwrap(), Window { window_ns: 2048, window_ns_min: 682 });
        let (_dir, amd) = machine(&[clock, ("sys/module/kvm_amd/parameters/pause_filter_count", "3000\n")]);
        assert_eq!(Window::read(&amd).unwrap().window_ns, 15_000);
        let (_dir, off) = machine(&[clock, ("sys/module/kvm_intel/parameters/ple_window", "0\n")]);
        assert_eq!(Window::read(&off).unwrap_err(), Why::NoPauseExits);
        let (_dir, none) = machine(&[clock]);
        assert_eq!(Window::read(&none).unwrap_err(), Why::NoKvm);
    }

    #[test]
    fn exits_give_the_least_spinning_and_never_more_than_the_time_on_a_cpu() {
        let window = Window { window_ns: 2000, window_ns_min: 700 };
        let few = window.estimate(100, 1_000_000);
        assert_eq!((few.spin_ns, few.low_ns, few.high_ns), (200_000, 70_000, 1_000_000));
        assert_eq!(window.estimate(u64::MAX, 1_000_000).spin_ns, 1_000_000);
        assert_eq!(few.method, SpinMethod::PauseExits);
    }

    #[test]
    fn a_kernel_without_the_tracepoint_is_reported() {
        let (_dir, root) = machine(&[]);
        let missing = PauseExits::start(&root, &[TaskId(1)]).err().unwrap();
        assert_eq!(missing.why, Why::NoKvmTracepoint);
    }

    #[test]
    fn an_emulated_machine_is_reported_to_have_no_exits_whatever_the_kernel_has() {
        let tracepoint = ("sys/kernel/tracing/events/kvm/kvm_exit/id", "1\n");
        let (_dir, root) = machine(&[tracepoint, ("proc/7/comm", "CPU 0/TCG\n")]);
        let missing = PauseExits::start(&root, &[TaskId(7)]).err().unwrap();
        assert_eq!(missing.why, Why::Emulated);
    }

    #[test]
    fn a_thread_that_runs_no_guest_has_no_exits() {
        let live = Root::new("/");
        let Ok(id) = live.value::<u64>("/sys/kernel/tracing/events/kvm/kvm_exit/id", "a number") else {
            eprintln!("skipped: no tracepoint kvm:kvm_exit can be read here");
            return;
        };
        match Event::counting(0, id, FILTER) {
            Ok(counter) => assert_eq!(counter.count().unwrap(), 0),
            Err(e) => eprintln!("skipped: the tracepoint may not be counted: {e}"),
        }
    }
}
