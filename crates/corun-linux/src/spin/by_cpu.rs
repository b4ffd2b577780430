//! Sampling by the clocks of CPUs: whichever task runs is interrupted, and samples of other tasks are
//! dropped.
//!
//! Nothing happens at a switch, however many there are, and only one descriptor per CPU is needed. It needs
//! the right to sample whole CPUs (root, CAP_PERFMON or kernel.perf_event_paranoid of 0 or less).
//!
//! Limits: on a machine with many CPUs most samples may be those of other tasks. A sampler with a fixed cost
//! then samples less often.

use super::event::{Event, Ring, Whom};
use super::followed::{Attached, Followed};
use std::collections::BTreeSet;
use std::io;

/// All CPUs' clocks, and the requested tasks with their children.
pub struct ByCpu {
    clocks: Vec<Event>,
    tasks: BTreeSet<u32>,
}

impl ByCpu {
    /// Samples every CPU that has a ring; no task is requested yet.
    ///
    /// # Errors
    /// The kernel's error, `EACCES` if whole CPUs may not be sampled.
    pub fn start(period_ns: u64, rings: &[(u32, Ring)]) -> io::Result<ByCpu> {
        let clock = |(cpu, ring): &(u32, Ring)| Event::sampling(Whom::AnyTask, *cpu, period_ns, true, ring);
        Ok(ByCpu { clocks: rings.iter().map(clock).collect::<io::Result<_>>()?, tasks: BTreeSet::new() })
    }
}

impl Followed for ByCpu {
    fn covers(&self, tid: u32) -> bool {
        self.tasks.contains(&tid)
    }

    fn follow(&mut self, tasks: &BTreeSet<u32>, _: &[(u32, Ring)], lives: &dyn Fn(u32) -> bool) -> Attached {
        self.tasks.retain(|tid| tasks.contains(tid) || lives(*tid));
        self.tasks.extend(tasks);
        Attached { sampled: self.tasks.len(), ..Attached::default() }
    }

    fn born(&mut self, parent: u32, tid: u32) {
        if self.tasks.contains(&parent) {
            self.tasks.insert(tid);
        }
    }

    fn end(&mut self, tid: u32) {
        self.tasks.remove(&tid);
    }

    fn change_period(&mut self, period_ns: u64, _: &[(u32, Ring)]) {
        for clock in &self.clocks {
            // A clock that cannot be changed goes on as before.
            let _ = clock.change_period(period_ns);
        }
    }

    fn may_be_denser(&self) -> bool {
        true
    }
}
