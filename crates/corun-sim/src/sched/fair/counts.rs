//! How many tasks can run, on each CPU and in each group of each domain: counted as it changes, so that balancing
//! need not look at CPUs one by one.

use super::queues::{Discipline, Rq};
use super::Fair;
use crate::sched::CpuIx;

/// What a group of a domain holds, kept up to date so that balancing need not look at its CPUs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupCount {
    /// Tasks that can run.
    pub tasks: u32,
    /// Idle CPUs.
    pub idle: u32,
    /// CPUs with more than one task that can run.
    pub overloaded: u32,
}

impl<D: Discipline> Fair<D> {
    /// Counts runnable tasks up the hierarchy.
    pub(super) fn add_runnable(&mut self, now_ns: u64, leaf: u32, by: i32) {
        let cpu = self.q.rq(leaf).cpu as usize;
        let add = |rq: &mut Rq| {
            rq.runnable = rq.runnable.checked_add_signed(by).expect("a queue counts what is in it");
            rq.runnable
        };
        let mut runnable = add(self.q.rq_mut(leaf));
        if leaf != cpu as u32 {
            self.q.touch_rq(now_ns, cpu as u32);
            runnable = add(&mut self.q.rqs[cpu]);
        }
        for &group in &self.domains.groups_of[cpu] {
            let count = &mut self.counts[group];
            count.tasks = count.tasks.wrapping_add_signed(by);
        }
        // Beyond these numbers nothing changes that is marked; nor at a lone task while something runs.
        if runnable <= 2 && (runnable != 0 || self.q.cpus[cpu].curr.is_none()) {
            self.mark(cpu);
        }
    }

    /// Notes whether a CPU is idle or overloaded, after its tasks changed.
    pub(super) fn mark(&mut self, cpu: CpuIx) {
        let was = (self.q.idle.contains(cpu), self.q.overloaded.contains(cpu));
        let is = self.q.marks(cpu);
        if was == is {
            return;
        }
        self.q.idle.put(cpu, is.0);
        self.q.overloaded.put(cpu, is.1);
        let step = |was: bool, is: bool| i32::from(is) - i32::from(was);
        for &group in &self.domains.groups_of[cpu] {
            let count = &mut self.counts[group];
            count.idle = count.idle.wrapping_add_signed(step(was.0, is.0));
            count.overloaded = count.overloaded.wrapping_add_signed(step(was.1, is.1));
        }
    }

    /// What the groups of a domain hold.
    pub(super) fn counts_of(&self, domain: usize) -> &[GroupCount] {
        let d = &self.domains.all[domain];
        &self.counts[d.first_group..d.first_group + d.groups.len()]
    }
}
