//! Scheduling domains: the nested spans of CPUs over which Linux places and balances tasks.
//!
//! Built from the machine's shape as in `build_sched_domains`: hyperthreads of a core, cores of a last-level cache, caches of a socket,
//! sockets. A span equal to its child's is left out. Limit: one NUMA level above the socket, with any distance table.

use crate::cpu_set::CpuSet;
use crate::sched::CpuIx;
use corun_model::Machine;

/// The resource that the members of a domain share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A core.
    Smt,
    /// A last-level cache.
    Llc,
    /// A socket.
    Package,
    /// The machine.
    Numa,
}

/// One domain: a span and its groups (the child domains' spans).
#[derive(Clone, Debug)]
pub struct Domain {
    /// The resource that its members share.
    pub level: Level,
    /// Its CPUs.
    pub span: Vec<CpuIx>,
    /// The same as a set.
    pub set: CpuSet,
    /// Its CPUs, divided into groups.
    pub groups: Vec<Vec<CpuIx>>,
    /// The same as sets.
    pub sets: Vec<CpuSet>,
    /// The number of its first group. The groups of all domains are numbered consecutively.
    pub first_group: usize,
    /// How much busier (in percent of the local load) another group must be.
    pub imbalance_pct: u64,
    /// Failed balances before a cache-hot task may be moved.
    pub cache_nice_tries: u32,
    /// Its groups are domains below the NUMA node, over which tasks are spread evenly (`SD_PREFER_SIBLING`). Single
    /// CPUs are no domains.
    pub prefers_siblings: bool,
}

/// All domains of a machine.
#[derive(Clone, Debug)]
pub struct Domains {
    /// The domains.
    pub all: Vec<Domain>,
    /// Per CPU: its domains from the smallest to the largest.
    pub of_cpu: Vec<Vec<usize>>,
    /// Per CPU: its group in each of those domains.
    pub group_of: Vec<Vec<usize>>,
    /// The same, with the groups of all domains numbered consecutively.
    pub groups_of: Vec<Vec<usize>>,
    /// Per CPU: the number of its LLC.
    pub llc_of: Vec<usize>,
    /// Per LLC: its CPUs.
    pub llcs: Vec<CpuSet>,
    /// Per CPU: the other hyperthreads of its core.
    pub siblings: Vec<Vec<CpuIx>>,
}

impl Domains {
    /// The domains of a machine.
    pub fn of(machine: &Machine) -> Domains {
        let cpus = machine.cpus();
        let n = cpus.len();
        type Key = fn(&corun_model::machine::Cpu) -> u32;
        let levels: [(Level, Key); 4] = [
            (Level::Smt, |c| c.core),
            (Level::Llc, |c| c.llc),
            (Level::Package, |c| c.socket),
            (Level::Numa, |_| 0),
        ];
        let mut all: Vec<Domain> = Vec::new();
        let mut of_cpu: Vec<Vec<usize>> = vec![Vec::new(); n];
        for (level, key) in levels {
            let mut spans = std::collections::BTreeMap::<u32, Vec<CpuIx>>::new();
            cpus.iter().enumerate().for_each(|(i, c)| spans.entry(key(c)).or_default().push(i));
            for span in spans.into_values() {
                let child = |cpu: CpuIx| of_cpu[cpu].last().copied();
                let mut groups: Vec<Vec<CpuIx>> = Vec::new();
                for &cpu in &span {
                    match child(cpu) {
                        Some(d) if all[d].span[0] == cpu => groups.push(all[d].span.clone()),
                        Some(_) => {}
                        None => groups.push(vec![cpu]),
                    }
                }
                if groups.len() < 2 {
                    continue;
                }
                let child_level = child(span[0]).map(|d| all[d].level);
                let (imbalance_pct, cache_nice_tries) = match level {
                    Level::Smt => (110, 0),
                    Level::Llc => (117, 1),
                    Level::Package => (117, 1),
                    Level::Numa => (125, 2),
                };
                span.iter().for_each(|&c| of_cpu[c].push(all.len()));
                let prefers_siblings = child_level.is_some_and(|l| l != Level::Numa);
                let first_group = all.last().map_or(0, |d| d.first_group + d.groups.len());
                let sets = groups.iter().map(|g| CpuSet::of(n, g.iter().copied())).collect();
                all.push(Domain {
                    level,
                    set: CpuSet::of(n, span.iter().copied()),
                    span,
                    groups,
                    sets,
                    first_group,
                    imbalance_pct,
                    cache_nice_tries,
                    prefers_siblings,
                });
            }
        }
        let mut llc_numbers: Vec<u32> = cpus.iter().map(|c| c.llc).collect();
        llc_numbers.sort_unstable();
        llc_numbers.dedup();
        let llc_of: Vec<usize> =
            cpus.iter().map(|c| llc_numbers.binary_search(&c.llc).expect("own LLC")).collect();
        let llcs =
            (0..llc_numbers.len()).map(|l| CpuSet::of(n, (0..n).filter(|&c| llc_of[c] == l))).collect();
        let place = |d: &usize, cpu: CpuIx| {
            all[*d].groups.iter().position(|g| g.contains(&cpu)).expect("a CPU is in a group of its domain")
        };
        let group_of: Vec<Vec<usize>> =
            of_cpu.iter().enumerate().map(|(cpu, ds)| ds.iter().map(|d| place(d, cpu)).collect()).collect();
        let numbered = |(ds, groups): (&Vec<usize>, &Vec<usize>)| {
            ds.iter().zip(groups).map(|(&d, g)| all[d].first_group + g).collect()
        };
        let groups_of = of_cpu.iter().zip(&group_of).map(numbered).collect();
        let siblings =
            (0..n).map(|a| (0..n).filter(|&b| a != b && cpus[a].core == cpus[b].core).collect()).collect();
        Domains { all, of_cpu, group_of, groups_of, llc_of, llcs, siblings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_of_every_level_has_every_domain() {
        let d = Domains::of(&Machine::synthetic(2, 2, 3, 2));
        let levels: Vec<(Level, usize, usize)> = d.of_cpu[0]
            .iter()
            .map(|&i| (d.all[i].level, d.all[i].span.len(), d.all[i].groups.len()))
            .collect();
        assert_eq!(
            levels,
            [(Level::Smt, 2, 2), (Level::Llc, 6, 3), (Level::Package, 12, 2), (Level::Numa, 24, 2)]
        );
        assert_eq!((d.siblings[0].clone(), d.llcs.len(), d.llc_of[23]), (vec![12], 4, 3));
    }

    #[test]
    fn spans_equal_to_their_child_are_left_out() {
        let d = Domains::of(&Machine::synthetic(1, 1, 2, 1));
        assert_eq!(d.of_cpu[1].len(), 1);
        assert_eq!((d.all[0].level, d.all[0].groups.len()), (Level::Llc, 2));
        assert!(Domains::of(&Machine::synthetic(1, 1, 1, 1)).all.is_empty());
    }
}
