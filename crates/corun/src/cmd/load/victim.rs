//! The victim of calibrated interference on this machine: its ledger as the sensor, the CPUs that it may use, and what
//! a user can get wrong.
//!
//! The ledger comes from the probe where that is allowed and else from the victim's own `schedstat` files, whose
//! windows are a tick of the scheduler less exact. Where a slowdown is to be held, spinning is told from computing by
//! samples of the instruction pointer, as far as this machine lets.

use crate::usage::Usage;
use corun_linux::probe::LiveOptions;
use corun_linux::schedstat_host::{Options, SchedstatHost};
use corun_linux::spin::{SpinOptions, SpinSampler};
use corun_linux::target::Subject;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::{cpulist, Root};
use corun_load::{affinity, Sample, Sensor};
use corun_model::{Host, Observation, TaskId, TenantId};
use std::collections::BTreeSet;

/// The share of its time on a CPU that must have been judged for its spinning to be known.
const JUDGED: f64 = 0.98;

/// A process, with its threads and descendants, that is watched.
pub struct Victim {
    watcher: Watcher,
    tenant: TenantId,
    allowed: Vec<u32>,
    spin: Option<SpinSampler>,
}

impl Victim {
    /// Begins to watch process `pid`; with `spin`, to tell its spinning from computing.
    ///
    /// # Errors
    /// [`Usage`] when there is no such process or it cannot be a victim; else why it cannot be watched.
    pub fn watch(pid: u32, spin: bool) -> anyhow::Result<Victim> {
        let root = Root::new("/");
        if pid == std::process::id() {
            return Err(
                Usage("the victim is corun itself; name the PID of the program to slow down".into()).into()
            );
        }
        let subject = Subject::processes(&root, &[pid])
            .map_err(|e| Usage(e.to_string().replace("-p ", "--victim ")))?;
        let allowed = usable_cpus(&root, pid)?;
        let exact = Watcher::start(&root, LiveOptions::new(subject.clone()), Some(Source::Ebpf));
        let watcher = match exact {
            Ok((watcher, _)) => watcher,
            Err(_) => Watcher::Schedstat(Box::new(SchedstatHost::new(Options {
                others: false,
                ..Options::new(subject)
            })?)),
        };
        let tenant = watcher.subject().expect("processes are a subject");
        let spin = spin.then(|| SpinSampler::start(&root, SpinOptions::default()).ok()).flatten();
        let mut victim = Victim { watcher, tenant, allowed, spin };
        let first = victim.watcher.observe()?;
        victim.follow(&first);
        Ok(victim)
    }

    /// The CPUs on which both the victim and this process may run.
    pub fn cpus(&self) -> &[u32] {
        &self.allowed
    }

    /// Sees to it that all the victim's tasks are sampled.
    fn follow(&mut self, seen: &Observation) {
        let tasks = seen.tasks.iter().filter(|t| t.alive && t.tenant == self.tenant);
        if let Some(sampler) = &mut self.spin {
            sampler.follow(&tasks.map(|t| t.id).collect::<Vec<TaskId>>());
        }
    }

    /// Its spinning in the window, in nanoseconds; `None` if too much of its time on a CPU was not judged.
    fn spin_ns(&mut self, seen: &Observation) -> Option<u64> {
        let found = self.spin.as_mut()?.collect(seen);
        let of_victim = seen.tasks.iter().filter(|t| t.tenant == self.tenant);
        let (mut run_ns, mut judged_ns, mut spin_ns) = (0, 0, 0);
        for task in of_victim {
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

/// The CPUs that any thread of `pid` may use, as far as this process may use them too.
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
        self.watcher.source().name()
    }

    fn window(&mut self, ns: u64) -> Result<Sample, String> {
        self.watcher.advance(ns).map_err(|e| e.to_string())?;
        let seen = self.watcher.observe().map_err(|e| e.to_string())?;
        let ledger = seen.by_tenant.iter().find(|t| t.id == self.tenant).map(|t| t.account.ledger);
        let ledger = ledger.unwrap_or_default();
        let spin_ns = self.spin_ns(&seen);
        self.follow(&seen);
        Ok(Sample {
            window_ns: seen.window_ns(),
            run_ns: ledger.on_cpu_ns(),
            spin_ns,
            wait_ns: ledger.parts().steal_ns,
            alive: self.watcher.subject_lives(),
        })
    }
}
