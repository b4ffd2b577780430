//! The common base of Linux's fair schedulers: entities (tasks and groups), their per-CPU queues, virtual time, and the shares of
//! groups. The discipline (EEVDF, CFS) decides order and placement; see [`Discipline`].
//!
//! Source: Linux `kernel/sched/fair.c`. As there, a group has one entity and one queue per CPU, and the entity's
//! weight is the group's share split by the load that each CPU carries of it (`calc_group_shares`). Limit: two
//! levels (CPU, group, task) instead of any depth.

use super::pelt::Avg;
use super::success::Success;
use super::tree::{Nodes, NIL};
use crate::cpu_set::CpuSet;
use crate::sched::{CpuIx, TaskIx};
use crate::streams::{Stream, Streams};
use std::rc::Rc;

/// Weight of nice 0 in the schedulers' own resolution.
pub const NICE_0: u64 = 1 << 20;
/// Weight in task parameters is in units of 1024 for nice 0; queues have 1024 times the resolution.
pub const RESOLUTION: u64 = NICE_0 / 1024;

/// The decisions of one fair discipline.
pub trait Discipline {
    /// Its name in scenarios.
    const NAME: &'static str;

    /// Whether tasks are placed and balanced as an older kernel does: see [`vintage`](super::vintage).
    const VINTAGE: bool;

    /// Whether a newly idle CPU looks for tasks only as often as that has paid off.
    const PROPORTIONAL_NEWIDLE: bool;

    /// Whether each pick begins the slices of the task and of its groups again, even if the same task ran before.
    const PICKS_EVERY_LEVEL: bool;

    /// A group's entity is re-weighted when its share differs by more than one part in this many. The kernel does it at any difference.
    const LEAST_RESHARE: u64;

    /// The key that orders the queue.
    fn key(&self, e: &Entity) -> i64;

    /// Sets vruntime (and deadline) of an entity that joins `rq`.
    fn place(&self, q: &mut Queues, rq: u32, e: u32, why: Place);

    /// Remembers the state that an entity keeps when it leaves `rq` (lag, relative position).
    fn leave(&self, q: &mut Queues, rq: u32, e: u32, sleeps: bool);

    /// Whether a sleeping entity stays queued until its lag is paid off.
    fn delays_dequeue(&self, q: &Queues, rq: u32, e: u32) -> bool;

    /// A delayed entity wakes up again.
    fn requeue_delayed(&self, q: &mut Queues, rq: u32, e: u32);

    /// The running entity's vruntime has advanced: whether its CPU should reschedule.
    fn ran(&self, q: &mut Queues, e: u32) -> bool;

    /// The tick of the running entity: whether its CPU should reschedule.
    fn tick(&self, q: &Queues, rq: u32, e: u32) -> bool;

    /// The next to run, among the queued and the running one.
    fn choose(&self, q: &Queues, rq: u32) -> Option<u32>;

    /// An entity starts to run; `waiting` is the tree of those that its queue still holds.
    fn chosen(&self, nodes: &Nodes, waiting: u32, e: &mut Entity);

    /// Whether waking entity `new` takes the CPU from `curr`.
    fn preempts(&self, q: &mut Queues, rq: u32, curr: u32, new: u32) -> bool;

    /// The slice that an entity without its own gets, in nanoseconds.
    fn default_slice_ns(&self) -> u64;
}

/// Why an entity joins a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is new.
    Initial,
    /// It woke up.
    Wakeup,
    /// It was moved while it was runnable.
    Moved,
    /// Its weight changed.
    Reweighted,
}

/// A task, or a group on one CPU: two cache lines, since there are as many of them as groups times CPUs.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Entity {
    /// Its weight; [`NICE_0`] is nice 0.
    pub weight: u64,
    /// Its request in nanoseconds.
    pub slice: u64,
    /// Virtual run time in nanoseconds.
    pub vruntime: i64,
    /// Virtual deadline (EEVDF).
    pub deadline: i64,
    /// Lag when it left its queue (EEVDF); relative vruntime (CFS).
    pub vlag: i64,
    /// The vruntime until which it is protected from preemption (EEVDF).
    pub vprot: i64,
    /// It is queued, runs, or is delayed.
    pub on_rq: bool,
    /// It sleeps but stays queued until its lag is paid off (EEVDF).
    pub delayed: bool,
    /// `deadline` is relative to `vruntime` (EEVDF).
    pub rel_deadline: bool,
    /// It is a task with slices of its own: [`TaskState::slice_ns`].
    pub own_slices: bool,
    /// It is its queue's `curr`.
    pub runs: bool,
    /// The queue it is on, or was on last.
    pub rq: u32,
    /// A group's own queue; [`NIL`] for a task.
    pub my_rq: u32,
    /// Its task; meaningless for a group.
    pub task: u32,
    /// When its running was last accounted.
    pub exec_start_ns: u64,
    /// How long it has run.
    pub ran_ns: u64,
    /// `ran_ns` when it was picked.
    pub ran_at_pick_ns: u64,
    /// Its averages; `load` is the share of time for which it was queued, in units of [`NICE_0`].
    pub avg: Avg,
}

/// A queue: a CPU's own, or a group's on one CPU. Two cache lines, like an [`Entity`].
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Rq {
    /// Its CPU.
    pub cpu: u32,
    /// Its group; [`NIL`] for the CPU's own.
    pub group: u32,
    /// The entity that represents it on the CPU's queue; [`NIL`] for the CPU's own.
    pub owner: u32,
    /// The tree of waiting entities.
    pub root: u32,
    /// The running entity; [`NIL`] if there is none. It is not in the tree.
    pub curr: u32,
    /// Entities queued, running or delayed.
    pub nr: u32,
    /// Tasks below it that can run (delayed ones cannot).
    pub runnable: u32,
    /// Weight of all its entities.
    pub weight: u64,
    /// No entity's virtual time is far below it (`min_vruntime`).
    pub zero: i64,
    /// Weight in the tree.
    sum_w: i64,
    /// Weighted sum of vruntimes in the tree, relative to `zero`.
    sum_wv: i128,
    /// Its load averages.
    pub avg: Avg,
    /// The load that it last reported to its group.
    pub told: u64,
    /// When it reported that.
    pub told_ns: u64,
}

/// A group of tasks that shares CPU time.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its share; [`NICE_0`] is the default.
    pub shares: u64,
    /// Its queue per CPU, made when first needed; [`NIL`] before.
    pub rqs: Vec<u32>,
    /// Its load over all CPUs.
    pub load: u64,
}

/// The wake-up placement's memory of a task, on separate cache lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct TaskState {
    /// Its entity.
    pub entity: u32,
    /// Its group.
    pub group: Option<usize>,
    /// SCHED_BATCH.
    pub batch: bool,
    /// Bounds of its own slices, if it has them.
    pub slice_ns: Option<(u64, u64)>,
    /// Where it may run.
    pub affinity: Option<Rc<CpuSet>>,
    /// Where it ran or was queued last.
    pub cpu: CpuIx,
    /// Where it was before that.
    pub recent_cpu: CpuIx,
    /// The task that it last woke, and how often that changed.
    pub last_wakee: TaskIx,
    /// See `last_wakee`; halved every second.
    pub wakee_flips: u64,
    /// When the flips were halved.
    pub flips_ns: u64,
}

impl TaskState {
    /// Whether it may run on a CPU.
    pub fn allowed(&self, cpu: CpuIx) -> bool {
        self.affinity.as_ref().is_none_or(|set| set.contains(cpu))
    }
}

/// One CPU, on cache lines of its own.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub struct CpuState {
    /// The task that runs.
    pub curr: Option<TaskIx>,
    /// Whether it was asked to reschedule.
    pub resched: bool,
    /// When it became idle.
    pub idle_since_ns: u64,
    /// Average length of its idle times.
    pub avg_idle_ns: u64,
    /// Per domain: when it was balanced last.
    pub balanced_ns: Vec<u64>,
    /// Per domain: balances in a row that found an imbalance and moved nothing.
    pub failed: Vec<u32>,
    /// Per domain: the interval between balances.
    pub interval_ns: Vec<u64>,
    /// Per domain: how often looking for work when newly idle has paid.
    pub newidle: Vec<Success>,
}

/// All entities and queues of a machine.
#[derive(Clone, Debug)]
pub struct Queues {
    /// Tree nodes, by entity.
    pub nodes: Nodes,
    /// Entities.
    pub ents: Vec<Entity>,
    /// Queues; the first ones are the CPUs' own, by CPU.
    pub rqs: Vec<Rq>,
    /// CPUs.
    pub cpus: Vec<CpuState>,
    /// Tasks.
    pub tasks: Vec<TaskState>,
    /// Groups.
    pub groups: Vec<Group>,
    /// CPUs with nothing to run.
    pub idle: CpuSet,
    /// CPUs with more than one task that can run.
    pub overloaded: CpuSet,
    /// Draws random slices.
    pub slices: Stream,
    /// Decides whether a newly idle CPU looks for a task.
    pub dice: Stream,
}

/// `ns` of running in virtual time.
pub fn virtual_ns(ns: u64, weight: u64) -> i64 {
    if weight == NICE_0 {
        ns as i64
    } else {
        part(ns, NICE_0, weight.max(1)) as i64
    }
}

/// `whole × share / of`, rounded down. The product may have more than 64 bits, but seldom has.
#[inline]
pub fn part(whole: u64, share: u64, of: u64) -> u64 {
    match whole.checked_mul(share) {
        Some(product) => product / of,
        None => (u128::from(whole) * u128::from(share) / u128::from(of)) as u64,
    }
}

/// [`part`] for values that may be negative, rounded towards zero.
#[inline]
pub fn signed_part(whole: i64, share: u64, of: u64) -> i64 {
    let size = part(whole.unsigned_abs(), share, of) as i64;
    if whole < 0 {
        -size
    } else {
        size
    }
}

/// The entity that runs and takes part in its queue.
#[inline]
fn running<'a>(ents: &'a [Entity], q: &Rq) -> Option<&'a Entity> {
    // No entity has the number `NIL`.
    ents.get(q.curr as usize).filter(|e| e.on_rq)
}

/// Weighted virtual time.
fn product(a: i64, b: i64) -> i128 {
    i128::from(a) * i128::from(b)
}

impl Queues {
    /// The queues of a machine with `cpus` CPUs, each in `domains[cpu]` domains.
    pub fn new(domains: &[usize], newidle_ratio: u32, streams: &Streams) -> Queues {
        let n = domains.len();
        Queues {
            nodes: Nodes::default(),
            ents: Vec::new(),
            rqs: (0..n).map(|cpu| Rq::new(cpu, NIL, NIL)).collect(),
            cpus: domains
                .iter()
                .map(|&levels| CpuState {
                    avg_idle_ns: 1_000_000,
                    balanced_ns: vec![0; levels],
                    failed: vec![0; levels],
                    interval_ns: vec![0; levels],
                    newidle: vec![Success::of(newidle_ratio); levels],
                    ..CpuState::default()
                })
                .collect(),
            tasks: Vec::new(),
            groups: Vec::new(),
            idle: CpuSet::full(n),
            overloaded: CpuSet::empty(n),
            slices: streams.stream("slices"),
            dice: streams.stream("newly idle"),
        }
    }

    /// An entity.
    pub fn e(&self, e: u32) -> &Entity {
        &self.ents[e as usize]
    }

    /// An entity, to change.
    pub fn e_mut(&mut self, e: u32) -> &mut Entity {
        &mut self.ents[e as usize]
    }

    /// A queue.
    pub fn rq(&self, rq: u32) -> &Rq {
        &self.rqs[rq as usize]
    }

    /// A queue, to change.
    pub fn rq_mut(&mut self, rq: u32) -> &mut Rq {
        &mut self.rqs[rq as usize]
    }

    /// Makes an entity.
    pub fn add_entity(&mut self, weight: u64, slice: u64, task: u32) -> u32 {
        self.nodes.0.push(super::tree::Node::default());
        self.ents.push(Entity {
            weight,
            slice,
            vruntime: 0,
            deadline: 0,
            vlag: 0,
            vprot: 0,
            on_rq: false,
            delayed: false,
            rel_deadline: false,
            own_slices: false,
            runs: false,
            rq: NIL,
            my_rq: NIL,
            task,
            exec_start_ns: 0,
            ran_ns: 0,
            ran_at_pick_ns: 0,
            avg: Avg::default(),
        });
        self.ents.len() as u32 - 1
    }

    /// The queue on `cpu` that a group's (or no group's) tasks join.
    pub fn rq_of(&mut self, group: Option<usize>, cpu: CpuIx, slice: u64) -> u32 {
        let Some(g) = group else { return cpu as u32 };
        if self.groups[g].rqs.is_empty() {
            self.groups[g].rqs = vec![NIL; self.cpus.len()];
        }
        if self.groups[g].rqs[cpu] == NIL {
            let rq = self.rqs.len() as u32;
            let owner = self.add_entity(self.groups[g].shares, slice, NIL);
            self.e_mut(owner).my_rq = rq;
            self.e_mut(owner).rq = cpu as u32;
            self.rqs.push(Rq::new(cpu, g as u32, owner));
            self.groups[g].rqs[cpu] = rq;
        }
        self.groups[g].rqs[cpu]
    }

    /// The average virtual time of a queue's entities, the running one included: the zero-lag point V; and the weight
    /// that takes part in it.
    #[inline]
    pub fn zero_lag(&self, rq: u32) -> (i64, i64) {
        let q = self.rq(rq);
        if q.root == NIL {
            // The queue is empty, so V is that of the running one.
            return self.running(q).map_or((q.zero, 0), |curr| (curr.vruntime, curr.weight as i64));
        }
        let (sum_wv, sum_w) = self.sums(q);
        let off = match (i64::try_from(sum_wv), sum_w) {
            (_, 0) => 0,
            (Ok(sum), w) => sum.div_euclid(w),
            (Err(_), w) => sum_wv.div_euclid(i128::from(w)) as i64,
        };
        (q.zero + off, sum_w)
    }

    /// Whether an entity at this virtual time has not had more than its share: `V >= v`.
    #[inline]
    pub fn eligible(&self, rq: u32, vruntime: i64) -> bool {
        let q = self.rq(rq);
        if q.root == NIL {
            return self.running(q).is_none_or(|curr| curr.vruntime >= vruntime);
        }
        let (sum_wv, sum_w) = self.sums(q);
        sum_wv >= product(vruntime - q.zero, sum_w)
    }

    /// The entity that runs and takes part in its queue.
    #[inline]
    pub fn running(&self, q: &Rq) -> Option<&Entity> {
        running(&self.ents, q)
    }

    #[inline]
    fn sums(&self, q: &Rq) -> (i128, i64) {
        let (mut sum_wv, mut sum_w) = (q.sum_wv, q.sum_w);
        if let Some(curr) = self.running(q) {
            sum_wv += product(curr.vruntime - q.zero, curr.weight as i64);
            sum_w += curr.weight as i64;
        }
        (sum_wv, sum_w)
    }

    /// Puts an entity into its queue's tree.
    pub fn tree_insert(&mut self, rq: u32, e: u32, key: i64) {
        self.rqs[rq as usize].insert(&mut self.nodes, e, &self.ents[e as usize], key);
    }

    /// Takes an entity out of its queue's tree.
    pub fn tree_remove(&mut self, rq: u32, e: u32) {
        self.rqs[rq as usize].remove(&mut self.nodes, e, &self.ents[e as usize]);
    }

    /// Moves a queue's `zero` up to the least virtual time in it.
    pub fn advance_zero(&mut self, rq: u32) {
        let q = &mut self.rqs[rq as usize];
        let curr = running(&self.ents, q);
        q.advance_zero(&self.nodes, curr);
    }

    /// The least slice among a queue's entities, the running one included.
    pub fn least_slice(&self, rq: u32) -> u64 {
        let q = self.rq(rq);
        let curr = self.running(q).map(|e| e.slice);
        curr.unwrap_or(u64::MAX).min(self.nodes.least_slice(q.root).unwrap_or(u64::MAX))
    }

    /// Draws the next request of an entity: its own bounds, or `default`. A group's comes from those in it.
    #[inline]
    pub fn renew_slice(&mut self, e: u32, default: u64) -> &mut Entity {
        let entity = &mut self.ents[e as usize];
        if entity.own_slices {
            let own = self.tasks[entity.task as usize].slice_ns;
            let draw = self.slices.between(0, u64::from(u32::MAX)) as u32;
            entity.slice = corun_decisions::slice_ns(own, default, draw);
        } else if entity.my_rq == NIL {
            entity.slice = default;
        }
        entity
    }

    /// An entity, if it waits on a CPU's queue or one of its groups'.
    pub fn waiting_on(&self, e: u32, cpu: CpuIx) -> Option<&Entity> {
        // No entity has the number `NIL`.
        let waits = |e: &&Entity| e.on_rq && !e.runs && !e.delayed && self.rq(e.rq).cpu as usize == cpu;
        self.ents.get(e as usize).filter(waits)
    }

    /// Passes the tasks that wait on a CPU to `f` until it returns `false`; `queues` is memory to work with.
    #[inline]
    pub fn each_waiting(&self, cpu: CpuIx, queues: &mut Vec<u32>, mut f: impl FnMut(u32, &Entity) -> bool) {
        let mut more = true;
        queues.push(cpu as u32);
        while let Some(rq) = queues.pop() {
            let q = self.rq(rq);
            let mut visit = |e: u32| {
                let entity = self.e(e);
                if entity.my_rq != NIL {
                    queues.push(entity.my_rq);
                } else if !entity.delayed {
                    more = f(e, entity);
                }
                more
            };
            self.nodes.visit(q.root, &mut visit);
            if q.curr != NIL && self.e(q.curr).my_rq != NIL {
                queues.push(self.e(q.curr).my_rq);
            }
        }
    }

    /// Marks whether a CPU is idle, and whether it is overloaded. Returns the changes to the numbers of such CPUs.
    #[inline]
    pub fn mark(&mut self, cpu: CpuIx) -> (i32, i32) {
        let runnable = self.rqs[cpu].runnable;
        let is_idle = runnable == 0 && self.cpus[cpu].curr.is_none();
        (self.idle.put(cpu, is_idle), self.overloaded.put(cpu, runnable > 1))
    }
}

impl Rq {
    fn new(cpu: CpuIx, group: u32, owner: u32) -> Rq {
        Rq {
            cpu: cpu as u32,
            group,
            owner,
            root: NIL,
            curr: NIL,
            nr: 0,
            runnable: 0,
            weight: 0,
            zero: 0,
            sum_w: 0,
            sum_wv: 0,
            avg: Avg::default(),
            told: 0,
            told_ns: 0,
        }
    }

    /// Puts an entity into the tree.
    #[inline]
    pub fn insert(&mut self, nodes: &mut Nodes, e: u32, entity: &Entity, key: i64) {
        self.root = nodes.insert(self.root, e, key, entity.vruntime, entity.slice);
        self.sum_w += entity.weight as i64;
        self.sum_wv += product(entity.vruntime - self.zero, entity.weight as i64);
    }

    /// Takes an entity out of the tree.
    #[inline]
    pub fn remove(&mut self, nodes: &mut Nodes, e: u32, entity: &Entity) {
        self.root = nodes.remove(self.root, e);
        self.sum_w -= entity.weight as i64;
        self.sum_wv -= product(entity.vruntime - self.zero, entity.weight as i64);
    }

    /// Moves `zero` up to the least virtual time; `curr` is the entity that runs and takes part.
    #[inline]
    fn advance_zero(&mut self, nodes: &Nodes, curr: Option<&Entity>) {
        let least = match (curr.map(|e| e.vruntime), nodes.least_vruntime(self.root)) {
            (Some(a), Some(b)) => a.min(b),
            (Some(a), None) | (None, Some(a)) => a,
            (None, None) => return,
        };
        if least > self.zero {
            self.sum_wv -= product(least - self.zero, self.sum_w);
            self.zero = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_and_a_queue_are_two_cache_lines_each() {
        assert_eq!((size_of::<Entity>(), size_of::<Rq>()), (128, 128));
    }
}
