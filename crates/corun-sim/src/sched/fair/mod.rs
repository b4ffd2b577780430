//! Linux's fair scheduling class: the common parts of EEVDF and CFS, from `kernel/sched/fair.c`.
//!
//! This file is the class itself: entities join and leave the hierarchy (task, group, CPU), run, tick and get
//! picked. Its parts:
//!
//! | file | holds |
//! | --- | --- |
//! | [`queues`] | entities, queues, virtual time, group shares; the trait [`Discipline`] |
//! | [`eevdf`], [`cfs`] | the two disciplines |
//! | [`reweight`] | a group's entity gets the weight of its share of the group's load |
//! | [`tree`] | the augmented tree |
//! | [`pelt`], [`load`] | decaying averages; the loads of entities, queues and groups made of them |
//! | [`domains`] | spans of CPUs |
//! | [`counts`] | the numbers of runnable tasks |
//! | [`placement`] | the CPU of a waking or new task |
//! | [`balance`] | moving tasks between CPUs: periodic, idle |
//! | [`newidle`] | whether a CPU without tasks searches for some |
//! | [`hot`] | whether such a search can be skipped |
//! | [`vintage`] | placement and balancing as in 2.6.32, 3.8 and 3.14, in place of the last three |
//!
//! Not modelled: bandwidth quotas, core scheduling, cpusets other than affinity, NUMA balancing, SCHED_IDLE,
//! energy-aware placement, more than two levels of groups.

pub mod balance;
pub mod cfs;
mod counts;
pub mod domains;
pub mod eevdf;
mod hot;
pub mod load;
pub mod newidle;
pub mod pelt;
pub mod placement;
pub mod queues;
mod reweight;
mod success;
pub mod tree;
pub mod vintage;

use super::{CpuIx, Effects, Pick, Resched, Scheduler, TaskIx, TaskParams, Wake};
use crate::cpu_set::CpuSet;
use crate::streams::Streams;
use corun_model::Machine;
use counts::GroupCount;
use domains::Domains;
use queues::{virtual_ns, Discipline, Entity, Group, Place, Queues, Rq, TaskState, NICE_0, RESOLUTION};
use std::rc::Rc;
use tree::NIL;
use vintage::Vintage;

/// The options of both disciplines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairOptions {
    /// Distance between ticks in nanoseconds: 4 ms at HZ=250.
    pub tick_ns: u64,
    /// A task that ran less than this ago is cache-hot and not moved easily (`sched_migration_cost`, 500 µs).
    pub migration_cost_ns: u64,
    /// How many of 1024 chances a newly idle CPU takes to look for a task, until it has its own experience
    /// (512, as after the kernel boots).
    pub newidle_ratio: u32,
    /// EEVDF: whether a running group is re-weighted as in Linux 6.13 to 6.18. If not, it is re-weighted as
    /// intended, which later kernels do.
    pub stretches_who_runs: bool,
}

impl Default for FairOptions {
    fn default() -> FairOptions {
        FairOptions {
            tick_ns: 4_000_000,
            migration_cost_ns: 500_000,
            newidle_ratio: 512,
            stretches_who_runs: true,
        }
    }
}

/// A fair scheduler of one discipline.
#[derive(Debug)]
pub struct Fair<D> {
    q: Queues,
    d: D,
    domains: Domains,
    opts: FairOptions,
    /// By number of the domains' groups.
    counts: Vec<GroupCount>,
    movable: balance::Movable,
    /// By CPU.
    first_to_cool: Vec<hot::First>,
    vintage: Vintage,
}

/// `1 + log2(CPUs)`, with at most 8 CPUs: Linux scales its granularities with this.
fn granularity_factor(cpus: usize) -> u64 {
    1 + u64::from(cpus.clamp(1, 8).ilog2())
}

impl<D: Discipline> Fair<D> {
    /// The scheduler of a machine. `streams` draw slices that are given as a range, and the kernel's own
    /// random numbers.
    pub fn with(machine: &Machine, d: D, opts: FairOptions, streams: &Streams) -> Fair<D> {
        let domains = Domains::of(machine);
        let levels: Vec<usize> = domains.of_cpu.iter().map(Vec::len).collect();
        let idle = |g: &Vec<CpuIx>| GroupCount { idle: g.len() as u32, ..GroupCount::default() };
        let counts = domains.all.iter().flat_map(|d| d.groups.iter().map(idle)).collect();
        Fair {
            q: Queues::new(&levels, opts.newidle_ratio, streams),
            d,
            domains,
            opts,
            counts,
            movable: balance::Movable::default(),
            first_to_cool: vec![hot::First::NOBODY; levels.len()],
            vintage: Vintage::default(),
        }
    }

    /// A task that has not begun is created by one on this CPU. It begins there if no CPU is idler.
    pub fn begins_near(&mut self, task: TaskIx, cpu: CpuIx) {
        self.q.tasks[task].cpu = cpu;
    }

    /// Accounts the running entity of a queue up to now.
    #[inline(always)]
    fn update_curr(&mut self, now_ns: u64, rq: u32) {
        let curr = self.q.rq(rq).curr;
        // No entity has the number `NIL`.
        if self.q.ents.get(curr as usize).is_some_and(|e| e.exec_start_ns != now_ns) {
            self.account(now_ns, rq, curr);
        }
    }

    fn account(&mut self, now_ns: u64, rq: u32, curr: u32) {
        let e = self.q.e_mut(curr);
        let ran = now_ns - e.exec_start_ns;
        e.exec_start_ns = now_ns;
        e.ran_ns += ran;
        e.vruntime += virtual_ns(ran, e.weight);
        let over = self.d.ran(&mut self.q, curr);
        self.q.advance_zero(rq);
        let Rq { nr, cpu, .. } = *self.q.rq(rq);
        if over && nr > 1 {
            self.q.cpus[cpu as usize].resched = true;
        }
    }

    /// One entity joins one queue.
    fn enqueue_entity(&mut self, now_ns: u64, rq: u32, e: u32, why: Place) {
        self.update_curr(now_ns, rq);
        self.q.touch_both(now_ns, rq, e);
        let my_rq = self.q.e(e).my_rq;
        if my_rq != NIL {
            let share = self.q.group_share(my_rq);
            self.reweight(now_ns, e, share);
        }
        self.d.place(&mut self.q, rq, e, why);
        let Queues { rqs, ents, nodes, .. } = &mut self.q;
        let (q, entity) = (&mut rqs[rq as usize], &mut ents[e as usize]);
        (entity.rq, entity.on_rq) = (rq, true);
        q.insert(nodes, e, entity, self.d.key(entity));
        q.nr += 1;
        q.weight += entity.weight;
    }

    /// One entity leaves one queue, or stays delayed on it (`false`).
    fn dequeue_entity(&mut self, now_ns: u64, rq: u32, e: u32, sleeps: bool, may_delay: bool) -> bool {
        self.update_curr(now_ns, rq);
        self.q.touch_both(now_ns, rq, e);
        if sleeps && may_delay && self.d.delays_dequeue(&self.q, rq, e) {
            self.q.e_mut(e).delayed = true;
            return false;
        }
        self.d.leave(&mut self.q, rq, e, sleeps);
        let Queues { rqs, ents, nodes, .. } = &mut self.q;
        let (q, entity) = (&mut rqs[rq as usize], &mut ents[e as usize]);
        if !entity.runs {
            q.remove(nodes, e, entity);
        }
        (entity.on_rq, entity.delayed) = (false, false);
        q.nr -= 1;
        q.weight -= entity.weight;
        self.q.advance_zero(rq);
        true
    }

    /// A delayed entity runs again from its present place.
    fn requeue_delayed(&mut self, now_ns: u64, rq: u32, e: u32) {
        self.q.touch_both(now_ns, rq, e);
        self.d.requeue_delayed(&mut self.q, rq, e);
        self.q.e_mut(e).delayed = false;
    }

    /// A task joins its CPU's hierarchy.
    fn enqueue(&mut self, now_ns: u64, task: TaskIx, cpu: CpuIx, why: Place) {
        let TaskState { entity: mut e, group, .. } = self.q.tasks[task];
        let Entity { delayed, rq, .. } = *self.q.e(e);
        self.note_cooling(e, cpu);
        if delayed {
            self.update_curr(now_ns, rq);
            self.requeue_delayed(now_ns, rq, e);
            self.add_runnable(now_ns, rq, 1);
            return;
        }
        self.q.tasks[task].cpu = cpu;
        let mut rq = self.q.rq_of(group, cpu, self.d.default_slice_ns());
        if why == Place::Initial {
            self.q.init_load(now_ns, e, rq);
        }
        self.q.move_load(now_ns, e, rq);
        let (leaf, mut why) = (rq, why);
        loop {
            self.enqueue_entity(now_ns, rq, e, why);
            let owner = self.q.rq(rq).owner;
            if owner == NIL {
                break;
            }
            let slice = self.q.least_slice(rq);
            (e, rq, why) = (owner, cpu as u32, Place::Wakeup);
            let group = self.q.e_mut(e);
            if !group.on_rq {
                group.slice = slice;
                continue;
            }
            if group.delayed {
                self.update_curr(now_ns, rq);
                self.requeue_delayed(now_ns, rq, e);
            }
            self.request(rq, e, slice);
            break;
        }
        self.add_runnable(now_ns, leaf, 1);
        self.reshare(now_ns, leaf);
    }

    /// A queued group asks for slices as short as the shortest of those in it.
    fn request(&mut self, rq: u32, e: u32, slice: u64) {
        if self.q.e(e).slice == slice {
            return;
        }
        let waits = !self.q.e(e).runs;
        if waits {
            self.q.tree_remove(rq, e);
        }
        self.q.e_mut(e).slice = slice;
        if waits {
            let key = self.d.key(self.q.e(e));
            self.q.tree_insert(rq, e, key);
        }
    }

    /// A task leaves its CPU's hierarchy. `false`: it stays delayed.
    fn dequeue(&mut self, now_ns: u64, task: TaskIx, sleeps: bool, may_delay: bool) -> bool {
        let mut e = self.q.tasks[task].entity;
        let leaf = self.q.e(e).rq;
        let was_delayed = self.q.e(e).delayed;
        let mut rq = leaf;
        let gone = self.dequeue_entity(now_ns, rq, e, sleeps, may_delay);
        if !was_delayed {
            self.add_runnable(now_ns, leaf, -1);
        }
        if !gone {
            return false;
        }
        while self.q.rq(rq).owner != NIL {
            e = self.q.rq(rq).owner;
            if self.q.rq(rq).nr > 0 {
                let slice = self.q.least_slice(rq);
                let upper = self.q.e(e).rq;
                self.request(upper, e, slice);
                break;
            }
            // A group that empties has gone to sleep, whatever its last task did.
            rq = self.q.e(e).rq;
            if !self.dequeue_entity(now_ns, rq, e, true, true) {
                break;
            }
        }
        self.reshare(now_ns, leaf);
        true
    }

    /// Whether a task that just woke on a busy CPU takes it from the running one.
    fn preempts_at_wakeup(&mut self, now_ns: u64, cpu: CpuIx, task: TaskIx) -> bool {
        let Some(curr) = self.q.cpus[cpu].curr else { return true };
        if self.q.tasks[task].batch {
            return false;
        }
        let (mut a, mut b) = (self.q.tasks[curr].entity, self.q.tasks[task].entity);
        if self.q.e(a).rq != self.q.e(b).rq {
            a = self.top(a);
            b = self.top(b);
        }
        let rq = self.q.e(a).rq;
        if a == b || rq != self.q.e(b).rq {
            return false;
        }
        self.update_curr(now_ns, rq);
        self.d.preempts(&mut self.q, rq, a, b)
    }

    /// The entity on the CPU's own queue that represents this one.
    fn top(&self, e: u32) -> u32 {
        match self.q.rq(self.q.e(e).rq).owner {
            NIL => e,
            owner => owner,
        }
    }

    /// A task was queued on `cpu`: whether that CPU must reschedule.
    fn check_preempt(&mut self, now_ns: u64, cpu: CpuIx, task: TaskIx, fx: &mut Effects) {
        if self.q.cpus[cpu].curr.is_none() {
            fx.resched.push(Resched { cpu, by: None });
        } else if self.q.cpus[cpu].resched {
            self.flush(cpu, fx);
        } else if self.preempts_at_wakeup(now_ns, cpu, task) {
            // The engine decides when: the preemption may be delayed, and the next tick must not do it at
            // once.
            fx.resched.push(Resched { cpu, by: Some(task) });
        } else {
            self.flush(cpu, fx);
        }
    }

    fn flush(&mut self, cpu: CpuIx, fx: &mut Effects) {
        if self.q.cpus[cpu].resched {
            fx.resched.push(Resched { cpu, by: None });
        }
    }

    /// The CPU goes from one task to another. If both are in one group, the group's own entity stays.
    fn switch(&mut self, now_ns: u64, prev: Option<TaskIx>, next: Option<TaskIx>) {
        let entity = |task: Option<TaskIx>| task.map(|t| self.q.tasks[t].entity);
        let (prev, next) = (entity(prev), entity(next));
        let shared = matches!((prev, next), (Some(p), Some(n)) if self.q.e(p).rq == self.q.e(n).rq);
        if let Some(e) = prev {
            self.put_back(now_ns, e);
            let owner = self.q.rq(self.q.e(e).rq).owner;
            if owner != NIL && !shared {
                self.put_back(now_ns, owner);
            }
        }
        if let Some(e) = next {
            self.set_next(now_ns, e);
            let owner = self.q.rq(self.q.e(e).rq).owner;
            if owner != NIL && !shared {
                self.set_next(now_ns, owner);
            }
        }
    }

    /// An entity that ran goes back into its tree, unless it left its queue.
    #[inline]
    fn put_back(&mut self, now_ns: u64, e: u32) {
        let rq = self.q.e(e).rq;
        self.update_curr(now_ns, rq);
        let Queues { rqs, ents, nodes, groups, .. } = &mut self.q;
        let (q, entity) = (&mut rqs[rq as usize], &mut ents[e as usize]);
        q.touch(now_ns, groups);
        entity.touch(now_ns);
        entity.runs = false;
        if entity.on_rq {
            q.insert(nodes, e, entity, self.d.key(entity));
        }
        q.curr = NIL;
    }

    /// A picked entity leaves its tree and runs.
    #[inline]
    fn set_next(&mut self, now_ns: u64, e: u32) {
        let Queues { rqs, ents, nodes, groups, .. } = &mut self.q;
        let entity = &mut ents[e as usize];
        let q = &mut rqs[entity.rq as usize];
        debug_assert_eq!(q.curr, NIL, "who ran was put back before");
        q.touch(now_ns, groups);
        entity.touch(now_ns);
        q.remove(nodes, e, entity);
        self.d.chosen(nodes, q.root, entity);
        q.curr = e;
        entity.runs = true;
        entity.exec_start_ns = now_ns;
        entity.ran_at_pick_ns = entity.ran_ns;
    }

    /// A task was picked: its slice begins anew, and that of its group.
    fn begin_slices(&mut self, picked: Option<TaskIx>) {
        let mut e = picked.map_or(NIL, |task| self.q.tasks[task].entity);
        while e != NIL {
            let entity = self.q.e_mut(e);
            entity.ran_at_pick_ns = entity.ran_ns;
            let rq = entity.rq;
            e = self.q.rq(rq).owner;
        }
    }

    /// The task that should run on a CPU now. Delayed entities that come up are removed.
    #[inline]
    fn choose(&mut self, now_ns: u64, cpu: CpuIx) -> Option<TaskIx> {
        'restart: loop {
            let mut rq = cpu as u32;
            loop {
                if self.q.rq(rq).nr == 0 {
                    return None;
                }
                self.update_curr(now_ns, rq);
                let e = self.d.choose(&self.q, rq)?;
                if self.q.e(e).delayed {
                    self.settle_delayed(now_ns, rq, e);
                    continue 'restart;
                }
                match self.q.e(e).my_rq {
                    NIL => return Some(self.q.e(e).task as TaskIx),
                    my_rq => rq = my_rq,
                }
            }
        }
    }

    /// A delayed entity came up: its lag is paid off, and it leaves.
    fn settle_delayed(&mut self, now_ns: u64, rq: u32, e: u32) {
        if self.q.e(e).my_rq == NIL {
            self.dequeue(now_ns, self.q.e(e).task as TaskIx, true, false);
        } else {
            self.dequeue_entity(now_ns, rq, e, true, false);
        }
    }
}

impl<D: Discipline> Scheduler for Fair<D> {
    fn name(&self) -> &'static str {
        D::NAME
    }

    fn add_task(&mut self, params: &TaskParams) {
        let task = self.q.tasks.len();
        let slice = self.d.default_slice_ns();
        let entity = self.q.add_entity(params.weight * RESOLUTION, slice, task as u32);
        self.q.e_mut(entity).own_slices = params.slice_ns.is_some();
        self.q.tasks.push(TaskState {
            entity,
            group: params.group,
            batch: params.batch,
            slice_ns: params.slice_ns,
            affinity: params.affinity.clone(),
            cpu: 0,
            recent_cpu: 0,
            last_wakee: usize::MAX,
            wakee_flips: 0,
            flips_ns: 0,
        });
        self.q.renew_slice(entity, slice);
    }

    fn add_group(&mut self, weight: u32) {
        let shares = u64::from(weight) * NICE_0 / 100;
        self.q.groups.push(Group { shares, rqs: Vec::new(), load: 0 });
    }

    fn wake(&mut self, now_ns: u64, task: TaskIx, how: Wake, fx: &mut Effects) -> CpuIx {
        let e = self.q.tasks[task].entity;
        let delayed = self.q.e(e).delayed && self.q.tasks[task].allowed(self.q.tasks[task].cpu);
        if self.q.e(e).delayed && !delayed {
            self.dequeue(now_ns, task, true, false);
        }
        let cpu = if delayed { self.q.tasks[task].cpu } else { self.select_cpu(now_ns, task, how) };
        let why = if how == Wake::Fresh { Place::Initial } else { Place::Wakeup };
        self.enqueue(now_ns, task, cpu, why);
        self.check_preempt(now_ns, cpu, task, fx);
        cpu
    }

    fn block(&mut self, now_ns: u64, cpu: CpuIx, for_good: bool) {
        let task = self.q.cpus[cpu].curr.expect("a task runs where one blocks");
        self.dequeue(now_ns, task, true, !for_good);
    }

    fn remove(&mut self, now_ns: u64, task: TaskIx) {
        self.dequeue(now_ns, task, false, false);
    }

    fn pick(&mut self, now_ns: u64, cpu: CpuIx, fx: &mut Effects) -> Pick {
        self.q.cpus[cpu].resched = false;
        let before = self.q.cpus[cpu].curr;
        let mut prev = before;
        if D::VINTAGE && self.push_then(now_ns, cpu, fx) {
            prev = None;
        }
        let mut next = self.choose(now_ns, cpu);
        if D::PICKS_EVERY_LEVEL {
            self.begin_slices(next);
        }
        if next.is_some() && next == prev && self.q.e(self.q.tasks[prev.expect("some")].entity).on_rq {
            return Pick { task: prev, until_ns: None };
        }
        if next.is_none() {
            self.switch(now_ns, prev, None);
            self.q.cpus[cpu].curr = None;
            if self.newly_idle(now_ns, cpu, fx) {
                next = self.choose(now_ns, cpu);
                self.switch(now_ns, None, next);
            }
        } else {
            self.switch(now_ns, prev, next);
        }
        match (before, next) {
            (None, Some(_)) => self.leave_idle(now_ns, cpu),
            (Some(_), None) => self.q.cpus[cpu].idle_since_ns = now_ns,
            _ => {}
        }
        self.q.cpus[cpu].curr = next;
        if next.is_none() {
            self.mark(cpu);
        }
        Pick { task: next, until_ns: None }
    }

    fn tick(&mut self, now_ns: u64, cpu: CpuIx, fx: &mut Effects) {
        let Some(task) = self.q.cpus[cpu].curr else { return };
        let mut e = self.q.tasks[task].entity;
        loop {
            let rq = self.q.e(e).rq;
            self.update_curr(now_ns, rq);
            self.q.touch_both(now_ns, rq, e);
            if self.q.rq(rq).nr > 1 && self.d.tick(&self.q, rq, e) {
                self.q.cpus[cpu].resched = true;
            }
            match self.q.rq(rq).owner {
                NIL => break,
                owner => {
                    self.reshare(now_ns, rq);
                    e = owner;
                }
            }
        }
        self.flush(cpu, fx);
        if D::VINTAGE {
            self.rebalance_busy(now_ns, cpu, fx);
        } else {
            self.periodic(now_ns, cpu, fx);
        }
    }

    fn master_tick(&mut self, now_ns: u64, fx: &mut Effects) {
        if D::VINTAGE {
            self.rebalance_idle(now_ns, fx);
        } else {
            self.nohz_idle(now_ns, fx);
        }
    }

    fn tick_ns(&self) -> u64 {
        self.opts.tick_ns
    }

    fn set_slice(&mut self, task: TaskIx, bounds_ns: Option<(u64, u64)>) {
        // `sched_setattr` clamps a slice to 0.1 ms ..= 100 ms.
        let clamp = |ns: u64| ns.clamp(100_000, 100_000_000);
        let e = self.q.tasks[task].entity;
        self.q.tasks[task].slice_ns = bounds_ns.map(|(low, high)| (clamp(low), clamp(high)));
        self.q.e_mut(e).own_slices = bounds_ns.is_some();
        if !self.q.e(e).on_rq {
            self.q.renew_slice(e, self.d.default_slice_ns());
        }
    }

    fn set_affinity(&mut self, task: TaskIx, affinity: Option<Rc<CpuSet>>) {
        self.q.tasks[task].affinity = affinity;
    }

    fn set_weight(&mut self, now_ns: u64, group: usize, weight: u32) {
        self.q.groups[group].shares = u64::from(weight) * NICE_0 / 100;
        for rq in self.q.groups[group].rqs.clone() {
            if rq != NIL {
                self.reshare(now_ns, rq);
            }
        }
    }

    fn queued_on(&self, task: TaskIx) -> Option<CpuIx> {
        let e = self.q.e(self.q.tasks[task].entity);
        (e.on_rq && !e.delayed).then_some(self.q.tasks[task].cpu)
    }
}
