//! Which CPUs a program's tasks may use, how long others were busy there, and on how many CPUs the tasks were.
//!
//! A co-runner on a CPU that no task of the program may use takes nothing from it, and a task queues only for CPUs that it may use. So tasks
//! fall into **groups**. Two tasks are in one group if one may use a CPU that the other may use, too, or if both share CPUs with a third. The
//! CPUs of one group do not matter to the others.
//!
//! The CPUs that tasks may use change while they run: CPUs come and go, and affinities, cpusets and quotas are changed. If a change came from
//! outside, the program alone would have got further by then. If the program made it itself, it would have been as far. Sums do not tell
//! which. So bounds of a loss use the most CPUs that there ever were at once, and leave out work that may have been done before a limit became
//! tighter ([`Reach::ahead_ns`]).
//!
//! If a host does not say what a task may use, the task may use what the program's other tasks may. If it says so for none, that is the whole
//! machine.

use crate::counted::Counted;
use corun_model::limits::TaskLimits;
use corun_model::observation::TaskObservation;
use corun_model::worker::is_worker;
use corun_model::{Observation, TaskId, TenantId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// CPUs, with the kernel's numbers.
pub type Set = BTreeSet<u32>;

/// Limit: most sets that are kept apart. If tasks are confined in more ways, the rest may use the CPUs of all.
const MOST_SETS: usize = 64;
/// Limit: most CPU sets whose unions are all looked at. If there are more, each by itself and all together.
const MOST_UNITED: usize = 6;

/// Limit: a smaller share of a sum is rounding.
const ROUNDING: f64 = 1e-9;

/// The CPUs that a window's tasks may use. Sums over windows add up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// For each CPU, how long it was switched on and how long it was busy with anybody. Empty: the host does not tell.
    pub cpus: BTreeMap<u32, CpuSpent>,
    /// The CPU sets of tasks.
    pub sets: Vec<Set>,
    /// For each task, as far as it is known: its place in `sets`.
    pub set_of: BTreeMap<TaskId, u32>,
    /// For each task, as far as it is known: its process.
    pub process_of: BTreeMap<TaskId, TaskId>,
    /// How long processes computed, for each set of CPUs that any of their threads may use; in the order of sets.
    pub work: BTreeMap<u32, f64>,
    /// Wall time that the CPU quota needs for the CPU time used while there was one, in nanoseconds.
    pub quota_ns: f64,
    /// The quota's period; 0: there was none.
    pub period_ns: f64,
    /// The last quota, in CPUs; 0: there was none.
    #[serde(default)]
    pub quota_cpus: f64,
    /// CPU time that alone may have been used before affinities became narrower, and so outside of them.
    #[serde(default)]
    pub ahead_ns: f64,
    /// Whether a limit became tighter while it ran.
    #[serde(default)]
    pub tightened: bool,
}

/// The times of a CPU, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSpent {
    /// Switched on.
    pub on_ns: f64,
    /// Busy with anybody.
    pub busy_ns: f64,
    /// The largest part of a window for which it was switched on, 0..=1.
    #[serde(default)]
    pub most_on: f64,
}

/// Tasks that may use CPUs together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Their CPUs; empty: not known, any of the machine's.
    pub cpus: Set,
    /// The places of the sets in it.
    sets: BTreeSet<u32>,
}

impl Group {
    /// Whether tasks with this set belong to it.
    pub(crate) fn has(&self, set: u32) -> bool {
        self.sets.contains(&set)
    }
}

impl Reach {
    /// The reach of a subject in a window.
    pub fn of(seen: &Observation, subject: TenantId) -> Reach {
        let mut reach = Reach::default();
        let window_ns = seen.window_ns() as f64;
        for c in &seen.cpus {
            // A CPU that was switched on for a part of the window counts as on: not all hosts tell for how long.
            let most_on = if c.idle_ns + c.busy_ns > 0 { 1.0 } else { 0.0 };
            let spent = CpuSpent { on_ns: most_on * window_ns, busy_ns: c.busy_ns as f64, most_on };
            reach.cpus.insert(c.cpu.0, spent);
        }
        let mut by_process: BTreeMap<TaskId, (Option<Set>, f64)> = BTreeMap::new();
        for task in seen.tasks.iter().filter(|t| t.tenant == subject) {
            let Some(TaskLimits { process, cpus, .. }) = seen.limits.of_task(task.id) else { continue };
            reach.process_of.insert(task.id, *process);
            let set: Option<Set> = cpus.as_ref().map(|cpus| cpus.iter().map(|c| c.0).collect());
            if let Some(set) = &set {
                let at = reach.place_of(set);
                reach.set_of.insert(task.id, at);
            }
            let compute_ns = task.account.ledger.parts().compute_ns as f64;
            let known = by_process.entry(*process).or_insert_with(|| (Some(Set::new()), 0.0));
            known.1 += compute_ns;
            match (&mut known.0, set) {
                (Some(all), Some(set)) => all.extend(set),
                (all, _) => *all = None,
            }
        }
        for (set, compute_ns) in by_process.into_values() {
            if let Some(set) = set {
                let at = reach.place_of(&set);
                *reach.work.entry(at).or_default() += compute_ns;
            }
        }
        if let Some(quota) = seen.limits.quota(subject).filter(|q| q.cpus > 0.0) {
            let own = seen.by_tenant.iter().find(|t| t.id == subject);
            let used_ns = own.map_or(0, |t| t.account.ledger.on_cpu_ns()) as f64;
            reach.quota_ns = used_ns / quota.cpus;
            reach.period_ns = quota.period_ns as f64;
            reach.quota_cpus = quota.cpus;
        }
        reach
    }

    fn place_of(&mut self, set: &Set) -> u32 {
        if let Some(at) = self.sets.iter().position(|known| known == set) {
            return at as u32;
        }
        if self.sets.len() < MOST_SETS {
            self.sets.push(set.clone());
        } else if let Some(last) = self.sets.last_mut() {
            last.extend(set);
        }
        self.sets.len() as u32 - 1
    }

    /// Whether the next window confines a task or the subject to less than before.
    pub fn is_tightened_by(&self, next: &Reach) -> bool {
        self.narrows(next) || self.limits(next) || self.loses_a_cpu(next)
    }

    fn loses_a_cpu(&self, next: &Reach) -> bool {
        let mut was_on = self.cpus.iter().filter(|(_, c)| c.on_ns > 0.0);
        was_on.any(|(cpu, _)| next.cpus.get(cpu).is_some_and(|c| c.on_ns <= 0.0))
    }

    /// Whether a task may not use a CPU any more.
    fn narrows(&self, next: &Reach) -> bool {
        let is_one = self.sets.len() == 1 && self.sets == next.sets;
        let set = |reach: &Reach, task: &TaskId| {
            let at = reach.set_of.get(task)?;
            reach.sets.get(*at as usize).cloned()
        };
        let is_narrower = |task: &TaskId| {
            set(self, task).zip(set(next, task)).is_some_and(|(before, now)| !now.is_superset(&before))
        };
        !is_one && next.set_of.keys().any(is_narrower)
    }

    /// Whether its quota is tighter.
    fn limits(&self, next: &Reach) -> bool {
        next.quota_cpus > 0.0 && (self.quota_cpus <= 0.0 || next.quota_cpus < self.quota_cpus)
    }

    /// Adds the next window of the same subject. `ahead_ns`: CPU time by which it may have been ahead by now, alone.
    pub fn add(&mut self, o: &Reach, ahead_ns: f64) {
        self.tightened |= o.tightened || self.is_tightened_by(o);
        self.ahead_ns += o.ahead_ns + if self.narrows(o) { ahead_ns } else { 0.0 };
        if self.limits(o) {
            self.quota_ns -= ahead_ns / o.quota_cpus;
        }
        if o.quota_cpus != self.quota_cpus {
            // It is filled up when it is changed.
            self.quota_ns -= if self.quota_cpus > 0.0 { o.period_ns } else { 0.0 };
            self.quota_cpus = o.quota_cpus;
        }
        for (cpu, spent) in &o.cpus {
            let sum = self.cpus.entry(*cpu).or_default();
            sum.on_ns += spent.on_ns;
            sum.busy_ns += spent.busy_ns;
            sum.most_on = sum.most_on.max(spent.most_on);
        }
        let places: Vec<u32> = o.sets.iter().map(|set| self.place_of(set)).collect();
        self.set_of.extend(o.set_of.iter().map(|(task, at)| (*task, places[*at as usize])));
        self.process_of.extend(&o.process_of);
        for (at, compute_ns) in &o.work {
            *self.work.entry(places[*at as usize]).or_default() += compute_ns;
        }
        self.quota_ns += o.quota_ns;
        self.period_ns = self.period_ns.max(o.period_ns);
    }

    /// Forgets tasks that nobody lists any more.
    pub fn keep_only(&mut self, is_listed: impl Fn(&TaskId) -> bool) {
        self.set_of.retain(|task, _| is_listed(task));
        self.process_of.retain(|task, _| is_listed(task));
    }

    /// Which tasks may use which CPUs together. There is at least one group. Tasks with unknown sets belong to the first.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (at, set) in self.sets.iter().enumerate() {
            let mut joined = Group { cpus: set.clone(), sets: [at as u32].into() };
            groups.retain(|group| {
                let is_apart = group.cpus.is_disjoint(&joined.cpus);
                if !is_apart {
                    joined.cpus.extend(&group.cpus);
                    joined.sets.extend(&group.sets);
                }
                is_apart
            });
            groups.push(joined);
        }
        if groups.is_empty() {
            groups.push(Group::default());
        }
        groups
    }

    /// The group that a task is in; `None`: a task that is not listed.
    pub fn group_of(&self, groups: &[Group], task: Option<TaskId>) -> usize {
        let set = task.and_then(|task| self.set_of.get(&task));
        set.and_then(|at| groups.iter().position(|g| g.has(*at))).unwrap_or(0)
    }

    /// How many of these CPUs of a machine were switched on, on average; an empty set is all of them. A CPU that the host does not list (a
    /// container may see fewer than it may use) counts as on.
    pub fn count(&self, set: &Set, wall_ns: f64, machine: usize) -> f64 {
        let wall_ns = wall_ns.max(1.0);
        match (set.is_empty(), self.cpus.is_empty()) {
            (true, true) => machine as f64,
            (true, false) => self.cpus.values().map(|c| c.on_ns).sum::<f64>() / wall_ns,
            (false, _) => {
                let on_ns = |n| self.cpus.get(n).map_or(wall_ns, |c: &CpuSpent| c.on_ns);
                set.iter().map(on_ns).sum::<f64>() / wall_ns
            }
        }
    }

    /// How many of these CPUs were switched on at once, at most; as [`Reach::count`].
    pub fn most(&self, set: &Set, wall_ns: f64, machine: usize) -> f64 {
        let on = |c: &CpuSpent| c.most_on.max(c.on_ns / wall_ns.max(1.0));
        match (set.is_empty(), self.cpus.is_empty()) {
            (true, true) => machine as f64,
            (true, false) => self.cpus.values().map(on).sum(),
            (false, _) => set.iter().map(|n| self.cpus.get(n).map_or(1.0, on)).sum(),
        }
    }

    /// How long others than the subject were busy on these CPUs at most, if the subject had them for `own_ns`; `None`: the host does not
    /// tell.
    pub fn others_ns(&self, set: &Set, own_ns: f64) -> Option<f64> {
        if set.is_empty() {
            return None;
        }
        let busy_ns: Option<f64> = set.iter().map(|n| Some(self.cpus.get(n)?.busy_ns)).sum();
        Some((busy_ns? - own_ns).max(0.0))
    }

    /// All CPUs that any task is known to be allowed; empty: it is known for no task.
    pub fn all(&self) -> Set {
        self.sets.iter().flatten().copied().collect()
    }

    /// The sets that work cannot leave: those of processes and their unions.
    pub fn unions(&self) -> Vec<Set> {
        let sets: Vec<&Set> = self.work.keys().map(|at| &self.sets[*at as usize]).collect();
        if sets.len() > MOST_UNITED {
            return sets.into_iter().cloned().chain([self.all()]).collect();
        }
        let united = |bits: u32| {
            let of = sets.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
            of.flat_map(|(_, set)| set.iter().copied()).collect()
        };
        (1..1u32 << sets.len()).map(united).collect()
    }

    /// How long processes computed that could not leave this set, alone either, in nanoseconds.
    pub fn work_within(&self, set: &Set) -> f64 {
        let within = self.work.iter().filter(|(at, _)| self.sets[**at as usize].is_subset(set));
        (within.map(|(_, ns)| ns).sum::<f64>() - self.ahead_ns).max(0.0)
    }

    /// Whether it is known for all computing on which CPUs it could have been.
    pub fn knows_work(&self, computed_ns: f64) -> bool {
        self.work.values().sum::<f64>() >= computed_ns * (1.0 - ROUNDING)
    }

    /// A task's process; `None`: not known.
    pub fn process(&self, task: Option<TaskId>) -> Option<TaskId> {
        self.process_of.get(&task?).copied()
    }
}

/// On how many CPUs the subject's workers last were, as an amount per time; nothing if that is not known.
pub(crate) fn placed(seen: &Observation, subject: TenantId) -> Counted {
    let own = || seen.tasks.iter().filter(|t| t.tenant == subject);
    let on_cpu_ns = |t: &TaskObservation| t.account.ledger.on_cpu_ns() as f64;
    let most = own().map(on_cpu_ns).fold(0.0, f64::max);
    let workers = own().filter(|t| t.alive && is_worker(on_cpu_ns(t), most));
    let cpus: Option<BTreeSet<_>> = workers.map(|t| t.last_cpu).collect();
    let wall_ns = seen.window_ns() as f64;
    let cpus = cpus.filter(|cpus| !cpus.is_empty()).map(|cpus| cpus.len() as f64 * wall_ns);
    Counted::of(cpus, wall_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::Account;
    use corun_model::{CpuId, Ledger, Parts};

    fn set(cpus: &[u32]) -> Set {
        cpus.iter().copied().collect()
    }

    fn reach(tasks: &[&[u32]]) -> Reach {
        let mut reach = Reach::default();
        for (i, cpus) in tasks.iter().enumerate() {
            let at = reach.place_of(&set(cpus));
            reach.set_of.insert(TaskId(i as u32), at);
            *reach.work.entry(at).or_default() += 10.0;
        }
        reach
    }

    #[test]
    fn tasks_whose_cpus_overlap_are_one_group_and_others_are_apart() {
        let apart = reach(&[&[0], &[1, 2], &[2, 3]]);
        let groups = apart.groups();
        let cpus: Vec<&Set> = groups.iter().map(|g| &g.cpus).collect();
        assert_eq!(cpus, [&set(&[0]), &set(&[1, 2, 3])]);
        assert_eq!([0, 1, 2].map(|t| apart.group_of(&groups, Some(TaskId(t)))), [0, 1, 1]);
        let bridged = reach(&[&[0], &[1, 2], &[0, 1]]);
        assert_eq!(bridged.groups().len(), 1);
        assert_eq!(Reach::default().groups(), [Group::default()]);
    }

    #[test]
    fn sums_keep_each_task_in_its_set() {
        let mut sum = reach(&[&[0]]);
        sum.add(&Reach { set_of: [(TaskId(7), 0)].into(), ..reach(&[&[1]]) }, 0.0);
        assert_eq!((sum.sets.len(), sum.set_of[&TaskId(7)]), (2, 1));
        assert_eq!((sum.work_within(&set(&[0])), sum.work_within(&set(&[0, 1]))), (10.0, 20.0));
        assert_eq!(sum.unions(), [set(&[0]), set(&[1]), set(&[0, 1])]);
    }

    #[test]
    fn what_may_have_been_done_before_a_limit_became_tighter_is_not_held_against_the_program() {
        let confined = |cpus: &[u32], quota_cpus| Reach { quota_cpus, quota_ns: 10.0, ..reach(&[cpus]) };
        let after = |before: &Reach, next: &Reach| {
            let mut sum = before.clone();
            sum.add(next, 4.0);
            (before.is_tightened_by(next), sum.ahead_ns, sum.quota_ns)
        };
        let (wide, narrow) = (confined(&[0, 1], 2.0), confined(&[0], 2.0));
        assert_eq!(after(&wide, &wide), (false, 0.0, 20.0));
        assert_eq!(after(&narrow, &wide), (false, 0.0, 20.0));
        assert_eq!(after(&wide, &narrow), (true, 4.0, 20.0));
        assert_eq!(after(&wide, &confined(&[0, 1], 0.5)), (true, 0.0, 12.0));
        assert_eq!(after(&wide, &confined(&[0, 1], 4.0)), (false, 0.0, 20.0));
    }

    #[test]
    fn a_cpu_that_is_off_is_none_and_what_others_had_is_what_the_subject_did_not() {
        let spent = |on_ns, busy_ns| CpuSpent { on_ns, busy_ns, most_on: 1.0 };
        let cpus = [(0, spent(100.0, 80.0)), (1, spent(25.0, 20.0))].into();
        let reach = Reach { cpus, ..Reach::default() };
        assert_eq!(reach.count(&set(&[0, 1]), 100.0, 2), 1.25);
        assert_eq!(reach.count(&set(&[]), 100.0, 2), 1.25);
        assert_eq!(reach.most(&set(&[0, 1]), 100.0, 2), 2.0, "there were two at once");
        assert_eq!(reach.others_ns(&set(&[0, 1]), 30.0), Some(70.0));
        assert_eq!(reach.others_ns(&set(&[]), 30.0), None);
        assert_eq!(reach.count(&set(&[0, 7]), 100.0, 2), 2.0, "one that is not shown is there");
        assert_eq!(reach.others_ns(&set(&[0, 7]), 30.0), None);
        assert_eq!(Reach::default().count(&set(&[]), 100.0, 2), 2.0);
    }

    #[test]
    fn the_cpus_of_workers_count_and_those_of_helpers_do_not() {
        let task = |id: u32, compute_ns: u64, cpu: Option<u32>| TaskObservation {
            id: TaskId(id),
            name: "t".into(),
            tenant: TenantId(u32::from(id > 8)),
            born_ns: 0,
            alive: id != 5,
            last_cpu: cpu.map(CpuId),
            account: Account {
                ledger: Ledger::new(Parts { compute_ns, ..Parts::default() }, compute_ns).unwrap(),
                ..Account::default()
            }
            .into(),
        };
        let seen = |tasks: &[TaskObservation]| {
            let seen = Observation { end_ns: 100, tasks: tasks.to_vec(), ..Observation::default() };
            placed(&seen, TenantId(0)).rate()
        };
        let (a, b, same) = (task(1, 50, Some(0)), task(2, 40, Some(1)), task(3, 40, Some(1)));
        let (helper, ended, other) = (task(4, 5, Some(2)), task(5, 50, Some(3)), task(9, 50, Some(4)));
        assert_eq!(seen(&[a.clone(), b, same, helper, ended, other]), Some(2.0));
        assert_eq!(seen(&[a, task(2, 40, None)]), None, "of one it is not known");
        assert_eq!(seen(&[]), None);
    }
}
