//! How much of a process's computing its other threads could have taken over, and did not.
//!
//! If threads take work from each other, each thread is on a CPU or wants one for as long as there is work.
//! So what was computed while one of the workers waited for something else was kept by its thread. The reason
//! may be a lock (that of a Python interpreter lets one thread compute at a time), or work that was assigned
//! in advance.
//!
//! Limit: a thread that sometimes waits for a device has something to do, but does not look like it.

use super::super::script::Script;
use super::{Process, Transcriber};
use corun_model::worker::is_worker;
use std::collections::BTreeMap;

/// Limit: if more threads than this are working, they count as this many.
const MOST: usize = 64;

/// What a process computed in a stretch, for each number of working tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Crew {
    computed_ns: Vec<u64>,
    most_lives: usize,
}

impl Crew {
    fn computes(&mut self, group: &Process, ns: u64) {
        let at_work = (group.ready + group.running).min(MOST);
        if self.computed_ns.len() <= at_work {
            self.computed_ns.resize(at_work + 1, 0);
        }
        self.computed_ns[at_work] += ns * group.running as u64;
        self.most_lives = self.most_lives.max(group.lives);
    }

    /// The share of it that no thread took over, for this many workers, 0..=1.
    fn kept(&self, workers: usize) -> f64 {
        let workers = workers.min(self.most_lives).min(MOST);
        let all: u64 = self.computed_ns.iter().sum();
        let kept: u64 = self.computed_ns.iter().take(workers).sum();
        if workers < 2 || all == 0 {
            1.0
        } else {
            kept as f64 / all as f64
        }
    }
}

impl Transcriber {
    /// Adds what a process computed since the last call.
    pub(super) fn computes(&mut self, process: u32, now_ns: u64) {
        let Some(group) = self.processes.get(&process).filter(|group| group.running > 0) else { return };
        let ns = now_ns.saturating_sub(group.since_ns);
        self.crews.entry(process).or_default().computes(group, ns);
    }

    /// Stores in each script how much of its process's computing was kept, and starts again.
    pub(super) fn tell_kept(&mut self, scripts: &mut [Script]) {
        let crews = std::mem::take(&mut self.crews);
        let mut did: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for script in scripts.iter() {
            did.entry(script.process).or_default().push((script.compute_ns() + script.wanted_ns) as f64);
        }
        let workers = |process: &u32| {
            let did = did.get(process).map_or(&[][..], Vec::as_slice);
            let most = did.iter().copied().fold(0.0, f64::max);
            did.iter().filter(|ns| is_worker(**ns, most)).count()
        };
        let kept: BTreeMap<u32, f64> =
            crews.iter().map(|(process, crew)| (*process, crew.kept(workers(process)))).collect();
        for script in scripts {
            script.kept = kept.get(&script.process).copied().unwrap_or(0.0);
        }
    }
}
