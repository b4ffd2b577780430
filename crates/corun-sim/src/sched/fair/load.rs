//! Load averages of entities, queues and groups, and the values that follow from them: a group's shares, and the loads of a CPU and a
//! task as compared in balancing and placement.
//!
//! Method, after Linux `kernel/sched/fair.c` and `pelt.c`: an entity's average is the share of time for which
//! it was queued; its load is that share times its weight. A queue averages the weight that is queued on it.
//! A task that joins or leaves a queue takes its averages along at once. They are passed on to the group's
//! entity and to the CPU's own queue (`propagate_entity_load_avg`), so that a balance sees the effect of the
//! previous one. A CPU reports its contribution to its group's load at most once a millisecond, and only if
//! that has changed by more than a 64th (`update_tg_load_avg`).
//!
//! Limit: if a task wakes up on another CPU, its load moves at once, not at that CPU's next update.

use super::queues::{part, Entity, Group, Queues, Rq, NICE_0, RESOLUTION};
use super::tree::NIL;
use crate::sched::{CpuIx, TaskIx};

/// The interval at which a CPU reports its load to its group.
const TELL_EVERY_NS: u64 = 1_000_000;

impl Rq {
    /// Brings its averages up to now.
    #[inline(always)]
    pub fn touch(&mut self, now_ns: u64, groups: &mut [Group]) {
        if !self.avg.is_at(now_ns) {
            self.age(now_ns);
        }
        if self.group != NIL && now_ns >= self.told_ns + TELL_EVERY_NS {
            self.tell_group(now_ns, groups);
        }
    }

    fn tell_group(&mut self, now_ns: u64, groups: &mut [Group]) {
        let (load, told) = (self.avg.load, self.told);
        if load.abs_diff(told) > told / 64 {
            (self.told, self.told_ns) = (load, now_ns);
            let g = &mut groups[self.group as usize];
            g.load = (g.load + load).saturating_sub(told);
        }
    }

    #[inline]
    fn age(&mut self, now_ns: u64) {
        self.avg.update(now_ns, self.weight, u64::from(self.runnable), self.curr != NIL);
    }
}

impl Entity {
    /// Brings its averages up to now.
    #[inline(always)]
    pub fn touch(&mut self, now_ns: u64) {
        if !self.avg.is_at(now_ns) {
            self.age(now_ns);
        }
    }

    /// Its load: the share of time for which it was queued, times its weight.
    #[inline]
    pub fn load(&self) -> u64 {
        part(self.avg.load, self.weight, NICE_0)
    }

    fn age(&mut self, now_ns: u64) {
        // A delayed entity still counts as load, but not as runnable (`se_runnable`).
        self.avg.update_single(now_ns, self.on_rq, self.on_rq && !self.delayed, self.runs);
    }
}

impl Queues {
    /// Brings a queue's averages up to now.
    #[inline(always)]
    pub fn touch_rq(&mut self, now_ns: u64, rq: u32) {
        self.rqs[rq as usize].touch(now_ns, &mut self.groups);
    }

    /// Brings an entity's averages up to now.
    #[inline(always)]
    pub fn touch(&mut self, now_ns: u64, e: u32) {
        self.e_mut(e).touch(now_ns);
    }

    /// Brings the averages of a queue, and of an entity that is on it or comes to it, up to now.
    #[inline(always)]
    pub fn touch_both(&mut self, now_ns: u64, rq: u32, e: u32) {
        self.touch_rq(now_ns, rq);
        self.touch(now_ns, e);
    }

    /// A new task counts as one that was always queued, and as busy as its queue suggests
    /// (`post_init_entity_util_avg`).
    pub fn init_load(&mut self, now_ns: u64, e: u32, rq: u32) {
        /// The capacity of one CPU.
        const CAPACITY: u64 = 1024;
        self.touch_rq(now_ns, rq);
        let avg = self.rq(rq).avg;
        let most = CAPACITY.saturating_sub(avg.util) / 2;
        let weight = self.e(e).weight / RESOLUTION;
        let expected = if avg.util > 0 { avg.util * weight / (avg.load / RESOLUTION + 1) } else { most };
        let e = self.e_mut(e);
        e.avg.begin(now_ns);
        (e.avg.load, e.avg.util) = (NICE_0, expected.min(most));
        e.avg.runnable = e.avg.util;
    }

    /// A task that joins another queue takes its averages along.
    pub fn move_load(&mut self, now_ns: u64, e: u32, to: u32) {
        let from = self.e(e).rq;
        if from == to {
            return;
        }
        let entity = self.e_mut(e);
        entity.touch(now_ns);
        let (load, avg) = (entity.load(), entity.avg);
        if from != NIL {
            let q = &mut self.rqs[from as usize];
            q.touch(now_ns, &mut self.groups);
            let left = &mut q.avg;
            left.load = left.load.saturating_sub(load);
            left.util = left.util.saturating_sub(avg.util);
            left.runnable = left.runnable.saturating_sub(avg.runnable);
            if q.owner != NIL {
                self.pass_on(now_ns, from, None);
            }
        }
        let q = &mut self.rqs[to as usize];
        q.touch(now_ns, &mut self.groups);
        let joined = &mut q.avg;
        joined.load += load;
        joined.util += avg.util;
        joined.runnable += avg.runnable;
        if q.owner != NIL {
            self.pass_on(now_ns, to, Some(avg.load));
        }
    }

    /// Passes the changes in a group's queue on to the group's entity and to that entity's queue. `joined` is the average of a task
    /// that came; `None` if one left.
    fn pass_on(&mut self, now_ns: u64, rq: u32, joined: Option<u64>) {
        let Queues { rqs, ents, groups, .. } = self;
        let q = &mut rqs[rq as usize];
        let (avg, weight, owner) = (q.avg, q.weight, &mut ents[q.owner as usize]);
        // The following steps do not change the reported value.
        q.tell_group(now_ns, groups);
        let parent = &mut rqs[owner.rq as usize];
        parent.touch(now_ns, groups);
        owner.touch(now_ns);
        let before = (owner.load(), owner.avg);
        let queued = match joined {
            Some(share) => (before.1.load + share).min(NICE_0),
            // As if the remaining ones had all been queued equally long.
            None => {
                let left = if weight == 0 { 0 } else { part(avg.load, NICE_0, weight) };
                before.1.load.min(left)
            }
        };
        // A running entity was at least queued.
        owner.avg.load = queued.max((avg.util * RESOLUTION).min(NICE_0));
        (owner.avg.util, owner.avg.runnable) = (avg.util, avg.runnable);
        let change = |x: &mut u64, from: u64, to: u64| *x = (*x + to).saturating_sub(from);
        change(&mut parent.avg.load, before.0, owner.load());
        change(&mut parent.avg.util, before.1.util, avg.util);
        change(&mut parent.avg.runnable, before.1.runnable, avg.runnable);
    }

    /// An entity gets another weight: its load, and that of its queue, change at once.
    pub fn reweigh_load(&mut self, e: u32, weight: u64) {
        let entity = &mut self.ents[e as usize];
        let before = entity.load();
        entity.weight = weight;
        let after = entity.load();
        let load = &mut self.rqs[entity.rq as usize].avg.load;
        *load = (*load + after).saturating_sub(before);
    }

    /// The weight that a group's entity on one CPU should have (`calc_group_shares`).
    pub fn group_share(&self, rq: u32) -> u64 {
        let q = self.rq(rq);
        let g = &self.groups[q.group as usize];
        let load = q.weight.max(q.avg.load);
        let total = (g.load + load).saturating_sub(q.told).max(load).max(1);
        part(g.shares, load, total).clamp(2 * RESOLUTION, g.shares.max(2 * RESOLUTION))
    }

    /// A CPU's load (`cpu_load`), in the resolution in which the kernel compares loads: 1024 is one nice-0 task.
    pub fn cpu_load(&self, cpu: CpuIx) -> u64 {
        self.rqs[cpu].avg.load / RESOLUTION
    }

    /// A task's load as its CPU sees it (`task_h_load`), in the same resolution and with the kernel's
    /// rounding. If a move would only just even out two CPUs, the `+ 1`s decide in favor of it.
    pub fn task_load(&self, task: TaskIx) -> u64 {
        let e = self.tasks[task].entity;
        let (own, rq) = (self.e(e).load() / RESOLUTION, self.e(e).rq);
        if rq == NIL || self.rq(rq).owner == NIL {
            return own;
        }
        let q = self.rq(rq);
        let cpu_load = self.cpu_load(q.cpu as CpuIx);
        let group_load = cpu_load * (self.e(q.owner).load() / RESOLUTION) / (cpu_load + 1);
        own * group_load / (q.avg.load / RESOLUTION + 1)
    }
}
