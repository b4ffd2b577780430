//! The CPU of a waking or new task: `select_task_rq_fair` of the older kernels.
//!
//! A woken task goes to the waker's CPU, if that would not be much more loaded with it than its previous one is now. Otherwise it goes
//! to the previous one. From there it goes to an idle CPU nearby, if [`IdleSibling`] finds one. A busy choice is never exchanged for an
//! idle previous CPU. A new task goes down from the largest domain: to the least loaded group if the own one is clearly busier, to the
//! least loaded CPU there, and so on below.

use super::domains::POWER;
use super::kernel::IdleSibling;
use crate::sched::fair::queues::Discipline;
use crate::sched::fair::Fair;
use crate::sched::{CpuIx, TaskIx, Wake};

/// A waker's record of its wakees is forgotten after this time.
const FORGET_NS: u64 = 1_000_000_000;

impl<D: Discipline> Fair<D> {
    /// The CPU on which a task that became runnable is queued. The task's affinity may forbid it.
    pub(in crate::sched::fair) fn select_cpu_then(&mut self, now_ns: u64, task: TaskIx, how: Wake) -> CpuIx {
        let prev = self.q.tasks[task].cpu;
        match how {
            Wake::Fresh => self.start_cpu(task, prev),
            Wake::From(waker) => {
                if self.vintage.kernel.wide_wakers {
                    self.note_wakee(now_ns, waker, task);
                }
                self.wake_cpu(task, waker, prev)
            }
            Wake::Return => self.wake_cpu(task, prev, prev),
        }
    }

    fn idles(&self, cpu: CpuIx) -> bool {
        self.q.idle.contains(cpu)
    }

    fn wake_cpu(&mut self, task: TaskIx, waker: CpuIx, prev: CpuIx) -> CpuIx {
        let affine = |place: &&super::domains::Place| {
            let domain = &self.vintage.domains.all[place.domain];
            domain.level.places && domain.set.contains(prev)
        };
        // A machine of one CPU has no domains.
        let domain = self.vintage.domains.of_cpu[waker].iter().find(affine).map(|place| place.domain);
        let Some(domain) = domain.filter(|_| self.q.tasks[task].allowed(waker)) else { return prev };
        let pulled = waker != prev && self.pulls(task, waker, prev, domain);
        let target = if pulled { waker } else { prev };
        match self.vintage.kernel.idle_sibling {
            IdleSibling::AnyUpToWaker => self.any_idle(task, waker, prev, target),
            IdleSibling::WholeGroup => self.idle_group(task, prev, target),
        }
    }

    /// Whether the waker's CPU takes the task (`wake_affine`).
    fn pulls(&self, task: TaskIx, waker: CpuIx, prev: CpuIx, domain: usize) -> bool {
        if self.vintage.kernel.wide_wakers && self.wakes_many(waker, task) {
            return false;
        }
        let (this, that) = (self.load_of(waker) as i64, self.load_of(prev) as i64);
        let pct = self.vintage.domains.all[domain].level.imbalance_pct as i64;
        let here = 100 * (this + self.grows(task, waker, true));
        let there = (100 + (pct - 100) / 2) * (that + self.grows(task, prev, false));
        this == 0 || here <= there || (this <= that && this + that <= self.load_by_task(waker) as i64)
    }

    fn note_wakee(&mut self, now_ns: u64, waker: CpuIx, wakee: TaskIx) {
        let Some(waker) = self.q.cpus[waker].curr else { return };
        let waker = &mut self.q.tasks[waker];
        if now_ns > waker.flips_ns + FORGET_NS {
            (waker.wakee_flips, waker.flips_ns) = (0, now_ns);
        }
        if waker.last_wakee != wakee {
            waker.last_wakee = wakee;
            waker.wakee_flips += 1;
        }
    }

    fn wakes_many(&self, waker: CpuIx, wakee: TaskIx) -> bool {
        let factor = self.domains.llcs[self.domains.llc_of[waker]].len() as u64;
        let flips = |task: TaskIx| self.q.tasks[task].wakee_flips;
        let of_waker = self.q.cpus[waker].curr.map_or(0, flips);
        flips(wakee) > factor && of_waker > factor * flips(wakee)
    }

    /// The first idle CPU of each domain within the cache. The one from the largest domain counts.
    fn any_idle(&self, task: TaskIx, waker: CpuIx, prev: CpuIx, target: CpuIx) -> CpuIx {
        if (target == waker || target == prev) && self.idles(target) {
            return target;
        }
        let mut found = target;
        for place in &self.vintage.domains.of_cpu[target] {
            let domain = &self.vintage.domains.all[place.domain];
            if !domain.level.shares_cache {
                break;
            }
            let mut idle = domain.set.iter_common(&self.q.idle);
            found = idle.find(|&cpu| self.q.tasks[task].allowed(cpu)).unwrap_or(found);
            if domain.set.contains(waker) && domain.set.contains(prev) {
                break;
            }
        }
        found
    }

    /// The first group within the cache that is completely idle, cores before hyperthreads of the target's
    /// core.
    fn idle_group(&self, task: TaskIx, prev: CpuIx, target: CpuIx) -> CpuIx {
        if self.idles(target) {
            return target;
        }
        let near = self.domains.llc_of[prev] == self.domains.llc_of[target];
        if prev != target && near && self.idles(prev) {
            return prev;
        }
        for place in self.vintage.domains.of_cpu[target].iter().rev() {
            let domain = &self.vintage.domains.all[place.domain];
            if !domain.level.shares_cache {
                continue;
            }
            for group in domain.from(place.group).map(|g| &domain.groups[g]) {
                let first = group.cpus.iter().copied().find(|&cpu| self.q.tasks[task].allowed(cpu));
                match first {
                    Some(first) if group.cpus.iter().all(|&cpu| self.idles(cpu)) => return first,
                    _ => {}
                }
            }
        }
        target
    }

    /// Where a new task starts.
    fn start_cpu(&self, task: TaskIx, parent: CpuIx) -> CpuIx {
        let domains = &self.vintage.domains;
        let places = |cpu: CpuIx, below: usize| {
            let of_cpu = &domains.of_cpu[cpu];
            let fits = |p: &&super::domains::Place| {
                let domain = &domains.all[p.domain];
                domain.level.places && domain.weight() < below
            };
            of_cpu.iter().rev().find(fits).copied()
        };
        let mut cpu = parent;
        let mut next = places(cpu, usize::MAX);
        while let Some(place) = next {
            let domain = &domains.all[place.domain];
            if let Some(group) = self.idlest_group(task, place) {
                cpu = self.idlest_of(task, &domain.groups[group].cpus, cpu).unwrap_or(cpu);
            }
            next = places(cpu, domain.weight());
        }
        cpu
    }

    /// The least loaded other group, if the own one is busier by more than half of the domain's tolerance.
    fn idlest_group(&self, task: TaskIx, place: super::domains::Place) -> Option<usize> {
        let domain = &self.vintage.domains.all[place.domain];
        let load = |g: usize| {
            let group = &domain.groups[g];
            group.cpus.iter().map(|&c| self.load_of(c)).sum::<u64>() * POWER / group.power
        };
        let allowed = |g: &usize| domain.groups[*g].cpus.iter().any(|&c| self.q.tasks[task].allowed(c));
        let own = if allowed(&place.group) { load(place.group) } else { 0 };
        let others = domain.from(place.group).skip(1).filter(allowed);
        let (least, group) = others.map(|g| (load(g), g)).min_by_key(|&(load, _)| load)?;
        let tolerates = 100 + (domain.level.imbalance_pct - 100) / 2;
        (100 * own >= tolerates * least).then_some(group)
    }

    fn idlest_of(&self, task: TaskIx, cpus: &[CpuIx], this: CpuIx) -> Option<CpuIx> {
        let allowed = cpus.iter().copied().filter(|&c| self.q.tasks[task].allowed(c));
        allowed.min_by_key(|&c| (self.load_of(c), c != this))
    }
}

#[cfg(test)]
mod tests {
    use crate::cpu_set::CpuSet;
    use crate::machine_file::MachineModel;
    use crate::sched::{CpuIx, Effects, FairOptions, Kernel, Scheduler, TaskParams, VintageCfs, Wake};
    use crate::streams::Streams;
    use corun_model::Linux;
    use std::rc::Rc;

    /// Where a task that slept on CPU 0 of four cores of two hyperthreads is queued when CPU 0 wakes it while these are busy.
    fn woken(linux: Linux, busy: &[CpuIx]) -> CpuIx {
        let machine = MachineModel::shipped("arms16-i7-950").unwrap().machine;
        let n = machine.cpu_count();
        let kernel = Kernel::of(linux).unwrap();
        let mut s = VintageCfs::new(&machine, FairOptions::default(), kernel, &Streams::new(1));
        let only = |cpu: CpuIx| Some(Rc::new(CpuSet::of(n, [cpu])));
        let task =
            |affinity| TaskParams { group: None, weight: 1024, batch: false, slice_ns: None, affinity };
        let mut fx = Effects::default();
        s.add_task(&task(only(0)));
        busy.iter().for_each(|&cpu| s.add_task(&task(only(cpu))));
        s.wake(0, 0, Wake::Fresh, &mut fx);
        assert_eq!(s.pick(0, 0, &mut fx).task, Some(0));
        s.block(1_000, 0, false);
        assert_eq!(s.pick(1_000, 0, &mut fx).task, None);
        for (i, &cpu) in busy.iter().enumerate() {
            assert_eq!(s.wake(2_000, i + 1, Wake::Fresh, &mut fx), cpu);
            s.pick(2_000, cpu, &mut fx);
        }
        s.set_affinity(0, None);
        s.wake(5_000_000, 0, Wake::From(0), &mut fx)
    }

    #[test]
    fn a_woken_task_takes_an_idle_core_or_a_sibling_or_waits_as_in_its_kernel() {
        let (old, middle, new) = (Linux(2, 6), Linux(3, 8), Linux(3, 14));
        // Its CPU idles; it and its sibling are busy, and a core idles; cores have one busy thread each; so does its own alone.
        let cases: [(&[CpuIx], [CpuIx; 3]); 4] = [
            (&[], [0, 0, 0]),
            (&[0, 4], [0, 1, 1]),
            (&[0, 1, 2, 3], [4, 4, 4]),
            (&[0, 4, 1, 2, 3], [0, 0, 0]),
        ];
        for (busy, expected) in cases {
            assert_eq!([old, middle, new].map(|linux| woken(linux, busy)), expected, "{busy:?}");
        }
    }
}
