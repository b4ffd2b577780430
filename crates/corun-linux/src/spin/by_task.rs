//! Sampling by the clocks of tasks, for users who may not sample whole CPUs.
//!
//! A task is attached to with one event per CPU; its threads and children inherit them in the kernel without
//! another descriptor. Birth records say which tasks are covered that way, so that none is attached to twice.
//! If there are more tasks than descriptors, the longest-attached ones make room in each call for those that
//! were not sampled yet.
//!
//! Limits: the kernel arms and disarms a task's clock at every switch, which is expensive in a virtual
//! machine. A server with tens of thousands of switches a second takes a tenth longer, in some virtual
//! machines half as long again.

use super::event::{Event, Ring, Whom};
use super::followed::{Attached, Followed};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// One attached task, with the events that its descendants share.
struct Root {
    tid: u32,
    _events: Vec<Event>,
}

/// All tasks that have events.
pub struct ByTask {
    roots: BTreeMap<u64, Root>,
    /// By task: the root that owns its events.
    covered: BTreeMap<u32, u64>,
    next: u64,
    roots_max: usize,
    period_ns: u64,
    with_kernel: bool,
}

impl ByTask {
    /// Nobody yet; `descriptors` may be used.
    pub fn new(descriptors: usize, cpus: usize, period_ns: u64, with_kernel: bool) -> ByTask {
        let roots_max = (descriptors / cpus.max(1)).max(1);
        ByTask {
            roots: BTreeMap::new(),
            covered: BTreeMap::new(),
            next: 0,
            roots_max,
            period_ns,
            with_kernel,
        }
    }

    fn attach(&mut self, tid: u32, rings: &[(u32, Ring)]) -> io::Result<()> {
        let open = |(cpu, ring): &(u32, Ring)| {
            Event::sampling(Whom::Task(tid), *cpu, self.period_ns, self.with_kernel, ring)
        };
        let events = rings.iter().map(open).collect::<io::Result<Vec<Event>>>()?;
        self.roots.insert(self.next, Root { tid, _events: events });
        self.covered.insert(tid, self.next);
        self.next += 1;
        Ok(())
    }

    fn leave(&mut self, root: u64) {
        self.roots.remove(&root);
        self.covered.retain(|_, r| *r != root);
    }
}

impl Followed for ByTask {
    fn covers(&self, tid: u32) -> bool {
        self.covered.contains_key(&tid)
    }

    fn follow(
        &mut self,
        tasks: &BTreeSet<u32>,
        rings: &[(u32, Ring)],
        lives: &dyn Fn(u32) -> bool,
    ) -> Attached {
        let gone: Vec<u32> =
            self.covered.keys().copied().filter(|t| !tasks.contains(t) && !lives(*t)).collect();
        for tid in gone {
            self.end(tid);
        }
        let mut result = Attached::default();
        let fresh: Vec<u32> = tasks.iter().copied().filter(|t| !self.covers(*t)).collect();
        // At most half of the places change hands in one call, so that every task is sampled for a while.
        let room = self.roots_max.saturating_sub(self.roots.len());
        let turns = fresh.len().saturating_sub(room).min(self.roots_max / 2);
        for _ in 0..turns {
            if let Some((&oldest, _)) = self.roots.first_key_value() {
                self.leave(oldest);
            }
        }
        for tid in fresh {
            if self.roots.len() >= self.roots_max {
                result.waiting += 1;
                continue;
            }
            match self.attach(tid, rings) {
                Ok(()) => {}
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                Err(e) if e.raw_os_error() == Some(libc::EMFILE) => {
                    self.roots_max = self.roots.len().max(1);
                    result.waiting += 1;
                }
                Err(_) => result.forbidden += 1,
            }
        }
        result.sampled = self.covered.len();
        result
    }

    fn born(&mut self, parent: u32, tid: u32) {
        // Only tasks with events report births. The record of the parent's own birth may lie in another ring
        // and be read later: then the latest root is assumed.
        let root = self.covered.get(&parent).or_else(|| self.roots.keys().next_back());
        if let Some(&root) = root {
            self.covered.entry(tid).or_insert(root);
        }
    }

    fn end(&mut self, tid: u32) {
        // Its events live on while a descendant has them.
        if let Some(root) = self.covered.remove(&tid) {
            if !self.covered.values().any(|r| *r == root) {
                self.roots.remove(&root);
            }
        }
    }

    fn change_period(&mut self, period_ns: u64, rings: &[(u32, Ring)]) {
        self.period_ns = period_ns;
        // The roots first: they are the requested tasks if there are too few places.
        let asked: Vec<u32> = self.roots.values().map(|r| r.tid).filter(|t| self.covers(*t)).collect();
        let others = self.covered.keys().copied().filter(|t| !asked.contains(t));
        let tasks: Vec<u32> = asked.iter().copied().chain(others).collect();
        self.roots.clear();
        self.covered.clear();
        for tid in tasks {
            if self.roots.len() < self.roots_max {
                // A task that has ended or may not be watched comes up again when somebody requests it.
                let _ = self.attach(tid, rings);
            }
        }
    }
}
