//! Whether a search for tasks can be skipped because all waiting tasks are cache-hot.
//!
//! A newly idle CPU gets no task that ran less than `sched_migration_cost` ago, except from its own core or after a balance that
//! failed. On a machine whose tasks block every few hundred microseconds nearly every search ends so. For each CPU a time is kept
//! before which no waiting task cools down. It is lowered when a task joins the queue, and computed again when it is over. No task that
//! a search would have found is missed, so schedules are the same.

use super::domains::Level;
use super::queues::{Discipline, Entity};
use super::tree::NIL;
use super::Fair;
use crate::sched::CpuIx;

impl Entity {
    /// When a task that waits stops being cache-hot; one that never ran is not.
    pub(super) fn cools_ns(&self, migration_cost_ns: u64) -> u64 {
        if self.ran_ns == 0 {
            return 0;
        }
        self.exec_start_ns + migration_cost_ns
    }
}

/// The task that waits on a CPU and cools down first, as far as is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    /// Nothing that waits there stops being cache-hot before.
    pub cools_ns: u64,
    /// The entity that does then; it may have gone since. [`NIL`]: one that runs now and may wait later.
    entity: u32,
}

impl First {
    /// The value for a CPU without waiting tasks.
    pub(super) const NOBODY: First = First { cools_ns: 0, entity: NIL };
}

impl<D: Discipline> Fair<D> {
    /// Notes a task that joins a CPU's queue. One that ran there until now needs no note: it stays hot for longer than
    /// any time that is kept.
    pub(super) fn note_cooling(&mut self, e: u32, cpu: CpuIx) {
        let cools_ns = self.q.e(e).cools_ns(self.opts.migration_cost_ns);
        if cools_ns < self.first_to_cool[cpu].cools_ns {
            self.first_to_cool[cpu] = First { cools_ns, entity: e };
        }
    }

    /// Whether a balance takes hot tasks too.
    #[inline]
    pub(super) fn takes_hot(&self, cpu: CpuIx, level: usize) -> bool {
        let domain = &self.domains.all[self.domains.of_cpu[cpu][level]];
        domain.level == Level::Smt || self.q.cpus[cpu].failed[level] > domain.cache_nice_tries
    }

    /// Whether a newly idle CPU would find only hot tasks within a domain, and take none.
    pub(super) fn all_hot(&mut self, now_ns: u64, cpu: CpuIx, level: usize) -> bool {
        let domain = &self.domains.all[self.domains.of_cpu[cpu][level]];
        if domain.level == Level::Smt || self.q.cpus[cpu].failed[level] > 0 {
            return false;
        }
        let cost_ns = self.opts.migration_cost_ns;
        let all_hot = domain.set.iter_common(&self.q.overloaded).all(|c| {
            let first = &mut self.first_to_cool[c];
            if now_ns < first.cools_ns {
                return true;
            }
            // It may have run since and wait again.
            let still =
                self.q.waiting_on(first.entity, c).is_some_and(|e| e.cools_ns(cost_ns) == first.cools_ns);
            if !still {
                // A task that runs now and waits later will be hot for this long.
                *first = First { cools_ns: now_ns + cost_ns, entity: NIL };
                self.q.each_waiting(c, &mut self.movable.queues, |number, e| {
                    let cools_ns = e.cools_ns(cost_ns);
                    if cools_ns < first.cools_ns {
                        *first = First { cools_ns, entity: number };
                    }
                    true
                });
            }
            now_ns < first.cools_ns
        });
        debug_assert!(
            !all_hot || self.nobody_cold(now_ns, cpu, level),
            "a look was spared that would have found a task"
        );
        all_hot
    }

    /// The same by checking all tasks, for the assertion: every debug build and test compares the two.
    fn nobody_cold(&self, now_ns: u64, cpu: CpuIx, level: usize) -> bool {
        let mut cold = 0;
        for &c in &self.domains.all[self.domains.of_cpu[cpu][level]].span {
            self.q.each_waiting(c, &mut Vec::new(), |_, e| {
                cold += u32::from(
                    self.q.rqs[c].runnable > 1 && now_ns >= e.cools_ns(self.opts.migration_cost_ns),
                );
                true
            });
        }
        cold == 0
    }
}
