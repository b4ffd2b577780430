//! The victim of calibrated interference on this machine: its run, spin and wait times, which control the
//! load; its CPUs; and possible mistakes of the user.

use crate::usage::Usage;
use corun_linux::{cpulist, Root};
use corun_load::{affinity, Sample, Sensor};
use corun_session::process_meter::{ProcessMeter, ProcessWindow};
use std::collections::BTreeSet;

/// A watched process, with its threads and descendants.
pub struct Victim {
    meter: ProcessMeter,
    allowed: Vec<u32>,
}

impl Victim {
    /// Starts watching process `pid`; with `spin`, its spinning is separated from computing.
    ///
    /// # Errors
    /// [`Usage`] if there is no such process or it cannot be a victim; otherwise why it cannot be watched.
    pub fn watch(pid: u32, spin: bool) -> anyhow::Result<Victim> {
        if pid == std::process::id() {
            let what = "the victim is corun itself; name the PID of the program to slow down";
            return Err(Usage(what.into()).into());
        }
        let meter = ProcessMeter::start(pid, spin)?;
        Ok(Victim { meter, allowed: usable_cpus(&Root::new("/"), pid)? })
    }

    /// The CPUs on which both the victim and this process may run.
    pub fn cpus(&self) -> &[u32] {
        &self.allowed
    }
}

/// The CPUs that any thread of `pid` may use, as far as this process may use them, too.
fn usable_cpus(root: &Root, pid: u32) -> anyhow::Result<Vec<u32>> {
    let own = affinity::allowed_cpus()?;
    let mut cpus = BTreeSet::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = root.read_if_there(task?.path().join("status"))?.unwrap_or_default();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        cpus.extend(list.and_then(cpulist::parse).unwrap_or_default().iter().map(|cpu| cpu.0));
    }
    let usable: Vec<u32> = own.into_iter().filter(|cpu| cpus.contains(cpu)).collect();
    if usable.is_empty() {
        let cpus = affinity::list(&cpus.into_iter().collect::<Vec<_>>());
        let what = format!(
            "the victim runs on CPUs {cpus}, none of which this process may use; `taskset` gives it some"
        );
        return Err(Usage(what).into());
    }
    Ok(usable)
}

impl Sensor for Victim {
    fn source(&self) -> &'static str {
        self.meter.source().name()
    }

    fn window(&mut self, ns: u64) -> Result<Sample, String> {
        let seen = self.meter.window(ns).map_err(|e| e.to_string())?;
        let ProcessWindow { window_ns, run_ns, spin_ns, wait_ns, alive } = seen;
        Ok(Sample { window_ns, run_ns, spin_ns, wait_ns, alive })
    }
}
