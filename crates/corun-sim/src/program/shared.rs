//! The shared state of a program's threads: the work that no thread has taken yet, and the decisions of barriers.

use super::time_warp::TimeWarp;
use corun_model::workload::Parallel;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

/// The shared state of one program's threads while it runs.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// For each phase: the next grain or item to take.
    pub taken: Vec<u64>,
    /// Work stealing, per phase: the grains left in each thread's own queue; empty before the phase's first step.
    pub own: Vec<Vec<Range<u64>>>,
    /// The time of the current phase is up.
    pub cut: bool,
    /// For each barrier, whether the last to arrive decided that this was the last round.
    pub(super) over: Vec<bool>,
    /// Iterations done.
    pub iterations: u64,
    /// A running simulation; `None` before its first step.
    pub time_warp: Option<Box<TimeWarp>>,
    /// Threads of a recorded program that have ended.
    pub(super) ended: BTreeSet<usize>,
    /// When and where a thread takes its next step.
    pub here: Here,
}

/// When and where a thread takes a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Here {
    /// The time.
    pub now_ns: u64,
    /// The last-level cache of its CPU.
    pub cache: u32,
}

impl Shared {
    /// The state before a program with this many phases begins.
    pub fn new(phases: usize) -> Shared {
        Shared { taken: vec![0; phases], ..Shared::default() }
    }

    /// A phase begins or repeats: nothing is taken, nothing is over.
    pub fn begin_phase(&mut self, phase: usize) {
        self.taken[phase] = 0;
        if let Some(own) = self.own.get_mut(phase) {
            own.clear();
        }
        self.cut = false;
        self.over.clear();
        self.time_warp = None;
    }

    /// The last thread has arrived at a barrier.
    pub fn opened(&mut self, barrier: usize) {
        if self.cut {
            self.over.resize(self.over.len().max(barrier + 1), false);
            self.over[barrier] = true;
        }
    }

    /// Whether the last round at this barrier was the last of all.
    pub(super) fn is_over(&self, barrier: usize) -> bool {
        self.over.get(barrier) == Some(&true)
    }

    /// The next grain for a thread that steals, and whether it is its own: the first of its own, or otherwise
    /// the last of the fullest queue.
    pub(super) fn steal(&mut self, phase: usize, p: &Parallel, thread: usize) -> Option<(u64, bool)> {
        if self.own.len() <= phase {
            self.own.resize(phase + 1, Vec::new());
        }
        let own = &mut self.own[phase];
        if own.is_empty() {
            own.extend((0..p.threads).map(|t| p.own_grains(t)));
        }
        let mine = own[thread].next();
        mine.map(|grain| (grain, true)).or_else(|| {
            let left = |r: &Range<u64>| r.end - r.start;
            let fullest = own.iter_mut().enumerate().max_by_key(|(i, r)| (left(r), Reverse(*i)))?;
            Some((fullest.1.next_back()?, false))
        })
    }
}
