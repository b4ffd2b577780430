//! One process as a meter: its run, spin and wait times, window by window. The loads that press on a victim
//! use it.
//!
//! The ledger comes from the probe if it is allowed, and otherwise from the process's own `schedstat` files,
//! whose windows are less exact by a tick of the scheduler. Spinning is separated from computing by samples
//! of the instruction pointer, as far as this machine allows it.

use crate::error::Error;
use corun_linux::probe::LiveOptions;
use corun_linux::schedstat_host::{Options, SchedstatHost};
use corun_linux::spin::{SpinOptions, SpinSampler};
use corun_linux::target::Subject;
use corun_linux::watcher::{Source, WatchError, Watcher};
use corun_linux::Root;
use corun_model::{Host, HostError, Observation, TaskId, TenantId};

/// The share of its time on a CPU that must have been judged for its spinning to be known.
const JUDGED: f64 = 0.98;

/// A watched process, with its threads and descendants.
pub struct ProcessMeter {
    watcher: Watcher,
    tenant: TenantId,
    spin: Option<SpinSampler>,
}

/// The activity of a process in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessWindow {
    /// The window's length, in nanoseconds.
    pub window_ns: u64,
    /// Time on a CPU over all its tasks, in nanoseconds.
    pub run_ns: u64,
    /// Spinning in that time; `None` if too much of it was not judged.
    pub spin_ns: Option<u64>,
    /// Time in which its tasks waited for a CPU that another task had, in nanoseconds.
    pub wait_ns: u64,
    /// Whether it is still there.
    pub alive: bool,
}

impl ProcessMeter {
    /// Starts watching process `pid`; with `spin`, its spinning is separated from computing.
    ///
    /// # Errors
    /// If there is no such process, or it cannot be watched.
    pub fn start(pid: u32, spin: bool) -> Result<ProcessMeter, Error> {
        let root = Root::new("/");
        let subject = Subject::processes(&root, &[pid])?;
        let exact = Watcher::start(&root, LiveOptions::new(subject.clone()), Some(Source::Ebpf));
        let watcher = match exact {
            Ok((watcher, _)) => watcher,
            Err(_) => {
                let options = Options { others: false, ..Options::new(subject) };
                Watcher::Schedstat(Box::new(SchedstatHost::new(options).map_err(WatchError::from)?))
            }
        };
        let tenant = watcher.subject().expect("processes are a subject");
        let spin = spin.then(|| SpinSampler::start(&root, SpinOptions::default()).ok()).flatten();
        let mut meter = ProcessMeter { watcher, tenant, spin };
        let first = meter.watcher.observe()?;
        meter.follow(&first);
        Ok(meter)
    }

    /// How it is seen.
    pub fn source(&self) -> Source {
        self.watcher.source()
    }

    /// Lets this much time pass, and returns the activity of the process in it.
    ///
    /// # Errors
    /// If it can no longer be watched.
    pub fn window(&mut self, ns: u64) -> Result<ProcessWindow, HostError> {
        self.watcher.advance(ns)?;
        let seen = self.watcher.observe()?;
        let ledger = seen.by_tenant.iter().find(|t| t.id == self.tenant).map(|t| t.account.ledger);
        let ledger = ledger.unwrap_or_default();
        let spin_ns = self.spin_ns(&seen);
        self.follow(&seen);
        Ok(ProcessWindow {
            window_ns: seen.window_ns(),
            run_ns: ledger.on_cpu_ns(),
            spin_ns,
            wait_ns: ledger.parts().steal_ns,
            alive: self.watcher.subject_lives(),
        })
    }

    /// Makes sure that all its tasks are sampled.
    fn follow(&mut self, seen: &Observation) {
        let tasks = seen.tasks.iter().filter(|t| t.alive && t.tenant == self.tenant);
        if let Some(sampler) = &mut self.spin {
            sampler.follow(&tasks.map(|t| t.id).collect::<Vec<TaskId>>());
        }
    }

    /// Its spinning in the window, in nanoseconds; `None` if too much of its time on a CPU was not judged.
    fn spin_ns(&mut self, seen: &Observation) -> Option<u64> {
        let found = self.spin.as_mut()?.collect(seen);
        let own = seen.tasks.iter().filter(|t| t.tenant == self.tenant);
        let (mut run_ns, mut judged_ns, mut spin_ns) = (0, 0, 0);
        for task in own {
            let on_cpu_ns = task.account.ledger.on_cpu_ns();
            run_ns += on_cpu_ns;
            if let Some(estimate) = found.get(&task.id) {
                judged_ns += on_cpu_ns;
                spin_ns += estimate.spin_ns.min(on_cpu_ns);
            }
        }
        (judged_ns as f64 >= JUDGED * run_ns as f64).then_some(spin_ns)
    }
}
