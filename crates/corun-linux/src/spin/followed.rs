//! Which tasks are sampled: those asked for, and whatever they start.
//!
//! A task is attached to with one event per CPU; its threads and children inherit them in the kernel without another
//! descriptor. Records of births say who is covered that way, so that nobody is attached to twice. When there are more
//! tasks than descriptors, those attached longest give way to those that were not sampled yet, call by call.

use super::event::{Event, Ring};
use std::collections::BTreeMap;
use std::io;

/// One task that was attached to, with the events that its descendants share.
struct Root {
    tid: u32,
    _events: Vec<Event>,
}

/// All that is sampled.
pub struct Followed {
    roots: BTreeMap<u64, Root>,
    /// By task: the root whose events it has.
    covered: BTreeMap<u32, u64>,
    next: u64,
    roots_max: usize,
    period_ns: u64,
    with_kernel: bool,
}

/// What came of attaching.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// Tasks that are sampled now, descendants included.
    pub sampled: usize,
    /// Tasks that the kernel does not let be watched.
    pub forbidden: usize,
    /// Tasks that have to wait for their turn.
    pub waiting: usize,
}

impl Followed {
    /// Nobody yet; `descriptors` may be used.
    pub fn new(descriptors: usize, cpus: usize, period_ns: u64, with_kernel: bool) -> Followed {
        let roots_max = (descriptors / cpus.max(1)).max(1);
        Followed {
            roots: BTreeMap::new(),
            covered: BTreeMap::new(),
            next: 0,
            roots_max,
            period_ns,
            with_kernel,
        }
    }

    /// Whether a task is sampled.
    pub fn covers(&self, tid: u32) -> bool {
        self.covered.contains_key(&tid)
    }

    /// Attaches to those of `tasks` that are not covered. `lives` says of a task that is not among them whether it is
    /// still there.
    pub fn follow(
        &mut self,
        tasks: &[u32],
        rings: &mut [(u32, Ring)],
        lives: impl Fn(u32) -> bool,
    ) -> Attached {
        let gone: Vec<u32> =
            self.covered.keys().copied().filter(|t| !tasks.contains(t) && !lives(*t)).collect();
        for tid in gone {
            self.end(tid);
        }
        let mut result = Attached::default();
        let fresh: Vec<u32> = tasks.iter().copied().filter(|t| !self.covers(*t)).collect();
        // Half of the places at most change hands in one call, so that everybody is sampled for a while.
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

    fn attach(&mut self, tid: u32, rings: &mut [(u32, Ring)]) -> io::Result<()> {
        let open = |(cpu, ring): &mut (u32, Ring)| {
            Event::sampling(tid, *cpu, self.period_ns, self.with_kernel, ring)
        };
        let events = rings.iter_mut().map(open).collect::<io::Result<Vec<Event>>>()?;
        self.roots.insert(self.next, Root { tid, _events: events });
        self.covered.insert(tid, self.next);
        self.next += 1;
        Ok(())
    }

    /// A task that has events started another, which has them too. The record of its own birth may lie in another ring
    /// and be read later: its root is then taken to be the latest.
    pub fn born(&mut self, parent: u32, tid: u32) {
        let root = self.covered.get(&parent).or_else(|| self.roots.keys().next_back());
        if let Some(&root) = root {
            self.covered.entry(tid).or_insert(root);
        }
    }

    /// A task ended. Its events live on while a descendant has them.
    pub fn end(&mut self, tid: u32) {
        if let Some(root) = self.covered.remove(&tid) {
            if !self.covered.values().any(|r| *r == root) {
                self.roots.remove(&root);
            }
        }
    }

    /// Samples a task no longer, nor those who have their events from the same root: they may be attached to anew.
    pub fn give_up(&mut self, tid: u32) {
        if let Some(&root) = self.covered.get(&tid) {
            self.leave(root);
        }
    }

    fn leave(&mut self, root: u64) {
        self.roots.remove(&root);
        self.covered.retain(|_, r| *r != root);
    }

    /// Samples everybody with another period from now on.
    pub fn change_period(&mut self, period_ns: u64, rings: &mut [(u32, Ring)]) {
        self.period_ns = period_ns;
        // The roots first: should there be too few places, they are who was asked for.
        let asked: Vec<u32> = self.roots.values().map(|r| r.tid).filter(|t| self.covers(*t)).collect();
        let others = self.covered.keys().copied().filter(|t| !asked.contains(t));
        let tasks: Vec<u32> = asked.iter().copied().chain(others).collect();
        self.roots.clear();
        self.covered.clear();
        for tid in tasks {
            if self.roots.len() < self.roots_max && self.attach(tid, rings).is_err() {
                continue;
            }
        }
    }
}
