//! Load averages of entities, queues and groups, and what follows from them: a group's shares, a CPU's and a task's
//! load as balancing and placement compare them.
//!
//! Method, after Linux `kernel/sched/fair.c` and `pelt.c`: an entity's average is the share of time for which it was
//! queued; its load is that share times its weight. A queue averages the weight that is queued on it. A task that
//! joins or leaves a queue brings its averages along at once, and they are passed on to the group's entity and to
//! the CPU's own queue (`propagate_entity_load_avg`), so that a balance knows what the one before it has done. What
//! a CPU contributes to its group's load is told at most once a millisecond, and only when it has changed by more than
//! a 64th (`update_tg_load_avg`).
//!
//! Limit: what a task takes along when it wakes up on another CPU is taken at once, not at that CPU's next update.

use super::queues::{part, Entity, Queues, Rq, NICE_0, RESOLUTION};
use super::tree::NIL;
use crate::sched::{CpuIx, TaskIx};

/// How often a CPU tells its group of its load.
const TELL_EVERY_NS: u64 = 1_000_000;

impl Rq {
    fn age(&mut self, now_ns: u64) {
        self.avg.update(now_ns, self.weight, u64::from(self.runnable), self.curr != NIL);
    }
}

impl Entity {
    fn age(&mut self, now_ns: u64) {
        // A delayed entity still counts as load, but not as runnable (`se_runnable`).
        self.avg.update_single(now_ns, self.on_rq, self.on_rq && !self.delayed, self.runs);
    }
}

impl Queues {
    /// Brings a queue's averages up to now.
    #[inline(always)]
    pub fn touch_rq(&mut self, now_ns: u64, rq: u32) {
        let q = self.rq_mut(rq);
        if !q.avg.is_at(now_ns) {
            q.age(now_ns);
        }
        if q.group != NIL && now_ns >= q.told_ns + TELL_EVERY_NS {
            self.tell_group(now_ns, rq);
        }
    }

    fn tell_group(&mut self, now_ns: u64, rq: u32) {
        let q = self.rq_mut(rq);
        let (load, told, group) = (q.avg.load, q.told, q.group);
        if load.abs_diff(told) > told / 64 {
            (q.told, q.told_ns) = (load, now_ns);
            let g = &mut self.groups[group as usize];
            g.load = (g.load + load).saturating_sub(told);
        }
    }

    /// Brings an entity's averages up to now.
    #[inline(always)]
    pub fn touch(&mut self, now_ns: u64, e: u32) {
        let e = self.e_mut(e);
        if !e.avg.is_at(now_ns) {
            e.age(now_ns);
        }
    }

    /// An entity's load: the share of time for which it was queued, times its weight.
    pub fn load(&self, e: u32) -> u64 {
        let e = self.e(e);
        part(e.avg.load, e.weight, NICE_0)
    }

    /// A new task counts as one that was always queued, and as busy as its queue lets it expect
    /// (`post_init_entity_util_avg`).
    pub fn init_load(&mut self, now_ns: u64, e: u32, rq: u32) {
        /// Of one CPU.
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
        self.touch(now_ns, e);
        let (load, avg) = (self.load(e), self.e(e).avg);
        if from != NIL {
            self.touch_rq(now_ns, from);
            let left = &mut self.rq_mut(from).avg;
            left.load = left.load.saturating_sub(load);
            left.util = left.util.saturating_sub(avg.util);
            left.runnable = left.runnable.saturating_sub(avg.runnable);
            self.pass_on(now_ns, from, None);
        }
        self.touch_rq(now_ns, to);
        let joined = &mut self.rq_mut(to).avg;
        joined.load += load;
        joined.util += avg.util;
        joined.runnable += avg.runnable;
        self.pass_on(now_ns, to, Some(avg.load));
    }

    /// Passes what changed in a group's queue on to the group's entity and to the queue that this is on. `joined`: the
    /// average of a task that came; `None`: one left.
    fn pass_on(&mut self, now_ns: u64, rq: u32, joined: Option<u64>) {
        let (owner, avg, weight) = (self.rq(rq).owner, self.rq(rq).avg, self.rq(rq).weight);
        if owner == NIL {
            return;
        }
        let parent = self.e(owner).rq;
        self.touch_rq(now_ns, parent);
        self.touch(now_ns, owner);
        let before = (self.load(owner), self.e(owner).avg);
        let queued = match joined {
            Some(share) => (before.1.load + share).min(NICE_0),
            // As if all that are left were queued equally long.
            None => {
                let left = if weight == 0 { 0 } else { part(avg.load, NICE_0, weight) };
                before.1.load.min(left)
            }
        };
        let e = self.e_mut(owner);
        // What ran was queued, at least.
        e.avg.load = queued.max((avg.util * RESOLUTION).min(NICE_0));
        (e.avg.util, e.avg.runnable) = (avg.util, avg.runnable);
        let load = self.load(owner);
        let change = |x: &mut u64, from: u64, to: u64| *x = (*x + to).saturating_sub(from);
        let parent = &mut self.rq_mut(parent).avg;
        change(&mut parent.load, before.0, load);
        change(&mut parent.util, before.1.util, avg.util);
        change(&mut parent.runnable, before.1.runnable, avg.runnable);
        self.tell_group(now_ns, rq);
    }

    /// An entity gets another weight: its load, and that of its queue, change at once.
    pub fn reweigh_load(&mut self, e: u32, weight: u64) {
        let (rq, before) = (self.e(e).rq, self.load(e));
        self.e_mut(e).weight = weight;
        let after = self.load(e);
        let load = &mut self.rq_mut(rq).avg.load;
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

    /// A task's load as its CPU sees it (`task_h_load`), in the same resolution and with the kernel's rounding: of
    /// two CPUs that a move would only just even out, the `+ 1`s decide that it is made.
    pub fn task_load(&self, task: TaskIx) -> u64 {
        let e = self.tasks[task].entity;
        let (own, rq) = (self.load(e) / RESOLUTION, self.e(e).rq);
        if rq == NIL || self.rq(rq).owner == NIL {
            return own;
        }
        let q = self.rq(rq);
        let cpu_load = self.cpu_load(q.cpu as CpuIx);
        let group_load = cpu_load * (self.load(q.owner) / RESOLUTION) / (cpu_load + 1);
        own * group_load / (q.avg.load / RESOLUTION + 1)
    }
}
