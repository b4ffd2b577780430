//! CFS: the completely fair scheduler of Linux 2.6.32 to 3.14, which the papers' machines ran.
//!
//! The entity with the least virtual run time runs. A tick takes the CPU from an entity that has had its part
//! of the scheduling period. A waking entity takes it if its virtual run time is behind by more than the
//! wake-up granularity. Sleepers return at most half a latency behind the queue (GENTLE_FAIR_SLEEPERS), and
//! new tasks start one virtual slice ahead of it (START_DEBIT). Source: `kernel/sched/fair.c` of those
//! versions.
//!
//! Placement and balancing are those of the last kernels with CFS ([`Cfs`]) or of an older one ([`VintageCfs`]).
//!
//! Limits: no buddies (LAST_BUDDY, `yield_to`). Groups' shares follow decaying averages of load, which came with 3.8; earlier kernels
//! used the present weights.

use super::queues::{part, virtual_ns, Discipline, Entity, Place, Queues};
use super::tree::{Nodes, NIL};
use super::vintage::kernel::Kernel;
use super::vintage::Vintage;
use super::{granularity_factor, Fair, FairOptions};
use crate::streams::Streams;
use corun_model::Machine;

/// The CFS discipline; `VINTAGE`: with the placement and balancing of an older kernel.
#[derive(Clone, Copy, Debug)]
pub struct CfsRules<const VINTAGE: bool> {
    latency_ns: u64,
    min_granularity_ns: u64,
    wakeup_granularity_ns: u64,
}

/// Linux's scheduler from 2.6.23 to 6.5, with the placement and balancing of the last of these.
pub type Cfs = Fair<CfsRules<false>>;

/// The same, with the placement and balancing of an older kernel.
pub type VintageCfs = Fair<CfsRules<true>>;

impl Cfs {
    /// CFS on a machine: latency 6 ms, granularity 0.75 ms, wake-up granularity 1 ms, each × (1 + log2 CPUs).
    pub fn new(machine: &Machine, opts: FairOptions, streams: &Streams) -> Cfs {
        Fair::with(machine, CfsRules::of(machine), opts, streams)
    }
}

impl VintageCfs {
    /// CFS on a machine under an older kernel.
    pub fn new(machine: &Machine, opts: FairOptions, kernel: Kernel, streams: &Streams) -> VintageCfs {
        let mut fair = Fair::with(machine, CfsRules::of(machine), opts, streams);
        fair.vintage = Vintage::of(machine, kernel);
        fair
    }
}

impl<const VINTAGE: bool> CfsRules<VINTAGE> {
    fn of(machine: &Machine) -> CfsRules<VINTAGE> {
        let factor = granularity_factor(machine.cpu_count());
        CfsRules {
            latency_ns: 6_000_000 * factor,
            min_granularity_ns: 750_000 * factor,
            wakeup_granularity_ns: 1_000_000 * factor,
        }
    }

    /// An entity's part of the scheduling period, in nanoseconds: its share of its group's part.
    fn slice_ns(&self, q: &Queues, rq: u32, e: u32) -> u64 {
        if q.e(e).own_slices {
            return q.e(e).slice;
        }
        let nr = u64::from(q.rq(rq).nr + u32::from(!q.e(e).on_rq));
        let mut slice = self.latency_ns.max(nr * self.min_granularity_ns);
        let (mut rq, mut e) = (rq, e);
        while e != NIL {
            let entity = q.e(e);
            let total = q.rq(rq).weight + if entity.on_rq { 0 } else { entity.weight };
            slice = part(slice, entity.weight, total.max(1));
            e = q.rq(rq).owner;
            rq = q.rq(rq).cpu;
        }
        slice
    }
}

impl<const VINTAGE: bool> Discipline for CfsRules<VINTAGE> {
    const NAME: &'static str = "cfs";
    const VINTAGE: bool = VINTAGE;
    const PROPORTIONAL_NEWIDLE: bool = false;
    // Until 3.14 the running entities were put back and picked again every time.
    const PICKS_EVERY_LEVEL: bool = true;
    // Smaller differences change no decision, and are not worth a sift.
    const LEAST_RESHARE: u64 = 128;

    fn key(&self, e: &Entity) -> i64 {
        e.vruntime
    }

    #[inline]
    fn place(&self, q: &mut Queues, rq: u32, e: u32, why: Place) {
        let zero = q.rq(rq).zero;
        let was = q.e(e).rq;
        let vruntime = match why {
            Place::Reweighted => q.e(e).vruntime,
            // `vlag` holds the position relative to the old queue's zero.
            Place::Moved => zero + q.e(e).vlag,
            Place::Initial => zero + virtual_ns(self.slice_ns(q, rq, e), q.e(e).weight),
            Place::Wakeup => {
                let here = if was == NIL || was == rq { 0 } else { zero - q.rq(was).zero };
                (zero - self.latency_ns as i64 / 2).max(q.e(e).vruntime + here)
            }
        };
        q.renew_slice(e, self.latency_ns).vruntime = vruntime;
    }

    fn leave(&self, q: &mut Queues, rq: u32, e: u32, _: bool) {
        let zero = q.rq(rq).zero;
        let entity = q.e_mut(e);
        entity.vlag = entity.vruntime - zero;
    }

    fn delays_dequeue(&self, _: &Queues, _: u32, _: u32) -> bool {
        false
    }

    fn requeue_delayed(&self, _: &mut Queues, _: u32, _: u32) {
        unreachable!("CFS delays nobody")
    }

    fn ran(&self, _: &mut Queues, _: u32) -> bool {
        false
    }

    fn tick(&self, q: &Queues, rq: u32, e: u32) -> bool {
        let ideal = self.slice_ns(q, rq, e);
        let ran = q.e(e).ran_ns - q.e(e).ran_at_pick_ns;
        if ran > ideal {
            return true;
        }
        if ran < self.min_granularity_ns {
            return false;
        }
        let first = q.nodes.first(q.rq(rq).root);
        first.is_some_and(|first| q.e(e).vruntime - q.e(first).vruntime > ideal as i64)
    }

    #[inline]
    fn choose(&self, q: &Queues, rq: u32) -> Option<u32> {
        let queue = q.rq(rq);
        let running = (queue.curr != NIL && q.e(queue.curr).on_rq).then_some(queue.curr);
        let first = q.nodes.first(queue.root);
        match (running, first) {
            (Some(r), Some(f)) if q.e(r).vruntime < q.e(f).vruntime => Some(r),
            (r, f) => f.or(r),
        }
    }

    fn chosen(&self, _: &Nodes, _: u32, _: &mut Entity) {}

    fn preempts(&self, q: &mut Queues, _: u32, curr: u32, new: u32) -> bool {
        let behind = q.e(curr).vruntime - q.e(new).vruntime;
        behind > virtual_ns(self.wakeup_granularity_ns, q.e(new).weight)
    }

    fn default_slice_ns(&self) -> u64 {
        self.latency_ns
    }
}
