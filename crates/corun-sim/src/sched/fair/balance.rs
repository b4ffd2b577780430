//! Load balancing: periodic, of idle CPUs, and of newly idle ones (see [`newidle`](super::newidle)), after `sched_balance_rq` of Linux
//! 6.x.
//!
//! A CPU pulls. It compares the groups of a domain, and takes the busiest one if it is busier than its own by
//! more than the domain tolerates. Then it moves waiting tasks of that group's busiest queue until the
//! imbalance is gone. Groups are ranked as the kernel does (spare capacity, fully busy, overloaded). Among
//! overloaded groups load decides, otherwise numbers of tasks do.
//!
//! Limits: a group that pinned tasks keep unbalanced has no rank of its own; no active balance (the kernel
//! moves a running task only for asymmetric CPUs or after repeated failure); utilization-based migration
//! between caches moves one task.

use super::queues::{Discipline, Place, RESOLUTION};
use super::Fair;
use crate::sched::{CpuIx, Effects, Moved, TaskIx};

const CAPACITY: u64 = 1024;
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum GroupType {
    HasSpare,
    FullyBusy,
    Overloaded,
}

#[derive(Clone, Copy, Debug)]
struct Stats {
    kind: GroupType,
    weight: u64,
    tasks: u64,
    idle: u64,
    load: u64,
    index: usize,
}

impl Stats {
    /// Load per CPU.
    fn avg_load(&self) -> u64 {
        self.load / self.weight
    }
}

#[derive(Clone, Copy, Debug)]
enum Migrate {
    Load(u64),
    Tasks(u64),
}

/// Tasks that a balance may move; kept between balances for its memory.
#[derive(Debug, Default)]
pub(super) struct Movable {
    pub(super) tasks: Vec<TaskIx>,
    /// Queues still to be looked into.
    pub(super) queues: Vec<u32>,
}

/// The state of the CPU that balances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Idle {
    /// It is busy.
    No,
    /// It is idle.
    Yes,
    /// It has just run out of tasks.
    Newly,
}

impl<D: Discipline> Fair<D> {
    /// Balances the domains of a busy CPU whose interval is over.
    pub(super) fn periodic(&mut self, now_ns: u64, cpu: CpuIx, fx: &mut Effects) {
        for level in 0..self.domains.of_cpu[cpu].len() {
            self.balance_if_due(now_ns, cpu, level, Idle::No, fx);
        }
    }

    /// Idle CPUs balance if a busy CPU has tasks to give.
    pub(super) fn nohz_idle(&mut self, now_ns: u64, fx: &mut Effects) {
        let mut from = 0;
        while let Some(cpu) = self.q.idle.next(from) {
            if self.q.overloaded.is_empty() {
                return;
            }
            from = cpu + 1;
            for level in 0..self.domains.of_cpu[cpu].len() {
                if self.balance_if_due(now_ns, cpu, level, Idle::Yes, fx) > 0 {
                    break;
                }
            }
        }
    }

    fn balance_if_due(&mut self, now_ns: u64, cpu: CpuIx, level: usize, idle: Idle, fx: &mut Effects) -> u64 {
        let weight = self.domains.all[self.domains.of_cpu[cpu][level]].span.len() as u64;
        let least = weight * 1_000_000;
        let state = &mut self.q.cpus[cpu];
        state.interval_ns[level] = state.interval_ns[level].clamp(least, 2 * least);
        let mut interval = state.interval_ns[level];
        if idle == Idle::No {
            interval = interval * 16 - self.opts.tick_ns.min(interval);
        }
        if now_ns < state.balanced_ns[level] + interval {
            return 0;
        }
        state.balanced_ns[level] = now_ns;
        let found = self.balance(now_ns, cpu, level, idle, fx);
        let interval = &mut self.q.cpus[cpu].interval_ns[level];
        // If all is balanced, the next look is later.
        *interval = if found.is_some() { least } else { (2 * *interval).min(2 * least) };
        found.unwrap_or(0)
    }

    /// Pulls to `cpu` within one domain. Returns how many tasks came; `None` if there was no imbalance.
    pub(super) fn balance(
        &mut self,
        now_ns: u64,
        cpu: CpuIx,
        level: usize,
        idle: Idle,
        fx: &mut Effects,
    ) -> Option<u64> {
        let domain = self.domains.of_cpu[cpu][level];
        if idle != Idle::Newly && !self.should_balance(cpu, level) {
            return None;
        }
        if idle == Idle::Newly && self.all_hot(now_ns, cpu, level) {
            return None;
        }
        let Some((busiest_group, migrate)) = self.find_imbalance(cpu, level, idle) else {
            self.q.cpus[cpu].failed[level] = 0;
            return None;
        };
        let busiest = self.busiest_cpu(domain, busiest_group, cpu, migrate)?;
        let moved = self.pull(now_ns, cpu, busiest, level, migrate, idle, fx);
        let failed = &mut self.q.cpus[cpu].failed[level];
        if moved > 0 {
            *failed = 0;
        } else if idle != Idle::Newly {
            *failed += 1;
        }
        Some(moved)
    }

    /// The overloaded CPU of a group, other than `cpu`, with the most load or tasks to move; the first of equals.
    fn busiest_cpu(&self, domain: usize, group: usize, cpu: CpuIx, migrate: Migrate) -> Option<CpuIx> {
        let mut busiest = None;
        for c in self.domains.all[domain].sets[group].iter_common(&self.q.overloaded) {
            let has = match migrate {
                Migrate::Load(_) => self.q.cpu_load(c),
                Migrate::Tasks(_) => u64::from(self.q.rqs[c].runnable),
            };
            if c != cpu && busiest.is_none_or(|(most, _)| has > most) {
                busiest = Some((has, c));
            }
        }
        busiest.map(|(_, c)| c)
    }

    /// Only one CPU of a group balances for it: the first idle one, or the first of all.
    fn should_balance(&self, cpu: CpuIx, level: usize) -> bool {
        let domain = self.domains.of_cpu[cpu][level];
        let group = &self.domains.all[domain].sets[self.domains.group_of[cpu][level]];
        group.next_common(&self.q.idle, 0).or_else(|| group.next(0)) == Some(cpu)
    }

    /// How busy a group is. The numbers of tasks are available. Loads are looked up only if they can matter:
    /// if there is no CPU to spare.
    fn stats(&self, domain: usize, index: usize) -> Stats {
        let domain = &self.domains.all[domain];
        let (group, count) = (&domain.groups[index], self.counts[domain.first_group + index]);
        let weight = group.len() as u64;
        let (tasks, idle) = (u64::from(count.tasks), u64::from(count.idle));
        let mut stats = Stats { kind: GroupType::HasSpare, weight, tasks, idle, load: 0, index };
        if tasks < weight {
            return stats;
        }
        let pct = domain.imbalance_pct;
        let (mut util, mut runnable) = (0, 0);
        for &cpu in group {
            // As in the kernel: averages are as old as each CPU's last update.
            let avg = &self.q.rqs[cpu].avg;
            stats.load += avg.load / RESOLUTION;
            util += avg.util;
            runnable += avg.runnable;
        }
        let capacity = weight * CAPACITY;
        let overloaded = tasks > weight && (capacity * 100 < util * pct || capacity * pct < runnable * 100);
        let has_capacity = capacity * pct >= runnable * 100 && capacity * 100 > util * pct;
        stats.kind = match (overloaded, has_capacity) {
            (true, _) => GroupType::Overloaded,
            (false, true) => GroupType::HasSpare,
            (false, false) => GroupType::FullyBusy,
        };
        stats
    }

    /// The busiest group of a domain, and the load or tasks to take from it, if it is worth it.
    fn find_imbalance(&self, cpu: CpuIx, level: usize, idle: Idle) -> Option<(usize, Migrate)> {
        let domain = self.domains.of_cpu[cpu][level];
        let home = self.domains.group_of[cpu][level];
        let local = self.stats(domain, home);
        let mut busiest: Option<Stats> = None;
        let mut total_load = local.load;
        for (i, count) in self.counts_of(domain).iter().enumerate().filter(|(i, _)| *i != home) {
            // A CPU with one task gives none away, so only loads that are compared make other groups matter.
            if local.kind == GroupType::HasSpare && count.overloaded == 0 {
                continue;
            }
            let s = self.stats(domain, i);
            total_load += s.load;
            if s.tasks > 0 && busiest.is_none_or(|b| is_busier(&s, &b)) {
                busiest = Some(s);
            }
        }
        let busiest = busiest?;
        if local.kind > busiest.kind {
            return None;
        }
        let mut average = 0;
        if local.kind != GroupType::HasSpare {
            // Loads decide, so those of groups with CPUs to spare count too.
            for (count, group) in self.counts_of(domain).iter().zip(&self.domains.all[domain].groups) {
                if (count.tasks as usize) < group.len() {
                    total_load += group.iter().map(|&c| self.q.cpu_load(c)).sum::<u64>();
                }
            }
            average = total_load / self.domains.all[domain].span.len() as u64;
        }
        let pct = self.domains.all[domain].imbalance_pct;
        if local.kind == GroupType::Overloaded
            && (local.avg_load() >= busiest.avg_load()
                || local.avg_load() >= average
                || 100 * busiest.avg_load() <= pct * local.avg_load())
        {
            return None;
        }
        // A busy CPU lets an idle one even out numbers of tasks.
        let surplus = if idle == Idle::No { 0 } else { sibling_imbalance(&busiest, &local) };
        let prefers_siblings = self.domains.all[domain].prefers_siblings;
        let even_out = prefers_siblings && local.kind == GroupType::HasSpare && surplus > 1;
        if !even_out && busiest.kind != GroupType::Overloaded {
            let idle_enough = busiest.weight > 1 && local.idle <= busiest.idle + 1;
            if idle == Idle::No || idle_enough || busiest.tasks <= 1 {
                return None;
            }
        }
        if local.kind == GroupType::HasSpare {
            if busiest.kind > GroupType::FullyBusy && !self.within_cache(domain) {
                return Some((busiest.index, Migrate::Tasks(1)));
            }
            let imbalance = if busiest.weight == 1 || prefers_siblings {
                surplus
            } else {
                local.idle.saturating_sub(busiest.idle)
            };
            return (imbalance >= 2).then_some((busiest.index, Migrate::Tasks(imbalance / 2)));
        }
        if local.avg_load() >= busiest.avg_load() || local.avg_load() >= average {
            return None;
        }
        let give = busiest.avg_load().saturating_sub(average) * busiest.weight;
        let take = (average - local.avg_load()) * local.weight;
        Some((busiest.index, Migrate::Load(give.min(take))))
    }

    /// Moves waiting tasks from `from` to `to` until the imbalance is gone.
    #[allow(clippy::too_many_arguments)]
    fn pull(
        &mut self,
        now_ns: u64,
        to: CpuIx,
        from: CpuIx,
        level: usize,
        migrate: Migrate,
        idle: Idle,
        fx: &mut Effects,
    ) -> u64 {
        let failed = self.q.cpus[to].failed[level];
        let hot_allowed = self.takes_hot(to, level);
        if !hot_allowed && now_ns < self.first_to_cool[from].cools_ns {
            return 0;
        }
        let mut left = match migrate {
            Migrate::Load(x) | Migrate::Tasks(x) => x,
        };
        let mut moved = 0;
        self.find_movable(now_ns, from, to, hot_allowed);
        for i in 0..self.movable.tasks.len() {
            let task = self.movable.tasks[i];
            if left == 0 || self.q.rqs[from].runnable <= 1 {
                break;
            }
            match migrate {
                Migrate::Load(_) => {
                    let entity = self.q.tasks[task].entity;
                    self.q.touch(now_ns, entity);
                    let load = self.q.task_load(task).max(1);
                    if load >> failed.min(32) > left {
                        continue;
                    }
                    left = left.saturating_sub(load);
                }
                Migrate::Tasks(_) => left -= 1,
            }
            self.dequeue(now_ns, task, false, false);
            self.enqueue(now_ns, task, to, Place::Moved);
            fx.moved.push(Moved { task, to });
            moved += 1;
            if idle == Idle::Newly {
                break;
            }
            self.check_preempt(now_ns, to, task, fx);
        }
        moved
    }

    /// Finds the tasks that wait on a CPU and may go to another. The one that ran longest ago comes first
    /// (the tail of the kernel's list).
    pub(super) fn find_movable(&mut self, now_ns: u64, from: CpuIx, to: CpuIx, hot_allowed: bool) {
        /// `sched_nr_migrate`: the most tasks to check.
        const MOST: usize = 32;
        let Movable { tasks, queues } = &mut self.movable;
        let mut seen = 0;
        tasks.clear();
        self.q.each_waiting(from, queues, |_, e| {
            seen += 1;
            let cold = now_ns >= e.cools_ns(self.opts.migration_cost_ns);
            if (hot_allowed || cold) && self.q.tasks[e.task as TaskIx].allowed(to) {
                tasks.push(e.task as TaskIx);
            }
            seen < MOST
        });
        if tasks.len() > 1 {
            tasks.sort_unstable_by_key(|&t| (self.q.e(self.q.tasks[t].entity).exec_start_ns, t));
        }
    }
}

/// Whether `a` is a busier group than `b` (`update_sd_pick_busiest`).
fn is_busier(a: &Stats, b: &Stats) -> bool {
    if a.kind != b.kind {
        return a.kind > b.kind;
    }
    match a.kind {
        GroupType::HasSpare => (b.idle, a.tasks) > (a.idle, b.tasks),
        _ => a.avg_load() > b.avg_load(),
    }
}

/// How many more tasks the busiest group has than the local one (`sibling_imbalance`).
fn sibling_imbalance(busiest: &Stats, local: &Stats) -> u64 {
    if busiest.weight == local.weight {
        return busiest.tasks.saturating_sub(local.tasks);
    }
    let (a, b) = (busiest.tasks * local.weight, local.tasks * busiest.weight);
    let both = busiest.weight + local.weight;
    let surplus = (2 * a.saturating_sub(b) + both) / both;
    if surplus <= 1 && local.tasks == 0 && busiest.tasks > 1 {
        2
    } else {
        surplus
    }
}
