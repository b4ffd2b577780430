//! NUMA: how long DRAM takes to answer a core, by the distance between the core's node and the memory's.
//!
//! Method: a task's memory is on its *home*: the node where it first computed (Linux's first touch), or where the first thread of its
//! program did, if that thread wrote all data (`placed = "main"`). Interleaved data, and data that threads share and have written
//! together, is *spread* over nodes: over all, or in proportion to the threads that first computed on each ([`Homes`]). The latency
//! grows linearly with the distance table, from the local one at 10 to the remote one at the table's largest entry. Traffic loads the
//! memory of its target node, from any core ([`super::membw`]).
//!
//! Source: ATC'16 §2 (local and remote access have different costs); Linux's default memory policy.
//! Limits: no page migration; spread data is spread evenly over pages that are used evenly.

use crate::machine_file::MachineModel;

/// DRAM latencies between all nodes.
#[derive(Clone, Debug)]
pub struct Numa {
    nodes: usize,
    /// Cycles, by node of the core and home.
    cycles: Vec<f64>,
}

impl Numa {
    /// The latencies of a machine.
    pub fn new(model: &MachineModel) -> Numa {
        let machine = &model.machine;
        let nodes = machine.cpus().iter().map(|c| c.node).max().map_or(1, |n| n as usize + 1);
        let distance = |a: usize, b: usize| machine.node_distance(a as u32, b as u32).unwrap_or(10);
        let pairs = || (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
        let farthest = pairs().map(|(a, b)| distance(a, b)).max().unwrap_or(10);
        let span = f64::from(farthest.max(11) - 10);
        let (local, remote) = (model.latency.dram_local_ns as f64, model.latency.dram_remote_ns as f64);
        let ns = |d: u32| local + (remote - local) * f64::from(d.max(10) - 10) / span;
        let cycles = pairs().map(|(a, b)| ns(distance(a, b)) * model.ghz).collect();
        Numa { nodes, cycles }
    }

    /// Cycles until DRAM of node `home` answers a core of node `node`, without load.
    pub fn cycles(&self, node: u32, home: u32) -> f64 {
        self.cycles[node as usize * self.nodes + home as usize]
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }
}

/// Where the data of a program lives.
#[derive(Clone, Debug, Default)]
pub struct Homes {
    /// The node where its first thread first computed.
    pub main: Option<u32>,
    /// Threads that first computed on each node.
    by_node: Vec<u32>,
    threads: u32,
}

impl Homes {
    /// A thread computes for the first time.
    pub fn begin(&mut self, node: u32) {
        self.main.get_or_insert(node);
        if self.by_node.len() <= node as usize {
            self.by_node.resize(node as usize + 1, 0);
        }
        self.by_node[node as usize] += 1;
        self.threads += 1;
    }

    /// The part of the data that its threads have written together on a node.
    pub fn part(&self, node: usize) -> f64 {
        let here = self.by_node.get(node).copied().unwrap_or(0);
        f64::from(here) / f64::from(self.threads.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_follows_the_distance_table() {
        let m = MachineModel::shipped("cc-magny-cours-48").unwrap();
        let numa = Numa::new(&m);
        assert_eq!(numa.nodes(), 8);
        assert!((numa.cycles(0, 0) - 80.0 * 2.1).abs() < 1e-9);
        assert!((numa.cycles(0, 1) - 115.0 * 2.1).abs() < 1e-9);
        assert!((numa.cycles(0, 7) - 150.0 * 2.1).abs() < 1e-9);
    }

    #[test]
    fn what_threads_write_together_lives_where_they_begin() {
        let mut homes = Homes::default();
        [3, 0, 3, 3].into_iter().for_each(|node| homes.begin(node));
        assert_eq!(homes.main, Some(3));
        assert_eq!([0, 1, 2, 3, 4].map(|n| homes.part(n)), [0.25, 0.0, 0.0, 0.75, 0.0]);
    }

    #[test]
    fn a_machine_with_one_node_has_only_local_memory() {
        let numa = Numa::new(&MachineModel::shipped("arms16-i7-950").unwrap());
        assert_eq!(numa.nodes(), 1);
        assert!((numa.cycles(0, 0) - 60.0 * 3.06).abs() < 1e-9);
    }
}
