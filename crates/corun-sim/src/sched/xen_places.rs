//! The best pCPU for a vCPU under Xen's credit scheduler, after `_csched_cpu_pick` of Xen 4.0.2.
//!
//! Idle pCPUs that the vCPU may use are compared one after the other, in a circle from the best so far. One of the same socket is
//! better if more threads of its core are idle. One of another socket is better if more than twice as many CPUs of that socket are
//! idle. The present pCPU of the vCPU counts as idle. Among equally good ones the choice rotates, so that vCPUs that move one after the
//! other do not follow each other.
//!
//! Limits: neither power saving nor cpupools.

use super::CpuIx;
use crate::cpu_set::CpuSet;
use corun_model::Machine;

/// The parts of a machine, and the next turn in each.
#[derive(Debug)]
pub(super) struct Places {
    /// By CPU, the CPUs of its core.
    cores: Vec<CpuSet>,
    /// By CPU, those of its socket.
    sockets: Vec<CpuSet>,
    /// For each CPU, the one of its part that was last chosen from there.
    last: Vec<CpuIx>,
}

impl Places {
    pub(super) fn new(machine: &Machine) -> Places {
        let cpus = machine.cpus();
        let alike = |of: &dyn Fn(usize) -> u32| -> Vec<CpuSet> {
            let part = |i| (0..cpus.len()).filter(move |&c| of(c) == of(i));
            (0..cpus.len()).map(|i| CpuSet::of(cpus.len(), part(i))).collect()
        };
        Places {
            cores: alike(&|i| cpus[i].core),
            sockets: alike(&|i| cpus[i].socket),
            last: vec![cpus.len() - 1; cpus.len()],
        }
    }

    /// The best pCPU for a vCPU that is on `home`; `goes`: it will go there.
    pub(super) fn best(&mut self, home: CpuIx, allowed: Option<&CpuSet>, idle: &CpuSet, goes: bool) -> CpuIx {
        if idle.is_empty() {
            return home;
        }
        let mut left = match allowed {
            None => idle.clone(),
            Some(set) => CpuSet::of(self.last.len(), idle.iter_common(set)),
        };
        left.remove(home);
        let mut idle = idle.clone();
        idle.insert(home);
        let mut best = home;
        while let Some(next) = left.next_cyclic(best + 1) {
            let is_near = self.sockets[best].contains(next);
            let (parts, factor) = if is_near { (&self.cores, 1) } else { (&self.sockets, 2) };
            let idle_with = |cpu: CpuIx| parts[cpu].iter_common(&idle).count();
            let looked_at = if factor * idle_with(best) < idle_with(next) {
                let part = &parts[next];
                let turn = left.next_common(part, self.last[next] + 1);
                best = turn.or_else(|| left.next_common(part, 0)).expect("one of it is left: the next");
                if goes {
                    self.last[next] = best;
                }
                &self.cores[best]
            } else {
                &parts[next]
            };
            looked_at.iter().for_each(|cpu| left.remove(cpu));
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(machine: &Machine, home: CpuIx, idle: &[CpuIx]) -> CpuIx {
        let n = machine.cpu_count();
        Places::new(machine).best(home, None, &CpuSet::of(n, idle.iter().copied()), false)
    }

    #[test]
    fn an_idle_core_is_better_than_an_idle_thread_of_a_busy_one() {
        // A socket of four cores with two threads; core 0 has CPUs 0 and 1.
        let m = Machine::synthetic(1, 1, 4, 2);
        let core = |i: usize| m.cpus()[i].core;
        let pair: Vec<usize> = (0..8).filter(|&i| core(i) == core(7)).collect();
        let single = (0..8).find(|&i| core(i) != core(7) && core(i) != core(0)).unwrap();
        assert_eq!(core(best(&m, 0, &[single, pair[0], pair[1]])), core(7));
        assert_eq!(best(&m, 0, &[single]), 0, "a thread of a busy core is no better than its own");
    }

    #[test]
    fn another_socket_is_better_only_with_more_than_twice_as_many_idle() {
        // Two sockets of four cores. The own pCPU counts as idle.
        let m = Machine::synthetic(2, 1, 4, 1);
        assert_eq!(best(&m, 0, &[4, 5]), 0);
        assert!(best(&m, 0, &[4, 5, 6]) >= 4);
        assert_eq!(best(&m, 0, &[1, 4, 5, 6, 7]), 0, "two against four are not more than twice as many");
        assert_eq!(best(&m, 0, &[1, 2, 3]), 0, "of one socket all cores are alike");
    }

    #[test]
    fn vcpus_that_move_one_after_the_other_go_to_different_places() {
        let m = Machine::synthetic(2, 1, 4, 1);
        let mut places = Places::new(&m);
        let idle = CpuSet::of(8, [4, 5, 6, 7]);
        let goes: Vec<usize> = (0..3).map(|home| places.best(home, None, &idle, true)).collect();
        assert_eq!(goes, [4, 5, 6]);
        let set = CpuSet::of(8, [0, 4]);
        let goes = places.best(0, Some(&set), &idle, false);
        assert_eq!(goes, 4, "it goes only where it may, but all that are idle count");
        assert_eq!(places.best(0, Some(&CpuSet::of(8, 0..4)), &idle, false), 0);
    }
}
