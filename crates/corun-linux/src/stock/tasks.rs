//! The knobs of single tasks: slice, wake-up preemption, CPUs, and nice in place of weights.
//!
//! Effect of a **slice**: `sched_setattr` accepts 0.1 to 100 ms. A running task only stops at the scheduler's
//! tick, so a run lasts for the slice rounded up to ticks. Of two tasks the shorter slice decides. A short
//! slice always gives an early turn after waking. A value is drawn from a range at every observation, once an
//! epoch, not at every switch: no kernel interface does that. **Delayed preemption** is SCHED_BATCH: such a
//! task never preempts when it wakes, but waits for its turn, whatever delay was requested. Turns end at the
//! tick, so it waits for half a tick on average, and possibly for several. A delay below an eighth of a tick
//! ([`least_delay_ns`]) counts as none, which is by far the nearer value. The shortest delay that people
//! request by hand (2 ms) is longer under every kernel.

use super::refusal::by_kernel;
use crate::cgroup::Cgroups;
use crate::cpulist;
use crate::root::Root;
use crate::sched::{self, Attributes, LEAST_SLICE_NS, MOST_SLICE_NS};
use crate::supervisor::journal::Entry;
use crate::supervisor::undo::{default_slice_ns, is_still, Aspect, Task, Undo};
use crate::supervisor::Supervised;
use corun_model::{CpuId, Refusal, TaskId};
use std::collections::BTreeMap;
use std::io;

/// A change of a task. It is identified by its undo data and, if children are recognized by it, by the value
/// that was set.
type Key = (u32, u64, &'static str, String);

/// A slice drawn from a range.
#[derive(Clone, Copy, Debug)]
struct Range {
    task: Task,
    min_ns: u64,
    max_ns: u64,
}

/// Shorter delays than this fraction of a tick count as none.
const PARTS_OF_A_TICK: u64 = 8;

/// The shortest delay that counts as one here, in nanoseconds.
pub(super) fn least_delay_ns() -> u64 {
    sched::tick_ns() / PARTS_OF_A_TICK
}

/// Every task that was changed.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    changes: BTreeMap<Key, (Entry, Aspect)>,
    ranges: BTreeMap<u32, Range>,
    draws: u64,
}

impl Tasks {
    pub(super) fn clear(&mut self) {
        self.changes.clear();
        self.ranges.clear();
    }

    /// The state of a task before corun first changed it, or its relative that it inherited from; `None` if
    /// its present state is its own.
    fn before(
        &self,
        root: &Root,
        supervised: &Supervised,
        task: &Task,
        kind: &'static str,
    ) -> Option<Aspect> {
        let from = (task.tid, task.start_ns, kind, String::new());
        let own = self.changes.range(from..).next();
        let own = own.filter(|(key, _)| (key.0, key.1, key.2) == (task.tid, task.start_ns, kind));
        own.map(|(_, (_, was))| was.clone()).or_else(|| supervised.inherited(root, task, kind))
    }

    /// Makes a change and remembers it; `set` identifies the values by which a child is recognized.
    fn change(
        &mut self,
        root: &Root,
        supervised: &mut Supervised,
        task: &Task,
        set: String,
        aspect: Aspect,
        make: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), Refusal> {
        let key = (task.tid, task.start_ns, aspect.name(), set);
        let known = self.changes.get(&key).map(|(entry, _)| *entry);
        let undo = Undo::Task(*task, aspect.clone());
        match supervised.change(root, known, &undo, make)? {
            Ok((entry, ())) => {
                self.changes.insert(key, (entry, aspect));
                Ok(())
            }
            Err(e) => Err(by_kernel(&format!("task {}", task.tid), &e)),
        }
    }

    /// Sets a slice, or draws one.
    pub(super) fn slice(
        &mut self,
        root: &Root,
        supervised: &mut Supervised,
        task: &Task,
        min_ns: u64,
        max_ns: u64,
    ) -> Result<(), Refusal> {
        if min_ns > max_ns || min_ns < LEAST_SLICE_NS || max_ns > MOST_SLICE_NS {
            let bounds_ns = Some((LEAST_SLICE_NS, MOST_SLICE_NS));
            return Err(Refusal::Slice { min_ns, max_ns, bounds_ns });
        }
        let now = fair(task)?;
        if now.slice_ns == 0 {
            return Err(Refusal::NoSlices);
        }
        let own_ns = if now.slice_ns == default_slice_ns() { 0 } else { now.slice_ns };
        let was = self.before(root, supervised, task, "slice").unwrap_or(Aspect::Slice { was_ns: own_ns });
        self.draws += 1;
        let slice_ns = draw(min_ns, max_ns, task.tid, self.draws);
        let make = || sched::set_attributes(task.tid, &Attributes { slice_ns, ..now });
        self.change(root, supervised, task, String::new(), was, make)?;
        match min_ns == max_ns {
            true => self.ranges.remove(&task.tid),
            false => self.ranges.insert(task.tid, Range { task: *task, min_ns, max_ns }),
        };
        Ok(())
    }

    /// Forgets tasks that have ended. Only tasks that were not observed are checked: `is_seen` says which
    /// were.
    pub(super) fn forget_ended(
        &mut self,
        root: &Root,
        supervised: &mut Supervised,
        is_seen: impl Fn(u32) -> bool,
    ) {
        self.changes.retain(|(tid, start_ns, ..), (entry, _)| {
            let task = Task { tid: *tid, start_ns: *start_ns, pid: *tid, pgid: 0 };
            is_seen(*tid) || is_still(root, &task).unwrap_or(true) || supervised.undone(*entry).is_err()
        });
    }

    /// Whether any task was changed and is still remembered.
    pub(super) fn any_changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Whether slices are drawn again.
    pub(super) fn any_drawn(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Draws a new slice for every task with a range. Tasks that have gone are forgotten, and tasks that now
    /// have their numbers are left alone. Their lines in the journal are in force; the caller makes sure
    /// before and after that the supervisor watches.
    pub(super) fn redraw(&mut self, root: &Root) {
        let draws = &mut self.draws;
        self.ranges.retain(|_, r| {
            *draws += 1;
            let slice_ns = draw(r.min_ns, r.max_ns, r.task.tid, *draws);
            let set = |now| sched::set_attributes(r.task.tid, &Attributes { slice_ns, ..now }).is_ok();
            is_still(root, &r.task).unwrap_or(false) && fair(&r.task).is_ok_and(set)
        });
    }

    /// Makes a task wait for its turn when it wakes (SCHED_BATCH), or lets it preempt again if waiting would
    /// be far longer than the delay.
    pub(super) fn preempt_delay(
        &mut self,
        root: &Root,
        supervised: &mut Supervised,
        task: &Task,
        delay_ns: u64,
    ) -> Result<(), Refusal> {
        let was = self.before(root, supervised, task, "batch");
        if delay_ns < least_delay_ns() {
            let Some(was) = was else { return Ok(()) };
            fair(task)?;
            was.restore(task.tid).map_err(|e| by_kernel(&format!("task {}", task.tid), &e))?;
            let key = (task.tid, task.start_ns, was.name(), String::new());
            if let Some((entry, _)) = self.changes.get(&key) {
                supervised.undone(*entry).map_err(|e| by_kernel("the journal", &e))?;
                self.changes.remove(&key);
            }
            return Ok(());
        }
        let now = fair(task)?;
        let batch = libc::SCHED_BATCH as u32;
        if now.policy == libc::SCHED_IDLE as u32 {
            return Err(Refusal::IdleClass(TaskId(task.tid)));
        }
        if now.policy == batch && was.is_none() {
            // The task chose this itself; nothing to change and nothing to undo.
            return Ok(());
        }
        let slice_ns = if now.slice_ns == default_slice_ns() { 0 } else { now.slice_ns };
        let was = was.unwrap_or(Aspect::Batch { was: now.policy });
        let make = || sched::set_attributes(task.tid, &Attributes { policy: batch, slice_ns, ..now });
        self.change(root, supervised, task, String::new(), was, make)
    }

    /// Confines a task to some CPUs.
    pub(super) fn cpus(
        &mut self,
        root: &Root,
        supervised: &mut Supervised,
        task: &Task,
        cpus: &[CpuId],
        online: &[CpuId],
    ) -> Result<(), Refusal> {
        let mut cpus = cpus.to_vec();
        cpus.sort();
        cpus.dedup();
        let list = cpulist::format(&cpus);
        if let Some(absent) = cpus.iter().find(|c| !online.contains(c)) {
            return Err(Refusal::CpuNotThere { cpu: *absent, online: online.to_vec() });
        }
        let whom = format!("task {}", task.tid);
        let now = sched::affinity(task.tid).map_err(|e| by_kernel(&whom, &e))?;
        let was = match self.before(root, supervised, task, "cpus") {
            Some(Aspect::Cpus { was, .. }) => was,
            // The CPUs that its cgroup allows are not its own choice either: it must get CPUs that the cgroup
            // is given later.
            _ => (now != online
                && Cgroups::discover(root).ok().and_then(|c| c.cpus_of(task.tid)).as_ref() != Some(&now))
            .then_some(now),
        };
        let aspect = Aspect::Cpus { was, set: cpus.clone() };
        let make = || sched::set_affinity(task.tid, Some(&cpus));
        self.change(root, supervised, task, list, aspect, make)
    }

    /// Sets a task's nice value to `by` more than before corun first changed it; returns whether it did.
    pub(super) fn nice(
        &mut self,
        root: &Root,
        supervised: &mut Supervised,
        task: &Task,
        by: i32,
    ) -> Result<bool, Refusal> {
        let Ok(now) = fair(task) else { return Ok(false) };
        let was = match self.before(root, supervised, task, "nice") {
            Some(Aspect::Nice { was, .. }) => was,
            _ => now.nice,
        };
        let set = (was + by).clamp(-20, 19);
        let slice_ns = if now.slice_ns == default_slice_ns() { 0 } else { now.slice_ns };
        let make = || sched::set_attributes(task.tid, &Attributes { nice: set, slice_ns, ..now });
        let aspect = Aspect::Nice { was, set };
        self.change(root, supervised, task, set.to_string(), aspect, make).map(|()| true)
    }
}

/// The attributes of a task of the fair scheduler.
fn fair(task: &Task) -> Result<Attributes, Refusal> {
    let now = sched::attributes(task.tid).map_err(|e| by_kernel(&format!("task {}", task.tid), &e))?;
    if now.is_fair() {
        Ok(now)
    } else {
        Err(Refusal::RealTime(TaskId(task.tid)))
    }
}

/// A length between two bounds, both included, that depends only on its arguments (SplitMix64).
fn draw(min_ns: u64, max_ns: u64, tid: u32, count: u64) -> u64 {
    let mut z = (u64::from(tid) << 32 ^ count).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    min_ns + (z ^ z >> 31) % (max_ns - min_ns + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_spread_evenly_between_their_bounds() {
        let (min, max) = (10_000_000, 30_000_000);
        let drawn: Vec<u64> = (0..10_000).map(|n| draw(min, max, 7, n)).collect();
        assert!(drawn.iter().all(|d| (min..=max).contains(d)));
        let mean = drawn.iter().sum::<u64>() / 10_000;
        // The mean of 10,000 uniform draws has a standard deviation of 58 µs: 20 ms ± 0.4 ms is seven of them.
        assert!(mean.abs_diff(20_000_000) < 400_000, "{mean}");
        assert_eq!(draw(5, 5, 1, 1), 5);
    }

    #[test]
    fn a_task_that_reuses_the_number_of_one_with_a_range_keeps_its_slice() {
        let pid = std::process::id();
        let task = Task { tid: pid, start_ns: 1, pid, pgid: 0 };
        let mut tasks = Tasks::default();
        tasks.ranges.insert(pid, Range { task, min_ns: 3_000_000, max_ns: 3_000_000 });
        let before = sched::attributes(pid).unwrap();
        tasks.redraw(&Root::new("/"));
        assert!(!tasks.any_drawn());
        assert_eq!(sched::attributes(pid).unwrap(), before);
    }
}
