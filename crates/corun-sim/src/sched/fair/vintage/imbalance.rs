//! The group of a domain that a CPU should take from, and how much load: `find_busiest_group` of the older kernels.
//!
//! Method: a group is busy if its load relative to its power is the greatest, and it has more tasks than its capacity. If the level
//! below should be spread, its capacity is one while the own group has room. A CPU takes from it if its own group is below the average
//! and, unless the CPU is idle, the difference is more than the domain tolerates. It takes the load that brings both to the average, at
//! most the surplus of tasks. If that is less than one task, it takes one task if throughput gains (`fix_small_imbalance`). Limit:
//! unsigned differences that wrap around in the kernel are treated as unbounded, which is their effect.

use super::domains::{Place, POWER};
use super::kernel::GroupImbalance;
use crate::cpu_set::CpuSet;
use crate::sched::fair::balance::Idle;
use crate::sched::fair::queues::Discipline;
use crate::sched::fair::Fair;
use crate::sched::CpuIx;

/// How busy a group is.
#[derive(Clone, Copy, Debug)]
struct Stats {
    group: usize,
    power: u64,
    cpus: u64,
    capacity: u64,
    load: u64,
    tasks: u64,
    idle: u64,
    /// Load relative to power.
    average: u64,
    /// Present load, without averages and relative to the number of tasks.
    by_task: u64,
    unbalanced: bool,
    has_room: bool,
}

/// The load to take, and the group to take it from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Busiest {
    /// Its number in the domain.
    pub group: usize,
    /// Load to be moved.
    pub load: u64,
}

impl<D: Discipline> Fair<D> {
    /// The group to take from, and how much, for `cpus` only; `None`: all is balanced.
    pub(super) fn find_busiest(
        &self,
        cpu: CpuIx,
        place: Place,
        idle: Idle,
        cpus: &CpuSet,
    ) -> Option<Busiest> {
        let kernel = &self.vintage.kernel;
        let domain = &self.vintage.domains.all[place.domain];
        let idx = match idle {
            Idle::No => domain.level.busy_idx,
            Idle::Yes => domain.level.idle_idx,
            Idle::Newly => 0,
        };
        let own = self.group_stats(place, place.group, idx, cpus);
        let (mut load, mut power) = (own.load, own.power);
        let mut busiest: Option<Stats> = None;
        for g in domain.from(place.group).skip(1) {
            let mut s = self.group_stats(place, g, idx, cpus);
            load += s.load;
            power += s.power;
            if domain.spreads && own.has_room {
                s.capacity = s.capacity.min(1);
            }
            let is_busier = s.average > busiest.map_or(0, |b| b.average);
            if is_busier && (s.tasks > s.capacity || s.unbalanced) {
                busiest = Some(s);
            }
        }
        let busiest = busiest.filter(|b| b.tasks > 0)?;
        let average = POWER * load / power;
        let forced = kernel.forces_unbalanced && busiest.unbalanced
            || idle == Idle::Newly && own.has_room && !busiest.has_room;
        if !forced {
            if own.average >= busiest.average || own.average >= average {
                return None;
            }
            let is_idle = match kernel.busy_sibling {
                true => idle != Idle::Newly && self.q.idle.contains(cpu),
                false => idle == Idle::Yes,
            };
            let balanced = if is_idle {
                own.idle < busiest.idle + kernel.fewer_idle && busiest.tasks <= busiest.cpus
            } else {
                100 * busiest.average <= domain.level.imbalance_pct * own.average
            };
            if balanced {
                return None;
            }
        }
        let load = self.how_much(&own, &busiest, average, cpu);
        Some(Busiest { group: busiest.group, load })
    }

    fn group_stats(&self, place: Place, g: usize, idx: usize, cpus: &CpuSet) -> Stats {
        let group = &self.vintage.domains.all[place.domain].groups[g];
        let is_own = g == place.group;
        let mut s = Stats {
            group: g,
            power: group.power,
            cpus: group.cpus.len() as u64,
            capacity: group.capacity,
            load: 0,
            tasks: 0,
            idle: 0,
            average: 0,
            by_task: 0,
            unbalanced: false,
            has_room: false,
        };
        let mut now = 0;
        // By CPU: load and tasks, the most and the least of each, and the tasks where load is most.
        let (mut most, mut least) = ((0, 0), (u64::MAX, u64::MAX));
        let mut of_most = 0;
        for cpu in group.set.iter_common(cpus) {
            let tasks = u64::from(self.q.rqs[cpu].runnable);
            let load = if is_own { self.target_load(cpu, idx) } else { self.source_load(cpu, idx) };
            if load > most.0 {
                of_most = tasks;
            }
            most = (most.0.max(load), most.1.max(tasks));
            least = (least.0.min(load), least.1.min(tasks));
            s.load += load;
            s.tasks += tasks;
            s.idle += u64::from(self.q.idle.contains(cpu));
            now += self.load_of(cpu);
        }
        s.average = s.load * POWER / group.power;
        s.by_task = now.checked_div(s.tasks).unwrap_or(0);
        let apart = most.0.saturating_sub(least.0);
        s.unbalanced = match self.vintage.kernel.group_imbalance {
            GroupImbalance::TwoTasks => !is_own && apart > 2 * s.by_task && of_most > 1,
            GroupImbalance::OneTask => !is_own && apart >= s.by_task && most.1.saturating_sub(least.1) > 1,
            GroupImbalance::Pinned => group.pinned,
        };
        s.has_room = s.capacity > s.tasks;
        s
    }

    /// Load to be moved (`calculate_imbalance`).
    fn how_much(&self, own: &Stats, busiest: &Stats, average: u64, cpu: CpuIx) -> u64 {
        let mut by_task = busiest.by_task;
        if busiest.unbalanced {
            by_task = by_task.min(average);
        }
        let crossed = if self.vintage.kernel.counts_cores {
            busiest.average <= average || own.average >= average
        } else {
            busiest.average < average
        };
        if crossed {
            return self.at_least_one(own, busiest, by_task, 0, cpu);
        }
        let surplus = match busiest.unbalanced {
            true => u64::MAX,
            false => busiest.tasks.saturating_sub(busiest.capacity) * POWER * POWER / busiest.power,
        };
        let pull = (busiest.average - average).min(surplus);
        let takes = average.checked_sub(own.average).map_or(u64::MAX, |x| x * own.power);
        let load = (pull * busiest.power).min(takes) / POWER;
        if load < by_task {
            return self.at_least_one(own, busiest, by_task, load, cpu);
        }
        load
    }

    /// One task's load if that helps, else `load` (`fix_small_imbalance`).
    fn at_least_one(&self, own: &Stats, busiest: &Stats, by_task: u64, load: u64, cpu: CpuIx) -> u64 {
        let own_by_task = if own.tasks > 0 { own.by_task } else { self.load_by_task(cpu) };
        let needs = if own.tasks > 0 && by_task > own_by_task { 1 } else { 2 };
        let scaled = by_task * POWER / busiest.power;
        if busiest.average + scaled >= own.average + scaled * needs {
            return by_task;
        }
        let worth = |s: &Stats, by_task: u64, average: u64| s.power * by_task.min(average);
        let before =
            (worth(busiest, by_task, busiest.average) + worth(own, own_by_task, own.average)) / POWER;
        let mut after = 0;
        if busiest.average > scaled {
            after += worth(busiest, by_task, busiest.average - scaled);
        }
        let adds = (busiest.average * busiest.power).min(by_task * POWER) / own.power;
        after += worth(own, own_by_task, own.average + adds);
        if after / POWER > before {
            by_task
        } else {
            load
        }
    }
}
