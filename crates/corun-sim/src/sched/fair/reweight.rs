//! Changes the weight of groups while they are queued, even while they run.
//!
//! The part of a group's weight that counts on one CPU follows the load of the group there
//! ([`Queues::group_share`](super::queues::Queues::group_share)). So it changes as threads wake up and sleep. The service owed to an
//! entity is a time, and stays the same: its lag and its deadline are scaled to the new weight.

use super::queues::{signed_part, Discipline, Place, Rq};
use super::tree::NIL;
use super::Fair;

impl<D: Discipline> Fair<D> {
    /// Gives a group's entity on this CPU the weight of its load here (`update_cfs_group`). An empty group that stays queued until its
    /// lag is paid off keeps its weight.
    pub(super) fn reshare(&mut self, now_ns: u64, leaf: u32) {
        let Rq { owner: e, nr, .. } = *self.q.rq(leaf);
        if e == NIL || nr == 0 || !self.q.e(e).on_rq {
            return;
        }
        self.q.touch_rq(now_ns, leaf);
        let (share, weight) = (self.q.group_share(leaf), self.q.e(e).weight);
        if share.abs_diff(weight) > weight / D::LEAST_RESHARE {
            self.reweight(now_ns, e, share);
        }
    }

    /// Gives an entity another weight. A running one may stay in the average V while it is placed again
    /// ([`FairOptions::stretches_who_runs`](super::FairOptions::stretches_who_runs)); see [`eevdf`](super::eevdf) for the consequence.
    pub(super) fn reweight(&mut self, now_ns: u64, e: u32, weight: u64) {
        let rq = self.q.e(e).rq;
        let old = self.q.e(e).weight;
        let queued = self.q.e(e).on_rq;
        let waits = queued && !self.q.e(e).runs;
        if queued {
            self.update_curr(now_ns, rq);
            self.q.touch_both(now_ns, rq, e);
            self.d.leave(&mut self.q, rq, e, false);
            if waits {
                self.q.tree_remove(rq, e);
            }
            self.q.e_mut(e).on_rq = !waits && self.opts.stretches_who_runs;
            let q = self.q.rq_mut(rq);
            q.nr -= 1;
            q.weight -= old;
        }
        let scale = |x: i64| signed_part(x, old, weight);
        let entity = self.q.e_mut(e);
        entity.vlag = scale(entity.vlag);
        if entity.rel_deadline {
            entity.deadline = scale(entity.deadline);
        }
        self.q.reweigh_load(e, weight);
        if queued {
            self.d.place(&mut self.q, rq, e, Place::Reweighted);
            self.q.e_mut(e).on_rq = true;
            if waits {
                let key = self.d.key(self.q.e(e));
                self.q.tree_insert(rq, e, key);
            }
            let q = self.q.rq_mut(rq);
            q.nr += 1;
            q.weight += weight;
        }
    }
}
