//! The number of runnable tasks on each CPU and in each group of each domain. It is updated with every change, so that balancing need
//! not look at CPUs one by one.

use super::queues::{Discipline, Queues, Rq};
use super::Fair;
use crate::sched::CpuIx;

/// The counts of a domain's group, updated with every change, so that balancing need not look at its CPUs.
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
        let Queues { rqs, groups, .. } = &mut self.q;
        let add = |rq: &mut Rq| {
            rq.runnable = rq.runnable.checked_add_signed(by).expect("a queue counts what is in it");
            (rq.cpu as usize, rq.runnable)
        };
        let (cpu, mut runnable) = add(&mut rqs[leaf as usize]);
        if leaf != cpu as u32 {
            let rq = &mut rqs[cpu];
            rq.touch(now_ns, groups);
            (_, runnable) = add(rq);
        }
        // Beyond two nothing changes that is marked; nor below one while something runs.
        let changes = runnable <= 2 && (runnable != 0 || self.q.cpus[cpu].curr.is_none());
        let (idle, overloaded) = if changes { self.q.mark(cpu) } else { (0, 0) };
        self.count(cpu, by, idle, overloaded);
    }

    /// Notes whether a CPU is idle, after its last task left it.
    pub(super) fn mark(&mut self, cpu: CpuIx) {
        let (idle, overloaded) = self.q.mark(cpu);
        if (idle, overloaded) != (0, 0) {
            self.count(cpu, 0, idle, overloaded);
        }
    }

    /// Counts changes on a CPU in all groups that it is in.
    fn count(&mut self, cpu: CpuIx, tasks: i32, idle: i32, overloaded: i32) {
        for &group in &self.domains.groups_of[cpu] {
            let count = &mut self.counts[group];
            count.tasks = count.tasks.wrapping_add_signed(tasks);
            count.idle = count.idle.wrapping_add_signed(idle);
            count.overloaded = count.overloaded.wrapping_add_signed(overloaded);
        }
    }

    /// How many CPUs are overloaded in a CPU's domain at a level: the domain is a group of the one above it.
    pub(super) fn overloaded_in(&self, cpu: CpuIx, level: usize) -> usize {
        match self.domains.groups_of[cpu].get(level + 1) {
            Some(&group) => self.counts[group].overloaded as usize,
            None => self.q.overloaded.len(),
        }
    }

    /// The counts of a domain's groups.
    pub(super) fn counts_of(&self, domain: usize) -> &[GroupCount] {
        let d = &self.domains.all[domain];
        &self.counts[d.first_group..d.first_group + d.groups.len()]
    }
}
