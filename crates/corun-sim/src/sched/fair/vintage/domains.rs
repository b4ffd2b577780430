//! The scheduling domains of the older kernels: hyperthreads of a core, cores of a cache, a node, and levels beyond it.
//!
//! Source: `build_sched_domains` with the initializers of each level; `sched_init_numa` and `build_overlap_sched_groups` for nodes by
//! distance. A domain of one group is left out, but passes on that its CPUs should be spread (`SD_PREFER_SIBLING`). A group's power is
//! the capacity of its CPUs: 1024 for a core of one thread, 1178 for one of several. Limits: the time of interrupts and real-time tasks
//! does not reduce a CPU's power. Books, and packages of several nodes, have a level only if the distance table has one.

use super::kernel::{Kernel, Nodes};
use crate::cpu_set::CpuSet;
use crate::sched::CpuIx;
use corun_model::Machine;

/// The scheduler's power of a CPU that shares nothing.
pub const POWER: u64 = 1024;
/// The power of a core with several hyperthreads (`smt_gain`).
const SMT_POWER: u64 = 1178;
/// Beyond this distance tasks are neither woken nor started (`RECLAIM_DISTANCE`).
const NEAR: u32 = 30;

/// The figures of a domain's level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// How much busier, in percent of the own load, another group must be.
    pub imbalance_pct: u64,
    /// A busy CPU balances less often by this factor.
    pub busy_factor: u64,
    /// The shortest interval between balances, in milliseconds.
    pub least_ms: u64,
    /// The longest.
    pub most_ms: u64,
    /// Failed balances before a cache-hot task is moved.
    pub cache_nice_tries: u32,
    /// Which average of a load a busy CPU compares.
    pub busy_idx: usize,
    /// The same for an idle one. One that has just run out of tasks, and placement, take the load itself.
    pub idle_idx: usize,
    /// Its CPUs are threads of one core.
    pub shares_core: bool,
    /// Its CPUs share a cache.
    pub shares_cache: bool,
    /// Tasks are started and woken across it.
    pub places: bool,
    /// Whether tasks should be spread over its siblings (`SD_PREFER_SIBLING`).
    pub prefers_siblings: bool,
}

const SMT: Level = Level {
    imbalance_pct: 110,
    busy_factor: 64,
    least_ms: 1,
    most_ms: 2,
    cache_nice_tries: 0,
    busy_idx: 0,
    idle_idx: 0,
    shares_core: true,
    shares_cache: true,
    places: true,
    prefers_siblings: false,
};

const CACHE: Level =
    Level { imbalance_pct: 125, most_ms: 4, cache_nice_tries: 1, busy_idx: 2, shares_core: false, ..SMT };

const NODE: Level = Level { idle_idx: 1, shares_cache: false, prefers_siblings: true, ..CACHE };

fn beyond(kernel: &Kernel, cpus: usize, distance: u32) -> Level {
    let (least_ms, most_ms) = match kernel.nodes {
        Nodes::OneLevel => (8, 32),
        Nodes::ByDistance => (cpus as u64, 2 * cpus as u64),
    };
    Level {
        busy_factor: 32,
        least_ms,
        most_ms,
        cache_nice_tries: 2,
        busy_idx: 3,
        idle_idx: 2,
        places: kernel.nodes == Nodes::OneLevel || distance <= NEAR,
        prefers_siblings: false,
        ..NODE
    }
}

/// Some CPUs of a domain.
#[derive(Clone, Debug)]
pub struct Group {
    /// Which.
    pub set: CpuSet,
    /// The same in order.
    pub cpus: Vec<CpuIx>,
    /// Their total power.
    pub power: u64,
    /// Its capacity in tasks.
    pub capacity: u64,
    /// A balance within it has failed because tasks are pinned.
    pub pinned: bool,
}

/// A domain.
#[derive(Clone, Debug)]
pub struct Domain {
    /// The figures of its level.
    pub level: Level,
    /// Its CPUs.
    pub set: CpuSet,
    /// Its groups.
    pub groups: Vec<Group>,
    /// Whether the level below prefers its siblings.
    pub spreads: bool,
}

impl Domain {
    /// How many CPUs it has.
    pub fn weight(&self) -> usize {
        self.set.len()
    }

    /// The numbers of its groups, from `first` on, wrapping around.
    pub fn from(&self, first: usize) -> impl Iterator<Item = usize> {
        let n = self.groups.len();
        (0..n).map(move |i| (first + i) % n)
    }
}

/// A CPU's place in a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The domain.
    pub domain: usize,
    /// Its group there.
    pub group: usize,
}

/// All domains of a machine.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    /// The domains.
    pub all: Vec<Domain>,
    /// By CPU, from the smallest to the largest.
    pub of_cpu: Vec<Vec<Place>>,
    /// The power of each CPU.
    pub power: Vec<u64>,
}

/// A level while domains are made: its figures, and the CPUs that each CPU has there.
struct Tier {
    level: Level,
    spans: Vec<CpuSet>,
}

impl Domains {
    /// The domains of a machine under a kernel.
    pub fn of(machine: &Machine, kernel: &Kernel) -> Domains {
        let cpus = machine.cpus();
        let n = cpus.len();
        let together = |alike: &dyn Fn(CpuIx, CpuIx) -> bool| -> Vec<CpuSet> {
            (0..n).map(|a| CpuSet::of(n, (0..n).filter(|&b| alike(a, b)))).collect()
        };
        let mut tiers = vec![
            Tier { level: SMT, spans: together(&|a, b| cpus[a].core == cpus[b].core) },
            Tier {
                level: Level { prefers_siblings: kernel.caches_prefer_siblings, ..CACHE },
                spans: together(&|a, b| cpus[a].llc == cpus[b].llc),
            },
            Tier { level: NODE, spans: together(&|a, b| cpus[a].node == cpus[b].node) },
        ];
        let distance = |a: CpuIx, b: CpuIx| match (cpus[a].node, cpus[b].node) {
            (a, b) if a == b => 0,
            (a, b) => machine.node_distance(a, b).unwrap_or(20),
        };
        let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
        let mut distances: Vec<u32> = pairs.map(|(a, b)| distance(a, b)).filter(|&d| d > 0).collect();
        distances.sort_unstable();
        distances.dedup();
        if kernel.nodes == Nodes::OneLevel {
            distances.drain(..distances.len().saturating_sub(1));
        }
        for farthest in distances {
            let spans = together(&|a, b| distance(a, b) <= farthest);
            let level = beyond(kernel, spans.first().map_or(0, CpuSet::len), farthest);
            tiers.push(Tier { level, spans });
        }
        let threads = &tiers[0].spans;
        let power =
            threads.iter().map(|t| if t.len() > 1 { SMT_POWER / t.len() as u64 } else { POWER }).collect();
        let mut domains = Domains { all: Vec::new(), of_cpu: vec![Vec::new(); n], power };
        // The set of each CPU below the present level, and whether it prefers its siblings.
        let mut below: Vec<(CpuSet, bool)> = (0..n).map(|c| (CpuSet::of(n, [c]), false)).collect();
        for Tier { level, spans } in &tiers {
            domains.add_tier(kernel, *level, spans, &mut below);
        }
        domains
    }

    fn add_tier(&mut self, kernel: &Kernel, level: Level, spans: &[CpuSet], below: &mut [(CpuSet, bool)]) {
        let n = spans.len();
        let first = self.all.len();
        let was = below.to_vec();
        for (cpu, span) in spans.iter().enumerate() {
            let (child, spreads) = &was[cpu];
            if child == span {
                // One group: nothing to balance, but the preference holds.
                below[cpu].1 |= level.prefers_siblings;
                continue;
            }
            let place = match (first..self.all.len()).find(|&d| self.all[d].set == *span) {
                Some(d) => d,
                None => {
                    let mut covered = CpuSet::empty(n);
                    let mut groups = Vec::new();
                    for member in span.iter() {
                        if covered.contains(member) {
                            continue;
                        }
                        let set = was[member].0.clone();
                        set.iter().for_each(|c| covered.insert(c));
                        groups.push(self.group(kernel, set));
                    }
                    self.all.push(Domain { level, set: span.clone(), groups, spreads: *spreads });
                    self.all.len() - 1
                }
            };
            let group = self.all[place].groups.iter().position(|g| g.set.contains(cpu));
            self.of_cpu[cpu].push(Place { domain: place, group: group.expect("a CPU is in its domain") });
            below[cpu] = (span.clone(), level.prefers_siblings);
        }
    }

    fn group(&self, kernel: &Kernel, set: CpuSet) -> Group {
        let cpus: Vec<CpuIx> = set.iter().collect();
        let power: u64 = cpus.iter().map(|&c| self.power[c]).sum();
        let worth = (power + POWER / 2) / POWER;
        let capacity = if kernel.counts_cores {
            let threads = (POWER * cpus.len() as u64).div_ceil(power);
            (cpus.len() as u64 / threads).min(worth)
        } else {
            worth
        };
        // On cores of more than two hyperthreads, a hyperthread is worth less than half of a CPU, and still
        // holds a task.
        Group { set, cpus, power, capacity: capacity.max(1), pinned: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine_file::MachineModel;
    use corun_model::Linux;

    fn domains(machine: &str, linux: Linux) -> Domains {
        Domains::of(&MachineModel::shipped(machine).unwrap().machine, &Kernel::of(linux).unwrap())
    }

    /// CPUs and groups of a CPU's domains, and the capacity of a group of each.
    fn shape(d: &Domains, cpu: CpuIx) -> Vec<(usize, usize, u64)> {
        let of = |p: &Place| (d.all[p.domain].weight(), d.all[p.domain].groups.len());
        d.of_cpu[cpu].iter().map(|p| (of(p).0, of(p).1, d.all[p.domain].groups[p.group].capacity)).collect()
    }

    #[test]
    fn a_socket_of_ten_cores_holds_twelve_tasks_in_3_8_and_ten_in_3_14() {
        assert_eq!(
            shape(&domains("atc16-haswell-80", Linux(3, 8)), 0),
            [(2, 2, 1), (20, 10, 1), (80, 4, 12)]
        );
        assert_eq!(
            shape(&domains("atc16-haswell-80", Linux(3, 14)), 0),
            [(2, 2, 1), (20, 10, 1), (80, 4, 10)]
        );
    }

    #[test]
    fn tasks_spread_over_nodes_although_a_node_with_one_cache_has_no_domain() {
        let d = domains("atc16-haswell-80", Linux(3, 8));
        let spreads: Vec<bool> = d.of_cpu[0].iter().map(|p| d.all[p.domain].spreads).collect();
        assert_eq!(spreads, [false, false, true]);
    }

    #[test]
    fn dies_of_two_distances_are_two_levels_since_3_8_and_one_before() {
        let new = domains("cc-magny-cours-48", Linux(3, 8));
        assert_eq!(shape(&new, 47), [(6, 6, 1), (12, 2, 6), (48, 4, 12)]);
        let old = domains("cc-magny-cours-48", Linux(2, 6));
        assert_eq!(shape(&old, 47), [(6, 6, 1), (48, 8, 6)]);
    }

    #[test]
    fn nodes_in_a_row_have_overlapping_groups_and_the_first_nodes_view_counts_for_all() {
        // Three nodes of two CPUs. The outer two are farther from each other.
        let cpus: Vec<_> = (0..6)
            .map(|i| corun_model::machine::Cpu {
                id: corun_model::CpuId(i),
                core: i,
                llc: i / 2,
                socket: i / 2,
                node: i / 2,
            })
            .collect();
        let distances = vec![vec![10, 20, 30], vec![20, 10, 20], vec![30, 20, 10]];
        let row = Machine::new("row", cpus, distances).unwrap();
        let d = Domains::of(&row, &Kernel::of(Linux(3, 8)).unwrap());
        let groups = |cpu: CpuIx| -> Vec<Vec<CpuIx>> {
            let place = d.of_cpu[cpu].last().unwrap();
            d.all[place.domain].groups.iter().map(|g| g.cpus.clone()).collect()
        };
        assert_eq!(groups(0), [vec![0, 1, 2, 3], vec![2, 3, 4, 5]]);
        // All nodes are near the middle one.
        assert_eq!(groups(2), [vec![0, 1], vec![2, 3], vec![4, 5]]);
    }
}
