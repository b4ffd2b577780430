//! A machine: hardware threads (CPUs), cores, LLC domains, sockets, NUMA nodes, and how far apart they are.
//!
//! Pure data with two makers: [`Machine::synthetic`] for tests and models, and the sysfs reader of `corun-linux`.

use thiserror::Error;

/// A hardware thread, by the kernel's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u32);

/// The place of one hardware thread. Numbers are unique in the machine, not per parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The kernel's number.
    pub id: CpuId,
    /// Physical core.
    pub core: u32,
    /// Domain of CPUs that share a last-level cache (a die on many machines).
    pub llc: u32,
    /// Socket (package).
    pub socket: u32,
    /// NUMA node.
    pub node: u32,
}

/// How far apart two CPUs are; ordered from nearest to farthest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// The same hardware thread.
    SameCpu,
    /// Hyperthreads of one core.
    SameCore,
    /// Cores under one last-level cache.
    SameLlc,
    /// One socket, different last-level caches.
    SameSocket,
    /// Different sockets.
    OtherSocket,
}

/// A machine's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name: a model name, or the name of a machine file.
    pub name: String,
    /// CPUs in the order of their ids; ids may have holes (offline CPUs).
    cpus: Vec<Cpu>,
    /// `node_distance[a][b]` as in the ACPI SLIT: 10 is local.
    node_distance: Vec<Vec<u32>>,
}

/// A machine with an impossible shape.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BadMachine {
    /// It has no CPU.
    #[error("a machine needs at least one CPU")]
    NoCpus,
    /// Two CPUs have one id.
    #[error("CPU {0} is listed twice")]
    Twice(u32),
    /// The NUMA distance table is not a square over all nodes.
    #[error("the NUMA distance table has {rows} rows but the CPUs name node {node}")]
    Distances {
        /// Rows in the table.
        rows: usize,
        /// A node that a CPU names.
        node: u32,
    },
    /// Something smaller spans something larger: a core in two sockets, say.
    #[error("{what} {number} lies in more than one {parent}")]
    Nesting {
        /// "core" or "LLC domain".
        what: &'static str,
        /// Its number.
        number: u32,
        /// "LLC domain" or "socket".
        parent: &'static str,
    },
}

impl Machine {
    /// Makes a machine from its CPUs and NUMA distances. An empty table means one node, or equal distances.
    ///
    /// # Errors
    /// [`BadMachine`] if the shape contradicts itself.
    pub fn new(
        name: impl Into<String>,
        mut cpus: Vec<Cpu>,
        mut node_distance: Vec<Vec<u32>>,
    ) -> Result<Machine, BadMachine> {
        cpus.sort_by_key(|c| c.id);
        let last_node = cpus.iter().map(|c| c.node).max().ok_or(BadMachine::NoCpus)?;
        if let Some(pair) = cpus.windows(2).find(|w| w[0].id == w[1].id) {
            return Err(BadMachine::Twice(pair[0].id.0));
        }
        let nodes = last_node as usize + 1;
        if node_distance.is_empty() {
            node_distance =
                (0..nodes).map(|a| (0..nodes).map(|b| if a == b { 10 } else { 20 }).collect()).collect();
        }
        if node_distance.len() < nodes || node_distance.iter().any(|r| r.len() != node_distance.len()) {
            return Err(BadMachine::Distances { rows: node_distance.len(), node: last_node });
        }
        nested(&cpus, |c| c.core, |c| c.llc, "core", "LLC domain")?;
        nested(&cpus, |c| c.llc, |c| c.socket, "LLC domain", "socket")?;
        Ok(Machine { name: name.into(), cpus, node_distance })
    }

    /// A regular machine: every socket has `llcs` LLC domains (each its own NUMA node), each of them `cores`
    /// cores of `threads` hardware threads. CPU numbers go round the cores first and the hyperthreads last, as
    /// Linux numbers them.
    ///
    /// # Panics
    /// When any count is zero.
    pub fn synthetic(sockets: u32, llcs: u32, cores: u32, threads: u32) -> Machine {
        assert!(sockets * llcs * cores * threads > 0, "every count must be at least 1");
        let total_cores = sockets * llcs * cores;
        let cpus = (0..threads)
            .flat_map(|t| {
                (0..total_cores).map(move |core| {
                    let llc = core / cores;
                    Cpu { id: CpuId(t * total_cores + core), core, llc, socket: llc / llcs, node: llc }
                })
            })
            .collect();
        let nodes = (sockets * llcs) as usize;
        let distance = |a: usize, b: usize| match (a == b, a / llcs as usize == b / llcs as usize) {
            (true, _) => 10,
            (false, true) => 16,
            (false, false) => 21,
        };
        let table = (0..nodes).map(|a| (0..nodes).map(|b| distance(a, b)).collect()).collect();
        let name = format!("synthetic {sockets}x{llcs}x{cores}x{threads}");
        Machine::new(name, cpus, table).expect("a regular machine is well formed")
    }

    /// All CPUs, in the order of their ids.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// Number of CPUs.
    pub fn cpu_count(&self) -> usize {
        self.cpus.len()
    }

    /// One CPU. `None` if the machine has no CPU with that number.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |c| c.id).ok().map(|i| &self.cpus[i])
    }

    /// Number of distinct values of a level: `machine.count(|c| c.socket)` sockets.
    pub fn count(&self, level: impl Fn(&Cpu) -> u32) -> usize {
        self.cpus.iter().map(level).collect::<std::collections::BTreeSet<_>>().len()
    }

    /// How far apart two CPUs are. Unknown CPUs are at the largest distance.
    pub fn distance(&self, a: CpuId, b: CpuId) -> Distance {
        match (self.cpu(a), self.cpu(b)) {
            (Some(a), Some(b)) if a.id == b.id => Distance::SameCpu,
            (Some(a), Some(b)) if a.core == b.core => Distance::SameCore,
            (Some(a), Some(b)) if a.llc == b.llc => Distance::SameLlc,
            (Some(a), Some(b)) if a.socket == b.socket => Distance::SameSocket,
            _ => Distance::OtherSocket,
        }
    }

    /// NUMA distance between two nodes; 10 is local. `None` for an unknown node.
    pub fn node_distance(&self, a: u32, b: u32) -> Option<u32> {
        self.node_distance.get(a as usize)?.get(b as usize).copied()
    }
}

fn nested(
    cpus: &[Cpu],
    inner: impl Fn(&Cpu) -> u32,
    outer: impl Fn(&Cpu) -> u32,
    what: &'static str,
    parent: &'static str,
) -> Result<(), BadMachine> {
    let mut seen = std::collections::BTreeMap::new();
    for c in cpus {
        let home = *seen.entry(inner(c)).or_insert_with(|| outer(c));
        if home != outer(c) {
            return Err(BadMachine::Nesting { what, number: inner(c), parent });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_synthetic_machine_has_what_was_asked_for() {
        let m = Machine::synthetic(2, 2, 6, 2);
        assert_eq!(m.cpu_count(), 48);
        assert_eq!(m.count(|c| c.socket), 2);
        assert_eq!(m.count(|c| c.llc), 4);
        assert_eq!(m.count(|c| c.core), 24);
        assert_eq!(m.distance(CpuId(0), CpuId(24)), Distance::SameCore);
        assert_eq!(m.distance(CpuId(0), CpuId(5)), Distance::SameLlc);
        assert_eq!(m.distance(CpuId(0), CpuId(6)), Distance::SameSocket);
        assert_eq!(m.distance(CpuId(0), CpuId(12)), Distance::OtherSocket);
        assert_eq!(m.node_distance(0, 1), Some(16));
        assert_eq!(m.node_distance(0, 2), Some(21));
    }

    #[test]
    fn shapes_that_contradict_themselves_are_refused() {
        let cpu = |id, core, llc, socket| Cpu { id: CpuId(id), core, llc, socket, node: 0 };
        assert_eq!(Machine::new("m", vec![], vec![]), Err(BadMachine::NoCpus));
        assert_eq!(
            Machine::new("m", vec![cpu(1, 0, 0, 0), cpu(1, 1, 0, 0)], vec![]),
            Err(BadMachine::Twice(1))
        );
        let split = Machine::new("m", vec![cpu(0, 0, 0, 0), cpu(1, 1, 0, 1)], vec![]);
        assert_eq!(split, Err(BadMachine::Nesting { what: "LLC domain", number: 0, parent: "socket" }));
    }

    proptest! {
        #[test]
        fn distance_is_symmetric_and_zero_only_at_home(s in 1u32..4, l in 1u32..3, c in 1u32..5, t in 1u32..3, a in 0u32..200, b in 0u32..200) {
            let m = Machine::synthetic(s, l, c, t);
            let n = m.cpu_count() as u32;
            let (a, b) = (CpuId(a % n), CpuId(b % n));
            prop_assert_eq!(m.distance(a, b), m.distance(b, a));
            prop_assert_eq!(m.distance(a, b) == Distance::SameCpu, a == b);
        }
    }
}
