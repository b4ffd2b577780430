//! The load of a CPU, now and on average, and the load that a task would add.
//!
//! Method: until 3.9 a CPU's load is the weight queued on it, later the sum of its queued entities' decaying averages. At each tick it
//! goes into averages of one, two and four ticks (`cpu_load`). A balance takes the lesser of load and average for the source and the
//! greater for the target (`source_load`, `target_load`), so that it moves only lasting imbalance. With groups, a task adds the growth
//! of its group's weight on that CPU (`effective_load`). Limit: 2.6.32 estimates that growth to first order; here it is computed for
//! all three.

use super::kernel::Loads;
use crate::sched::fair::queues::{Discipline, Entity, RESOLUTION};
use crate::sched::fair::tree::NIL;
use crate::sched::fair::Fair;
use crate::sched::{CpuIx, TaskIx};

/// The least weight that a group's entity has.
const LEAST_SHARE: i64 = 2;

/// Averages of a CPU's load, over 1, 2 and 4 ticks, and the tick at which they were brought up to date.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average {
    loads: [u64; 3],
    tick: u64,
}

impl Average {
    /// Adds a load at a tick; the ticks missed since the last one were idle.
    pub(super) fn take(&mut self, tick: u64, load: u64) {
        let missed = tick.saturating_sub(self.tick + 1).min(64);
        self.tick = tick;
        self.loads[0] = load;
        for (i, average) in self.loads.iter_mut().enumerate().skip(1) {
            let most = (1u64 << i) - 1;
            for _ in 0..missed {
                *average = (*average * most) >> i;
            }
            // Rounded up while it grows, or it would never reach the load.
            let round = if load > *average { most } else { 0 };
            *average = (*average * most + load + round) >> i;
        }
    }

    /// The average of an index; for 0, the load itself is used instead.
    fn of(&self, idx: usize) -> Option<u64> {
        idx.checked_sub(1).map(|i| self.loads[i])
    }
}

impl<D: Discipline> Fair<D> {
    /// An entity's weight, as balancing compares it.
    fn counted(&self, e: &Entity) -> u64 {
        match self.vintage.kernel.loads {
            Loads::Weights => e.weight / RESOLUTION,
            Loads::Averages => e.load() / RESOLUTION,
        }
    }

    /// The sum of a queue's entities.
    fn queued_load(&self, rq: u32) -> u64 {
        let q = self.q.rq(rq);
        match self.vintage.kernel.loads {
            Loads::Weights => q.weight / RESOLUTION,
            Loads::Averages => {
                let mut sum = self.q.running(q).map_or(0, |e| self.counted(e));
                self.q.nodes.visit(q.root, &mut |e| {
                    sum += self.counted(self.q.e(e));
                    true
                });
                sum
            }
        }
    }

    /// A CPU's load now.
    pub(super) fn load_of(&self, cpu: CpuIx) -> u64 {
        self.queued_load(cpu as u32)
    }

    /// A low guess, for where tasks would be taken from.
    pub(super) fn source_load(&self, cpu: CpuIx, idx: usize) -> u64 {
        let now = self.load_of(cpu);
        self.vintage.cpus[cpu].load.of(idx).map_or(now, |average| now.min(average))
    }

    /// A high guess, for where they would be put.
    pub(super) fn target_load(&self, cpu: CpuIx, idx: usize) -> u64 {
        let now = self.load_of(cpu);
        self.vintage.cpus[cpu].load.of(idx).map_or(now, |average| now.max(average))
    }

    /// The load of a CPU per task.
    pub(super) fn load_by_task(&self, cpu: CpuIx) -> u64 {
        match u64::from(self.q.rqs[cpu].runnable) {
            0 => 0,
            tasks => self.load_of(cpu) / tasks,
        }
    }

    /// A task's load as its CPU sees it (`task_h_load`).
    pub(super) fn load_of_task(&self, task: TaskIx) -> u64 {
        let e = self.q.e(self.q.tasks[task].entity);
        let own = self.counted(e);
        if e.rq == NIL || self.q.rq(e.rq).owner == NIL {
            return own;
        }
        let q = self.q.rq(e.rq);
        let cpu_load = self.load_of(q.cpu as CpuIx);
        let group = cpu_load * self.counted(self.q.e(q.owner)) / (cpu_load + 1);
        own * group / (self.queued_load(e.rq) + 1)
    }

    /// By how much a CPU's load grows if the task's weight is added to its group, on that CPU (`here`) or
    /// anywhere.
    pub(super) fn grows(&self, task: TaskIx, cpu: CpuIx, here: bool) -> i64 {
        let state = &self.q.tasks[task];
        let weight = (self.q.e(state.entity).weight / RESOLUTION) as i64;
        let own = if here { weight } else { 0 };
        let Some(group) = state.group.map(|g| &self.q.groups[g]) else { return own };
        let shares = (group.shares / RESOLUTION) as i64;
        let known = |load: u64| (load / RESOLUTION) as i64;
        let (mut queued, mut others, mut is) = (0, known(group.load), LEAST_SHARE);
        if let Some(&rq) = group.rqs.get(cpu).filter(|&&rq| rq != NIL) {
            let q = self.q.rq(rq);
            (queued, others) = (known(q.weight), known(group.load.saturating_sub(q.told)));
            is = known(self.q.e(q.owner).weight);
        }
        let (all, here) = (weight + others + queued, queued + own);
        let share = if all > 0 && here < all { here * shares / all } else { shares };
        share.max(LEAST_SHARE) - is
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_of_two_and_four_ticks_follow_a_load_and_forget_it_while_idle() {
        let mut a = Average::default();
        a.take(1, 1024);
        assert_eq!(a.loads, [1024, 512, 256]);
        (2..40).for_each(|tick| a.take(tick, 1024));
        assert_eq!((a.of(0), a.of(2), a.of(3)), (None, Some(1024), Some(1024)));
        // Three ticks of idling, and one of work.
        a.take(43, 1024);
        assert_eq!(a.loads[1], (1024 / 8 + 1024) / 2);
    }
}
