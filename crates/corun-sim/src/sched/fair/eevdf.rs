//! EEVDF: earliest eligible virtual deadline first, as in Linux 6.12 to 6.18.
//!
//! An entity's lag is `V - v`, the service that it is owed. It is eligible if its lag is not negative. Among the eligible entities the
//! one with the earliest deadline `v + slice / weight` runs (Stoica and Abdel-Wahab, 1995). Of the kernel's features this has
//! PLACE_LAG, PLACE_DEADLINE_INITIAL, PLACE_REL_DEADLINE, RUN_TO_PARITY, PREEMPT_SHORT, DELAY_DEQUEUE and DELAY_ZERO, which are on by
//! default. A running entity is preempted when its CPU reschedules: at a tick, or when a wake-up updates the queue's accounts. So a
//! slice shorter than the tick lasts to the tick if nothing wakes up.
//!
//! Re-weighting is as in Linux 6.13 to 6.18, which differs from its intention. An entity that leaves is placed again with a stretched
//! lag, so that its arrival does not shorten the lag. An entity that *runs* never leaves the average V, and is stretched all the same,
//! by `1 + w / W`. So its lag, of either sign, grows with every change of its weight, up to the clamp of two slices. A group whose
//! threads wake up often is re-weighted often, and can get far more than its share: see docs/validation.md. Linux 7.3 corrects this,
//! and [`FairOptions::stretches_who_runs`] selects the behavior.
//!
//! Limits: no buddies (NEXT_BUDDY is off by default), no SCHED_IDLE.

use super::queues::{signed_part, virtual_ns, Discipline, Entity, Place, Queues};
use super::tree::{Nodes, NIL};
use super::{granularity_factor, Fair, FairOptions};
use crate::streams::Streams;
use corun_model::Machine;

/// The EEVDF discipline.
#[derive(Clone, Copy, Debug)]
pub struct EevdfRules {
    base_slice_ns: u64,
    tick_ns: u64,
}

/// Linux's scheduler since 6.6.
pub type Eevdf = Fair<EevdfRules>;

impl Eevdf {
    /// EEVDF on a machine. The base slice is `base_slice_ns`, or 0.7 ms × (1 + log2 CPUs) as Linux scales it.
    pub fn new(machine: &Machine, opts: FairOptions, base_slice_ns: Option<u64>, streams: &Streams) -> Eevdf {
        let base_slice_ns = base_slice_ns.unwrap_or(700_000 * granularity_factor(machine.cpu_count()));
        Fair::with(machine, EevdfRules { base_slice_ns, tick_ns: opts.tick_ns }, opts, streams)
    }
}

impl EevdfRules {
    /// Computes an entity's lag, limited to two slices either way.
    #[inline]
    fn set_lag<'a>(&self, q: &'a mut Queues, rq: u32, e: u32) -> &'a mut Entity {
        let (zero_lag, _) = q.zero_lag(rq);
        let entity = q.e_mut(e);
        entity.vlag = zero_lag - entity.vruntime;
        if entity.vlag != 0 {
            let limit = virtual_ns((2 * entity.slice).max(self.tick_ns), entity.weight);
            entity.vlag = entity.vlag.clamp(-limit, limit);
        }
        entity
    }

    /// The entity to run: the one with the earliest eligible deadline. The running entity keeps the CPU while `protected`.
    fn best(&self, q: &Queues, rq: u32, protected: bool) -> Option<u32> {
        let queue = q.rq(rq);
        if queue.nr == 1 {
            // It runs, or it is alone in the tree.
            return Some(if queue.root == NIL { queue.curr } else { queue.root });
        }
        let running = q.running(queue).map(|_| queue.curr);
        let running = running.filter(|&e| q.eligible(rq, q.e(e).vruntime));
        if let Some(e) = running.filter(|&e| protected && q.e(e).vruntime < q.e(e).vprot) {
            return Some(e);
        }
        let waiting = q.nodes.first_eligible(queue.root, |v| q.eligible(rq, v));
        match (running, waiting) {
            (Some(r), Some(w)) if q.e(r).deadline < q.e(w).deadline => Some(r),
            (_, Some(w)) => Some(w),
            // Rounding can leave no entity eligible for an instant. Then the earliest deadline counts.
            (r, None) => {
                r.or_else(|| q.nodes.first(queue.root)).or((queue.curr != NIL).then_some(queue.curr))
            }
        }
    }
}

impl Discipline for EevdfRules {
    const NAME: &'static str = "eevdf";
    const VINTAGE: bool = false;
    const PROPORTIONAL_NEWIDLE: bool = true;
    const PICKS_EVERY_LEVEL: bool = false;
    const LEAST_RESHARE: u64 = u64::MAX;

    fn key(&self, e: &Entity) -> i64 {
        e.deadline
    }

    #[inline]
    fn place(&self, q: &mut Queues, rq: u32, e: u32, why: Place) {
        let ((zero_lag, load), nr) = (q.zero_lag(rq), q.rq(rq).nr);
        let entity = q.renew_slice(e, self.base_slice_ns);
        let mut lag = 0;
        if nr > 0 && entity.vlag != 0 && load > 0 {
            // The entity's own arrival shifts V; the lag is stretched so that it still has it afterwards.
            lag = signed_part(entity.vlag, load as u64 + entity.weight, load as u64);
        }
        let vruntime = zero_lag - lag;
        entity.vruntime = vruntime;
        if entity.rel_deadline {
            entity.deadline += vruntime;
            entity.rel_deadline = false;
            return;
        }
        let mut request = virtual_ns(entity.slice, entity.weight);
        if why == Place::Initial {
            request /= 2;
        }
        entity.deadline = vruntime + request;
    }

    #[inline]
    fn leave(&self, q: &mut Queues, rq: u32, e: u32, sleeps: bool) {
        let entity = self.set_lag(q, rq, e);
        if entity.delayed && entity.vlag > 0 {
            entity.vlag = 0;
        }
        if !sleeps {
            entity.deadline -= entity.vruntime;
            entity.rel_deadline = true;
        }
    }

    #[inline]
    fn delays_dequeue(&self, q: &Queues, rq: u32, e: u32) -> bool {
        !q.eligible(rq, q.e(e).vruntime)
    }

    fn requeue_delayed(&self, q: &mut Queues, rq: u32, e: u32) {
        if self.set_lag(q, rq, e).vlag <= 0 {
            return;
        }
        let waits = q.rq(rq).curr != e;
        q.rq_mut(rq).nr -= 1;
        if waits {
            q.tree_remove(rq, e);
        }
        q.e_mut(e).vlag = 0;
        self.place(q, rq, e, Place::Wakeup);
        if waits {
            let key = self.key(q.e(e));
            q.tree_insert(rq, e, key);
        }
        q.rq_mut(rq).nr += 1;
    }

    #[inline]
    fn ran(&self, q: &mut Queues, e: u32) -> bool {
        let entity = q.e(e);
        if entity.vruntime < entity.deadline {
            return entity.vruntime >= entity.vprot;
        }
        let entity = q.renew_slice(e, self.base_slice_ns);
        entity.deadline = entity.vruntime + virtual_ns(entity.slice, entity.weight);
        true
    }

    fn tick(&self, _: &Queues, _: u32, _: u32) -> bool {
        false
    }

    #[inline]
    fn choose(&self, q: &Queues, rq: u32) -> Option<u32> {
        self.best(q, rq, true)
    }

    fn chosen(&self, nodes: &Nodes, waiting: u32, e: &mut Entity) {
        e.vprot = e.deadline;
        if let Some(least) = nodes.least_slice(waiting).filter(|&least| least < e.slice) {
            e.vprot = e.vprot.min(e.vruntime + virtual_ns(least, e.weight));
        }
    }

    fn preempts(&self, q: &mut Queues, rq: u32, curr: u32, new: u32) -> bool {
        let shorter = q.e(new).slice < q.e(curr).slice
            && q.eligible(rq, q.e(new).vruntime)
            && (q.e(new).deadline < q.e(curr).deadline || !q.eligible(rq, q.e(curr).vruntime));
        if self.best(q, rq, !shorter) == Some(new) {
            if shorter {
                let vruntime = q.e(curr).vruntime;
                q.e_mut(curr).vprot = vruntime;
            }
            return true;
        }
        if shorter {
            let least = q.least_slice(rq);
            let entity = q.e_mut(curr);
            entity.vprot = entity.vprot.min(entity.vruntime + virtual_ns(least, entity.weight));
        }
        false
    }

    fn default_slice_ns(&self) -> u64 {
        self.base_slice_ns
    }
}
