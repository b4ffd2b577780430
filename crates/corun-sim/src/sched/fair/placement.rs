//! The CPU of a waking or new task: `select_task_rq_fair` with `wake_affine`, `select_idle_sibling` and `find_idlest_cpu`.
//!
//! A woken task goes to the waker's or to its previous CPU: to the one that is idle, or else to the less
//! loaded one. From there it goes to an idle CPU under the same last-level cache if there is one. A new task
//! goes to the idlest CPU of the machine. Limits: the search for an idle CPU looks at every CPU of the cache
//! (the kernel bounds it by SIS_UTIL on large ones); no cluster level, no asymmetric capacity.

use super::domains::Level;
use super::queues::Discipline;
use super::Fair;
use crate::sched::{CpuIx, TaskIx, Wake};

const FLIP_DECAY_NS: u64 = 1_000_000_000;

impl<D: Discipline> Fair<D> {
    /// The CPU that a task which became runnable is queued on.
    pub(super) fn select_cpu(&mut self, now_ns: u64, task: TaskIx, how: Wake) -> CpuIx {
        let prev = self.q.tasks[task].cpu;
        let chosen = match how {
            _ if D::VINTAGE => self.select_cpu_then(now_ns, task, how),
            Wake::Fresh => self.idlest_cpu(now_ns, task),
            Wake::From(waker) => {
                self.record_wakee(now_ns, waker, task);
                let mut target = prev;
                if waker != prev && self.q.tasks[task].allowed(waker) && !self.is_wide(waker, task) {
                    target = self.affine(now_ns, task, waker, prev);
                }
                self.idle_sibling(task, prev, target)
            }
            Wake::Return => self.idle_sibling(task, prev, prev),
        };
        if self.q.tasks[task].allowed(chosen) {
            return chosen;
        }
        let set = self.q.tasks[task].affinity.as_ref().expect("only an affinity forbids a CPU");
        let idle = set.next_common(&self.q.idle, 0);
        idle.or_else(|| set.iter().min_by_key(|&c| (self.q.rqs[c].runnable, c))).unwrap_or(chosen)
    }

    fn is_idle(&self, cpu: CpuIx) -> bool {
        self.q.idle.contains(cpu)
    }

    fn shares_cache(&self, a: CpuIx, b: CpuIx) -> bool {
        self.domains.llc_of[a] == self.domains.llc_of[b]
    }

    /// The waker remembers its wakees. Many different wakees spread out instead of being pulled close.
    fn record_wakee(&mut self, now_ns: u64, waker_cpu: CpuIx, wakee: TaskIx) {
        let Some(waker) = self.q.cpus[waker_cpu].curr else { return };
        let waker = &mut self.q.tasks[waker];
        if now_ns > waker.flips_ns + FLIP_DECAY_NS {
            waker.wakee_flips /= 2;
            waker.flips_ns = now_ns;
        }
        if waker.last_wakee != wakee {
            waker.last_wakee = wakee;
            waker.wakee_flips += 1;
        }
    }

    fn is_wide(&self, waker_cpu: CpuIx, wakee: TaskIx) -> bool {
        let factor = self.domains.llcs[self.domains.llc_of[waker_cpu]].len() as u64;
        let flips = |task: TaskIx| self.q.tasks[task].wakee_flips;
        let (a, b) = (self.q.cpus[waker_cpu].curr.map_or(0, flips), flips(wakee));
        let (most, least) = (a.max(b), a.min(b));
        least >= factor && most >= least * factor
    }

    /// The waker's CPU or the previous one.
    fn affine(&mut self, now_ns: u64, task: TaskIx, this: CpuIx, prev: CpuIx) -> CpuIx {
        if self.is_idle(this) && self.shares_cache(this, prev) {
            return if self.is_idle(prev) { prev } else { this };
        }
        if self.is_idle(prev) {
            return prev;
        }
        let pct = self.domains.of_cpu[this]
            .iter()
            .find(|d| self.domains.of_cpu[prev].contains(d))
            .map_or(100, |&d| self.domains.all[d].imbalance_pct);
        self.q.touch_rq(now_ns, this as u32);
        self.q.touch_rq(now_ns, prev as u32);
        // The task's own average dates from when it fell asleep.
        let load = self.q.task_load(task);
        let this_load = (self.q.cpu_load(this) + load) * 100;
        let prev_load = self.q.cpu_load(prev).saturating_sub(load) * (100 + (pct - 100) / 2);
        if this_load < prev_load {
            this
        } else {
            prev
        }
    }

    /// An idle CPU near `target`, or `target` itself.
    fn idle_sibling(&mut self, task: TaskIx, prev: CpuIx, target: CpuIx) -> CpuIx {
        let allowed = |cpu: CpuIx| self.q.tasks[task].allowed(cpu);
        if self.is_idle(target) && allowed(target) {
            return target;
        }
        if prev != target && self.shares_cache(prev, target) && self.is_idle(prev) && allowed(prev) {
            return prev;
        }
        let recent = std::mem::replace(&mut self.q.tasks[task].recent_cpu, prev);
        let state = &self.q.tasks[task];
        if recent != prev
            && recent != target
            && self.shares_cache(recent, target)
            && self.is_idle(recent)
            && state.allowed(recent)
        {
            return recent;
        }
        self.idle_in_llc(task, target).unwrap_or(target)
    }

    /// An idle CPU under the target's cache, on an idle core if there is one.
    fn idle_in_llc(&self, task: TaskIx, target: CpuIx) -> Option<CpuIx> {
        let llc = &self.domains.llcs[self.domains.llc_of[target]];
        let state = &self.q.tasks[task];
        let (mut from, mut any) = (target + 1, None);
        let mut wrapped = false;
        loop {
            let Some(cpu) = llc.next_common(&self.q.idle, from) else {
                if wrapped {
                    return any;
                }
                (from, wrapped) = (0, true);
                continue;
            };
            if wrapped && cpu > target {
                return any;
            }
            from = cpu + 1;
            if !state.allowed(cpu) {
                continue;
            }
            if self.domains.siblings[cpu].iter().all(|&s| self.is_idle(s)) {
                return Some(cpu);
            }
            any = any.or(Some(cpu));
        }
    }

    /// Where a new task starts: the idlest group of every level from the top, then its idlest CPU.
    fn idlest_cpu(&mut self, now_ns: u64, task: TaskIx) -> CpuIx {
        let parent = self.q.tasks[task].cpu;
        let Some(&top) = self.domains.of_cpu[parent].last() else { return parent };
        let mut domain = top;
        loop {
            let mut best: Option<((usize, usize, usize), usize)> = None;
            for (i, group) in self.domains.all[domain].groups.iter().enumerate() {
                let usable = group.iter().filter(|&&c| self.q.tasks[task].allowed(c)).count();
                if usable == 0 {
                    continue;
                }
                let idle = group.iter().filter(|&&c| self.is_idle(c)).count();
                let queued: usize = group.iter().map(|&c| self.q.rqs[c].runnable as usize).sum();
                // Most idle CPUs first, fewest tasks per CPU next, the home group wins ties.
                let home = usize::from(!group.contains(&parent));
                let key = (group.len() - idle, queued * 1024 / group.len(), home);
                if best.is_none_or(|(k, _)| key < k) {
                    best = Some((key, i));
                }
            }
            let Some((_, i)) = best else { return parent };
            let group = &self.domains.all[domain].groups[i];
            let first = group[0];
            let inner = self.domains.of_cpu[first]
                .iter()
                .rev()
                .copied()
                .find(|&d| self.domains.all[d].span.len() == group.len() && d != domain);
            match inner {
                Some(d) => domain = d,
                None => {
                    let allowed = group.iter().copied().filter(|&c| self.q.tasks[task].allowed(c));
                    let load = |c: CpuIx| (self.q.rqs[c].runnable, self.q.rqs[c].avg.load);
                    let _ = now_ns;
                    return allowed.min_by_key(|&c| (!self.is_idle(c), load(c))).unwrap_or(parent);
                }
            }
        }
    }

    /// Whether a domain lies within one cache (its balancing evens out tasks rather than load).
    pub(super) fn within_cache(&self, domain: usize) -> bool {
        matches!(self.domains.all[domain].level, Level::Smt | Level::Llc)
    }
}
