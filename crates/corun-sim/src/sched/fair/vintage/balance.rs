//! Balancing of the older kernels: at ticks (`rebalance_domains`), for idle CPUs whose ticks have stopped (`nohz_idle_balance`), and
//! for a CPU without tasks (`idle_balance`).
//!
//! A CPU checks each of its domains at intervals, which are some tens of times longer while it is busy. One CPU of a group checks for
//! all: the first idle one, or else the first. It takes waiting tasks from the busiest queue; those that ran less than 0.5 ms ago are
//! taken only after failures. If moves failed more often than the domain tolerates, the running task is taken off its CPU and queued
//! here (active balance). A CPU without tasks searches only if its idle times average more than 0.5 ms.
//!
//! Limits: a group whose tasks are pinned is not balanced towards another of its CPUs. `max_newidle_lb_cost`
//! of 3.14 is left out: it is microseconds, and never decides against those 0.5 ms.

use super::domains::Place as In;
use super::imbalance::Busiest;
use super::kernel::Kick;
use crate::cpu_set::CpuSet;
use crate::sched::fair::balance::Idle;
use crate::sched::fair::queues::{Discipline, Place};
use crate::sched::fair::Fair;
use crate::sched::{CpuIx, Effects, Moved, Resched, TaskIx};

/// The longest interval between balances of a domain with pinned tasks, in milliseconds.
const MOST_PINNED_MS: u64 = 512;
/// No domain goes unbalanced for longer than this for each CPU of the machine.
const MOST_MS_BY_CPU: u64 = 100;
const NS_BY_MS: u64 = 1_000_000;

/// The result of balancing a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    /// Another CPU of the group does it.
    NotOurs,
    /// This many tasks were moved.
    Moved(u64),
    /// No task was moved, and the idle CPU has a busy sibling.
    BesideBusy,
}

impl<D: Discipline> Fair<D> {
    fn tick_of(&self, now_ns: u64) -> u64 {
        now_ns / self.opts.tick_ns
    }

    /// The tick of a busy CPU.
    pub(in crate::sched::fair) fn rebalance_busy(&mut self, now_ns: u64, cpu: CpuIx, fx: &mut Effects) {
        let load = self.load_of(cpu);
        let tick = self.tick_of(now_ns);
        self.vintage.cpus[cpu].load.take(tick, load);
        self.rebalance(now_ns, cpu, Idle::No, fx);
    }

    /// After the ticks of all busy CPUs: idle ones are balanced if there is reason to.
    pub(in crate::sched::fair) fn rebalance_idle(&mut self, now_ns: u64, fx: &mut Effects) {
        if self.q.idle.is_empty() || !self.is_kicked() {
            return;
        }
        let tick = self.tick_of(now_ns);
        let mut from = 0;
        while let Some(cpu) = self.q.idle.next(from) {
            from = cpu + 1;
            self.vintage.cpus[cpu].load.take(tick, 0);
            self.rebalance(now_ns, cpu, Idle::Yes, fx);
        }
    }

    /// Whether any busy CPU has idle ones balanced.
    fn is_kicked(&self) -> bool {
        let n = self.vintage.cpus.len();
        if self.q.idle.len() == n {
            return false;
        }
        let busy = |set: &CpuSet| set.len() - set.iter_common(&self.q.idle).count();
        let domains = &self.vintage.domains;
        match self.vintage.kernel.kick {
            Kick::Always => true,
            _ if !self.q.overloaded.is_empty() => true,
            Kick::BusyGroup => {
                let cached = domains.all.iter().filter(|d| d.level.shares_cache);
                cached.flat_map(|d| &d.groups).any(|g| busy(&g.set) > 1)
            }
            Kick::BusyCache => {
                let caches = &self.domains.llcs;
                caches.len() > 1 && caches.iter().any(|cache| busy(cache) > 1)
            }
        }
    }

    fn rebalance(&mut self, now_ns: u64, cpu: CpuIx, mut idle: Idle, fx: &mut Effects) {
        let tick = self.tick_of(now_ns);
        let tick_ns = self.opts.tick_ns;
        let most_ms = MOST_MS_BY_CPU * self.vintage.cpus.len() as u64;
        for level in 0..self.vintage.domains.of_cpu[cpu].len() {
            let place = self.vintage.domains.of_cpu[cpu][level];
            let factor = match idle {
                Idle::Yes => 1,
                _ => self.vintage.domains.all[place.domain].level.busy_factor,
            };
            let own = &self.vintage.cpus[cpu];
            let interval_ms = (own.interval_ms[level] * factor).min(most_ms);
            let ticks = (interval_ms * NS_BY_MS).div_ceil(tick_ns).max(1);
            if tick < own.balanced[level] + ticks {
                continue;
            }
            let looked = self.look(now_ns, cpu, level, idle, fx);
            self.vintage.cpus[cpu].balanced[level] = tick;
            match looked {
                Looked::NotOurs => break,
                Looked::Moved(0) => {}
                // It is no longer idle.
                Looked::Moved(_) | Looked::BesideBusy => idle = Idle::No,
            }
        }
    }

    /// A CPU has run out of tasks: whether it got one.
    pub(in crate::sched::fair) fn newly_idle_then(
        &mut self,
        now_ns: u64,
        cpu: CpuIx,
        fx: &mut Effects,
    ) -> bool {
        if self.q.cpus[cpu].avg_idle_ns < self.opts.migration_cost_ns {
            return false;
        }
        let levels = 0..self.vintage.domains.of_cpu[cpu].len();
        let mut pulled = levels.map(|level| self.look(now_ns, cpu, level, Idle::Newly, fx));
        pulled.any(|looked| matches!(looked, Looked::Moved(1..)))
    }

    /// Counts an idle time that a wake-up has ended (`ttwu_do_wakeup`).
    pub(in crate::sched::fair) fn note_idle_then(&mut self, cpu: CpuIx, idle_ns: u64) {
        let most_ns = 2 * self.opts.migration_cost_ns;
        let average = &mut self.q.cpus[cpu].avg_idle_ns;
        *average = if idle_ns > most_ns {
            most_ns
        } else {
            average.saturating_add_signed((idle_ns as i64 - *average as i64) / 8)
        };
    }

    fn should_look(&self, cpu: CpuIx, place: In) -> bool {
        let group = &self.vintage.domains.all[place.domain].groups[place.group].set;
        group.next_common(&self.q.idle, 0).or_else(|| group.next(0)) == Some(cpu)
    }

    /// Balances a domain towards a CPU (`load_balance`).
    fn look(&mut self, now_ns: u64, cpu: CpuIx, level: usize, idle: Idle, fx: &mut Effects) -> Looked {
        let place = self.vintage.domains.of_cpu[cpu][level];
        let figures = self.vintage.domains.all[place.domain].level;
        let beside_busy = self.vintage.kernel.busy_sibling
            && idle == Idle::Yes
            && figures.shares_core
            && self.vintage.domains.all[place.domain].set.iter().any(|c| !self.q.idle.contains(c));
        let nothing = if beside_busy { Looked::BesideBusy } else { Looked::Moved(0) };
        if idle != Idle::Newly && !self.should_look(cpu, place) {
            self.settled(cpu, level, figures.most_ms, true);
            return Looked::NotOurs;
        }
        let mut cpus = self.vintage.domains.all[place.domain].set.clone();
        let (busiest, from) = loop {
            let found = self.find_busiest(cpu, place, idle, &cpus);
            let queue = found.and_then(|b| Some((b, self.busiest_queue(cpu, place, b, &cpus)?)));
            let Some((busiest, from)) = queue else {
                self.settled(cpu, level, figures.most_ms, true);
                return nothing;
            };
            if self.q.rqs[from].runnable <= 1 || self.any_may_go(from, cpu) {
                break (busiest, from);
            }
            // All its tasks are pinned, so it does not count.
            self.note_pinned(cpu, level, true);
            cpus.remove(from);
            if cpus.is_empty() {
                self.settled(cpu, level, MOST_PINNED_MS, true);
                return nothing;
            }
        };
        let moved = if self.q.rqs[from].runnable > 1 {
            self.take_load(now_ns, cpu, level, from, busiest.load, idle, fx)
        } else {
            0
        };
        if moved > 0 {
            self.vintage.cpus[cpu].failed[level] = 0;
            self.vintage.cpus[cpu].interval_ms[level] = figures.least_ms;
            return Looked::Moved(moved);
        }
        let failed = &mut self.vintage.cpus[cpu].failed[level];
        *failed += u32::from(idle != Idle::Newly);
        let mut pushes = false;
        if *failed > figures.cache_nice_tries + 2 {
            if self.q.cpus[from].curr.is_some_and(|task| !self.q.tasks[task].allowed(cpu)) {
                self.settled(cpu, level, MOST_PINNED_MS, false);
                return nothing;
            }
            if self.vintage.cpus[from].push_to.is_none() {
                self.vintage.cpus[from].push_to = Some(cpu);
                fx.resched.push(Resched { cpu: from, by: None });
                pushes = true;
            }
            self.vintage.cpus[cpu].failed[level] = figures.cache_nice_tries + 1;
        }
        let interval = &mut self.vintage.cpus[cpu].interval_ms[level];
        *interval = match pushes {
            false => figures.least_ms,
            true if *interval < figures.most_ms => 2 * *interval,
            true => *interval,
        };
        nothing
    }

    /// All is balanced: the next look is later, but not later than this.
    fn settled(&mut self, cpu: CpuIx, level: usize, most_ms: u64, balanced: bool) {
        let own = &mut self.vintage.cpus[cpu];
        if balanced {
            own.failed[level] = 0;
        }
        if own.interval_ms[level] < most_ms {
            own.interval_ms[level] *= 2;
        }
    }

    /// Notes in the CPU's group one level up whether tasks within it could not be moved because they are pinned.
    fn note_pinned(&mut self, cpu: CpuIx, level: usize, pinned: bool) {
        if let Some(&above) = self.vintage.domains.of_cpu[cpu].get(level + 1) {
            self.vintage.domains.all[above.domain].groups[above.group].pinned = pinned;
        }
    }

    /// Whether any task that waits on a CPU may go to another.
    fn any_may_go(&mut self, from: CpuIx, to: CpuIx) -> bool {
        let mut any = false;
        self.q.each_waiting(from, &mut self.movable.queues, |_, e| {
            any |= self.q.tasks[e.task as TaskIx].allowed(to);
            !any
        });
        any
    }

    /// The CPU of a group with the greatest load, unless that is a single task larger than what is to be
    /// moved.
    fn busiest_queue(&self, cpu: CpuIx, place: In, busiest: Busiest, cpus: &CpuSet) -> Option<CpuIx> {
        let group = &self.vintage.domains.all[place.domain].groups[busiest.group].set;
        let mut most = (0, None);
        for c in group.iter_common(cpus).filter(|&c| c != cpu) {
            let load = self.load_of(c);
            let is_too_much = self.q.rqs[c].runnable == 1 && load > busiest.load;
            if !is_too_much && load > most.0 {
                most = (load, Some(c));
            }
        }
        most.1
    }

    /// Moves waiting tasks from one CPU to another, up to this much load (`move_tasks`).
    #[allow(clippy::too_many_arguments)]
    fn take_load(
        &mut self,
        now_ns: u64,
        to: CpuIx,
        level: usize,
        from: CpuIx,
        load: u64,
        idle: Idle,
        fx: &mut Effects,
    ) -> u64 {
        let place = self.vintage.domains.of_cpu[to][level];
        let hot_allowed = self.vintage.cpus[to].failed[level]
            > self.vintage.domains.all[place.domain].level.cache_nice_tries;
        let mut left = load as i64;
        let (mut moved, mut pinned) = (0, false);
        self.find_movable(now_ns, from, to, hot_allowed);
        for i in 0..self.movable.tasks.len() {
            if left <= 0 {
                break;
            }
            let task = self.movable.tasks[i];
            let load = self.load_of_task(task) as i64;
            if load / 2 > left {
                continue;
            }
            left -= load;
            self.send(now_ns, task, to, fx);
            if idle != Idle::Newly {
                self.check_preempt(now_ns, to, task, fx);
            }
            moved += 1;
        }
        self.q.each_waiting(from, &mut self.movable.queues, |_, e| {
            pinned |= !self.q.tasks[e.task as TaskIx].allowed(to);
            !pinned
        });
        self.note_pinned(to, level, pinned && left > 0);
        moved
    }

    fn send(&mut self, now_ns: u64, task: TaskIx, to: CpuIx, fx: &mut Effects) {
        self.dequeue(now_ns, task, false, false);
        self.enqueue(now_ns, task, to, Place::Moved);
        fx.moved.push(Moved { task, to });
    }

    /// A CPU that has to give away a task by force chooses again: it sends one that may go, or the running one if no other waits.
    /// Returns whether it was the running one.
    pub(in crate::sched::fair) fn push_then(&mut self, now_ns: u64, cpu: CpuIx, fx: &mut Effects) -> bool {
        let Some(to) = self.vintage.cpus[cpu].push_to.take() else { return false };
        self.find_movable(now_ns, cpu, to, true);
        if let Some(&task) = self.movable.tasks.first() {
            self.send(now_ns, task, to, fx);
            self.check_preempt(now_ns, to, task, fx);
            return false;
        }
        let Some(task) = self.q.cpus[cpu].curr else { return false };
        // It may have gone to sleep meanwhile.
        if !self.q.e(self.q.tasks[task].entity).on_rq || !self.q.tasks[task].allowed(to) {
            return false;
        }
        self.switch(now_ns, Some(task), None);
        self.q.cpus[cpu].curr = None;
        self.dequeue(now_ns, task, false, false);
        self.enqueue(now_ns, task, to, Place::Moved);
        fx.expelled = Some(Moved { task, to });
        self.check_preempt(now_ns, to, task, fx);
        true
    }
}
