//! Whether the tasks of several tenants can all be on a CPU at once.
//!
//! A task takes any CPU, or one of those in its affinity and cpuset. As many tasks as possible get a CPU each: a maximum matching of
//! tasks and CPUs. A tenant **fits** with others if the matching grows by all of its tasks; then it takes no CPU from others. By Hall's
//! theorem each task has a CPU exactly if no set of tasks has fewer CPUs than tasks.
//!
//! Method: augmenting paths (Kuhn 1955), one task at a time. The sets of tasks that can have a CPU at once form a matroid. So a task
//! that finds no CPU when it comes would not find one later. Tasks that may run anywhere take what is left.

use corun_model::limits::CpuSet;
use corun_model::{CpuId, TenantId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The CPUs of confined tasks, by tenant. A tenant that is not in it is not known to be confined.
pub type Confined = BTreeMap<TenantId, Vec<Arc<CpuSet>>>;

/// A machine on which some CPUs are taken.
#[derive(Clone, Debug)]
pub struct Seats<'a> {
    cpus: u64,
    confined: &'a Confined,
    /// The CPU sets of seated tasks, with their CPUs.
    sets: Vec<&'a CpuSet>,
    on: BTreeMap<CpuId, usize>,
    /// Number of seated tasks that may run anywhere.
    free: u64,
}

impl<'a> Seats<'a> {
    /// A machine with this many CPUs, and the confined tasks.
    pub fn new(cpus: u64, confined: &'a Confined) -> Seats<'a> {
        Seats { cpus, confined, sets: Vec::new(), on: BTreeMap::new(), free: 0 }
    }

    /// Seats a tenant's tasks as far as there are CPUs. Returns whether each found a CPU.
    pub fn seat(&mut self, id: TenantId, tasks: u64) -> bool {
        let confined = self.confined.get(&id).map_or(&[][..], Vec::as_slice);
        let confined = &confined[..confined.len().min(tasks as usize)];
        let before = self.taken();
        self.free += tasks - confined.len() as u64;
        for set in confined {
            if set.len() as u64 >= self.cpus {
                self.free += 1;
                continue;
            }
            self.sets.push(set);
            if !self.place(self.sets.len() - 1, &mut BTreeSet::new()) {
                self.sets.pop();
            }
        }
        self.taken() - before == tasks
    }

    /// The same, but seats no task unless each finds a CPU.
    pub fn seat_all(&mut self, id: TenantId, tasks: u64) -> bool {
        let mut with = self.clone();
        let fits = with.seat(id, tasks);
        if fits {
            *self = with;
        }
        fits
    }

    /// Number of CPUs that are taken.
    fn taken(&self) -> u64 {
        (self.on.len() as u64 + self.free).min(self.cpus)
    }

    /// Gives a task a CPU. A task that holds it takes another one, if possible.
    fn place(&mut self, task: usize, asked: &mut BTreeSet<CpuId>) -> bool {
        for cpu in self.sets[task] {
            if asked.insert(*cpu) && self.on.get(cpu).copied().is_none_or(|other| self.place(other, asked)) {
                self.on.insert(*cpu, task);
                return true;
            }
        }
        false
    }
}

/// Tenants that can disturb each other, and their CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The tenants.
    pub members: BTreeSet<TenantId>,
    /// The number of their CPUs.
    pub cpus: u64,
}

/// Groups these tenants, given with their numbers of tasks. Two are in one group if tasks of both may use the same CPU, or both are in
/// a group with a third.
pub fn groups(cpus: u64, confined: &Confined, tenants: impl Iterator<Item = (TenantId, u64)>) -> Vec<Group> {
    let mut found: Vec<(BTreeSet<TenantId>, Option<CpuSet>)> = Vec::new();
    for (id, tasks) in tenants {
        let sets = confined.get(&id).map_or(&[][..], Vec::as_slice);
        let is_free = (sets.len() as u64) < tasks || sets.iter().any(|set| set.len() as u64 >= cpus);
        // `None` means all CPUs.
        let mut may_use =
            (!is_free).then(|| sets.iter().flat_map(|set| set.iter().copied()).collect::<CpuSet>());
        let mut members = BTreeSet::from([id]);
        found.retain(|(others, theirs)| {
            let is_apart =
                may_use.as_ref().zip(theirs.as_ref()).is_some_and(|(own, theirs)| own.is_disjoint(theirs));
            if !is_apart {
                members.extend(others);
                may_use = may_use.take().zip(theirs.as_ref()).map(|(own, theirs)| &own | theirs);
            }
            is_apart
        });
        found.push((members, may_use));
    }
    let group = |(members, may_use): (_, Option<CpuSet>)| Group {
        members,
        cpus: may_use.map_or(cpus, |set| set.len() as u64).min(cpus),
    };
    found.into_iter().map(group).collect()
}

/// Whether some of these tenants, given with their numbers of tasks, take CPUs from others.
pub fn compete(cpus: u64, confined: &Confined, tenants: impl Iterator<Item = (TenantId, u64)>) -> bool {
    let mut all = Seats::new(cpus, confined);
    let mut by_itself = 0;
    for (id, tasks) in tenants {
        let mut own = Seats::new(cpus, confined);
        own.seat(id, tasks);
        by_itself += own.taken();
        all.seat(id, tasks);
    }
    all.taken() < by_itself
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The CPUs of each task, as bits; 0 means that it may run anywhere.
    type Tasks = Vec<u32>;

    fn confined(tenants: &[Tasks]) -> Confined {
        let set = |bits: &u32| Arc::new((0..32).filter(|n| bits >> n & 1 == 1).map(CpuId).collect());
        let of = |tasks: &Tasks| tasks.iter().filter(|bits| **bits != 0).map(set).collect();
        tenants.iter().enumerate().map(|(i, tasks)| (TenantId(i as u32), of(tasks))).collect()
    }

    /// How many tasks can be on a CPU at once, by trying everything.
    fn most_at_once(cpus: u32, tasks: &[u32], taken: u32) -> u64 {
        let Some((first, rest)) = tasks.split_first() else { return 0 };
        let may_use = if *first == 0 { (1 << cpus) - 1 } else { *first };
        let with = (0..cpus).filter(|n| may_use >> n & 1 == 1 && taken >> n & 1 == 0);
        let with = with.map(|n| 1 + most_at_once(cpus, rest, taken | 1 << n)).max();
        with.unwrap_or(0).max(most_at_once(cpus, rest, taken))
    }

    fn machine() -> impl Strategy<Value = (u32, Vec<Tasks>)> {
        (1u32..5).prop_flat_map(|cpus| {
            let task = prop_oneof![1 => Just(0), 3 => 1u32..1 << cpus];
            (Just(cpus), proptest::collection::vec(proptest::collection::vec(task, 0..4), 1..4))
        })
    }

    proptest! {
        #[test]
        fn fits_and_competes_agree_with_trying_everything((cpus, tenants) in machine()) {
            let confined = confined(&tenants);
            let all: Vec<(TenantId, u64)> =
                tenants.iter().enumerate().map(|(i, tasks)| (TenantId(i as u32), tasks.len() as u64)).collect();
            let mut seats = Seats::new(u64::from(cpus), &confined);
            let mut seated = Vec::new();
            for ((id, count), tasks) in all.iter().zip(&tenants) {
                let before = most_at_once(cpus, &seated, 0);
                let with: Vec<u32> = seated.iter().chain(tasks).copied().collect();
                let fits = most_at_once(cpus, &with, 0) - before == *count;
                prop_assert_eq!(seats.clone().seat(*id, *count), fits);
                prop_assert_eq!(seats.seat_all(*id, *count), fits);
                if fits {
                    seated = with;
                }
                prop_assert_eq!(seats.taken(), most_at_once(cpus, &seated, 0));
            }
            let alone: u64 = tenants.iter().map(|tasks| most_at_once(cpus, tasks, 0)).sum();
            let together = most_at_once(cpus, &tenants.concat(), 0);
            prop_assert_eq!(compete(u64::from(cpus), &confined, all.into_iter()), together < alone);
        }

        #[test]
        fn each_task_has_a_cpu_exactly_if_no_set_of_tasks_has_too_few((cpus, tenants) in machine()) {
            let tasks = tenants.concat();
            let whole = [tasks.clone()];
            let may_use = |bits: u32| if bits == 0 { (1 << cpus) - 1 } else { bits };
            let hall = (1..1u32 << tasks.len()).all(|some| {
                let some = tasks.iter().enumerate().filter(|(i, _)| some >> i & 1 == 1);
                let (count, union) = some.fold((0, 0), |(n, all), (_, bits)| (n + 1, all | may_use(*bits)));
                union.count_ones() >= count
            });
            let confined = confined(&whole);
            prop_assert_eq!(Seats::new(u64::from(cpus), &confined).seat(TenantId(0), tasks.len() as u64), hall);
        }

        #[test]
        fn without_confinement_only_numbers_count(cpus in 1u64..9, tasks in proptest::collection::vec(1u64..9, 1..6)) {
            let nobody = Confined::new();
            let mut seats = Seats::new(cpus, &nobody);
            let mut sum = 0;
            for (i, tasks) in tasks.iter().enumerate() {
                let fits = sum + tasks <= cpus;
                prop_assert_eq!(seats.seat_all(TenantId(i as u32), *tasks), fits);
                sum += if fits { *tasks } else { 0 };
            }
            let all = tasks.iter().enumerate().map(|(i, tasks)| (TenantId(i as u32), *tasks));
            let is_too_much = tasks.len() > 1 && tasks.iter().sum::<u64>() > cpus;
            prop_assert_eq!(compete(cpus, &nobody, all), is_too_much);
        }
    }

    #[test]
    fn tenants_whose_cpus_overlap_are_a_group_and_one_that_may_run_anywhere_joins_all() {
        let confined = confined(&[vec![0b0011], vec![0b0110, 0b0001], vec![0b1000], vec![]]);
        let of = |ids: &[u32]| {
            let tenants = ids.iter().map(|id| (TenantId(*id), if *id == 1 { 2 } else { 1 }));
            let ids = |g: &Group| g.members.iter().map(|id| id.0).collect::<Vec<_>>();
            groups(4, &confined, tenants).iter().map(|g| (ids(g), g.cpus)).collect::<Vec<_>>()
        };
        assert_eq!(of(&[0, 2]), [(vec![0], 2), (vec![2], 1)]);
        assert_eq!(of(&[0, 2, 1]), [(vec![2], 1), (vec![0, 1], 3)]);
        assert_eq!(of(&[0, 2, 3]), [(vec![0, 2, 3], 4)]);
    }

    #[test]
    fn two_loops_on_one_cpu_do_not_fit_and_on_two_they_do_with_any_others() {
        let confined = confined(&[vec![0b01], vec![0b01], vec![0b10], vec![0b01, 0b01]]);
        let mut seats = Seats::new(2, &confined);
        assert!(
            seats.seat(TenantId(0), 1) && !seats.seat_all(TenantId(1), 1) && seats.seat_all(TenantId(2), 1)
        );
        // A tenant that crowds its own CPU leaves the other one.
        let mut seats = Seats::new(2, &confined);
        assert!(!seats.seat(TenantId(3), 2) && seats.seat_all(TenantId(2), 1));
        assert!(!compete(2, &confined, [(TenantId(3), 2), (TenantId(2), 1)].into_iter()));
        assert!(compete(2, &confined, [(TenantId(0), 1), (TenantId(1), 1)].into_iter()));
    }
}
